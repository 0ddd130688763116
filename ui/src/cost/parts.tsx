/** Who holds memory. */
import { pageUrl } from '../base.ts';
import type { PartCost } from './answers.ts';
import { perSample } from './rates.ts';
import { amount, BAR, bytesPer, NO_FIGURE, share, short } from './show.ts';
import { SortTable, type Column } from './sort-table.tsx';
import { profileLink } from './state.ts';

interface Props {
  readonly parts: readonly PartCost[];
  readonly rss: number;
}

export function Parts({ parts, rss }: Props) {
  const held = parts.reduce((sum, part) => sum + (isMapped(part) ? 0 : part.bytes), 0);
  return (
    <section class="cost-section">
      <h2>Memory by part</h2>
      <p class="cost-note">
        {short(held, 'bytes')} counted of {short(rss, 'bytes')} resident. The rest is code, the
        allocator’s reserve and files kept in memory:{' '}
        <a href={pageUrl(profileLink({ type: 'inuse' }))} data-page>
          heap in use by function
        </a>
      </p>
      <SortTable
        label="Memory by part"
        columns={columns(Math.max(held, rss))}
        rows={parts}
        id={({ part }) => part}
        by="share"
      />
    </section>
  );
}

/** A mapped file is in memory only as far as it is read, and the system takes that back when it must. */
function isMapped({ part }: PartCost): boolean {
  return part.startsWith('mapped ');
}

function Share({ bytes, whole }: { bytes: number; whole: number }) {
  return (
    <span class="share">
      <i style={{ width: `${whole > 0 ? (bytes / whole) * BAR : 0}px` }} />
      <span>{share(bytes, whole)}</span>
    </span>
  );
}

function columns(whole: number): readonly Column<PartCost>[] {
  return [
    { key: 'part', title: 'Part', value: ({ part }) => part, show: ({ part }) => part },
    {
      key: 'share',
      title: 'Share of memory',
      number: true,
      value: (part) => (isMapped(part) ? null : part.bytes),
      show: (part) => (isMapped(part) ? NO_FIGURE : <Share bytes={part.bytes} whole={whole} />),
    },
    {
      key: 'bytes',
      title: 'Bytes',
      number: true,
      value: ({ bytes }) => bytes,
      show: ({ bytes }) => short(bytes, 'bytes'),
    },
    {
      key: 'items',
      title: 'Items',
      number: true,
      value: ({ items }) => items,
      show: ({ items }) => amount(items),
    },
    {
      key: 'each',
      title: 'Bytes per item',
      number: true,
      value: ({ bytes, items }) => perSample(bytes, items),
      show: ({ bytes, items }) => bytesPer(perSample(bytes, items)),
    },
  ];
}
