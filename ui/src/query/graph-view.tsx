/** A panel's graph and legend with what they share: colours, hidden series, the series pointed at. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Loaded } from '../api/use-answer.ts';
import { formatCount, formatTime } from '../format.ts';
import { ColorBook, seriesColor } from '../palette.ts';
import { Notice } from '../shell/notice.tsx';
import { guessUnit } from '../unit.ts';
import { seriesId } from '../labels.ts';
import { ALL_SERIES, type PanelState, type SeriesChoice } from '../url-state.ts';
import { Chart } from './chart.tsx';
import { Legend } from './legend.tsx';
import type { GraphAnswer } from './run.ts';

interface Props {
  readonly graph: Loaded<GraphAnswer>;
  readonly panel: PanelState;
  readonly settings: { readonly utc: boolean; readonly dark: boolean };
  readonly onZoom: (start: number, end: number) => void;
  readonly onZoomOut: () => void;
  readonly onTable: () => void;
  readonly onSeries: (series: SeriesChoice) => void;
}

export function GraphView(props: Props) {
  const { graph, panel, settings, onZoom, onZoomOut, onTable, onSeries } = props;
  const { utc, dark } = settings;
  const answer = graph.value;
  const [fromLegend, setFromLegend] = useState<string | null>(null);
  const [fromChart, setFromChart] = useState<string | null>(null);
  const book = useRef({ expr: '', colors: new ColorBook() });
  const expr = answer?.expr ?? '';
  if (book.current.expr !== expr) book.current = { expr, colors: new ColorBook() };
  useEffect(() => {
    setEvery(false);
    setFromLegend(null);
    setFromChart(null);
  }, [expr]);

  const lines = useMemo(
    () =>
      (answer?.grid.lines ?? []).map((line) => ({
        ...line,
        color: seriesColor(book.current.colors.numberOf(line.key), dark),
      })),
    [answer, dark],
  );
  const hidden = useMemo(() => hiddenKeys(lines, panel.series), [lines, panel.series]);
  const visible = useMemo(
    () => (hidden.size === 0 ? lines : lines.filter((line) => !hidden.has(line.key))),
    [lines, hidden],
  );
  const [every, setEvery] = useState(false);
  const drawn = useMemo(
    () => (every || visible.length <= MOST_DRAWN ? visible : visible.slice(0, MOST_DRAWN)),
    [visible, every],
  );
  const unit = useMemo(() => guessUnit(expr), [expr]);

  if (answer === null) {
    return graph.error === null ? (
      <div class="chart-space" aria-busy={graph.loading} />
    ) : (
      <div class="after-error" />
    );
  }
  if (lines.length === 0) {
    return <EmptyGraph answer={answer} utc={utc} onTable={onTable} onZoomOut={onZoomOut} />;
  }
  const span = `${formatTime(answer.start * 1000, utc, true)} to ${formatTime(answer.end * 1000, utc, true)}`;
  return (
    <>
      {answer.grid.histograms > 0 && (
        <Notice kind="info">
          {answer.grid.histograms} of the series are native histograms, which lines cannot show.{' '}
          <button class="link" onClick={onTable}>
            See them in the table
          </button>
        </Notice>
      )}
      {drawn.length < visible.length && (
        <Notice kind="info">
          The graph shows the first {formatCount(drawn.length)} of {formatCount(visible.length)}{' '}
          series.{' '}
          <button class="link" onClick={() => setEvery(true)}>
            Draw all
          </button>
        </Notice>
      )}
      <div class={graph.error === null ? '' : 'outdated'}>
        <Chart
          times={answer.grid.times}
          lines={drawn}
          start={answer.start}
          end={answer.end}
          stacked={panel.stacked}
          unit={unit}
          utc={utc}
          dark={dark}
          label={`Graph of ${lines.length} series of ${expr}, ${span}`}
          highlight={fromLegend}
          onPoint={setFromChart}
          onZoom={onZoom}
          onZoomOut={onZoomOut}
        />
        <Legend
          lines={lines}
          hidden={hidden}
          unit={unit}
          pointed={fromLegend ?? fromChart}
          onPoint={setFromLegend}
          onHidden={(keys) => onSeries(choiceOf(lines, keys))}
        />
      </div>
    </>
  );
}

/** Lines drawn without being asked for all: beyond these drawing would be felt, and nobody tells them apart. */
const MOST_DRAWN = 2000;

interface Keyed {
  readonly key: string;
}

function hiddenKeys(lines: readonly Keyed[], choice: SeriesChoice): ReadonlySet<string> {
  if (choice.kind === 'without' && choice.ids.length === 0) return new Set();
  const ids = new Set(choice.ids);
  const hidden = lines.filter(({ key }) => ids.has(seriesId(key)) === (choice.kind === 'without'));
  return new Set(hidden.map(({ key }) => key));
}

/** The shorter way to say which series are hidden. */
function choiceOf(lines: readonly Keyed[], hidden: ReadonlySet<string>): SeriesChoice {
  if (hidden.size === 0) return ALL_SERIES;
  const shown = lines.filter(({ key }) => !hidden.has(key));
  const kind = shown.length < hidden.size ? 'only' : 'without';
  const keys = kind === 'only' ? shown.map(({ key }) => key) : [...hidden];
  return { kind, ids: keys.map(seriesId) };
}

interface EmptyProps {
  readonly answer: GraphAnswer;
  readonly utc: boolean;
  readonly onTable: () => void;
  readonly onZoomOut: () => void;
}

function EmptyGraph({ answer, utc, onTable, onZoomOut }: EmptyProps) {
  const { grid, start, end } = answer;
  return (
    <div class="chart-space">
      <div class="nothing">
        <strong>
          {grid.histograms > 0 ? 'Only native histograms' : 'No series in this range'}
        </strong>
        {grid.histograms > 0 ? (
          <p>
            Lines cannot show them.{' '}
            <button class="link" onClick={onTable}>
              See them in the table
            </button>
          </p>
        ) : (
          <p>
            {formatTime(start * 1000, utc, true)} to {formatTime(end * 1000, utc, true)}.{' '}
            <button class="link" onClick={onZoomOut}>
              Look at a longer range
            </button>
          </p>
        )}
      </div>
    </div>
  );
}
