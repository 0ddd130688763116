//! A minute of everything at once that a profiler must survive; `make bench-torture` takes five, with
//! jemalloc. `UNLADEN_TORTURE_SECONDS` sets another time; `--only births,forks` plays those actors alone.

mod storm;

use std::alloc::System;
use std::process::ExitCode;

use profiler::heap::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator<System> = Allocator::new(System);

const SECONDS: u64 = 60;

fn main() -> ExitCode {
    storm::main(SECONDS)
}
