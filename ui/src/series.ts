/**
 * Shapes a range query's answer for drawing: every series on one grid of evaluation times, gaps as
 * null, sums for stacking, and the figures of the legend. Cost: one pass over the points.
 */
import type { MatrixSeries } from './api/types.ts';
import { seriesKey, type Labels } from './labels.ts';

export interface Line {
  readonly key: string;
  readonly labels: Labels;
  /** One value per grid time; null where there is none. Infinite values cannot be drawn: null too. */
  readonly values: (number | null)[];
  /** Indexes of points without a neighbour, which a line alone would not show; null if none. */
  readonly lonely: number[] | null;
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly last: number;
}

export interface Grid {
  /** Evaluation times, seconds since 1970. */
  readonly times: number[];
  readonly lines: Line[];
  /** Series that consist of native histograms, which lines cannot show. */
  readonly histograms: number;
  /** Points with a number in all lines. */
  readonly points: number;
}

/** Evaluation times from `start` to `end` inclusive; all in seconds. */
export function gridTimes(start: number, end: number, step: number): number[] {
  const count = Math.floor((end - start) / step + 1e-6) + 1;
  return Array.from({ length: Math.max(count, 0) }, (_, index) => start + index * step);
}

/** Puts all series on the grid. Times outside it (there should be none) are left out. */
export function shape(
  matrix: readonly MatrixSeries[],
  start: number,
  end: number,
  step: number,
): Grid {
  const times = gridTimes(start, end, step);
  const lines: Line[] = [];
  let histograms = 0;
  let points = 0;
  for (const series of matrix) {
    if (series.values === undefined || series.values.length === 0) {
      if ((series.histograms?.length ?? 0) > 0) histograms += 1;
      continue;
    }
    const line = shapeLine(series.metric, series.values, times.length, start, step);
    points += series.values.length;
    lines.push(line);
  }
  return { times, lines, histograms, points };
}

function shapeLine(
  labels: Labels,
  samples: readonly (readonly [number, string])[],
  length: number,
  start: number,
  step: number,
): Line {
  const values = new Array<number | null>(length).fill(null);
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  let sum = 0;
  let count = 0;
  let last = Number.NaN;
  for (const [time, text] of samples) {
    const index = Math.round((time - start) / step);
    const value = parseValue(text);
    last = value;
    if (index < 0 || index >= length || !Number.isFinite(value)) continue;
    values[index] = value;
    if (value < min) min = value;
    if (value > max) max = value;
    sum += value;
    count += 1;
  }
  const none = count === 0;
  return {
    key: seriesKey(labels),
    labels,
    values,
    lonely: lonelyPoints(values),
    min: none ? last : min,
    max: none ? last : max,
    mean: none ? last : sum / count,
    last,
  };
}

function lonelyPoints(values: readonly (number | null)[]): number[] | null {
  let lonely: number[] | null = null;
  for (let index = 0; index < values.length; index += 1) {
    if (values[index] === null) continue;
    if ((values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null) {
      (lonely ??= []).push(index);
    }
  }
  return lonely;
}

/** A sample value as the API writes it: decimal, `NaN`, `+Inf`, `-Inf`. */
export function parseValue(text: string): number {
  if (text === '+Inf' || text === 'Inf') return Number.POSITIVE_INFINITY;
  if (text === '-Inf') return Number.NEGATIVE_INFINITY;
  return Number(text);
}

/** Each line on top of those before it. A gap adds nothing, and stays a gap only where all have one. */
export function stack(lines: readonly Line[]): (number | null)[][] {
  const length = lines[0]?.values.length ?? 0;
  const sum = new Float64Array(length);
  const any = new Uint8Array(length);
  for (const line of lines) {
    for (let index = 0; index < length; index += 1) if (line.values[index] !== null) any[index] = 1;
  }
  return lines.map((line) => {
    const top = new Array<number | null>(length).fill(null);
    for (let index = 0; index < length; index += 1) {
      const value = line.values[index] ?? null;
      if (value !== null) sum[index]! += value;
      if (any[index] === 1) top[index] = sum[index]!;
    }
    return top;
  });
}

/** The line whose value at `index` is nearest to `value` within `reach`; -1 if none. */
export function nearestLine(
  tops: readonly (readonly (number | null)[])[],
  index: number,
  value: number,
  reach: number,
): number {
  let best = -1;
  let distance = reach;
  for (let line = 0; line < tops.length; line += 1) {
    const at = tops[line]![index];
    if (at === null || at === undefined) continue;
    const away = Math.abs(at - value);
    if (away <= distance) {
      distance = away;
      best = line;
    }
  }
  return best;
}

/** In a stack: the layer that covers `value` at `index`; -1 above the top. */
export function layerAt(
  tops: readonly (readonly (number | null)[])[],
  index: number,
  value: number,
): number {
  let below = 0;
  for (let line = 0; line < tops.length; line += 1) {
    const top = tops[line]![index];
    if (top === null || top === undefined) continue;
    if (value >= Math.min(below, top) && value <= Math.max(below, top)) return line;
    below = top;
  }
  return -1;
}
