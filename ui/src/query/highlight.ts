/** Draws what the pointer points at: its time, and one series thicker than the graph beneath does. */
import uPlot from 'uplot';

interface Highlight {
  /** What to draw; null draws nothing. */
  readonly values: readonly (number | null)[] | null;
  /** Lower edge of the layer in a stack; null is the zero line. */
  readonly below: readonly (number | null)[] | null;
  readonly filled: boolean;
  readonly color: string;
  /** Index of the pointer's time, marked by a line and on the series by a dot; null for none. */
  readonly at: number | null;
  readonly guide: string;
}

export function drawHighlight(plot: uPlot, canvas: HTMLCanvasElement, highlight: Highlight): void {
  const { width, height } = plot.bbox;
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext('2d');
  if (context === null) return;
  context.clearRect(0, 0, width, height);
  const { values, below, color, at } = highlight;
  const times = plot.data[0] as ArrayLike<number>;
  const x = (index: number) => plot.valToPos(times[index]!, 'x', true) - plot.bbox.left;
  const y = (value: number) => plot.valToPos(value, 'y', true) - plot.bbox.top;

  if (at !== null && at < times.length) drawGuide(context, x(at), height, highlight.guide);
  if (values === null) return;
  for (const [first, last] of runs(values)) {
    context.beginPath();
    for (let index = first; index <= last; index += 1) context.lineTo(x(index), y(values[index]!));
    context.strokeStyle = color;
    context.lineWidth = 2.25 * uPlot.pxRatio;
    context.lineJoin = 'round';
    context.stroke();
    if (highlight.filled) {
      for (let index = last; index >= first; index -= 1)
        context.lineTo(x(index), y(below?.[index] ?? 0));
      context.fillStyle = `${color}b0`;
      context.fill();
    }
    if (first === last) dot(context, x(first), y(values[first]!), color);
  }
  const value = at === null ? null : values[at];
  if (at !== null && value !== null && value !== undefined) dot(context, x(at), y(value), color);
}

function drawGuide(
  context: CanvasRenderingContext2D,
  at: number,
  height: number,
  color: string,
): void {
  const sharp = Math.round(at) + 0.5;
  context.beginPath();
  context.moveTo(sharp, 0);
  context.lineTo(sharp, height);
  context.strokeStyle = color;
  context.lineWidth = 1;
  context.setLineDash([4, 4]);
  context.stroke();
  context.setLineDash([]);
}

function dot(context: CanvasRenderingContext2D, x: number, y: number, color: string): void {
  context.beginPath();
  context.arc(x, y, 3.5 * uPlot.pxRatio, 0, 2 * Math.PI);
  context.fillStyle = color;
  context.fill();
}

/** First and last index of each stretch without a gap. */
function* runs(values: readonly (number | null)[]): Generator<[number, number]> {
  let first = -1;
  for (let index = 0; index <= values.length; index += 1) {
    const here = values[index] ?? null;
    if (here !== null && first < 0) first = index;
    if (here === null && first >= 0) {
      yield [first, index - 1];
      first = -1;
    }
  }
}
