/** Where the head's series and memory come from, as ranked bars that lead to the query behind them. */
import { ask } from '../api/client.ts';
import type { NamedCount, TsdbData } from '../api/types.ts';
import { useAnswer, useRefresh } from '../api/use-answer.ts';
import { pageUrl } from '../base.ts';
import { formatCount, formatValue } from '../format.ts';
import { labelName, metricSelector, quote } from '../labels.ts';
import { useSettings } from '../settings.ts';
import { Failure } from '../shell/notice.tsx';
import { queryLink } from '../url-state.ts';
import { sampleTime } from './page.tsx';

const LIMIT = '25';

export function CardinalityPage() {
  const { utc } = useSettings();
  const loaded = useAnswer('tsdb', (signal) =>
    ask<TsdbData>('status/tsdb', { limit: LIMIT }, signal),
  );
  useRefresh(loaded, 30_000);
  const { value, error } = loaded;
  return (
    <div class="page">
      <h1 class="hidden-text">Head cardinality</h1>
      {error !== null && <Failure error={error} onRetry={loaded.reload} />}
      {value !== null && <Cardinality data={value.data} utc={utc} />}
    </div>
  );
}

function Cardinality({ data, utc }: { data: TsdbData; utc: boolean }) {
  const { headStats: head } = data;
  const figures: readonly (readonly [string, string])[] = [
    ['Series', formatCount(head.numSeries)],
    ['Chunks', formatCount(head.chunkCount)],
    ...(head.numLabelPairs === undefined
      ? []
      : [['Label pairs', formatCount(head.numLabelPairs)] as const]),
    ['Oldest sample', sampleTime(head.minTime, utc)],
    ['Newest sample', sampleTime(head.maxTime, utc)],
  ];
  return (
    <>
      <dl class="figures">
        {figures.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <div class="rankings">
        <Ranking
          title="Series by metric"
          list={data.seriesCountByMetricName}
          query={(name) => metricSelector(name)}
          show={formatCount}
          of={head.numSeries}
        />
        <Ranking
          title="Series by label pair"
          list={data.seriesCountByLabelValuePair}
          query={pairQuery}
          show={formatCount}
          of={head.numSeries}
        />
        <Ranking
          title="Values by label"
          list={data.labelValueCountByLabelName}
          query={valuesQuery}
          show={formatCount}
        />
        <Ranking
          title="Memory by label"
          list={data.memoryInBytesByLabelName}
          query={valuesQuery}
          show={(bytes) => formatValue(bytes, 'bytes')}
        />
      </div>
    </>
  );
}

/** Series per value of a label, most first. */
function valuesQuery(name: string): string {
  const label = labelName(name);
  return `topk(20, count by (${label}) ({${label}!=""}))`;
}

/** Series per metric of one `name=value`. */
function pairQuery(pair: string): string {
  const cut = pair.indexOf('=');
  const selector = `${labelName(pair.slice(0, cut))}=${quote(pair.slice(cut + 1))}`;
  return `topk(20, count by (__name__) ({${selector}}))`;
}

interface RankingProps {
  readonly title: string;
  readonly list: readonly NamedCount[] | null;
  readonly query: (name: string) => string;
  readonly show: (value: number) => string;
  /** What the bars are shares of; without it, of the largest. */
  readonly of?: number;
}

function Ranking({ title, list, query, show, of }: RankingProps) {
  const rows = list ?? [];
  const full = of ?? Math.max(...rows.map((row) => row.value), 1);
  return (
    <section class="ranking">
      <h2>{title}</h2>
      {rows.length === 0 && <p class="faint">Nothing yet.</p>}
      <ol>
        {rows.map(({ name, value }) => (
          <li key={name}>
            <a
              href={pageUrl(queryLink(query(name), 'table'))}
              data-page
              title={`Query ${query(name)}`}
            >
              {name}
            </a>
            <span class="number">{show(value)}</span>
            <i style={{ width: `${Math.min(100, (value / Math.max(full, 1)) * 100)}%` }} />
          </li>
        ))}
      </ol>
    </section>
  );
}
