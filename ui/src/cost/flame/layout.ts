/**
 * Where nodes are drawn: the root on top, a row per depth, a width per share of the node zoomed into.
 * Only what can be seen is visited: the first node of a row by binary search, and of nodes thinner than a
 * pixel one per pixel, so that drawing costs by the size of the canvas and not of the profile.
 */
import type { Tree } from './tree.ts';

/** What is seen: a node over the whole width, in CSS pixels. */
export interface View {
  readonly focus: number;
  readonly width: number;
}

/** A drawn node; `left` and `width` in CSS pixels, clipped to the view. */
export interface Rectangle {
  readonly node: number;
  readonly row: number;
  readonly left: number;
  readonly width: number;
}

/** Thinner nodes are drawn this wide, and their neighbours within it are not. */
const THINNEST = 0.7;

/** Rows that a view has: down to the deepest node below the one zoomed into. */
export function rowsOf(tree: Tree, focus: number): number {
  let deepest = tree.depth[focus]!;
  for (let at = focus; at < tree.end[focus]!; at += 1) {
    if (tree.depth[at]! > deepest) deepest = tree.depth[at]!;
  }
  return deepest + 1;
}

/** Gives the rectangles of the rows from `first` up to `last`, exclusive. */
export function visible(
  tree: Tree,
  { focus, width }: View,
  first: number,
  last: number,
  give: (rectangle: Rectangle) => void,
): void {
  const span = tree.total[focus]!;
  const begin = tree.start[focus]!;
  const focusRow = tree.depth[focus]!;
  const scale = span > 0 ? width / span : 0;
  const ancestors = ancestorsOf(tree, focus);
  for (let row = Math.max(first, 0); row < Math.min(last, tree.levels.length); row += 1) {
    if (row <= focusRow) {
      give({ node: ancestors[row]!, row, left: 0, width });
      continue;
    }
    const level = tree.levels[row]!;
    let at = firstFrom(level, focus, 0);
    while (at < level.length && level[at]! < tree.end[focus]!) {
      const node = level[at]!;
      const left = (tree.start[node]! - begin) * scale;
      const wide = tree.total[node]! * scale;
      if (wide >= THINNEST) {
        give({ node, row, left, width: wide });
        at += 1;
        continue;
      }
      if (wide > 0) give({ node, row, left, width: THINNEST });
      at = firstBeginning(tree, level, begin + (left + THINNEST) / (scale || 1), at + 1);
    }
  }
}

/** The node at a place; -1 where there is none. `x` in CSS pixels. */
export function nodeAt(tree: Tree, { focus, width }: View, row: number, x: number): number {
  if (row < 0 || x < 0 || x > width) return -1;
  const focusRow = tree.depth[focus]!;
  if (row <= focusRow) return ancestorsOf(tree, focus)[row]!;
  const level = tree.levels[row];
  if (level === undefined || width <= 0) return -1;
  const value = tree.start[focus]! + (x / width) * tree.total[focus]!;
  // What is drawn wider than it is can be pointed at as well.
  const reach = (THINNEST / width) * tree.total[focus]!;
  const at = firstBeginning(tree, level, value, 0, true) - 1;
  const node = level[at];
  if (node === undefined || node < focus || node >= tree.end[focus]!) return -1;
  return value < tree.start[node]! + Math.max(tree.total[node]!, reach) ? node : -1;
}

/** By row: the node's ancestor there, itself in the last. */
function ancestorsOf(tree: Tree, node: number): number[] {
  const all: number[] = [];
  for (let at = node; ; at = tree.parent[at]!) {
    all[tree.depth[at]!] = at;
    if (at === 0) return all;
  }
}

/** The first of `level` from index `low` whose number is at least `node`. */
function firstFrom(level: Uint32Array, node: number, low: number): number {
  let high = level.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (level[middle]! < node) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The first of `level` from index `low` that begins at `value` or behind; only behind if `after`. */
function firstBeginning(
  tree: Tree,
  level: Uint32Array,
  value: number,
  low: number,
  after = false,
): number {
  let high = level.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const begins = tree.start[level[middle]!]!;
    if (begins < value || (after && begins === value)) low = middle + 1;
    else high = middle;
  }
  return low;
}

export type Direction = 'up' | 'down' | 'left' | 'right';

/** The node that an arrow key leads to from `node`; stays where nothing is, and within what is zoomed into. */
export function step(tree: Tree, focus: number, node: number, to: Direction): number {
  if (to === 'up') return tree.parent[node]!;
  if (to === 'down') {
    // Along the path to the node zoomed into; below it the largest branch, which is the next number.
    if (node < focus && focus < tree.end[node]!) return childTowards(tree, node, focus);
    const child = node + 1;
    return child < tree.end[node]! && tree.total[child]! > 0 ? child : node;
  }
  if (node <= focus && focus < tree.end[node]!) return node;
  const level = tree.levels[tree.depth[node]!]!;
  const at = firstFrom(level, node, 0) + (to === 'left' ? -1 : 1);
  const other = level[at];
  if (other === undefined || other < focus || other >= tree.end[focus]!) return node;
  return tree.total[other]! > 0 ? other : node;
}

function childTowards(tree: Tree, node: number, below: number): number {
  let at = below;
  while (tree.parent[at] !== node) at = tree.parent[at]!;
  return at;
}
