import assert from 'node:assert/strict';
import { test } from 'node:test';
import { spanOf, wider } from '../../src/query/zoom.ts';

test('a span is whole seconds and never empty', () => {
  assert.deepEqual(spanOf(100.2, 160.4), { range: 60_000, end: 160_000 });
  assert.deepEqual(spanOf(100, 100.1), { range: 1000, end: 100_000 });
});

test('wider ranges grow on both sides, not into the future', () => {
  const hour = 3_600_000;
  assert.deepEqual(wider({ range: hour, end: null }, 9e12), { range: 2 * hour, end: null });
  assert.deepEqual(wider({ range: hour, end: 10 * hour }, 99 * hour), {
    range: 2 * hour,
    end: 10.5 * hour,
  });
  assert.deepEqual(wider({ range: hour, end: 10 * hour }, 10 * hour), {
    range: 2 * hour,
    end: 10 * hour,
  });
});
