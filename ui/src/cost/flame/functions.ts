/** Sums per function, and what a search finds. Cost: one pass over the nodes. */
import type { Tree } from './tree.ts';

export interface FunctionCost {
  /** Index of the name. */
  readonly name: number;
  /** Spent in the function itself. */
  readonly self: number;
  /** Spent in it and in what it calls; a call within its own call counts once. */
  readonly total: number;
}

/** The functions of a node's subtree, in no order. */
export function functionsOf(tree: Tree, focus: number): FunctionCost[] {
  const self = new Float64Array(tree.names.length);
  const total = new Float64Array(tree.names.length);
  const open = new Uint32Array(tree.names.length);
  const seen = new Uint8Array(tree.names.length);
  const stack: number[] = [];
  for (let at = focus; at < tree.end[focus]!; at += 1) {
    while (stack.length > 0 && tree.end[stack[stack.length - 1]!]! <= at) {
      open[tree.name[stack.pop()!]!]! -= 1;
    }
    const name = tree.name[at]!;
    seen[name] = 1;
    self[name]! += tree.self[at]!;
    if (open[name] === 0) total[name]! += tree.total[at]!;
    open[name]! += 1;
    stack.push(at);
  }
  // The root is the whole, not a function.
  const root = tree.name[0]!;
  const result: FunctionCost[] = [];
  for (let name = 0; name < seen.length; name += 1) {
    const whole = name === root && focus === 0 && self[name] === 0;
    if (seen[name] === 1 && !whole) result.push({ name, self: self[name]!, total: total[name]! });
  }
  return result;
}

/** By name: 1 where it contains the text, in any case; null without a text. */
export function search(names: readonly string[], text: string): Uint8Array | null {
  const wanted = text.trim().toLowerCase();
  if (wanted === '') return null;
  return Uint8Array.from(names, (name) => (name.toLowerCase().includes(wanted) ? 1 : 0));
}

export interface Matched {
  /** Sum of the found nodes below `focus`, what is found within another counted once. */
  readonly value: number;
  readonly nodes: number;
}

export function matched(tree: Tree, focus: number, hits: Uint8Array): Matched {
  let value = 0;
  let nodes = 0;
  let covered = focus;
  for (let at = focus; at < tree.end[focus]!; at += 1) {
    if (hits[tree.name[at]!] !== 1) continue;
    nodes += 1;
    if (at < covered) continue;
    value += tree.total[at]!;
    covered = tree.end[at]!;
  }
  return { value, nodes };
}

/** The largest occurrence of a name below `focus`. */
export function largestOf(tree: Tree, focus: number, name: number): number {
  let best = focus;
  let most = -1;
  for (let at = focus; at < tree.end[focus]!; at += 1) {
    if (tree.name[at] === name && tree.total[at]! > most) {
      best = at;
      most = tree.total[at]!;
    }
  }
  return best;
}
