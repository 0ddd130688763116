/**
 * The address bar. Pages are one level below the base; what stands behind the `?` belongs to the
 * page. Links stay real links: only a plain click on one of ours is handled here.
 */
import { useEffect, useState } from 'preact/hooks';
import { base, pageUrl } from '../base.ts';

export interface Place {
  /** Name of the page: `query`. Empty at the base itself. */
  readonly page: string;
  /** What stands behind the `?`. */
  readonly search: string;
}

function here(): Place {
  const { pathname, search } = window.location;
  const page = pathname.startsWith(base) ? pathname.slice(base.length) : '';
  return { page: page.replace(/\/$/, ''), search: search.slice(1) };
}

const listeners = new Set<() => void>();
window.addEventListener('popstate', () => listeners.forEach((listener) => listener()));

/** Goes to a page of ours: `targets?search=x`. A replaced entry cannot be gone back to. */
export function go(path: string, how: 'push' | 'replace' = 'push'): void {
  const url = pageUrl(path);
  const { pathname, search } = window.location;
  if (url === pathname + search) return;
  window.history[how === 'push' ? 'pushState' : 'replaceState'](null, '', url);
  listeners.forEach((listener) => listener());
}

/** The current place, and a new rendering when it changes. */
export function usePlace(): Place {
  const [place, setPlace] = useState(here);
  useEffect(() => {
    const update = () => setPlace(here());
    listeners.add(update);
    update();
    return () => {
      listeners.delete(update);
    };
  }, []);
  return place;
}

/** Follows a click on a link without loading the page anew, unless a key or target asks otherwise. */
export function followLink(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest('a[data-page]') : null;
  if (!(link instanceof HTMLAnchorElement)) return;
  event.preventDefault();
  const url = new URL(link.href);
  const moved = url.pathname !== window.location.pathname;
  go(url.pathname.slice(base.length) + url.search);
  if (moved) window.scrollTo(0, 0);
}
