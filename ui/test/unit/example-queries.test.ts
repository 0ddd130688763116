import assert from 'node:assert/strict';
import { test } from 'node:test';
import { examplesFor, rateWindow } from '../../src/query/example-queries.ts';

test('only queries that give a graph are offered, each title once', () => {
  assert.deepEqual(examplesFor(new Set(), '1m'), []);
  const groups = examplesFor(
    new Set([
      'up',
      'node_cpu_seconds_total',
      'unladen_scrape_samples_total',
      'prometheus_tsdb_head_samples_appended_total',
    ]),
    '4m',
  );
  assert.deepEqual(
    groups.map((group) => group.examples.map((example) => example.expr)),
    [
      ['sum by (mode) (rate(node_cpu_seconds_total{mode!="idle"}[4m]))'],
      ['sum by (job) (up)'],
      ['rate(unladen_scrape_samples_total[4m])'],
    ],
  );
});

test('the window of rates covers four scrapes of the slowest target', () => {
  assert.equal(rateWindow(''), '1m');
  assert.equal(rateWindow('global:\n  scrape_interval: 5s\n'), '1m');
  assert.equal(
    rateWindow('global:\n  scrape_interval: 15s\nscrape_configs:\n- scrape_interval: "1m30s"\n'),
    '6m',
  );
});
