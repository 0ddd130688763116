//! Equality and counter resets.

use store::FloatHistogram;
use store::histogram::{CounterResetHint, Span};

use super::arithmetic::{intersect, rebound};
use super::buckets::{Sparse, bound, reduce, sparse};
use super::has_custom_buckets;

/// Whether two histograms hold the same data, bit by bit; the hint does not count.
pub(crate) fn equal(a: &FloatHistogram, b: &FloatHistogram) -> bool {
    let bits = |list: &[f64]| list.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    a.schema == b.schema
        && a.count.to_bits() == b.count.to_bits()
        && a.sum.to_bits() == b.sum.to_bits()
        && a.zero_threshold == b.zero_threshold
        && a.zero_count.to_bits() == b.zero_count.to_bits()
        && (!has_custom_buckets(a) || a.custom_values == b.custom_values)
        && layout(&a.positive_spans) == layout(&b.positive_spans)
        && layout(&a.negative_spans) == layout(&b.negative_spans)
        && bits(&a.positive_buckets) == bits(&b.positive_buckets)
        && bits(&a.negative_buckets) == bits(&b.negative_buckets)
}

/// The indices of the buckets.
fn layout(spans: &[Span]) -> Vec<i32> {
    let mut indices = Vec::new();
    let mut index = 0i32;
    for span in spans {
        index = index.wrapping_add(span.offset);
        for _ in 0..span.length {
            indices.push(index);
            index = index.wrapping_add(1);
        }
    }
    indices
}

/// Whether the counter was reset between `previous` and `current`: its hint says so, or something
/// that was counted is missing.
pub(crate) fn is_reset(current: &FloatHistogram, previous: &FloatHistogram) -> bool {
    match current.counter_reset_hint {
        CounterResetHint::Reset => return true,
        CounterResetHint::NoReset => return false,
        CounterResetHint::Unknown | CounterResetHint::Gauge => {}
    }
    if current.count < previous.count {
        return true;
    }
    if has_custom_buckets(current) {
        if !has_custom_buckets(previous) {
            return true;
        }
        let common = intersect(&current.custom_values, &previous.custom_values);
        let mapped = |histogram: &FloatHistogram| {
            let list = sparse(&histogram.positive_spans, &histogram.positive_buckets);
            rebound(&list, &histogram.custom_values, &common)
        };
        return lost_counts(&mapped(current), &mapped(previous));
    }
    if current.schema > previous.schema || current.zero_threshold < previous.zero_threshold {
        return true;
    }
    let Some(previous_zero) = zero_count_at(previous, current.zero_threshold) else {
        return true;
    };
    if current.zero_count < previous_zero {
        return true;
    }
    let outside = |spans: &[Span], counts: &[f64], schema: i32| -> Sparse {
        let mut list = reduce(sparse(spans, counts), schema, current.schema);
        list.retain(|(index, _)| bound(*index, current.schema, &[]) > current.zero_threshold);
        list
    };
    let positive = |h: &FloatHistogram| outside(&h.positive_spans, &h.positive_buckets, h.schema);
    let negative = |h: &FloatHistogram| outside(&h.negative_spans, &h.negative_buckets, h.schema);
    lost_counts(&positive(current), &positive(previous))
        || lost_counts(&negative(current), &negative(previous))
}

fn lost_counts(current: &[(i32, f64)], previous: &[(i32, f64)]) -> bool {
    let mut current = current.iter().peekable();
    for (index, count) in previous {
        while current.next_if(|(candidate, _)| candidate < index).is_some() {}
        match current.peek() {
            Some((candidate, now)) if candidate == index && now < count => return true,
            Some((candidate, _)) if candidate == index => {}
            _ if *count != 0.0 => return true,
            _ => {}
        }
    }
    false
}

/// The zero count with a wider zero bucket; none if it would end inside a populated bucket.
fn zero_count_at(histogram: &FloatHistogram, threshold: f64) -> Option<f64> {
    let mut zero_count = histogram.zero_count;
    if threshold == histogram.zero_threshold {
        return Some(zero_count);
    }
    let sides = [
        (&histogram.positive_spans, &histogram.positive_buckets),
        (&histogram.negative_spans, &histogram.negative_buckets),
    ];
    for (spans, counts) in sides {
        for (index, count) in sparse(spans, counts) {
            if bound(index - 1, histogram.schema, &[]) >= threshold {
                break;
            }
            if bound(index, histogram.schema, &[]) > threshold && count != 0.0 {
                return None;
            }
            zero_count += count;
        }
    }
    Some(zero_count)
}
