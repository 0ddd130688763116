/** Names and values in two aligned columns, as a description list. */
import type { ComponentChildren } from 'preact';

interface Props {
  readonly title: string;
  readonly facts: readonly (readonly [name: string, value: ComponentChildren])[];
}

export function Facts({ title, facts }: Props) {
  return (
    <section class="facts">
      <h2>{title}</h2>
      <dl>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value === '' ? <span class="faint">not set</span> : value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
