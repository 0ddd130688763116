/**
 * The query page's state as an address and back: Prometheus' own parameter names (`g0.expr`,
 * `g0.tab`, `g0.range_input` ...), so that links from Prometheus, Alertmanager and Grafana open here
 * and ours open there; `refresh`, `g0.only` and `g0.without` are names of our own. Unknown or broken parameters fall back to
 * the default instead of failing.
 */
import { formatDuration, parseDuration, roundStep } from './duration.ts';
import { formatTime, parseTime } from './format.ts';

export type Tab = 'graph' | 'table';

/** How fine a graph is: about so many points, or one every so many milliseconds. */
export type Resolution =
  | { readonly kind: 'auto'; readonly density: Density }
  | { readonly kind: 'step'; readonly ms: number };

export type Density = 'low' | 'medium' | 'high';

/** Which series a graph shows: all without some, or only some; by their ids. */
export interface SeriesChoice {
  readonly kind: 'without' | 'only';
  readonly ids: readonly string[];
}

export const ALL_SERIES: SeriesChoice = { kind: 'without', ids: [] };

export interface PanelState {
  readonly expr: string;
  readonly tab: Tab;
  /** Length of the graph, milliseconds. */
  readonly range: number;
  /** End of the graph, milliseconds since 1970; null is now. */
  readonly end: number | null;
  /** Evaluation time of the table, milliseconds since 1970; null is now. */
  readonly moment: number | null;
  readonly resolution: Resolution;
  readonly stacked: boolean;
  readonly series: SeriesChoice;
}

export interface PageState {
  readonly panels: readonly PanelState[];
  /** Milliseconds between refreshes; 0 is never. */
  readonly refresh: number;
}

export const DEFAULT_RANGE = 3_600_000;

export const EMPTY_PANEL: PanelState = {
  expr: '',
  tab: 'graph',
  range: DEFAULT_RANGE,
  end: null,
  moment: null,
  resolution: { kind: 'auto', density: 'medium' },
  stacked: false,
  series: ALL_SERIES,
};

const POINTS: Readonly<Record<Density, number>> = { low: 100, medium: 250, high: 750 };

/** The step of a panel's graph in milliseconds. */
export function stepOf(panel: PanelState): number {
  const { resolution, range } = panel;
  return resolution.kind === 'step' ? resolution.ms : roundStep(range, POINTS[resolution.density]);
}

/** Reads the part of an address behind the `?`. At least one panel. */
export function readState(search: string): PageState {
  const params = new URLSearchParams(search);
  const byIndex = new Map<number, Map<string, string>>();
  for (const [name, value] of params) {
    const match = /^g(\d{1,3})\.(\w+)$/.exec(name);
    if (match === null) continue;
    const index = Number(match[1]);
    const fields = byIndex.get(index) ?? new Map<string, string>();
    fields.set(match[2]!, value);
    byIndex.set(index, fields);
  }
  const panels = [...byIndex.entries()]
    .sort(([a], [b]) => a - b)
    .map(([, fields]) => readPanel(fields));
  const refresh = parseDuration(params.get('refresh') ?? '') ?? 0;
  return { panels: panels.length > 0 ? panels : [EMPTY_PANEL], refresh };
}

function readPanel(fields: ReadonlyMap<string, string>): PanelState {
  const tab = fields.get('tab');
  const mode = fields.get('display_mode');
  return {
    expr: fields.get('expr') ?? '',
    // Prometheus up to 2.x counts tabs, 3.x names them.
    tab: tab === '1' || tab === 'table' ? 'table' : 'graph',
    range: parseDuration(fields.get('range_input') ?? '') ?? DEFAULT_RANGE,
    end: parseTime(fields.get('end_input') ?? '', true),
    moment: parseTime(fields.get('moment_input') ?? '', true),
    resolution: readResolution(fields),
    stacked: mode === undefined ? fields.get('stacked') === '1' : mode === 'stacked',
    series: readSeries(fields),
  };
}

function readSeries(fields: ReadonlyMap<string, string>): SeriesChoice {
  const kind = fields.has('only') ? 'only' : 'without';
  const ids = (fields.get(kind) ?? '').split('.').filter((id) => /^[0-9a-z]{1,7}$/.test(id));
  return kind === 'without' && ids.length === 0 ? ALL_SERIES : { kind, ids };
}

function readResolution(fields: ReadonlyMap<string, string>): Resolution {
  const step = parseDuration(fields.get('res_step') ?? fields.get('step_input') ?? '');
  const type = fields.get('res_type') ?? (step === null ? 'auto' : 'fixed');
  if (type !== 'auto' && step !== null) return { kind: 'step', ms: step };
  const density = fields.get('res_density');
  return { kind: 'auto', density: density === 'low' || density === 'high' ? density : 'medium' };
}

/** Writes a state as the part of an address behind the `?`; empty for a page never touched. */
export function writeState(state: PageState): string {
  const params = new URLSearchParams();
  const untouched =
    state.panels.length === 1 && JSON.stringify(state.panels[0]) === JSON.stringify(EMPTY_PANEL);
  if (!untouched) state.panels.forEach((panel, index) => writePanel(params, `g${index}.`, panel));
  if (state.refresh > 0) params.set('refresh', formatDuration(state.refresh));
  return params.toString();
}

function writePanel(params: URLSearchParams, prefix: string, panel: PanelState): void {
  params.set(`${prefix}expr`, panel.expr);
  params.set(`${prefix}tab`, panel.tab === 'graph' ? '0' : '1');
  params.set(`${prefix}range_input`, formatDuration(panel.range));
  if (panel.end !== null) params.set(`${prefix}end_input`, formatTime(panel.end, true, true));
  if (panel.moment !== null)
    params.set(`${prefix}moment_input`, formatTime(panel.moment, true, true));
  const { resolution } = panel;
  if (resolution.kind === 'step') {
    params.set(`${prefix}res_type`, 'fixed');
    params.set(`${prefix}res_step`, String(resolution.ms / 1000));
  } else if (resolution.density !== 'medium') {
    params.set(`${prefix}res_type`, 'auto');
    params.set(`${prefix}res_density`, resolution.density);
  }
  if (panel.stacked) params.set(`${prefix}display_mode`, 'stacked');
  const { kind, ids } = panel.series;
  if (kind === 'only' || ids.length > 0) params.set(prefix + kind, ids.join('.'));
}

/** Address of the query page with one expression, for links from other pages. */
export function queryLink(expr: string, tab: Tab = 'graph'): string {
  return `query?${writeState({ panels: [{ ...EMPTY_PANEL, expr, tab }], refresh: 0 })}`;
}
