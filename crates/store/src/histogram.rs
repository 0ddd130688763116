//! Native histograms, as the values of samples.
//!
//! Their chunk encodings come with a later round of the store; evaluation already carries them.

/// A run of consecutive buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Gap to the end of the previous span; for the first one, the index of its first bucket.
    pub offset: i32,
    /// Number of consecutive buckets.
    pub length: u32,
}

/// What is known about a counter reset between the previous sample and this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CounterResetHint {
    /// Has to be detected by comparing.
    #[default]
    Unknown,
    /// The counter was reset.
    Reset,
    /// It was not.
    NoReset,
    /// A gauge histogram: resets have no meaning.
    Gauge,
}

/// The schema of histograms with custom bucket bounds.
pub const CUSTOM_BUCKETS_SCHEMA: i32 = -53;

/// A native histogram with absolute float counts per bucket.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct FloatHistogram {
    /// Whether the counter was reset before this sample.
    pub counter_reset_hint: CounterResetHint,
    /// Resolution: a factor of 2^(2^-schema) between bounds, or [`CUSTOM_BUCKETS_SCHEMA`].
    pub schema: i32,
    /// Width of the bucket around zero.
    pub zero_threshold: f64,
    /// Observations in the bucket around zero.
    pub zero_count: f64,
    /// All observations.
    pub count: f64,
    /// Sum of all observed values.
    pub sum: f64,
    /// Layout of the positive buckets.
    pub positive_spans: Vec<Span>,
    /// Counts of the positive buckets.
    pub positive_buckets: Vec<f64>,
    /// Layout of the negative buckets.
    pub negative_spans: Vec<Span>,
    /// Counts of the negative buckets.
    pub negative_buckets: Vec<f64>,
    /// Upper bounds of the buckets of [`CUSTOM_BUCKETS_SCHEMA`], without +Inf.
    pub custom_values: Vec<f64>,
}
