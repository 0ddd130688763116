//! A series across all steps.

use std::sync::Arc;

use store::FloatHistogram;

use crate::histogram;

/// The bits of a stale marker. In columns they mark a step without a sample: a selector never hands
/// on a stale marker, and no arithmetic yields these bits because they are those of a signalling NaN.
const ABSENT_BITS: u64 = 0x7ff0_0000_0000_0002;

/// The value of a step without a sample.
pub(crate) const ABSENT: f64 = f64::from_bits(ABSENT_BITS);

/// Whether a value is the marker that ends a series.
#[inline]
pub(crate) fn is_stale(value: f64) -> bool {
    value.to_bits() == ABSENT_BITS
}

/// The steps of an evaluation: `start`, `start + step`, … in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) start: i64,
    pub(crate) step: i64,
    pub(crate) count: usize,
}

impl Grid {
    /// The steps from `start` up to and including `end`; none if the end is before the start.
    pub(crate) fn new(start: i64, end: i64, step: i64) -> Self {
        let count = if end < start { 0 } else { (end - start) / step + 1 };
        Grid { start, step, count: count as usize }
    }

    /// The first step alone.
    pub(crate) fn first(self) -> Self {
        Grid { count: self.count.min(1), ..self }
    }

    /// The time of a step.
    #[inline]
    pub(crate) fn time(self, step: usize) -> i64 {
        self.start + step as i64 * self.step
    }

    /// The time of the last step.
    pub(crate) fn end(self) -> i64 {
        self.time(self.count.saturating_sub(1))
    }

    /// The times of all steps.
    pub(crate) fn times(self) -> impl Iterator<Item = i64> {
        (0..self.count).map(move |step| self.time(step))
    }
}

/// A float or a histogram of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item<'a> {
    Float(f64),
    Histogram(&'a Arc<FloatHistogram>),
}

/// What an operation makes of a sample.
#[derive(Clone, Debug)]
pub(crate) enum Output {
    Nothing,
    Float(f64),
    Histogram(Arc<FloatHistogram>),
}

impl Output {
    pub(crate) fn histogram(histogram: FloatHistogram) -> Self {
        Output::Histogram(Arc::new(histogram))
    }
}

/// One value per step. Reused: [`Column::reset`] keeps the memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Column {
    /// [`ABSENT`] where there is no sample; NaN where it is a histogram.
    pub(crate) values: Vec<f64>,
    /// Empty while there are only floats.
    histograms: Vec<Option<Arc<FloatHistogram>>>,
}

impl Column {
    /// A column without samples.
    pub(crate) fn new(count: usize) -> Self {
        Column { values: vec![ABSENT; count], histograms: Vec::new() }
    }

    /// A column of floats.
    pub(crate) fn from_values(values: Vec<f64>) -> Self {
        Column { values, histograms: Vec::new() }
    }

    /// Forgets all samples. Steady once it was as long before.
    pub(crate) fn reset(&mut self, count: usize) {
        self.values.clear();
        self.values.resize(count, ABSENT);
        self.histograms.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no histograms.
    pub(crate) fn is_plain(&self) -> bool {
        self.histograms.is_empty()
    }

    #[inline]
    pub(crate) fn is_present(&self, step: usize) -> bool {
        !is_stale(self.values[step])
    }

    #[inline]
    pub(crate) fn get(&self, step: usize) -> Option<Item<'_>> {
        let value = self.values[step];
        if is_stale(value) {
            return None;
        }
        Some(match self.histograms.get(step) {
            Some(Some(histogram)) => Item::Histogram(histogram),
            _ => Item::Float(value),
        })
    }

    /// The sample of a step by value; a histogram is shared.
    pub(crate) fn output(&self, step: usize) -> Output {
        match self.get(step) {
            None => Output::Nothing,
            Some(Item::Float(value)) => Output::Float(value),
            Some(Item::Histogram(histogram)) => Output::Histogram(histogram.clone()),
        }
    }

    pub(crate) fn set(&mut self, step: usize, output: Output) {
        match output {
            Output::Nothing => {
                self.values[step] = ABSENT;
                if let Some(slot) = self.histograms.get_mut(step) {
                    *slot = None;
                }
            }
            Output::Float(value) => {
                // A NaN of a scrape may carry any payload except that of the stale marker.
                self.values[step] = value;
                if let Some(slot) = self.histograms.get_mut(step) {
                    *slot = None;
                }
            }
            Output::Histogram(histogram) => {
                if self.histograms.is_empty() {
                    self.histograms.resize(self.values.len(), None);
                }
                self.values[step] = f64::NAN;
                self.histograms[step] = Some(histogram);
            }
        }
    }

    /// Whether no step has a sample.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.iter().all(|value| is_stale(*value))
    }

    /// How many samples it holds, as `max_samples` counts them.
    pub(crate) fn weight(&self) -> u64 {
        let points = self.values.iter().filter(|value| !is_stale(**value)).count() as u64;
        if self.histograms.is_empty() {
            return points;
        }
        let extra = self.histograms.iter().flatten().map(|h| histogram::weight(h) - 1).sum::<u64>();
        points + extra
    }

    /// The sample of the first step at each of `count` steps.
    pub(crate) fn repeat_first(&mut self, count: usize) {
        let first = self.output(0);
        self.reset(count);
        for step in 0..count {
            self.set(step, first.clone());
        }
    }
}
