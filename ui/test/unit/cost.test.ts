import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Cost } from '../../src/cost/answers.ts';
import { earlierCost, historyQueries, ownTarget, sumsQuery } from '../../src/cost/own-metrics.ts';
import { perSample, remember, useBetween, windowStart, type Moment } from '../../src/cost/rates.ts';
import { amount, bytesPer, share, short, span } from '../../src/cost/show.ts';
import { sortRows } from '../../src/cost/sort.ts';
import { byStageOrder, stageColor } from '../../src/cost/stage-names.ts';
import { overviewLink, profileLink, readOverview, readProfile } from '../../src/cost/state.ts';

const SINCE = '2026-11-21T10:00:00Z';

function cost(factor: number, since = SINCE): Cost {
  return {
    since,
    uptime_seconds: 60,
    samples: { ingested: 1000 * factor, per_second: 0 },
    process: {
      cpu_seconds: 2 * factor,
      rss_bytes: 7,
      heap_allocated_bytes: 500 * factor,
      heap_allocations: 10 * factor,
      heap_in_use_bytes: 5,
      open_fds: 3,
    },
    stages: [
      {
        stage: 'parse',
        cpu_seconds: factor,
        allocations: 4 * factor,
        allocated_bytes: 100 * factor,
      },
      { stage: 'none', cpu_seconds: 0.5 * factor, allocations: 0, allocated_bytes: 0 },
    ],
    parts: [],
    pools: [
      {
        pool: 'node',
        targets: 2,
        scrapes: 3 * factor,
        samples: 900 * factor,
        cpu_seconds: factor,
        fetch_seconds: 3 * factor,
        allocated_bytes: 9 * factor,
        held_bytes: 77,
        body_bytes: 4000 * factor,
        transferred_bytes: 400 * factor,
      },
    ],
    targets: [],
  };
}

const moment = (at: number, factor: number, since?: string): Moment => ({
  at,
  cost: cost(factor, since),
});

test('what was used between two answers', () => {
  const use = useBetween(moment(5_000, 2), moment(15_000, 5));
  assert.equal(use.sinceStart, false);
  assert.equal(use.seconds, 10);
  assert.equal(use.samples, 3000);
  assert.equal(use.cpuSeconds, 6);
  assert.equal(use.allocatedBytes, 1500);
  assert.equal(use.allocations, 30);
  assert.equal(use.stagedSeconds, 4.5);
  assert.deepEqual(use.stages[0], {
    stage: 'parse',
    cpuSeconds: 3,
    allocations: 12,
    allocatedBytes: 300,
  });
  const [pool] = use.pools;
  assert.deepEqual([pool?.samples, pool?.cpuSeconds, pool?.bodyBytes], [2700, 3, 12_000]);
  assert.equal(perSample(use.cpuSeconds * 1e9, use.samples), 2e6);
  assert.equal(perSample(1, 0), null);
});

test('without an earlier answer, or after a restart, all is since the start', () => {
  const restarted = moment(5_000, 9, '2026-11-21T09:00:00Z');
  const backwards = moment(5_000, 9);
  for (const from of [null, restarted, backwards]) {
    const use = useBetween(from, moment(15_000, 5));
    assert.deepEqual([use.sinceStart, use.seconds, use.samples], [true, 60, 5000]);
    assert.equal(use.pools[0]?.samples, 4500);
  }
  const young = { at: 1, cost: { ...cost(1), uptime_seconds: 0 } };
  assert.ok(useBetween(null, young).seconds > 0, 'nothing is divided by nothing');
});

test('a stage or pool that the earlier answer lacks counts from nothing', () => {
  const before: Moment = { at: 0, cost: { ...cost(2), stages: [], pools: [] } };
  const use = useBetween(before, moment(1000, 5));
  assert.equal(use.sinceStart, false);
  assert.equal(use.stages[0]?.cpuSeconds, 5);
  assert.equal(use.pools[0]?.samples, 4500);
});

