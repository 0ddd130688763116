/** One panel: an expression, what it is asked for, and its answer as a graph or a table. */
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { useRefresh } from '../api/use-answer.ts';
import { rememberExpression, useSettings } from '../settings.ts';
import { ALL_SERIES, type PanelState } from '../url-state.ts';
import { Controls } from './controls.tsx';
import { Examples } from './examples.tsx';
import { GraphView } from './graph-view.tsx';
import { QueryMessages } from './messages.tsx';
import { PanelBar } from './panel-bar.tsx';
import { useGraph, useTable } from './run.ts';
import { Stats } from './stats.tsx';
import { TableView } from './table-view.tsx';
import { useZoom } from './zoom.ts';

/** The range of an example's graph, in milliseconds: a server that has just started has no hour to show. */
const FIRST_LOOK = 5 * 60_000;

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
  const graph = useGraph(panel);
  const table = useTable(panel);
  const shown = panel.tab === 'graph' ? graph : table;
  const { reload } = shown;
  const empty = panel.expr === '';

  const moving = !empty && (panel.tab === 'graph' ? panel.end : panel.moment) === null;
  useRefresh(shown, moving ? refresh : 0);
  const nudged = useRef(nudge);
  useEffect(() => {
    if (nudge !== nudged.current && !empty) reload();
    nudged.current = nudge;
  }, [nudge, empty, reload]);

  const run = (expr: string) => {
    const trimmed = expr.trim();
    if (trimmed !== '') rememberExpression(trimmed);
    if (trimmed === panel.expr) {
      if (trimmed !== '') reload();
    } else onChange({ expr: trimmed, series: ALL_SERIES });
  };
  const error = useMemo(
    () => (shown.error?.kind === 'request' ? shown.error.message : null),
    [shown.error],
  );
  return (
    <section class="panel" aria-label={`Panel ${number}`}>
      <PanelBar
        expr={panel.expr}
        number={number}
        only={only}
        error={error}
        loading={shown.loading && !empty}
        onRun={run}
        onCancel={shown.cancel}
        onDuplicate={props.onDuplicate}
        onRemove={props.onRemove}
      />
      {empty ? (
        <Examples
          onPick={({ expr, stacked }) => {
            rememberExpression(expr);
            onChange({ expr, stacked, tab: 'graph', range: FIRST_LOOK });
          }}
        />
      ) : (
        <PanelBody panel={panel} graph={graph} table={table} onChange={onChange} />
      )}
    </section>
  );
}

interface BodyProps extends Pick<Props, 'panel' | 'onChange'> {
  readonly graph: ReturnType<typeof useGraph>;
  readonly table: ReturnType<typeof useTable>;
}

function PanelBody({ panel, graph, table, onChange }: BodyProps) {
  const settings = useSettings();
  const zoom = useZoom(panel, onChange);
  const onGraph = panel.tab === 'graph';
  const shown = onGraph ? graph : table;
  return (
    <>
      <Controls panel={panel} utc={settings.utc} onChange={onChange}>
        <Stats shown={shown} />
      </Controls>
      <QueryMessages shown={shown} expr={panel.expr} onRetry={shown.reload} utc={settings.utc} />
      <div role="tabpanel" aria-label={onGraph ? 'Graph' : 'Table'}>
        {onGraph ? (
          <GraphView
            graph={graph}
            panel={panel}
            settings={settings}
            onZoom={zoom.into}
            onZoomOut={zoom.out}
            onTable={() => onChange({ tab: 'table' })}
            onSeries={(series) => onChange({ series })}
          />
        ) : (
          <TableView table={table} expr={panel.expr} utc={settings.utc} />
        )}
      </div>
    </>
  );
}
