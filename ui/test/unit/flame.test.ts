import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Profile, ProfileNode } from '../../src/cost/answers.ts';
import { functionsOf, largestOf, matched, search } from '../../src/cost/flame/functions.ts';
import { nodeAt, rowsOf, step, visible, type Rectangle } from '../../src/cost/flame/layout.ts';
import { packageOf, pieces, shorten } from '../../src/cost/flame/names.ts';
import {
  nameOf,
  nodeOfZoom,
  pathTo,
  treeOf,
  zoomId,
  type Tree,
} from '../../src/cost/flame/tree.ts';

function profile(names: readonly string[], nodes: readonly ProfileNode[]): Profile {
  return { type: 'cpu', unit: 'nanoseconds', total: 0, names, nodes };
}

/** total(100): a(70): b(30), a(20); c(10); [other](20). Children stand smallest first. */
const SMALL = profile(
  ['total', 'a', 'b', 'c', '[other]'],
  [
    [0, 0, 100, -1],
    [3, 10, 10, 0],
    [4, 20, 20, 0],
    [1, 20, 70, 0],
    [1, 20, 20, 3],
    [2, 30, 30, 3],
  ],
);

/** Drawing order as `name@start+total`. */
function written(tree: Tree): string[] {
  return Array.from(
    { length: tree.count },
    (_, node) => `${nameOf(tree, node)}@${tree.start[node]}+${tree.total[node]}`,
  );
}

function rectangles(tree: Tree, focus: number, width: number, rows = 1000): Rectangle[] {
  const all: Rectangle[] = [];
  visible(tree, { focus, width }, 0, rows, (one) => all.push(one));
  return all;
}

const shown = (tree: Tree, all: readonly Rectangle[]) =>
  all.map(({ node, row, left, width }) => `${row} ${nameOf(tree, node)} ${left}+${width}`);

test('a tree is in drawing order, the largest first and [other] last', () => {
  const tree = treeOf(SMALL);
  assert.deepEqual(written(tree), [
    'total@0+100',
    'a@0+70',
    'b@0+30',
    'a@30+20',
    'c@70+10',
    '[other]@80+20',
  ]);
  assert.deepEqual([...tree.depth], [0, 1, 2, 2, 1, 1]);
  assert.deepEqual([...tree.end], [6, 4, 3, 4, 5, 6]);
  assert.deepEqual(
    tree.levels.map((level) => [...level]),
    [[0], [1, 4, 5], [2, 3]],
  );
});

test('broken answers: what does not hang on the root is left out, totals are summed anew', () => {
  const tree = treeOf(
    profile(
      ['r', 'x', 'loop'],
      [
        [0, 1, 3, 0],
        [1, 5, 999, 0],
        [2, 7, 7, 3], // these two hang on each other
        [2, 7, 7, 2],
        [1, 7, 7, 99], // on nothing
        [1, -4, 0, 0], // less than nothing
        [77, Number.NaN, 0, 0], // without a name
      ],
    ),
  );
  assert.deepEqual(written(tree), ['r@0+6', 'x@0+5', 'x@5+0', 'loop@5+0']);
  const none = treeOf(profile([], []));
  assert.deepEqual([none.count, none.total[0], nameOf(none, 0)], [1, 0, 'total']);
  assert.deepEqual(rectangles(none, 0, 500), [{ node: 0, row: 0, left: 0, width: 500 }]);
});

test('children may stand before the nodes that they hang on', () => {
  const tree = treeOf(
    profile(
      ['r', 'child', 'grandchild'],
      [
        [0, 0, 0, -1],
        [2, 4, 4, 2],
        [1, 1, 5, 0],
      ],
    ),
  );
  assert.deepEqual(written(tree), ['r@0+5', 'child@0+5', 'grandchild@0+4']);
});

test('a stack of a hundred thousand calls needs no recursion', () => {
  const depth = 100_000;
  const nodes = Array.from({ length: depth }, (_, at): ProfileNode => [
    0,
    at === depth - 1 ? 1 : 0,
    1,
    at - 1,
  ]);
  const tree = treeOf(profile(['f'], nodes));
  assert.equal(rowsOf(tree, 0), depth);
  assert.equal(tree.total[0], 1);
  assert.equal(functionsOf(tree, 0)[0]?.total, 1);
});

