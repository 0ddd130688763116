/** A native histogram: count, sum, and its buckets as bars of equal width, their bounds in the title. */
import type { Histogram } from '../api/types.ts';
import { formatValue } from '../format.ts';
import { parseValue } from '../series.ts';

const OPENING = ['(', '[', '(', '['] as const;
const CLOSING = [']', ')', ')', ']'] as const;

export function HistogramView({ histogram }: { histogram: Histogram }) {
  const buckets = histogram.buckets ?? [];
  const counts = buckets.map(([, , , count]) => parseValue(count));
  const most = Math.max(...counts, 0);
  return (
    <div class="histogram">
      <span class="number">
        count {histogram.count}, sum {formatValue(parseValue(histogram.sum))}
      </span>
      {most > 0 && (
        <div class="histogram-bars" role="img" aria-label={`${buckets.length} buckets`}>
          {buckets.map(([bounds, lower, upper, count], index) => (
            <i
              key={lower}
              style={{ height: `${Math.max((counts[index]! / most) * 100, 2)}%` }}
              title={`${OPENING[bounds] ?? '('}${lower}, ${upper}${CLOSING[bounds] ?? ']'}: ${count}`}
            />
          ))}
        </div>
      )}
    </div>
  );
}
