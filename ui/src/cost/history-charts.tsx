/** How CPU and allocations went, stacked by stage, from the server's own metrics. */
import { useMemo, useState } from 'preact/hooks';
import { useAnswer, useRefresh } from '../api/use-answer.ts';
import { pageUrl } from '../base.ts';
import { formatTime, type Unit } from '../format.ts';
import { seriesColor } from '../palette.ts';
import { Chart } from '../query/chart.tsx';
import { useZoom } from '../query/zoom.ts';
import type { Grid } from '../series.ts';
import { useSettings } from '../settings.ts';
import { Failure } from '../shell/notice.tsx';
import { go } from '../shell/router.ts';
import { loadHistory, type History } from './history.ts';
import type { OwnTarget } from './own-metrics.ts';
import { span } from './show.ts';
import { stageColor, stageTitle } from './stage-names.ts';
import { overviewLink, profileLink, type OverviewState } from './state.ts';

interface Props {
  readonly own: OwnTarget | null;
  readonly state: OverviewState;
}

const REFRESH = 15_000;
const HEIGHT = 210;
const RANGES: readonly (readonly [title: string, ms: number])[] = [
  ['30 min', 1_800_000],
  ['3 h', 10_800_000],
  ['12 h', 43_200_000],
  ['2 d', 172_800_000],
];

export function HistoryCharts({ own, state }: Props) {
  if (own === null) {
    return (
      <p class="cost-note">
        This server does not scrape itself, so there is no history of its cost. A scrape
        configuration with its own address brings it.
      </p>
    );
  }
  return <Charts own={own} state={state} />;
}

function Charts({ own, state }: { own: OwnTarget; state: OverviewState }) {
  const { utc } = useSettings();
  const { range, end } = state;
  const key = `${JSON.stringify(own.labels)} ${range} ${end}`;
  const loaded = useAnswer(
    key,
    (signal) => loadHistory(own, range, end, signal),
    JSON.stringify(own.labels),
  );
  useRefresh(loaded, end === null ? REFRESH : 0);
  const { value, error } = loaded;
  const show = (next: Partial<OverviewState>) => go(overviewLink({ ...state, ...next }), 'replace');
  const zoom = useZoom(state, show);
  const time = (seconds: number) => formatTime(seconds * 1000, utc, true);
  return (
    <section class="cost-section">
      <div class="cost-section-head">
        <h2>History</h2>
        <div class="segments" role="group" aria-label="Range of the history">
          {RANGES.map(([title, ms]) => (
            <button
              key={title}
              aria-pressed={end === null && range === ms}
              onClick={() => show({ range: ms, end: null })}
            >
              {title}
            </button>
          ))}
        </div>
        <p class="faint">
          {value !== null &&
            `${span(value.end - value.start)}, ${time(value.start)} to ${time(value.end)}`}
        </p>
      </div>
      {error !== null && <Failure error={error} onRetry={loaded.reload} />}
      {value !== null && (
        <div class="cost-charts">
          <StageChart
            title="CPU by stage, cores"
            grid={value.cpu}
            history={value}
            unit="none"
            onZoom={zoom.into}
            onZoomOut={zoom.out}
          />
          <StageChart
            title="Bytes allocated per sample, by stage"
            grid={value.bytes}
            history={value}
            unit="bytes"
            onZoom={zoom.into}
            onZoomOut={zoom.out}
          />
        </div>
      )}
    </section>
  );
}

interface ChartProps {
  readonly title: string;
  readonly grid: Grid;
  readonly history: History;
  readonly unit: Unit;
  readonly onZoom: (start: number, end: number) => void;
  readonly onZoomOut: () => void;
}

function StageChart({ title, grid, history, unit, onZoom, onZoomOut }: ChartProps) {
  const { utc, dark } = useSettings();
  const [pointed, setPointed] = useState<string | null>(null);
  const [lit, setLit] = useState<string | null>(null);
  const lines = useMemo(
    () =>
      grid.lines.map((line) => ({
        ...line,
        color: seriesColor(stageColor(line.labels['stage'] ?? ''), dark),
      })),
    [grid, dark],
  );
  return (
    <figure class="cost-chart">
      <figcaption>{title}</figcaption>
      {lines.length === 0 ? (
        <div class="nothing">
          <strong>Nothing in this range</strong>
        </div>
      ) : (
        <>
          <Chart
            times={grid.times}
            lines={lines}
            start={history.start}
            end={history.end}
            stacked
            unit={unit}
            utc={utc}
            dark={dark}
            height={HEIGHT}
            label={`${title}: ${lines.length} stages`}
            highlight={lit}
            onPoint={setPointed}
            onZoom={onZoom}
            onZoomOut={onZoomOut}
          />
          <ul class="stage-key">
            {lines.map((line) => (
              <li
                key={line.key}
                class={line.key === pointed ? 'pointed' : ''}
                onPointerEnter={() => setLit(line.key)}
                onPointerLeave={() => setLit(null)}
              >
                <i class="swatch" style={{ background: line.color }} />
                <a
                  href={pageUrl(
                    profileLink({
                      type: unit === 'bytes' ? 'allocated' : 'cpu',
                      stage: line.labels['stage'] ?? '',
                    }),
                  )}
                  data-page
                >
                  {stageTitle(line.labels['stage'] ?? '')}
                </a>
              </li>
            ))}
          </ul>
        </>
      )}
    </figure>
  );
}
