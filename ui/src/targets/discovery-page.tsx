/** What discovery found and what relabelling made of it, dropped targets included. */
import { useState } from 'preact/hooks';
import { ask } from '../api/client.ts';
import type { TargetsData } from '../api/types.ts';
import { useAnswer, useRefresh } from '../api/use-answer.ts';
import type { Labels } from '../labels.ts';
import { ChevronIcon } from '../shell/icons.tsx';
import { Failure } from '../shell/notice.tsx';
import type { PageProps } from '../shell/pages.tsx';
import { Filters, readFilter, type Filter } from './filters.tsx';
import { LabelChips } from './label-chips.tsx';
import { labelText, matches } from './load.ts';
import { Relabelling } from './relabelling.tsx';

interface Found {
  readonly discovered: Labels;
  /** Null when dropped. */
  readonly labels: Labels | null;
}

interface FoundPool {
  readonly name: string;
  readonly found: readonly Found[];
  readonly active: number;
  /** All that were dropped; the server may keep only some of them. */
  readonly dropped: number;
}

const REFRESH = 15_000;
const FIRST = 100;

async function load(signal: AbortSignal): Promise<FoundPool[]> {
  const { data } = await ask<TargetsData>('targets', { state: 'any' }, signal);
  const pools = new Map<string, Found[]>();
  const put = (pool: string, found: Found) => {
    const list = pools.get(pool);
    if (list === undefined) pools.set(pool, [found]);
    else list.push(found);
  };
  for (const target of data.activeTargets ?? []) {
    put(target.scrapePool, { discovered: target.discoveredLabels, labels: target.labels });
  }
  for (const target of data.droppedTargets ?? []) {
    const pool = target.scrapePool ?? target.discoveredLabels['job'] ?? '';
    put(pool, { discovered: target.discoveredLabels, labels: null });
  }
  return [...pools.entries()]
    .sort(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }))
    .map(([name, found]) => {
      const active = found.filter((one) => one.labels !== null).length;
      const kept = found.length - active;
      return {
        name,
        found,
        active,
        dropped: Math.max(data.droppedTargetCounts?.[name] ?? 0, kept),
      };
    });
}

export function DiscoveryPage({ search }: PageProps) {
  const filter = readFilter(search);
  const loaded = useAnswer('discovery', load);
  useRefresh(loaded, REFRESH);
  const { value, error } = loaded;
  const total = (pick: (pool: FoundPool) => number) =>
    (value ?? []).reduce((sum, pool) => sum + pick(pool), 0);
  const pools = (value ?? [])
    .map((pool) => ({ pool, shown: pool.found.filter((one) => fits(pool.name, one, filter)) }))
    .filter(({ shown }) => shown.length > 0);
  return (
    <div class="page">
      <div class="page-head">
        <h1>Discovery</h1>
        {value !== null && (
          <Filters
            page="service-discovery"
            filter={filter}
            total={total((pool) => pool.active + pool.dropped)}
            choices={[
              { name: 'active', title: 'Active', count: total((pool) => pool.active) },
              { name: 'dropped', title: 'Dropped', count: total((pool) => pool.dropped) },
            ]}
          />
        )}
      </div>
      {error !== null && <Failure error={error} onRetry={loaded.reload} />}
      {value !== null && pools.length === 0 && (
        <div class="nothing">
          <strong>
            {value.length === 0 ? 'Nothing discovered' : 'Nothing matches the filter'}
          </strong>
        </div>
      )}
      {pools.map(({ pool, shown }) => (
        <FoundView key={pool.name} pool={pool} shown={shown} />
      ))}
    </div>
  );
}

function fits(pool: string, found: Found, filter: Filter): boolean {
  if (filter.state === 'active' && found.labels === null) return false;
  if (filter.state === 'dropped' && found.labels !== null) return false;
  return matches(filter.text, pool, labelText(found.discovered), labelText(found.labels ?? {}));
}

function FoundView({ pool, shown }: { pool: FoundPool; shown: readonly Found[] }) {
  const [open, setOpen] = useState(true);
  const [all, setAll] = useState(false);
  const rows = all ? shown : shown.slice(0, FIRST);
  const missing = pool.active + pool.dropped - pool.found.length;
  return (
    <section class="pool">
      <h2>
        <button class="pool-head" aria-expanded={open} onClick={() => setOpen(!open)}>
          <span class={`chevron ${open ? 'open' : ''}`}>
            <ChevronIcon />
          </span>
          <span class="pool-name">{pool.name}</span>
          <span class="pool-count">
            {pool.active} active, {pool.dropped} dropped
          </span>
        </button>
      </h2>
      {open && (
        <div class="found-list">
          {rows.map((found, index) => (
            <FoundRow key={index} found={found} />
          ))}
          {rows.length < shown.length && (
            <button class="link" onClick={() => setAll(true)}>
              Show all {shown.length}
            </button>
          )}
          {missing > 0 && (
            <p class="faint">The server keeps no labels of {missing} more dropped targets.</p>
          )}
        </div>
      )}
    </section>
  );
}

function FoundRow({ found }: { found: Found }) {
  const [open, setOpen] = useState(false);
  const { discovered, labels } = found;
  return (
    <div class="found">
      <button class="found-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span class={`chevron ${open ? 'open' : ''}`}>
          <ChevronIcon />
        </span>
        <span class="address">{discovered['__address__'] ?? 'no address'}</span>
        {labels === null ? (
          <span class="state dropped">dropped</span>
        ) : (
          <LabelChips labels={labels} />
        )}
      </button>
      {open && <Relabelling discovered={discovered} labels={labels} />}
    </div>
  );
}
