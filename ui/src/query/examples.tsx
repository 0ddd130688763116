/**
 * What an empty panel offers: queries about the server and its machine. Only those whose metrics the
 * server has are shown, so that each gives a graph.
 */
import { ask } from '../api/client.ts';
import { useAnswer } from '../api/use-answer.ts';

interface Example {
  readonly title: string;
  readonly expr: string;
  /** The metric it stands on. */
  readonly needs: string;
  readonly stacked?: boolean;
}

interface ExampleGroup {
  readonly title: string;
  readonly examples: readonly Example[];
}

const GROUPS: readonly ExampleGroup[] = [
  {
    title: 'This machine',
    examples: [
      {
        title: 'CPU by mode',
        expr: 'sum by (mode) (rate(node_cpu_seconds_total{mode!="idle"}[1m]))',
        needs: 'node_cpu_seconds_total',
        stacked: true,
      },
      {
        title: 'Memory available',
        expr: 'node_memory_MemAvailable_bytes',
        needs: 'node_memory_MemAvailable_bytes',
      },
      { title: 'Load', expr: 'node_load1', needs: 'node_load1' },
      {
        title: 'Network received',
        expr: 'rate(node_network_receive_bytes_total[1m])',
        needs: 'node_network_receive_bytes_total',
      },
      {
        title: 'Disk written',
        expr: 'rate(node_disk_written_bytes_total[1m])',
        needs: 'node_disk_written_bytes_total',
      },
      {
        title: 'File systems in use',
        expr: '1 - node_filesystem_avail_bytes / node_filesystem_size_bytes',
        needs: 'node_filesystem_avail_bytes',
      },
    ],
  },
  {
    title: 'Scraping',
    examples: [
      { title: 'Targets up', expr: 'sum by (job) (up)', needs: 'up' },
      {
        title: 'Scrape duration',
        expr: 'scrape_duration_seconds',
        needs: 'scrape_duration_seconds',
      },
      {
        title: 'Samples per scrape',
        expr: 'scrape_samples_scraped',
        needs: 'scrape_samples_scraped',
        stacked: true,
      },
      {
        title: 'New series per scrape',
        expr: 'scrape_series_added',
        needs: 'scrape_series_added',
      },
    ],
  },
  {
    title: 'This server',
    examples: [
      {
        title: 'Samples taken in per second',
        expr: 'rate(prometheus_tsdb_head_samples_appended_total[1m])',
        needs: 'prometheus_tsdb_head_samples_appended_total',
      },
      {
        title: 'Series in the head',
        expr: 'prometheus_tsdb_head_series',
        needs: 'prometheus_tsdb_head_series',
      },
      {
        title: 'Memory',
        expr: 'process_resident_memory_bytes',
        needs: 'process_resident_memory_bytes',
      },
      {
        title: 'CPU, cores',
        expr: 'rate(process_cpu_seconds_total[1m])',
        needs: 'process_cpu_seconds_total',
      },
    ],
  },
];

interface Props {
  readonly onPick: (example: { expr: string; stacked: boolean }) => void;
}

export function Examples({ onPick }: Props) {
  const names = useAnswer('metric names', async (signal) => {
    const answer = await ask<string[]>('label/__name__/values', {}, signal);
    return new Set(answer.data);
  });
  const have = names.value;
  if (have === null) {
    return <div class="empty" aria-busy={names.loading} />;
  }
  const groups = GROUPS.map((group) => ({
    ...group,
    examples: group.examples.filter((example) => have.has(example.needs)),
  })).filter((group) => group.examples.length > 0);
  if (groups.length === 0) {
    return (
      <div class="empty">
        <p>
          {have.size === 0
            ? 'There are no series yet. The first scrapes take a moment; the targets page shows how they go.'
            : 'Type an expression. The editor completes metric names, labels and functions.'}
        </p>
        {have.size === 0 && (
          <button class="button" onClick={names.reload}>
            Look again
          </button>
        )}
      </div>
    );
  }
  return (
    <div class="empty">
      <p>Type an expression, or begin with one of these.</p>
      <div class="examples">
        {groups.map((group) => (
          <section key={group.title}>
            <h3>{group.title}</h3>
            <ul>
              {group.examples.map((example) => (
                <li key={example.expr}>
                  <button
                    class="example"
                    onClick={() =>
                      onPick({ expr: example.expr, stacked: example.stacked === true })
                    }
                  >
                    <span>{example.title}</span>
                    <code>{example.expr}</code>
                  </button>
                </li>
              ))}
            </ul>
          </section>
        ))}
      </div>
    </div>
  );
}
