//! What the cell of a series holds, and how several cells make one value.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use wire::exposition::writer::Value;

use crate::error::ErrorKind;
use crate::native;
use crate::segment::Segment;

/// The layout of a cell.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// A whole number that only grows, in one word.
    Unsigned,
    /// A whole number, in one word.
    Signed,
    /// A number with a fraction, in one word.
    Float,
    /// A word for each bucket, one more than there are bounds, then the sum.
    Explicit(Arc<[f64]>),
    /// As [`native`] says.
    Native(Arc<native::Shape>),
}

impl Shape {
    /// Words in a cell.
    pub(crate) fn width(&self) -> usize {
        match self {
            Shape::Unsigned | Shape::Signed | Shape::Float => 1,
            Shape::Explicit(bounds) => bounds.len() + 2,
            // One more for the lock.
            Shape::Native(shape) => shape.width() + 1,
        }
    }

    /// Exemplars of a series: one, for histograms one for each bucket.
    pub(crate) fn exemplars(&self) -> usize {
        match self {
            Shape::Unsigned | Shape::Signed | Shape::Float => 1,
            Shape::Explicit(bounds) => bounds.len() + 1,
            Shape::Native(_) => NATIVE_EXEMPLARS,
        }
    }
}

/// Exemplars of a native histogram: one for each of so many groups of buckets.
pub(crate) const NATIVE_EXEMPLARS: usize = 8;

/// A number as a cell holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A count.
    Unsigned(u64),
    /// A whole number.
    Signed(i64),
    /// A number with a fraction.
    Float(f64),
}

impl Number {
    /// The number, as near as an `f64` comes.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Unsigned(value) => value as f64,
            Number::Signed(value) => value as f64,
            Number::Float(value) => value,
        }
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Number::Unsigned(value)
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Number::Signed(value)
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Number::Float(value)
    }
}

impl From<Number> for Value {
    #[inline]
    fn from(number: Number) -> Self {
        match number {
            Number::Unsigned(value) => Value::Count(value),
            Number::Signed(value) => Value::Integer(value),
            Number::Float(value) => Value::Float(value),
        }
    }
}

/// Has the word of each cell looked at.
#[inline]
fn fold<T>(segment: &Segment, row: usize, zero: T, add: impl Fn(T, u64) -> T) -> T
where
    T: Copy,
{
    let mut sum = zero;
    segment.each_cell(row, |cell| sum = add(sum, cell[0].load(Relaxed)));
    sum
}

/// The value of a series whose cells are one word. *Steady.*
#[inline]
pub(crate) fn number(segment: &Segment, row: usize) -> Number {
    match segment.shape {
        Shape::Unsigned => Number::Unsigned(fold(segment, row, 0, u64::wrapping_add)),
        Shape::Signed => Number::Signed(fold(segment, row, 0, u64::wrapping_add) as i64),
        // A sum that begins with a value and not with zero keeps a negative zero.
        _ => Number::Float(fold(segment, row, -0.0, |sum, bits| sum + f64::from_bits(bits))),
    }
}

/// Adds the cells of a series up: `totals` has a word for each bucket and the sum's bits. The count is
/// theirs as read here, so that the two can't contradict each other while values are recorded. *Steady.*
pub(crate) fn buckets(segment: &Segment, row: usize, totals: &mut [u64]) {
    let Some((sum, buckets)) = totals.split_last_mut() else { return };
    buckets.fill(0);
    let mut total = 0.0;
    segment.each_cell(row, |cell| {
        for (bucket, word) in buckets.iter_mut().zip(cell) {
            *bucket = bucket.wrapping_add(word.load(Relaxed));
        }
        total += f64::from_bits(cell[buckets.len()].load(Relaxed));
    });
    *sum = total.to_bits();
}

/// Adds the cells of a native histogram up, with `cell` as scratch. Says no where a thread was stopped
/// in the middle of a change: what is missing then is in the next collection. *Steady.*
pub(crate) fn native(
    segment: &Segment,
    row: usize,
    shape: &native::Shape,
    total: &mut native::Snapshot,
    cell: &mut native::Snapshot,
) -> bool {
    total.clear(shape);
    let mut is_whole = true;
    segment.each_cell(row, |words| {
        is_whole &= cell.read(shape, &words[..shape.width()]).is_ok();
        total.merge(cell);
    });
    is_whole
}

