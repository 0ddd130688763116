/**
 * Queries for a first look, by what they are about. Only those whose metrics the server has are
 * offered, over a window in which a rate has enough samples to stand on.
 */
import { formatDuration, parseDuration } from '../duration.ts';

export interface Example {
  readonly title: string;
  readonly expr: string;
  /** The metric it stands on. Of several with one title the first that is there is shown. */
  readonly needs: string;
  readonly stacked?: boolean;
}

export interface ExampleGroup {
  readonly title: string;
  readonly examples: readonly Example[];
}

const GROUPS: readonly ExampleGroup[] = [
  {
    title: 'This machine',
    examples: [
      {
        title: 'CPU by mode',
        expr: 'sum by (mode) (rate(node_cpu_seconds_total{mode!="idle"}[$window]))',
        needs: 'node_cpu_seconds_total',
        stacked: true,
      },
      {
        title: 'Memory available',
        expr: 'node_memory_MemAvailable_bytes',
        needs: 'node_memory_MemAvailable_bytes',
      },
      { title: 'Load', expr: 'node_load1', needs: 'node_load1' },
      {
        title: 'Network received',
        expr: 'rate(node_network_receive_bytes_total[$window])',
        needs: 'node_network_receive_bytes_total',
      },
      {
        title: 'Disk written',
        expr: 'rate(node_disk_written_bytes_total[$window])',
        needs: 'node_disk_written_bytes_total',
      },
      {
        title: 'File systems in use',
        expr: '1 - node_filesystem_avail_bytes / node_filesystem_size_bytes',
        needs: 'node_filesystem_avail_bytes',
      },
    ],
  },
  {
    title: 'Scraping',
    examples: [
      { title: 'Targets up', expr: 'sum by (job) (up)', needs: 'up' },
      {
        title: 'Scrape duration',
        expr: 'scrape_duration_seconds',
        needs: 'scrape_duration_seconds',
      },
      {
        title: 'Samples per scrape',
        expr: 'scrape_samples_scraped',
        needs: 'scrape_samples_scraped',
        stacked: true,
      },
      {
        title: 'New series per scrape',
        expr: 'scrape_series_added',
        needs: 'scrape_series_added',
      },
    ],
  },
  {
    title: 'This server',
    examples: [
      {
        title: 'Samples taken in per second',
        expr: 'rate(unladen_scrape_samples_total[$window])',
        needs: 'unladen_scrape_samples_total',
      },
      {
        title: 'Samples taken in per second',
        expr: 'rate(prometheus_tsdb_head_samples_appended_total[$window])',
        needs: 'prometheus_tsdb_head_samples_appended_total',
      },
      {
        title: 'Series in the head',
        expr: 'prometheus_tsdb_head_series',
        needs: 'prometheus_tsdb_head_series',
      },
      {
        title: 'Bytes scraped per second',
        expr: 'rate(unladen_scrape_body_bytes_total[$window])',
        needs: 'unladen_scrape_body_bytes_total',
      },
      {
        title: 'Memory',
        expr: 'process_resident_memory_bytes',
        needs: 'process_resident_memory_bytes',
      },
      {
        title: 'CPU, cores',
        expr: 'rate(process_cpu_seconds_total[$window])',
        needs: 'process_cpu_seconds_total',
      },
    ],
  },
];

/** The groups that a server with these metrics can answer; `window` is the window of rates. */
export function examplesFor(have: ReadonlySet<string>, window: string): ExampleGroup[] {
  return GROUPS.map(({ title, examples }) => ({
    title,
    examples: examples
      .filter(({ needs }) => have.has(needs))
      .filter((one, index, all) => all.findIndex((other) => other.title === one.title) === index)
      .map((one) => ({ ...one, expr: one.expr.replace('$window', window) })),
  })).filter(({ examples }) => examples.length > 0);
}

/** Four times the longest scrape interval of a configuration, at least a minute. */
export function rateWindow(yaml: string): string {
  const intervals = [...yaml.matchAll(/^\s*(?:- )?scrape_interval:\s*["']?(\w+)/gm)];
  const longest = Math.max(0, ...intervals.map(([, text = '']) => parseDuration(text) ?? 0));
  return formatDuration(Math.max(4 * longest, 60_000));
}
