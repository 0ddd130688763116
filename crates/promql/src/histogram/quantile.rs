//! Quantiles, fractions and variance of native histograms.
//!
//! Within a bucket, observations are taken to be spread evenly on a logarithmic scale; evenly on a
//! linear one in custom buckets and in the zero bucket. The zero bucket of a histogram with
//! observations of one sign only ends at zero.

use store::FloatHistogram;

use super::{Bucket, buckets, has_custom_buckets};
use crate::kahan::Kahan;

/// What a computation noticed about observations that are not numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The quantile falls among them.
    Result,
    /// They push the quantile up.
    Skew,
    /// They are left out of the fractions.
    Excluded,
}

/// The quantile `q`, and what was noticed.
pub(crate) fn quantile(q: f64, histogram: &FloatHistogram) -> (f64, Option<Finding>) {
    if q < 0.0 {
        return (f64::NEG_INFINITY, None);
    }
    if q > 1.0 {
        return (f64::INFINITY, None);
    }
    if histogram.count == 0.0 || q.is_nan() {
        return (f64::NAN, None);
    }
    let custom = has_custom_buckets(histogram);
    // From the nearer end, because that loses less. Observations that aren't numbers are in no
    // bucket and count as the highest, so that only the lower end is known then.
    let nan_sum = histogram.sum.is_nan();
    let forward = nan_sum || q < 0.5;
    let mut list = buckets(histogram);
    if !forward {
        list.reverse();
    }
    let mut rank = if forward { q * histogram.count } else { (1.0 - q) * histogram.count };
    let mut count = 0.0;
    let mut bucket = list.last().copied().unwrap_or(Bucket {
        lower: 0.0,
        upper: 0.0,
        lower_inclusive: false,
        upper_inclusive: false,
        count: 0.0,
    });
    let mut rest = list.iter();
    for candidate in rest.by_ref() {
        if candidate.count == 0.0 {
            continue;
        }
        bucket = *candidate;
        count += bucket.count;
        if count >= rank {
            break;
        }
    }
    if custom {
        if bucket.lower == f64::NEG_INFINITY {
            if bucket.upper <= 0.0 {
                return (bucket.upper, None);
            }
            bucket.lower = 0.0;
        } else if bucket.upper == f64::INFINITY {
            return (bucket.lower, None);
        }
    } else if bucket.lower < 0.0 && bucket.upper > 0.0 {
        narrow_zero_bucket(histogram, &mut bucket);
    }
    count = count.min(histogram.count);
    if count < rank {
        return if nan_sum { (f64::NAN, Some(Finding::Result)) } else { (bucket.upper, None) };
    }
    rank = if forward { rank - (count - bucket.count) } else { count - rank };
    let mut finding = None;
    if nan_sum {
        let seen = count + rest.map(|bucket| bucket.count).sum::<f64>();
        finding = (seen < histogram.count).then_some(Finding::Skew);
    }
    (interpolate(&bucket, rank / bucket.count, custom), finding)
}

fn interpolate(bucket: &Bucket, fraction: f64, custom: bool) -> f64 {
    if custom || (bucket.lower <= 0.0 && bucket.upper >= 0.0) {
        return bucket.lower + (bucket.upper - bucket.lower) * fraction;
    }
    let lower = bucket.lower.abs().log2();
    let upper = bucket.upper.abs().log2();
    if bucket.lower > 0.0 {
        (lower + (upper - lower) * fraction).exp2()
    } else {
        -(upper + (lower - upper) * (1.0 - fraction)).exp2()
    }
}

fn narrow_zero_bucket(histogram: &FloatHistogram, bucket: &mut Bucket) {
    match (histogram.negative_buckets.is_empty(), histogram.positive_buckets.is_empty()) {
        (true, false) => bucket.lower = 0.0,
        (false, true) => bucket.upper = 0.0,
        _ => {}
    }
}

/// The fraction of observations between two bounds, and what was noticed.
pub(crate) fn fraction(
    lower: f64,
    upper: f64,
    histogram: &FloatHistogram,
) -> (f64, Option<Finding>) {
    if histogram.count == 0.0 || lower.is_nan() || upper.is_nan() {
        return (f64::NAN, None);
    }
    if lower >= upper {
        return (0.0, None);
    }
    let custom = has_custom_buckets(histogram);
    let mut lower_rank = None;
    let mut upper_rank = None;
    let mut rank = 0.0;
    let mut seen = 0.0;
    for mut bucket in buckets(histogram) {
        seen += bucket.count;
        if lower_rank.is_some() && upper_rank.is_some() {
            continue;
        }
        let zero = bucket.lower <= 0.0 && bucket.upper >= 0.0;
        if zero {
            narrow_zero_bucket(histogram, &mut bucket);
        }
        for (limit, found) in [(lower, &mut lower_rank), (upper, &mut upper_rank)] {
            if found.is_some() {
                continue;
            }
            if bucket.lower >= limit {
                *found = Some(rank);
            } else if bucket.upper > limit {
                let linear = custom || zero;
                *found = Some(if linear && bucket.lower == f64::NEG_INFINITY {
                    bucket.count
                } else {
                    rank + bucket.count * bucket.fraction_below(limit, linear)
                });
            }
        }
        rank += bucket.count;
    }
    let mut finding = None;
    let mut count = histogram.count;
    if histogram.sum.is_nan() {
        finding = (seen < histogram.count).then_some(Finding::Excluded);
        count = seen;
    }
    let clip = |rank: Option<f64>| rank.filter(|rank| *rank <= count).unwrap_or(count);
    ((clip(upper_rank) - clip(lower_rank)) / histogram.count, finding)
}

/// The variance, if every observation lay in the middle of its bucket.
pub(crate) fn variance(histogram: &FloatHistogram) -> f64 {
    let mean = histogram.sum / histogram.count;
    let mut sum = Kahan::default();
    for bucket in buckets(histogram).iter().filter(|bucket| bucket.count != 0.0) {
        let middle = if has_custom_buckets(histogram) {
            (bucket.upper + bucket.lower) / 2.0
        } else if bucket.lower <= 0.0 && bucket.upper >= 0.0 {
            0.0
        } else if bucket.upper < 0.0 {
            -(bucket.upper * bucket.lower).sqrt()
        } else {
            (bucket.upper * bucket.lower).sqrt()
        };
        let delta = middle - mean;
        sum.add(bucket.count * delta * delta);
    }
    (sum.sum + sum.lost) / histogram.count
}
