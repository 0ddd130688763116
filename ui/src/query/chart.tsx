/**
 * The graph: uPlot on a canvas, and above it a second canvas that holds only the series pointed at, so
 * that moving the pointer over a thousand series never redraws the others. uPlot's own legend, cursor
 * points and title are off: they are DOM per series. Zooming is reported, not done: the page asks the
 * server for the new range.
 */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { formatTicks, tickSteps, type Unit } from '../format.ts';
import { layerAt, nearestLine, stack, type Line } from '../series.ts';
import { drawHighlight } from './highlight.ts';
import { Readout, type Pointed } from './readout.tsx';

export interface ColoredLine extends Line {
  readonly color: string;
}

interface Props {
  readonly times: readonly number[];
  /** The shown lines, in the order in which they stack. */
  readonly lines: readonly ColoredLine[];
  /** Start and end of the time axis, seconds since 1970. */
  readonly start: number;
  readonly end: number;
  readonly stacked: boolean;
  readonly unit: Unit;
  readonly utc: boolean;
  readonly dark: boolean;
  readonly label: string;
  /** CSS pixels; must not change. */
  readonly height?: number;
  /** Key of the series that the legend points at. */
  readonly highlight: string | null;
  readonly onPoint: (key: string | null) => void;
  readonly onZoom: (start: number, end: number) => void;
  readonly onZoomOut: () => void;
}

const HEIGHT = 320;
/** The pointer finds a line within this distance, CSS pixels. */
const REACH = 40;
/** A drag shorter than this is a click, CSS pixels. */
const SHORTEST_DRAG = 5;

/** Name of the measure of the last drawing. */
const DRAWN = 'graph drawn';

interface Model {
  props: Props;
  tops: readonly (readonly (number | null)[])[];
}

