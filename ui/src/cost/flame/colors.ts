/** Colours of functions: one hue per package, so that one sees whose time it is, a shade per function. */
import { seriesColor } from '../../palette.ts';
import { NONE, packageOf, SYSTEM } from './names.ts';

/** Our own packages and those that come with them keep their colours in every profile. */
const FIXED: Readonly<Record<string, number>> = {
  server: 0,
  store: 2,
  wire: 1,
  promql: 4,
  profiler: 9,
  unladen: 7,
  tokio: 6,
  hyper: 3,
  std: 5,
  [SYSTEM]: 8,
};
const GREY = 10;
const SURFACE = { light: [255, 255, 255], dark: [25, 29, 31] } as const;

/** Colour number of a package. */
export function packageColor(name: string): number {
  if (name === NONE) return GREY;
  return FIXED[name] ?? 11 + (hash(name) % 211);
}

/** Fills by index of a name, worked out once each. */
export class Fills {
  private readonly known: (string | undefined)[] = [];
  private readonly names: readonly string[];
  private readonly root: number;
  private readonly dark: boolean;

  /** `root` is the index of the name of the whole, which is no function. */
  constructor(names: readonly string[], root: number, dark: boolean) {
    this.names = names;
    this.root = root;
    this.dark = dark;
  }

  of(index: number): string {
    const known = this.known[index];
    if (known !== undefined) return known;
    const name = this.names[index] ?? '';
    const own = index === this.root ? NONE : packageOf(name);
    const fill = fillOf(own, hash(name), this.dark);
    this.known[index] = fill;
    return fill;
  }
}

/** A package's colour as it is in the graph. */
export function packageFill(name: string, dark: boolean): string {
  return fillOf(name, 2, dark);
}

/** The palette's colour, so far mixed into the ground that text on it can be read. */
function fillOf(name: string, shade: number, dark: boolean): string {
  const hex = seriesColor(packageColor(name), dark);
  const share = (dark ? 0.4 : 0.34) + ((shade % 5) - 2) * 0.035;
  const ground = dark ? SURFACE.dark : SURFACE.light;
  const channels = ground.map((base, at) => {
    const own = Number.parseInt(hex.slice(1 + 2 * at, 3 + 2 * at), 16);
    return Math.round(base + (own - base) * share);
  });
  return `rgb(${channels.join(' ')})`;
}

function hash(text: string): number {
  let value = 0;
  for (let at = 0; at < text.length; at += 1) value = (value * 31 + text.charCodeAt(at)) >>> 0;
  return value;
}