/// Records in the cell of a native histogram that several threads use: its last word is a lock, which is
/// held for the time of one observation. Only until the series has a crowd.
pub(crate) fn record_shared(shape: &native::Shape, cell: &[AtomicU64], value: f64) {
    let Some(lock) = cell.get(shape.width()) else { return };
    let mut tries = 0;
    while lock.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
        tries += 1;
        if tries % 64 == 0 {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
    native::record(shape, &cell[..shape.width()], value);
    lock.store(0, Release);
}

/// Adds to a word that only this thread writes.
#[inline]
pub(crate) fn add_owned(word: &AtomicU64, amount: u64) {
    word.store(word.load(Relaxed).wrapping_add(amount), Relaxed);
}

/// Adds to a word that holds an `f64` and that only this thread writes.
#[inline]
pub(crate) fn add_float_owned(word: &AtomicU64, amount: f64) {
    word.store((f64::from_bits(word.load(Relaxed)) + amount).to_bits(), Relaxed);
}

/// Adds to a word that holds an `f64` and that others write.
#[inline]
pub(crate) fn add_float_shared(word: &AtomicU64, amount: f64) {
    let add = |bits| Some((f64::from_bits(bits) + amount).to_bits());
    // The closure always gives a value, so the update always succeeds.
    let _ = word.fetch_update(Relaxed, Relaxed, add);
}

/// How a histogram counts.
#[derive(Clone, Debug)]
pub struct Buckets(pub(crate) BucketKind);

#[derive(Clone, Debug)]
pub(crate) enum BucketKind {
    Explicit(Vec<f64>),
    Native { schema: i8, zero_threshold: f64, limit: u16 },
}

impl Buckets {
    /// Buckets up to these bounds, which have to rise, and one above.
    pub fn explicit(bounds: impl Into<Vec<f64>>) -> Self {
        Buckets(BucketKind::Explicit(bounds.into()))
    }

    /// `count` bounds from `start` on, each `factor` times the one before.
    pub fn exponential(start: f64, factor: f64, count: usize) -> Self {
        let bounds = std::iter::successors(Some(start), |bound| Some(bound * factor));
        Buckets(BucketKind::Explicit(bounds.take(count).collect()))
    }

    /// `count` bounds from `start` on, each `step` above the one before.
    pub fn linear(start: f64, step: f64, count: usize) -> Self {
        let bounds = (0..count).map(|index| start + step * index as f64);
        Buckets(BucketKind::Explicit(bounds.collect()))
    }

    /// Buckets of constant relative width, as many as the values need and at most 160: a native
    /// histogram of schema 8 (0.3% wide), which becomes coarser when the values are far apart.
    pub fn native() -> Self {
        Buckets::native_with(8, native::DEFAULT_ZERO_THRESHOLD, native::DEFAULT_LIMIT)
    }

    /// A native histogram that begins with buckets of 2^(2^-`schema`), -4 to 8, counts what is at most
    /// `zero_threshold` away from zero as zero, and has at most `limit` buckets.
    pub fn native_with(schema: i8, zero_threshold: f64, limit: u16) -> Self {
        Buckets(BucketKind::Native { schema, zero_threshold, limit })
    }

    pub(crate) fn shape(&self) -> Result<Shape, ErrorKind> {
        match &self.0 {
            BucketKind::Explicit(bounds) => {
                let bounds = match bounds.as_slice() {
                    [rest @ .., last] if *last == f64::INFINITY => rest,
                    all => all,
                };
                if !bounds.iter().all(|bound| bound.is_finite()) {
                    return Err(ErrorKind::Bounds(
                        "the bounds of the buckets have to be finite".into(),
                    ));
                }
                if !bounds.is_sorted_by(|a, b| a < b) {
                    return Err(ErrorKind::Bounds("the bounds of the buckets have to rise".into()));
                }
                Ok(Shape::Explicit(Arc::from(bounds)))
            }
            &BucketKind::Native { schema, zero_threshold, limit } => {
                native::Shape::new(schema, zero_threshold, limit)
                    .map(|shape| Shape::Native(Arc::new(shape)))
                    .map_err(|error| ErrorKind::Bounds(error.to_string()))
            }
        }
    }
}

impl From<&[f64]> for Buckets {
    fn from(bounds: &[f64]) -> Self {
        Buckets::explicit(bounds)
    }
}

impl<const N: usize> From<&[f64; N]> for Buckets {
    fn from(bounds: &[f64; N]) -> Self {
        Buckets::explicit(bounds.as_slice())
    }
}

impl<const N: usize> From<[f64; N]> for Buckets {
    fn from(bounds: [f64; N]) -> Self {
        Buckets::explicit(bounds.as_slice())
    }
}
