/** Which rows a legend has, in what order, and what a click on one does. */
import { formatSeries } from '../labels.ts';
import type { Line } from '../series.ts';

export type Column = 'name' | 'min' | 'mean' | 'max' | 'last';

export interface Order {
  readonly column: Column;
  readonly down: boolean;
}

/** The order after a click on a column: its natural direction, the other one, then the server's order. */
export function nextOrder(old: Order | null, column: Column): Order | null {
  const natural = column !== 'name';
  if (old?.column !== column) return { column, down: natural };
  return old.down === natural ? { column, down: !natural } : null;
}

/** The lines whose selector contains `filter`, sorted; without an order as the server sent them. */
export function arrange<L extends Line>(
  lines: readonly L[],
  order: Order | null,
  filter: string,
): readonly L[] {
  const wanted = filter.trim().toLowerCase();
  const fits = (line: L) => formatSeries(line.labels).toLowerCase().includes(wanted);
  const kept = wanted === '' ? lines : lines.filter(fits);
  if (order === null) return kept;
  const { column, down } = order;
  const sign = down ? -1 : 1;
  if (column === 'name') {
    const names = new Map(kept.map((line) => [line, formatSeries(line.labels)]));
    return [...kept].sort(
      (a, b) => sign * names.get(a)!.localeCompare(names.get(b)!, 'en', { numeric: true }),
    );
  }
  // NaN has no place in an order: last, whichever way.
  return [...kept].sort((a, b) => {
    if (Number.isNaN(a[column])) return Number.isNaN(b[column]) ? 0 : 1;
    return Number.isNaN(b[column]) ? -1 : sign * (a[column] - b[column]);
  });
}

/** Shows a hidden series, hides a shown one. */
export function toggled(hidden: ReadonlySet<string>, key: string): ReadonlySet<string> {
  const next = new Set(hidden);
  if (!next.delete(key)) next.add(key);
  return next;
}

/** Only `key`; everything again if it already stands alone. */
export function isolated(
  keys: readonly string[],
  hidden: ReadonlySet<string>,
  key: string,
): ReadonlySet<string> {
  const alone = !hidden.has(key) && hidden.size === keys.length - 1;
  return alone ? new Set() : new Set(keys.filter((other) => other !== key));
}
