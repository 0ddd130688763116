/**
 * A profile as a tree in the order in which it is drawn: a node, then all below it, the largest branch
 * first and what was folded into `[other]` last. The numbers of a node's subtree are therefore one range,
 * and the nodes of a depth are sorted by their place. Nodes that do not hang on the root (a broken answer)
 * are left out, and totals are summed anew, so that no rectangle can be wider than the one above it.
 *
 * 1. children of each node, as ranges of one array; 2. nodes reachable from the root, parents first;
 * 3. totals, backwards; 4. children by size; 5. numbering in drawing order, without recursion.
 * Cost: sorting the children, else linear.
 */
import type { Profile, ProfileNode } from '../answers.ts';

export interface Tree {
  readonly names: readonly string[];
  /** Nodes; the root is 0. An empty profile has the root alone. */
  readonly count: number;
  /** By node: the index of its name. */
  readonly name: Uint32Array;
  readonly self: Float64Array;
  readonly total: Float64Array;
  /** By node: the one above; the root's is 0. */
  readonly parent: Uint32Array;
  readonly depth: Uint32Array;
  /** By node: where it begins, in the unit of the profile, from 0 to the root's total. */
  readonly start: Float64Array;
  /** By node: the first number behind its subtree. */
  readonly end: Uint32Array;
  /** By node: a short name of the path of names that leads to it, the same in another profile. */
  readonly path: Uint32Array;
  /** By depth: its nodes in order. */
  readonly levels: readonly Uint32Array[];
}

/** The name under which a server folds branches that are too small to send. */
export const OTHER = '[other]';

export function treeOf(profile: Profile): Tree {
  const { nodes, names } = profile;
  const below = children(nodes);
  const reached = reachable(nodes.length, below);
  const totals = new Float64Array(nodes.length);
  for (let at = reached.length - 1; at >= 0; at -= 1) {
    const node = reached[at]!;
    totals[node]! += amount(nodes[node]!);
    if (at > 0) totals[nodes[node]![3]]! += totals[node]!;
  }
  sortChildren(profile, below, reached, totals);
  return number(profile, below, Math.max(reached.length, 1), totals, names.map(nameHash));
}

/** The value of a node itself: a finite one that isn't negative. */
function amount(node: ProfileNode): number {
  return node[1] > 0 && Number.isFinite(node[1]) ? node[1] : 0;
}

interface Children {
  /** By node: where its children begin in `list`; one more entry ends the last. */
  readonly from: Uint32Array;
  readonly list: Uint32Array;
}

function children(nodes: readonly ProfileNode[]): Children {
  const from = new Uint32Array(nodes.length + 2);
  const hangs = (index: number) => {
    const parent = nodes[index]![3];
    return index > 0 && Number.isInteger(parent) && parent >= 0 && parent < nodes.length;
  };
  for (let index = 1; index < nodes.length; index += 1) {
    if (hangs(index)) from[nodes[index]![3] + 2]! += 1;
  }
  for (let at = 2; at < from.length; at += 1) from[at]! += from[at - 1]!;
  const list = new Uint32Array(nodes.length);
  for (let index = 1; index < nodes.length; index += 1) {
    if (!hangs(index)) continue;
    const slot = nodes[index]![3] + 1;
    list[from[slot]!] = index;
    from[slot]! += 1;
  }
  return { from, list };
}

function reachable(count: number, below: Children): Uint32Array {
  const order = new Uint32Array(count);
  if (count === 0) return order;
  let known = 1;
  for (let at = 0; at < known; at += 1) {
    const node = order[at]!;
    for (let child = below.from[node]!; child < below.from[node + 1]!; child += 1) {
      order[known] = below.list[child]!;
      known += 1;
    }
  }
  return order.subarray(0, known);
}

