//! A cell's words, and one observation. The layout is drawn in the module above.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use super::Shape;
use super::fit::{Extent, fit};
use super::index::{
    COARSEST_SHIFT, INFINITE as INFINITE_BITS, MAGNITUDE, SMALLEST_NORMAL, index, index_of_normal,
};

pub(super) const SEQUENCE: usize = 0;
pub(super) const SUM: usize = 1;
pub(super) const ZERO_THRESHOLD: usize = 2;
pub(super) const ZERO_COUNT: usize = 3;
pub(super) const WINDOWS: usize = 4;
pub(super) const INFINITE: usize = 6;
pub(super) const NAN: usize = 8;
pub(super) const BUCKETS: usize = 9;

/// The part of the sequence that counts changes of layout.
const LAYOUT: u64 = (1 << 24) - 1;
/// One begin, or end, of an observation. Its carry leaves the word at the top.
const OBSERVATION: u64 = LAYOUT + 1;

pub(super) const POSITIVE: usize = 0;
pub(super) const NEGATIVE: usize = 1;

pub(super) type Header = [AtomicU64; BUCKETS];

/// The sequence word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Sequence(pub(super) u64);

impl Sequence {
    /// Whether the layout is being changed.
    pub(super) fn is_changing(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether an observation is being recorded.
    pub(super) fn is_recording(self) -> bool {
        self.0 & OBSERVATION != 0
    }

    /// Whether no change of layout lies between the two.
    pub(super) fn has_layout_of(self, other: Sequence) -> bool {
        self.0 & LAYOUT == other.0 & LAYOUT
    }

    /// The begin, or the end, of a change of layout. The carry must not reach the observations.
    fn after_layout(self) -> Sequence {
        Sequence(self.0 & !LAYOUT | (self.0 + 1) & LAYOUT)
    }
}

/// One of the two window words.
#[derive(Clone, Copy)]
pub(super) struct Window(pub(super) u64);

impl Window {
    pub(super) fn new(shift: u32, extent: Extent) -> Window {
        let first = u64::from(extent.first.cast_unsigned());
        Window(u64::from(shift) | (extent.length() as u64) << 16 | first << 32)
    }

    #[inline(always)]
    pub(super) fn shift(self) -> u32 {
        self.0 as u32 & 0xff
    }

    #[inline(always)]
    fn length(self) -> u32 {
        (self.0 >> 16) as u32 & 0xffff
    }

    #[inline(always)]
    fn first(self) -> i32 {
        (self.0 >> 32) as i32
    }

    pub(super) fn extent(self) -> Extent {
        Extent::new(self.first(), self.length() as usize)
    }

