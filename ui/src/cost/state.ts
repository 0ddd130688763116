/**
 * The page's state as an address and back: `type` makes it a profile, else it is the overview. Unknown
 * or broken parameters fall back to the default instead of failing.
 */
import { formatDuration, parseDuration } from '../duration.ts';
import { formatTime, parseTime } from '../format.ts';
import { PROFILE_TYPES, type ProfileType } from './answers.ts';

/** What the figures of the overview are about: the last minutes, or all since the start. */
export type Over = 'minutes' | 'start';

export interface OverviewState {
  readonly over: Over;
  /** Length of the history, milliseconds. */
  readonly range: number;
  /** End of the history, milliseconds since 1970; null is now. */
  readonly end: number | null;
}

export interface ProfileState {
  readonly type: ProfileType;
  /** Empty is the whole process. */
  readonly stage: string;
  /** Seconds to collect for; 0 is since the start, or what is in use now. */
  readonly seconds: number;
  readonly search: string;
  /** Id of the call zoomed into; empty is the root. */
  readonly zoom: string;
}

export const DEFAULT_HISTORY = 1_800_000;
export const DURATIONS: readonly number[] = [0, 10, 30];

export const OVERVIEW: OverviewState = { over: 'minutes', range: DEFAULT_HISTORY, end: null };

export function readOverview(search: string): OverviewState {
  const params = new URLSearchParams(search);
  return {
    over: params.get('over') === 'start' ? 'start' : 'minutes',
    range: parseDuration(params.get('range') ?? '') ?? DEFAULT_HISTORY,
    end: parseTime(params.get('end') ?? '', true),
  };
}

/** Address of the overview below the base. */
export function overviewLink(state: OverviewState): string {
  const params = new URLSearchParams();
  if (state.over !== 'minutes') params.set('over', state.over);
  if (state.range !== DEFAULT_HISTORY) params.set('range', formatDuration(state.range));
  if (state.end !== null) params.set('end', formatTime(state.end, true, true));
  return place(params);
}

/** The profile that an address asks for; null if it asks for none. */
export function readProfile(search: string): ProfileState | null {
  const params = new URLSearchParams(search);
  const type = PROFILE_TYPES.find((one) => one === params.get('type'));
  if (type === undefined) return null;
  const seconds = Number(params.get('seconds') ?? '0');
  return {
    type,
    stage: params.get('stage') ?? '',
    seconds: DURATIONS.includes(seconds) ? seconds : 0,
    search: params.get('search') ?? '',
    zoom: params.get('zoom') ?? '',
  };
}

/** Address of a profile below the base. */
export function profileLink(state: Partial<ProfileState> & { readonly type: ProfileType }): string {
  const params = new URLSearchParams({ type: state.type });
  if (state.stage) params.set('stage', state.stage);
  if (state.seconds) params.set('seconds', String(state.seconds));
  if (state.search) params.set('search', state.search);
  if (state.zoom) params.set('zoom', state.zoom);
  return place(params);
}

function place(params: URLSearchParams): string {
  const text = params.toString();
  return text === '' ? 'cost' : `cost?${text}`;
}
