//! Stacks and what was measured at them: found once, kept, written as pprof.
//!
//! ```text
//! Tables     strings, functions, mappings, locations, stacks, label sets: shared by all profiles
//! Profile    values per (stack, labels), which only add up
//! Recording  a profile and its tables, locked, for those who add to it
//! Window     what was added since a reader looked last
//! ```
//! How a sample is dealt with:
//!
//! 1. Its addresses are hashed to 128 bits (`hash`), by which its entry is found: stack, labels, values
//!    (`entries`). A known one costs that and two additions.
//! 2. A new stack becomes a list of location ids, encoded as a sample has it (`stacks`, `locations`,
//!    `mappings`). Sets of labels are kept encoded as well (`labels`).
//! 3. A window copies all values, subtracts those it has seen, and writes what changed: per sample a copy of
//!    two encoded lists (`window`, `write`, `marks`), then only the locations, functions and strings that
//!    were used. Names are asked for once per address, when it is written first, or, where there is none, three
//!    times (`symbolize`).
//! 4. Where a bound is reached, entries go that nobody added to lately (`tables`).
//! 5. A fork waits for the lock, so that a child can use what it inherits (`forks`).
//!
//! What it does not do: it takes no samples, opens no files and compresses nothing.
//!
//! # Stacks of one's own
//! An address is a number; what it stands for is the [`Symbolize`]'s business. An interpreter records its
//! own functions and lines so:
//!
//! ```
//! use profiler::profile::{
//!     Limits, Mapping, Profile, Stack, Symbol, Symbolize, Tables, ValueType, WriteOptions,
//! };
//! use profiler::unwind::End;
//!
//! struct Functions(Vec<(&'static str, &'static str)>);
//!
//! /// The function's number in the upper half, the line in the lower.
//! fn address(function: u64, line: u64) -> u64 {
//!     function << 32 | line
//! }
//!
//! impl Symbolize for Functions {
//!     fn symbolize(&mut self, address: u64, _: Option<&Mapping>, found: &mut dyn FnMut(Symbol<'_>)) {
//!         let (name, file) = self.0[(address >> 32) as usize];
//!         found(Symbol { name, file, line: address as u32, ..Symbol::default() });
//!     }
//! }
//!
//! let tables = Tables::new(Limits { stacks: 10_000, bytes: 32 << 20, labels: 1_000 });
//! let steps = ValueType { kind: "steps", unit: "count" };
//! let profile = Profile::new(&tables, &[steps], 0, steps, 1);
//! let mut window = profile.window();
//!
//! // At each tick of the interpreter:
//! let stack = [address(1, 12), address(0, 3)];
//! let stack = Stack { addresses: &stack, end: End::Root };
//! profile.lock().record(stack, Default::default(), Default::default(), &[1000]);
//!
//! // Once a minute:
//! let mut functions = Functions(vec![("main", "main.lua"), ("work", "work.lua")]);
//! let options = WriteOptions { symbolizer: Some(&mut functions), ..WriteOptions::default() };
//! let pprof = window.write(options, Vec::new(), |mut all, chunk| { all.extend_from_slice(chunk); all });
//!
//! let document = wire::pprof::Document::read(&pprof)?;
//! let sample = document.samples().next().expect("what was recorded");
//! let names = document.frames(sample.locations).filter_map(|frame| frame.function);
//! assert_eq!(names.map(|function| document.text(function.name)).collect::<Vec<_>>(), ["work", "main"]);
//! # Ok::<(), wire::pprof::Error>(())
//! ```
//! Numbers from [`PSEUDO`] up have names of their own. Where numbers are given out anew, say so:
//! [`Tables::set_mappings`] with `forget`.

// Not forbidden, because of `forks`.
#![deny(unsafe_code)]

mod entries;
mod forks;
mod hash;
mod labels;
mod locations;
mod mappings;
mod marks;
mod names;
mod recording;
mod samples;
mod stacks;
mod symbolize;
mod tables;
mod window;
mod write;

