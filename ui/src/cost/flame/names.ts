/**
 * Names of functions as Rust writes them, for narrow places: the package they come from, and the end of
 * a path, which tells more than its beginning. A name is never changed, only cut, and may be anything.
 */

/** Packages that are one to whoever reads: the standard library. */
const STANDARD: ReadonlySet<string> = new Set(['std', 'core', 'alloc', 'hashbrown']);

/** The package of functions that have no path: C, the kernel, assembler. */
export const SYSTEM = 'system';
/** The package of `[other]` and `[unknown]`. */
export const NONE = '';

/** `server` for `server::scrape::run`, `store` for `<store::Head as core::fmt::Debug>::fmt`. */
export function packageOf(name: string): string {
  if (name.startsWith('[') && !name.includes('::')) return NONE;
  let text = name;
  if (text.startsWith('<')) {
    const as = topLevel(text.slice(1), ' as ');
    const type = as < 0 ? text.slice(1) : text.slice(1, as + 1);
    // A type without a path (u8, T, a closure's F) belongs to its trait.
    text = type.includes('::') || as < 0 ? type : text.slice(as + 5);
  }
  text = text.replace(/^(?:[<&*([]|dyn |mut |const |impl |'\w+ )+/, '');
  const match = /^([A-Za-z_]\w*)(?:\[[0-9a-f]+\])?::/.exec(text);
  if (match === null) return SYSTEM;
  return STANDARD.has(match[1]!) ? 'std' : match[1]!;
}

/** Where `wanted` stands outside all brackets; -1 if nowhere. Arrows are no brackets. */
function topLevel(text: string, wanted: string): number {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    if (depth === 0 && text.startsWith(wanted, at)) return at;
    const char = text[at]!;
    if (char === '<' || char === '(' || char === '[' || char === '{') depth += 1;
    else if (char === ')' || char === ']' || char === '}') depth -= 1;
    else if (char === '>' && text[at - 1] !== '-') depth -= 1;
    if (depth < 0) return -1;
  }
  return -1;
}

/** The pieces of a path: `a::B<c::D>::e` are `a`, `B<c::D>`, `e`. */
export function pieces(name: string): string[] {
  const all: string[] = [];
  let rest = name;
  // A name has a few dozen pieces; longer ones are nobody's path.
  while (all.length < 64) {
    const cut = topLevel(rest, '::');
    if (cut < 0) break;
    all.push(rest.slice(0, cut));
    rest = rest.slice(cut + 2);
  }
  all.push(rest);
  return all;
}

/** Where the last piece of a path begins; closures and generics are told by what they belong to. */
export function splitLast(name: string): readonly [path: string, last: string] {
  const all = pieces(name);
  const last = all.slice(lastNamed(all)).join('::');
  return [name.slice(0, name.length - last.length), last];
}

function lastNamed(all: readonly string[]): number {
  let at = all.length - 1;
  while (at > 0 && /^(?:\{.*\}|<.*>)$/.test(all[at]!)) at -= 1;
  return at;
}

/** The name in at most `room` characters: whole, or as many last pieces as fit, or the beginning of the last. */
export function shorten(name: string, room: number): string {
  if (name.length <= room) return name;
  if (room < 2) return '';
  const all = pieces(name);
  let at = lastNamed(all);
  let text = all.slice(at).join('::');
  while (at > 0 && text.length + all[at - 1]!.length + 2 <= room) {
    at -= 1;
    text = `${all[at]!}::${text}`;
  }
  return text.length <= room ? text : `${text.slice(0, room - 1)}…`;
}
