//! Stacks → calls: each call under the one that it was made by, with what was measured in it and below.
//!
//! Nothing here recurses: a stack is as deep as its profile says.

use std::collections::HashMap;

use super::stacks::{NameId, Names, Stacks};

/// Names a call of a [`Tree`]; 0 is all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CallId(pub(super) u32);

/// The calls, each behind the one that made it.
#[derive(Debug)]
pub(super) struct Tree {
    calls: Vec<Call>,
    names: Names,
    /// There are two profiles to compare.
    pub(super) is_difference: bool,
}

/// A call with all that was called from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// By whom; itself for the root.
    pub(super) parent: CallId,
    /// Of what; means nothing for the root.
    pub(super) name: NameId,
    /// What was measured before, in a comparison.
    pub(super) old: f64,
    /// What was measured.
    pub(super) new: f64,
}

impl Call {
    /// How wide it is drawn: in a comparison both count, so that what is gone shows as what is new does.
    pub(super) fn width(&self) -> f64 {
        self.old + self.new
    }
}

impl Tree {
    /// The calls of a profile.
    pub(super) fn new(stacks: &Stacks) -> Self {
        let mut builder = Builder::new(false);
        builder.add(stacks, |call, value| call.new += value);
        builder.tree
    }

    /// The calls of two profiles.
    pub(super) fn of_two(old: &Stacks, new: &Stacks) -> Self {
        let mut builder = Builder::new(true);
        builder.add(old, |call, value| call.old += value);
        builder.add(new, |call, value| call.new += value);
        builder.tree
    }

    /// The calls in an order in which each stands behind the one that made it.
    pub(super) fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// The names of the calls.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }
}

struct Builder {
    tree: Tree,
    children: HashMap<(CallId, NameId), CallId>,
}

impl Builder {
    fn new(is_difference: bool) -> Self {
        let root = Call { parent: CallId(0), name: NameId(0), old: 0.0, new: 0.0 };
        let tree = Tree { calls: vec![root], names: Names::default(), is_difference };
        Builder { tree, children: HashMap::new() }
    }

    fn add(&mut self, stacks: &Stacks, add: impl Fn(&mut Call, f64)) {
        let Tree { calls, names, .. } = &mut self.tree;
        // The names of the two profiles have other numbers.
        let from = stacks.names();
        let translated: Vec<NameId> = (0..from.len() as u32)
            .map(NameId)
            .map(|id| names.id(from.name(id), || from.module(id).to_owned()))
            .collect();
        // What is less than nothing (of a window in which more was freed) has no width.
        for stack in stacks.iter().filter(|it| it.value > 0.0) {
            let mut at = CallId(0);
            add(&mut calls[0], stack.value);
            for frame in stack.frames.iter().rev() {
                let name = translated[frame.0 as usize];
                let next = CallId(calls.len() as u32);
                at = *self.children.entry((at, name)).or_insert_with(|| {
                    calls.push(Call { parent: at, name, old: 0.0, new: 0.0 });
                    next
                });
                add(&mut calls[at.0 as usize], stack.value);
            }
        }
    }
}
