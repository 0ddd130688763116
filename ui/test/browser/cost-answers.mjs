// Answers of `/status/cost` and `/status/profile` for cases that need known figures: what a server of 500
// targets would say, and profiles of any size from a fixed seed.

export const SINCE = '2026-11-21T10:00:00Z';

const STAGES = [
  // share of CPU, allocations and bytes per sample
  ['answer', 0.02, 0.0003, 0.06],
  ['append', 0.19, 0.00001, 0.01],
  ['fetch', 0.34, 0.0011, 0.09],
  ['inflate', 0.08, 0, 0],
  ['journal', 0.05, 0, 0],
  ['none', 0.06, 0.0002, 0.02],
  ['parse', 0.21, 0, 0],
  ['query', 0.03, 0.002, 0.11],
  ['relabel', 0.005, 0.0001, 0.004],
  ['upkeep', 0.015, 0.0005, 0.03],
];

const PARTS = [
  ['head rows', 32e6, 500_000],
  ['chunk buffers', 58e6, 500_000],
  ['labels', 21e6, 500_000],
  ['index', 34e6, 5_500_000],
  ['symbols', 3e6, 61_000],
  ['expected lines', 49e6, 500_000],
  ['bodies', 8e6, 4],
  ['profiler tables', 6e6, 20_000],
  ['mapped blocks', 900e6, 3],
];

/** The cost after so many seconds. */
export function costAfter(seconds, names = {}) {
  const samples = 50_000 * seconds;
  const cpu = samples * 190e-9;
  const scrape = (share) => ({
    scrapes: Math.round((seconds / 10) * 500 * share),
    samples: Math.round(samples * share),
    cpu_seconds: cpu * 0.5 * share,
    fetch_seconds: cpu * 2 * share,
    allocated_bytes: Math.round(samples * share * 0.2),
    held_bytes: Math.round(49e6 * share),
    body_bytes: Math.round(samples * share * 118),
    transferred_bytes: Math.round(samples * share * 21),
  });
  return {
    since: names.since ?? SINCE,
    uptime_seconds: seconds,
    samples: { ingested: samples, per_second: 50_000 },
    process: {
      cpu_seconds: cpu,
      rss_bytes: 268e6,
      heap_allocated_bytes: samples * 0.324,
      heap_allocations: samples * 0.00421,
      heap_in_use_bytes: 214e6,
      open_fds: 534,
    },
    stages: [
      ...STAGES.map(([stage, share, allocations, bytes]) => ({
        stage,
        cpu_seconds: cpu * share,
        allocations: Math.round(samples * allocations),
        allocated_bytes: Math.round(samples * bytes),
      })),
      ...(names.stages ?? []),
    ],
    parts: [
      ...PARTS.map(([part, bytes, items]) => ({ part, bytes, items })),
      ...(names.parts ?? []),
    ],
    pools: [
      { pool: names.pool ?? 'kubernetes-pods', targets: 380, ...scrape(0.76) },
      { pool: 'node', targets: 120, ...scrape(0.24) },
    ],
    targets: Array.from({ length: 20 }, (_, n) => ({
      pool: n % 3 === 0 ? 'node' : (names.pool ?? 'kubernetes-pods'),
      url: names.url ?? `http://10.0.${n}.${(n * 37) % 255}:9100/metrics`,
      labels: { instance: `10.0.${n}.${(n * 37) % 255}:9100`, job: 'node', ...names.labels },
      ...scrape(0.02 - n * 0.0007),
    })),
  };
}

const CALLS = [
  'std::sys::thread::Thread::new::thread_start',
  'tokio::runtime::scheduler::multi_thread::worker::run',
  'tokio::runtime::task::harness::Harness<T,S>::poll',
  'server::scrape::task::run::{{closure}}',
  'server::scrape::ingest::Ingest::body',
  'wire::exposition::reader::Reader::next',
  '<store::db::appender::Appender as core::ops::Drop>::drop',
  'store::head::row::Row::append',
  'store::chunk::xor::Encoder::push',
  'server::http_client::connection::read',
  'libdeflate_gzip_decompress',
  'core::slice::memchr::memchr_aligned',
  'epoll_wait',
  '__GI___libc_write',
  '<alloc::vec::Vec<u8> as std::io::Write>::write_all',
  'server::known::Known::expect',
  'profiler::sample::handler::on_signal',
  'hyper::proto::h1::dispatch::Dispatcher<D,Bs,I,T>::poll_read',
];

/** A profile of about so many nodes, up to `depth` deep, the same for the same numbers. */
export function profileOf(
  count,
  { unit = 'nanoseconds', names = CALLS, depth = 40, seed = 7, stem = 6 } = {},
) {
  let state = seed;
  const random = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  const nodes = [[0, 0, 0, -1]];
  const depths = [0];
  // A stack of a thread, then ever more calls on the nodes that there are, the young ones preferred.
  while (nodes.length < count) {
    const last = nodes.length - 1;
    const parent = nodes.length < stem ? last : Math.floor(last * (0.15 + 0.85 * random() ** 0.6));
    const at = depths[parent] < depth ? parent : 0;
    const name =
      nodes.length < stem
        ? 1 + ((nodes.length - 1) % names.length)
        : 1 + Math.floor(random() * names.length);
    const self = Math.floor(1e7 * random() ** 6) + 1;
    nodes.push([name, nodes.length < stem ? 0 : self, 0, at]);
    depths.push(depths[at] + 1);
  }
  for (let at = nodes.length - 1; at >= 0; at -= 1) {
    nodes[at][2] += nodes[at][1];
    if (at > 0) nodes[nodes[at][3]][2] += nodes[at][2];
  }
  return { type: 'cpu', unit, total: nodes[0][2], names: ['total', ...names], nodes };
}

/** A case's page gets these answers; `asked` collects the parameters of the profiles asked for. */
export async function answerCosts(page, { names = {}, profile = profileOf(400) } = {}) {
  const asked = [];
  let seconds = 11_520;
  await page.route('**/api/v1/status/cost', (route) => {
    seconds += 5;
    return route.fulfill({ json: { status: 'success', data: costAfter(seconds, names) } });
  });
  await page.route('**/api/v1/status/profile?*', (route) => {
    const params = new URL(route.request().url()).searchParams;
    asked.push(Object.fromEntries(params));
    const unit = /cpu|wall/.test(params.get('type'))
      ? 'nanoseconds'
      : params.get('type') === 'allocations'
        ? 'count'
        : 'bytes';
    const data = { ...profile, type: params.get('type'), unit };
    return route.fulfill({ json: { status: 'success', data } });
  });
  return asked;
}
