/** The figures at the end of the controls: series, points, step, time. */
import type { Loaded } from '../api/use-answer.ts';
import { formatDuration } from '../duration.ts';
import { formatCount, formatElapsed } from '../format.ts';
import type { Told } from './run.ts';

export function Stats({ shown }: { shown: Loaded<Told> }) {
  const { value } = shown;
  if (value === null) return <div class="stats" />;
  return (
    <div
      class="stats"
      title="Series, points and step of the answer; time from request to parsed answer"
    >
      {value.series !== null && <span>{formatCount(value.series)} series</span>}
      {value.step !== null && <span>{formatCount(value.points)} points</span>}
      {value.step !== null && <span>every {formatDuration(value.step)}</span>}
      <span>{formatElapsed(value.elapsed)}</span>
    </div>
  );
}
