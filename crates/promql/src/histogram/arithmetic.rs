//! Sums and differences of histograms.
//!
//! 1. Both get the coarser of the two schemas.
//! 2. Both get a zero bucket that is as wide as the wider of the two and that ends at no populated
//!    bucket's inside; the buckets within are added to its count.
//! 3. Counts are added bucket by bucket, with Kahan's compensation.
//!
//! Custom buckets of different bounds keep the bounds that both have.

use store::FloatHistogram;
use store::histogram::{CounterResetHint, Span};

use super::buckets::{Sparse, bound, dense, index_in_schema, reduce, sparse};
use super::has_custom_buckets;
use crate::kahan::Kahan;

/// Exponential and custom buckets met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incompatible;

/// What an operation noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Noted {
    /// One side says that the counter was reset, the other that it was not.
    pub(crate) collision: bool,
    /// Custom bounds differed.
    pub(crate) reconciled: bool,
}

/// A running sum of histograms.
#[derive(Clone, Debug)]
pub(crate) struct Accumulator {
    hint: CounterResetHint,
    schema: i32,
    custom: bool,
    custom_values: Vec<f64>,
    zero_threshold: f64,
    zero: Kahan,
    count: Kahan,
    sum: Kahan,
    positive: Vec<(i32, Kahan)>,
    negative: Vec<(i32, Kahan)>,
}

impl Accumulator {
    /// Starts from one histogram.
    pub(crate) fn new(first: &FloatHistogram) -> Self {
        let side = |spans: &[Span], counts: &[f64]| {
            sparse(spans, counts).into_iter().map(|(i, count)| (i, Kahan::new(count))).collect()
        };
        Accumulator {
            hint: first.counter_reset_hint,
            schema: first.schema,
            custom: has_custom_buckets(first),
            custom_values: first.custom_values.clone(),
            zero_threshold: first.zero_threshold,
            zero: Kahan::new(first.zero_count),
            count: Kahan::new(first.count),
            sum: Kahan::new(first.sum),
            positive: side(&first.positive_spans, &first.positive_buckets),
            negative: side(&first.negative_spans, &first.negative_buckets),
        }
    }

    /// Whether adding `other` would leave the range of floats.
    pub(crate) fn would_overflow(&self, other: &FloatHistogram) -> bool {
        (self.count.value() + other.count).is_infinite()
            || (self.sum.value() + other.sum).is_infinite()
            || (self.zero.value() + other.zero_count).is_infinite()
    }

    /// Adds `factor * other`.
    ///
    /// # Errors
    /// One has custom buckets and the other has not; then nothing changes.
    pub(crate) fn add(
        &mut self,
        other: &FloatHistogram,
        factor: f64,
    ) -> Result<Noted, Incompatible> {
        if self.custom != has_custom_buckets(other) {
            return Err(Incompatible);
        }
        let (hint, collision) = combine_hints(self.hint, other.counter_reset_hint);
        self.hint = hint;
        let mut positive = sparse(&other.positive_spans, &other.positive_buckets);
        let mut negative = sparse(&other.negative_spans, &other.negative_buckets);
        let mut reconciled = false;
        let mut zero_count = other.zero_count;
        if self.custom {
            if self.custom_values != other.custom_values {
                reconciled = true;
                let common = intersect(&self.custom_values, &other.custom_values);
                let own = std::mem::take(&mut self.positive);
                self.positive = rebound_sums(own, &self.custom_values, &common);
                positive = rebound(&positive, &other.custom_values, &common);
                self.custom_values = common;
            }
        } else {
            self.reduce_to(self.schema.min(other.schema));
            positive = reduce(positive, other.schema, self.schema);
            negative = reduce(negative, other.schema, self.schema);
            zero_count =
                self.reconcile_zero(&mut positive, &mut negative, zero_count, other.zero_threshold);
        }
        self.zero.add(zero_count * factor);
        self.count.add(other.count * factor);
        self.sum.add(other.sum * factor);
        merge(&mut self.positive, &positive, factor);
        merge(&mut self.negative, &negative, factor);
        Ok(Noted { collision, reconciled })
    }

    /// Multiplies everything.
    pub(crate) fn scale(&mut self, factor: f64) {
        let parts = self.positive.iter_mut().chain(&mut self.negative).map(|(_, count)| count);
        for part in parts.chain([&mut self.zero, &mut self.count, &mut self.sum]) {
            part.scale(factor);
        }
    }

    /// Divides everything.
    pub(crate) fn divide(&mut self, divisor: f64) {
        let parts = self.positive.iter_mut().chain(&mut self.negative).map(|(_, count)| count);
        for part in parts.chain([&mut self.zero, &mut self.count, &mut self.sum]) {
            part.divide(divisor);
        }
    }

