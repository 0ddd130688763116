/**
 * Requests to the HTTP API v1. Every failure becomes an ApiError that says in words what went wrong;
 * an aborted request keeps its AbortError, so that callers can tell "no longer wanted" from "failed".
 */
import { apiUrl } from '../base.ts';

/** What a failure is about: the connection, the server, or the request. */
export type FailureKind = 'unreachable' | 'server' | 'request';

export class ApiError extends Error {
  readonly kind: FailureKind;
  /** HTTP status; 0 when no answer came. */
  readonly status: number;
  /** `bad_data`, `execution`, `timeout` ... where the API named one. */
  readonly type: string;

  constructor(kind: FailureKind, message: string, status = 0, type = '') {
    super(message);
    this.name = 'ApiError';
    this.kind = kind;
    this.status = status;
    this.type = type;
  }
}

export interface Answer<T> {
  readonly data: T;
  readonly warnings: readonly string[];
  readonly infos: readonly string[];
  /** Milliseconds from the request to the parsed answer. */
  readonly elapsed: number;
  /** Length of the body in characters. */
  readonly size: number;
}

/** From here on a request's parameters go into its body: proxies refuse long addresses. */
const LONGEST_ADDRESS = 1800;

/** Asks an endpoint. Throws ApiError, or the AbortError of `signal`. */
export async function ask<T>(
  path: string,
  params: Readonly<Record<string, string>> = {},
  signal?: AbortSignal,
): Promise<Answer<T>> {
  const started = performance.now();
  const query = new URLSearchParams(params).toString();
  const short = query.length < LONGEST_ADDRESS;
  const init: RequestInit = { headers: { Accept: 'application/json' } };
  if (signal !== undefined) init.signal = signal;
  if (!short) {
    init.method = 'POST';
    init.body = new URLSearchParams(query);
  }
  const url = apiUrl(path) + (short && query !== '' ? `?${query}` : '');
  const { response, text } = await send(url, init);
  const body = parseBody(text);
  if (body === null || body.status !== 'success' || !('data' in body))
    throw failure(response, body, text);
  return {
    data: body.data as T,
    warnings: body.warnings ?? [],
    infos: body.infos ?? [],
    elapsed: performance.now() - started,
    size: text.length,
  };
}

async function send(url: string, init: RequestInit): Promise<{ response: Response; text: string }> {
  try {
    const response = await fetch(url, init);
    return { response, text: await response.text() };
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError(
      'unreachable',
      'The server does not answer. Is it running, and is the network up?',
    );
  }
}

interface Body {
  status?: string;
  data?: unknown;
  error?: string;
  errorType?: string;
  warnings?: string[];
  infos?: string[];
}

function parseBody(text: string): Body | null {
  try {
    const body: unknown = JSON.parse(text);
    return typeof body === 'object' && body !== null ? body : null;
  } catch {
    return null;
  }
}

function failure(response: Response, body: Body | null, text: string): ApiError {
  const { status } = response;
  if (body?.error !== undefined) {
    const kind = status >= 500 && body.errorType !== 'timeout' ? 'server' : 'request';
    return new ApiError(kind, body.error, status, body.errorType ?? '');
  }
  if (response.ok)
    return new ApiError('server', 'The answer is not one of the Prometheus API.', status);
  // A proxy's or an old server's answer: its first line usually says enough.
  const line = text.trim().startsWith('<')
    ? ''
    : (text.trim().split('\n', 1)[0] ?? '').slice(0, 300);
  const reason = line || response.statusText || 'no reason given';
  const kind = status >= 500 ? 'server' : 'request';
  return new ApiError(kind, `HTTP ${status}: ${reason}`, status);
}

/** The request was given up by the page itself. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

/** Any thrown thing as an ApiError. */
export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError('server', error instanceof Error ? error.message : String(error));
}
