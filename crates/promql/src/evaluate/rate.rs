//! `rate`, `increase`, `delta`, `irate`, `idelta`.
//!
//! 1. The difference between the last and the first sample, plus what was counted before each reset.
//! 2. Extrapolated to the ends of the range if the samples come close to them (110% of their mean
//!    distance), otherwise by half of that distance; a counter never to below zero.
//!
//! With `anchored` and `smoothed` nothing is extrapolated: the window holds samples beyond its ends.

use std::sync::Arc;

use store::FloatHistogram;
use store::histogram::CounterResetHint;

use super::changes::{began_anew, dropped};
use super::column::Output;
use super::range::{Call, Memory};
use super::smooth::{between, between_histograms};
use super::window::View;
use crate::annotations::Annotations;
use crate::ast::RangeExtension;
use crate::histogram::{self, Incompatible, has_custom_buckets};

/// Whether a sample's start lies before the sample before it, and is not that one's start either.
fn overlaps(previous_start: i64, previous_time: i64, start: i64) -> bool {
    start != 0 && start < previous_time && start != previous_start
}

/// The difference over the window, before extrapolation.
struct Difference {
    float: f64,
    histogram: Option<FloatHistogram>,
    first_time: i64,
    last_time: i64,
    /// When the first sample's counts began.
    first_start: i64,
    intervals: usize,
}

/// `rate`, `increase`, `delta`
pub(crate) fn extrapolated(
    call: &Call<'_>,
    memory: &mut Memory,
    annotations: &mut Annotations,
    counter: bool,
    per_second: bool,
) -> Output {
    if !call.floats.is_empty() && !call.histograms.is_empty() {
        super::notes::mixed_floats(annotations, call.span, call.metric);
        return Output::Nothing;
    }
    if call.extension != RangeExtension::None {
        return if call.histograms.is_empty() {
            extended(call, counter, per_second)
        } else {
            extended_histogram(call, annotations, counter, per_second)
        };
    }
    let difference = if call.histograms.is_empty() {
        float_difference(call, memory, annotations, counter)
    } else {
        match histogram_difference(call, annotations, counter) {
            Some(difference) => difference,
            None => return Output::Nothing,
        }
    };
    extrapolate(call, annotations, difference, counter, per_second)
}

fn float_difference(
    call: &Call<'_>,
    memory: &mut Memory,
    annotations: &mut Annotations,
    counter: bool,
) -> Difference {
    let floats = &call.floats;
    let last = floats.len() - 1;
    let mut float = floats.values[last] - floats.values[0];
    if counter {
        let use_starts = call.use_starts;
        for (_, before) in memory.drops.slide(floats, |at| dropped(floats, at, use_starts)) {
            float += before;
        }
        if use_starts {
            note_overlap(call, annotations, floats.starts, floats.times);
        }
    }
    Difference {
        float,
        histogram: None,
        first_time: floats.times[0],
        last_time: floats.times[last],
        first_start: if call.use_starts { floats.starts[0] } else { 0 },
        intervals: last,
    }
}

fn note_overlap(call: &Call<'_>, annotations: &mut Annotations, starts: &[i64], times: &[i64]) {
    if (1..starts.len()).any(|at| overlaps(starts[at - 1], times[at - 1], starts[at])) {
        super::notes::start_overlaps(annotations, call.span, call.metric);
    }
}

fn histogram_difference(
    call: &Call<'_>,
    annotations: &mut Annotations,
    counter: bool,
) -> Option<Difference> {
    let histograms = &call.histograms;
    let last = histograms.len() - 1;
    let histogram =
        if last == 0 { None } else { Some(histogram_rate(call, annotations, counter)?) };
    Some(Difference {
        float: 0.0,
        histogram,
        first_time: histograms.times[0],
        last_time: histograms.times[last],
        first_start: if call.use_starts { histograms.starts[0] } else { 0 },
        intervals: last,
    })
}

fn is_gauge(histogram: &FloatHistogram) -> bool {
    histogram.counter_reset_hint == CounterResetHint::Gauge
}

