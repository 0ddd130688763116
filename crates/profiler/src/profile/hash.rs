//! The seeded hashes by which stacks, locations and names are found.
//!
//! A stack is known by 128 bits: two hashes of its addresses, all of whose seeds are random and differ. That
//! both are the same for two different stacks of a million is less likely than 2^-80, so that addresses
//! need not be kept to be compared: a stack of 500 frames then takes 1 KB instead of 5 KB, and finding it
//! reads nothing but its entry.
//!
//! Measured over 500 addresses (one of the two cores of a Xeon, November 2026), from the cache as the
//! handler has just written them, and from 16 MB of other stacks: foldhash twice 184 and 616 ns; XXH3 with
//! 128 bits 196 and 614 ns; one foldhash of 64 bits 92 and 598 ns, to which the comparison of 4,000 bytes
//! that are in no cache comes; rapidhash of 64 bits 113 and 490 ns. So: foldhash twice, which the crate has
//! anyway.

use std::hash::{BuildHasher, Hash as _, Hasher as _};
use std::sync::OnceLock;

use foldhash::SharedSeed;
use foldhash::quality::{RandomState, SeedableRandomState};

use super::Stack;

/// What a stack is known by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StackHash(u64, u64);

impl StackHash {
    /// For an entry with these labels.
    #[inline]
    pub(super) fn with_labels(self, thread: u32, scope: u32) -> u64 {
        let labels = u64::from(thread) << 32 | u64::from(scope);
        // An odd multiplier moves all bits of the ids up, where the map takes its tags from.
        self.0 ^ labels.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    }

    /// For the table of stacks.
    #[inline]
    pub(super) fn short(self) -> u64 {
        self.0
    }
}

/// What the second hash multiplies with, where the first has a seed of the whole process.
static SECOND: OnceLock<SharedSeed> = OnceLock::new();

/// Two hash functions that nobody outside knows.
pub(super) struct Hashes {
    first: RandomState,
    second: SeedableRandomState,
}

impl Hashes {
    /// With new seeds.
    pub(super) fn new() -> Self {
        let random = |number: u64| RandomState::default().hash_one(number);
        let shared = SECOND.get_or_init(|| SharedSeed::from_u64(random(1)));
        let second = SeedableRandomState::with_seed(random(2), shared);
        Hashes { first: RandomState::default(), second }
    }

    /// Of a stack as it is in that generation of the mappings. *Steady.*
    #[inline]
    pub(super) fn stack(&self, stack: Stack<'_>, generation: u32) -> StackHash {
        let around = u64::from(generation) << 8 | stack.end as u64;
        StackHash(
            of(&self.first, around, stack.addresses),
            of(&self.second, around, stack.addresses),
        )
    }

    /// Of an address in that generation of the mappings.
    #[inline]
    pub(super) fn address(&self, address: u64, generation: u32) -> u64 {
        let mut hasher = self.first.build_hasher();
        hasher.write_u64(address);
        hasher.write_u32(generation);
        hasher.finish()
    }

    /// Of anything else.
    #[inline]
    pub(super) fn of<T: std::hash::Hash + ?Sized>(&self, value: &T) -> u64 {
        self.first.hash_one(value)
    }
}

#[inline]
fn of(state: &impl BuildHasher, around: u64, addresses: &[u64]) -> u64 {
    let mut hasher = state.build_hasher();
    hasher.write_u64(around);
    // All bytes in one piece, for which this hash has its fast way.
    u64::hash_slice(addresses, &mut hasher);
    hasher.finish()
}
