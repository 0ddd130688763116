//! Exemplars: single observations, usually with a trace id, beside the samples of a series.

use crate::labels::Labels;

/// One exemplar.
#[derive(Clone, Debug, PartialEq)]
pub struct Exemplar {
    /// What the exemplar itself is labelled with, e.g. `trace_id`.
    pub labels: Labels,
    /// The observed value.
    pub value: f64,
    /// Milliseconds since the epoch.
    pub timestamp: i64,
}

/// The exemplars of one series, in the order of time.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesExemplars {
    /// The labels of the series.
    pub labels: Labels,
    /// Never empty.
    pub exemplars: Vec<Exemplar>,
}
