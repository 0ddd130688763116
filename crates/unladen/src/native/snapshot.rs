//! What a cell held at one moment, and sums and differences of those.

use std::hint::spin_loop;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU64, fence};
use std::thread::yield_now;

use super::cell::{
    self, INFINITE, NAN, NEGATIVE, POSITIVE, SEQUENCE, SUM, Sequence, WINDOWS, Window, ZERO_COUNT,
    ZERO_THRESHOLD,
};
use super::fit::{Extent, Fit, fit};
use super::index::{COARSEST_SHIFT, lowest_above};
use super::{FINEST, Shape};

/// Attempts at a copy during which nothing is recorded.
const EXACT_ATTEMPTS: u32 = 4;
/// Attempts that spin; those after them let other threads run.
const SPINS: u32 = 64;
/// All attempts.
const ATTEMPTS: u32 = 256;

/// The cell's layout was being changed during every attempt to read it.
///
/// A caller leaves the series out of this collection, and keeps what it holds of the one before: the
/// next one finds everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// The buckets of one sign.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Buckets {
    first: i32,
    counts: Vec<u64>,
}

impl Buckets {
    /// The index of the first bucket, as OTLP has it (`offset`); Prometheus' is one higher.
    pub(crate) fn first(&self) -> i32 {
        self.first
    }

    /// Observations in that bucket and those after it, some of which may be empty.
    pub(crate) fn counts(&self) -> &[u64] {
        &self.counts
    }

    fn extent(&self) -> Extent {
        Extent::new(self.first, self.counts.len())
    }

    fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The first bucket at the coarsest schema that is not below `from` and has observations.
    fn first_populated(&self, shift: u32, from: i32) -> Option<i32> {
        (self.first..)
            .zip(&self.counts)
            .filter(|(_, count)| **count > 0)
            .map(|(index, _)| index >> (COARSEST_SHIFT - shift))
            .find(|index| *index >= from)
    }

    /// The buckets of a lower schema without those below `floor`, whose counts are returned.
    fn coarsen(&mut self, halvings: u32, floor: i32) -> u64 {
        let kept = self.extent().coarser(halvings).from(floor);
        if kept == self.extent() {
            return 0;
        }
        let mut swallowed = 0;
        for position in 0..self.counts.len() {
            let count = std::mem::take(&mut self.counts[position]);
            let index = (self.first + position as i32) >> halvings;
            if kept.is_empty() || index < kept.first {
                swallowed += count;
            } else {
                self.counts[(index - kept.first) as usize] += count;
            }
        }
        self.counts.truncate(kept.length());
        self.first = kept.first;
        swallowed
    }

    /// Makes room for all of `extent`, of which the own buckets are a part.
    fn cover(&mut self, extent: Extent) {
        let length = self.counts.len();
        let by = if length == 0 { 0 } else { (self.first - extent.first) as usize };
        self.counts.resize(extent.length(), 0);
        if by > 0 {
            self.counts.copy_within(..length, by);
            self.counts[..by.min(length)].fill(0);
            // What lies between the old end and the new begin is zero since the resize.
        }
        self.first = extent.first;
    }

    /// Combines each of the own buckets with what `other` has in it; returns what `other` has below
    /// `floor`.
    fn combine(
        &mut self,
        other: &Buckets,
        halvings: u32,
        floor: i32,
        with: impl Fn(u64, u64) -> u64,
    ) -> u64 {
        let mut swallowed = 0;
        for (index, count) in (other.first..).zip(&other.counts) {
            let index = index >> halvings;
            if index < floor {
                swallowed += count;
            } else if let Some(own) = self.counts.get_mut((index - self.first) as usize) {
                *own = with(*own, *count);
            }
        }
        swallowed
    }

    /// Drops empty buckets at both ends.
    fn trim(&mut self) {
        let end = self.counts.iter().rposition(|count| *count != 0).map_or(0, |last| last + 1);
        self.counts.truncate(end);
        let begin = self.counts.iter().position(|count| *count != 0).unwrap_or(0);
        self.counts.copy_within(begin.., 0);
        self.counts.truncate(end - begin);
        self.first = if end == 0 { 0 } else { self.first + begin as i32 };
    }
}

