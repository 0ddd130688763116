/**
 * The flame graph: a canvas as large as what is seen of it, over a space as high as the whole, which
 * scrolls. A click zooms, the arrow keys walk, Enter zooms there, Esc goes back to the whole. On a touch
 * screen the first tap tells about a call and the second zooms.
 */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useSettings } from '../../settings.ts';
import type { Profile } from '../answers.ts';
import { profileValue, share } from '../show.ts';
import { Fills } from './colors.ts';
import { draw, FONT_SIZE, ROW_HEIGHT, type Look } from './draw.ts';
import { nodeAt, rowsOf, step, type Direction } from './layout.ts';
import { nameOf, type Tree } from './tree.ts';

interface Props {
  readonly tree: Tree;
  readonly unit: Profile['unit'];
  readonly focus: number;
  readonly hits: Uint8Array | null;
  readonly label: string;
  readonly onZoom: (node: number) => void;
}

/** CSS pixels; a deeper graph scrolls. */
const HIGHEST = 950;
/** Name of the measure of the last drawing. */
const DRAWN = 'flame graph drawn';

interface Pointed {
  readonly node: number;
  /** Place of the pointer within the graph, CSS pixels. */
  readonly left: number;
  readonly top: number;
}

const KEYS: Readonly<Record<string, Direction>> = {
  ArrowUp: 'up',
  ArrowDown: 'down',
  ArrowLeft: 'left',
  ArrowRight: 'right',
};

export function FlameGraph(props: Props) {
  const { tree, unit, focus, hits, label, onZoom } = props;
  const { dark } = useSettings();
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const [selected, setSelected] = useState(-1);
  const touched = useRef(false);
  const fills = useMemo(() => new Fills(tree.names, tree.name[0]!, dark), [tree, dark]);
  const rows = useMemo(() => rowsOf(tree, focus), [tree, focus]);
  const height = Math.min(rows * ROW_HEIGHT, HIGHEST);
  const view = { focus, width };

  // A number means another call in another profile.
  useEffect(() => {
    setSelected(-1);
    setPointed(null);
  }, [tree]);

  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 0));
    observer.observe(box.current!);
    setWidth(box.current!.clientWidth);
    return () => observer.disconnect();
  }, []);

  // What is zoomed into is seen.
  useLayoutEffect(() => {
    reveal(box.current!, tree.depth[focus]!, 3);
  }, [tree, focus, rows]);

  const paint = useRef(() => {});
  paint.current = () => {
    const context = canvas.current?.getContext('2d') ?? null;
    if (context === null || width === 0) return;
    const began = performance.now();
    const ratio = window.devicePixelRatio || 1;
    fit(canvas.current!, Math.round(width * ratio), Math.round(height * ratio));
    const count = draw(context, {
      tree,
      view,
      fills,
      look: lookOf(box.current!),
      top: box.current!.scrollTop,
      height,
      ratio,
      hits,
      pointed: pointed?.node ?? -1,
      selected,
    });
    // Developer tools and the browser test read it.
    performance.clearMeasures(DRAWN);
    performance.measure(DRAWN, { start: began, detail: count });
  };
  useLayoutEffect(
    () => paint.current(),
    [tree, focus, hits, fills, width, height, pointed?.node, selected],
  );

  const find = (event: MouseEvent): Pointed => {
    const edge = canvas.current!.getBoundingClientRect();
    const [left, top] = [event.clientX - edge.left, event.clientY - edge.top];
    const row = Math.floor((top + box.current!.scrollTop) / ROW_HEIGHT);
    return { node: nodeAt(tree, view, row, left), left, top };
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const direction = KEYS[event.key];
    const from = selected < 0 ? focus : selected;
    if (direction !== undefined) {
      const to = selected < 0 ? focus : step(tree, focus, from, direction);
      setSelected(to);
      reveal(box.current!, tree.depth[to]!, 1);
    } else if (event.key === 'Enter') onZoom(from);
    else if (event.key === 'Escape') {
      if (focus === 0) setSelected(-1);
      else {
        setSelected(focus);
        onZoom(0);
      }
    } else return;
    setPointed(null);
    event.preventDefault();
  };
  const told = selected < 0 ? focus : selected;
  return (
    <div class="flame">
      <p class="flame-told" id="flame-told" aria-live="polite">
        <Told tree={tree} unit={unit} focus={focus} node={told} />
      </p>
      <div class="flame-over">
        {pointed !== null && pointed.node >= 0 && (
          <Readout tree={tree} unit={unit} focus={focus} pointed={pointed} width={width} />
        )}
      </div>
      <div
        ref={box}
        class="flame-scroll"
        style={{ height: `${height}px` }}
        tabIndex={0}
        role="application"
        aria-label={label}
        aria-describedby="flame-told"
        onScroll={() => paint.current()}
        onKeyDown={onKey}
        onPointerDown={(event) => (touched.current = event.pointerType === 'touch')}
        onMouseMove={(event) => {
          if (!touched.current) setPointed(find(event));
        }}
        onMouseLeave={() => setPointed(null)}
        onClick={(event) => {
          const { node } = find(event);
          if (node < 0) return;
          if (touched.current && selected !== node) setSelected(node);
          else onZoom(node);
        }}
      >
        <div style={{ height: `${rows * ROW_HEIGHT}px` }}>
          <canvas ref={canvas} style={{ width: `${width}px`, height: `${height}px` }} />
        </div>
      </div>
    </div>
  );
}

