/** The filter row of the target pages: text, and one of a few states with their counts. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { SearchIcon } from '../shell/icons.tsx';
import { go } from '../shell/router.ts';

export interface Choice {
  readonly name: string;
  readonly title: string;
  readonly count: number;
}

export interface Filter {
  readonly text: string;
  /** One of the choices' names; empty is all. */
  readonly state: string;
}

/** The filter in an address, under Prometheus' names for it. */
export function readFilter(search: string): Filter {
  const params = new URLSearchParams(search);
  return { text: params.get('search') ?? '', state: params.get('health') ?? '' };
}

function writeFilter(page: string, filter: Filter): void {
  const params = new URLSearchParams();
  if (filter.text !== '') params.set('search', filter.text);
  if (filter.state !== '') params.set('health', filter.state);
  const text = params.toString();
  // Typing must not fill the history.
  go(text === '' ? page : `${page}?${text}`, 'replace');
}

interface Props {
  readonly page: string;
  readonly filter: Filter;
  readonly choices: readonly Choice[];
  readonly total: number;
}

export function Filters({ page, filter, choices, total }: Props) {
  const [text, setText] = useState(filter.text);
  const input = useRef<HTMLInputElement>(null);
  // While someone types, the address follows the field and not the other way round.
  useEffect(() => {
    if (document.activeElement !== input.current) setText(filter.text);
  }, [filter.text]);
  const all: readonly Choice[] = [{ name: '', title: 'All', count: total }, ...choices];
  return (
    <div class="filters">
      <label class="search">
        <SearchIcon />
        <input
          ref={input}
          class="field"
          type="search"
          data-filter
          placeholder="Filter by address, label or error"
          aria-label="Filter by address, label or error"
          value={text}
          spellcheck={false}
          onInput={(event) => {
            setText(event.currentTarget.value);
            writeFilter(page, { ...filter, text: event.currentTarget.value });
          }}
        />
      </label>
      <div class="segments" role="group" aria-label="State">
        {all.map((choice) => (
          <button
            key={choice.name}
            aria-pressed={filter.state === choice.name}
            onClick={() => writeFilter(page, { ...filter, state: choice.name })}
          >
            {choice.title} <span class="count">{choice.count}</span>
          </button>
        ))}
      </div>
    </div>
  );
}
