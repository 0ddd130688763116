/**
 * Durations as Prometheus writes them (`1h30m`, `500ms`, `2w`), in milliseconds. Also accepts what
 * people type: a bare number is seconds, blanks between the parts, decimals (`1.5h`).
 */

const UNITS: readonly (readonly [string, number])[] = [
  ['y', 365 * 86_400_000],
  ['w', 7 * 86_400_000],
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
  ['ms', 1],
];
const FACTOR = new Map(UNITS);

/** Milliseconds of a typed duration, or null when it isn't one or isn't above zero. */
export function parseDuration(text: string): number | null {
  const compact = text.replace(/\s+/g, '').toLowerCase();
  if (/^\d+(\.\d+)?$/.test(compact)) return positive(Number(compact) * 1000);
  if (!/^(\d+(\.\d+)?(ms|[ywdhms]))+$/.test(compact)) return null;
  let total = 0;
  for (const [, count, unit] of compact.matchAll(/(\d+(?:\.\d+)?)(ms|[ywdhms])/g)) {
    total += Number(count) * (FACTOR.get(unit ?? '') ?? Number.NaN);
  }
  return positive(total);
}

function positive(ms: number): number | null {
  const whole = Math.round(ms);
  return whole > 0 && Number.isSafeInteger(whole) ? whole : null;
}

/** The shortest exact spelling: 5400000 is `1h30m`. Weeks and years only where they come out even. */
export function formatDuration(ms: number): string {
  let rest = Math.round(ms);
  if (rest <= 0) return '0s';
  for (const [unit, factor] of UNITS) {
    if ((unit === 'y' || unit === 'w') && rest % factor === 0) return `${rest / factor}${unit}`;
  }
  let text = '';
  for (const [unit, factor] of UNITS) {
    if (unit === 'y' || unit === 'w') continue;
    const count = Math.floor(rest / factor);
    if (count > 0) text += `${count}${unit}`;
    rest -= count * factor;
  }
  return text;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const LADDER: readonly number[] = [
  10_000,
  30_000,
  ...[1, 5, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 7, 14, 28, 56, 112, 182, 365, 730].map((n) => n * DAY),
];

/** The next longer range on the ladder that the `+` button walks. */
export function longerRange(ms: number): number {
  return LADDER.find((step) => step > ms) ?? ms;
}

/** The next shorter range on the ladder that the `-` button walks. */
export function shorterRange(ms: number): number {
  return LADDER.findLast((step) => step < ms) ?? ms;
}

const STEPS: readonly number[] = [
  ...[1, 2, 5, 10, 15, 20, 30].map((n) => n * 1000),
  ...[1, 2, 3, 5, 10, 15, 20, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 4, 6, 8, 12].map((n) => n * HOUR),
  ...[1, 2, 7, 14, 28].map((n) => n * DAY),
];

/** The finest round step that cuts `rangeMs` into at most `points` pieces; at least a second. */
export function roundStep(rangeMs: number, points: number): number {
  const exact = rangeMs / points;
  return STEPS.find((step) => step >= exact) ?? Math.ceil(exact / DAY) * DAY;
}
