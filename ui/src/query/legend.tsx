/**
 * The legend: a row per series with its figures, virtual beyond what fits. A click shows only that
 * series (again: all), Ctrl+click shows or hides it; both also with Enter and Space. Labels that all
 * series share stand once above the rows.
 */
import { useMemo, useState } from 'preact/hooks';
import { formatValue, type Unit } from '../format.ts';
import { commonLabels, formatSeries } from '../labels.ts';
import { SeriesName } from '../shell/series-name.tsx';
import { VirtualRows } from '../shell/virtual-rows.tsx';
import type { ColoredLine } from './chart.tsx';
import { arrange, isolated, nextOrder, toggled, type Column, type Order } from './legend-order.ts';

interface Props {
  readonly lines: readonly ColoredLine[];
  readonly hidden: ReadonlySet<string>;
  readonly unit: Unit;
  readonly pointed: string | null;
  readonly onPoint: (key: string | null) => void;
  readonly onHidden: (hidden: ReadonlySet<string>) => void;
}

const COLUMNS: readonly { readonly name: Exclude<Column, 'name'>; readonly title: string }[] = [
  { name: 'min', title: 'Min' },
  { name: 'mean', title: 'Mean' },
  { name: 'max', title: 'Max' },
  { name: 'last', title: 'Last' },
];
const ROW = 24;
const TALLEST = 12.5 * ROW;
/** From here on the legend has a filter. */
const MANY = 20;

export function Legend({ lines, hidden, unit, pointed, onPoint, onHidden }: Props) {
  const [order, setOrder] = useState<Order | null>(null);
  const [filter, setFilter] = useState('');
  const [all, setAll] = useState(false);
  const { common, omit } = useMemo(() => {
    const shared = commonLabels(lines.map((line) => line.labels));
    return { common: shared, omit: new Set(Object.keys(shared)) };
  }, [lines]);
  const rows = useMemo(() => arrange(lines, order, filter), [lines, order, filter]);

  const choose = (event: MouseEvent, key: string) => {
    const keys = lines.map((line) => line.key);
    onHidden(event.ctrlKey || event.metaKey ? toggled(hidden, key) : isolated(keys, hidden, key));
  };
  const sortBy = (column: Column) => setOrder((old) => nextOrder(old, column));

  return (
    <div class="legend" onMouseLeave={() => onPoint(null)}>
      <div class="legend-head">
        <div class="legend-title">
          <Sorter column="name" title={`${lines.length} series`} order={order} onSort={sortBy} />
          {hidden.size > 0 && (
            <button class="link" onClick={() => onHidden(new Set())}>
              show all
            </button>
          )}
          {lines.length > MANY && (
            <input
              class="field small"
              type="search"
              placeholder="Filter series"
              aria-label="Filter series"
              value={filter}
              onInput={(event) => setFilter(event.currentTarget.value)}
            />
          )}
        </div>
        {COLUMNS.map(({ name, title }) => (
          <Sorter key={name} column={name} title={title} order={order} onSort={sortBy} />
        ))}
      </div>
      {omit.size > 0 && (
        <div class="legend-common" title="These labels are the same in all series">
          <span>in all</span> <SeriesName labels={common} />
        </div>
      )}
      <VirtualRows
        count={rows.length}
        rowHeight={ROW}
        maxHeight={all ? 60 * ROW : TALLEST}
        label="Series"
        row={(index) => {
          const line = rows[index]!;
          return (
            <LegendRow
              key={line.key}
              line={line}
              omit={omit}
              unit={unit}
              off={hidden.has(line.key)}
              pointed={pointed === line.key}
              onPoint={onPoint}
              onChoose={choose}
            />
          );
        }}
      />
      {rows.length * ROW > TALLEST && (
        <button class="link legend-more" onClick={() => setAll(!all)}>
          {all ? 'Fewer rows' : 'More rows'}
        </button>
      )}
      {rows.length === 0 && <div class="legend-none">No series matches “{filter}”.</div>}
    </div>
  );
}

interface RowProps {
  readonly line: ColoredLine;
  readonly omit: ReadonlySet<string>;
  readonly unit: Unit;
  readonly off: boolean;
  readonly pointed: boolean;
  readonly onPoint: (key: string | null) => void;
  readonly onChoose: (event: MouseEvent, key: string) => void;
}

function LegendRow({ line, omit, unit, off, pointed, onPoint, onChoose }: RowProps) {
  const point = () => onPoint(off ? null : line.key);
  return (
    <div role="listitem">
      <button
        class={`legend-row ${off ? 'off' : ''} ${pointed ? 'pointed' : ''}`}
        aria-pressed={!off}
        title={formatSeries(line.labels)}
        onClick={(event) => onChoose(event, line.key)}
        onMouseEnter={point}
        onFocus={point}
        onBlur={() => onPoint(null)}
      >
        <i
          class="swatch"
          style={{ background: off ? 'transparent' : line.color, borderColor: line.color }}
        />
        <SeriesName labels={line.labels} omit={omit} />
        {COLUMNS.map(({ name }) => (
          <span class="number" key={name}>
            {formatValue(line[name], unit)}
          </span>
        ))}
      </button>
    </div>
  );
}

interface SorterProps {
  readonly column: Column;
  readonly title: string;
  readonly order: Order | null;
  readonly onSort: (column: Column) => void;
}

function Sorter({ column, title, order, onSort }: SorterProps) {
  const mine = order?.column === column;
  return (
    <button
      class={`sorter ${column === 'name' ? '' : 'number'}`}
      onClick={() => onSort(column)}
      title="Sort"
      aria-label={`${title}, ${mine ? (order.down ? 'sorted descending' : 'sorted ascending') : 'not sorted'}`}
    >
      {title}
      {mine && <span aria-hidden="true">{order.down ? ' ↓' : ' ↑'}</span>}
    </button>
  );
}
