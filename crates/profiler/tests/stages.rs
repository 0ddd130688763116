//! Stages have the processor time that was used in them, where the program's allocator is its own.

#[path = "stages/shares.rs"]
mod shares;

#[test]
fn stages_have_their_processor_time() {
    shares::check();
}
