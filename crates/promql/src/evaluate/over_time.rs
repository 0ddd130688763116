//! `*_over_time`: aggregations of the samples in a window.

use std::sync::Arc;

use store::FloatHistogram;
use store::histogram::CounterResetHint;

use super::column::Output;
use super::range::{Call, Memory};
use crate::annotations::Annotations;
use crate::histogram::{Accumulator, Incompatible};
use crate::kahan::Kahan;

/// Whether the window holds both kinds, which is noted.
fn is_mixed(call: &Call<'_>, annotations: &mut Annotations) -> bool {
    let mixed = !call.floats.is_empty() && !call.histograms.is_empty();
    if mixed {
        super::notes::mixed_floats(annotations, call.span, call.metric);
    }
    mixed
}

/// `sum_over_time`
pub(crate) fn sum(call: &Call<'_>, memory: &mut Memory, annotations: &mut Annotations) -> Output {
    if is_mixed(call, annotations) {
        return Output::Nothing;
    }
    if call.floats.is_empty() {
        return fold_histograms(call, annotations, false);
    }
    Output::Float(memory.sums.sum(&call.floats).value())
}

/// `avg_over_time`
pub(crate) fn average(
    call: &Call<'_>,
    memory: &mut Memory,
    annotations: &mut Annotations,
) -> Output {
    if is_mixed(call, annotations) {
        return Output::Nothing;
    }
    if call.floats.is_empty() {
        return fold_histograms(call, annotations, true);
    }
    let sum = memory.sums.sum(&call.floats);
    if sum.sum.is_finite() {
        let count = call.floats.len() as f64;
        return Output::Float(sum.sum / count + sum.lost / count);
    }
    Output::Float(mean(call.floats.values))
}

/// The mean of values whose sum may be too large for a float.
pub(crate) fn mean(values: &[f64]) -> f64 {
    let mut mean = Mean::default();
    for value in values {
        mean.add(*value);
    }
    mean.value()
}

/// A running mean: a sum as long as it is finite, then a mean that moves with each value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mean {
    count: f64,
    total: Kahan,
    moving: bool,
}

impl Mean {
    pub(crate) fn add(&mut self, value: f64) {
        self.count += 1.0;
        if self.count == 1.0 {
            self.total = Kahan::new(value);
            return;
        }
        if !self.moving {
            let mut total = self.total;
            total.add(value);
            if total.sum.is_infinite() {
                self.moving = true;
                self.total.divide(self.count - 1.0);
            } else {
                self.total = total;
                return;
            }
        }
        self.total.scale((self.count - 1.0) / self.count);
        self.total.add(value / self.count);
    }

    pub(crate) fn value(&self) -> f64 {
        if self.moving {
            self.total.sum + self.total.lost
        } else {
            self.total.sum / self.count + self.total.lost / self.count
        }
    }
}

/// A running sum or mean of histograms, and what it noticed.
#[derive(Clone, Debug)]
pub(crate) struct HistogramFold {
    total: Accumulator,
    count: f64,
    mean: bool,
    moving: bool,
    seen_reset: bool,
    seen_no_reset: bool,
}

impl HistogramFold {
    pub(crate) fn new(first: &FloatHistogram, mean: bool) -> Self {
        let mut fold = HistogramFold {
            total: Accumulator::new(first),
            count: 1.0,
            mean,
            moving: false,
            seen_reset: false,
            seen_no_reset: false,
        };
        fold.see(first);
        fold
    }

    fn see(&mut self, histogram: &FloatHistogram) {
        match histogram.counter_reset_hint {
            CounterResetHint::Reset => self.seen_reset = true,
            CounterResetHint::NoReset => self.seen_no_reset = true,
            CounterResetHint::Unknown | CounterResetHint::Gauge => {}
        }
    }

    /// Adds a histogram; whether custom bounds differed.
    pub(crate) fn add(&mut self, histogram: &FloatHistogram) -> Result<bool, Incompatible> {
        self.see(histogram);
        self.count += 1.0;
        if self.mean && !self.moving && self.total.would_overflow(histogram) {
            self.moving = true;
            self.total.divide(self.count - 1.0);
        }
        if !self.moving {
            return Ok(self.total.add(histogram, 1.0)?.reconciled);
        }
        self.total.scale((self.count - 1.0) / self.count);
        let part = crate::histogram::divide(histogram, self.count);
        Ok(self.total.add(&part, 1.0)?.reconciled)
    }

    /// Whether some histograms say that they were reset and others that they were not.
    pub(crate) fn has_collision(&self) -> bool {
        self.seen_reset && self.seen_no_reset
    }

    pub(crate) fn finish(&self) -> FloatHistogram {
        if self.mean && !self.moving {
            let mut mean = self.total.clone();
            mean.divide(self.count);
            return mean.finish();
        }
        self.total.finish()
    }
}

fn fold_histograms(call: &Call<'_>, annotations: &mut Annotations, mean: bool) -> Output {
    let mut values = call.histograms.values.iter();
    let Some(first) = values.next() else { return Output::Nothing };
    let mut fold = HistogramFold::new(first, mean);
    let mut reconciled = false;
    for histogram in values {
        match fold.add(histogram) {
            Ok(found) => reconciled |= found,
            Err(Incompatible) => {
                super::notes::mixed_buckets(annotations, call.span, call.metric);
                return Output::Nothing;
            }
        }
    }
    if fold.has_collision() {
        super::notes::collision(annotations, call.span, "aggregation");
    }
    if reconciled {
        super::notes::reconciled(annotations, call.span, "aggregation");
    }
    Output::histogram(fold.finish())
}

