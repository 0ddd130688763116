/** Sorting of rows by a figure or a name. */

/** Sorted anew; equal rows keep their order. */
export function sortRows<Row>(
  rows: readonly Row[],
  value: (row: Row) => number | string | null,
  descending: boolean,
): Row[] {
  const turn = descending ? -1 : 1;
  const empty = (of: number | string | null) => of === null || Number.isNaN(of);
  return rows
    .map((row) => ({ row, by: value(row) }))
    .sort((a, b) => {
      if (empty(a.by) || empty(b.by)) return Number(empty(a.by)) - Number(empty(b.by));
      if (typeof a.by === 'number' && typeof b.by === 'number') return turn * (a.by - b.by);
      return turn * String(a.by).localeCompare(String(b.by), 'en', { numeric: true });
    })
    .map(({ row }) => row);
}