/// The difference of at least two histograms; none if their buckets don't mix.
fn histogram_rate(
    call: &Call<'_>,
    annotations: &mut Annotations,
    counter: bool,
) -> Option<FloatHistogram> {
    let (values, times, starts) =
        (call.histograms.values, call.histograms.times, call.histograms.starts);
    let last = values.len() - 1;
    let anew = |at: usize| {
        call.use_starts && began_anew((starts[at - 1], times[at - 1]), (starts[at], times[at]))
    };
    let reset = |at: usize, previous: &FloatHistogram| {
        anew(at) || histogram::is_reset(&values[at], previous)
    };
    if counter && (is_gauge(&values[0]) || is_gauge(&values[last])) {
        super::notes::not_counter(annotations, call.span, call.metric);
    }
    // If the first sample belongs to an earlier life of the counter, its buckets don't matter.
    let empty;
    let first: &FloatHistogram = if counter && reset(1, &values[0]) {
        empty = FloatHistogram {
            schema: values[1].schema,
            custom_values: values[1].custom_values.clone(),
            ..FloatHistogram::default()
        };
        &empty
    } else {
        &values[0]
    };
    let custom = has_custom_buckets(first);
    let mut schema = values[last].schema.min(first.schema);
    let mut mixed = has_custom_buckets(&values[last]) != custom;
    if counter && !mixed {
        for histogram in &values[1..last] {
            if is_gauge(histogram) {
                super::notes::not_counter(annotations, call.span, call.metric);
            }
            schema = schema.min(histogram.schema);
            mixed |= has_custom_buckets(histogram) != custom;
        }
    }
    if mixed {
        super::notes::mixed_buckets(annotations, call.span, call.metric);
        return None;
    }
    let difference = difference_with_resets(call, annotations, first, schema, counter, reset);
    let Ok(mut difference) = difference else {
        super::notes::mixed_buckets(annotations, call.span, call.metric);
        return None;
    };
    if counter && call.use_starts {
        note_overlap(call, annotations, starts, times);
    }
    let gauges = is_gauge(&values[0]) && is_gauge(&values[last]);
    if !counter && !gauges {
        super::notes::not_gauge(annotations, call.span, call.metric);
    }
    difference.counter_reset_hint = CounterResetHint::Gauge;
    Some(difference)
}

fn difference_with_resets(
    call: &Call<'_>,
    annotations: &mut Annotations,
    first: &FloatHistogram,
    schema: i32,
    counter: bool,
    reset: impl Fn(usize, &FloatHistogram) -> bool,
) -> Result<FloatHistogram, Incompatible> {
    let values = call.histograms.values;
    let last = histogram::copy_to_schema(&values[values.len() - 1], schema);
    let mut sum = histogram::Accumulator::new(&last);
    if sum.add(first, -1.0)?.reconciled {
        super::notes::reconciled(annotations, call.span, "subtraction");
    }
    if counter {
        let mut previous = first;
        for (at, current) in values.iter().enumerate().skip(1) {
            if reset(at, previous) && sum.add(previous, 1.0)?.reconciled {
                super::notes::reconciled(annotations, call.span, "addition");
            }
            previous = current;
        }
    }
    Ok(sum.finish())
}

fn extrapolate(
    call: &Call<'_>,
    annotations: &mut Annotations,
    difference: Difference,
    counter: bool,
    per_second: bool,
) -> Output {
    let Difference { mut float, mut histogram, first_time, last_time, first_start, intervals } =
        difference;
    let mut to_start = (first_time - call.start) as f64 / 1000.0;
    let mut to_end = (call.end - last_time) as f64 / 1000.0;
    let mut sampled = (last_time - first_time) as f64 / 1000.0;
    let distance = if intervals > 0 { sampled / intervals as f64 } else { 0.0 };
    let threshold = distance * 1.1;
    if counter && first_start != 0 && first_start > call.start && first_start < first_time {
        // The counter is known to have begun at zero inside the range.
        to_start = 0.0;
        sampled = (last_time - first_start) as f64 / 1000.0;
        if let Some(value) = call.floats.values.first() {
            float += value;
        } else if let Some(first) = call.histograms.values.first() {
            histogram = match histogram {
                None => Some(FloatHistogram::clone(first)),
                Some(sum) => match histogram::add(&sum, first) {
                    Ok((sum, noted)) => {
                        if noted.reconciled {
                            super::notes::reconciled(annotations, call.span, "addition");
                        }
                        Some(sum)
                    }
                    Err(Incompatible) => {
                        super::notes::mixed_buckets(annotations, call.span, call.metric);
                        return Output::Nothing;
                    }
                },
            };
        }
    } else if intervals == 0 {
        return Output::Nothing;
    } else {
        if to_start >= threshold {
            to_start = distance / 2.0;
        }
        if counter {
            to_start = to_start.min(to_zero(call, float, histogram.as_ref(), sampled, to_start));
        }
    }
    if to_end >= threshold {
        to_end = distance / 2.0;
    }
    let mut factor = if sampled == 0.0 { 1.0 } else { (sampled + to_start + to_end) / sampled };
    if per_second {
        factor /= call.seconds();
    }
    match histogram {
        None => Output::Float(float * factor),
        Some(sum) => Output::histogram(histogram::compact(histogram::multiply(&sum, factor))),
    }
}

