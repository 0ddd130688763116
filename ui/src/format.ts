/**
 * Numbers, units and times for people. Exact values are shown as the server sent them; this is for
 * axes, legends and readouts. Nothing here depends on the browser's language, so that a screenshot
 * reads the same everywhere.
 */

/** What a number measures. `timestamp` is seconds since 1970. */
export type Unit = 'none' | 'bytes' | 'bytes/s' | 'seconds' | 'ratio' | 'timestamp';

interface Scale {
  readonly factor: number;
  readonly suffix: string;
}

const SI: readonly Scale[] = [
  { factor: 1e15, suffix: 'P' },
  { factor: 1e12, suffix: 'T' },
  { factor: 1e9, suffix: 'G' },
  { factor: 1e6, suffix: 'M' },
  { factor: 1e3, suffix: 'k' },
  { factor: 1, suffix: '' },
];
const BINARY: readonly Scale[] = ['P', 'T', 'G', 'M', 'K', ''].map((prefix, index) => ({
  factor: 1024 ** (5 - index),
  suffix: ` ${prefix}${prefix && 'i'}B`,
}));
const SECONDS: readonly Scale[] = [
  { factor: 86400, suffix: ' d' },
  { factor: 3600, suffix: ' h' },
  { factor: 60, suffix: ' min' },
  { factor: 1, suffix: ' s' },
  { factor: 1e-3, suffix: ' ms' },
  { factor: 1e-6, suffix: ' µs' },
  { factor: 1e-9, suffix: ' ns' },
];

function scalesOf(unit: Unit): readonly Scale[] {
  if (unit === 'bytes') return BINARY;
  if (unit === 'bytes/s') return BINARY.map((s) => ({ ...s, suffix: `${s.suffix}/s` }));
  if (unit === 'seconds') return SECONDS;
  if (unit === 'ratio') return [{ factor: 0.01, suffix: ' %' }];
  return SI;
}

function pickScale(magnitude: number, unit: Unit): Scale {
  const scales = scalesOf(unit);
  const unscaled = scales.find((s) => s.factor === 1) ?? scales[0]!;
  if (magnitude === 0) return unscaled;
  // A plain number reads best as it is; below a thousandth, `m` and `µ` would be read as something else.
  if (unit === 'none' && magnitude < 10_000) return unscaled;
  return scales.find((s) => magnitude >= s.factor * 0.99995) ?? scales[scales.length - 1]!;
}

function special(value: number): string | null {
  if (Number.isNaN(value)) return 'NaN';
  if (value === Number.POSITIVE_INFINITY) return '+Inf';
  if (value === Number.NEGATIVE_INFINITY) return '-Inf';
  return null;
}

/** A minus as wide as a digit, so that columns align. */
function minus(text: string): string {
  return text.replace('-', '−');
}

/** A value with about four significant digits and its unit: `1.234 MiB`, `12.5 %`, `250 ms`. */
export function formatValue(value: number, unit: Unit = 'none'): string {
  const odd = special(value);
  if (odd !== null) return odd;
  if (unit === 'timestamp') return formatTime(Math.round(value * 1000), true, true);
  const { factor, suffix } = pickScale(Math.abs(value), unit);
  const scaled = value / factor;
  if (isExtreme(scaled)) {
    const plain = unit === 'none';
    const text = (plain ? value : scaled).toExponential(3).replace(/\.?0+e/, 'e');
    return minus(text) + (plain ? '' : suffix);
  }
  return minus(trimZeros(significant(scaled, 4))) + suffix;
}

/** Too large or too small to be read as a plain decimal. */
function isExtreme(scaled: number): boolean {
  const magnitude = Math.abs(scaled);
  return magnitude !== 0 && (magnitude >= 1e6 || magnitude < 1e-4);
}

function significant(value: number, digits: number): string {
  if (value === 0) return '0';
  const exponent = Math.floor(Math.log10(Math.abs(value)));
  return value.toFixed(Math.min(Math.max(digits - 1 - exponent, 0), 12));
}

