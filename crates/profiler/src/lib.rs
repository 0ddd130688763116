//! Wall-clock, CPU and heap profiles of the program it is linked into, at a bounded cost.
//!
//! ```text
//! profiler   start, stop, read
//! sample/    which thread when; the signal; the time budget
//! unwind/    registers → addresses, with tables that are prepared beforehand
//! events/    the same without signals, from the kernel's perf events
//! heap/      the allocator's wrapper; stages
//! scope      labels that the program sets
//! profile/   addresses → stacks, locations, functions, strings; values; pprof
//! symbols/   addresses → functions, files, lines
//! serve/     /debug/pprof/ for any HTTP server
//! metrics    what the profiler did and what it cost, as metrics (feature `metrics`)
//! ```
//! A sample flows one way: a thread is interrupted and writes its stack into a slot that was there before;
//! the sampler's thread finds the stack in the tables; a reader writes what was added since it looked last.
//!
//! All `unsafe` of the profiler is in the files that say so at their head: those that handle the signal,
//! walk stacks, wrap the allocator and talk to the kernel.
pub mod events;
pub mod heap;
pub mod profile;
mod sample;
#[cfg(feature = "serve")]
pub mod serve;
#[cfg(feature = "symbols")]
pub mod symbols;
pub mod unwind;

mod error;
#[cfg(feature = "metrics")]
mod metrics;
mod profiler;
mod scope;

pub use error::Error;
pub use heap::{in_stage, stage};
#[cfg(feature = "metrics")]
pub use metrics::Metrics;
pub use profiler::{Builder, Profiler, WALL_COLUMNS};
pub use sample::{Statistics, ThreadStack, Tid};
pub use scope::{InScope, MOST_SETS, MOST_TEXT, Scope, in_scope, scope, scopes_refused};