/// How long before the first sample the counter would have been zero, if it grew evenly.
fn to_zero(
    call: &Call<'_>,
    float: f64,
    difference: Option<&FloatHistogram>,
    sampled: f64,
    otherwise: f64,
) -> f64 {
    if let Some(first) = call.floats.values.first() {
        if float > 0.0 && *first >= 0.0 {
            return sampled * (first / float);
        }
    } else if let (Some(difference), Some(first)) = (difference, call.histograms.values.first())
        && difference.count > 0.0
        && first.count >= 0.0
    {
        return sampled * (first.count / difference.count);
    }
    otherwise
}

/// The samples that `anchored` and `smoothed` look at: the last one before the range, or the first
/// one; and the last one, or the first one behind the range. None if all lie outside.
fn ends(call: &Call<'_>, times: &[i64]) -> Option<(usize, usize)> {
    let smoothed = call.extension == RangeExtension::Smoothed;
    let mut last = times.len() - 1;
    let first = times[..last].partition_point(|time| *time <= call.start).saturating_sub(1);
    if smoothed {
        last = times[..last].partition_point(|time| *time < call.end);
    }
    let outside = times[last] <= call.start || (smoothed && times[first] > call.end);
    (!outside).then_some((first, last))
}

fn extended(call: &Call<'_>, counter: bool, per_second: bool) -> Output {
    let (times, values) = (call.floats.times, call.floats.values);
    let Some((mut first, mut last)) = ends(call, times) else { return Output::Nothing };
    let smoothed = call.extension == RangeExtension::Smoothed;
    let point = |at: usize| (times[at], values[at]);
    let left = if smoothed && times[first] < call.start && first + 1 < times.len() {
        between(point(first), point(first + 1), call.start, counter)
    } else {
        values[first]
    };
    let right = if smoothed && last > 0 && times[last] > call.end {
        between(point(last - 1), point(last), call.end, counter)
    } else {
        values[last]
    };
    let mut difference = right - left;
    if counter {
        // The ends have taken care of resets next to them.
        if times[first] <= call.start {
            first += 1;
        }
        let end = if times[last] >= call.end { last } else { last + 1 };
        last = end.max(first);
        let mut previous = left;
        for value in values[first..last].iter().chain([&right]) {
            if *value < previous {
                difference += previous;
            }
            previous = *value;
        }
    }
    if per_second {
        difference /= call.seconds();
    }
    Output::Float(difference)
}

fn extended_histogram(
    call: &Call<'_>,
    annotations: &mut Annotations,
    counter: bool,
    per_second: bool,
) -> Output {
    let times = call.histograms.times;
    let Some((first, last)) = ends(call, times) else { return Output::Nothing };
    match extended_difference(call, annotations, first, last, counter) {
        Ok(mut difference) => {
            if per_second {
                difference = histogram::divide(&difference, call.seconds());
            }
            difference.counter_reset_hint = CounterResetHint::Gauge;
            Output::histogram(histogram::compact(difference))
        }
        Err(Incompatible) => {
            super::notes::mixed_buckets(annotations, call.span, call.metric);
            Output::Nothing
        }
    }
}

fn extended_difference(
    call: &Call<'_>,
    annotations: &mut Annotations,
    first: usize,
    last: usize,
    counter: bool,
) -> Result<FloatHistogram, Incompatible> {
    let (times, values) = (call.histograms.times, call.histograms.values);
    let smoothed = call.extension == RangeExtension::Smoothed;
    let custom = has_custom_buckets(&values[first]);
    for histogram in &values[first..=last] {
        if has_custom_buckets(histogram) != custom {
            return Err(Incompatible);
        }
        if counter && is_gauge(histogram) {
            super::notes::not_counter(annotations, call.span, call.metric);
        }
    }
    let at = |place: usize| (times[place], values[place].as_ref());
    let cut_left = smoothed && times[first] < call.start && first + 1 < times.len();
    let left = if cut_left {
        let (a, b) = (at(first), at(first + 1));
        between_histograms(a, b, call.start, counter, annotations, call.span)?
    } else {
        FloatHistogram::clone(&values[first])
    };
    let right = if smoothed && last > 0 && times[last] > call.end {
        let (a, b) = (at(last - 1), at(last));
        between_histograms(a, b, call.end, counter, annotations, call.span)?
    } else {
        FloatHistogram::clone(&values[last])
    };
    let gauges = is_gauge(&left) && is_gauge(&right);
    if !counter && !gauges {
        super::notes::not_gauge(annotations, call.span, call.metric);
    }
    let mut sum = histogram::Accumulator::new(&right);
    if sum.add(&left, -1.0)?.reconciled {
        super::notes::reconciled(annotations, call.span, "subtraction");
    }
    if counter {
        let before = resets_between(values, first, last, cut_left, &left, &right);
        for histogram in before {
            if sum.add(histogram, 1.0)?.reconciled {
                super::notes::reconciled(annotations, call.span, "addition");
            }
        }
    }
    Ok(sum.finish())
}

