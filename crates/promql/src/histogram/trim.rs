//! `</` and `>/`: what of a histogram lies below or above a value.
//!
//! 1. A bucket on the right side of the value is kept, on the wrong side dropped, and one that holds
//!    the value is split by interpolation.
//! 2. If anything was dropped, count and sum are estimated anew from the middles of what is left.
//!
//! A bucket without end cannot be split: what of it is certainly on the right side is kept.

use store::FloatHistogram;
use store::histogram::CUSTOM_BUCKETS_SCHEMA;

use super::buckets::{Bucket, dense, side_bucket, sparse, zero_bucket};
use super::has_custom_buckets;

/// The part of `histogram` below `at` (`upper`) or above it.
pub(crate) fn trim(histogram: &FloatHistogram, at: f64, upper: bool) -> FloatHistogram {
    let custom = has_custom_buckets(histogram);
    let mut trimmed = histogram.clone();
    let (mut count, mut sum) = (0.0, 0.0);
    let mut changed = false;
    let mut populated = [false, false];
    for positive in [true, false] {
        let (spans, counts) = if positive {
            (&histogram.positive_spans, &histogram.positive_buckets)
        } else {
            (&histogram.negative_spans, &histogram.negative_buckets)
        };
        let mut list = sparse(spans, counts);
        for (index, kept) in list.iter_mut().filter(|(_, count)| *count != 0.0) {
            populated[usize::from(positive)] = true;
            let bucket = side_bucket(histogram, positive, *index, *kept);
            let (keep, middle) = part(&bucket, at, upper, positive, custom);
            count += keep;
            sum += middle * keep;
            if keep != *kept {
                *kept = keep;
                changed = true;
            }
        }
        let (spans, counts) = dense(list);
        if positive {
            (trimmed.positive_spans, trimmed.positive_buckets) = (spans, counts);
        } else {
            (trimmed.negative_spans, trimmed.negative_buckets) = (spans, counts);
        }
    }
    if histogram.zero_count > 0.0 && histogram.schema != CUSTOM_BUCKETS_SCHEMA {
        let (keep, middle) = zero_part(histogram, at, upper, populated);
        changed |= keep != histogram.zero_count;
        trimmed.zero_count = keep;
        count += keep;
        sum += middle * keep;
    }
    if !changed {
        return histogram.clone();
    }
    trimmed.count = count;
    trimmed.sum = sum;
    trimmed
}

/// How many observations of a bucket are kept, and where their middle is.
fn part(bucket: &Bucket, at: f64, upper: bool, positive: bool, custom: bool) -> (f64, f64) {
    let inside = if upper { bucket.upper <= at } else { bucket.lower >= at };
    if inside {
        return (bucket.count, middle(bucket.lower, bucket.upper, positive, custom));
    }
    let outside = if upper { bucket.lower >= at } else { bucket.upper <= at };
    if outside || at.is_nan() {
        return (0.0, 0.0);
    }
    if bucket.lower == f64::NEG_INFINITY || bucket.upper == f64::INFINITY {
        return endless_part(bucket, at, upper);
    }
    let below = bucket.count * bucket.fraction_below(at, custom);
    if upper {
        (below, middle(bucket.lower, at, positive, custom))
    } else {
        (bucket.count - below, middle(at, bucket.upper, positive, custom))
    }
}

/// Like [`part`] for a bucket without end that `at` lies in.
fn endless_part(bucket: &Bucket, at: f64, upper: bool) -> (f64, f64) {
    let finite = |bound: f64| if bound.is_infinite() { 0.0 } else { bound };
    if bucket.lower == f64::NEG_INFINITY {
        // The first bucket begins at zero if it ends above.
        let from_zero = bucket.upper > 0.0 && bucket.upper != f64::INFINITY;
        return match upper {
            true if at > 0.0 && from_zero => (bucket.count * at / bucket.upper, at / 2.0),
            true if bucket.upper <= 0.0 => (bucket.count, at),
            false if at >= 0.0 && from_zero => {
                (bucket.count * (1.0 - at / bucket.upper), f64::midpoint(at, bucket.upper))
            }
            _ => (0.0, finite(bucket.upper)),
        };
    }
    if !upper && at >= bucket.lower {
        return (bucket.count, at);
    }
    (0.0, finite(bucket.lower))
}

fn zero_part(
    histogram: &FloatHistogram,
    at: f64,
    upper: bool,
    [has_negative, has_positive]: [bool; 2],
) -> (f64, f64) {
    let bucket = zero_bucket(histogram);
    let low = if has_positive && !has_negative { 0.0 } else { bucket.lower };
    let high = if has_negative && !has_positive { 0.0 } else { bucket.upper };
    let all = (bucket.count, f64::midpoint(low, high));
    match (at <= low, at >= high) {
        (true, _) => return if upper { (0.0, 0.0) } else { all },
        (_, true) => return if upper { all } else { (0.0, 0.0) },
        _ => {}
    }
    let (fraction, middle) = if upper {
        ((at - low) / (high - low), f64::midpoint(low, at))
    } else {
        ((high - at) / (high - low), f64::midpoint(at, high))
    };
    (bucket.count * fraction, middle)
}

/// Where the observations between two bounds lie on average.
fn middle(lower: f64, upper: f64, positive: bool, linear: bool) -> f64 {
    match (lower.is_infinite(), upper.is_infinite()) {
        (true, true) => 0.0,
        (true, false) if upper > 0.0 => upper / 2.0,
        (true, false) => upper,
        (false, true) => lower,
        (false, false) if linear => f64::midpoint(lower, upper),
        (false, false) => {
            let geometric = (lower * upper).abs().sqrt();
            if positive { geometric } else { -geometric }
        }
    }
}
