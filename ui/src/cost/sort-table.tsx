/** A table whose columns sort by a click: largest first for numbers, again for the other way. */
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { sortRows } from './sort.ts';

export interface Column<Row> {
  readonly key: string;
  readonly title: string;
  /** Says more about the column when pointed at. */
  readonly hint?: string;
  readonly number?: boolean;
  /** What rows are sorted by; without it the column is not. Null is last, either way. */
  readonly value?: (row: Row) => number | string | null;
  readonly show: (row: Row) => ComponentChildren;
}

interface Props<Row> {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly id: (row: Row) => string;
  /** Column sorted by at first, descending; without it the order of the rows. */
  readonly by?: string;
  /** A last row that stays last. */
  readonly foot?: Row;
}

interface Order {
  readonly key: string;
  readonly descending: boolean;
}

export function SortTable<Row>({ label, columns, rows, id, by, foot }: Props<Row>) {
  const [order, setOrder] = useState<Order | null>(
    by === undefined ? null : { key: by, descending: true },
  );
  const value = columns.find(({ key }) => key === order?.key)?.value;
  const sorted = useMemo(
    () => (order === null || value === undefined ? rows : sortRows(rows, value, order.descending)),
    [rows, order],
  );
  const turn = (column: Column<Row>) =>
    setOrder(
      order?.key === column.key
        ? { key: column.key, descending: !order.descending }
        : { key: column.key, descending: column.number === true },
    );
  return (
    <div class="table-scroll">
      <table class="cost-table" aria-label={label}>
        <thead>
          <tr>
            {columns.map((column) => (
              <Head
                key={column.key}
                column={column}
                order={order?.key === column.key ? order : null}
                onTurn={() => turn(column)}
              />
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.map((row) => (
            <Cells key={id(row)} columns={columns} row={row} />
          ))}
        </tbody>
        {foot !== undefined && (
          <tfoot>
            <Cells columns={columns} row={foot} />
          </tfoot>
        )}
      </table>
    </div>
  );
}

interface HeadProps<Row> {
  readonly column: Column<Row>;
  readonly order: Order | null;
  readonly onTurn: () => void;
}

function Head<Row>({ column, order, onTurn }: HeadProps<Row>) {
  const sort = order === null ? undefined : order.descending ? 'descending' : 'ascending';
  return (
    <th scope="col" class={column.number ? 'number' : ''} aria-sort={sort} title={column.hint}>
      {column.value === undefined ? (
        column.title
      ) : (
        <button onClick={onTurn}>
          {column.title}
          <span class="sort-mark" aria-hidden="true">
            {sort === undefined ? '' : sort === 'descending' ? '↓' : '↑'}
          </span>
        </button>
      )}
    </th>
  );
}

function Cells<Row>({ columns, row }: { columns: readonly Column<Row>[]; row: Row }) {
  return (
    <tr>
      {columns.map((column, index) => {
        const content = column.show(row);
        const name = column.number ? 'number' : '';
        return index === 0 ? (
          <th key={column.key} scope="row" class={name}>
            {content}
          </th>
        ) : (
          <td key={column.key} class={name}>
            {content}
          </td>
        );
      })}
    </tr>
  );
}
