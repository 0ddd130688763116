/**
 * Colours of series. The first twelve are picked by hand for distance from each other and for enough
 * contrast on both grounds; after them the hue walks on by the golden angle, so that neighbours in a
 * long legend still differ.
 */

const LIGHT = [
  '#1668b8',
  '#d9620f',
  '#2a8a3e',
  '#c2273b',
  '#7a4fc4',
  '#8a5a34',
  '#c9438f',
  '#11858f',
  '#9a8a10',
  '#4657c9',
  '#5f6b73',
  '#6a9a1f',
] as const;
const DARK = [
  '#5aa5ee',
  '#f59248',
  '#5fc673',
  '#f16a78',
  '#ab8bf0',
  '#c59a72',
  '#ef7cc0',
  '#43c3cc',
  '#d8c63f',
  '#8796ff',
  '#a2afb8',
  '#a5d552',
] as const;

/** Colour number `index`, as hex, so that a stack's fill can add its own opacity. */
export function seriesColor(index: number, dark: boolean): string {
  const table = dark ? DARK : LIGHT;
  const picked = table[index];
  if (picked !== undefined) return picked;
  const hue = (index * 137.508 + 20) % 360;
  const light = (dark ? 66 : 44) + ((index % 3) - 1) * 7;
  return hslToHex(hue, 58, light);
}

function hslToHex(hue: number, saturation: number, light: number): string {
  const l = light / 100;
  const a = (saturation / 100) * Math.min(l, 1 - l);
  const channel = (n: number) => {
    const k = (n + hue / 30) % 12;
    const value = l - a * Math.max(-1, Math.min(k - 3, 9 - k, 1));
    return Math.round(255 * value)
      .toString(16)
      .padStart(2, '0');
  };
  return `#${channel(0)}${channel(8)}${channel(4)}`;
}

const MOST_REMEMBERED = 50_000;

/**
 * Gives each series a colour that it keeps while the same expression refreshes, also when others
 * appear or go between two refreshes.
 */
export class ColorBook {
  private readonly numbers = new Map<string, number>();
  private next = 0;

  /** The colour number of a series key; the next free one at its first sight. */
  numberOf(key: string): number {
    const known = this.numbers.get(key);
    if (known !== undefined) return known;
    // Series that come and go for days must not pile up here.
    if (this.numbers.size >= MOST_REMEMBERED) this.numbers.clear();
    const fresh = this.next;
    this.next += 1;
    this.numbers.set(key, fresh);
    return fresh;
  }
}
