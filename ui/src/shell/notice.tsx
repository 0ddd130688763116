/** Boxes that tell something: errors, warnings, empty states. */
import type { ComponentChildren } from 'preact';
import { ApiError } from '../api/client.ts';
import { WarnIcon } from './icons.tsx';

interface NoticeProps {
  readonly kind: 'error' | 'warning' | 'info';
  readonly title?: string;
  readonly children?: ComponentChildren;
}

export function Notice({ kind, title, children }: NoticeProps) {
  return (
    <div class={`notice ${kind}`} role={kind === 'error' ? 'alert' : 'status'}>
      {kind !== 'info' && <WarnIcon />}
      <div>
        {title !== undefined && <strong>{title}</strong>}
        {children !== undefined && <div class="notice-text">{children}</div>}
      </div>
    </div>
  );
}

const TITLES = {
  unreachable: 'No connection',
  server: 'The server failed to answer',
  request: 'The request was refused',
} as const;

/** A failed request, with a way to repeat it. */
export function Failure({ error, onRetry }: { error: ApiError; onRetry: () => void }) {
  return (
    <Notice kind="error" title={TITLES[error.kind]}>
      {error.message}{' '}
      <button class="link" onClick={onRetry}>
        Try again
      </button>
    </Notice>
  );
}