test('rectangles: whole, zoomed with the calls above, and by rows', () => {
  const tree = treeOf(SMALL);
  assert.deepEqual(shown(tree, rectangles(tree, 0, 200)), [
    '0 total 0+200',
    '1 a 0+140',
    '1 c 140+20',
    '1 [other] 160+40',
    '2 b 0+60',
    '2 a 60+40',
  ]);
  const zoomed = ['0 total 0+140', '1 a 0+140', '2 b 0+60', '2 a 60+40'];
  assert.deepEqual(shown(tree, rectangles(tree, 1, 140)), zoomed);
  assert.deepEqual(shown(tree, rectangles(tree, 4, 140)), ['0 total 0+140', '1 c 0+140']);
  assert.equal(rowsOf(tree, 4), 2);
  assert.deepEqual(shown(tree, rectangles(tree, 1, 140, 1)), ['0 total 0+140']);
});

/** A root, `width` children, each with one child: random sizes from a fixed seed. */
function wide(width: number): Profile {
  const nodes: ProfileNode[] = [[0, 0, 0, -1]];
  let seed = 42;
  for (let at = 0; at < width; at += 1) {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    nodes.push([1 + (at % 50), 1, 0, 0]);
    nodes.push([51 + (at % 50), (seed % 1000) / 10, 0, nodes.length - 1]);
  }
  return profile(
    Array.from({ length: 101 }, (_, n) => (n === 0 ? 'total' : `f${n}`)),
    nodes,
  );
}

test('what is thinner than a pixel is drawn once per pixel, and nothing wide is left out', () => {
  const tree = treeOf(wide(5000));
  const all = rectangles(tree, 0, 800);
  assert.ok(all.length < 2 * (800 / 0.7) + 1, `${all.length} rectangles`);
  assert.ok(all.length > 800, `${all.length} rectangles`);
  for (let row = 1; row < 3; row += 1) {
    const drawn = all.filter((one) => one.row === row);
    for (let at = 1; at < drawn.length; at += 1) {
      const gap = drawn[at]!.left - (drawn[at - 1]!.left + drawn[at - 1]!.width);
      assert.ok(gap > -0.001, `row ${row}: overlap of ${-gap}`);
      assert.ok(row === 2 || gap < 0.71, `row ${row}: hole of ${gap}`);
    }
  }
  const focus = tree.levels[1]![7]!;
  assert.deepEqual(
    rectangles(tree, focus, 800).map(({ node }) => node),
    [0, focus, focus + 1],
  );
});

test('a place leads to the node that is drawn there', () => {
  for (const tree of [treeOf(SMALL), treeOf(wide(3000))]) {
    for (const focus of [0, 1]) {
      const view = { focus, width: 777 };
      for (const { node, row, left, width } of rectangles(tree, focus, 777)) {
        if (width < 1) continue;
        assert.equal(nodeAt(tree, view, row, left + width / 2), node);
      }
      assert.equal(nodeAt(tree, view, 99, 5), -1);
      assert.equal(nodeAt(tree, view, 0, 778), -1);
      assert.equal(nodeAt(tree, view, -1, 5), -1);
    }
  }
  // Behind the last child there is the own share of the node above, and nothing is drawn.
  assert.equal(nodeAt(treeOf(SMALL), { focus: 0, width: 100 }, 2, 60), -1);
});

test('arrow keys walk to what is drawn beside, above and below', () => {
  const tree = treeOf(SMALL);
  const cases: readonly (readonly [focus: number, from: number, to: string, want: number])[] = [
    [0, 0, 'down', 1],
    [0, 1, 'down', 2],
    [0, 2, 'down', 2],
    [0, 2, 'right', 3],
    [0, 3, 'right', 3],
    [0, 1, 'right', 4],
    [0, 4, 'left', 1],
    [0, 4, 'up', 0],
    [0, 0, 'up', 0],
    [0, 0, 'left', 0],
    // Zoomed into the second a: along the path to it, and not beside it.
    [3, 0, 'down', 1],
    [3, 1, 'down', 3],
    [3, 1, 'right', 1],
    [3, 3, 'left', 3],
  ];
  for (const [focus, from, to, want] of cases) {
    assert.equal(step(tree, focus, from, to as 'up'), want, `${from} ${to} in ${focus}`);
  }
});