    /// The sum so far.
    pub(crate) fn finish(&self) -> FloatHistogram {
        let side = |list: &[(i32, Kahan)]| dense(list.iter().map(|(i, count)| (*i, count.value())));
        let (positive_spans, positive_buckets) = side(&self.positive);
        let (negative_spans, negative_buckets) = side(&self.negative);
        FloatHistogram {
            counter_reset_hint: self.hint,
            schema: self.schema,
            zero_threshold: self.zero_threshold,
            zero_count: self.zero.value(),
            count: self.count.value(),
            sum: self.sum.value(),
            positive_spans,
            positive_buckets,
            negative_spans,
            negative_buckets,
            custom_values: self.custom_values.clone(),
        }
    }

    fn reduce_to(&mut self, schema: i32) {
        if schema == self.schema {
            return;
        }
        for list in [&mut self.positive, &mut self.negative] {
            let mut reduced: Vec<(i32, Kahan)> = Vec::with_capacity(list.len());
            for (index, count) in list.drain(..) {
                let index = index_in_schema(index, self.schema, schema);
                match reduced.last_mut() {
                    Some((last, total)) if *last == index => total.merge(count),
                    _ => reduced.push((index, count)),
                }
            }
            *list = reduced;
        }
        self.schema = schema;
    }

    /// Widens the narrower zero bucket until both are equally wide; returns the other's zero count.
    fn reconcile_zero(
        &mut self,
        positive: &mut Sparse,
        negative: &mut Sparse,
        mut zero_count: f64,
        mut threshold: f64,
    ) -> f64 {
        let schema = self.schema;
        while threshold != self.zero_threshold {
            if threshold < self.zero_threshold {
                threshold =
                    widened(self.zero_threshold, schema, positive, negative, |count| *count != 0.0);
                zero_count += swallow(positive, schema, threshold).iter().sum::<f64>();
                zero_count += swallow(negative, schema, threshold).iter().sum::<f64>();
            }
            if self.zero_threshold < threshold {
                self.zero_threshold =
                    widened(threshold, schema, &self.positive, &self.negative, |count| {
                        count.value() != 0.0
                    });
                for list in [&mut self.positive, &mut self.negative] {
                    for count in swallow(list, schema, self.zero_threshold) {
                        self.zero.merge(count);
                    }
                }
            }
        }
        zero_count
    }
}

/// The smallest threshold from `threshold` on that lies inside no populated bucket.
fn widened<C>(
    threshold: f64,
    schema: i32,
    positive: &[(i32, C)],
    negative: &[(i32, C)],
    populated: impl Fn(&C) -> bool,
) -> f64 {
    let mut threshold = threshold;
    loop {
        let inside = positive.iter().chain(negative).find_map(|(index, count)| {
            let upper = bound(*index, schema, &[]);
            let cut = bound(*index - 1, schema, &[]) < threshold && threshold < upper;
            (cut && populated(count)).then_some(upper)
        });
        match inside {
            Some(upper) => threshold = upper,
            None => return threshold,
        }
    }
}

/// Removes and returns the counts of the buckets that begin below `threshold`.
fn swallow<C>(list: &mut Vec<(i32, C)>, schema: i32, threshold: f64) -> Vec<C> {
    let end = list.partition_point(|(index, _)| bound(*index - 1, schema, &[]) < threshold);
    list.drain(..end).map(|(_, count)| count).collect()
}

fn merge(into: &mut Vec<(i32, Kahan)>, from: &[(i32, f64)], factor: f64) {
    let same_layout = into.len() == from.len()
        && into.iter().zip(from).all(|((own, _), (other, _))| own == other);
    if same_layout {
        for ((_, total), (_, count)) in into.iter_mut().zip(from) {
            total.add(count * factor);
        }
        return;
    }
    let own = std::mem::take(into);
    let mut own = own.into_iter().peekable();
    let mut other = from.iter().peekable();
    loop {
        match (own.peek(), other.peek()) {
            (Some((a, _)), Some((b, _))) if a < b => into.extend(own.next()),
            (Some((a, _)), Some((b, count))) if a == b => {
                let (index, mut total) = own.next().expect("it was peeked");
                total.add(count * factor);
                into.push((index, total));
                other.next();
            }
            (_, Some((b, count))) => {
                into.push((*b, Kahan::new(count * factor)));
                other.next();
            }
            (Some(_), None) => into.extend(own.next()),
            (None, None) => return,
        }
    }
}