    /// Where in the window the bucket with an index in schema 8 is.
    #[inline(always)]
    fn position(self, index: i32) -> Option<usize> {
        let position = (index >> self.shift()).wrapping_sub(self.first()).cast_unsigned();
        (position < self.length()).then_some(position as usize)
    }
}

/// The header and the buckets of a cell.
#[inline(always)]
pub(super) fn split(cell: &[AtomicU64]) -> (&Header, &[AtomicU64]) {
    cell.split_first_chunk().expect("a cell has as many words as its shape is wide")
}

/// The bucket at a position of a window.
#[inline(always)]
pub(super) fn slot(buckets: &[AtomicU64], side: usize, position: usize) -> &AtomicU64 {
    &buckets[if side == POSITIVE { position } else { buckets.len() - 1 - position }]
}

/// Counts `value` in `cell`, which has [`Shape::width`] words and which no other thread writes at
/// the same time. *Steady*; without locks and read-modify-writes.
#[inline]
pub(crate) fn record(shape: &Shape, cell: &[AtomicU64], value: f64) {
    debug_assert_eq!(cell.len(), shape.width(), "a cell of another shape");
    let (header, buckets) = split(cell);
    let (magnitude, side) = parts(value);
    let threshold = header[ZERO_THRESHOLD].load(Relaxed);
    if magnitude > threshold.max(SMALLEST_NORMAL - 1) && magnitude < INFINITE_BITS {
        let window = Window(header[WINDOWS + side].load(Relaxed));
        if let Some(position) = window.position(index_of_normal(magnitude)) {
            commit(header, slot(buckets, side, position), value);
            return;
        }
    }
    record_otherwise(shape, header, buckets, value);
}

#[inline(always)]
fn parts(value: f64) -> (u64, usize) {
    let bits = value.to_bits();
    (bits & MAGNITUDE, (bits >> 63) as usize)
}

/// Adds one to `word` and `value` to the sum.
///
/// The stores between the two of the sequence are releases, so that a reader who sees one of them sees
/// the first; on the machines that matter that costs nothing or little, and less than a fence.
#[inline(always)]
fn commit(header: &Header, word: &AtomicU64, value: f64) {
    let sequence = header[SEQUENCE].load(Relaxed);
    header[SEQUENCE].store(sequence.wrapping_add(OBSERVATION), Relaxed);
    word.store(word.load(Relaxed) + 1, Release);
    let sum = f64::from_bits(header[SUM].load(Relaxed)) + value;
    header[SUM].store(sum.to_bits(), Release);
    header[SEQUENCE].store(sequence.wrapping_add(2 * OBSERVATION), Release);
}

/// Zeros, subnormal numbers, what is not finite, and whatever needs another layout.
#[inline(never)]
fn record_otherwise(shape: &Shape, header: &Header, buckets: &[AtomicU64], value: f64) {
    let (magnitude, side) = parts(value);
    if value.is_nan() {
        return commit(header, &header[NAN], 0.0);
    }
    if magnitude == INFINITE_BITS {
        return commit(header, &header[INFINITE + side], 0.0);
    }
    for _ in 0..2 {
        if magnitude <= header[ZERO_THRESHOLD].load(Relaxed) {
            return commit(header, &header[ZERO_COUNT], value);
        }
        let window = Window(header[WINDOWS + side].load(Relaxed));
        if let Some(position) = window.position(index(magnitude)) {
            return commit(header, slot(buckets, side, position), value);
        }
        make_room(shape, header, buckets, side, magnitude);
    }
    unreachable!("room was made for {value}");
}

/// Changes the layout such that the bucket of a magnitude is in the window of its side, or part of the
/// zero bucket.
#[cold]
fn make_room(shape: &Shape, header: &Header, buckets: &[AtomicU64], side: usize, magnitude: u64) {
    let windows = [POSITIVE, NEGATIVE].map(|side| Window(header[WINDOWS + side].load(Relaxed)));
    // Both words are zero before the first use, and never again below what the shape starts with.
    let shift = windows[POSITIVE].shift().max(shape.shift());
    let threshold = header[ZERO_THRESHOLD].load(Relaxed).max(shape.zero_threshold.to_bits());
    let old = windows.map(Window::extent);
    let mut wanted = old;
    if magnitude > threshold {
        wanted[side] = old[side].including(Extent::new(index(magnitude) >> shift, 1));
    }
    let populated = |of: usize, from: i32| {
        let observed = (old[of].first..old[of].end)
            .zip(0..)
            .filter(|(_, position)| slot(buckets, of, *position).load(Relaxed) > 0)
            .map(|(index, _)| index >> (COARSEST_SHIFT - shift));
        let new = (of == side).then(|| index(magnitude) >> COARSEST_SHIFT);
        observed.chain(new).filter(|index| *index >= from).min()
    };
    let fit = fit(wanted, shift, threshold, buckets.len(), populated);

    let sequence = Sequence(header[SEQUENCE].load(Relaxed)).after_layout();
    header[SEQUENCE].store(sequence.0, Relaxed);
    fence(Release);

    let halvings = fit.shift - shift;
    // First both sides shrink, then they move: in between there is room.
    let kept = [POSITIVE, NEGATIVE].map(|side| old[side].coarser(halvings).from(fit.lowest(side)));
    let mut swallowed = 0;
    for side in [POSITIVE, NEGATIVE] {
        if kept[side] != old[side] {
            swallowed += compact(buckets, side, old[side], halvings, kept[side]);
        }
    }
    for side in [POSITIVE, NEGATIVE] {
        if !kept[side].is_empty() {
            move_up(buckets, side, kept[side].length(), kept[side].first - fit.sides[side].first);
        }
        header[WINDOWS + side].store(Window::new(fit.shift, fit.sides[side]).0, Relaxed);
    }
    header[ZERO_COUNT].store(header[ZERO_COUNT].load(Relaxed) + swallowed, Relaxed);
    header[ZERO_THRESHOLD].store(fit.zero_threshold, Relaxed);
    header[SEQUENCE].store(sequence.after_layout().0, Release);
}

/// Adds up the buckets that become one, drops those below `kept`, and returns what they counted.
fn compact(buckets: &[AtomicU64], side: usize, old: Extent, halvings: u32, kept: Extent) -> u64 {
    let mut swallowed = 0;
    for position in 0..old.length() {
        let from = slot(buckets, side, position);
        let count = from.load(Relaxed);
        from.store(0, Relaxed);
        let index = (old.first + position as i32) >> halvings;
        if kept.is_empty() || index < kept.first {
            swallowed += count;
        } else {
            // Never past `position`: what is stored there has been taken.
            let to = slot(buckets, side, (index - kept.first) as usize);
            to.store(to.load(Relaxed) + count, Relaxed);
        }
    }
    swallowed
}

/// Moves the first `length` buckets of a side by some positions towards the middle.
fn move_up(buckets: &[AtomicU64], side: usize, length: usize, by: i32) {
    if by == 0 {
        return;
    }
    for position in (0..length).rev() {
        let from = slot(buckets, side, position);
        slot(buckets, side, position + by as usize).store(from.load(Relaxed), Relaxed);
        from.store(0, Relaxed);
    }
}
