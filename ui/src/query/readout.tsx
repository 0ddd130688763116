/** The box beside the pointer: time, value and labels of the nearest series. */
import { useLayoutEffect, useRef } from 'preact/hooks';
import { formatTime, formatValue, type Unit } from '../format.ts';
import { labelName, quote, seriesParts } from '../labels.ts';
import type { ColoredLine } from './chart.tsx';

/** Where the pointer is in a graph, and what is there. */
export interface Pointed {
  readonly index: number;
  /** Seconds since 1970. */
  readonly time: number;
  readonly line: ColoredLine | null;
  readonly value: number | null;
  /** Top of the stack, where there is one. */
  readonly total: number | null;
  /** Place of the pointer within the graph, CSS pixels, and the graph's width. */
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly lines: number;
}

interface Props {
  readonly pointed: Pointed | null;
  readonly unit: Unit;
  readonly utc: boolean;
  readonly stacked: boolean;
}

const GAP = 14;

export function Readout({ pointed, unit, utc, stacked }: Props) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (pointed === null || box.current === null) return;
    const { offsetWidth: width, offsetHeight: height } = box.current;
    const right = pointed.left + GAP + width;
    const left = right <= pointed.width ? pointed.left + GAP : pointed.left - GAP - width;
    const clipped = Math.max(4, Math.min(left, pointed.width - width - 4));
    const top = Math.max(4, pointed.top - height - GAP);
    box.current.style.transform = `translate(${Math.round(clipped)}px, ${Math.round(top)}px)`;
  });
  if (pointed === null) return null;
  const { line, value, total } = pointed;
  const parts = line === null ? null : seriesParts(line.labels);
  return (
    <div class="readout" ref={box} aria-hidden="true">
      <div class="readout-head">
        <time>{formatTime(pointed.time * 1000, utc, true)}</time>
        {line !== null && (
          <span class="readout-value">
            <i class="swatch" style={{ background: line.color }} />
            {value === null ? 'no value' : formatValue(value, unit)}
          </span>
        )}
      </div>
      {parts !== null && (parts.metric !== null || parts.pairs.length > 0) && (
        <div class="readout-series">
          {parts.metric !== null && <div class="metric">{parts.metric}</div>}
          {parts.pairs.map(([name, text]) => (
            <div class="readout-pair" key={name}>
              <span class="label">{labelName(name)}</span>
              <span class="value">{quote(text)}</span>
            </div>
          ))}
        </div>
      )}
      {stacked && total !== null && (
        <div class="readout-total">Total {formatValue(total, unit)}</div>
      )}
    </div>
  );
}