fn combine_hints(own: CounterResetHint, other: CounterResetHint) -> (CounterResetHint, bool) {
    use CounterResetHint::{Gauge, Unknown};
    match (own, other) {
        (a, b) if a == b => (a, false),
        (Gauge, _) | (_, Gauge) => (Gauge, false),
        (Unknown, _) | (_, Unknown) => (Unknown, false),
        _ => (Unknown, true),
    }
}

/// The bounds that both have.
pub(super) fn intersect(a: &[f64], b: &[f64]) -> Vec<f64> {
    let (mut i, mut j) = (0, 0);
    let mut common = Vec::new();
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            common.push(a[i]);
            i += 1;
            j += 1;
        } else if a[i] < b[j] {
            i += 1;
        } else {
            j += 1;
        }
    }
    common
}

fn index_in_bounds(index: i32, bounds: &[f64], common: &[f64]) -> i32 {
    let upper = usize::try_from(index).ok().and_then(|at| bounds.get(at));
    let at = upper.map_or(common.len(), |upper| common.partition_point(|bound| bound < upper));
    at as i32
}

/// The counts of custom buckets in a coarser set of bounds.
pub(super) fn rebound(list: &[(i32, f64)], bounds: &[f64], common: &[f64]) -> Sparse {
    let mut mapped: Sparse = Vec::new();
    for (index, count) in list {
        let index = index_in_bounds(*index, bounds, common);
        match mapped.last_mut() {
            Some((last, total)) if *last == index => *total += count,
            _ => mapped.push((index, *count)),
        }
    }
    mapped
}

fn rebound_sums(list: Vec<(i32, Kahan)>, bounds: &[f64], common: &[f64]) -> Vec<(i32, Kahan)> {
    let mut mapped: Vec<(i32, Kahan)> = Vec::new();
    for (index, count) in list {
        let index = index_in_bounds(index, bounds, common);
        match mapped.last_mut() {
            Some((last, total)) if *last == index => total.merge(count),
            _ => mapped.push((index, count)),
        }
    }
    mapped
}

/// `a + b`
pub(crate) fn add(
    a: &FloatHistogram,
    b: &FloatHistogram,
) -> Result<(FloatHistogram, Noted), Incompatible> {
    let mut sum = Accumulator::new(a);
    let noted = sum.add(b, 1.0)?;
    Ok((sum.finish(), noted))
}

/// `a - b`; the hint is that of the sum.
pub(crate) fn subtract(
    a: &FloatHistogram,
    b: &FloatHistogram,
) -> Result<(FloatHistogram, Noted), Incompatible> {
    let mut sum = Accumulator::new(a);
    let noted = sum.add(b, -1.0)?;
    Ok((sum.finish(), noted))
}

/// `histogram * factor`; a gauge if the factor is negative.
pub(crate) fn multiply(histogram: &FloatHistogram, factor: f64) -> FloatHistogram {
    let mut product = histogram.clone();
    product.zero_count *= factor;
    product.count *= factor;
    product.sum *= factor;
    for count in product.positive_buckets.iter_mut().chain(&mut product.negative_buckets) {
        *count *= factor;
    }
    if factor < 0.0 {
        product.counter_reset_hint = CounterResetHint::Gauge;
    }
    product
}

/// `histogram / divisor`; a gauge if the divisor is negative, without buckets if it is zero.
pub(crate) fn divide(histogram: &FloatHistogram, divisor: f64) -> FloatHistogram {
    let mut quotient = histogram.clone();
    quotient.zero_count /= divisor;
    quotient.count /= divisor;
    quotient.sum /= divisor;
    if divisor == 0.0 {
        quotient.positive_spans.clear();
        quotient.positive_buckets.clear();
        quotient.negative_spans.clear();
        quotient.negative_buckets.clear();
        return quotient;
    }
    for count in quotient.positive_buckets.iter_mut().chain(&mut quotient.negative_buckets) {
        *count /= divisor;
    }
    if divisor < 0.0 {
        quotient.counter_reset_hint = CounterResetHint::Gauge;
    }
    quotient
}

/// The same histogram without empty buckets.
pub(crate) fn compact(mut histogram: FloatHistogram) -> FloatHistogram {
    let (spans, counts) = dense(sparse(&histogram.positive_spans, &histogram.positive_buckets));
    (histogram.positive_spans, histogram.positive_buckets) = (spans, counts);
    let (spans, counts) = dense(sparse(&histogram.negative_spans, &histogram.negative_buckets));
    (histogram.negative_spans, histogram.negative_buckets) = (spans, counts);
    histogram
}
