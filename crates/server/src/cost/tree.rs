//! A tree of calls with what was measured at each, from samples in any order.
//!
//! 1. Each sample's calls are followed from the outermost; what is missing of them is added.
//! 2. Where there are [`MOST_BUILT`] nodes already, the rest of a stack is one `[other]` where it leaves the
//!    tree, so that memory is bounded whatever comes.
//! 3. In the end the nodes with the largest totals stay, as many as are wanted; what is below another that
//!    goes becomes that one's `[other]`. A node's total is never more than its parent's, so what stays is a
//!    tree.
//!
//! Values are positive: an entry that shrank is no part of a picture whose areas add up.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Nodes that are kept while samples come: some 6 MB.
const MOST_BUILT: usize = 100_000;

/// Bytes of a name that are kept. Names of generic functions may have thousands.
const MOST_NAME: usize = 1024;

/// What was folded.
const OTHER: &str = "[other]";

/// The root, and the parent of the root.
const ROOT: u32 = 0;

/// A call, under those that led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Where its name is among the tree's.
    pub(crate) name: u32,
    /// What was measured in it and nothing below.
    pub(crate) own: u64,
    /// What was measured in it and below.
    pub(crate) total: u64,
    /// Where its caller is among the nodes: before it. None for the root.
    pub(crate) parent: Option<u32>,
}

/// The tree while samples come.
#[derive(Debug)]
pub(crate) struct Builder {
    names: Names,
    nodes: Vec<Node>,
    children: HashMap<(u32, u32), u32, RandomState>,
    /// The names of one sample's calls.
    calls: Vec<u32>,
    most: usize,
}

/// The finished tree: the root first, everybody behind their caller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) names: Vec<Box<str>>,
    pub(crate) nodes: Vec<Node>,
}

/// Names, each once.
#[derive(Debug, Default)]
struct Names {
    texts: Vec<Box<str>>,
    found: HashMap<Box<str>, u32, RandomState>,
}

impl Names {
    fn intern(&mut self, text: &str) -> u32 {
        let text = cut(text);
        if let Some(&known) = self.found.get(text) {
            return known;
        }
        let new = self.texts.len() as u32;
        self.texts.push(Box::from(text));
        self.found.insert(Box::from(text), new);
        new
    }
}

/// The beginning of a long name, at the end of a character.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MOST_NAME)]
}

impl Builder {
    /// An empty tree whose root has this name.
    pub(crate) fn new(root: &str) -> Self {
        Builder::bounded(root, MOST_BUILT)
    }

    fn bounded(root: &str, most: usize) -> Self {
        let mut names = Names::default();
        let name = names.intern(root);
        let root = Node { name, own: 0, total: 0, parent: None };
        let (children, calls) = Default::default();
        Builder { names, nodes: vec![root], children, calls, most }
    }

    /// Adds a sample: its calls, innermost first, and what was measured. *Growth.*
    pub(crate) fn add<T: AsRef<str>>(&mut self, calls: impl Iterator<Item = T>, value: u64) {
        let mut names = std::mem::take(&mut self.calls);
        names.clear();
        names.extend(calls.map(|name| self.names.intern(name.as_ref())));
        let mut at = ROOT;
        self.nodes[ROOT as usize].total += value;
        for &name in names.iter().rev() {
            let (node, is_full) = self.child(at, name);
            self.nodes[node as usize].total += value;
            at = node;
            if is_full {
                break;
            }
        }
        self.nodes[at as usize].own += value;
        self.calls = names;
    }

    /// The node of a call; `true`: there is no room for it, and this is what such calls have together.
    fn child(&mut self, parent: u32, name: u32) -> (u32, bool) {
        if let Some(&known) = self.children.get(&(parent, name)) {
            return (known, false);
        }
        if self.nodes.len() < self.most {
            return (self.insert(parent, name), false);
        }
        let other = self.names.intern(OTHER);
        let known = self.children.get(&(parent, other)).copied();
        (known.unwrap_or_else(|| self.insert(parent, other)), true)
    }

    fn insert(&mut self, parent: u32, name: u32) -> u32 {
        let new = self.nodes.len() as u32;
        self.nodes.push(Node { name, own: 0, total: 0, parent: Some(parent) });
        self.children.insert((parent, name), new);
        new
    }

    /// The tree with at most `most` nodes, two at least.
    pub(crate) fn finish(mut self, most: usize) -> Tree {
        let most = most.max(2);
        let kept = self.kept(most);
        let other = self.names.intern(OTHER);
        let mut nodes = Vec::with_capacity(most.min(self.nodes.len()));
        // Where each node went; for one that is folded, where its nearest kept caller is.
        let mut places = vec![ROOT; self.nodes.len()];
        let mut folded = HashMap::<u32, u32, RandomState>::default();
        for (index, node) in self.nodes.iter().enumerate() {
            let parent = node.parent.map(|parent| places[parent as usize]);
            if kept[index] {
                places[index] = nodes.len() as u32;
                nodes.push(Node { parent, ..*node });
                continue;
            }
            let parent = parent.unwrap_or(ROOT);
            places[index] = parent;
            let place = *folded.entry(parent).or_insert_with(|| {
                nodes.push(Node { name: other, own: 0, total: 0, parent: Some(parent) });
                nodes.len() as u32 - 1
            });
            nodes[place as usize].own += node.own;
            nodes[place as usize].total += node.own;
        }
        Tree { names: self.names.texts, nodes }.compact()
    }

