/** What goes wrong or deserves a word: errors with their place in the expression, warnings, infos, slowness. */
import { useEffect, useState } from 'preact/hooks';
import type { ApiError } from '../api/client.ts';
import type { Loaded } from '../api/use-answer.ts';
import { formatTime } from '../format.ts';
import { Notice } from '../shell/notice.tsx';
import { errorPlace, offsetOf, tokenAt } from './error-place.ts';
import type { Told } from './run.ts';

interface Props {
  readonly shown: Loaded<Told>;
  readonly expr: string;
  readonly utc: boolean;
  readonly onRetry: () => void;
}

export function QueryMessages({ shown, expr, utc, onRetry }: Props) {
  const { error, value, loading, at } = shown;
  return (
    <>
      {error !== null && (
        <>
          <QueryError error={error} expr={expr} onRetry={onRetry} />
          {value !== null && (
            <p class="stale">
              Below is the answer of {formatTime(Math.floor(at / 1000) * 1000, utc, true)}.
            </p>
          )}
        </>
      )}
      {loading && <Slow />}
      {value !== null && error === null && (
        <>
          <Remarks kind="warning" texts={value.warnings} />
          <Remarks kind="info" texts={value.infos} />
        </>
      )}
    </>
  );
}

function QueryError({
  error,
  expr,
  onRetry,
}: {
  error: ApiError;
  expr: string;
  onRetry: () => void;
}) {
  if (error.kind !== 'request') {
    const title = error.kind === 'unreachable' ? 'No connection' : 'The server failed to answer';
    return (
      <Notice kind="error" title={title}>
        {error.message}{' '}
        <button class="link" onClick={onRetry}>
          Try again
        </button>
      </Notice>
    );
  }
  const place = errorPlace(error.message);
  if (place === null) {
    return (
      <Notice kind="error" title={titleOf(error.type)}>
        {error.message}
      </Notice>
    );
  }
  const line = expr.split('\n')[place.line - 1] ?? '';
  const start =
    expr
      .split('\n')
      .slice(0, place.line - 1)
      .join('\n').length + (place.line > 1 ? 1 : 0);
  const column = Math.max(0, offsetOf(expr, place) - start);
  const marked = tokenAt(line, column);
  const where = expr.includes('\n')
    ? `Line ${place.line}, column ${column + 1}`
    : `Column ${column + 1}`;
  return (
    <Notice kind="error" title={`${where}: ${place.text}`}>
      <pre class="error-place">
        {line.slice(0, column)}
        <mark>{marked || ' '}</mark>
        {line.slice(column + marked.length)}
      </pre>
    </Notice>
  );
}

function titleOf(type: string): string {
  if (type === 'bad_data') return 'The expression cannot be read';
  if (type === 'timeout') return 'The query took too long';
  if (type === 'canceled') return 'The query was cancelled';
  return 'The query failed';
}

const FEW = 4;

function Remarks({ kind, texts }: { kind: 'warning' | 'info'; texts: readonly string[] }) {
  const [all, setAll] = useState(false);
  if (texts.length === 0) return null;
  const shown = all ? texts : texts.slice(0, FEW);
  return (
    <Notice kind={kind}>
      {shown.map((text) => (
        <div key={text}>{text}</div>
      ))}
      {texts.length > shown.length && (
        <button class="link" onClick={() => setAll(true)}>
          {texts.length - shown.length} more
        </button>
      )}
    </Notice>
  );
}

/** After two seconds of waiting: for how long. */
function Slow() {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds((old) => old + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  if (seconds < 2) return null;
  return (
    <p class="slow" role="status">
      Still running, {seconds} s.
    </p>
  );
}
