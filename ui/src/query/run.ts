/** Asks the server for what a panel shows. */
import { ask, type Answer } from '../api/client.ts';
import type { QueryData } from '../api/types.ts';
import { useAnswer, type Loaded } from '../api/use-answer.ts';
import { shape, type Grid } from '../series.ts';
import { stepOf, type PanelState } from '../url-state.ts';

/** What both views tell about their answer. */
export interface Told {
  readonly warnings: readonly string[];
  readonly infos: readonly string[];
  /** Milliseconds from the request to the parsed answer. */
  readonly elapsed: number;
  /** Null for a scalar or a string. */
  readonly series: number | null;
  readonly points: number;
  /** Milliseconds between points; null for an instant. */
  readonly step: number | null;
}

export interface GraphAnswer extends Told {
  readonly grid: Grid;
  readonly expr: string;
  /** Seconds since 1970. */
  readonly start: number;
  readonly end: number;
}

export interface TableAnswer extends Told {
  readonly data: QueryData;
  readonly expr: string;
  /** Evaluation time, milliseconds since 1970. */
  readonly at: number;
}

/** The graph of a panel; asks nothing while the table is shown. */
export function useGraph(panel: PanelState): Loaded<GraphAnswer> {
  const step = stepOf(panel);
  const wanted = panel.expr !== '' && panel.tab === 'graph';
  const key = wanted ? JSON.stringify([panel.expr, panel.range, panel.end, step]) : null;
  return useAnswer(key, (signal) => loadGraph(panel, step, signal), panel.expr);
}

async function loadGraph(
  panel: PanelState,
  step: number,
  signal: AbortSignal,
): Promise<GraphAnswer> {
  const { expr, range } = panel;
  // Evaluation times are multiples of the step: a refresh moves the window and not the points in it.
  const lastStep = Math.floor((panel.end ?? Date.now()) / step) * step;
  const end = lastStep / 1000;
  const start = (lastStep - Math.ceil(range / step) * step) / 1000;
  const answer = await ask<QueryData>(
    'query_range',
    { query: expr, start: String(start), end: String(end), step: String(step / 1000) },
    signal,
  );
  const { data } = answer;
  const matrix = data.resultType === 'matrix' ? data.result : [];
  const grid = shape(matrix, start, end, step / 1000);
  return { ...told(answer, matrix.length, grid.points, step), grid, expr, start, end };
}

/** The table of a panel; asks nothing while the graph is shown. */
export function useTable(panel: PanelState): Loaded<TableAnswer> {
  const wanted = panel.expr !== '' && panel.tab === 'table';
  const key = wanted ? JSON.stringify([panel.expr, panel.moment]) : null;
  return useAnswer(key, (signal) => loadTable(panel, signal), panel.expr);
}

async function loadTable(panel: PanelState, signal: AbortSignal): Promise<TableAnswer> {
  const at = panel.moment ?? Date.now();
  const answer = await ask<QueryData>(
    'query',
    { query: panel.expr, time: String(at / 1000) },
    signal,
  );
  const { data } = answer;
  const list = data.resultType === 'vector' || data.resultType === 'matrix' ? data.result : null;
  const points =
    data.resultType === 'matrix'
      ? data.result.reduce(
          (sum, one) => sum + (one.values?.length ?? one.histograms?.length ?? 0),
          0,
        )
      : (list?.length ?? 1);
  return { ...told(answer, list?.length ?? null, points, null), data, expr: panel.expr, at };
}

function told(
  answer: Answer<unknown>,
  series: number | null,
  points: number,
  step: number | null,
): Told {
  const { warnings, infos, elapsed } = answer;
  return { warnings, infos, elapsed, series, points, step };
}
