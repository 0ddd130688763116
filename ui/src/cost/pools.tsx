/** What scraping costs by pool, and the targets that cost most. */
import { pageUrl } from '../base.ts';
import type { TargetCost } from './answers.ts';
import { perSample, type PoolUse, type ScrapeUse, type Use } from './rates.ts';
import { amount, bytesPer, perSecond, short, span } from './show.ts';
import { SortTable, type Column } from './sort-table.tsx';

export function Pools({ use }: { use: Use }) {
  if (use.pools.length === 0) return null;
  return (
    <section class="cost-section">
      <h2>Scrape pools</h2>
      <p class="cost-note">
        {use.sinceStart ? 'Since the start' : `The last ${span(use.seconds)}`}
      </p>
      <SortTable
        label="Scrape pools"
        columns={poolColumns(use.seconds)}
        rows={use.pools}
        id={({ pool }) => pool.pool}
        by="cpu"
      />
    </section>
  );
}

type Figure<Row> = readonly [
  key: string,
  title: string,
  hint: string,
  value: (row: Row) => number | null,
  show: (value: number | null) => string,
];

function figures<Row>(all: readonly Figure<Row>[]): Column<Row>[] {
  return all.map(([key, title, hint, value, show]) => ({
    key,
    title,
    hint,
    number: true,
    value,
    show: (row) => show(value(row)),
  }));
}

/** The columns that pools and targets share; `of` gives a row's sums over `seconds`. */
function scrapeColumns<Row>(of: (row: Row) => ScrapeUse, seconds: number): Figure<Row>[] {
  const each = (value: (use: ScrapeUse) => number) => (row: Row) =>
    perSample(value(of(row)), of(row).samples);
  return [
    [
      'samples',
      'Samples/s',
      'Ingested samples per second',
      (row) => of(row).samples / seconds,
      amount,
    ],
    [
      'cpu',
      'CPU',
      'CPU time of inflating and ingesting bodies, per second: 1 s/s is one processor',
      (row) => of(row).cpuSeconds / seconds,
      perSecond,
    ],
    [
      'scrape',
      'Per scrape',
      'CPU time of inflating and ingesting, per scrape',
      (row) => perSample(of(row).cpuSeconds, of(row).scrapes),
      (value) => short(value, 'seconds'),
    ],
    [
      'each',
      'Per sample',
      'CPU time of inflating and ingesting, per sample',
      each((use) => use.cpuSeconds),
      (value) => short(value, 'seconds'),
    ],
    [
      'fetch',
      'Fetching',
      'Time spent waiting for and reading answers, per second',
      (row) => of(row).fetchSeconds / seconds,
      perSecond,
    ],
    [
      'allocated',
      'Allocated/sample',
      'Bytes allocated per sample',
      each((use) => use.allocatedBytes),
      bytesPer,
    ],
    [
      'body',
      'Body/sample',
      'Bytes of text per sample, inflated',
      each((use) => use.bodyBytes),
      bytesPer,
    ],
    [
      'transferred',
      'Received',
      'Bytes over the network per second',
      (row) => of(row).transferredBytes / seconds,
      (value) => short(value, 'bytes/s'),
    ],
  ];
}

function poolColumns(seconds: number): readonly Column<PoolUse>[] {
  return [
    {
      key: 'pool',
      title: 'Pool',
      value: ({ pool }) => pool.pool,
      show: ({ pool }) => <TargetsLink text={pool.pool} />,
    },
    ...figures<PoolUse>([
      ['targets', 'Targets', 'Targets of the pool', ({ pool }) => pool.targets, amount],
      ...scrapeColumns<PoolUse>((row) => row, seconds),
      [
        'held',
        'Held',
        'Bytes of memory that its targets keep: expected lines and their ids',
        ({ pool }) => pool.held_bytes,
        (value) => short(value, 'bytes'),
      ],
    ]),
  ];
}

interface TargetsProps {
  readonly targets: readonly TargetCost[];
  /** Seconds since the start. */
  readonly uptime: number;
}

export function Targets({ targets, uptime }: TargetsProps) {
  if (targets.length === 0) return null;
  return (
    <section class="cost-section">
      <h2>Most expensive targets</h2>
      <p class="cost-note">
        The {targets.length} whose bodies took the most CPU time, since the start {span(uptime)} ago
      </p>
      <SortTable
        label="Most expensive targets"
        columns={targetColumns(uptime)}
        rows={targets}
        id={({ pool, url, labels }) => `${pool}\n${url}\n${JSON.stringify(labels)}`}
        by="cpu"
      />
    </section>
  );
}

function targetColumns(uptime: number): readonly Column<TargetCost>[] {
  const use = (target: TargetCost): ScrapeUse => ({
    scrapes: target.scrapes,
    samples: target.samples,
    cpuSeconds: target.cpu_seconds,
    fetchSeconds: target.fetch_seconds,
    allocatedBytes: target.allocated_bytes,
    bodyBytes: target.body_bytes,
    transferredBytes: target.transferred_bytes,
  });
  return [
    {
      key: 'target',
      title: 'Target',
      value: ({ url }) => url,
      show: ({ url, pool }) => (
        <>
          <TargetsLink text={url} />
          <small>{pool}</small>
        </>
      ),
    },
    ...figures<TargetCost>([
      ...scrapeColumns<TargetCost>(use, uptime),
      [
        'held',
        'Held',
        'Bytes of memory kept for it',
        ({ held_bytes }) => held_bytes,
        (value) => short(value, 'bytes'),
      ],
    ]),
  ];
}

/** Leads to the targets page, filtered by the text. */
function TargetsLink({ text }: { text: string }) {
  return (
    <a class="mono" href={pageUrl(`targets?${new URLSearchParams({ search: text })}`)} data-page>
      {text}
    </a>
  );
}
