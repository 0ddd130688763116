/**
 * A scrolled list that keeps only the visible rows in the document, so that ten thousand series cost
 * as much as twenty. All rows have one height.
 */
import type { ComponentChildren } from 'preact';
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

interface Props {
  readonly count: number;
  /** CSS pixels. */
  readonly rowHeight: number;
  /** Height at which the list starts to scroll, CSS pixels. */
  readonly maxHeight: number;
  readonly row: (index: number) => ComponentChildren;
  readonly label: string;
  readonly class?: string;
}

const OVERSCAN = 8;

export function VirtualRows({ count, rowHeight, maxHeight, row, label, class: name }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const onScroll = useCallback(() => setTop(box.current?.scrollTop ?? 0), []);
  // A shorter list may end above the place scrolled to.
  useEffect(onScroll, [count, onScroll]);

  const height = Math.min(count * rowHeight, maxHeight);
  const first = Math.max(0, Math.floor(top / rowHeight) - OVERSCAN);
  const last = Math.min(count, Math.ceil((top + height) / rowHeight) + OVERSCAN);
  const rows: ComponentChildren[] = [];
  for (let index = first; index < last; index += 1) rows.push(row(index));
  const scrolls = count * rowHeight > maxHeight;
  return (
    <div
      ref={box}
      class={`rows ${name ?? ''}`}
      style={{ height: `${height}px` }}
      onScroll={onScroll}
      role="list"
      aria-label={label}
      tabIndex={scrolls ? 0 : -1}
    >
      <div style={{ height: `${first * rowHeight}px` }} />
      {rows}
      <div style={{ height: `${(count - last) * rowHeight}px` }} />
    </div>
  );
}
