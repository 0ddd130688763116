import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MatrixSeries } from '../../src/api/types.ts';
import { gridTimes, layerAt, nearestLine, parseValue, shape, stack } from '../../src/series.ts';

const series = (name: string, values: [number, string][]): MatrixSeries => ({
  metric: { __name__: name },
  values,
});

test('grid times include both ends', () => {
  assert.deepEqual(gridTimes(0, 60, 15), [0, 15, 30, 45, 60]);
  assert.deepEqual(gridTimes(0, 59, 15), [0, 15, 30, 45]);
  assert.equal(gridTimes(0.1, 0.1 + 0.3, 0.1).length, 4);
  assert.deepEqual(gridTimes(10, 0, 5), []);
});

test('series land on the grid with gaps as null', () => {
  const grid = shape(
    [
      series('a', [
        [0, '1'],
        [15, '3'],
        [60, '2'],
      ]),
      series('b', [
        [15, 'NaN'],
        [30, '+Inf'],
      ]),
      { metric: { __name__: 'h' }, histograms: [[0, { count: '1', sum: '1' }]] },
      { metric: { __name__: 'nothing' } },
    ],
    0,
    60,
    15,
  );
  assert.deepEqual(grid.times, [0, 15, 30, 45, 60]);
  assert.equal(grid.histograms, 1);
  assert.equal(grid.points, 5);
  const [a, b] = grid.lines;
  assert.deepEqual(a?.values, [1, 3, null, null, 2]);
  assert.deepEqual(a?.lonely, [4]);
  assert.deepEqual([a?.min, a?.max, a?.mean, a?.last], [1, 3, 2, 2]);
  assert.deepEqual(b?.values, [null, null, null, null, null]);
  assert.equal(b?.lonely, null);
  assert.equal(b?.last, Number.POSITIVE_INFINITY);
  assert.equal(grid.lines.length, 2);
});

test('points off the grid by rounding errors find their place', () => {
  const grid = shape([series('a', [[1795275081.501, '1']])], 1795275066.5, 1795275096.5, 15);
  assert.deepEqual(grid.lines[0]?.values, [null, 1, null]);
});

test('values are read as the API writes them', () => {
  assert.equal(parseValue('1e-07'), 1e-7);
  assert.equal(parseValue('-Inf'), Number.NEGATIVE_INFINITY);
  assert.ok(Number.isNaN(parseValue('NaN')));
});

test('stacks add up, and gaps in one line do not tear the others', () => {
  const { lines } = shape(
    [
      series('a', [
        [0, '1'],
        [1, '1'],
      ]),
      series('b', [
        [1, '2'],
        [2, '2'],
      ]),
    ],
    0,
    3,
    1,
  );
  assert.deepEqual(stack(lines), [
    [1, 1, 0, null],
    [1, 3, 2, null],
  ]);
  assert.deepEqual(stack([]), []);
});

test('the pointer finds the nearest line, or the layer it is in', () => {
  const tops = [
    [1, 5],
    [2, null],
    [10, 6],
  ];
  assert.equal(nearestLine(tops, 0, 2.2, 1), 1);
  assert.equal(nearestLine(tops, 0, 6, 1), -1);
  assert.equal(nearestLine(tops, 1, 5.9, 1), 2);
  assert.equal(nearestLine(tops, 9, 5, 1), -1);
  assert.equal(layerAt(tops, 0, 0.5), 0);
  assert.equal(layerAt(tops, 0, 1.5), 1);
  assert.equal(layerAt(tops, 0, 9), 2);
  assert.equal(layerAt(tops, 0, 11), -1);
});
