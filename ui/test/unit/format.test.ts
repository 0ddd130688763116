import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  formatAgo,
  formatCount,
  formatElapsed,
  formatTicks,
  formatTime,
  formatValue,
  parseTime,
  type Unit,
} from '../../src/format.ts';

test('values get about four digits and a unit', () => {
  const cases: [number, Unit, string][] = [
    [0, 'none', '0'],
    [1, 'none', '1'],
    [1234.5678, 'none', '1235'],
    [0.123456, 'none', '0.1235'],
    [0.0003636, 'none', '0.0003636'],
    [0.00001, 'none', '1e−5'],
    [12345, 'none', '12.35k'],
    [-12345, 'none', '−12.35k'],
    [1e6, 'none', '1M'],
    [3.2e21, 'none', '3.2e+21'],
    [1e-12, 'seconds', '0.001 ns'],
    [1e-15, 'seconds', '1e−6 ns'],
    [Number.NaN, 'bytes', 'NaN'],
    [Number.POSITIVE_INFINITY, 'seconds', '+Inf'],
    [Number.NEGATIVE_INFINITY, 'none', '-Inf'],
    [1023, 'bytes', '1023 B'],
    [1024, 'bytes', '1 KiB'],
    [1.5 * 1024 ** 3, 'bytes', '1.5 GiB'],
    [2 * 1024 ** 2, 'bytes/s', '2 MiB/s'],
    [0.25, 'seconds', '250 ms'],
    [0.0000025, 'seconds', '2.5 µs'],
    [90, 'seconds', '1.5 min'],
    [172800, 'seconds', '2 d'],
    [0.125, 'ratio', '12.5 %'],
    [0, 'ratio', '0 %'],
    [0, 'timestamp', '1970-01-01 00:00:00'],
  ];
  for (const [value, unit, text] of cases) assert.equal(formatValue(value, unit), text);
});

test('ticks share one unit and as many decimals as tell them apart', () => {
  const cases: [number[], Unit, string[]][] = [
    [[0, 0.2, 0.4], 'none', ['0', '0.2', '0.4']],
    [[0, 0.25, 0.5], 'none', ['0', '0.25', '0.50']],
    [[0, 500, 1000], 'none', ['0', '500', '1000']],
    [[0, 5000, 10000], 'none', ['0', '5k', '10k']],
    [[0, 1024 ** 2, 2 * 1024 ** 2], 'bytes', ['0', '1 MiB', '2 MiB']],
    [[0, 0.05, 0.1], 'seconds', ['0', '50 ms', '100 ms']],
    [[-1, -0.5, 0], 'none', ['−1.0', '−0.5', '0']],
    [[0, 0.5, 1], 'ratio', ['0', '50 %', '100 %']],
    [[], 'none', []],
  ];
  for (const [ticks, unit, texts] of cases) {
    const shown = formatTicks(ticks, unit);
    assert.deepEqual(
      shown.map((text) => (/^0 /.test(text) ? '0' : text)),
      texts,
    );
  }
});

test('ticks of neighbouring values never read the same', () => {
  for (let exponent = -12; exponent <= 15; exponent += 1) {
    for (const increment of [1, 2, 2.5, 5]) {
      for (const unit of ['none', 'bytes', 'seconds', 'ratio'] as const) {
        const gap = increment * 10 ** exponent;
        const texts = formatTicks([gap, 2 * gap, 3 * gap, 4 * gap], unit);
        assert.equal(new Set(texts).size, 4, `${gap} ${unit}: ${texts.join(', ')}`);
      }
    }
  }
});

test('times are written and read back, in UTC and in the local zone', () => {
  const at = Date.UTC(2026, 10, 21, 15, 4, 5);
  assert.equal(formatTime(at, true, true), '2026-11-21 15:04:05');
  assert.equal(formatTime(at + 250, true, false), '15:04:05.250');
  assert.equal(formatTime(Number.NaN, true, true), 'no time');
  for (const utc of [true, false]) assert.equal(parseTime(formatTime(at, utc, true), utc), at);
  assert.equal(parseTime('2026-11-21T15:04:05Z', false), at);
  assert.equal(parseTime('2026-11-21 15:04', true), at - 5000);
  assert.equal(parseTime('2026-11-21', true), Date.UTC(2026, 10, 21));
  assert.equal(parseTime('1795275081.5', true), 1795275081500);
  for (const wrong of ['', 'now', '21.11.2026', '2026-02-31', '2026-11-21 25:00', '12']) {
    assert.equal(parseTime(wrong, true), null, wrong);
  }
});

test('counts, spans and ages', () => {
  assert.equal(formatCount(1234567), '1\u202f234\u202f567');
  assert.equal(formatCount(999), '999');
  assert.equal(formatElapsed(0.4), '< 1 ms');
  assert.equal(formatElapsed(12.4), '12 ms');
  assert.equal(formatElapsed(1254), '1.25 s');
  assert.equal(formatAgo(-50), 'just now');
  assert.equal(formatAgo(4321), '4.3 s ago');
  assert.equal(formatAgo(75_000), '75 s ago');
  assert.equal(formatAgo(600_000), '10 min ago');
  assert.equal(formatAgo(3 * 86_400_000), '3 d ago');
});
