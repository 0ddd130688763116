/** How the cost went, from the server's own metrics, where it scrapes itself. */
import { ask } from '../api/client.ts';
import type { QueryData } from '../api/types.ts';
import { formatDuration, roundStep } from '../duration.ts';
import { shape, type Grid } from '../series.ts';
import { historyQueries, type OwnTarget } from './own-metrics.ts';
import { byStageOrder } from './stage-names.ts';

export interface History {
  readonly cpu: Grid;
  readonly bytes: Grid;
  /** Seconds since 1970. */
  readonly start: number;
  readonly end: number;
}

/** Points that a history has at most. */
const POINTS = 180;

/** CPU and bytes per sample by stage, over `range` milliseconds up to `end`, or to now. */
export async function loadHistory(
  own: OwnTarget,
  range: number,
  end: number | null,
  signal: AbortSignal,
): Promise<History> {
  const step = Math.max(roundStep(range, POINTS), 5_000) / 1000;
  const now = (performance.now() - own.clock) / 1000;
  const last = Math.floor((end === null ? now : end / 1000) / step) * step;
  const first = last - Math.floor(range / 1000 / step) * step;
  const window = formatDuration(Math.max(2 * step, 60) * 1000);
  const [cpu, bytes] = historyQueries(own, window);
  const grid = async (query: string) => {
    const params = { query, start: String(first), end: String(last), step: String(step) };
    const { data } = await ask<QueryData>('query_range', params, signal);
    const result = data.resultType === 'matrix' ? data.result : [];
    return sorted(shape(result, first, last, step));
  };
  const [ofCpu, ofBytes] = await Promise.all([grid(cpu), grid(bytes)]);
  return { cpu: ofCpu, bytes: ofBytes, start: first, end: last };
}

/** Lines in the order of the stages, without those that are zero throughout. */
function sorted(grid: Grid): Grid {
  const lines = grid.lines
    .filter((line) => line.max > 0)
    .sort((a, b) => byStageOrder(a.labels['stage'] ?? '', b.labels['stage'] ?? ''));
  return { ...grid, lines };
}
