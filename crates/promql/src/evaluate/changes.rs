//! `changes` and `resets`, and where counters dropped.

use std::collections::VecDeque;
use std::sync::Arc;

use store::FloatHistogram;

use super::column::Output;
use super::range::{Call, Memory};
use super::window::View;
use crate::ast::RangeExtension;
use crate::histogram;

/// Places where something happened between a sample and the one before, with the value before.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    places: VecDeque<(usize, f64)>,
    next: usize,
}

impl Positions {
    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.next = 0;
    }

    /// Looks at the samples that are new in the window and forgets those that left it. `happened` is
    /// given the place in the window of the later one of two samples. Windows must come in order.
    pub(crate) fn slide(
        &mut self,
        view: &View<'_, f64>,
        mut happened: impl FnMut(usize) -> bool,
    ) -> &VecDeque<(usize, f64)> {
        let (low, high) = (view.first, view.first + view.len());
        for place in self.next.max(low + 1)..high {
            if happened(place - low) {
                self.places.push_back((place, view.values[place - low - 1]));
            }
        }
        self.next = self.next.max(high);
        while self.places.front().is_some_and(|(place, _)| *place <= low) {
            self.places.pop_front();
        }
        &self.places
    }
}

/// Whether the counts of a sample began after the sample before it.
///
/// A start that is unknown (0), not before its sample, or that of an unknown start (the time of the
/// sample before, where that one doesn't know its own) says nothing.
pub(crate) fn began_anew(previous: (i64, i64), current: (i64, i64)) -> bool {
    let (previous_start, previous_time) = previous;
    let (start, time) = current;
    if start == 0 || start >= time || start < previous_time {
        return false;
    }
    if start > previous_time {
        return true;
    }
    previous_start <= previous_time && previous_start != 0 && previous_start != previous_time
}

/// Whether a counter of floats dropped between places `at - 1` and `at` of the window.
pub(crate) fn dropped(view: &View<'_, f64>, at: usize, use_starts: bool) -> bool {
    view.values[at] < view.values[at - 1]
        || (use_starts
            && began_anew(
                (view.starts[at - 1], view.times[at - 1]),
                (view.starts[at], view.times[at]),
            ))
}

enum Sample<'a> {
    Float(f64),
    Histogram(&'a Arc<FloatHistogram>),
}

/// All samples of the window in the order of time, with start and time.
fn samples<'a>(call: &'a Call<'_>, skip: (usize, usize)) -> Vec<(i64, i64, Sample<'a>)> {
    let floats = (skip.0..call.floats.len()).map(|at| {
        (call.floats.starts[at], call.floats.times[at], Sample::Float(call.floats.values[at]))
    });
    let histograms = (skip.1..call.histograms.len()).map(|at| {
        let value = Sample::Histogram(&call.histograms.values[at]);
        (call.histograms.starts[at], call.histograms.times[at], value)
    });
    let mut all: Vec<_> = floats.chain(histograms).collect();
    all.sort_by_key(|(_, time, _)| *time);
    all
}

/// How many floats and histograms of an `anchored` window come before its anchor, the newest sample
/// at or before the start of the range. None if nothing lies behind the start.
fn before_anchor(call: &Call<'_>) -> Option<(usize, usize)> {
    if call.extension != RangeExtension::Anchored {
        return Some((0, 0));
    }
    let floats = call.floats.times.partition_point(|time| *time <= call.start);
    let histograms = call.histograms.times.partition_point(|time| *time <= call.start);
    if floats == call.floats.len() && histograms == call.histograms.len() {
        return None;
    }
    let last_float = floats.checked_sub(1).map(|at| call.floats.times[at]);
    let last_histogram = histograms.checked_sub(1).map(|at| call.histograms.times[at]);
    Some(match (last_float, last_histogram) {
        (None, None) => (0, 0),
        (Some(float), Some(histogram)) if float < histogram => (floats, histograms - 1),
        (None, Some(_)) => (floats, histograms - 1),
        (Some(_), _) => (floats - 1, histograms),
    })
}

/// How often the counter was reset in the window.
pub(crate) fn resets(call: &Call<'_>, memory: &mut Memory) -> Output {
    let Some(skip) = before_anchor(call) else { return Output::Nothing };
    if call.histograms.is_empty() && skip == (0, 0) {
        let use_starts = call.use_starts;
        let found = memory.drops.slide(&call.floats, |at| dropped(&call.floats, at, use_starts));
        return Output::Float(found.len() as f64);
    }
    let all = samples(call, skip);
    let count = all.windows(2).filter(|pair| {
        let [previous, current] = pair else { unreachable!("windows of two") };
        let anew = call.use_starts && began_anew((previous.0, previous.1), (current.0, current.1));
        match (&previous.2, &current.2) {
            (Sample::Float(before), Sample::Float(now)) => now < before || anew,
            (Sample::Histogram(before), Sample::Histogram(now)) => {
                anew || histogram::is_reset(now, before)
            }
            _ => true,
        }
    });
    Output::Float(count.count() as f64)
}

/// How often the value changed in the window.
pub(crate) fn changes(call: &Call<'_>, memory: &mut Memory) -> Output {
    let Some(skip) = before_anchor(call) else { return Output::Nothing };
    let differ = |before: f64, now: f64| now != before && !(now.is_nan() && before.is_nan());
    if call.histograms.is_empty() && skip == (0, 0) {
        let values = call.floats.values;
        let found = memory.changes.slide(&call.floats, |at| differ(values[at - 1], values[at]));
        return Output::Float(found.len() as f64);
    }
    let all = samples(call, skip);
    let count = all.windows(2).filter(|pair| match (&pair[0].2, &pair[1].2) {
        (Sample::Float(before), Sample::Float(now)) => differ(*before, *now),
        (Sample::Histogram(before), Sample::Histogram(now)) => !histogram::equal(now, before),
        _ => true,
    });
    Output::Float(count.count() as f64)
}