function trimZeros(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** Labels for an axis: one unit and one number of decimals for all ticks. */
export function formatTicks(ticks: readonly number[], unit: Unit): string[] {
  if (unit === 'timestamp') return ticks.map((tick) => formatTime(tick * 1000, true, true));
  const largest = Math.max(...ticks.map(Math.abs), 0);
  const { factor, suffix } = pickScale(largest, unit);
  if (isExtreme(largest / factor)) {
    const [by, after] = unit === 'none' ? [1, ''] : [factor, suffix];
    return ticks.map((tick) => (tick === 0 ? '0' : minus((tick / by).toExponential(1)) + after));
  }
  const gap = ticks.length > 1 ? Math.abs(ticks[1]! - ticks[0]!) / factor : 1;
  // The smallest number of decimals that tells neighbours apart exactly enough.
  let decimals = 0;
  while (
    decimals < 9 &&
    Math.abs(gap * 10 ** decimals - Math.round(gap * 10 ** decimals)) > 1e-6 * gap * 10 ** decimals
  )
    decimals += 1;
  decimals = Math.min(decimals, Math.max(0, 2 - Math.floor(Math.log10(gap || 1))));
  return ticks.map((tick) =>
    tick === 0 ? '0' : minus((tick / factor).toFixed(decimals)) + suffix,
  );
}

const POWERS_OF_TWO = Array.from({ length: 64 }, (_, exponent) => 2 ** exponent);
const CLOCK_STEPS = [
  ...[1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1].flatMap((ten) => [
    ten,
    2 * ten,
    5 * ten,
  ]),
  ...[1, 2, 5, 10, 15, 20, 30],
  ...[60, 120, 300, 600, 900, 1200, 1800],
  ...[3600, 7200, 10_800, 21_600, 43_200],
  ...Array.from({ length: 40 }, (_, n) => [1, 2, 5].map((lead) => lead * 86_400 * 10 ** n)).flat(),
];

/** The gaps between ticks that read well in a unit; undefined where decimal ones do. */
export function tickSteps(unit: Unit): number[] | undefined {
  if (unit === 'bytes' || unit === 'bytes/s') return POWERS_OF_TWO;
  return unit === 'seconds' ? CLOCK_STEPS : undefined;
}

/** A count with thin separators: 1234567 is `1 234 567`. */
export function formatCount(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
}

/** A number of milliseconds that passed: `3 ms`, `1.25 s`, `2 min`. */
export function formatElapsed(ms: number): string {
  if (ms < 1) return '< 1 ms';
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  return formatValue(Number((ms / 1000).toPrecision(3)), 'seconds');
}

/** How long ago, coarse: `just now`, `12 s ago`, `3 min ago`, `2 d ago`. */
export function formatAgo(ms: number): string {
  const seconds = ms / 1000;
  if (seconds < 1) return 'just now';
  if (seconds < 10) return `${seconds.toFixed(1)} s ago`;
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 129_600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86_400)} d ago`;
}

function pad(value: number, width = 2): string {
  return String(value).padStart(width, '0');
}

/** `2026-11-21 15:04:05`, local or UTC; milliseconds where there are any; null for an odd time. */
export function formatTime(ms: number, utc: boolean, date: boolean): string {
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return 'no time';
  const shifted = utc ? at : new Date(ms - at.getTimezoneOffset() * 60_000);
  const day = `${pad(shifted.getUTCFullYear(), 4)}-${pad(shifted.getUTCMonth() + 1)}-${pad(shifted.getUTCDate())}`;
  let clock = `${pad(shifted.getUTCHours())}:${pad(shifted.getUTCMinutes())}:${pad(shifted.getUTCSeconds())}`;
  if (shifted.getUTCMilliseconds() !== 0) clock += `.${pad(shifted.getUTCMilliseconds(), 3)}`;
  return date ? `${day} ${clock}` : clock;
}

/** Reads `2026-11-21 15:04[:05]`, with `T` or a blank, or seconds since 1970. Null if it is neither. */
export function parseTime(text: string, utc: boolean): number | null {
  const trimmed = text.trim();
  if (/^\d{9,10}(\.\d+)?$/.test(trimmed)) return Math.round(Number(trimmed) * 1000);
  const match = /^(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d(?:\.\d{1,3})?))?)?(Z)?$/.exec(
    trimmed,
  );
  if (match === null) return null;
  const [, year, month, day, hour = '0', minute = '0', second = '0', zulu] = match;
  const parts = [
    Number(year),
    Number(month) - 1,
    Number(day),
    Number(hour),
    Number(minute),
  ] as const;
  const whole = Math.floor(Number(second));
  const ms = Math.round((Number(second) - whole) * 1000);
  const at =
    utc || zulu !== undefined
      ? Date.UTC(...parts, whole, ms)
      : new Date(...parts, whole, ms).getTime();
  // Date rolls 31 February over into March; a typing error must not become another day.
  const check = new Date(
    utc || zulu !== undefined ? at : at - new Date(at).getTimezoneOffset() * 60_000,
  );
  return check.getUTCDate() === parts[2] && check.getUTCHours() === parts[3] ? at : null;
}
