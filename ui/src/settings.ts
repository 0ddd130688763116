/**
 * What a person prefers, kept in the browser's local storage: theme, time zone, past expressions.
 * Storage may be full, forbidden or hold anything: then the defaults are used.
 */
import { useEffect, useState } from 'preact/hooks';

export type Theme = 'system' | 'light' | 'dark';

export interface Settings {
  readonly theme: Theme;
  readonly utc: boolean;
}

const KEY = 'unladen.settings';
const HISTORY_KEY = 'unladen.history';
const HISTORY_LENGTH = 100;

function load<T>(key: string, check: (value: unknown) => T | null): T | null {
  try {
    return check(JSON.parse(localStorage.getItem(key) ?? 'null'));
  } catch {
    return null;
  }
}

function save(key: string, value: unknown): void {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // Full or forbidden: the choice then lasts as long as the page.
  }
}

function checkSettings(value: unknown): Settings | null {
  if (typeof value !== 'object' || value === null) return null;
  const { theme, utc } = value as Record<string, unknown>;
  return {
    theme: theme === 'light' || theme === 'dark' ? theme : 'system',
    utc: utc === true,
  };
}

let current: Settings = load(KEY, checkSettings) ?? { theme: 'system', utc: false };
const listeners = new Set<(settings: Settings) => void>();
const prefersDark = window.matchMedia('(prefers-color-scheme: dark)');

/** The theme in effect. */
export function isDark(settings: Settings = current): boolean {
  return settings.theme === 'system' ? prefersDark.matches : settings.theme === 'dark';
}

function apply(): void {
  document.documentElement.dataset['theme'] = isDark() ? 'dark' : 'light';
  for (const listener of listeners) listener(current);
}

export function changeSettings(change: Partial<Settings>): void {
  current = { ...current, ...change };
  save(KEY, current);
  apply();
}

prefersDark.addEventListener('change', () => {
  current = { ...current };
  apply();
});
apply();

/** The settings, and a new rendering when they change. */
export function useSettings(): Settings & { readonly dark: boolean } {
  const [settings, setSettings] = useState(current);
  useEffect(() => {
    listeners.add(setSettings);
    return () => {
      listeners.delete(setSettings);
    };
  }, []);
  return { ...settings, dark: isDark(settings) };
}

/** Past expressions, newest first. */
export function pastExpressions(): string[] {
  const strings = (value: unknown) =>
    Array.isArray(value) ? value.filter((item) => typeof item === 'string') : null;
  return load(HISTORY_KEY, strings) ?? [];
}

/** Puts an expression at the front of the history; the oldest fall out. */
export function rememberExpression(expr: string): void {
  const rest = pastExpressions().filter((past) => past !== expr);
  save(HISTORY_KEY, [expr, ...rest].slice(0, HISTORY_LENGTH));
}
