/** The command line's flags with their values, filtered as one types. */
import { useState } from 'preact/hooks';
import { ask } from '../api/client.ts';
import { useAnswer } from '../api/use-answer.ts';
import { SearchIcon } from '../shell/icons.tsx';
import { Failure } from '../shell/notice.tsx';

const load = (signal: AbortSignal) =>
  ask<Readonly<Record<string, string>>>('status/flags', {}, signal);

export function FlagsPage() {
  const loaded = useAnswer('flags', load);
  const [filter, setFilter] = useState('');
  const { value, error } = loaded;
  const all = Object.entries(value?.data ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  const wanted = filter.trim().toLowerCase();
  const shown = all.filter(([name, text]) => `--${name}=${text}`.toLowerCase().includes(wanted));
  return (
    <div class="page">
      <div class="page-head">
        <h1 class="hidden-text">Flags</h1>
        <label class="search">
          <SearchIcon />
          <input
            class="field"
            type="search"
            data-filter
            placeholder="Filter flags"
            aria-label="Filter flags"
            value={filter}
            onInput={(event) => setFilter(event.currentTarget.value)}
          />
        </label>
      </div>
      {error !== null && <Failure error={error} onRetry={loaded.reload} />}
      {value !== null && shown.length === 0 && (
        <div class="nothing">
          <strong>No flag matches “{filter}”</strong>
        </div>
      )}
      {shown.length > 0 && (
        <table class="plain flags">
          <thead>
            <tr>
              <th scope="col">Flag</th>
              <th scope="col">Value</th>
            </tr>
          </thead>
          <tbody>
            {shown.map(([name, text]) => (
              <tr key={name}>
                <th scope="row">--{name}</th>
                <td>{text === '' ? <span class="faint">empty</span> : text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}
