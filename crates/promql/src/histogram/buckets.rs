//! Bounds of buckets, and the two forms that bucket counts take.

use store::FloatHistogram;
use store::histogram::{CUSTOM_BUCKETS_SCHEMA, Span};

use super::has_custom_buckets;

/// A bucket with its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// Lower bound.
    pub lower: f64,
    /// Upper bound.
    pub upper: f64,
    /// Whether the lower bound belongs to it.
    pub lower_inclusive: bool,
    /// Whether the upper bound belongs to it.
    pub upper_inclusive: bool,
    /// Observations.
    pub count: f64,
}

impl Bucket {
    /// The part of the bucket's observations that lies below `value`, if they are spread evenly, or
    /// evenly on a logarithmic scale.
    pub(crate) fn fraction_below(&self, value: f64, linear: bool) -> f64 {
        if linear {
            return (value - self.lower) / (self.upper - self.lower);
        }
        let lower = self.lower.abs().log2();
        let upper = self.upper.abs().log2();
        let at = value.abs().log2();
        if value > 0.0 {
            (at - lower) / (upper - lower)
        } else {
            1.0 - (at - upper) / (lower - upper)
        }
    }
}

/// `(index, count)` in the order of the index.
pub(super) type Sparse = Vec<(i32, f64)>;

/// The buckets of one side, with the empty ones that are written out.
pub(super) fn sparse(spans: &[Span], counts: &[f64]) -> Sparse {
    let mut list = Vec::with_capacity(counts.len());
    let mut counts = counts.iter();
    let mut index = 0i32;
    for span in spans {
        index = index.wrapping_add(span.offset);
        for count in counts.by_ref().take(span.length as usize) {
            list.push((index, *count));
            index = index.wrapping_add(1);
        }
    }
    list
}

/// Spans and counts without empty buckets.
pub(super) fn dense(list: impl IntoIterator<Item = (i32, f64)>) -> (Vec<Span>, Vec<f64>) {
    let mut spans: Vec<Span> = Vec::new();
    let mut counts = Vec::new();
    let mut next = 0i32;
    for (index, count) in list {
        if count == 0.0 {
            continue;
        }
        match spans.last_mut() {
            Some(span) if index == next => span.length += 1,
            _ => spans.push(Span { offset: index.wrapping_sub(next), length: 1 }),
        }
        counts.push(count);
        next = index.wrapping_add(1);
    }
    (spans, counts)
}

/// The index that a bucket has in a schema of lower resolution.
pub(super) fn index_in_schema(index: i32, from: i32, to: i32) -> i32 {
    ((index - 1) >> (from - to)) + 1
}

/// Merges the buckets of `list` into those of a schema of lower resolution.
pub(super) fn reduce(list: Sparse, from: i32, to: i32) -> Sparse {
    if from == to {
        return list;
    }
    let mut reduced: Sparse = Vec::with_capacity(list.len());
    for (index, count) in list {
        let index = index_in_schema(index, from, to);
        match reduced.last_mut() {
            Some((last, total)) if *last == index => *total += count,
            _ => reduced.push((index, count)),
        }
    }
    reduced
}

/// The same histogram in a schema of lower resolution. Its hint is unknown if that changes anything.
pub(crate) fn copy_to_schema(histogram: &FloatHistogram, schema: i32) -> FloatHistogram {
    if histogram.schema <= schema || has_custom_buckets(histogram) {
        return histogram.clone();
    }
    let side = |spans: &[Span], counts: &[f64]| {
        dense(reduce(sparse(spans, counts), histogram.schema, schema))
    };
    let (positive_spans, positive_buckets) =
        side(&histogram.positive_spans, &histogram.positive_buckets);
    let (negative_spans, negative_buckets) =
        side(&histogram.negative_spans, &histogram.negative_buckets);
    FloatHistogram {
        schema,
        zero_threshold: histogram.zero_threshold,
        zero_count: histogram.zero_count,
        count: histogram.count,
        sum: histogram.sum,
        positive_spans,
        positive_buckets,
        negative_spans,
        negative_buckets,
        ..FloatHistogram::default()
    }
}

/// The upper bound of a bucket; of the bucket below the first one where `index` is -1.
pub(super) fn bound(index: i32, schema: i32, custom: &[f64]) -> f64 {
    if schema == CUSTOM_BUCKETS_SCHEMA {
        return match usize::try_from(index) {
            Ok(at) => custom.get(at).copied().unwrap_or(f64::INFINITY),
            Err(_) => f64::NEG_INFINITY,
        };
    }
    if schema <= 0 {
        let exponent = i64::from(index) << (-schema).min(30);
        // The last bucket of finite values would end at 2^1024, which is no float.
        return if exponent == 1024 { f64::MAX } else { power_of_two(exponent) };
    }
    let parts = 1i32 << schema.min(30);
    let exponent = index.div_euclid(parts);
    let part = index.rem_euclid(parts);
    if part == 0 && exponent == 1024 {
        return f64::MAX;
    }
    (f64::from(part) / f64::from(parts)).exp2() * power_of_two(i64::from(exponent))
}

