/** Draws what is seen of a flame graph. Cost: by the canvas, see layout.ts. */
import type { Fills } from './colors.ts';
import { visible, type Rectangle, type View } from './layout.ts';
import { shorten } from './names.ts';
import { nameOf, type Tree } from './tree.ts';

/** CSS pixels; one of them is the gap below a row. */
export const ROW_HEIGHT = 19;
export const FONT_SIZE = 11.5;
const PADDING = 5;
/** Narrower rectangles have no text. */
const NARROWEST_TEXT = 24;

export interface Look {
  readonly text: string;
  readonly accent: string;
  readonly onAccent: string;
  readonly font: string;
}

export interface Picture {
  readonly tree: Tree;
  readonly view: View;
  readonly fills: Fills;
  readonly look: Look;
  /** CSS pixels scrolled by, and seen. */
  readonly top: number;
  readonly height: number;
  /** Device pixels per CSS pixel. */
  readonly ratio: number;
  /** By name: 1 where the search found it. */
  readonly hits: Uint8Array | null;
  /** The node pointed at and the one that the keyboard is at; -1 for none. */
  readonly pointed: number;
  readonly selected: number;
}

/** Draws anew; the number of rectangles drawn. */
export function draw(context: CanvasRenderingContext2D, picture: Picture): number {
  const { tree, view, look, top, height, ratio } = picture;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, view.width, height);
  context.font = look.font;
  context.textBaseline = 'middle';
  const letter = context.measureText('MMMMMMMMMM').width / 10 || 7;
  const first = Math.floor(top / ROW_HEIGHT);
  const last = Math.ceil((top + height) / ROW_HEIGHT);
  const marked: Rectangle[] = [];
  let count = 0;
  visible(tree, view, first, last, (rectangle) => {
    count += 1;
    rectangleOf(context, picture, rectangle, letter);
    const { node } = rectangle;
    if (node === picture.pointed || node === picture.selected) marked.push(rectangle);
  });
  for (const rectangle of marked) frame(context, picture, rectangle);
  return count;
}

function rectangleOf(
  context: CanvasRenderingContext2D,
  { tree, view, fills, look, top, ratio, hits }: Picture,
  { node, row, left, width }: Rectangle,
  letter: number,
): void {
  // Edges on device pixels are crisp; a gap of one keeps neighbours apart while there is room.
  const x = Math.round(left * ratio) / ratio;
  const right = Math.round((left + width) * ratio) / ratio;
  const gap = width > 3 ? 1 : 0;
  const wide = Math.max(right - x - gap, 1 / ratio);
  const y = row * ROW_HEIGHT - top;
  const hit = hits !== null && hits[tree.name[node]!] === 1;
  const above = row < tree.depth[view.focus]!;
  context.globalAlpha = hits !== null && !hit ? 0.35 : above ? 0.55 : 1;
  context.fillStyle = hit ? look.accent : fills.of(tree.name[node]!);
  context.fillRect(x, y, wide, ROW_HEIGHT - 1);
  if (wide >= NARROWEST_TEXT) {
    const text = shorten(nameOf(tree, node), Math.floor((wide - 2 * PADDING) / letter));
    context.globalAlpha = hits !== null && !hit ? 0.7 : 1;
    context.fillStyle = hit ? look.onAccent : look.text;
    context.fillText(text, x + PADDING, y + ROW_HEIGHT / 2);
  }
  context.globalAlpha = 1;
}

function frame(
  context: CanvasRenderingContext2D,
  { look, top, ratio, selected }: Picture,
  { node, row, left, width }: Rectangle,
): void {
  const x = Math.round(left * ratio) / ratio;
  context.lineWidth = node === selected ? 2 : 1;
  context.strokeStyle = look.text;
  const inset = context.lineWidth / 2;
  const wide = Math.max(width - 1 - 2 * inset, 1);
  context.strokeRect(x + inset, row * ROW_HEIGHT - top + inset, wide, ROW_HEIGHT - 1 - 2 * inset);
}
