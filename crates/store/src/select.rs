//! What a query reads: series that match, and their samples run by run.
//!
//! [`Select`] is all that PromQL knows of the store. A series hands out its samples a chunk at a time
//! into columns that the caller owns, so that reading a series of any length costs one buffer.

pub mod merge;

use std::sync::Arc;

use crate::histogram::FloatHistogram;
use crate::labels::Labels;
use crate::matcher::Matcher;

/// Samples of one series in the order of time, as columns. Owned and reused by the reader.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Milliseconds since the epoch, ascending.
    pub timestamps: Vec<i64>,
    /// Values; NaN where the sample is a histogram. Stale markers keep their bits.
    pub values: Vec<f64>,
    /// Empty while there are only floats; otherwise as long as the other columns.
    pub histograms: Vec<Option<Arc<FloatHistogram>>>,
    /// When what a sample counts began, in milliseconds; 0 where that is not known. Empty while it is
    /// known of none, otherwise as long as the other columns.
    pub start_timestamps: Vec<i64>,
}

impl Samples {
    /// Empties the columns and keeps their memory.
    pub fn clear(&mut self) {
        self.timestamps.clear();
        self.values.clear();
        self.histograms.clear();
        self.start_timestamps.clear();
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.timestamps.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.timestamps.is_empty()
    }

    /// Appends a float.
    pub fn push(&mut self, timestamp: i64, value: f64) {
        self.timestamps.push(timestamp);
        self.values.push(value);
        if !self.histograms.is_empty() {
            self.histograms.push(None);
        }
        if !self.start_timestamps.is_empty() {
            self.start_timestamps.push(0);
        }
    }

    /// Appends a histogram.
    pub fn push_histogram(&mut self, timestamp: i64, histogram: Arc<FloatHistogram>) {
        self.histograms.resize(self.timestamps.len(), None);
        self.timestamps.push(timestamp);
        self.values.push(f64::NAN);
        self.histograms.push(Some(histogram));
        if !self.start_timestamps.is_empty() {
            self.start_timestamps.push(0);
        }
    }

    /// Says of the sample appended last when what it counts began.
    pub fn set_start_timestamp(&mut self, start: i64) {
        self.start_timestamps.resize(self.timestamps.len(), 0);
        if let Some(last) = self.start_timestamps.last_mut() {
            *last = start;
        }
    }

    /// When what the sample at `index` counts began; 0 where that is not known.
    pub fn start_timestamp(&self, index: usize) -> i64 {
        self.start_timestamps.get(index).copied().unwrap_or(0)
    }

    /// Drops the samples from `length` on.
    pub fn truncate(&mut self, length: usize) {
        self.timestamps.truncate(length);
        self.values.truncate(length);
        self.histograms.truncate(length);
    }

    /// Appends the samples of `other` at these places.
    pub fn extend_from(&mut self, other: &Samples, places: std::ops::Range<usize>) {
        let before = self.timestamps.len();
        self.timestamps.extend_from_slice(&other.timestamps[places.clone()]);
        self.values.extend_from_slice(&other.values[places.clone()]);
        if !other.histograms.is_empty() {
            self.histograms.resize(before, None);
            self.histograms.extend_from_slice(&other.histograms[places]);
        } else if !self.histograms.is_empty() {
            self.histograms.resize(self.timestamps.len(), None);
        }
    }

    /// The histogram at `index`, if that sample is one.
    pub fn histogram(&self, index: usize) -> Option<&Arc<FloatHistogram>> {
        self.histograms.get(index).and_then(Option::as_ref)
    }
}

/// Series that match, over a range of time.
pub trait Select: Send + Sync {
    /// The series with samples in `from..=to` (milliseconds) that pass all `matchers`, sorted by
    /// their labels.
    ///
    /// # Errors
    /// A block that cannot be read.
    fn select(
        &self,
        matchers: &[Matcher],
        from: i64,
        to: i64,
    ) -> Result<Vec<Box<dyn Series + '_>>, crate::Error>;
}

/// One selected series.
pub trait Series: Send + Sync {
    /// Its labels.
    fn labels(&self) -> &Labels;

    /// Starts reading its samples of the selected range from the first one.
    fn cursor(&self) -> Box<dyn Cursor + '_>;
}

/// A place in a series' samples.
pub trait Cursor: Send {
    /// Appends the next run of samples to `samples`, in the order of time, without samples outside
    /// the selected range; `false` when there are no more.
    ///
    /// # Errors
    /// A chunk that cannot be decoded.
    fn next(&mut self, samples: &mut Samples) -> Result<bool, crate::Error>;
}
