/** A label set in type: metric name, label names and values told apart by weight and colour; text nodes only. */
import { labelName, quote, seriesParts, type Labels } from '../labels.ts';

interface Props {
  readonly labels: Labels;
  /** Labels not to show, because they stand elsewhere. */
  readonly omit?: ReadonlySet<string>;
}

export function SeriesName({ labels, omit }: Props) {
  const { metric, metricQuoted, pairs } = seriesParts(labels, omit);
  const braces = pairs.length > 0 || metric === null || metricQuoted;
  return (
    <span class="series-name">
      {metric !== null && !metricQuoted && <span class="metric">{metric}</span>}
      {braces && <span class="brace">{'{'}</span>}
      {metric !== null && metricQuoted && (
        <>
          <span class="metric">{quote(metric)}</span>
          {pairs.length > 0 && <span class="brace">, </span>}
        </>
      )}
      {pairs.map(([name, value], index) => (
        <span key={name}>
          {index > 0 && <span class="brace">, </span>}
          <span class="label">{labelName(name)}</span>
          <span class="brace">=</span>
          <span class="value">{quote(value)}</span>
        </span>
      ))}
      {braces && <span class="brace">{'}'}</span>}
    </span>
  );
}
