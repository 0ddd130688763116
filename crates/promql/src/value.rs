//! What a query answers.
//!
//! A matrix is a list of series, each with its points in the order of time, so that a writer can go
//! through it once and stream. Nothing in here knows JSON.

use std::sync::Arc;

use store::{FloatHistogram, Labels};

/// The answer to a query.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// One number at the time of the evaluation.
    Scalar {
        /// Milliseconds since the epoch.
        time: i64,
        /// The number.
        value: f64,
    },
    /// A string at the time of the evaluation.
    String {
        /// Milliseconds since the epoch.
        time: i64,
        /// The string.
        value: Box<str>,
    },
    /// One sample per series, in the order that the query gives them (`sort`, `topk`).
    Vector(Vec<VectorSample>),
    /// Samples over time, sorted by labels.
    Matrix(Vec<SeriesPoints>),
}

/// A float or a native histogram.
#[derive(Clone, Debug, PartialEq)]
pub enum Sample {
    /// A float.
    Float(f64),
    /// A native histogram.
    Histogram(Arc<FloatHistogram>),
}

/// A series of an instant vector.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorSample {
    /// Its labels.
    pub labels: Labels,
    /// The time of the evaluation, in milliseconds since the epoch.
    pub time: i64,
    /// Its value.
    pub sample: Sample,
}

/// A series of a matrix. At any time it has a float or a histogram, not both.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct SeriesPoints {
    /// Its labels.
    pub labels: Labels,
    /// Milliseconds and value, ascending by time.
    pub floats: Vec<(i64, f64)>,
    /// Milliseconds and histogram, ascending by time.
    pub histograms: Vec<(i64, Arc<FloatHistogram>)>,
}

impl SeriesPoints {
    /// The number of points of both kinds.
    pub fn len(&self) -> usize {
        self.floats.len() + self.histograms.len()
    }

    /// Whether there is no point.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
