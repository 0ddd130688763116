/** How figures of cost are written. */
import { formatCount, formatValue, type Unit } from '../format.ts';
import type { Profile, ProfileType } from './answers.ts';

export const NO_FIGURE = '–';

/** Three digits tell a cost; more would change with every refresh. */
export function short(value: number | null, unit: Unit = 'none'): string {
  if (value === null || !Number.isFinite(value)) return NO_FIGURE;
  return formatValue(rounded(value, unit.startsWith('bytes') ? 1024 : 1000), unit);
}

/** Three digits of what stands before the unit, whose prefixes are steps of `base`. */
function rounded(value: number, base: number): number {
  const steps = value === 0 ? 0 : Math.floor(Math.log(Math.abs(value)) / Math.log(base));
  const factor = base ** Math.max(steps, base === 1024 ? 0 : -10);
  return Number((value / factor).toPrecision(3)) * factor;
}

/** Plain numbers with units from a thousand on: `14.2 k`, `0.032`. */
export function amount(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return NO_FIGURE;
  const short = Number(value.toPrecision(3));
  if (short !== 0 && Math.abs(short) < 1e-5) return '< 0.00001';
  return Math.abs(short) < 1e6 ? formatPlain(short) : formatValue(short);
}

function formatPlain(value: number): string {
  return Math.abs(value) >= 1000 ? formatCount(value) : String(value);
}

/** Bytes per something: fractions of a byte are worth telling. */
export function bytesPer(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return NO_FIGURE;
  return value !== 0 && value < 0.001 ? '< 0.001 B' : short(value, 'bytes');
}

/** Time spent per second. */
export function perSecond(value: number | null): string {
  return value === null ? NO_FIGURE : `${short(value, 'seconds')}/s`;
}

export function share(part: number, whole: number): string {
  if (!(whole > 0)) return NO_FIGURE;
  const ratio = part / whole;
  if (ratio > 0 && ratio < 0.0005) return '< 0.1 %';
  return `${(ratio * 100).toFixed(1)} %`;
}

/** A length of time: `45 s`, `4 min 35 s`, `3 h 12 min`, `2 d 5 h`. */
export function span(seconds: number): string {
  const whole = Math.round(seconds);
  const steps: readonly (readonly [number, string])[] = [
    [86_400, 'd'],
    [3600, 'h'],
    [60, 'min'],
    [1, 's'],
  ];
  const first = steps.findIndex(([length]) => whole >= length);
  if (first < 0) return `${Math.max(seconds, 0).toFixed(1)} s`;
  const [length, unit] = steps[first]!;
  const below = steps[first + 1];
  const rest = below === undefined ? 0 : Math.floor((whole % length) / below[0]);
  const head = `${Math.floor(whole / length)} ${unit}`;
  return rest > 0 ? `${head} ${rest} ${below![1]}` : head;
}

/** A value of a profile. */
export function profileValue(value: number, unit: Profile['unit']): string {
  if (unit === 'nanoseconds') return short(value / 1e9, 'seconds');
  return unit === 'bytes' ? short(value, 'bytes') : formatCount(value);
}

export const TYPE_TITLES: Readonly<Record<ProfileType, string>> = {
  cpu: 'CPU',
  wall: 'Wall clock',
  allocated: 'Allocated',
  allocations: 'Allocations',
  inuse: 'In use',
};

export const TYPE_EXPLAINED: Readonly<Record<ProfileType, string>> = {
  cpu: 'time that threads ran on a processor',
  wall: 'time that passed, waiting included',
  allocated: 'bytes asked of the allocator',
  allocations: 'blocks asked of the allocator',
  inuse: 'bytes on the heap now, by who allocated them',
};

/** Length of a full bar, CSS pixels: cost.css has the same. */
export const BAR = 72;
