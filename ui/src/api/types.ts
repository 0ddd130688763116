/** Answers of the HTTP API v1, as far as the page reads them. */
import type { Labels } from '../labels.ts';

/** A time in seconds and a value as the server wrote it. */
export type Point = readonly [time: number, value: string];

/** A bucket of a native histogram: which ends it includes (0 open left, 1 open right, 2 open, 3 closed). */
export type Bucket = readonly [bounds: number, lower: string, upper: string, count: string];

export interface Histogram {
  readonly count: string;
  readonly sum: string;
  readonly buckets?: readonly Bucket[];
}

export type HistogramPoint = readonly [time: number, histogram: Histogram];

export interface VectorSample {
  readonly metric: Labels;
  readonly value?: Point;
  readonly histogram?: HistogramPoint;
}

export interface MatrixSeries {
  readonly metric: Labels;
  readonly values?: readonly Point[];
  readonly histograms?: readonly HistogramPoint[];
}

export type QueryData =
  | { readonly resultType: 'vector'; readonly result: readonly VectorSample[] }
  | { readonly resultType: 'matrix'; readonly result: readonly MatrixSeries[] }
  | { readonly resultType: 'scalar' | 'string'; readonly result: Point };

export interface ActiveTarget {
  readonly discoveredLabels: Labels;
  readonly labels: Labels;
  readonly scrapePool: string;
  readonly scrapeUrl: string;
  readonly globalUrl?: string;
  readonly lastError: string;
  readonly lastScrape: string;
  readonly lastScrapeDuration: number;
  readonly health: 'up' | 'down' | 'unknown';
  readonly scrapeInterval: string;
  readonly scrapeTimeout: string;
}

export interface DroppedTarget {
  readonly discoveredLabels: Labels;
  readonly scrapePool?: string;
}

export interface TargetsData {
  readonly activeTargets: readonly ActiveTarget[] | null;
  readonly droppedTargets: readonly DroppedTarget[] | null;
  readonly droppedTargetCounts?: Readonly<Record<string, number>>;
}

export interface NamedCount {
  readonly name: string;
  readonly value: number;
}

export interface TsdbData {
  readonly headStats: {
    readonly numSeries: number;
    readonly numLabelPairs?: number;
    readonly chunkCount: number;
    readonly minTime: number;
    readonly maxTime: number;
  };
  readonly seriesCountByMetricName: readonly NamedCount[] | null;
  readonly labelValueCountByLabelName: readonly NamedCount[] | null;
  readonly memoryInBytesByLabelName: readonly NamedCount[] | null;
  readonly seriesCountByLabelValuePair: readonly NamedCount[] | null;
}
