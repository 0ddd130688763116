/** Labels in short: name and value, in a line that wraps. */
import type { Labels } from '../labels.ts';

interface Props {
  readonly labels: Labels;
  readonly omit?: ReadonlySet<string>;
}

export function LabelChips({ labels, omit }: Props) {
  return (
    <span class="chips">
      {Object.entries(labels)
        .filter(([name]) => !omit?.has(name))
        .map(([name, value]) => (
          <span class="chip" key={name}>
            <span class="label">{name}</span>
            <span class="value">{value}</span>
          </span>
        ))}
    </span>
  );
}
