/** One panel: an expression, what it is asked for, and its answer as a graph or a table. */
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useRefresh } from '../api/use-answer.ts';
import { longerRange } from '../duration.ts';
import { rememberExpression, useSettings } from '../settings.ts';
import { CloseIcon, CopyIcon } from '../shell/icons.tsx';
import { ALL_SERIES, type PanelState } from '../url-state.ts';
import { Controls } from './controls.tsx';
import { Editor, type EditorHandle } from './editor.tsx';
import { Examples } from './examples.tsx';
import { GraphView } from './graph-view.tsx';
import { HistoryMenu } from './history-menu.tsx';
import { QueryMessages } from './messages.tsx';
import { useGraph, useTable } from './run.ts';
import { Stats } from './stats.tsx';
import { TableView } from './table-view.tsx';

/** Where the focus would bring up a keyboard over half of the screen. */
const TOUCH = window.matchMedia('(pointer: coarse)').matches;

interface Props {
  readonly panel: PanelState;
  readonly number: number;
  readonly only: boolean;
  /** Milliseconds between refreshes; 0 is never. */
  readonly refresh: number;
  /** Grows with every press of the page's refresh button. */
  readonly nudge: number;
  readonly onChange: (change: Partial<PanelState>) => void;
  readonly onDuplicate: () => void;
  readonly onRemove: () => void;
}

export function Panel(props: Props) {
  const { panel, number, only, refresh, nudge, onChange } = props;
  const settings = useSettings();
  const editor = useRef<EditorHandle>(null);
  const [draft, setDraft] = useState(panel.expr);
  const zooms = useRef<{ range: number; end: number | null }[]>([]);
  const graph = useGraph(panel);
  const table = useTable(panel);
  const shown = panel.tab === 'graph' ? graph : table;
  const { reload } = shown;
  const slow = useSlow(shown.loading);

  useEffect(() => setDraft(panel.expr), [panel.expr]);
  const moving = panel.expr !== '' && (panel.tab === 'graph' ? panel.end : panel.moment) === null;
  useRefresh(shown, moving ? refresh : 0);
  const nudged = useRef(nudge);
  useEffect(() => {
    if (nudge !== nudged.current && panel.expr !== '') reload();
    nudged.current = nudge;
  }, [nudge, panel.expr, reload]);

  const run = (expr: string) => {
    const trimmed = expr.trim();
    if (trimmed !== '') rememberExpression(trimmed);
    if (trimmed === panel.expr) {
      if (trimmed !== '') reload();
    } else onChange({ expr: trimmed, series: ALL_SERIES });
  };
  const zoom = useCallback(
    (start: number, end: number) => {
      zooms.current.push({ range: panel.range, end: panel.end });
      const range = Math.max(Math.round(end - start), 1) * 1000;
      onChange({ range, end: Math.round(end) * 1000 });
    },
    [panel.range, panel.end, onChange],
  );
  const zoomOut = useCallback(() => {
    const before = zooms.current.pop();
    if (before !== undefined) {
      onChange(before);
      return;
    }
    const range = longerRange(panel.range);
    // Grows on both sides; a graph that ends now keeps doing so.
    const end =
      panel.end === null ? null : Math.min(panel.end + (range - panel.range) / 2, Date.now());
    onChange({ range, end: end === null ? null : Math.round(end / 1000) * 1000 });
  }, [panel.range, panel.end, onChange]);

  const error = useMemo(
    () => (shown.error?.kind === 'request' ? shown.error.message : null),
    [shown.error],
  );
  const empty = panel.expr === '';
  return (
    <section class="panel" aria-label={`Panel ${number}`}>
      <div class="panel-top">
        <Editor
          value={panel.expr}
          error={error}
          label={`Expression of panel ${number}`}
          autofocus={empty && only && !TOUCH}
          onRun={run}
          onChange={setDraft}
          handle={editor}
        />
        <div class="panel-actions">
          <HistoryMenu
            onPick={(expr) => {
              editor.current?.setText(expr);
              run(expr);
            }}
          />
          <button
            class="quiet square"
            onClick={props.onDuplicate}
            title="Duplicate this panel"
            aria-label={`Duplicate panel ${number}`}
          >
            <CopyIcon />
          </button>
          <button
            class="quiet square"
            onClick={props.onRemove}
            disabled={only && empty}
            title={only ? 'Clear this panel' : 'Remove this panel'}
            aria-label={`${only ? 'Clear' : 'Remove'} panel ${number}`}
          >
            <CloseIcon />
          </button>
          {slow && !empty ? (
            <button class="button run" onClick={shown.cancel}>
              Cancel
            </button>
          ) : (
            <button
              class={`button run ${draft.trim() !== panel.expr ? 'primary' : ''}`}
              onClick={() => run(editor.current?.text() ?? '')}
            >
              Run
            </button>
          )}
        </div>
        <div class={`progress ${slow && !empty ? 'on' : ''}`} aria-hidden="true" />
      </div>
      {empty ? (
        <Examples
          onPick={({ expr, stacked }) => {
            rememberExpression(expr);
            onChange({ expr, stacked, tab: 'graph' });
          }}
        />
      ) : (
        <>
          <Controls panel={panel} utc={settings.utc} onChange={onChange}>
            <Stats shown={shown} />
          </Controls>
          <QueryMessages shown={shown} expr={panel.expr} onRetry={reload} utc={settings.utc} />
          <div role="tabpanel" aria-label={panel.tab === 'graph' ? 'Graph' : 'Table'}>
            {panel.tab === 'graph' ? (
              <GraphView
                graph={graph}
                panel={panel}
                settings={settings}
                onZoom={zoom}
                onZoomOut={zoomOut}
                onTable={() => onChange({ tab: 'table' })}
                onSeries={(series) => onChange({ series })}
              />
            ) : (
              <TableView table={table} expr={panel.expr} utc={settings.utc} />
            )}
          </div>
        </>
      )}
    </section>
  );
}

/** How long an answer may take before the page makes anything of it, milliseconds. */
const QUICK = 300;

/** Loading, and for longer than an eye would notice: quick answers must not make anything flash. */
function useSlow(loading: boolean): boolean {
  const [slow, setSlow] = useState(false);
  useEffect(() => {
    if (!loading) {
      setSlow(false);
      return undefined;
    }
    const timer = setTimeout(() => setSlow(true), QUICK);
    return () => clearTimeout(timer);
  }, [loading]);
  return slow;
}
