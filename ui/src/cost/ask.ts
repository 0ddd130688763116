/** Asks for costs and profiles. */
import { ask } from '../api/client.ts';
import type { Cost, Profile, ProfileType } from './answers.ts';

export async function askCost(signal: AbortSignal): Promise<Cost> {
  return (await ask<Cost>('status/cost', {}, signal)).data;
}

/** With `seconds` above 0 the answer arrives after as many. */
export async function askProfile(
  type: ProfileType,
  stage: string,
  seconds: number,
  signal: AbortSignal,
): Promise<Profile> {
  const params = { type, stage, seconds: String(seconds) };
  return (await ask<Profile>('status/profile', params, signal)).data;
}
