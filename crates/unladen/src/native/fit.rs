//! Which resolution and zero bucket let two ranges of buckets fit into a limit.

use super::cell::{NEGATIVE, POSITIVE};
use super::index::{COARSEST_SHIFT, coarsest_upper_bound, lowest_above};

/// Consecutive buckets of one sign: the first index, and the one after the last. Empty if both are
/// the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) first: i32,
    pub(super) end: i32,
}

impl Extent {
    pub(super) fn new(first: i32, length: usize) -> Extent {
        Extent { first, end: first + length as i32 }
    }

    pub(super) fn length(self) -> usize {
        (self.end - self.first) as usize
    }

    pub(super) fn is_empty(self) -> bool {
        self.end == self.first
    }

    /// Both, and what lies between them.
    pub(super) fn including(self, other: Extent) -> Extent {
        if self.is_empty() {
            other
        } else if other.is_empty() {
            self
        } else {
            Extent { first: self.first.min(other.first), end: self.end.max(other.end) }
        }
    }

    /// The buckets of a schema that is lower by `halvings`.
    pub(super) fn coarser(self, halvings: u32) -> Extent {
        if self.is_empty() {
            return Extent { first: 0, end: 0 };
        }
        Extent { first: self.first >> halvings, end: ((self.end - 1) >> halvings) + 1 }
    }

    /// Without the buckets below `floor`.
    pub(super) fn from(self, floor: i32) -> Extent {
        if self.end <= floor {
            return Extent { first: 0, end: 0 };
        }
        Extent { first: self.first.max(floor), end: self.end }
    }
}

/// What fits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    /// The schema, as a shift of the finest one's indices.
    pub(super) shift: u32,
    /// Bits of the zero bucket's bound.
    pub(super) zero_threshold: u64,
    /// The lowest bucket that isn't part of the zero bucket.
    pub(super) floor: i32,
    /// The buckets of both signs.
    pub(super) sides: [Extent; 2],
}

impl Fit {
    /// The lowest bucket of a side that isn't part of the zero bucket.
    pub(super) fn lowest(&self, side: usize) -> i32 {
        if self.sides[side].is_empty() { i32::MAX } else { self.sides[side].first }
    }
}

/// Lowers the resolution of `sides`, which are buckets at `shift`, until both have at most `limit`
/// buckets together. Where the lowest is not enough, the zero bucket swallows the bucket nearest to
/// zero, of both signs if both have it, again and again: `populated` gives the first bucket of a side
/// at the coarsest schema that is not below an index and has observations. *Steady*; at most some 150
/// rounds.
///
/// The result depends on the values that were seen, and not on their order: whoever merges cells
/// therefore never finds a higher schema or a smaller zero bucket than the time before.
pub(super) fn fit(
    sides: [Extent; 2],
    shift: u32,
    zero_threshold: u64,
    limit: usize,
    populated: impl Fn(usize, i32) -> Option<i32>,
) -> Fit {
    let mut fit = Fit { shift, zero_threshold, floor: 0, sides };
    loop {
        fit.floor = lowest_above(fit.zero_threshold, fit.shift);
        fit.sides = sides.map(|side| side.coarser(fit.shift - shift).from(fit.floor));
        if fit.shift == COARSEST_SHIFT {
            // What was swallowed, here or in one of two that are merged, may leave empty ones.
            for (index, side) in fit.sides.iter_mut().enumerate() {
                *side = side.from(populated(index, fit.floor).unwrap_or(i32::MAX));
            }
        }
        if fit.sides.iter().map(|side| side.length()).sum::<usize>() <= limit {
            return fit;
        }
        if fit.shift < COARSEST_SHIFT {
            fit.shift += 1;
        } else {
            let nearest = fit.lowest(POSITIVE).min(fit.lowest(NEGATIVE));
            fit.zero_threshold = coarsest_upper_bound(nearest);
        }
    }
}
