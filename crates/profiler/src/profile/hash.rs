//! The seeded hashes by which stacks, locations and names are found.
//!
//! A stack is known by 128 bits: two hashes of its addresses with seeds that are random per process. That
//! they are equal for two of a million different stacks has a chance of less than 2^-88, so that addresses
//! need not be kept to be compared: a stack of 500 frames then takes 1 KB instead of 5 KB.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _};

use foldhash::quality::RandomState;

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

/// Two hash functions that nobody outside knows.
#[derive(Clone, Default)]
pub(super) struct Hashes {
    first: RandomState,
    second: RandomState,
}

impl Hashes {
    /// Of a stack as it is in that generation of the mappings. *Steady.*
    #[inline]
    pub(super) fn stack(&self, stack: Stack<'_>, generation: u32) -> StackHash {
        let around = u64::from(generation) << 8 | stack.end as u64;
        let of = |state: &RandomState| {
            let mut hasher = state.build_hasher();
            hasher.write_u64(around);
            // All bytes in one piece, for which these hashes have their fast way.
            u64::hash_slice(stack.addresses, &mut hasher);
            hasher.finish()
        };
        StackHash(of(&self.first), of(&self.second))
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
