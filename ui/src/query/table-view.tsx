/** A panel's answer at one time, as a table. */
import { useMemo } from 'preact/hooks';
import type { Loaded } from '../api/use-answer.ts';
import { formatTime } from '../format.ts';
import { guessUnit } from '../unit.ts';
import { ResultTable } from './result-table.tsx';
import type { TableAnswer } from './run.ts';

interface Props {
  readonly table: Loaded<TableAnswer>;
  readonly expr: string;
  readonly utc: boolean;
}

export function TableView({ table, expr, utc }: Props) {
  const answer = table.value;
  const unit = useMemo(() => guessUnit(expr), [expr]);
  if (answer === null) {
    return table.error === null ? (
      <div class="table-space" aria-busy={table.loading} />
    ) : (
      <div class="after-error" />
    );
  }
  const at = formatTime(Math.floor(answer.at / 1000) * 1000, utc, true);
  const { data } = answer;
  const none =
    (data.resultType === 'vector' || data.resultType === 'matrix') && data.result.length === 0;
  return (
    <div class={table.error === null ? 'table-view' : 'table-view outdated'}>
      {none ? (
        <div class="table-space">
          <div class="nothing">
            <strong>No series</strong>
            <p>The expression had no result at {at}.</p>
          </div>
        </div>
      ) : (
        <ResultTable data={data} unit={unit} utc={utc} />
      )}
      <p class="evaluated">Evaluated at {at}</p>
    </div>
  );
}
