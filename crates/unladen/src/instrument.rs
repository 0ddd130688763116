//! The handles: counter, gauge and histogram with explicit buckets.
//!
//! A handle is a reference to the cells of one series; cloning it is cheap. Its use is one atomic
//! operation, for a histogram two, and for fractions a loop that repeats only against another thread.
//! After [`Family::remove`](crate::Family::remove) it goes on counting unseen.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use wire::exposition::Kind;
use wire::exposition::writer::{Buckets, StoredLabels};

use crate::collector::Samples;

/// What a [`Family`](crate::Family) hands out.
pub trait Instrument: Clone + Send + Sync + private::Cells + 'static {
    /// What a family of these measures.
    const KIND: Kind;
}

pub(crate) mod private {
    use super::{Samples, StoredLabels};

    /// How an instrument begins and how it is written.
    pub trait Cells {
        /// What all series of a family share.
        type Shape: Send + Sync;
        /// Cells at zero. *Growth.*
        fn new(shape: &Self::Shape) -> Self;
        /// Writes the samples of one series. *Steady.*
        fn write(&self, labels: &StoredLabels, out: &mut Samples<'_, '_>);
    }
}

use private::Cells;

/// A number with a fraction that several threads add to.
#[derive(Debug, Default)]
struct Sum(AtomicU64);

impl Sum {
    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }

    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Relaxed);
    }

    fn add(&self, amount: f64) {
        let add = |bits| Some((f64::from_bits(bits) + amount).to_bits());
        // The closure always gives a value, so the update always succeeds.
        let _ = self.0.fetch_update(Relaxed, Relaxed, add);
    }
}

/// Something that only grows.
#[derive(Clone, Debug)]
pub struct Counter(Arc<CounterCells>);

#[derive(Debug, Default)]
struct CounterCells {
    /// Whole steps, which are most: one `fetch_add`, no loop.
    whole: AtomicU64,
    fraction: Sum,
}

impl Counter {
    /// One more.
    #[inline]
    pub fn increment(&self) {
        self.0.whole.fetch_add(1, Relaxed);
    }

    /// So many more.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.whole.fetch_add(count, Relaxed);
    }

    /// So much more. What is negative or no number is left out: a counter does not fall.
    #[inline]
    pub fn add_fraction(&self, amount: f64) {
        if amount > 0.0 {
            self.0.fraction.add(amount);
        }
    }

    /// The sum of all that was added.
    pub fn value(&self) -> f64 {
        self.0.whole.load(Relaxed) as f64 + self.0.fraction.get()
    }
}

impl Instrument for Counter {
    const KIND: Kind = Kind::Counter;
}

impl Cells for Counter {
    type Shape = ();

    fn new((): &()) -> Self {
        Counter(Arc::default())
    }

    fn write(&self, labels: &StoredLabels, out: &mut Samples<'_, '_>) {
        out.stored(labels, self.value());
    }
}

/// Something that goes up and down.
#[derive(Clone, Debug)]
pub struct Gauge(Arc<Sum>);

impl Gauge {
    /// It is `value` now.
    #[inline]
    pub fn set(&self, value: f64) {
        self.0.set(value);
    }

    /// It is `amount` more, or less.
    #[inline]
    pub fn add(&self, amount: f64) {
        self.0.add(amount);
    }

    /// One more.
    #[inline]
    pub fn increment(&self) {
        self.0.add(1.0);
    }

    /// One less.
    #[inline]
    pub fn decrement(&self) {
        self.0.add(-1.0);
    }

    /// What it is.
    pub fn value(&self) -> f64 {
        self.0.get()
    }
}

impl Instrument for Gauge {
    const KIND: Kind = Kind::Gauge;
}

impl Cells for Gauge {
    type Shape = ();

    fn new((): &()) -> Self {
        Gauge(Arc::default())
    }

    fn write(&self, labels: &StoredLabels, out: &mut Samples<'_, '_>) {
        out.stored(labels, self.value());
    }
}

/// How values are distributed, by buckets with fixed upper bounds.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<HistogramCells>);

#[derive(Debug)]
struct HistogramCells {
    bounds: Arc<[f64]>,
    /// One more than bounds: the last takes what is above all of them.
    buckets: Box<[AtomicU64]>,
    sum: Sum,
}

impl Histogram {
    /// A value was seen. One that is no number counts as above all bounds, and makes the sum none.
    #[inline]
    pub fn record(&self, value: f64) {
        let cells = &*self.0;
        let bucket = if value.is_nan() {
            cells.bounds.len()
        } else {
            cells.bounds.partition_point(|bound| *bound < value)
        };
        cells.buckets[bucket].fetch_add(1, Relaxed);
        cells.sum.add(value);
    }

    /// How many values were seen.
    pub fn count(&self) -> u64 {
        self.0.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum()
    }

    /// Their sum.
    pub fn sum(&self) -> f64 {
        self.0.sum.get()
    }
}

impl Instrument for Histogram {
    const KIND: Kind = Kind::Histogram;
}

impl Cells for Histogram {
    type Shape = Arc<[f64]>;

    fn new(bounds: &Arc<[f64]>) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram(Arc::new(HistogramCells { bounds: bounds.clone(), buckets, sum: Sum::default() }))
    }

    fn write(&self, labels: &StoredLabels, out: &mut Samples<'_, '_>) {
        let cells = &*self.0;
        out.histogram(
            labels.into(),
            Buckets {
                bounds: &cells.bounds,
                counts: cells.buckets.iter().map(|bucket| bucket.load(Relaxed)),
                sum: cells.sum.get(),
                created_ms: None,
                timestamp_ms: None,
            },
        );
    }
}
