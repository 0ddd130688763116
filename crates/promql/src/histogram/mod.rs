//! Native histograms as values: buckets, arithmetic, comparison, quantiles.
//!
//! All arithmetic goes through sparse lists of `(index, count)`, and what comes out is compact: no
//! empty bucket, no span that touches the next. Histograms of exponential and of custom buckets
//! don't mix; that is the one thing that arithmetic refuses.

mod arithmetic;
mod buckets;
mod compare;
mod quantile;
mod text;
mod trim;

use store::FloatHistogram;
use store::histogram::CUSTOM_BUCKETS_SCHEMA;

pub(crate) use arithmetic::{
    Accumulator, Incompatible, Noted, add, compact, divide, multiply, subtract,
};
pub(crate) use buckets::copy_to_schema;
pub use buckets::{Bucket, buckets};
pub(crate) use compare::{equal, is_reset};
pub(crate) use quantile::{Finding, fraction, quantile, variance};
pub(crate) use text::text;
pub(crate) use trim::trim;

/// Whether the buckets have bounds of their own.
pub(crate) fn has_custom_buckets(histogram: &FloatHistogram) -> bool {
    histogram.schema == CUSTOM_BUCKETS_SCHEMA
}

/// How many samples a histogram counts as: its size in units of a float sample (16 bytes).
pub(crate) fn weight(histogram: &FloatHistogram) -> u64 {
    let words = histogram.positive_spans.len()
        + histogram.negative_spans.len()
        + histogram.positive_buckets.len()
        + histogram.negative_buckets.len()
        + histogram.custom_values.len();
    ((168 + 8 * words + 8) / 16) as u64
}

/// Whether a histogram is a stale marker.
pub(crate) fn is_stale(histogram: &FloatHistogram) -> bool {
    crate::evaluate::is_stale(histogram.sum)
}