fn power_of_two(exponent: i64) -> f64 {
    2f64.powi(exponent.clamp(-1100, 1100) as i32)
}

/// All buckets from the lowest to the highest; the zero bucket only if it has observations. Buckets
/// that overlap with the zero bucket end at it.
pub fn buckets(histogram: &FloatHistogram) -> Vec<Bucket> {
    let mut list =
        Vec::with_capacity(histogram.positive_buckets.len() + histogram.negative_buckets.len() + 1);
    let threshold = histogram.zero_threshold;
    list.extend(side_buckets(histogram, false));
    list.reverse();
    for bucket in &mut list {
        if bucket.upper < 0.0 && bucket.upper > -threshold {
            bucket.upper = -threshold;
        }
    }
    if histogram.zero_count > 0.0 && !has_custom_buckets(histogram) {
        list.push(zero_bucket(histogram));
    }
    list.extend(side_buckets(histogram, true).map(|mut bucket| {
        if bucket.lower > 0.0 && bucket.lower < threshold {
            bucket.lower = threshold;
        }
        bucket
    }));
    list
}

/// The bucket around zero.
pub(super) fn zero_bucket(histogram: &FloatHistogram) -> Bucket {
    Bucket {
        lower: -histogram.zero_threshold,
        upper: histogram.zero_threshold,
        lower_inclusive: true,
        upper_inclusive: true,
        count: histogram.zero_count,
    }
}

/// The buckets of one side, from zero outwards.
pub(super) fn side_buckets(
    histogram: &FloatHistogram,
    positive: bool,
) -> impl Iterator<Item = Bucket> {
    let (spans, counts) = if positive {
        (&histogram.positive_spans, &histogram.positive_buckets)
    } else {
        (&histogram.negative_spans, &histogram.negative_buckets)
    };
    sparse(spans, counts)
        .into_iter()
        .map(move |(index, count)| side_bucket(histogram, positive, index, count))
}

pub(super) fn side_bucket(
    histogram: &FloatHistogram,
    positive: bool,
    index: i32,
    count: f64,
) -> Bucket {
    let custom = histogram.schema == CUSTOM_BUCKETS_SCHEMA;
    let outer = bound(index, histogram.schema, &histogram.custom_values);
    let inner = bound(index - 1, histogram.schema, &histogram.custom_values);
    let (lower, upper) = if positive { (inner, outer) } else { (-outer, -inner) };
    Bucket {
        lower,
        upper,
        lower_inclusive: if custom { index == 0 } else { lower < 0.0 },
        upper_inclusive: custom || upper > 0.0,
        count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_follow_the_schema() {
        let cases = [
            (0, 0, 1.0),
            (3, 0, 8.0),
            (-2, 0, 0.25),
            (1, 1, std::f64::consts::SQRT_2),
            (2, 1, 2.0),
            (1, -1, 4.0),
            (1024, 0, f64::MAX),
            (2048, 1, f64::MAX),
            (1025, 0, f64::INFINITY),
        ];
        for (index, schema, expected) in cases {
            let found = bound(index, schema, &[]);
            let close = found == expected || (found - expected).abs() < 1e-15 * expected;
            assert!(close, "bound({index}, {schema}) = {found}");
        }
        assert_eq!(bound(0, CUSTOM_BUCKETS_SCHEMA, &[5.0]), 5.0);
        assert_eq!(bound(1, CUSTOM_BUCKETS_SCHEMA, &[5.0]), f64::INFINITY);
        assert_eq!(bound(-1, CUSTOM_BUCKETS_SCHEMA, &[5.0]), f64::NEG_INFINITY);
    }

    #[test]
    fn dense_undoes_sparse_without_empty_buckets() {
        let spans = [Span { offset: -2, length: 3 }, Span { offset: 1, length: 1 }];
        let list = sparse(&spans, &[1.0, 0.0, 2.0, 3.0]);
        assert_eq!(list, [(-2, 1.0), (-1, 0.0), (0, 2.0), (2, 3.0)]);
        let (spans, counts) = dense(list);
        assert_eq!(counts, [1.0, 2.0, 3.0]);
        assert_eq!(
            spans,
            [
                Span { offset: -2, length: 1 },
                Span { offset: 1, length: 1 },
                Span { offset: 1, length: 1 }
            ]
        );
    }
}
