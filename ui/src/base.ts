/**
 * Where the page lives. The server may mount it under any prefix (`--web.route-prefix`, a proxy's
 * path), so every address is derived from the document: all pages are one level below the base.
 */

/** Path of the folder the page is served from, with slashes at both ends: `/` or `/prefix/`. */
export const base: string = new URL('.', document.baseURI).pathname;

/** Address of an API endpoint, `path` without a leading slash: `query_range`. */
export function apiUrl(path: string): string {
  return `${base}api/v1/${path}`;
}

/** Address of a page, `path` without a leading slash: `targets?search=x`. */
export function pageUrl(path: string): string {
  return base + path;
}
