/**
 * Label sets as text: PromQL selectors that can be pasted back into a query, keys to tell series
 * apart, and the split into labels that all series share and labels that tell them apart.
 */

export type Labels = Readonly<Record<string, string>>;

const LEGACY_METRIC = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const LEGACY_LABEL = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

/** A PromQL string literal. */
export function quote(text: string): string {
  return `"${text.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n')}"`;
}

/** A label name as it stands in a selector: quoted unless it has the classic form. */
export function labelName(name: string): string {
  return LEGACY_LABEL.test(name) ? name : quote(name);
}

/** Same for equal label sets, whatever the order of their labels. */
export function seriesKey(labels: Labels): string {
  return JSON.stringify(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
}

/** A short name of a series for addresses: FNV-1a of its key. */
export function seriesId(key: string): string {
  let hash = 0x811c9dc5;
  for (let at = 0; at < key.length; at += 1) {
    hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193);
  }
  return (hash >>> 0).toString(36);
}

/** A series as pieces to set in type: its metric name (or null) and `name="value"` pairs in order. */
export interface SeriesParts {
  readonly metric: string | null;
  /** The name has to be quoted and stand within the braces: `{"http.requests"}`. */
  readonly metricQuoted: boolean;
  readonly pairs: readonly (readonly [name: string, value: string])[];
}

/** Takes a label set apart, without the labels named in `omit`. */
export function seriesParts(labels: Labels, omit?: ReadonlySet<string>): SeriesParts {
  const name = omit?.has('__name__') ? undefined : labels['__name__'];
  const pairs = Object.entries(labels)
    .filter(([label]) => label !== '__name__' && !omit?.has(label))
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  const metric = name === undefined || name === '' ? null : name;
  return { metric, metricQuoted: metric !== null && !LEGACY_METRIC.test(metric), pairs };
}

/** A selector for one series: `up{job="node"}`, `{"http.requests", "status.code"="200"}`, `{}`. */
export function formatSeries(labels: Labels, omit?: ReadonlySet<string>): string {
  const { metric, metricQuoted, pairs } = seriesParts(labels, omit);
  const inside = pairs.map(([name, value]) => `${labelName(name)}=${quote(value)}`);
  if (metric !== null && metricQuoted) inside.unshift(quote(metric));
  const outside = metric !== null && !metricQuoted ? metric : '';
  if (inside.length === 0) return outside || '{}';
  return `${outside}{${inside.join(', ')}}`;
}

/** A metric name as an expression. */
export function metricSelector(name: string): string {
  return formatSeries({ __name__: name });
}

/** The labels that every series has with the same value. Empty for fewer than two series. */
export function commonLabels(all: readonly Labels[]): Labels {
  const first = all[0];
  if (first === undefined || all.length < 2) return {};
  let shared = Object.entries(first);
  for (const labels of all) {
    shared = shared.filter(([name, value]) => labels[name] === value);
    if (shared.length === 0) break;
  }
  return Object.fromEntries(shared);
}
