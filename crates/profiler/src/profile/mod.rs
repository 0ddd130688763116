//! Stacks and what was measured at them: found once, kept, written as pprof.
//!
//! ```text
//! Tables     strings, functions, mappings, locations, stacks, label sets: shared by all profiles
//! Profile    values per (stack, labels), which only add up
//! Recording  a profile and its tables, locked, for those who add to it
//! Window     what was added since a reader looked last
//! ```

use std::fmt;
use std::sync::Arc;

use crate::unwind::End;

/// What a column of a profile means: `wall` in `nanoseconds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueType {
    /// What is measured.
    pub kind: &'static str,
    /// In which unit.
    pub unit: &'static str,
}

/// A loaded file that addresses fall into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The first address.
    pub start: u64,
    /// Behind the last.
    pub limit: u64,
    /// Where in the file `start` is.
    pub offset: u64,
    /// The file's path.
    pub file: String,
    /// Its build id in hexadecimal digits.
    pub build_id: String,
}

/// Bounds on what is kept. What is beyond them is added to one entry that says so, and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Different stacks.
    pub stacks: usize,
    /// The bytes of all tables together.
    pub bytes: usize,
    /// Different sets of labels.
    pub labels: usize,
}

/// A label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label<'a> {
    /// Its name.
    pub key: &'a str,
    /// Its value.
    pub value: LabelValue<'a>,
}

/// A label's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelValue<'a> {
    /// Text.
    Text(&'a str),
    /// A number without unit.
    Number(i64),
}

/// A set of labels that the tables know. The default is the empty one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelsId(u32);

/// An entry of a profile: a stack with labels. One that was dropped meanwhile is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryId {
    index: u32,
    generation: u32,
}

/// Calls, innermost first, as [`walk`](crate::unwind::walk) writes them.
#[derive(Clone, Copy, Debug)]
pub struct Stack<'a> {
    /// Each within its instruction.
    pub addresses: &'a [u64],
    /// Whether that is all; what is missing becomes a frame that says so.
    pub end: End,
}

/// Says what an address stands for. One address may be several functions: those inlined at it, innermost
/// first, and the one they were inlined into last.
///
/// Whoever has several addresses to ask for hands them all to [`prepare`](Symbolize::prepare) first.
pub trait Symbolize {
    /// Announces what will be asked for, in any order, so that each file is read once for all of them. What
    /// was announced before is forgotten. Addresses that were not announced may be asked for as well, at
    /// the price of a batch each.
    fn prepare(&mut self, addresses: &[u64], mappings: &[Mapping]) {
        let _ = (addresses, mappings);
    }

    /// Calls `found` for each function at `address`, which lies in `mapping`; not at all for an unknown one.
    fn symbolize(&mut self, address: u64, mapping: Option<&Mapping>, found: &mut dyn FnMut(Symbol<'_>));
}

/// A function and a place in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// The function's name, demangled.
    pub name: &'a str,
    /// As the linker knows it.
    pub system_name: &'a str,
    /// The source file.
    pub file: &'a str,
    /// The line in it; 0 for not known.
    pub line: u32,
    /// Where the function begins; 0 for not known.
    pub start_line: u32,
}

/// What profiles share. Cloning gives another reference.
#[derive(Clone)]
pub struct Tables(Arc<()>);

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}
