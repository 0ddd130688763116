/** What an empty panel offers: queries about the server and its machine, each a click from its graph. */
import { ask } from '../api/client.ts';
import { useAnswer, useRefresh } from '../api/use-answer.ts';
import { Failure } from '../shell/notice.tsx';
import { examplesFor, rateWindow } from './example-queries.ts';

/** With fewer metrics than this a server has just begun: it is worth looking again. */
const YOUNG = 500;

interface Props {
  readonly onPick: (example: { expr: string; stacked: boolean }) => void;
}

export function Examples({ onPick }: Props) {
  const loaded = useAnswer('examples', async (signal) => {
    const [names, window] = await Promise.all([
      ask<string[]>('label/__name__/values', {}, signal),
      loadWindow(signal),
    ]);
    return { have: new Set(names.data), window };
  });
  const groups = loaded.value === null ? [] : examplesFor(loaded.value.have, loaded.value.window);
  const young = loaded.value !== null && loaded.value.have.size < YOUNG;
  useRefresh(loaded, young && groups.length < 3 ? 2_000 : 0);
  if (loaded.value === null) {
    return (
      <div class="empty" aria-busy={loaded.loading}>
        {loaded.error !== null && <Failure error={loaded.error} onRetry={loaded.reload} />}
      </div>
    );
  }
  const { have } = loaded.value;
  if (groups.length === 0) {
    return (
      <div class="empty">
        <p>
          {have.size === 0
            ? 'There are no series yet. The first scrapes take a moment; the targets page shows how they go.'
            : 'Type an expression. The editor completes metric names, labels and functions.'}
        </p>
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

/** Without the configuration the examples still work, over a window that fits most. */
async function loadWindow(signal: AbortSignal): Promise<string> {
  try {
    const { data } = await ask<{ yaml: string }>('status/config', {}, signal);
    return rateWindow(data.yaml);
  } catch {
    return rateWindow('');
  }
}
