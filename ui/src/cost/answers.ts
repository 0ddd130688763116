/** The answers of `/status/cost` and `/status/profile`. All sums are since the start of the server. */
import type { Labels } from '../labels.ts';

export interface StageCost {
  readonly stage: string;
  /** From the profiler's samples; 0 everywhere when it is off. */
  readonly cpu_seconds: number;
  readonly allocations: number;
  readonly allocated_bytes: number;
}

export interface PartCost {
  readonly part: string;
  readonly bytes: number;
  readonly items: number;
}

/** What scraping costs: of a pool, or of one target. */
export interface ScrapeCost {
  readonly scrapes: number;
  readonly samples: number;
  readonly cpu_seconds: number;
  readonly fetch_seconds: number;
  readonly allocated_bytes: number;
  readonly held_bytes: number;
  readonly body_bytes: number;
  readonly transferred_bytes: number;
}

export interface PoolCost extends ScrapeCost {
  readonly pool: string;
  readonly targets: number;
}

export interface TargetCost extends ScrapeCost {
  readonly pool: string;
  readonly url: string;
  readonly labels: Labels;
}

export interface Cost {
  /** RFC 3339. */
  readonly since: string;
  /** How long that is, by the server's clock. */
  readonly uptime_seconds: number;
  readonly samples: { readonly ingested: number; readonly per_second: number };
  readonly process: {
    readonly cpu_seconds: number;
    readonly rss_bytes: number;
    readonly heap_allocated_bytes: number;
    readonly heap_allocations: number;
    readonly heap_in_use_bytes: number;
    readonly open_fds: number;
  };
  readonly stages: readonly StageCost[];
  readonly parts: readonly PartCost[];
  readonly pools: readonly PoolCost[];
  /** Those whose bodies took the most CPU time. */
  readonly targets: readonly TargetCost[];
}

export const PROFILE_TYPES = ['cpu', 'wall', 'allocated', 'allocations', 'inuse'] as const;
export type ProfileType = (typeof PROFILE_TYPES)[number];

/** Index of the name, own value, value with all below it, index of the node above: -1 for the root. */
export type ProfileNode = readonly [name: number, self: number, total: number, parent: number];

export interface Profile {
  readonly type: string;
  readonly unit: 'nanoseconds' | 'bytes' | 'count';
  readonly total: number;
  readonly names: readonly string[];
  /** Root first. */
  readonly nodes: readonly ProfileNode[];
}