pub(crate) use forks::watch as watch_forks;
pub use recording::{Profile, Recording};
pub use samples::{Frame, Sample};
pub use tables::Tables;
pub use window::Window;
pub use write::{Wanted, WriteOptions};

use crate::unwind::{End, Module};

/// Addresses from here up are no addresses: they are frames with a name that is known.
pub const PSEUDO: u64 = u64::MAX - 0xff;
/// A thread that blocks the profiler's signal.
pub const SIGNALS_BLOCKED: u64 = PSEUDO;
/// A thread whose turn did not come yet.
pub const NOT_SAMPLED_YET: u64 = PSEUDO + 1;
/// Stacks that the bounds left no room for.
pub const OVERFLOW: u64 = PSEUDO + 2;
/// Stacks that were dropped, because nothing was added to them for long and others needed the room.
pub const DROPPED: u64 = PSEUDO + 3;
/// What was not written of a stack, for it was too deep.
pub const TRUNCATED: u64 = PSEUDO + 4;
/// What could not be found of a stack.
pub const LOST: u64 = PSEUDO + 5;
/// The profiler's own thread.
pub const PROFILER: u64 = PSEUDO + 6;
/// Threads that ended before their turn came.
pub const ENDED_THREADS: u64 = PSEUDO + 7;

/// Whether an address is a frame without code.
pub fn is_pseudo(address: u64) -> bool {
    address >= PSEUDO
}

/// The name of a frame without code.
pub fn pseudo_name(address: u64) -> Option<&'static str> {
    Some(match address {
        ..PSEUDO => return None,
        SIGNALS_BLOCKED => "[signals blocked]",
        NOT_SAMPLED_YET => "[not sampled yet]",
        OVERFLOW => "[overflow]",
        DROPPED => "[dropped]",
        TRUNCATED => "[truncated]",
        LOST => "[lost]",
        PROFILER => "[profiler]",
        ENDED_THREADS => "[ended threads]",
        _ => "[unknown]",
    })
}

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

impl From<Module> for Mapping {
    fn from(module: Module) -> Self {
        Mapping {
            start: module.start,
            limit: module.end,
            offset: module.offset,
            build_id: module.build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
            file: module.path,
        }
    }
}

/// Bounds on what is kept. When one is reached, what nobody added to lately is dropped, if every window has
/// seen it and nothing of it is in use. What is beyond them is added to one entry that says so, and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Different stacks.
    pub stacks: usize,
    /// The bytes of all tables together.
    pub bytes: usize,
    /// Different sets of labels.
    pub labels: usize,
}

impl Default for Limits {
    /// 16,384 stacks, 64 MiB, 8,192 sets of labels.
    fn default() -> Self {
        Limits { stacks: 16_384, bytes: 64 << 20, labels: 8192 }
    }
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
pub struct LabelsId {
    index: u32,
    generation: u32,
}

impl LabelsId {
    /// The set without labels.
    pub const EMPTY: LabelsId = LabelsId { index: labels::EMPTY, generation: 0 };
}

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
    fn symbolize(
        &mut self,
        address: u64,
        mapping: Option<&Mapping>,
        found: &mut dyn FnMut(Symbol<'_>),
    );
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

/// What tables hold, and what they had no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TablesStatistics {
    /// Stacks with labels, over all profiles.
    pub entries: usize,
    /// Different stacks.
    pub stacks: usize,
    /// Different addresses.
    pub locations: usize,
    /// Functions found for them.
    pub functions: usize,
    /// Different texts.
    pub strings: usize,
    /// Different sets of labels.
    pub labels: usize,
    /// About how many bytes all of it takes.
    pub bytes: usize,
    /// Entries dropped to make room.
    pub dropped: u64,
    /// Times that values went to `[overflow]`.
    pub refused_stacks: u64,
    /// Times that a set of labels became the one that says `[overflow]`.
    pub refused_labels: u64,
    /// Times that a sample came with a set of labels that was dropped.
    pub stale_labels: u64,
}
