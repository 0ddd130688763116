//! Five minutes of everything at once that a profiler must survive, with jemalloc below the wrapper. The
//! storm itself is that of the profiler's own test, which takes a minute with the system's allocator.
//!
//! The last line is `RESULT torture …`; see `bench/README.md`.

#[path = "../../../crates/profiler/tests/torture/storm/mod.rs"]
mod storm;

use std::process::ExitCode;

use profiler::heap::Allocator;
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Allocator<Jemalloc> = Allocator::new(Jemalloc);

const SECONDS: u64 = 300;

fn main() -> ExitCode {
    storm::main(SECONDS)
}
