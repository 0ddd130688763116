//! From a thread's registers to the addresses of its calls.
//!
//! [`refresh`] prepares tables for every loaded module, on a normal thread; [`walk`] then needs neither
//! memory nor locks, and runs in a signal handler or inside an allocator.
//!
//! ```text
//! modules       what is loaded
//! table         .eh_frame → ranges of instructions, each with the number of its rule
//! rule          how to get from a call to its caller
//! published     the tables as walks see them; the cache from addresses to rules
//! registers     where a walk begins
//! memory        reading a stack that may be damaged
//! walk          rule after rule, until the thread's start
//! architecture  what differs between x86_64 and aarch64
//! ```
//!
//! Compilers write `.eh_frame` whether or not they keep frame pointers, so that every frame is found exactly,
//! prologues and epilogues included. It is missing where a program is built with `panic=abort` and
//! `force-unwind-tables=no`, and in C code built with `-fno-asynchronous-unwind-tables`; frame pointers are
//! followed there.
#[cfg(any(test, target_arch = "aarch64"))]
mod aarch64;
mod architecture;
mod memory;
mod modules;
mod published;
mod refresh;
mod registers;
mod rule;
mod table;
mod walk;
#[cfg(any(test, target_arch = "x86_64"))]
mod x86_64;

pub use refresh::{Refreshed, Statistics, modules, refresh, statistics};
pub use registers::Registers;

use architecture::Native;
use memory::{Copied, Memory, Own};
use refresh::PUBLISHED;
pub(crate) use refresh::{Sightings, sight};

/// Where a walk ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    /// At the thread's start: the stack is complete.
    Root = 0,
    /// There was no room for more; what is there are the innermost calls.
    Truncated = 1,
    /// At an address for which nothing says how to go on, or at memory that is not there.
    #[default]
    Lost = 2,
}

/// How far a walk came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// The addresses written.
    pub depth: usize,
    /// Why there are no more.
    pub end: End,
}

/// Writes the addresses of the calls that `registers` stand in, innermost first, to `frames`. Each lies
/// within its instruction: a return address is written less one.
///
/// The stack must be that of the calling thread, or of one that stands still. *Steady*; async-signal-safe:
/// errno stays, nothing is locked, a walk may interrupt another. A few nanoseconds per frame whose address
/// was met before, a few dozen otherwise, and a system call for each page of the stack.
pub fn walk(registers: &Registers, frames: &mut [u64]) -> Walk {
    walk_in(registers, &mut Own::default(), frames)
}

/// The same for a copy of a stack of this process, whose first byte came from the stack pointer in
/// `registers`. The walk is [`End::Lost`] where the copy ends.
pub fn walk_copy(registers: &Registers, stack: &[u8], frames: &mut [u64]) -> Walk {
    walk_in(registers, &mut Copied { start: registers.sp, stack }, frames)
}

#[inline(always)]
fn walk_in<M: Memory>(registers: &Registers, memory: &mut M, frames: &mut [u64]) -> Walk {
    PUBLISHED.read(|version| match version {
        Some(version) => walk::walk::<Native, _, M>(registers, version, memory, frames),
        None => walk::walk::<Native, _, M>(registers, &(), memory, frames),
    })
}

/// A loaded module's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The file; the name in brackets for what has none, such as `[vdso]`.
    pub path: String,
    /// The linker's build id.
    pub build_id: Vec<u8>,
    /// The first address of its code.
    pub start: u64,
    /// Behind the last.
    pub end: u64,
    /// Where in the file `start` is.
    pub offset: u64,
    /// What to subtract from an address in memory for the address in the file's symbols and DWARF.
    pub bias: u64,
}