    /// Which nodes stay: those with the largest totals, with room for an `[other]` where any went.
    fn kept(&self, most: usize) -> Vec<bool> {
        let mut order: Vec<u32> = (0..self.nodes.len() as u32).collect();
        // Callers come before whom they call among equals, as they did when they were made.
        order.sort_by_key(|&index| std::cmp::Reverse(self.nodes[index as usize].total));
        let mut count = most.min(order.len());
        loop {
            let mut kept = vec![false; self.nodes.len()];
            order[..count].iter().for_each(|&index| kept[index as usize] = true);
            let mut has_other = vec![false; self.nodes.len()];
            for &index in &order[count..] {
                if let Some(parent) = self.nodes[index as usize].parent
                    && kept[parent as usize]
                {
                    has_other[parent as usize] = true;
                }
            }
            let others = has_other.iter().filter(|&&has| has).count();
            if count + others <= most || count == 1 {
                return kept;
            }
            count = (most - others.min(most)).clamp(1, count - 1);
        }
    }
}

impl Tree {
    /// Leaves out names that no node has any more.
    fn compact(mut self) -> Tree {
        let mut places = vec![None; self.names.len()];
        let mut names = Vec::new();
        for node in &mut self.nodes {
            let place = &mut places[node.name as usize];
            node.name = *place.get_or_insert_with(|| {
                names.push(std::mem::take(&mut self.names[node.name as usize]));
                names.len() as u32 - 1
            });
        }
        Tree { names, nodes: self.nodes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a/b own total`, line by line.
    fn shown(tree: &Tree) -> Vec<String> {
        let path = |index: usize| {
            let mut node = &tree.nodes[index];
            let mut path = vec![&*tree.names[node.name as usize]];
            while let Some(parent) = node.parent {
                node = &tree.nodes[parent as usize];
                path.push(&*tree.names[node.name as usize]);
            }
            path.reverse();
            path.join("/")
        };
        let nodes = tree.nodes.iter().enumerate();
        nodes.map(|(at, n)| format!("{} {} {}", path(at), n.own, n.total)).collect()
    }

    fn built(most: usize, samples: &[(&str, u64)]) -> Builder {
        let mut builder = Builder::bounded("all", most);
        for (calls, value) in samples {
            builder.add(calls.rsplit('/').filter(|name| !name.is_empty()), *value);
        }
        builder
    }

    #[test]
    fn samples_become_a_tree_of_the_largest() {
        let samples =
            [("a/b", 5), ("a/c", 3), ("a", 1), ("a/b/d", 7), ("", 2), ("e/f", 1), ("e/g", 1)];
        let cases: [(usize, usize, &[&str]); 4] = [
            (
                100,
                100,
                &[
                    "all 2 20",
                    "all/a 1 16",
                    "all/a/b 5 12",
                    "all/a/c 3 3",
                    "all/a/b/d 7 7",
                    "all/e 0 2",
                    "all/e/f 1 1",
                    "all/e/g 1 1",
                ],
            ),
            (
                100,
                6,
                &[
                    "all 2 20",
                    "all/a 1 16",
                    "all/a/b 5 12",
                    "all/a/c 3 3",
                    "all/a/b/d 7 7",
                    "all/[other] 2 2",
                ],
            ),
            (100, 2, &["all 2 20", "all/[other] 18 18"]),
            // Built with room for three: what comes later leaves the tree where it can't be followed.
            (
                3,
                100,
                &[
                    "all 2 20",
                    "all/a 1 16",
                    "all/a/b 5 12",
                    "all/a/[other] 3 3",
                    "all/a/b/[other] 7 7",
                    "all/[other] 2 2",
                ],
            ),
        ];
        for (room, most, expected) in cases {
            let tree = built(room, &samples).finish(most);
            assert_eq!(shown(&tree), expected, "{room} {most}");
        }
    }

    #[test]
    fn whatever_goes_the_sums_stay() {
        let mut random = 1u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let mut builder = Builder::bounded("all", 2000);
        for _ in 0..3000 {
            let depth = next(12) as usize;
            let calls: Vec<_> = (0..depth).map(|_| format!("f{}", next(9))).collect();
            builder.add(calls.iter(), next(100));
        }
        let whole = builder.nodes[0].total;
        for most in [2, 3, 10, 500, 5000] {
            let mut again = Builder::bounded("all", 2000);
            again.names.texts.clone_from(&builder.names.texts);
            again.names.found.clone_from(&builder.names.found);
            again.nodes.clone_from(&builder.nodes);
            let tree = again.finish(most);
            assert!(tree.nodes.len() <= most, "{most}: {}", tree.nodes.len());
            assert_eq!(tree.nodes[0].total, whole);
            assert_eq!(tree.nodes.iter().map(|node| node.own).sum::<u64>(), whole, "{most}");
            let mut below = vec![0; tree.nodes.len()];
            for (index, node) in tree.nodes.iter().enumerate() {
                if let Some(parent) = node.parent {
                    assert!((parent as usize) < index, "callers come first");
                    below[parent as usize] += node.total;
                }
            }
            for (node, below) in tree.nodes.iter().zip(below) {
                assert_eq!(node.total, node.own + below, "{most}");
            }
        }
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let long = "ä".repeat(MOST_NAME);
        let mut builder = Builder::new("all");
        builder.add(std::iter::once(&long), 1);
        let tree = builder.finish(10);
        assert_eq!(tree.names[1].len(), MOST_NAME);
    }
}
