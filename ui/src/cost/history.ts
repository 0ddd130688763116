/**
 * What the server's own metrics tell, where it scrapes itself: how the cost went, and what its sums were
 * some minutes ago. Of all servers that it scrapes, itself is the one that started when it did.
 */
import { ask } from '../api/client.ts';
import type { QueryData } from '../api/types.ts';
import { formatDuration, roundStep } from '../duration.ts';
import { formatSeries, type Labels } from '../labels.ts';
import { parseValue, shape, type Grid } from '../series.ts';
import type { Cost, StageCost } from './answers.ts';
import { byStageOrder } from './stage-names.ts';
import type { Moment } from './rates.ts';

export interface OwnTarget {
  readonly labels: Labels;
  /** What to add to the server's clock for this page's `performance.now()`, milliseconds. */
  readonly clock: number;
}

const CPU = 'profiler_stage_cpu_seconds_total';
const ALLOCATIONS = 'heap_allocations_total';
const BYTES = 'heap_allocated_bytes_total';
const SAMPLES = 'prometheus_tsdb_head_samples_appended_total';
const PROCESS_CPU = 'process_cpu_seconds_total';

/** A process tells its start to 10 ms, and the server counts from a little later. */
const SAME_START_MS = 10_000;

/** The labels of the target that is this server; null when it does not scrape itself. */
export async function ownTarget(cost: Cost, signal: AbortSignal): Promise<OwnTarget | null> {
  const query = 'process_start_time_seconds and on (job, instance) unladen_build_info';
  const data = await query1(query, signal);
  if (data?.resultType !== 'vector') return null;
  const began = Date.parse(cost.since);
  let best: OwnTarget | null = null;
  let nearest = SAME_START_MS;
  for (const { metric, value } of data.result) {
    if (value === undefined) continue;
    const away = Math.abs(parseValue(value[1]) * 1000 - began);
    if (away > nearest) continue;
    nearest = away;
    const { __name__: _, ...labels } = metric;
    best = { labels, clock: performance.now() - value[0] * 1000 };
  }
  return best;
}

/** The page works without history: whatever fails here is left out. */
async function query1(query: string, signal: AbortSignal): Promise<QueryData | null> {
  try {
    return (await ask<QueryData>('query', { query }, signal)).data;
  } catch {
    return null;
  }
}

/** The sums about `back` milliseconds ago; null where there are none. */
export async function earlierCost(
  now: Cost,
  own: OwnTarget,
  back: number,
  signal: AbortSignal,
): Promise<Moment | null> {
  const names = [CPU, ALLOCATIONS, BYTES, SAMPLES, PROCESS_CPU].join('|');
  const selector = formatSeries(own.labels).replace(/^\{/, `{__name__=~"${names}",`);
  const data = await query1(`${selector}[1m] offset ${formatDuration(back)}`, signal);
  if (data?.resultType !== 'matrix') return null;
  const stages = new Map<string, { -readonly [key in keyof StageCost]: StageCost[key] }>();
  let samples = 0;
  let cpu = 0;
  let at = 0;
  for (const { metric, values } of data.result) {
    const last = values?.[values.length - 1];
    if (last === undefined) continue;
    at = Math.max(at, last[0]);
    const value = parseValue(last[1]);
    const name = metric['stage'] ?? '';
    const stage = stages.get(name) ?? {
      stage: name,
      cpu_seconds: 0,
      allocations: 0,
      allocated_bytes: 0,
    };
    if (metric['__name__'] === CPU) stage.cpu_seconds += value;
    else if (metric['__name__'] === ALLOCATIONS) stage.allocations += value;
    else if (metric['__name__'] === BYTES) stage.allocated_bytes += value;
    else {
      if (metric['__name__'] === SAMPLES) samples += value;
      else cpu += value;
      continue;
    }
    stages.set(name, stage);
  }
  if (at === 0 || stages.size === 0) return null;
  return { at: at * 1000 + own.clock, cost: synthetic(now, [...stages.values()], samples, cpu) };
}

function synthetic(now: Cost, stages: readonly StageCost[], samples: number, cpu: number): Cost {
  const sum = (of: (stage: StageCost) => number) => stages.reduce((all, one) => all + of(one), 0);
  return {
    ...now,
    samples: { ingested: samples, per_second: 0 },
    process: {
      ...now.process,
      cpu_seconds: cpu,
      heap_allocations: sum((stage) => stage.allocations),
      heap_allocated_bytes: sum((stage) => stage.allocated_bytes),
    },
    stages,
    pools: [],
    targets: [],
  };
}

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
  const rate = (name: string) =>
    `rate(${formatSeries({ __name__: name, ...own.labels })}[${window}])`;
  const cpu = `sum by (stage) (${rate(CPU)})`;
  const bytes = `sum by (stage) (${rate(BYTES)}) / scalar(sum(${rate(SAMPLES)}) > 0)`;
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