test('answers of the last minutes are kept, and one that is as old', () => {
  let kept: readonly Moment[] = [];
  for (let at = 0; at <= 100; at += 10) kept = remember(kept, moment(at, at), 45);
  assert.deepEqual(
    kept.map(({ at }) => at),
    [50, 60, 70, 80, 90, 100],
  );
  kept = remember(kept, moment(110, 1, '2026-11-21T11:00:00Z'), 45);
  assert.deepEqual(
    kept.map(({ at }) => at),
    [110],
  );
});

test('addresses of the page lead back to what they were made of', () => {
  assert.equal(overviewLink(readOverview('')), 'cost');
  assert.equal(readProfile('over=start'), null);
  assert.equal(readProfile('type=nothing'), null);
  const overview = { over: 'start', range: 7_200_000, end: Date.UTC(2026, 10, 21, 12) } as const;
  assert.deepEqual(readOverview(overviewLink(overview).split('?')[1]!), overview);
  const profile = {
    type: 'allocated',
    stage: 'a&b=c',
    seconds: 10,
    search: '<b>"x" & y',
    zoom: 'k3f',
  } as const;
  assert.deepEqual(readProfile(profileLink(profile).split('?')[1]!), profile);
  assert.equal(profileLink({ type: 'cpu' }), 'cost?type=cpu');
  assert.equal(readProfile('type=cpu&seconds=86400')?.seconds, 0);
  assert.equal(readProfile('type=inuse&seconds=10')?.seconds, 10);
});

test('figures as they are written', () => {
  const cases: readonly (readonly [string, string])[] = [
    [amount(0), '0'],
    [amount(0.0324), '0.0324'],
    [amount(0.000001), '< 0.00001'],
    [amount(0.000301), '0.000301'],
    [short(2_000_000, 'bytes'), '1.91 MiB'],
    [short(1000, 'bytes/s'), '1000 B/s'],
    [short(0, 'bytes'), '0 B'],
    [short(0.000012345, 'seconds'), '12.3 µs'],
    [short(Number.NaN), '–'],
    [amount(1234), '1\u202f230'],
    [amount(2_345_678), '2.35M'],
    [amount(null), '–'],
    [amount(Number.NaN), '–'],
    [bytesPer(0.25), '0.25 B'],
    [bytesPer(0.00001), '< 0.001 B'],
    [bytesPer(0), '0 B'],
    [share(1, 3), '33.3 %'],
    [share(1, 1e6), '< 0.1 %'],
    [share(0, 0), '–'],
    [span(0.4), '0.4 s'],
    [span(45), '45 s'],
    [span(275), '4 min 35 s'],
    [span(11_520), '3 h 12 min'],
    [span(3600), '1 h'],
    [span(190_000), '2 d 4 h'],
  ];
  for (const [got, want] of cases) assert.equal(got, want);
});

test('rows sort by figures and names, those without a figure last', () => {
  const rows = [{ v: 2 }, { v: null }, { v: 30 }, { v: 2 }, { v: Number.NaN }];
  const order = (descending: boolean) => sortRows(rows, ({ v }) => v, descending).map(({ v }) => v);
  assert.deepEqual(order(true), [30, 2, 2, null, Number.NaN]);
  assert.deepEqual(order(false), [2, 2, 30, null, Number.NaN]);
  assert.deepEqual(
    sortRows(['x10', 'x9'], (row) => row, false),
    ['x9', 'x10'],
  );
});

test('stages stand in the order of the work, the unknown behind, what is outside last', () => {
  const stages = ['none', 'upkeep', 'new', 'parse', 'fetch'];
  assert.deepEqual(stages.sort(byStageOrder), ['fetch', 'parse', 'upkeep', 'new', 'none']);
  const known = [
    'fetch',
    'inflate',
    'parse',
    'relabel',
    'append',
    'journal',
    'query',
    'rules',
    'open',
    'profiler',
  ];
  const colors = [...known, 'answer', 'upkeep', 'none'].map(stageColor);
  assert.equal(new Set(colors).size, colors.length);
});

