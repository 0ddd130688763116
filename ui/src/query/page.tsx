/**
 * The query page: panels, and what they share. The address is the state: every change goes there, and
 * the panels are drawn from it, so that links, reload, back and forward all do the same.
 */
import { useCallback, useMemo, useRef, useState } from 'preact/hooks';
import { formatDuration } from '../duration.ts';
import { PlusIcon, RefreshIcon } from '../shell/icons.tsx';
import type { PageProps } from '../shell/pages.tsx';
import { go } from '../shell/router.ts';
import {
  EMPTY_PANEL,
  readState,
  writeState,
  type PageState,
  type PanelState,
} from '../url-state.ts';
import { Panel } from './panel.tsx';

const REFRESHES = [0, 5_000, 15_000, 30_000, 60_000, 300_000];

export function QueryPage({ search }: PageProps) {
  const state = useMemo(() => readState(search), [search]);
  const latest = useRef(state);
  latest.current = state;
  const ids = usePanelIds(state.panels.length);
  const [nudge, setNudge] = useState(0);

  const write = useCallback((next: PageState) => {
    latest.current = next;
    const text = writeState(next);
    go(text === '' ? 'query' : `query?${text}`);
  }, []);
  const change = useCallback(
    (index: number, part: Partial<PanelState>) => {
      const { panels, refresh } = latest.current;
      write({ refresh, panels: panels.map((p, i) => (i === index ? { ...p, ...part } : p)) });
    },
    [write],
  );
  const add = (after: number, panel: PanelState) => {
    ids.insert(after + 1);
    write({ ...state, panels: state.panels.toSpliced(after + 1, 0, panel) });
  };
  const remove = (index: number) => {
    ids.remove(index);
    const rest = state.panels.toSpliced(index, 1);
    write({ ...state, panels: rest.length > 0 ? rest : [EMPTY_PANEL] });
  };
  const refreshes = REFRESHES.includes(state.refresh) ? REFRESHES : [...REFRESHES, state.refresh];
  return (
    <div class="page query-page">
      <h1 class="hidden-text">Query</h1>
      {state.panels.map((panel, index) => (
        <KeyedPanel
          key={ids.list[index]}
          panel={panel}
          index={index}
          only={state.panels.length === 1}
          refresh={state.refresh}
          nudge={nudge}
          change={change}
          onDuplicate={() => add(index, panel)}
          onRemove={() => remove(index)}
        />
      ))}
      <div class="page-actions">
        <button class="button" onClick={() => add(state.panels.length - 1, EMPTY_PANEL)}>
          <PlusIcon /> Add panel
        </button>
        <div class="joined">
          <button
            onClick={() => setNudge(nudge + 1)}
            title="Refresh all panels"
            aria-label="Refresh"
          >
            <RefreshIcon />
          </button>
          <label class="select bare">
            <span class="hidden-text">Refresh every</span>
            <select
              value={String(state.refresh)}
              onChange={(event) => write({ ...state, refresh: Number(event.currentTarget.value) })}
            >
              {refreshes.map((ms) => (
                <option key={ms} value={String(ms)}>
                  {ms === 0 ? 'No auto-refresh' : `Every ${formatDuration(ms)}`}
                </option>
              ))}
            </select>
          </label>
        </div>
      </div>
    </div>
  );
}

interface KeyedProps {
  readonly panel: PanelState;
  readonly index: number;
  readonly only: boolean;
  readonly refresh: number;
  readonly nudge: number;
  readonly change: (index: number, part: Partial<PanelState>) => void;
  readonly onDuplicate: () => void;
  readonly onRemove: () => void;
}

function KeyedPanel({ index, change, ...rest }: KeyedProps) {
  const onChange = useCallback((part: Partial<PanelState>) => change(index, part), [change, index]);
  return <Panel {...rest} number={index + 1} onChange={onChange} />;
}

/** Names for panels that stay with them as others are added and removed, so that editors survive. */
function usePanelIds(count: number) {
  const list = useRef<number[]>([]);
  const next = useRef(0);
  const fresh = () => (next.current += 1);
  while (list.current.length < count) list.current.push(fresh());
  list.current.length = count;
  return {
    list: list.current,
    insert: (index: number) => list.current.splice(index, 0, fresh()),
    remove: (index: number) => list.current.splice(index, 1),
  };
}
