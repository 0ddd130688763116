import assert from 'node:assert/strict';
import { test } from 'node:test';
import { arrange, isolated, nextOrder, toggled, type Order } from '../../src/query/legend-order.ts';
import { shape } from '../../src/series.ts';

const { lines } = shape(
  [
    ['q10', '2'],
    ['q9', 'NaN'],
    ['q1', '3'],
    ['other', '1'],
  ].map(([queue = '', value = '']) => ({ metric: { queue }, values: [[0, value]] as const })),
  0,
  0,
  1,
);
const names = (order: Order | null, filter = '') =>
  arrange(lines, order, filter).map((line) => line.labels['queue']);

test('rows are filtered and sorted, numbers in names as numbers, NaN last', () => {
  assert.deepEqual(names(null), ['q10', 'q9', 'q1', 'other']);
  assert.deepEqual(names(null, ' Q1 '), ['q10', 'q1']);
  assert.deepEqual(names({ column: 'name', down: false }), ['other', 'q1', 'q9', 'q10']);
  assert.deepEqual(names({ column: 'name', down: true }), ['q10', 'q9', 'q1', 'other']);
  assert.deepEqual(names({ column: 'last', down: true }), ['q1', 'q10', 'other', 'q9']);
  assert.deepEqual(names({ column: 'last', down: false }), ['other', 'q10', 'q1', 'q9']);
});

test('clicks on a column go through both directions and back', () => {
  const first = nextOrder(null, 'max');
  assert.deepEqual(first, { column: 'max', down: true });
  const second = nextOrder(first, 'max');
  assert.deepEqual(second, { column: 'max', down: false });
  assert.equal(nextOrder(second, 'max'), null);
  assert.deepEqual(nextOrder(second, 'name'), { column: 'name', down: false });
});

test('a click isolates and brings all back, with Ctrl it toggles', () => {
  const keys = ['a', 'b', 'c'];
  const only = isolated(keys, new Set(), 'a');
  assert.deepEqual([...only], ['b', 'c']);
  assert.equal(isolated(keys, only, 'a').size, 0);
  assert.deepEqual([...isolated(keys, only, 'b')], ['a', 'c']);
  assert.deepEqual([...toggled(only, 'b')], ['c']);
  assert.deepEqual([...toggled(only, 'a')], ['b', 'c', 'a']);
});
