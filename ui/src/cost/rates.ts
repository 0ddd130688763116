/**
 * What happened between two answers, and what of it falls on one sample. A server that restarted between
 * them, or a figure that went backwards, is compared with nothing: with its start.
 */
import type { Cost, PoolCost, ScrapeCost, StageCost } from './answers.ts';

/** An answer and when it was true, milliseconds on any clock that only goes forward. */
export interface Moment {
  readonly at: number;
  readonly cost: Cost;
}

export interface StageUse {
  readonly stage: string;
  readonly cpuSeconds: number;
  readonly allocations: number;
  readonly allocatedBytes: number;
}

export interface ScrapeUse {
  readonly scrapes: number;
  readonly samples: number;
  readonly cpuSeconds: number;
  readonly fetchSeconds: number;
  readonly allocatedBytes: number;
  readonly bodyBytes: number;
  readonly transferredBytes: number;
}

export interface PoolUse extends ScrapeUse {
  readonly pool: PoolCost;
}

/** What was used in a span of time. */
export interface Use {
  /** Length of the span. */
  readonly seconds: number;
  /** The span begins at the start of the server. */
  readonly sinceStart: boolean;
  readonly samples: number;
  readonly cpuSeconds: number;
  readonly allocations: number;
  readonly allocatedBytes: number;
  readonly stages: readonly StageUse[];
  /** CPU time that the stages account for; 0 when no profiler tells. */
  readonly stagedSeconds: number;
  readonly pools: readonly PoolUse[];
}

const NOTHING: Omit<ScrapeCost, 'held_bytes'> = {
  scrapes: 0,
  samples: 0,
  cpu_seconds: 0,
  fetch_seconds: 0,
  allocated_bytes: 0,
  body_bytes: 0,
  transferred_bytes: 0,
};

/** What was used between two moments, of one server without a restart; `from` null is its start. */
export function useBetween(from: Moment | null, to: Moment): Use {
  const before = from !== null && isEarlier(from.cost, to.cost) ? from : null;
  const old = before?.cost ?? null;
  const { cost } = to;
  const stages = cost.stages.map((stage) => stageUse(find(old?.stages, stage), stage));
  return {
    seconds: before === null ? uptime(cost) : (to.at - before.at) / 1000,
    sinceStart: before === null,
    samples: cost.samples.ingested - (old?.samples.ingested ?? 0),
    cpuSeconds: cost.process.cpu_seconds - (old?.process.cpu_seconds ?? 0),
    allocations: cost.process.heap_allocations - (old?.process.heap_allocations ?? 0),
    allocatedBytes: cost.process.heap_allocated_bytes - (old?.process.heap_allocated_bytes ?? 0),
    stages,
    stagedSeconds: stages.reduce((sum, stage) => sum + stage.cpuSeconds, 0),
    pools: cost.pools.map((pool) => ({
      pool,
      ...scrapeUse(old?.pools.find((other) => other.pool === pool.pool) ?? NOTHING, pool),
    })),
  };
}

/** Of the same run, and none of its sums is larger. */
export function isEarlier(old: Cost, now: Cost): boolean {
  return (
    Date.parse(old.since) === Date.parse(now.since) &&
    old.samples.ingested <= now.samples.ingested &&
    old.process.cpu_seconds <= now.process.cpu_seconds &&
    old.process.heap_allocated_bytes <= now.process.heap_allocated_bytes
  );
}

/** Seconds since the start, at least a thousandth. */
export function uptime(cost: Cost): number {
  return Math.max(cost.uptime_seconds, 0.001);
}

function find(stages: readonly StageCost[] | undefined, of: StageCost): StageCost | undefined {
  return stages?.find((other) => other.stage === of.stage);
}

/** Sampled sums may be corrected downwards: then there was nothing. */
function grown(old: number | undefined, now: number): number {
  return Math.max(now - (old ?? 0), 0);
}

function stageUse(old: StageCost | undefined, now: StageCost): StageUse {
  return {
    stage: now.stage,
    cpuSeconds: grown(old?.cpu_seconds, now.cpu_seconds),
    allocations: grown(old?.allocations, now.allocations),
    allocatedBytes: grown(old?.allocated_bytes, now.allocated_bytes),
  };
}

/** A pool that lost targets has smaller sums: what is left then counts from the start. */
export function scrapeUse(old: Omit<ScrapeCost, 'held_bytes'>, now: ScrapeCost): ScrapeUse {
  const base = old.samples <= now.samples && old.cpu_seconds <= now.cpu_seconds ? old : NOTHING;
  return {
    scrapes: grown(base.scrapes, now.scrapes),
    samples: now.samples - base.samples,
    cpuSeconds: now.cpu_seconds - base.cpu_seconds,
    fetchSeconds: grown(base.fetch_seconds, now.fetch_seconds),
    allocatedBytes: grown(base.allocated_bytes, now.allocated_bytes),
    bodyBytes: grown(base.body_bytes, now.body_bytes),
    transferredBytes: grown(base.transferred_bytes, now.transferred_bytes),
  };
}

/** A sum per sample; null where there was no sample. */
export function perSample(sum: number, samples: number): number | null {
  return samples > 0 ? sum / samples : null;
}

/**
 * Adds an answer to those kept, oldest first: none older than `keep` milliseconds but the last that is,
 * so that the kept span is at least that long; none of an earlier run.
 */
export function remember(kept: readonly Moment[], next: Moment, keep: number): Moment[] {
  const all = [...kept.filter((old) => old.at < next.at && isEarlier(old.cost, next.cost)), next];
  const first = all.findLastIndex((one) => next.at - one.at >= keep);
  return all.slice(Math.max(first, 0));
}

/** Milliseconds. In less there are few scrapes and few samples of the profiler: shares would jump. */
export const SHORTEST_WINDOW = 30_000;

/**
 * Where a window that ends with the last of `moments` begins; null while that would be too short. What
 * the own answers know is exact, so the `earlier` moment from elsewhere serves only until they span `keep`
 * milliseconds.
 */
export function windowStart(
  moments: readonly Moment[],
  earlier: Moment | null,
  keep: number,
): Moment | null {
  const first = moments[0];
  const last = moments[moments.length - 1];
  if (first === undefined || last === undefined) return null;
  if (earlier !== null && last.at - first.at < keep) return earlier;
  return last.at - first.at < SHORTEST_WINDOW ? null : first;
}