test('sums per function count a call within its own call once', () => {
  const tree = treeOf(SMALL);
  const sums = (focus: number) =>
    functionsOf(tree, focus).map(({ name, self, total }) => `${tree.names[name]} ${self} ${total}`);
  assert.deepEqual(sums(0), ['a 40 70', 'b 30 30', 'c 10 10', '[other] 20 20']);
  assert.deepEqual(sums(3), ['a 20 20']);
  assert.equal(largestOf(tree, 0, 1), 1);
});

test('a search sums what it finds, nothing twice', () => {
  const tree = treeOf(SMALL);
  assert.equal(search(tree.names, '  '), null);
  const find = (text: string, focus = 0) => matched(tree, focus, search(tree.names, text)!);
  assert.deepEqual(find('A'), { value: 100, nodes: 3 }); // total is found as well
  assert.deepEqual(find('a', 1), { value: 70, nodes: 2 });
  assert.deepEqual(find('b'), { value: 30, nodes: 1 });
  assert.deepEqual(find('[OTHER]'), { value: 20, nodes: 1 });
  assert.deepEqual(find('nowhere'), { value: 0, nodes: 0 });
});

test('a zoom is found again in another profile of the same code', () => {
  const tree = treeOf(SMALL);
  const other = treeOf(
    profile(
      ['b', 'total', 'a', 'new'],
      [
        [1, 0, 0, -1],
        [3, 500, 0, 0],
        [2, 1, 0, 0],
        [0, 1, 0, 2],
      ],
    ),
  );
  const node = nodeOfZoom(other, zoomId(tree, 2));
  assert.deepEqual(
    pathTo(other, node).map((at) => nameOf(other, at)),
    ['total', 'a', 'b'],
  );
  assert.equal(zoomId(tree, 0), '');
  for (const odd of ['', 'zzz', '%', '-1', 'NaN']) assert.equal(nodeOfZoom(tree, odd), 0);
});

test('packages of names as Rust writes them', () => {
  const cases: Readonly<Record<string, string>> = {
    'server::scrape::ingest::run': 'server',
    'server[1a2b3c]::scrape::run': 'server',
    '<store::head::Head as core::fmt::Debug>::fmt': 'store',
    '<&mut tokio::sync::Mutex<T> as core::future::Future>::poll': 'tokio',
    '<T as wire::Sink>::fold': 'wire',
    '<alloc::vec::Vec<server::Row>>::push': 'std',
    'core::ptr::drop_in_place<server::Row>': 'std',
    '<dyn hyper::rt::Executor as x::Y>::execute': 'hyper',
    '<[u8] as std::io::Read>::read': 'std',
    'std::rt::lang_start::{{closure}}': 'std',
    epoll_wait: 'system',
    _rjem_je_malloc: 'system',
    'operator new(unsigned long)': 'system',
    '[other]': '',
    '[unknown]': '',
    '': 'system',
    '<': 'system',
  };
  for (const [name, want] of Object.entries(cases)) assert.equal(packageOf(name), want, name);
});

test('names are cut at the front, at the bounds of their path', () => {
  const name = '<store::Head<a::B> as core::ops::Fn(c::D) -> e::F>::call::{{closure}}';
  assert.deepEqual(pieces(name), [
    '<store::Head<a::B> as core::ops::Fn(c::D) -> e::F>',
    'call',
    '{{closure}}',
  ]);
  const cases: readonly (readonly [string, number, string])[] = [
    ['a::b::c', 20, 'a::b::c'],
    ['server::scrape::ingest::run', 15, 'ingest::run'],
    ['server::scrape::ingest::run', 3, 'run'],
    ['server::scrape::ingest::running', 4, 'run…'],
    ['server::scrape::run::{{closure}}', 18, 'run::{{closure}}'],
    ['server::scrape::run::{{closure}}', 8, 'run::{{…'],
    [
      'std::panic::catch_unwind::<a::{closure#0}, isize>',
      40,
      'catch_unwind::<a::{closure#0}, isize>',
    ],
    ['epoll_wait', 5, 'epol…'],
    ['epoll_wait', 1, ''],
    ['<<<>>>::::', 4, '::'],
  ];
  for (const [text, room, want] of cases)
    assert.equal(shorten(text, room), want, `${text} ${room}`);
});
