/** Targets from the API, with the size of their last scrape from the `scrape_*` series. */
import { ask } from '../api/client.ts';
import type { ActiveTarget, QueryData, TargetsData } from '../api/types.ts';
import { seriesKey, type Labels } from '../labels.ts';
import { parseValue } from '../series.ts';

/** Sizes by target labels; a target without them has not been scraped, or the server keeps none. */
export interface Sizes {
  readonly samples: ReadonlyMap<string, number>;
  readonly bytes: ReadonlyMap<string, number>;
}

export interface Pool {
  readonly name: string;
  readonly targets: readonly ActiveTarget[];
  readonly up: number;
}

export interface Loaded {
  readonly pools: readonly Pool[];
  readonly sizes: Sizes;
  /** When the server answered, milliseconds since 1970. */
  readonly at: number;
}

export async function loadTargets(signal: AbortSignal): Promise<Loaded> {
  const [targets, samples, bytes] = await Promise.all([
    ask<TargetsData>('targets', { state: 'active' }, signal),
    sizeByLabels('scrape_samples_scraped', signal),
    sizeByLabels('scrape_body_size_bytes', signal),
  ]);
  return {
    pools: poolsOf(targets.data.activeTargets ?? []),
    sizes: { samples, bytes },
    at: Date.now(),
  };
}

/** The page works without sizes: a server whose queries fail still shows its targets. */
async function sizeByLabels(
  metric: string,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, number>> {
  const sizes = new Map<string, number>();
  try {
    const { data } = await ask<QueryData>('query', { query: metric }, signal);
    if (data.resultType !== 'vector') return sizes;
    for (const { metric: labels, value } of data.result) {
      if (value !== undefined) sizes.set(targetKey(labels), parseValue(value[1]));
    }
  } catch {
    // The targets' own request tells about a server that fails.
  }
  return sizes;
}

/** The identity of a target: its labels, which its `scrape_*` series carry too. */
export function targetKey(labels: Labels): string {
  return seriesKey(
    Object.fromEntries(Object.entries(labels).filter(([name]) => name !== '__name__')),
  );
}

/** Pools in order of their names, targets as the server sorts them. */
export function poolsOf(targets: readonly ActiveTarget[]): Pool[] {
  const pools = new Map<string, ActiveTarget[]>();
  for (const target of targets) {
    const pool = pools.get(target.scrapePool);
    if (pool === undefined) pools.set(target.scrapePool, [target]);
    else pool.push(target);
  }
  return [...pools.entries()]
    .sort(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }))
    .map(([name, list]) => ({
      name,
      targets: list,
      up: list.filter((t) => t.health === 'up').length,
    }));
}

/** Every word of `filter` occurs somewhere in the texts. */
export function matches(filter: string, ...texts: readonly string[]): boolean {
  const all = texts.join('\n').toLowerCase();
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word));
}

/** Label sets as searchable text. */
export function labelText(labels: Labels): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}="${value}"`)
    .join('\n');
}
