/** Runtime and build: what runs, since when, with what configuration. */
import { ask } from '../api/client.ts';
import { useAnswer, useRefresh } from '../api/use-answer.ts';
import type { TsdbData } from '../api/types.ts';
import { formatAgo, formatCount, formatTime } from '../format.ts';
import { useSettings } from '../settings.ts';
import { Failure } from '../shell/notice.tsx';
import { Facts } from './facts.tsx';

type Answers = Readonly<Record<string, unknown>>;

const RUNTIME_NAMES: Readonly<Record<string, string>> = {
  startTime: 'Started',
  CWD: 'Working directory',
  hostname: 'Host',
  serverTime: 'Server time',
  reloadConfigSuccess: 'Configuration reload',
  lastConfigTime: 'Last configuration reload',
  storageRetention: 'Storage retention',
  corruptionCount: 'Journal corruptions',
  goroutineCount: 'Goroutines',
};
const BUILD_NAMES: Readonly<Record<string, string>> = {
  version: 'Version',
  revision: 'Revision',
  branch: 'Branch',
  buildUser: 'Built by',
  buildDate: 'Built',
  goVersion: 'Go version',
};
const TIMES = new Set(['startTime', 'serverTime', 'lastConfigTime']);

async function load(signal: AbortSignal) {
  const [runtime, build, tsdb] = await Promise.all([
    ask<Answers>('status/runtimeinfo', {}, signal),
    ask<Answers>('status/buildinfo', {}, signal),
    ask<TsdbData>('status/tsdb', { limit: '1' }, signal),
  ]);
  return { runtime: runtime.data, build: build.data, head: tsdb.data.headStats };
}

export function RuntimePage() {
  const { utc } = useSettings();
  const loaded = useAnswer('runtime', load);
  useRefresh(loaded, 10_000);
  const { value, error } = loaded;
  const show = (name: string, content: unknown) => {
    const text = String(content);
    if (TIMES.has(name)) {
      const at = Date.parse(text);
      if (!(at > 0)) return 'never';
      const shown = formatTime(Math.floor(at / 1000) * 1000, utc, true);
      return name === 'serverTime' ? shown : `${shown}, ${formatAgo(Date.now() - at)}`;
    }
    if (name === 'reloadConfigSuccess') {
      return (
        <span class={`state ${content === true ? 'up' : 'down'}`}>
          {content === true ? 'succeeded' : 'failed'}
        </span>
      );
    }
    return text;
  };
  return (
    <div class="page">
      <h1 class="hidden-text">Runtime and build</h1>
      {error !== null && <Failure error={error} onRetry={loaded.reload} />}
      {value !== null && (
        <div class="facts-columns">
          <Facts title="Runtime" facts={named(value.runtime, RUNTIME_NAMES, show)} />
          <Facts title="Build" facts={named(value.build, BUILD_NAMES, show)} />
          <Facts
            title="Head"
            facts={[
              ['Series', formatCount(value.head.numSeries)],
              ['Chunks', formatCount(value.head.chunkCount)],
              ['Oldest sample', sampleTime(value.head.minTime, utc)],
              ['Newest sample', sampleTime(value.head.maxTime, utc)],
            ]}
          />
        </div>
      )}
    </div>
  );
}

/** An empty head has the ends of the number range for times. */
export function sampleTime(ms: number, utc: boolean): string {
  return Math.abs(ms) > 8.64e15 ? 'none' : formatTime(Math.floor(ms / 1000) * 1000, utc, true);
}

/** Known fields first, in our order and words; then whatever else the server tells. */
function named<T>(
  answers: Answers,
  names: Readonly<Record<string, string>>,
  show: (name: string, content: unknown) => T,
): (readonly [string, T])[] {
  const known = Object.keys(names).filter((name) => name in answers);
  const others = Object.keys(answers).filter((name) => !(name in names));
  return [...known, ...others].map(
    (name) => [names[name] ?? name, show(name, answers[name])] as const,
  );
}
