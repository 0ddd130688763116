/** One scrape pool: its share of targets up, and a row per target that opens to its labels. */
import { useState } from 'preact/hooks';
import type { ActiveTarget } from '../api/types.ts';
import { parseDuration } from '../duration.ts';
import { formatAgo, formatCount, formatElapsed, formatValue } from '../format.ts';
import { ChevronIcon } from '../shell/icons.tsx';
import { LabelChips } from './label-chips.tsx';
import { targetKey, type Pool, type Sizes } from './load.ts';
import { Relabelling } from './relabelling.tsx';

interface Props {
  readonly pool: Pool;
  /** Its targets that fit the filter. */
  readonly shown: readonly ActiveTarget[];
  readonly sizes: Sizes;
  /** Milliseconds since 1970. */
  readonly now: number;
  readonly startOpen: boolean;
}

/** Rows put into the document at first; the rest on demand. */
const FIRST = 200;

export function PoolView({ pool, shown, sizes, now, startOpen }: Props) {
  const [open, setOpen] = useState(startOpen);
  const [all, setAll] = useState(false);
  const total = pool.targets.length;
  const rows = all ? shown : shown.slice(0, FIRST);
  return (
    <section class="pool">
      <h2>
        <button class="pool-head" aria-expanded={open} onClick={() => setOpen(!open)}>
          <span class={`chevron ${open ? 'open' : ''}`}>
            <ChevronIcon />
          </span>
          <span class="pool-name">{pool.name}</span>
          <span class={`pool-count ${pool.up === total ? 'good' : 'bad'}`}>
            {pool.up} / {total} up
          </span>
          {shown.length < total && <span class="faint">{shown.length} shown</span>}
        </button>
      </h2>
      {open && (
        <div class="table-scroll">
          <table class="targets">
            <thead>
              <tr>
                <th scope="col">State</th>
                <th scope="col">Target</th>
                <th scope="col" class="number">
                  Last scrape
                </th>
                <th scope="col" class="number">
                  Took
                </th>
                <th scope="col" class="number">
                  Interval
                </th>
                <th scope="col" class="number">
                  Timeout
                </th>
                <th scope="col" class="number">
                  Samples
                </th>
                <th scope="col" class="number">
                  Size
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map((target) => (
                <TargetRows
                  key={target.scrapeUrl + targetKey(target.labels)}
                  target={target}
                  sizes={sizes}
                  now={now}
                />
              ))}
            </tbody>
          </table>
          {rows.length < shown.length && (
            <button class="link" onClick={() => setAll(true)}>
              Show all {shown.length}
            </button>
          )}
        </div>
      )}
    </section>
  );
}

interface RowProps {
  readonly target: ActiveTarget;
  readonly sizes: Sizes;
  readonly now: number;
}

function TargetRows({ target, sizes, now }: RowProps) {
  const [open, setOpen] = useState(false);
  const key = targetKey(target.labels);
  const samples = sizes.samples.get(key);
  const bytes = sizes.bytes.get(key);
  const scraped = Date.parse(target.lastScrape);
  // A target never scraped has the year 1.
  const never = !(scraped > 0);
  const slow =
    target.lastScrapeDuration * 1000 > 0.5 * (parseDuration(target.scrapeTimeout) ?? Infinity);
  return (
    <>
      <tr class={`target ${target.health}`}>
        <td>
          <span class={`state ${target.health}`}>{target.health}</span>
        </td>
        <td>
          <div class="target-cell">
            <button
              class="disclose"
              aria-expanded={open}
              aria-label={`Labels of ${target.scrapeUrl}`}
              title="Labels before and after relabelling"
              onClick={() => setOpen(!open)}
            >
              <span class={`chevron ${open ? 'open' : ''}`}>
                <ChevronIcon />
              </span>
            </button>
            <div>
              <Address url={target.globalUrl ?? target.scrapeUrl} text={target.scrapeUrl} />
              <LabelChips labels={target.labels} />
            </div>
          </div>
        </td>
        <td class="number" data-name="Last scrape">
          {never ? <span class="faint">never</span> : formatAgo(now - scraped)}
        </td>
        <td class={`number ${slow ? 'slow-value' : ''}`} data-name="Took">
          {never ? '' : formatElapsed(target.lastScrapeDuration * 1000)}
        </td>
        <td class="number" data-name="Interval">
          {target.scrapeInterval}
        </td>
        <td class="number" data-name="Timeout">
          {target.scrapeTimeout}
        </td>
        <td class="number" data-name="Samples">
          {samples === undefined ? <Missing /> : formatCount(samples)}
        </td>
        <td class="number" data-name="Size">
          {bytes === undefined ? <Missing /> : formatValue(bytes, 'bytes')}
        </td>
      </tr>
      {target.lastError !== '' && (
        <tr class="target-error">
          <td />
          <td colSpan={7}>{target.lastError}</td>
        </tr>
      )}
      {open && (
        <tr class="target-more">
          <td />
          <td colSpan={7}>
            <Relabelling discovered={target.discoveredLabels} labels={target.labels} />
          </td>
        </tr>
      )}
    </>
  );
}

function Missing() {
  return (
    <span class="faint" title="The server has no such figure">
      –
    </span>
  );
}

/** A link to what is scraped, if it is a web address: relabelling can make anything of it. */
function Address({ url, text }: { url: string; text: string }) {
  const safe = /^https?:\/\//i.test(url);
  if (!safe) return <span class="address">{text}</span>;
  return (
    <a class="address" href={url} rel="noreferrer noopener" target="_blank">
      {text}
    </a>
  );
}
