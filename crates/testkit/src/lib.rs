//! For tests: what the other crates' tests share.
//!
//! A counting allocator, a disk in memory that forgets what was not synced, and seeded randomness.

pub mod allocations;
pub mod disk;
pub mod random;