export function Chart(props: Props) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const overlay = useRef<HTMLCanvasElement | null>(null);
  const model = useRef<Model>({ props, tops: [] });
  const drawnFor = useRef('');
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const { lines, times, stacked } = props;

  const point = (next: Pointed | null) => {
    setPointed(next);
    model.current.props.onPoint(next?.line?.key ?? null);
  };

  useLayoutEffect(() => {
    const began = performance.now();
    const tops = stacked ? stack(lines) : lines.map((line) => line.values);
    model.current = { props, tops };
    const data = [times, ...tops] as unknown as uPlot.AlignedData;
    // Colours and order are part of a plot's making; data and range are not.
    const made = JSON.stringify([stacked, props.unit, props.utc, props.dark]) + structure(lines);
    if (plot.current === null || drawnFor.current !== made) {
      plot.current?.destroy();
      drawnFor.current = made;
      plot.current = new uPlot(options(host.current!, model, point), data, host.current!);
      overlay.current = addOverlay(plot.current);
    } else {
      plot.current.setData(data, true);
    }
    // uPlot draws in a microtask queued before this one. Developer tools and the browser test read it.
    queueMicrotask(() => {
      performance.clearMeasures(DRAWN);
      performance.measure(DRAWN, { start: began });
    });
  }, [lines, times, stacked, props.start, props.end, props.unit, props.utc, props.dark]);

  useLayoutEffect(() => {
    model.current = { ...model.current, props };
  });

  useEffect(() => {
    const observer = new ResizeObserver(() => {
      const width = host.current?.clientWidth ?? 0;
      if (plot.current !== null && width > 0 && width !== plot.current.width) {
        plot.current.setSize({ width, height: plot.current.height });
      }
    });
    observer.observe(host.current!);
    return () => {
      observer.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);

  const lit = props.highlight ?? pointed?.line?.key ?? null;
  useLayoutEffect(() => {
    if (plot.current === null || overlay.current === null) return;
    const index = lit === null ? -1 : lines.findIndex((line) => line.key === lit);
    const { tops } = model.current;
    drawHighlight(plot.current, overlay.current, {
      values: tops[index] ?? null,
      below: stacked ? (tops[index - 1] ?? null) : null,
      filled: stacked,
      color: lines[index]?.color ?? '',
      at: props.highlight === null ? (pointed?.index ?? null) : null,
      guide: getComputedStyle(host.current!).getPropertyValue('--faint'),
    });
    host.current!.classList.toggle('dimmed', index >= 0 && lines.length > 1);
  }, [lit, pointed?.index, lines, stacked, props.dark, props.highlight]);

  return (
    <div
      class="chart"
      role="img"
      aria-label={props.label}
      style={{ minHeight: `${props.height ?? HEIGHT}px` }}
    >
      <div ref={host} class="chart-host" />
      <Readout pointed={pointed} unit={props.unit} utc={props.utc} stacked={stacked} />
    </div>
  );
}

function structure(lines: readonly ColoredLine[]): string {
  return lines.map((line) => line.color + (line.lonely === null ? '' : '.') + line.key).join('\n');
}

/** The canvas for the series pointed at, as large as the plotting area. */
function addOverlay(plot: uPlot): HTMLCanvasElement {
  const canvas = document.createElement('canvas');
  canvas.className = 'chart-overlay';
  plot.over.prepend(canvas);
  return canvas;
}

function options(
  host: HTMLElement,
  model: { current: Model },
  point: (next: Pointed | null) => void,
): uPlot.Options {
  const { lines, stacked, utc, unit } = model.current.props;
  const style = getComputedStyle(host);
  const color = (name: string) => style.getPropertyValue(name).trim();
  const steps = tickSteps(unit);
  const axis = {
    stroke: color('--muted'),
    font: `12px ${color('--sans')}`,
    grid: { stroke: color('--grid'), width: 1 },
    ticks: { show: false },
  };
  const result: uPlot.Options = {
    width: Math.max(host.clientWidth, 50),
    height: model.current.props.height ?? HEIGHT,
    padding: [10, 22, 0, 0],
    pxAlign: lines.length <= 200,
    legend: { show: false },
    focus: { alpha: 1 },
    cursor: {
      points: { show: false },
      drag: { x: true, y: false, setScale: false, dist: SHORTEST_DRAG },
      bind: { dblclick: () => () => (model.current.props.onZoomOut(), null) },
    },
    scales: {
      x: { time: true, range: () => [model.current.props.start, model.current.props.end] },
      y: { range: (_, min, max) => valueRange(min, max) },
    },
    axes: [
      {
        ...axis,
        space: 80,
        size: 32,
        gap: 8,
        values: (_, ticks, _a, _s, gap) => timeTicks(ticks, gap, utc),
      },
      {
        ...axis,
        gap: 8,
        space: 36,
        ...(steps === undefined ? {} : { incrs: steps }),
        values: (_, ticks) => formatTicks(ticks, unit),
        size: (plot, values) => axisWidth(plot, values),
      },
    ],
    series: [{}, ...lines.map((line) => seriesOptions(line, stacked, lines.length))],
    hooks: {
      setSelect: [(plot) => zoom(plot, model.current.props.onZoom)],
      setCursor: [(plot) => point(lookUp(plot, model.current))],
    },
  };
  if (stacked) {
    result.bands = lines
      .slice(1)
      .map((_, index) => ({ series: [index + 2, index + 1] as [number, number] }));
  }
  if (utc) result.tzDate = (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC');
  return result;
}

function seriesOptions(line: ColoredLine, stacked: boolean, count: number): uPlot.Series {
  const { lonely } = line;
  const series: uPlot.Series = {
    stroke: line.color,
    width: count > 200 ? 1 : stacked ? 1 : 1.5,
    points: {
      show: lonely !== null,
      size: 4,
      fill: line.color,
      filter: () => lonely,
    },
  };
  if (stacked) series.fill = `${line.color}80`;
  return series;
}

/** Includes zero where that costs at most half of the height; never of zero height. */
function valueRange(min: number | null, max: number | null): [number, number] {
  if (min === null || max === null) return [0, 1];
  if (min === max) {
    const around = Math.abs(min) * 0.1 || 1;
    return min > 0 ? [0, min * 1.25] : min < 0 ? [min * 1.25, 0] : [-around * 0.05, around];
  }
  const room = (max - min) * 0.06;
  const low = min >= 0 && min <= max * 0.5 ? 0 : min - room;
  const high = max <= 0 && max >= min * 0.5 ? 0 : max + room;
  return [low, high];
}

const two = (value: number) => String(value).padStart(2, '0');

/** Clock times; where the day turns, or at the first tick of long ranges, the date. */
function timeTicks(ticks: readonly number[], gap: number, utc: boolean): string[] {
  let day = '';
  return ticks.map((tick) => {
    const at = new Date(tick * 1000);
    const shifted = utc ? at : new Date(at.getTime() - at.getTimezoneOffset() * 60_000);
    const date = shifted.toISOString().slice(5, 10);
    const clock = `${two(shifted.getUTCHours())}:${two(shifted.getUTCMinutes())}`;
    const turned = day !== '' && day !== date;
    day = date;
    if (gap >= 86_400) return gap >= 28 * 86_400 ? shifted.toISOString().slice(0, 7) : date;
    if (turned || (clock === '00:00' && gap >= 60)) return date;
    return gap < 60 ? `${clock}:${two(shifted.getUTCSeconds())}` : clock;
  });
}

function axisWidth(plot: uPlot, values: string[] | null): number {
  if (values === null || values.length === 0) return 48;
  plot.ctx.save();
  plot.ctx.font = `${12 * uPlot.pxRatio}px sans-serif`;
  const widest = Math.max(...values.map((value) => plot.ctx.measureText(value).width));
  plot.ctx.restore();
  return Math.max(48, Math.ceil(widest / uPlot.pxRatio) + 22);
}

function zoom(plot: uPlot, onZoom: (start: number, end: number) => void): void {
  const { left, width } = plot.select;
  if (width < SHORTEST_DRAG) return;
  const start = plot.posToVal(left, 'x');
  const end = plot.posToVal(left + width, 'x');
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  onZoom(start, end);
}

/** What the pointer points at: a grid time, and the nearest line within reach. Cost: one pass over the lines. */
function lookUp(plot: uPlot, model: Model): Pointed | null {
  const { left, top, idx } = plot.cursor;
  if (idx === null || idx === undefined || left === undefined || left < 0) return null;
  const { props, tops } = model;
  const value = plot.posToVal(top ?? 0, 'y');
  const reach = Math.abs(plot.posToVal(0, 'y') - plot.posToVal(REACH, 'y'));
  const number = props.stacked ? layerAt(tops, idx, value) : nearestLine(tops, idx, value, reach);
  const line = props.lines[number] ?? null;
  const time = props.times[idx];
  if (time === undefined) return null;
  return {
    index: idx,
    time,
    line,
    value: line?.values[idx] ?? null,
    total: props.stacked ? (tops[tops.length - 1]?.[idx] ?? null) : null,
    left: left + plot.over.offsetLeft,
    top: (top ?? 0) + plot.over.offsetTop,
    width: plot.width,
    lines: props.lines.length,
  };
}
