/**
 * The metrics in which the server has the figures of its cost, and what their values say. Of all servers
 * that it scrapes, itself is the one that started when it did.
 */
import type { QueryData } from '../api/types.ts';
import { formatSeries, type Labels } from '../labels.ts';
import { parseValue } from '../series.ts';
import type { Cost, StageCost } from './answers.ts';
import type { Moment } from './rates.ts';

export interface OwnTarget {
  readonly labels: Labels;
  /** What to add to the server's clock for the clock of the answers kept, milliseconds. */
  readonly clock: number;
}

const CPU = 'profiler_stage_cpu_seconds_total';
const ALLOCATIONS = 'heap_allocations_total';
const BYTES = 'heap_allocated_bytes_total';
const SAMPLES = 'prometheus_tsdb_head_samples_appended_total';
const PROCESS_CPU = 'process_cpu_seconds_total';

/** A process tells its start to 10 ms, and the server counts from a little later. */
const SAME_START_MS = 10_000;

/** When the servers that are scraped started. */
export const STARTS = 'process_start_time_seconds and on (job, instance) unladen_build_info';

/** The target among the answers to `STARTS` that is this server, if one is; `now` is on the answers' clock. */
export function ownTarget(data: QueryData, since: string, now: number): OwnTarget | null {
  if (data.resultType !== 'vector') return null;
  const began = Date.parse(since);
  let best: OwnTarget | null = null;
  let nearest = SAME_START_MS;
  for (const { metric, value } of data.result) {
    if (value === undefined) continue;
    const away = Math.abs(parseValue(value[1]) * 1000 - began);
    if (!(away <= nearest)) continue;
    nearest = away;
    const { __name__: _, ...labels } = metric;
    best = { labels, clock: now - value[0] * 1000 };
  }
  return best;
}

/** The expression for the sums, as they were scraped in the minute that ended `back` ago. */
export function sumsQuery(own: OwnTarget, back: string): string {
  const names = [CPU, ALLOCATIONS, BYTES, SAMPLES, PROCESS_CPU].join('|');
  const inside = formatSeries(own.labels).replace(/^\{/, '').replace(/\}$/, '');
  return `{__name__=~"${names}"${inside === '' ? '' : `, ${inside}`}}[1m] offset ${back}`;
}

/** Sums that are being added up. */
interface Sums {
  samples: number;
  cpu: number;
  readonly stages: Map<string, { -readonly [key in keyof StageCost]: StageCost[key] }>;
}

/** What the answer to `sumsQuery` says, as an answer of that time; null where nothing was scraped then. */
export function earlierCost(data: QueryData, own: OwnTarget, now: Cost): Moment | null {
  if (data.resultType !== 'matrix') return null;
  const sums: Sums = { samples: 0, cpu: 0, stages: new Map() };
  let at = 0;
  for (const { metric, values } of data.result) {
    const last = values?.[values.length - 1];
    if (last === undefined) continue;
    at = Math.max(at, last[0]);
    addTo(sums, metric, parseValue(last[1]));
  }
  if (sums.stages.size === 0) return null;
  return { at: at * 1000 + own.clock, cost: written(now, sums) };
}

function addTo(sums: Sums, metric: Labels, value: number): void {
  const name = metric['__name__'];
  if (name === SAMPLES) sums.samples += value;
  else if (name === PROCESS_CPU) sums.cpu += value;
  else {
    const stage = metric['stage'] ?? '';
    let own = sums.stages.get(stage);
    if (own === undefined) {
      own = { stage, cpu_seconds: 0, allocations: 0, allocated_bytes: 0 };
      sums.stages.set(stage, own);
    }
    if (name === CPU) own.cpu_seconds += value;
    else if (name === ALLOCATIONS) own.allocations += value;
    else own.allocated_bytes += value;
  }
}

function written(now: Cost, { samples, cpu, stages }: Sums): Cost {
  const all = [...stages.values()];
  const sum = (of: (stage: StageCost) => number) => all.reduce((so, one) => so + of(one), 0);
  return {
    ...now,
    samples: { ingested: samples, per_second: 0 },
    process: {
      ...now.process,
      cpu_seconds: cpu,
      heap_allocations: sum((stage) => stage.allocations),
      heap_allocated_bytes: sum((stage) => stage.allocated_bytes),
    },
    stages: all,
    pools: [],
    targets: [],
  };
}

/** Expressions for CPU in processors, and bytes allocated per sample, by stage. */
export function historyQueries(own: OwnTarget, window: string): readonly [string, string] {
  const rate = (name: string) =>
    `rate(${formatSeries({ __name__: name, ...own.labels })}[${window}])`;
  return [
    `sum by (stage) (${rate(CPU)})`,
    `sum by (stage) (${rate(BYTES)}) / scalar(sum(${rate(SAMPLES)}) > 0)`,
  ];
}
