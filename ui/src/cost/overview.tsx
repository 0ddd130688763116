/** Figures of the whole, history, stages, parts, pools and targets. */
import { pageUrl } from '../base.ts';
import { formatTime } from '../format.ts';
import { useSettings } from '../settings.ts';
import { Failure, Notice } from '../shell/notice.tsx';
import { go } from '../shell/router.ts';
import { Figures } from './figures.tsx';
import { HistoryCharts } from './history-charts.tsx';
import { Parts } from './parts.tsx';
import { Pools, Targets } from './pools.tsx';
import { SHORTEST_WINDOW, uptime, useBetween, windowStart } from './rates.ts';
import { span } from './show.ts';
import { Stages } from './stages.tsx';
import { overviewLink, type Over, type OverviewState } from './state.ts';
import { KEEP, useCost, type Watched } from './watch.ts';

export function Overview({ state }: { state: OverviewState }) {
  const loaded = useCost();
  const { value, error } = loaded;
  return (
    <>
      {error !== null && <Failure error={error} onRetry={loaded.reload} />}
      {value !== null && <Shown watched={value} state={state} />}
    </>
  );
}

function Shown({ watched, state }: { watched: Watched; state: OverviewState }) {
  const { utc } = useSettings();
  const { cost, moments, earlier, wallAt } = watched;
  const now = moments[moments.length - 1]!;
  const whole = state.over === 'start';
  const use = useBetween(whole ? null : windowStart(moments, earlier, KEEP), now);
  const watchedUse = useBetween(whole ? null : windowStart(moments, null, KEEP), now);
  const untold = use.stages.every((stage) => stage.cpuSeconds === 0);
  const since = now.at - moments[0]!.at;
  const follows = Math.max(Math.ceil((SHORTEST_WINDOW - since) / 1000), 1);
  const stamp = (ms: number) => formatTime(Math.round(ms / 1000) * 1000, utc, false);
  return (
    <>
      <div class="cost-span">
        <div class="segments" role="group" aria-label="Time of the figures">
          {OVERS.map(({ name, title }) => (
            <button
              key={name}
              aria-pressed={state.over === name}
              onClick={() => go(overviewLink({ ...state, over: name }), 'replace')}
            >
              {title}
            </button>
          ))}
        </div>
        <p class="faint">
          {use.sinceStart ? (
            <>
              All since the start, {span(uptime(cost))} ago
              {!whole && `: the last minutes follow in ${follows} s`}
            </>
          ) : (
            <>
              The last {span(use.seconds)}, {stamp(wallAt - use.seconds * 1000)} to {stamp(wallAt)}
            </>
          )}
        </p>
      </div>
      <Figures cost={cost} use={use} series={watched.series} />
      {untold && cost.process.cpu_seconds > 5 && (
        <Notice kind="info" title="CPU by stage is not known">
          The profiler does not run. Start the server with <code>--profile.budget=0.02</code>: it
          then spends at most 2 % of a processor on telling where the rest goes.{' '}
          <a href={pageUrl('flags?search=profile')} data-page>
            Flags
          </a>
        </Notice>
      )}
      <HistoryCharts own={watched.own} state={state} />
      <Stages use={use} />
      <Parts parts={cost.parts} rss={cost.process.rss_bytes} />
      <Pools use={watchedUse} />
      <Targets targets={cost.targets} uptime={uptime(cost)} />
    </>
  );
}

const OVERS: readonly { readonly name: Over; readonly title: string }[] = [
  { name: 'minutes', title: 'Last minutes' },
  { name: 'start', title: 'Since start' },
];
