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
//! ```
//! let profiler = profiler::Profiler::builder().budget(0.01).start()?;
//! let mut window = profiler.wall().window();
//! {
//!     let _scope = profiler::scope("endpoint", "checkout");
//!     // … the program works …
//! }
//! profiler.settle();
//! let pprof = window.write(Default::default(), Vec::new(), |mut bytes, chunk| {
//!     bytes.extend_from_slice(chunk);
//!     bytes
//! });
//! assert!(!pprof.is_empty());
//! # Ok::<(), profiler::Error>(())
//! ```
//! # What to know
//! - Linux, x86-64 and aarch64. On aarch64, which was built and not run, registers do not show whether a
//!   thread was in a system call, so processor time of a thread that is found waiting goes to where it
//!   waits.
//! - One profiler samples threads in a process at a time. Its signal handler stays installed, so a library
//!   that this crate is part of must not be unloaded.
//! - A handler on a small alternate stack has room for one signal's registers and little more: nothing else
//!   runs on top of the profiler's, but the profiler's may come on top of another that runs there.
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