/// A native histogram's value. Its memory is meant to be used again: reading into one that has been
/// used for the same shape is *steady*.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Snapshot {
    /// How far the schema is below the finest.
    shift: u32,
    /// Most buckets of both signs.
    limit: usize,
    /// Bits of the zero bucket's bound.
    zero_threshold: u64,
    zero_count: u64,
    sum: f64,
    sides: [Buckets; 2],
    infinite: [u64; 2],
    nan: u64,
}

impl Snapshot {
    /// No observations, and no memory yet.
    pub(crate) fn new() -> Snapshot {
        Snapshot::default()
    }

    /// No observations, with the memory for all that `shape` allows. *Growth* once, then *steady*.
    pub(crate) fn clear(&mut self, shape: &Shape) {
        self.shift = shape.shift();
        self.limit = usize::from(shape.limit);
        self.zero_threshold = shape.zero_threshold.to_bits();
        (self.zero_count, self.sum, self.infinite, self.nan) = (0, 0.0, [0; 2], 0);
        for side in &mut self.sides {
            side.first = 0;
            side.counts.clear();
            side.counts.reserve_exact(self.limit);
        }
    }

    /// Becomes what `cell` holds; undefined, but sound, after an error. *Growth* once, then *steady*;
    /// bounded, see the protocol in the module's description.
    pub(crate) fn read(&mut self, shape: &Shape, cell: &[AtomicU64]) -> Result<(), Busy> {
        let sequence = &cell::split(cell).0[SEQUENCE];
        for attempt in 0..ATTEMPTS {
            let before = Sequence(sequence.load(Acquire));
            if !before.is_changing() {
                self.copy(shape, cell);
                fence(Acquire);
                let after = Sequence(sequence.load(Relaxed));
                let exact = after == before && !before.is_recording();
                if exact || attempt + 1 >= EXACT_ATTEMPTS && after.has_layout_of(before) {
                    return Ok(());
                }
            }
            if attempt < SPINS { spin_loop() } else { yield_now() }
        }
        Err(Busy)
    }

    fn copy(&mut self, shape: &Shape, cell: &[AtomicU64]) {
        self.clear(shape);
        let (header, buckets) = cell::split(cell);
        let word = |index: usize| header[index].load(Relaxed);
        for side in [POSITIVE, NEGATIVE] {
            let window = Window(word(WINDOWS + side));
            let extent = window.extent();
            // Zero before the first use.
            self.shift = self.shift.max(window.shift());
            self.sides[side].first = extent.first;
            self.sides[side]
                .counts
                .extend((0..extent.length()).map(|at| cell::slot(buckets, side, at).load(Relaxed)));
            self.infinite[side] = word(INFINITE + side);
        }
        self.zero_threshold = self.zero_threshold.max(word(ZERO_THRESHOLD));
        self.zero_count = word(ZERO_COUNT);
        self.sum = f64::from_bits(word(SUM));
        self.nan = word(NAN);
    }

    /// Adds what `other`, of the same shape, has. The result has the resolution of the coarser, and
    /// a lower one where the limit asks for it. *Steady* after [`clear`](Snapshot::clear).
    pub(crate) fn merge(&mut self, other: &Snapshot) {
        self.limit = self.limit.max(other.limit);
        let shift = self.shift.max(other.shift);
        let threshold = self.zero_threshold.max(other.zero_threshold);
        let extents = [POSITIVE, NEGATIVE].map(|side| {
            let own = self.sides[side].extent().coarser(shift - self.shift);
            own.including(other.sides[side].extent().coarser(shift - other.shift))
        });
        let populated = |side: usize, from: i32| {
            let own = self.sides[side].first_populated(self.shift, from);
            let other = other.sides[side].first_populated(other.shift, from);
            own.into_iter().chain(other).min()
        };
        let fit = fit(extents, shift, threshold, self.limit, populated);
        self.become_coarser(&fit);
        for side in [POSITIVE, NEGATIVE] {
            let halvings = fit.shift - other.shift;
            let own = &mut self.sides[side];
            own.cover(fit.sides[side]);
            self.zero_count +=
                own.combine(&other.sides[side], halvings, fit.floor, |own, other| own + other);
            self.infinite[side] += other.infinite[side];
        }
        self.zero_count += other.zero_count;
        self.sum += other.sum;
        self.nan += other.nan;
    }

