/**
 * The answers of the last minutes, kept while the browser's tab lives, so that going to a flame graph and
 * back does not begin anew. Where the server keeps its own metrics, they say what stood five minutes ago.
 */
import { ask, isAbort } from '../api/client.ts';
import type { QueryData, TsdbData } from '../api/types.ts';
import { useAnswer, useRefresh, type Loaded } from '../api/use-answer.ts';
import { formatDuration } from '../duration.ts';
import type { Cost } from './answers.ts';
import { askCost } from './ask.ts';
import { earlierCost, ownTarget, STARTS, sumsQuery, type OwnTarget } from './own-metrics.ts';
import { isEarlier, remember, type Moment } from './rates.ts';

/** Milliseconds that "the last minutes" are. */
export const KEEP = 300_000;
const REFRESH = 5_000;

export interface Watched {
  readonly cost: Cost;
  /** Answers since the page looks, oldest first; the last is `cost`. */
  readonly moments: readonly Moment[];
  /** A moment from the server's own metrics, about five minutes before: without pools. */
  readonly earlier: Moment | null;
  readonly own: OwnTarget | null;
  /** Series of the head; null where the server does not say. */
  readonly series: number | null;
  /** When the answer came, milliseconds since 1970. */
  readonly wallAt: number;
}

let kept: readonly Moment[] = [];
let earlier: Moment | null = null;
let own: OwnTarget | null = null;
/** The start of the server that these are of. */
let run = '';

export function useCost(): Loaded<Watched> {
  const loaded = useAnswer('cost', load);
  useRefresh(loaded, REFRESH);
  return loaded;
}

async function load(signal: AbortSignal): Promise<Watched> {
  const [cost, series] = await Promise.all([askCost(signal), seriesCount(signal)]);
  const at = performance.now();
  kept = remember(kept, { at, cost }, KEEP);
  if (run !== cost.since) {
    run = cost.since;
    own = null;
    earlier = null;
  }
  if (own === null) await lookForItself(cost, signal);
  if (earlier !== null && !isEarlier(earlier.cost, cost)) earlier = null;
  return { cost, moments: kept, earlier, own, series, wallAt: Date.now() };
}

/** Whether and under what labels the server watches itself. The page works without, and looks again. */
async function lookForItself(cost: Cost, signal: AbortSignal): Promise<void> {
  const query = async (text: string) =>
    (await ask<QueryData>('query', { query: text }, signal)).data;
  try {
    const found = ownTarget(await query(STARTS), cost.since, performance.now());
    if (found === null) return;
    const sums = await query(sumsQuery(found, formatDuration(KEEP)));
    earlier = earlierCost(sums, found, cost);
    own = found;
  } catch (error) {
    if (isAbort(error)) throw error;
  }
}

/** The page works without: a figure less. */
async function seriesCount(signal: AbortSignal): Promise<number | null> {
  try {
    const { data } = await ask<TsdbData>('status/tsdb', { limit: '1' }, signal);
    return data.headStats.numSeries;
  } catch (error) {
    if (isAbort(error)) throw error;
    return null;
  }
}