function sortChildren(
  { names, nodes }: Profile,
  below: Children,
  reached: Uint32Array,
  totals: Float64Array,
): void {
  const isOther = (node: number) => (names[nodes[node]![0]] === OTHER ? 1 : 0);
  for (const node of reached) {
    const range = below.list.subarray(below.from[node]!, below.from[node + 1]!);
    if (range.length < 2) continue;
    range.sort((a, b) => isOther(a) - isOther(b) || totals[b]! - totals[a]! || a - b);
  }
}

function number(
  { names, nodes }: Profile,
  below: Children,
  count: number,
  totals: Float64Array,
  hashes: readonly number[],
): Tree {
  const tree = empty(names.length > 0 ? names : ['total'], count);
  const levels: number[][] = [];
  const places: number[] = [];
  const stack: (readonly [node: number, parent: number])[] = nodes.length > 0 ? [[0, 0]] : [];
  let next = 0;
  while (stack.length > 0) {
    const [node, parent] = stack.pop()!;
    const at = next;
    next += 1;
    const depth = at === 0 ? 0 : tree.depth[parent]! + 1;
    const name = Math.min(Math.max(Math.trunc(nodes[node]![0]) || 0, 0), tree.names.length - 1);
    tree.name[at] = name;
    tree.self[at] = amount(nodes[node]!);
    tree.total[at] = totals[node]!;
    tree.parent[at] = parent;
    tree.depth[at] = depth;
    // The own share of a node stands right of all its children.
    tree.start[at] = at === 0 ? 0 : places[depth - 1]!;
    if (at > 0) places[depth - 1]! += totals[node]!;
    places[depth] = tree.start[at]!;
    tree.path[at] = at === 0 ? SEED : mix(tree.path[parent]!, hashes[name] ?? 0);
    (levels[depth] ??= []).push(at);
    for (let child = below.from[node + 1]! - 1; child >= below.from[node]!; child -= 1) {
      stack.push([below.list[child]!, at]);
    }
  }
  tree.end.fill(0);
  for (let at = count - 1; at >= 0; at -= 1) {
    tree.end[at] = Math.max(tree.end[at]!, at + 1);
    const parent = tree.parent[at]!;
    if (at > 0) tree.end[parent] = Math.max(tree.end[parent]!, tree.end[at]!);
  }
  return {
    ...tree,
    levels: levels.length > 0 ? levels.map((one) => Uint32Array.from(one)) : [new Uint32Array(1)],
  };
}

function empty(names: readonly string[], count: number): Omit<Tree, 'levels'> {
  return {
    names,
    count,
    name: new Uint32Array(count),
    self: new Float64Array(count),
    total: new Float64Array(count),
    parent: new Uint32Array(count),
    depth: new Uint32Array(count),
    start: new Float64Array(count),
    end: new Uint32Array(count),
    path: new Uint32Array(count),
  };
}

const SEED = 0x811c9dc5;

/** FNV-1a. */
function nameHash(name: string): number {
  let hash = SEED;
  for (let at = 0; at < name.length; at += 1) {
    hash = Math.imul(hash ^ name.charCodeAt(at), 0x01000193);
  }
  return hash >>> 0;
}

function mix(above: number, own: number): number {
  const turned = Math.imul(above ^ own, 0x9e3779b1);
  return (turned ^ (turned >>> 15)) >>> 0;
}

/** A node for the address; empty for the root. */
export function zoomId(tree: Tree, node: number): string {
  return node === 0 ? '' : tree.path[node]!.toString(36);
}

/** The node of an address; the root when this profile has no such path. */
export function nodeOfZoom(tree: Tree, id: string): number {
  const wanted = Number.parseInt(id, 36);
  return Math.max(tree.path.indexOf(wanted), 0);
}

/** A node and those above it, the root first. */
export function pathTo(tree: Tree, node: number): number[] {
  const path = [node];
  for (let at = node; at !== 0; at = tree.parent[at]!) path.push(tree.parent[at]!);
  return path.reverse();
}

export function nameOf(tree: Tree, node: number): string {
  return tree.names[tree.name[node]!] ?? '';
}
