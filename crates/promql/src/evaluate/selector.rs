//! Instant vector selectors: at each step the newest sample within the lookback delta.

use std::sync::Arc;

use store::{Matcher, Samples, Series};

use super::column::{Column, Grid, Output, is_stale};
use super::context::{Context, Scratch};
use super::plan::{Selection, When};
use super::smooth;
use super::source::{Meta, Source};
use super::statistics::StatisticsSeries;
use crate::ast::{RangeExtension, Span};
use crate::error::QueryError;
use crate::histogram;

/// What of the selected sample becomes the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Its value.
    Value,
    /// Its time, in seconds.
    Timestamp,
    /// When what it counts began, in seconds.
    StartTimestamp,
    /// Its time in milliseconds; a histogram is an error.
    InfoTimestamp,
}

/// A selector that reads a series when asked.
pub(crate) struct SelectorSource<'a> {
    series: Vec<Box<dyn Series + 'a>>,
    metas: Vec<Meta>,
    grid: Grid,
    when: When,
    wanted: Wanted,
    smoothed: Option<Span>,
}

/// The series that match and have samples in `from..=to`; without the buckets of their histograms if
/// only count and sum are needed.
pub(crate) fn select<'a>(
    context: &Context<'a>,
    matchers: &[Matcher],
    from: i64,
    to: i64,
    statistics_only: bool,
) -> Result<Vec<Box<dyn Series + 'a>>, QueryError> {
    let select: &'a dyn store::Select = context.environment.select;
    let series = select.select(matchers, from, to)?;
    if !statistics_only {
        return Ok(series);
    }
    let without_buckets = |series| Box::new(StatisticsSeries(series)) as Box<dyn Series + 'a>;
    Ok(series.into_iter().map(without_buckets).collect())
}

impl<'a> SelectorSource<'a> {
    /// Finds the series. `span` is that of the selector.
    pub(crate) fn new(
        context: &Context<'a>,
        selection: Selection<'_>,
        grid: Grid,
        wanted: Wanted,
        span: Span,
    ) -> Result<Self, QueryError> {
        let lookback = context.environment.lookback_delta;
        let when = selection.when;
        let from = when.reference(grid.start) - lookback + 1;
        let mut to = when.reference(grid.end());
        let smoothed = selection.extension == RangeExtension::Smoothed;
        if smoothed {
            to += lookback;
        }
        let series = select(context, selection.matchers, from, to, selection.statistics_only)?;
        let metas = series.iter().map(|series| Meta::new(series.labels().clone())).collect();
        Ok(SelectorSource {
            series,
            metas,
            grid,
            when,
            wanted,
            smoothed: (smoothed && wanted == Wanted::Value).then_some(span),
        })
    }

    fn value(&self, samples: &Samples, index: usize, meta: &Meta) -> Result<Output, QueryError> {
        let found = samples.histogram(index);
        let stale = match found {
            Some(histogram) => histogram::is_stale(histogram),
            None => is_stale(samples.values[index]),
        };
        if stale {
            return Ok(Output::Nothing);
        }
        Ok(match self.wanted {
            Wanted::Value => match found {
                Some(histogram) => Output::Histogram(Arc::clone(histogram)),
                None => Output::Float(samples.values[index]),
            },
            Wanted::Timestamp => Output::Float(samples.timestamps[index] as f64 / 1000.0),
            Wanted::StartTimestamp => Output::Float(samples.start_timestamp(index) as f64 / 1000.0),
            Wanted::InfoTimestamp if found.is_some() => {
                return Err(QueryError::execution(format!(
                    "this should be an info metric, with float samples: {}",
                    meta.labels
                )));
            }
            Wanted::InfoTimestamp => Output::Float(samples.timestamps[index] as f64),
        })
    }
}

impl Source for SelectorSource<'_> {
    fn metas(&self) -> &[Meta] {
        &self.metas
    }

    fn fill(
        &self,
        context: &Context<'_>,
        index: usize,
        scratch: &mut Scratch,
        out: &mut Column,
    ) -> Result<(), QueryError> {
        let meta = &self.metas[index];
        let series = self.series[index].as_ref();
        if let Some(span) = self.smoothed {
            return smooth::fill(context, series, self.grid, self.when, span, scratch, out);
        }
        let lookback = context.environment.lookback_delta;
        let mut cursor = series.cursor();
        let mut samples = std::mem::take(&mut scratch.samples);
        samples.clear();
        let mut next = 0;
        // The newest sample of the runs before: its time and what it is worth.
        let mut newest: Option<(i64, Output)> = None;
        for step in 0..self.grid.count {
            let reference = self.when.reference(self.grid.time(step));
            loop {
                let passed = samples.timestamps[next..].iter().take_while(|t| **t <= reference);
                next += passed.count();
                if next < samples.len() {
                    break;
                }
                // All of this run lies in the past; the next run may hold a newer sample.
                if let Some(last) = samples.len().checked_sub(1) {
                    newest = Some((samples.timestamps[last], self.value(&samples, last, meta)?));
                }
                samples.clear();
                next = 0;
                let more = cursor.next(&mut samples)?;
                scratch.read += samples.len() as u64;
                if !more && samples.is_empty() {
                    break;
                }
            }
            let output = match next.checked_sub(1) {
                Some(at) if samples.timestamps[at] > reference - lookback => {
                    self.value(&samples, at, meta)?
                }
                Some(_) => Output::Nothing,
                None => match &newest {
                    Some((time, output)) if *time > reference - lookback => output.clone(),
                    _ => Output::Nothing,
                },
            };
            out.set(step, output);
        }
        scratch.total += out.weight();
        scratch.samples = samples;
        Ok(())
    }
}
