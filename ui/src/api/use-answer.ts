/**
 * A component's subscription to an endpoint: asks when `key` changes and on demand, gives up the
 * request before it when a new one starts, and keeps the last answer until the next arrives.
 */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, asApiError, isAbort } from './client.ts';

export interface Loaded<T> {
  readonly value: T | null;
  readonly error: ApiError | null;
  readonly loading: boolean;
  /** When the shown value arrived, in milliseconds since 1970; 0 before the first. */
  readonly at: number;
  readonly reload: () => void;
  readonly cancel: () => void;
}

interface State<T> {
  key: string | null;
  value: T | null;
  error: ApiError | null;
  loading: boolean;
  at: number;
}

/**
 * `load` runs for each new `key`; a null key asks nothing. `subject` names what the
 * value is of: when it changes and the request fails, the old value would be another subject's, so it
 * goes; with the same subject it stays beside the error.
 */
export function useAnswer<T>(
  key: string | null,
  load: (signal: AbortSignal) => Promise<T>,
  subject: string = key ?? '',
): Loaded<T> {
  const [state, setState] = useState<State<T>>({
    key: null,
    value: null,
    error: null,
    loading: key !== null,
    at: 0,
  });
  const controller = useRef<AbortController | null>(null);
  const shown = useRef('');
  const latest = useRef(load);
  latest.current = load;

  const cancel = useCallback(() => {
    controller.current?.abort();
    controller.current = null;
    setState((old) => (old.loading ? { ...old, loading: false } : old));
  }, []);

  const run = useCallback(() => {
    controller.current?.abort();
    const own = new AbortController();
    controller.current = own;
    setState((old) => (old.loading ? old : { ...old, loading: true }));
    latest.current(own.signal).then(
      (value) => {
        if (controller.current !== own) return;
        controller.current = null;
        shown.current = subject;
        setState({ key, value, error: null, loading: false, at: Date.now() });
      },
      (error: unknown) => {
        if (controller.current !== own || isAbort(error)) return;
        controller.current = null;
        setState((old) => ({
          ...old,
          key,
          value: shown.current === subject ? old.value : null,
          error: asApiError(error),
          loading: false,
        }));
      },
    );
  }, [key, subject]);

  useEffect(() => {
    if (key === null) {
      // Nothing is shown now; what there is may be shown again, if it is still of the same subject.
      setState((old) => ({
        key: null,
        value: shown.current === subject ? old.value : null,
        error: null,
        loading: false,
        at: old.at,
      }));
      return undefined;
    }
    run();
    return () => {
      controller.current?.abort();
      controller.current = null;
    };
  }, [key, subject, run]);

  const { value, error, loading, at } = state;
  return { value, error, loading, at, reload: run, cancel };
}

/**
 * Asks again every `ms` milliseconds, never when `ms` is 0. A tick during a request is left out: an
 * answer that takes longer than `ms` must still arrive.
 */
export function useRefresh(loaded: Loaded<unknown>, ms: number): void {
  useInterval(() => {
    if (!loaded.loading) loaded.reload();
  }, ms);
}

/** Calls `tick` every `ms` milliseconds while the page can be seen; never when `ms` is 0. */
export function useInterval(tick: () => void, ms: number): void {
  const latest = useRef(tick);
  latest.current = tick;
  useEffect(() => {
    if (ms === 0) return undefined;
    let last = Date.now();
    const due = () => {
      if (document.hidden) return;
      last = Date.now();
      latest.current();
    };
    const caughtUp = () => {
      if (!document.hidden && Date.now() - last >= ms) due();
    };
    const timer = setInterval(due, ms);
    document.addEventListener('visibilitychange', caughtUp);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', caughtUp);
    };
  }, [ms]);
}
