/**
 * Finds the place an error of the server speaks of: Prometheus writes `line:column: parse error: ...`
 * into the message, columns counted in bytes from 1.
 */

export interface ErrorPlace {
  /** Counted from 1. */
  readonly line: number;
  readonly column: number;
  /** The message without the place and the words before it. */
  readonly text: string;
}

/** The place in a message, or null when it names none. */
export function errorPlace(message: string): ErrorPlace | null {
  const match = /(?:^|[\s"])(\d+):(\d+): (?:parse error: )?([\s\S]+)$/.exec(message);
  if (match === null) return null;
  return { line: Number(match[1]), column: Number(match[2]), text: match[3]! };
}

/** Offset of a place in `source`, in UTF-16 units; clipped to the text. */
export function offsetOf(source: string, place: ErrorPlace): number {
  const lines = source.split('\n');
  const line = Math.min(Math.max(place.line, 1), lines.length) - 1;
  let offset = 0;
  for (let index = 0; index < line; index += 1) offset += lines[index]!.length + 1;
  return offset + unitsOfBytes(lines[line]!, Math.max(place.column - 1, 0));
}

/** How many UTF-16 units the first `bytes` bytes of a line's UTF-8 form are. */
function unitsOfBytes(line: string, bytes: number): number {
  let left = bytes;
  let units = 0;
  for (const character of line) {
    if (left <= 0) break;
    const code = character.codePointAt(0)!;
    left -= code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    units += character.length;
  }
  return units;
}

/** The word or sign at an offset, to be marked; empty at the end. */
export function tokenAt(source: string, offset: number): string {
  return /^[\w:.]+|^[^\n]/u.exec(source.slice(offset))?.[0] ?? '';
}