/// `first_over_time`
pub(crate) fn first(call: &Call<'_>) -> Output {
    match (call.floats.times.first(), call.histograms.times.first()) {
        (Some(float), Some(histogram)) if float >= histogram => {
            Output::Histogram(Arc::clone(&call.histograms.values[0]))
        }
        (Some(_), _) => Output::Float(call.floats.values[0]),
        (None, Some(_)) => Output::Histogram(Arc::clone(&call.histograms.values[0])),
        (None, None) => Output::Nothing,
    }
}

/// `last_over_time`
pub(crate) fn last(call: &Call<'_>) -> Output {
    let float = call.floats.times.last().zip(call.floats.values.last());
    let histogram = call.histograms.times.last().zip(call.histograms.values.last());
    match (float, histogram) {
        (Some((time, _)), Some((other, value))) if time <= other => {
            Output::Histogram(Arc::clone(value))
        }
        (Some((_, value)), _) => Output::Float(*value),
        (None, Some((_, value))) => Output::Histogram(Arc::clone(value)),
        (None, None) => Output::Nothing,
    }
}

/// `ts_of_first_over_time`
pub(crate) fn time_of_first(call: &Call<'_>) -> Output {
    let times = [call.floats.times.first(), call.histograms.times.first()];
    times.into_iter().flatten().min().map_or(Output::Nothing, |t| seconds(*t))
}

/// `ts_of_last_over_time`
pub(crate) fn time_of_last(call: &Call<'_>) -> Output {
    let times = [call.floats.times.last(), call.histograms.times.last()];
    times.into_iter().flatten().max().map_or(Output::Nothing, |t| seconds(*t))
}

fn seconds(time: i64) -> Output {
    Output::Float(time as f64 / 1000.0)
}

/// `min_over_time`, `max_over_time`
pub(crate) fn extreme(
    call: &Call<'_>,
    memory: &mut Memory,
    annotations: &mut Annotations,
    smallest: bool,
) -> Output {
    if call.floats.is_empty() {
        return Output::Nothing;
    }
    call.note_ignored(annotations);
    Output::Float(memory.extremes.extreme(&call.floats, smallest))
}

/// `ts_of_min_over_time`, `ts_of_max_over_time`: of equal values, the last one.
pub(crate) fn time_of_extreme(
    call: &Call<'_>,
    annotations: &mut Annotations,
    smallest: bool,
) -> Output {
    let Some(first) = call.floats.values.first() else { return Output::Nothing };
    call.note_ignored(annotations);
    let mut found = (*first, call.floats.times[0]);
    for (value, time) in call.floats.values.iter().zip(call.floats.times) {
        let better = if smallest { *value <= found.0 } else { *value >= found.0 };
        if better || found.0.is_nan() {
            found = (*value, *time);
        }
    }
    seconds(found.1)
}

/// `quantile_over_time`
pub(crate) fn quantile(
    call: &Call<'_>,
    memory: &mut Memory,
    annotations: &mut Annotations,
) -> Output {
    if call.floats.is_empty() {
        return Output::Nothing;
    }
    let q = call.arguments[0];
    if !(0.0..=1.0).contains(&q) {
        super::notes::invalid_quantile(annotations, call.span, q);
    }
    call.note_ignored(annotations);
    memory.sorted.clear();
    memory.sorted.extend_from_slice(call.floats.values);
    Output::Float(quantile_of(q, &mut memory.sorted))
}

/// The quantile of values, which are sorted by this, NaN first.
pub(crate) fn quantile_of(q: f64, values: &mut [f64]) -> f64 {
    if values.is_empty() || q.is_nan() {
        return f64::NAN;
    }
    if q < 0.0 {
        return f64::NEG_INFINITY;
    }
    if q > 1.0 {
        return f64::INFINITY;
    }
    values.sort_unstable_by(|a, b| match (a.is_nan(), b.is_nan()) {
        (false, false) => a.total_cmp(b),
        (a, b) => b.cmp(&a),
    });
    let last = values.len() - 1;
    let rank = q * last as f64;
    let lower = (rank.floor().max(0.0) as usize).min(last);
    let upper = (lower + 1).min(last);
    let weight = rank - rank.floor();
    values[lower] * (1.0 - weight) + values[upper] * weight
}

/// `stddev_over_time`, `stdvar_over_time`
pub(crate) fn deviation(call: &Call<'_>, annotations: &mut Annotations, root: bool) -> Output {
    if call.floats.is_empty() {
        return Output::Nothing;
    }
    call.note_ignored(annotations);
    let mut count = 0.0;
    let (mut mean, mut squares) = (Kahan::default(), Kahan::default());
    for value in call.floats.values {
        count += 1.0;
        let delta = value - (mean.sum + mean.lost);
        mean.add(delta / count);
        squares.add(delta * (value - (mean.sum + mean.lost)));
    }
    let variance = (squares.sum + squares.lost) / count;
    Output::Float(if root { variance.sqrt() } else { variance })
}

/// `mad_over_time`: the median of the distances to the median.
pub(crate) fn absolute_deviation(
    call: &Call<'_>,
    memory: &mut Memory,
    annotations: &mut Annotations,
) -> Output {
    if call.floats.is_empty() {
        return Output::Nothing;
    }
    call.note_ignored(annotations);
    if call.floats.values.iter().any(|value| value.is_nan()) {
        return Output::Float(f64::NAN);
    }
    let values = &mut memory.sorted;
    values.clear();
    values.extend_from_slice(call.floats.values);
    let median = quantile_of(0.5, values);
    for value in values.iter_mut() {
        *value = (*value - median).abs();
    }
    Output::Float(quantile_of(0.5, values))
}
