//! Values between samples: `smoothed` selectors, and the ends of `anchored` and `smoothed` ranges.

use std::sync::Arc;

use store::histogram::CounterResetHint;
use store::{FloatHistogram, Series};

use super::column::{Column, Grid, Output};
use super::context::{Context, Scratch};
use super::plan::When;
use super::window::View;
use crate::annotations::Annotations;
use crate::ast::Span;
use crate::error::QueryError;
use crate::histogram::{self, Incompatible, has_custom_buckets};

/// The value at `time` on the line between two samples. After a reset, a counter comes from zero.
pub(crate) fn between(first: (i64, f64), second: (i64, f64), time: i64, counter: bool) -> f64 {
    let from = if counter && second.1 < first.1 { 0.0 } else { first.1 };
    from + (second.1 - from) * (time - first.0) as f64 / (second.0 - first.0) as f64
}

/// The histogram at `time` on the line between two samples.
pub(crate) fn between_histograms(
    first: (i64, &FloatHistogram),
    second: (i64, &FloatHistogram),
    time: i64,
    counter: bool,
    annotations: &mut Annotations,
    span: Span,
) -> Result<FloatHistogram, Incompatible> {
    if time == first.0 {
        return Ok(first.1.clone());
    }
    if time == second.0 {
        return Ok(second.1.clone());
    }
    let fraction = (time - first.0) as f64 / (second.0 - first.0) as f64;
    if counter && histogram::is_reset(second.1, first.1) {
        return Ok(histogram::multiply(second.1, fraction));
    }
    let (difference, noted) = histogram::subtract(second.1, first.1)?;
    if noted.reconciled {
        super::notes::reconciled(annotations, span, "subtraction");
    }
    let (sum, noted) = histogram::add(&histogram::multiply(&difference, fraction), first.1)?;
    if noted.reconciled {
        super::notes::reconciled(annotations, span, "addition");
    }
    Ok(sum)
}

/// A `smoothed` instant selector: between the samples around each step.
pub(crate) fn fill(
    context: &Context<'_>,
    series: &dyn Series,
    grid: Grid,
    when: When,
    span: Span,
    scratch: &mut Scratch,
    out: &mut Column,
) -> Result<(), QueryError> {
    let lookback = context.environment.lookback_delta;
    let mut cursor = series.cursor();
    let mut buffer = scratch.take_buffer();
    let name = series.labels().metric_name();
    for step in 0..grid.count {
        let time = when.reference(grid.time(step));
        buffer.slide(cursor.as_mut(), &mut scratch.samples, time - lookback, time + lookback)?;
        let (floats, histograms) = (buffer.floats(), buffer.histograms());
        let output = match (floats.is_empty(), histograms.is_empty()) {
            (true, true) => Output::Nothing,
            (false, false) => {
                super::notes::mixed_floats(&mut scratch.annotations, span, name);
                Output::Nothing
            }
            (false, true) => float_at(&floats, time),
            (true, false) => histogram_at(&histograms, time, &mut scratch.annotations, span, name),
        };
        out.set(step, output);
    }
    scratch.read += buffer.read;
    scratch.total += out.weight();
    scratch.give_buffer(buffer);
    Ok(())
}

fn float_at(floats: &View<'_, f64>, time: i64) -> Output {
    let next = floats.times.partition_point(|candidate| *candidate < time);
    if floats.times.get(next) == Some(&time) {
        return Output::Float(floats.values[next]);
    }
    let Some(previous) = next.checked_sub(1) else { return Output::Nothing };
    let first = (floats.times[previous], floats.values[previous]);
    match floats.times.get(next) {
        Some(t) => Output::Float(between(first, (*t, floats.values[next]), time, false)),
        None => Output::Float(first.1),
    }
}

fn histogram_at(
    histograms: &View<'_, Arc<FloatHistogram>>,
    time: i64,
    annotations: &mut Annotations,
    span: Span,
    name: &str,
) -> Output {
    let next = histograms.times.partition_point(|candidate| *candidate < time);
    if histograms.times.get(next) == Some(&time) {
        return Output::Histogram(histograms.values[next].clone());
    }
    let Some(at) = next.checked_sub(1) else { return Output::Nothing };
    let previous = &histograms.values[at];
    let Some(next_time) = histograms.times.get(next) else {
        // The hint is about two samples and not about the value in between.
        let mut copy = FloatHistogram::clone(previous);
        copy.counter_reset_hint = CounterResetHint::Unknown;
        return Output::histogram(copy);
    };
    let following = &histograms.values[next];
    let gauge = |h: &FloatHistogram| h.counter_reset_hint == CounterResetHint::Gauge;
    let counter = !gauge(previous) || !gauge(following);
    let between = if has_custom_buckets(previous) == has_custom_buckets(following) {
        let first = (histograms.times[at], previous.as_ref());
        between_histograms(first, (*next_time, following), time, counter, annotations, span)
    } else {
        Err(Incompatible)
    };
    match between {
        Ok(histogram) => Output::histogram(histogram),
        Err(Incompatible) => {
            super::notes::mixed_buckets(annotations, span, name);
            Output::Nothing
        }
    }
}