/** Setting a canvas' size empties it and costs, also when it is the same. */
function fit(canvas: HTMLCanvasElement, width: number, height: number): void {
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
}

/** Scrolls so far that a row is seen, with so many rows beside it. */
function reveal(box: HTMLElement, row: number, around: number): void {
  const low = (row - around) * ROW_HEIGHT;
  const high = (row + 1 + around) * ROW_HEIGHT - box.clientHeight;
  if (box.scrollTop > low) box.scrollTop = Math.max(low, 0);
  else if (box.scrollTop < high) box.scrollTop = high;
}

function lookOf(host: HTMLElement): Look {
  const style = getComputedStyle(host);
  const color = (name: string) => style.getPropertyValue(name).trim();
  return {
    text: color('--text'),
    accent: color('--accent'),
    onAccent: color('--on-accent'),
    font: `${FONT_SIZE}px ${color('--mono')}`,
  };
}

interface ToldProps {
  readonly tree: Tree;
  readonly unit: Profile['unit'];
  readonly focus: number;
  readonly node: number;
}

/** Name, self, total, shares. */
function Told({ tree, unit, focus, node }: ToldProps) {
  const total = tree.total[node]!;
  const within = focus !== 0 && node > focus && node < tree.end[focus]!;
  return (
    <>
      <span class="flame-name">{nameOf(tree, node)}</span>
      <span class="flame-figures">
        <span>
          total <b>{profileValue(total, unit)}</b>
        </span>
        <span>
          self <b>{profileValue(tree.self[node]!, unit)}</b>
        </span>
        <span>
          <b>{share(total, tree.total[0]!)}</b> of all
        </span>
        {within && (
          <span>
            <b>{share(total, tree.total[focus]!)}</b> of the zoomed
          </span>
        )}
      </span>
    </>
  );
}

const GAP = 14;

interface ReadoutProps {
  readonly tree: Tree;
  readonly unit: Profile['unit'];
  readonly focus: number;
  readonly pointed: Pointed;
  readonly width: number;
}

/** Hangs in a box without height above the graph, so that its place is the pointer's. */
function Readout({ tree, unit, focus, pointed, width }: ReadoutProps) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (box.current === null) return;
    const own = box.current.offsetWidth;
    const right = pointed.left + GAP + own;
    const left = right <= width ? pointed.left + GAP : pointed.left - GAP - own;
    const clipped = Math.max(0, Math.min(left, width - own));
    box.current.style.transform = `translate(${Math.round(clipped)}px, ${Math.round(pointed.top + GAP)}px)`;
  });
  return (
    <div class="readout flame-readout" ref={box} aria-hidden="true">
      <Told tree={tree} unit={unit} focus={focus} node={pointed.node} />
    </div>
  );
}
