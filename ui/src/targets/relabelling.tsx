/** What relabelling made of a target: discovered labels beside the labels that came out, changes marked. */
import type { Labels } from '../labels.ts';

interface Props {
  readonly discovered: Labels;
  /** Null when relabelling dropped the target. */
  readonly labels: Labels | null;
}

export function Relabelling({ discovered, labels }: Props) {
  return (
    <div class="relabelling">
      <LabelTable title="Discovered labels, before relabelling" labels={discovered} />
      {labels === null ? (
        <div>
          <h4>Target labels</h4>
          <p class="faint">None: relabelling dropped this target.</p>
        </div>
      ) : (
        <LabelTable title="Target labels, after relabelling" labels={labels} before={discovered} />
      )}
    </div>
  );
}

interface TableProps {
  readonly title: string;
  readonly labels: Labels;
  readonly before?: Labels;
}

function LabelTable({ title, labels, before }: TableProps) {
  const entries = Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1));
  return (
    <div>
      <h4>{title}</h4>
      <table class="label-table">
        <tbody>
          {entries.map(([name, value]) => (
            <tr key={name} class={before !== undefined && before[name] !== value ? 'changed' : ''}>
              <th scope="row">{name}</th>
              <td>{value === '' ? <span class="faint">empty</span> : value}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
