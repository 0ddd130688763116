/**
 * The answers of the last minutes, kept while the browser's tab lives, so that going to a flame graph and
 * back does not begin anew. Where the server keeps its own metrics, they say what stood five minutes ago.
 */
import { ask } from '../api/client.ts';
import type { TsdbData } from '../api/types.ts';
import { useAnswer, useRefresh, type Loaded } from '../api/use-answer.ts';
import type { Cost } from './answers.ts';
import { askCost } from './ask.ts';
import { earlierCost, ownTarget, type OwnTarget } from './history.ts';
import { isEarlier, remember, type Moment } from './rates.ts';

/** Milliseconds that "the last minutes" are. */
const KEEP = 300_000;
const REFRESH = 5_000;
/** The second answer comes sooner: it is the first that tells a rate. */
const FIRST_REFRESH = 2_000;

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
let looked: string | null = null;

export function useCost(): Loaded<Watched> {
  const loaded = useAnswer('cost', load);
  useRefresh(loaded, kept.length < 2 ? FIRST_REFRESH : REFRESH);
  return loaded;
}

async function load(signal: AbortSignal): Promise<Watched> {
  const [cost, series] = await Promise.all([askCost(signal), seriesCount(signal)]);
  const at = performance.now();
  kept = remember(kept, { at, cost }, KEEP);
  // Once for each run of the server: whether and under what labels it watches itself.
  if (looked !== cost.since) {
    own = await ownTarget(cost, signal);
    earlier = own === null ? null : await earlierCost(cost, own, KEEP, signal);
    looked = cost.since;
  }
  if (earlier !== null && !isEarlier(earlier.cost, cost)) earlier = null;
  return { cost, moments: kept, earlier, own, series, wallAt: Date.now() };
}

/** The page works without: a figure less. */
async function seriesCount(signal: AbortSignal): Promise<number | null> {
  try {
    const { data } = await ask<TsdbData>('status/tsdb', { limit: '1' }, signal);
    return data.headStats.numSeries;
  } catch {
    return null;
  }
}

/** Where the window of the last minutes begins; null while one answer is all there is. */
export function windowStart(watched: Watched): Moment | null {
  const { moments, earlier: before } = watched;
  const first = moments[0]!;
  const now = moments[moments.length - 1]!;
  // Only while it is needed: the own answers know more.
  if (before !== null && now.at - first.at < KEEP - REFRESH) return before;
  return moments.length > 1 ? first : null;
}

/** Where the window of what only answers tell begins. */
export function watchStart({ moments }: Watched): Moment | null {
  return moments.length > 1 ? moments[0]! : null;
}