    /// Takes away what `previous` has, an earlier snapshot of the same histogram, so that what was
    /// observed since then remains. *Steady*.
    ///
    /// The resolution of `previous` may be higher. Empty buckets at the ends are dropped. After a
    /// reset a histogram has no earlier snapshot: nothing is ever below zero, but it would be wrong.
    pub(crate) fn subtract(&mut self, previous: &Snapshot) {
        let shift = self.shift.max(previous.shift);
        let zero_threshold = self.zero_threshold.max(previous.zero_threshold);
        let floor = lowest_above(zero_threshold, shift);
        let halvings = shift - self.shift;
        let sides = [POSITIVE, NEGATIVE]
            .map(|side| self.sides[side].extent().coarser(halvings).from(floor));
        self.become_coarser(&Fit { shift, zero_threshold, floor, sides });
        for side in [POSITIVE, NEGATIVE] {
            let halvings = shift - previous.shift;
            let own = &mut self.sides[side];
            let swallowed =
                own.combine(&previous.sides[side], halvings, floor, u64::saturating_sub);
            self.zero_count = self.zero_count.saturating_sub(swallowed);
            own.trim();
            self.infinite[side] = self.infinite[side].saturating_sub(previous.infinite[side]);
        }
        self.zero_count = self.zero_count.saturating_sub(previous.zero_count);
        self.sum -= previous.sum;
        self.nan = self.nan.saturating_sub(previous.nan);
    }

    fn become_coarser(&mut self, fit: &Fit) {
        let halvings = fit.shift - self.shift;
        for side in [POSITIVE, NEGATIVE] {
            self.zero_count += self.sides[side].coarsen(halvings, fit.lowest(side));
        }
        self.shift = fit.shift;
        self.zero_threshold = fit.zero_threshold;
    }

    /// Becomes a copy of `other`; allocates only where `other` has more buckets than this ever had.
    pub(crate) fn assign(&mut self, other: &Snapshot) {
        let sides = std::mem::take(&mut self.sides);
        *self = Snapshot { sides, ..*other };
        for (own, other) in self.sides.iter_mut().zip(&other.sides) {
            own.first = other.first;
            own.counts.clone_from(&other.counts);
        }
    }

    /// Bytes kept for buckets.
    pub(crate) fn memory_usage(&self) -> usize {
        self.sides.iter().map(|side| side.counts.capacity() * size_of::<u64>()).sum()
    }

    /// The schema, or OTLP's scale.
    pub(crate) fn schema(&self) -> i8 {
        FINEST - self.shift as i8
    }

    /// The bound of the zero bucket.
    pub(crate) fn zero_threshold(&self) -> f64 {
        f64::from_bits(self.zero_threshold)
    }

    /// Observations in the zero bucket.
    pub(crate) fn zero_count(&self) -> u64 {
        self.zero_count
    }

    /// The buckets above zero.
    pub(crate) fn positive(&self) -> &Buckets {
        &self.sides[POSITIVE]
    }

    /// The buckets below zero, by the index of the positive number of the same magnitude.
    pub(crate) fn negative(&self) -> &Buckets {
        &self.sides[NEGATIVE]
    }

    /// Observations of +Inf and of -Inf, which are in none of the buckets.
    pub(crate) fn infinite(&self) -> [u64; 2] {
        self.infinite
    }

    /// Observations that are no number.
    #[cfg(test)]
    pub(crate) fn nan(&self) -> u64 {
        self.nan
    }

    /// The index, as OTLP would have it, of the bucket in which Prometheus counts infinities, on both
    /// sides: the one above that of `f64::MAX`.
    pub(crate) fn overflow_index(&self) -> i32 {
        (1024 << FINEST) >> self.shift
    }

    /// All observations, as Prometheus counts them.
    pub(crate) fn count(&self) -> u64 {
        self.finite_count() + self.infinite[POSITIVE] + self.infinite[NEGATIVE] + self.nan
    }

    /// The sum of all observations, as Prometheus has it: infinite or NaN if one of them was.
    pub(crate) fn sum(&self) -> f64 {
        match (self.infinite, self.nan) {
            ([0, 0], 0) => self.sum,
            ([_, 0], 0) => f64::INFINITY,
            ([0, _], 0) => f64::NEG_INFINITY,
            _ => f64::NAN,
        }
    }

    /// The observations that are in buckets, as OTLP counts them.
    pub(crate) fn finite_count(&self) -> u64 {
        self.zero_count + self.sides[POSITIVE].total() + self.sides[NEGATIVE].total()
    }

    /// The sum of those.
    pub(crate) fn finite_sum(&self) -> f64 {
        self.sum
    }
}
