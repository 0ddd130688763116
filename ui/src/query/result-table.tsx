/** An instant query's answer as a table: every kind of result, exact values, rows virtual beyond what fits. */
import { useMemo, useState } from 'preact/hooks';
import type { Histogram, MatrixSeries, Point, QueryData, VectorSample } from '../api/types.ts';
import { formatTime, formatValue, type Unit } from '../format.ts';
import { formatSeries } from '../labels.ts';
import { parseValue } from '../series.ts';
import { SeriesName } from '../shell/series-name.tsx';
import { VirtualRows } from '../shell/virtual-rows.tsx';
import { HistogramView } from './histogram-view.tsx';

const ROW = 28;
const TALLEST = 20 * ROW;

interface Props {
  readonly data: QueryData;
  readonly unit: Unit;
  readonly utc: boolean;
}

export function ResultTable({ data, unit, utc }: Props) {
  switch (data.resultType) {
    case 'vector':
      return <VectorTable samples={data.result} unit={unit} />;
    case 'matrix':
      return <MatrixTable series={data.result} utc={utc} />;
    default:
      return (
        <div class="single-value">
          <span class="faint">{data.resultType}</span>
          <output>{data.result[1]}</output>
        </div>
      );
  }
}

type Order = 'none' | 'up' | 'down';
const NEXT: Readonly<Record<Order, Order>> = { none: 'down', down: 'up', up: 'none' };
const ARROW: Readonly<Record<Order, string>> = { none: '', down: ' ↓', up: ' ↑' };

function VectorTable({ samples, unit }: { samples: readonly VectorSample[]; unit: Unit }) {
  const [order, setOrder] = useState<Order>('none');
  const rows = useMemo(() => sorted(samples, order), [samples, order]);
  const histograms = samples.some((sample) => sample.histogram !== undefined);
  const row = (sample: VectorSample, key: string) => (
    <div class="result-row" role="listitem" key={key}>
      <SeriesName labels={sample.metric} />
      {sample.histogram === undefined ? (
        <Value text={sample.value?.[1] ?? ''} unit={unit} />
      ) : (
        <HistogramView histogram={sample.histogram[1]} />
      )}
    </div>
  );
  return (
    <div class="results">
      <div class="result-head">
        <span>{rows.length} series</span>
        <button class="sorter number" onClick={() => setOrder(NEXT[order])} title="Sort by value">
          Value{ARROW[order]}
        </button>
      </div>
      {histograms ? (
        <div class="rows natural" role="list" aria-label="Series">
          {rows.slice(0, 200).map((sample) => row(sample, formatSeries(sample.metric)))}
          {rows.length > 200 && <p class="faint">The first 200 of {rows.length} series.</p>}
        </div>
      ) : (
        <VirtualRows
          count={rows.length}
          rowHeight={ROW}
          maxHeight={TALLEST}
          label="Series"
          row={(index) => row(rows[index]!, String(index))}
        />
      )}
    </div>
  );
}

function sorted(samples: readonly VectorSample[], order: Order): readonly VectorSample[] {
  if (order === 'none') return samples;
  const number = (sample: VectorSample) =>
    parseValue(sample.value?.[1] ?? sample.histogram?.[1].count ?? 'NaN');
  const sign = order === 'up' ? 1 : -1;
  return [...samples].sort((a, b) => {
    const [left, right] = [number(a), number(b)];
    if (Number.isNaN(left)) return Number.isNaN(right) ? 0 : 1;
    return Number.isNaN(right) ? -1 : sign * (left - right);
  });
}

/** The value as the server wrote it, and in words where a unit makes it easier to grasp. */
function Value({ text, unit }: { text: string; unit: Unit }) {
  const value = parseValue(text);
  const plain = unit === 'none' || !Number.isFinite(value) || value === 0;
  return (
    <span class="number exact">
      {!plain && <span class="gloss">{formatValue(value, unit)}</span>}
      {text}
    </span>
  );
}

/** A range selector's answer: the samples of each series with their times. */
function MatrixTable({ series, utc }: { series: readonly MatrixSeries[]; utc: boolean }) {
  const [shown, setShown] = useState(20);
  return (
    <div class="results">
      <div class="result-head">
        <span>{series.length} series</span>
        <span class="number">Time and value</span>
      </div>
      <div class="rows natural" role="list" aria-label="Series">
        {series.slice(0, shown).map((one) => (
          <div class="result-row matrix" role="listitem" key={formatSeries(one.metric)}>
            <SeriesName labels={one.metric} />
            <Samples values={one.values ?? []} histograms={one.histograms ?? []} utc={utc} />
          </div>
        ))}
      </div>
      {series.length > shown && (
        <button class="link" onClick={() => setShown(shown + 100)}>
          Show more of {series.length}
        </button>
      )}
    </div>
  );
}

interface SamplesProps {
  readonly values: readonly Point[];
  readonly histograms: readonly (readonly [number, Histogram])[];
  readonly utc: boolean;
}

function Samples({ values, histograms, utc }: SamplesProps) {
  const most = 100;
  const left = values.length + histograms.length - most;
  return (
    <div class="samples">
      {values.slice(0, most).map(([time, text]) => (
        <div key={time}>
          <time>{formatTime(Math.round(time * 1000), utc, true)}</time>
          <span class="number">{text}</span>
        </div>
      ))}
      {histograms.slice(0, most).map(([time, histogram]) => (
        <div key={time}>
          <time>{formatTime(Math.round(time * 1000), utc, true)}</time>
          <HistogramView histogram={histogram} />
        </div>
      ))}
      {left > 0 && <div class="faint">and {left} more</div>}
    </div>
  );
}
