//! Stages have the processor time that was used in them, where the program's allocator is observed.

use std::alloc::System;

use profiler::heap::Allocator;

#[path = "stages/shares.rs"]
mod shares;

#[global_allocator]
static ALLOCATOR: Allocator<System> = Allocator::new(System);

#[test]
fn stages_have_their_processor_time() {
    shares::check();
}
