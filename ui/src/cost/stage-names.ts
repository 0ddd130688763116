/** The stages of the server's work: their order, colours and what each does. */

interface Known {
  readonly name: string;
  readonly what: string;
}

/** In the order in which a scrape passes them, then what is not scraping. */
const KNOWN: readonly Known[] = [
  { name: 'fetch', what: 'connections, requests and reading answers; discovery' },
  { name: 'inflate', what: 'decompressing bodies' },
  { name: 'parse', what: 'bodies, compared with the expected lines' },
  { name: 'relabel', what: 'labels of new series, and relabelling them' },
  { name: 'append', what: 'samples and new series into the head' },
  { name: 'journal', what: 'batches of samples into the journal' },
  { name: 'query', what: 'reading and evaluating queries' },
  { name: 'rules', what: 'recording and alerting rules' },
  { name: 'answer', what: 'reading requests, writing answers, /metrics' },
  { name: 'upkeep', what: 'blocks, retention, making the journal durable' },
  { name: 'open', what: 'journal and blocks at the start' },
  { name: 'profiler', what: 'the sampler’s own thread' },
];

/** Names under which work outside all stages arrives. */
const OUTSIDE: ReadonlySet<string> = new Set(['', 'none', 'other', 'outside']);

/** Place of a stage in tables and stacks; unknown ones after the known, work outside last. */
export function stageOrder(stage: string): number {
  if (OUTSIDE.has(stage)) return KNOWN.length + 1;
  const index = KNOWN.findIndex(({ name }) => name === stage);
  return index < 0 ? KNOWN.length : index;
}

export function byStageOrder(a: string, b: string): number {
  return stageOrder(a) - stageOrder(b) || (a < b ? -1 : a > b ? 1 : 0);
}

/** Colour numbers of the palette, picked so that neighbours in a stack differ; grey outside all stages. */
export function stageColor(stage: string): number {
  const order = stageOrder(stage);
  if (order === KNOWN.length + 1) return GREY;
  const picked = COLORS[order];
  if (picked !== undefined) return picked;
  let hash = 7;
  for (const char of stage) hash = (hash * 31 + char.charCodeAt(0)) % 997;
  return 12 + hash;
}

const GREY = 10;
const COLORS: readonly number[] = [0, 1, 2, 3, 4, 7, 6, 5, 8, 9, 11, 14];

/** A stage's name for people. */
export function stageTitle(stage: string): string {
  return OUTSIDE.has(stage) ? 'outside stages' : stage;
}

export function stageExplained(stage: string): string {
  if (OUTSIDE.has(stage)) return 'the main thread, C libraries, what no stage claims';
  return KNOWN.find(({ name }) => name === stage)?.what ?? '';
}
