//! What a caller hands to the writer: a family, and the metrics of it whole.

use crate::exposition::Kind;
use crate::exposition::stored::{LabelSet, LabelsRef};

/// What the metrics that follow have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Family<'a> {
    /// The name; a counter's with `_total`, an info's with `_info`.
    pub name: &'a str,
    /// What it is about; empty for no HELP line.
    pub help: &'a str,
    /// What it measures.
    pub kind: Kind,
    /// The unit, a suffix of the name (before `_total`); empty for none.
    pub unit: &'a str,
    /// Labels that every series has, before its own.
    pub common: LabelsRef<'a>,
}

impl<'a> Family<'a> {
    /// A family without a unit and without labels of its own.
    pub const fn new(name: &'a str, help: &'a str, kind: Kind) -> Self {
        Family { name, help, kind, unit: "", common: LabelsRef::EMPTY }
    }
}

/// A value; whole numbers are written as such where the format tells them apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Any number.
    Float(f64),
    /// How many.
    Count(u64),
    /// A whole number that may be negative.
    Integer(i64),
}

impl Value {
    /// The nearest number with a fraction.
    pub fn as_f64(self) -> f64 {
        match self {
            Value::Float(value) => value,
            Value::Count(count) => count as f64,
            Value::Integer(integer) => integer as f64,
        }
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Value::Float(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Value::Count(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value::Integer(value)
    }
}

/// One observation behind a sample.
///
/// OpenMetrics allows 128 characters in the names and values of its labels together; the writer does not
/// count them.
#[derive(Clone, Copy, Debug)]
pub struct Exemplar<'a> {
    /// Its labels: the trace that it belongs to.
    pub labels: LabelSet<'a>,
    /// Its value.
    pub value: f64,
    /// Milliseconds since 1970. A native histogram's have one, or Prometheus drops them.
    pub timestamp_ms: Option<i64>,
}

/// What may stand beside a number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extra<'a> {
    /// Milliseconds since 1970; none for "now". Text 0.0.4 has no place for a negative one, OpenMetrics
    /// for the outermost of `i64`, so that such a sample is left out there.
    pub timestamp_ms: Option<i64>,
    /// When a counter began, in milliseconds since 1970.
    pub created_ms: Option<i64>,
    /// One observation behind a counter; text 0.0.4 has no place for it.
    pub exemplar: Option<Exemplar<'a>>,
}

impl Extra<'_> {
    /// Nothing.
    pub const NONE: Extra<'static> = Extra { timestamp_ms: None, created_ms: None, exemplar: None };
}

/// What fell between two bounds, **not** cumulative; a bare `u64` is one without an exemplar.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bucket<'a> {
    /// How many observations.
    pub count: u64,
    /// One of them.
    pub exemplar: Option<Exemplar<'a>>,
}

impl<P, N> Native<'_, P, N> {
    /// The observations that may be in no bucket: then this is at least the count.
    pub(super) fn count_at_least(&self) -> u64 {
        if self.sum.is_nan() { self.count } else { 0 }
    }
}

impl From<u64> for Bucket<'_> {
    fn from(count: u64) -> Self {
        Bucket { count, exemplar: None }
    }
}

/// A histogram with explicit bounds.
///
/// `counts` gives a [`Bucket`] or `u64` for each bound and one more for what lies above all of them, from
/// a slice or from wherever they are counted; what is missing counts as zero, what is too much as above.
/// `_count` is their sum, so that the two can't contradict each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Buckets<'a, C> {
    /// Upper bounds, inclusive, rising; `+Inf` is added where it is missing.
    pub bounds: &'a [f64],
    /// One more than bounds.
    pub counts: C,
    /// The sum of all observations.
    pub sum: f64,
    /// When it began, in milliseconds since 1970.
    pub created_ms: Option<i64>,
    /// Milliseconds since 1970; none for "now".
    pub timestamp_ms: Option<i64>,
}

/// A native (exponential) histogram. A family has only such, or none: Prometheus' parser trips over
/// one that is mixed.
///
/// `positive` and `negative` give the index of a bucket and its count, by rising index; zeros may be left
/// out or not ([`dense`] makes such a one of an offset and counts). Bucket `i` of schema `s` holds what is
/// above `2^((i-1)·2^-s)` and up to `2^(i·2^-s)`: OpenTelemetry's index plus one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native<'a, P, N> {
    /// Each power of two has `2^schema` buckets; from -4 to 8 in Prometheus.
    pub schema: i8,
    /// Up to here, in either direction, an observation counts as zero.
    pub zero_threshold: f64,
    /// Observations that count as zero.
    pub zero_count: u64,
    /// The buckets above zero.
    pub positive: P,
    /// The buckets below zero, by the index of their magnitude.
    pub negative: N,
    /// The sum of all observations.
    pub sum: f64,
    /// How many observations. Those that are no number are in no bucket, so that this may be more than
    /// the buckets hold, but only where `sum` is no number either: otherwise what the buckets hold is
    /// written, because a scraper refuses a histogram that contradicts itself.
    pub count: u64,
    /// Some of them, each with its time.
    pub exemplars: &'a [Exemplar<'a>],
    /// When it began, in milliseconds since 1970.
    pub created_ms: Option<i64>,
    /// Milliseconds since 1970; none for "now".
    pub timestamp_ms: Option<i64>,
}

/// Buckets that lie side by side, the first with index `offset`, for [`Native`].
pub fn dense(
    offset: i32,
    counts: &[u64],
) -> impl DoubleEndedIterator<Item = (i32, u64)> + ExactSizeIterator + Clone {
    let place = move |(at, count): (usize, &u64)| (offset.saturating_add(at as i32), *count);
    counts.iter().enumerate().map(place)
}

/// Quantiles that were found where the observations were made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary<'a> {
    /// Quantiles, from 0 to 1, and their values.
    pub quantiles: &'a [(f64, f64)],
    /// The sum of all observations.
    pub sum: f64,
    /// How many observations.
    pub count: u64,
    /// When it began, in milliseconds since 1970.
    pub created_ms: Option<i64>,
    /// Milliseconds since 1970; none for "now".
    pub timestamp_ms: Option<i64>,
}
