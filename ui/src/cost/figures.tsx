/** The whole in a row of figures. */
import type { Cost } from './answers.ts';
import { perSample, type Use } from './rates.ts';
import { amount, bytesPer, short } from './show.ts';

interface Props {
  readonly cost: Cost;
  readonly use: Use;
  /** Series of the head. */
  readonly series: number | null;
}

export function Figures({ cost, use, series }: Props) {
  const { samples, seconds } = use;
  const rss = cost.process.rss_bytes;
  const nanoseconds = perSample(use.cpuSeconds * 1e9, samples);
  const figures: readonly (readonly [name: string, value: string, note: string])[] = [
    ['Samples per second', amount(samples / seconds), `${amount(samples)} in all`],
    [
      'CPU',
      `${amount(use.cpuSeconds / seconds)} cores`,
      `${short(use.cpuSeconds, 'seconds')} spent`,
    ],
    [
      'CPU per sample',
      nanoseconds === null ? amount(null) : short(nanoseconds / 1e9, 'seconds'),
      nanoseconds === null ? 'no samples' : `${amount(nanoseconds / 1000)} s per million`,
    ],
    [
      'Allocated per sample',
      bytesPer(perSample(use.allocatedBytes, samples)),
      `${short(use.allocatedBytes / seconds, 'bytes/s')}, ${amount(use.allocations / seconds)} blocks/s`,
    ],
    [
      'Memory (RSS)',
      short(rss, 'bytes'),
      `${short(cost.process.heap_in_use_bytes, 'bytes')} of it on the heap`,
    ],
    [
      'Memory per series',
      series === null || series === 0 ? amount(null) : bytesPer(rss / series),
      series === null ? 'series unknown' : `${amount(series)} series in the head`,
    ],
  ];
  return (
    <dl class="cost-figures" aria-label="Figures of the whole">
      {figures.map(([name, value, note]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            {value}
            <small>{note}</small>
          </dd>
        </div>
      ))}
    </dl>
  );
}
