import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  formatDuration,
  longerRange,
  parseDuration,
  roundStep,
  shorterRange,
} from '../../src/duration.ts';

test('durations are read as Prometheus and people write them', () => {
  const cases: [string, number | null][] = [
    ['1h', 3_600_000],
    ['1h30m', 5_400_000],
    ['1h 30m', 5_400_000],
    ['1.5h', 5_400_000],
    ['500ms', 500],
    ['1m500ms', 60_500],
    ['2w', 1_209_600_000],
    ['1y', 31_536_000_000],
    ['90', 90_000],
    ['0.5', 500],
    ['1H', 3_600_000],
    ['', null],
    ['0', null],
    ['0s', null],
    ['h', null],
    ['-1h', null],
    ['1x', null],
    ['1h-', null],
    ['1e3', null],
    ['99999999999999y', null],
  ];
  for (const [text, ms] of cases) assert.equal(parseDuration(text), ms, text);
});

test('durations are written shortest and read back the same', () => {
  const cases: [number, string][] = [
    [3_600_000, '1h'],
    [5_400_000, '1h30m'],
    [86_400_000, '1d'],
    [604_800_000, '1w'],
    [8 * 86_400_000, '8d'],
    [31_536_000_000, '1y'],
    [14_400, '14s400ms'],
    [1, '1ms'],
    [0, '0s'],
  ];
  for (const [ms, text] of cases) {
    assert.equal(formatDuration(ms), text);
    if (ms > 0) assert.equal(parseDuration(text), ms);
  }
});

test('ranges step up and down the same ladder and stop at its ends', () => {
  assert.equal(longerRange(3_600_000), 7_200_000);
  assert.equal(shorterRange(3_600_000), 1_800_000);
  assert.equal(longerRange(3_700_000), 7_200_000);
  assert.equal(shorterRange(3_700_000), 3_600_000);
  assert.equal(shorterRange(1000), 1000);
  assert.equal(longerRange(9e12), 9e12);
});

test('steps are round, and never give more than the points asked for', () => {
  for (const range of [10_000, 60_000, 3_600_000, 86_400_000, 31_536_000_000, 9e11]) {
    for (const points of [100, 250, 750]) {
      const step = roundStep(range, points);
      assert.ok(step >= 1000 && step % 1000 === 0, `${step}`);
      assert.ok(range / step <= points, `${range} in ${points}: ${step}`);
    }
  }
  assert.equal(roundStep(3_600_000, 250), 15_000);
});
