/** Zooming into a span of a graph and back out to where one came from. */
import { useCallback, useRef } from 'preact/hooks';
import { longerRange } from '../duration.ts';
import type { PanelState } from '../url-state.ts';

type Span = Pick<PanelState, 'range' | 'end'>;

interface Zoom {
  /** Shows from `start` to `end`, seconds since 1970. */
  readonly into: (start: number, end: number) => void;
  /** Back to before the last zoom; after that to longer and longer ranges. */
  readonly out: () => void;
}

export function useZoom({ range, end }: Span, onChange: (span: Span) => void): Zoom {
  const steps = useRef<{ from: Span; to: Span }[]>([]);
  const into = useCallback(
    (start: number, last: number) => {
      const to = spanOf(start, last);
      steps.current.push({ from: { range, end }, to });
      onChange(to);
    },
    [range, end, onChange],
  );
  const out = useCallback(() => {
    const step = steps.current.pop();
    if (step !== undefined && step.to.range === range && step.to.end === end) {
      onChange(step.from);
      return;
    }
    // The range was changed by other means since: the way back is gone.
    steps.current = [];
    onChange(wider({ range, end }, Date.now()));
  }, [range, end, onChange]);
  return { into, out };
}

/** Whole seconds, as the address has them. */
export function spanOf(start: number, end: number): Span {
  return { range: Math.max(Math.round(end - start), 1) * 1000, end: Math.round(end) * 1000 };
}

/** The next longer range: grows on both sides, not into the future; one that ends now keeps doing so. */
export function wider({ range, end }: Span, now: number): Span {
  const longer = longerRange(range);
  if (end === null) return { range: longer, end };
  const middle = Math.min(end + (longer - range) / 2, Math.max(now, end));
  return { range: longer, end: Math.round(middle / 1000) * 1000 };
}
