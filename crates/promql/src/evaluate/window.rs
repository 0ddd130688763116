//! A window that slides over the samples of one series.
//!
//! 1. Samples are decoded run by run, each once, as far as the end of the window needs them.
//! 2. Floats and histograms go to columns of their own; stale markers are dropped.
//! 3. Both ends of the window only move forward. What lies behind it is dropped now and then, so that
//!    memory follows the window and not the series.

use std::sync::Arc;

use store::histogram::CounterResetHint;
use store::{Cursor, FloatHistogram, Samples};

use super::column::{Column, Grid, Item, is_stale};
use crate::error::QueryError;
use crate::histogram;

/// Samples behind the window are dropped when there are this many.
const DROP_SAMPLES: usize = 1024;

/// Samples of one kind, with the part that is in the window.
#[derive(Debug)]
struct Track<V> {
    times: Vec<i64>,
    values: Vec<V>,
    starts: Vec<i64>,
    low: usize,
    high: usize,
    /// Samples dropped so far.
    dropped: usize,
}

impl<V> Default for Track<V> {
    fn default() -> Self {
        Track {
            times: Vec::new(),
            values: Vec::new(),
            starts: Vec::new(),
            low: 0,
            high: 0,
            dropped: 0,
        }
    }
}

impl<V> Track<V> {
    fn clear(&mut self) {
        self.times.clear();
        self.values.clear();
        self.starts.clear();
        self.low = 0;
        self.high = 0;
        self.dropped = 0;
    }

    fn push(&mut self, time: i64, value: V, start: i64) {
        self.times.push(time);
        self.values.push(value);
        self.starts.push(start);
    }

    /// Moves the window to the samples behind `after` up to `until`.
    fn slide(&mut self, after: i64, until: i64) {
        while self.high < self.times.len() && self.times[self.high] <= until {
            self.high += 1;
        }
        while self.low < self.high && self.times[self.low] <= after {
            self.low += 1;
        }
        if self.low >= DROP_SAMPLES && self.low * 2 > self.times.len() {
            self.times.drain(..self.low);
            self.values.drain(..self.low);
            self.starts.drain(..self.low);
            self.dropped += self.low;
            self.high -= self.low;
            self.low = 0;
        }
    }

    fn view(&self) -> View<'_, V> {
        View {
            times: &self.times[self.low..self.high],
            values: &self.values[self.low..self.high],
            starts: &self.starts[self.low..self.high],
            first: self.dropped + self.low,
        }
    }
}

/// The samples of one kind that are in the window.
#[derive(Debug)]
pub(crate) struct View<'a, V> {
    /// Milliseconds.
    pub(crate) times: &'a [i64],
    pub(crate) values: &'a [V],
    /// When what a sample counts began; 0 where that is not known.
    pub(crate) starts: &'a [i64],
    /// The place of the first one among all samples of the series.
    pub(crate) first: usize,
}

impl<V> View<'_, V> {
    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.times.is_empty()
    }
}

/// The decoded samples around a window. Reused from series to series.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    floats: Track<f64>,
    histograms: Track<Arc<FloatHistogram>>,
    last: Option<i64>,
    finished: bool,
    /// Samples decoded.
    pub(crate) read: u64,
}

impl Buffer {
    /// Forgets the series and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.floats.clear();
        self.histograms.clear();
        self.last = None;
        self.finished = false;
        self.read = 0;
    }

    /// Moves the window to the samples behind `after` up to `until`. Neither may lie before where it
    /// was at the last call.
    pub(crate) fn slide(
        &mut self,
        cursor: &mut dyn Cursor,
        samples: &mut Samples,
        after: i64,
        until: i64,
    ) -> Result<(), QueryError> {
        while !self.finished && self.last.is_none_or(|last| last <= until) {
            samples.clear();
            if !cursor.next(samples)? {
                self.finished = true;
            }
            self.take(samples, after);
        }
        self.floats.slide(after, until);
        self.histograms.slide(after, until);
        Ok(())
    }

    fn take(&mut self, samples: &Samples, after: i64) {
        if let Some(last) = samples.timestamps.last() {
            self.last = Some(*last);
        }
        self.read += samples.len() as u64;
        let skip = samples.timestamps.partition_point(|time| *time <= after);
        for index in skip..samples.len() {
            let time = samples.timestamps[index];
            let start = samples.start_timestamp(index);
            match samples.histogram(index) {
                Some(histogram) if histogram::is_stale(histogram) => {}
                Some(histogram) => self.histograms.push(time, histogram.clone(), start),
                None if is_stale(samples.values[index]) => {}
                None => self.floats.push(time, samples.values[index], start),
            }
        }
    }

    /// Takes all samples of a column, as those of a series.
    ///
    /// What a histogram says about resets is about samples that the column may have left out.
    pub(crate) fn take_column(&mut self, column: &Column, grid: Grid) {
        self.finished = true;
        for step in 0..grid.count {
            match column.get(step) {
                None => {}
                Some(Item::Float(value)) => self.floats.push(grid.time(step), value, 0),
                Some(Item::Histogram(histogram)) => {
                    self.histograms.push(grid.time(step), without_hint(histogram), 0);
                }
            }
        }
    }

    /// Moves the window where all samples are there already.
    pub(crate) fn slide_taken(&mut self, after: i64, until: i64) {
        self.floats.slide(after, until);
        self.histograms.slide(after, until);
    }

    pub(crate) fn floats(&self) -> View<'_, f64> {
        self.floats.view()
    }

    pub(crate) fn histograms(&self) -> View<'_, Arc<FloatHistogram>> {
        self.histograms.view()
    }

    /// The samples in the window, as `max_samples` counts them.
    pub(crate) fn weight(&self) -> u64 {
        let histograms = self.histograms.view();
        let heavy = histograms.values.iter().map(|h| histogram::weight(h)).sum::<u64>();
        self.floats.view().len() as u64 + heavy
    }
}

fn without_hint(histogram: &Arc<FloatHistogram>) -> Arc<FloatHistogram> {
    match histogram.counter_reset_hint {
        CounterResetHint::Unknown | CounterResetHint::Gauge => histogram.clone(),
        CounterResetHint::Reset | CounterResetHint::NoReset => {
            let mut copy = FloatHistogram::clone(histogram);
            copy.counter_reset_hint = CounterResetHint::Unknown;
            Arc::new(copy)
        }
    }
}
