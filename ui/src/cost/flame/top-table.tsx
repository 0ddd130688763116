/** The functions of what is zoomed into: a click on one finds it in the graph, the glass zooms to its largest call. */
import { useMemo, useState } from 'preact/hooks';
import { formatCount } from '../../format.ts';
import { SearchIcon } from '../../shell/icons.tsx';
import { VirtualRows } from '../../shell/virtual-rows.tsx';
import type { Profile } from '../answers.ts';
import { profileValue, share } from '../show.ts';
import { sortRows } from '../sort.ts';
import { packageFill } from './colors.ts';
import { functionsOf, largestOf, type FunctionCost } from './functions.ts';
import { packageOf, splitLast } from './names.ts';
import type { Tree } from './tree.ts';

interface Props {
  readonly tree: Tree;
  readonly unit: Profile['unit'];
  readonly focus: number;
  readonly hits: Uint8Array | null;
  readonly search: string;
  readonly dark: boolean;
  readonly onSearch: (text: string) => void;
  readonly onZoom: (node: number) => void;
}

type By = 'self' | 'total' | 'name';

const ROW_HEIGHT = 26;
const HIGHEST = 936;
const COLUMNS: readonly { readonly by: By; readonly title: string; readonly hint: string }[] = [
  { by: 'self', title: 'Self', hint: 'Spent in the function itself' },
  { by: 'total', title: 'Total', hint: 'Spent in the function and in what it calls' },
  { by: 'name', title: 'Function', hint: 'Sort by name' },
];

export function TopTable(props: Props) {
  const { tree, unit, focus, hits, search, dark, onSearch, onZoom } = props;
  const [order, setOrder] = useState<{ by: By; descending: boolean }>({
    by: 'self',
    descending: true,
  });
  const functions = useMemo(() => functionsOf(tree, focus), [tree, focus]);
  const shown = useMemo(() => {
    const found = hits === null ? functions : functions.filter(({ name }) => hits[name] === 1);
    const value = (row: FunctionCost) =>
      order.by === 'name' ? (tree.names[row.name] ?? '') : row[order.by];
    return sortRows(found, value, order.descending);
  }, [functions, hits, order]);
  const whole = tree.total[focus]!;
  const row = (index: number) => {
    const { name, self, total } = shown[index]!;
    const text = tree.names[name] ?? '';
    return (
      <div class="top-row" role="listitem" key={name}>
        <Figure value={self} whole={whole} unit={unit} />
        <Figure value={total} whole={whole} unit={unit} />
        <i class="swatch" style={{ background: packageFill(packageOf(text), dark) }} />
        <button
          class="top-name"
          title={text}
          aria-pressed={search === text}
          onClick={() => onSearch(search === text ? '' : text)}
        >
          <PathName name={text} />
        </button>
        <button
          class="quiet top-zoom"
          title="Zoom to its largest call"
          aria-label={`Zoom to the largest call of ${text}`}
          onClick={() => onZoom(largestOf(tree, focus, name))}
        >
          <SearchIcon />
        </button>
      </div>
    );
  };
  return (
    <section class="top">
      <div class="top-head">
        {COLUMNS.map(({ by, title, hint }) => (
          <button
            key={by}
            title={hint}
            aria-pressed={order.by === by}
            onClick={() =>
              setOrder({ by, descending: order.by === by ? !order.descending : by !== 'name' })
            }
          >
            {title}
            <span class="sort-mark" aria-hidden="true">
              {order.by !== by ? '' : order.descending ? '↓' : '↑'}
            </span>
          </button>
        ))}
        <span class="faint">{formatCount(shown.length)}</span>
      </div>
      <VirtualRows
        count={shown.length}
        rowHeight={ROW_HEIGHT}
        maxHeight={HIGHEST}
        row={row}
        label="Functions"
      />
    </section>
  );
}

function PathName({ name }: { name: string }) {
  const [path, last] = splitLast(name);
  return (
    <>
      {path !== '' && <span class="path">{path}</span>}
      <span>{last}</span>
    </>
  );
}

interface FigureProps {
  readonly value: number;
  readonly whole: number;
  readonly unit: Profile['unit'];
}

function Figure({ value, whole, unit }: FigureProps) {
  return (
    <span class="number" title={profileValue(value, unit)}>
      {share(value, whole)}
    </span>
  );
}