test('a window begins with the own answers once they span it, before with what the metrics say', () => {
  const keep = 300_000;
  const earlier = moment(-keep, 1);
  const early = [moment(0, 2), moment(30_000, 3)];
  const late = [...early, moment(keep, 4)];
  assert.equal(windowStart([], earlier, keep), null);
  assert.equal(windowStart([moment(0, 2), moment(29_000, 3)], null, keep), null, 'too short');
  assert.equal(windowStart(early.slice(0, 1), null, keep), null);
  assert.equal(windowStart(early.slice(0, 1), earlier, keep), earlier);
  assert.equal(windowStart(early, earlier, keep), earlier);
  assert.equal(windowStart(early, null, keep), early[0]);
  assert.equal(windowStart(late, earlier, keep), late[0]);
});

const START = Date.parse(SINCE) / 1000;
const OWN = { labels: { instance: 'a:9090', job: 'self' }, clock: -1000 };

test('of all servers that are scraped, itself is the one that started when it did', () => {
  const target = (instance: string, started: string) => ({
    metric: { __name__: 'process_start_time_seconds', job: 'self', instance },
    value: [5000, started] as const,
  });
  const find = (...result: ReturnType<typeof target>[]) =>
    ownTarget({ resultType: 'vector', result }, SINCE, 7_000_000);
  const own = target('a:9090', String(START - 0.2));
  const others = [target('b', String(START - 900)), target('c', 'NaN'), target('d', '+Inf')];
  const found = { labels: { job: 'self', instance: 'a:9090' }, clock: 2_000_000 };
  assert.deepEqual(find(...others, target('e', String(START + 3)), own), found);
  assert.equal(find(...others), null);
  assert.equal(find(), null);
});

test('expressions name the own target, whatever its labels hold', () => {
  assert.match(
    sumsQuery(OWN, '5m'),
    /^\{__name__=~"[\w|]+", instance="a:9090", job="self"\}\[1m\] offset 5m$/,
  );
  assert.match(sumsQuery({ labels: {}, clock: 0 }, '5m'), /^\{__name__=~"[\w|]+"\}\[1m\]/);
  const odd = { labels: { 'a.b': 'x"}\\' }, clock: 0 };
  assert.ok(sumsQuery(odd, '5m').includes('"a.b"="x\\"}\\\\"}[1m]'));
  const [cpu, bytes] = historyQueries(OWN, '1m');
  const rate = (name: string) => `rate(${name}{instance="a:9090", job="self"}[1m])`;
  assert.equal(cpu, `sum by (stage) (${rate('profiler_stage_cpu_seconds_total')})`);
  assert.ok(bytes.startsWith(`sum by (stage) (${rate('heap_allocated_bytes_total')}) / scalar(`));
});

test('sums of the own metrics are an answer of that time', () => {
  const series = (name: string, stage: string, value: number) => ({
    metric: { __name__: name, ...OWN.labels, ...(stage === '' ? {} : { stage }) },
    values: [
      [START, '0'],
      [START + 15, String(value)],
    ] as const,
  });
  const data = {
    resultType: 'matrix',
    result: [
      series('profiler_stage_cpu_seconds_total', 'parse', 0.5),
      series('heap_allocations_total', 'parse', 3),
      series('heap_allocated_bytes_total', 'parse', 70),
      series('heap_allocated_bytes_total', 'none', 30),
      series('prometheus_tsdb_head_samples_appended_total', '', 800),
      series('process_cpu_seconds_total', '', 1.5),
    ],
  } as const;
  const earlier = earlierCost(data, OWN, cost(1));
  assert.equal(earlier?.at, (START + 15) * 1000 - 1000);
  const use = useBetween(earlier, { at: earlier!.at + 10_000, cost: cost(1) });
  assert.deepEqual(
    [use.sinceStart, use.seconds, use.samples, use.cpuSeconds, use.allocatedBytes, use.allocations],
    [false, 10, 200, 0.5, 400, 7],
  );
  assert.deepEqual(use.stages[0], {
    stage: 'parse',
    cpuSeconds: 0.5,
    allocations: 1,
    allocatedBytes: 30,
  });
  assert.equal(earlierCost({ resultType: 'matrix', result: [] }, OWN, cost(1)), null);
});
