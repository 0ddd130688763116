/** The targets page: what is scraped, how it goes, and why not. */
import { useState } from 'preact/hooks';
import { useAnswer, useInterval, useRefresh } from '../api/use-answer.ts';
import type { ActiveTarget } from '../api/types.ts';
import { Failure } from '../shell/notice.tsx';
import type { PageProps } from '../shell/pages.tsx';
import { Filters, readFilter, type Filter } from './filters.tsx';
import { labelText, loadTargets, matches } from './load.ts';
import { PoolView } from './pool.tsx';

const REFRESH = 5_000;
/** With more targets than this only pools with trouble start open. */
const FEW = 300;

export function TargetsPage({ search }: PageProps) {
  const filter = readFilter(search);
  const loaded = useAnswer('targets', loadTargets);
  useRefresh(loaded, REFRESH);
  const now = useClock();
  const { value, error } = loaded;
  const all = value?.pools.flatMap((pool) => pool.targets) ?? [];
  const count = (health: string) => all.filter((target) => target.health === health).length;
  const pools = (value?.pools ?? [])
    .map((pool) => ({ pool, shown: pool.targets.filter((target) => fits(target, filter)) }))
    .filter(({ shown }) => shown.length > 0);
  return (
    <div class="page">
      <div class="page-head">
        <h1>Targets</h1>
        {value !== null && (
          <Filters
            page="targets"
            filter={filter}
            total={all.length}
            choices={[
              { name: 'up', title: 'Up', count: count('up') },
              { name: 'down', title: 'Down', count: count('down') },
              { name: 'unknown', title: 'Unknown', count: count('unknown') },
            ]}
          />
        )}
      </div>
      {error !== null && <Failure error={error} onRetry={loaded.reload} />}
      {value !== null && all.length === 0 && (
        <div class="nothing">
          <strong>No targets</strong>
          <p>The configuration has no scrape targets, or relabelling dropped all of them.</p>
        </div>
      )}
      {all.length > 0 && pools.length === 0 && (
        <div class="nothing">
          <strong>No target matches the filter</strong>
        </div>
      )}
      {value !== null &&
        pools.map(({ pool, shown }) => (
          <PoolView
            key={pool.name}
            pool={pool}
            shown={shown}
            sizes={value.sizes}
            now={now}
            startOpen={all.length <= FEW || pool.up < pool.targets.length}
          />
        ))}
    </div>
  );
}

function fits(target: ActiveTarget, filter: Filter): boolean {
  if (filter.state !== '' && target.health !== filter.state) return false;
  return matches(
    filter.text,
    target.scrapePool,
    target.scrapeUrl,
    target.lastError,
    labelText(target.labels),
  );
}

/** The time, every second while the page can be seen. */
function useClock(): number {
  const [now, setNow] = useState(Date.now);
  useInterval(() => setNow(Date.now()), 1000);
  return Math.max(now, Date.now());
}