/// The histograms just before each reset between the two ends.
fn resets_between<'a>(
    values: &'a [Arc<FloatHistogram>],
    first: usize,
    last: usize,
    cut_left: bool,
    left: &'a FloatHistogram,
    right: &'a FloatHistogram,
) -> Vec<&'a FloatHistogram> {
    let mut begin = first + 1;
    let mut previous = left;
    if cut_left && histogram::is_reset(&values[first + 1], &values[first]) {
        // The interpolation at the left end has taken care of this reset.
        previous = &values[first + 1];
        begin += 1;
    }
    // The last sample is the right end, or has lent it its hint; it must not be counted twice.
    if begin > last {
        return Vec::new();
    }
    let mut found = Vec::new();
    for current in values[begin..last].iter().map(AsRef::as_ref).chain([right]) {
        if histogram::is_reset(current, previous) {
            found.push(previous);
        }
        previous = current;
    }
    found
}

/// `irate` (`counter`) and `idelta`: the difference of the last two samples.
pub(crate) fn last_two(call: &Call<'_>, annotations: &mut Annotations, counter: bool) -> Output {
    let (floats, histograms) = (&call.floats, &call.histograms);
    let mut pair: Vec<(i64, bool, usize)> = Vec::with_capacity(4);
    pair.extend(
        (floats.len().saturating_sub(2)..floats.len()).map(|i| (floats.times[i], false, i)),
    );
    let newest = histograms.len().saturating_sub(2)..histograms.len();
    pair.extend(newest.map(|i| (histograms.times[i], true, i)));
    pair.sort_by_key(|(time, _, _)| *time);
    let [.., (first_time, first_kind, first), (last_time, last_kind, last)] = pair[..] else {
        return Output::Nothing;
    };
    if last_time == first_time {
        return Output::Nothing;
    }
    let seconds = (last_time - first_time) as f64 / 1000.0;
    let anew = |starts: &[i64]| {
        call.use_starts && began_anew((starts[first], first_time), (starts[last], last_time))
    };
    match (first_kind, last_kind) {
        (false, false) => {
            let (before, now) = (floats.values[first], floats.values[last]);
            let reset = counter && (now < before || anew(floats.starts));
            let difference = if reset { now } else { now - before };
            Output::Float(if counter { difference / seconds } else { difference })
        }
        (true, true) => {
            let (before, now) = (&histograms.values[first], &histograms.values[last]);
            if counter && (is_gauge(before) || is_gauge(now)) {
                super::notes::not_counter(annotations, call.span, call.metric);
            }
            let gauges = is_gauge(before) && is_gauge(now);
            if !counter && !gauges {
                super::notes::not_gauge(annotations, call.span, call.metric);
            }
            let reset = counter && (anew(histograms.starts) || histogram::is_reset(now, before));
            let mut difference = FloatHistogram::clone(now);
            if !reset {
                let Ok((found, noted)) = histogram::subtract(now, before) else {
                    super::notes::mixed_buckets(annotations, call.span, call.metric);
                    return Output::Nothing;
                };
                if noted.reconciled {
                    super::notes::reconciled(annotations, call.span, "subtraction");
                }
                difference = found;
            }
            difference.counter_reset_hint = CounterResetHint::Gauge;
            if counter {
                difference = histogram::divide(&difference, seconds);
            }
            Output::histogram(histogram::compact(difference))
        }
        _ => {
            super::notes::mixed_floats(annotations, call.span, call.metric);
            Output::Nothing
        }
    }
}

/// The samples of an `anchored` or `smoothed` range vector: with one at each end of the range.
pub(crate) fn extended_points(
    floats: &View<'_, f64>,
    extension: RangeExtension,
    start: i64,
    end: i64,
) -> Vec<(i64, f64)> {
    let (times, values) = (floats.times, floats.values);
    let Some(newest) = times.len().checked_sub(1) else { return Vec::new() };
    let smoothed = extension == RangeExtension::Smoothed;
    let mut last = newest;
    let mut first = times[..last].partition_point(|time| *time <= start).saturating_sub(1);
    if smoothed {
        last = times[..last].partition_point(|time| *time < end);
    }
    if times[last] <= start {
        return Vec::new();
    }
    let point = |at: usize| (times[at], values[at]);
    let left = if smoothed && times[first] < start && first < newest {
        between(point(first), point(first + 1), start, false)
    } else {
        values[first]
    };
    let right = if smoothed && last > 0 && times[last] > end {
        between(point(last - 1), point(last), end, false)
    } else {
        values[last]
    };
    if times[first] <= start {
        first += 1;
    }
    let stop = if times[last] >= end { last } else { last + 1 };
    let inside = (first..stop.max(first)).map(point);
    std::iter::once((start, left)).chain(inside).chain([(end, right)]).collect()
}
