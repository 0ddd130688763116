/**
 * Guesses what a result measures from the names in its expression. Prometheus' naming rules put the
 * unit last (`_bytes`, `_seconds`, `_ratio`, before `_total`), and a rate divides it by seconds.
 * A wrong unit is worse than none: with arithmetic other than scaling by a whole result, or with
 * metrics of different units, there is none.
 */
import type { Unit } from './format.ts';

const PER_SECOND = new Set(['rate', 'irate', 'deriv']);
/** What these give has the unit of what was observed, whether its buckets were rated or not. */
const OBSERVED = new Set(['histogram_quantile', 'histogram_avg', 'histogram_stddev']);
const UNITLESS = new Set([
  ...['count', 'count_values', 'group', 'count_over_time', 'changes', 'resets', 'absent'],
  ...['absent_over_time', 'present_over_time', 'sgn', 'stdvar', 'stdvar_over_time'],
  ...['ln', 'log2', 'log10', 'exp', 'sqrt', 'scalar', 'hour', 'minute', 'month', 'year'],
  ...['day_of_month', 'day_of_week', 'day_of_year', 'days_in_month', 'histogram_count'],
  ...['histogram_fraction', 'histogram_stdvar'],
]);
const KEYWORDS = new Set([
  ...['and', 'or', 'unless', 'atan2', 'offset', 'bool', 'start', 'end', 'inf', 'nan'],
  ...['by', 'without', 'on', 'ignoring', 'group_left', 'group_right'],
]);
const WORDS = /[a-zA-Z_:][a-zA-Z0-9_:]*/g;

/** The unit of an expression's values. */
export function guessUnit(expression: string): Unit {
  const bare = expression
    .replace(/#.*$/gm, ' ')
    .replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`/g, '""')
    .replace(/\{[^}]*\}/g, ' ')
    .replace(/\[[^\]]*\]/g, ' ')
    .replace(/\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)/g, ' ');
  if (/(==|!=|<=|>=|<|>)\s*bool\b/.test(bare)) return 'none';
  if (isShare(bare)) return 'ratio';
  if (/[*/%^]/.test(bare)) return 'none';
  const units = new Set<Unit>();
  let perSecond = false;
  let observed = false;
  let buckets = false;
  for (const match of bare.matchAll(WORDS)) {
    const word = match[0];
    const before = bare[match.index - 1];
    if (before !== undefined && /[0-9.]/.test(before)) continue; // the unit of a number: 5m, 1e3
    const called = /^\s*\(/.test(bare.slice(match.index + word.length));
    if (called) {
      if (PER_SECOND.has(word)) perSecond = true;
      if (OBSERVED.has(word)) observed = true;
      if (UNITLESS.has(word)) return 'none';
    } else if (!KEYWORDS.has(word.toLowerCase())) {
      units.add(unitOfName(word.replace(/_bucket$/, '')));
      if (word.endsWith('_bucket')) buckets = true;
    }
  }
  const [unit] = units;
  if (units.size !== 1 || unit === undefined) return 'none';
  if (observed) return unit;
  if (buckets) return 'none';
  if (unit === 'timestamp' && /\btime\s*\(/.test(bare)) return 'seconds';
  if (!perSecond) return unit;
  return unit === 'bytes' ? 'bytes/s' : 'none';
}

/** `1 - a / b`: the usual way to write a share in use. */
function isShare(bare: string): boolean {
  const match = /^\s*\(?\s*1\s*-\s*([a-zA-Z_:][\w:]*)\s*\/\s*([a-zA-Z_:][\w:]*)\s*\)?\s*$/.exec(
    bare,
  );
  return match !== null && unitOfName(match[1]!) === unitOfName(match[2]!);
}

function unitOfName(name: string): Unit {
  const stem = name.replace(/_(total|sum|created|max|min|avg)$/, '');
  if (/_count$/.test(name)) return 'none';
  if (
    /_timestamp_seconds$|_time_seconds$/.test(stem) &&
    /timestamp|start_time|boot_time/.test(stem)
  )
    return 'timestamp';
  if (/_bytes$/.test(stem)) return 'bytes';
  if (/_seconds$/.test(stem)) return 'seconds';
  if (/_ratio$/.test(stem)) return 'ratio';
  return 'none';
}
