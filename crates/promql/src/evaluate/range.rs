//! Functions of range vectors: a window slides over each series on its own.

use store::Series;

use super::changes;
use super::column::{Column, Grid, Output};
use super::context::{Context, Scratch};
use super::fold;
use super::over_time;
use super::plan::When;
use super::rate;
use super::regression;
use super::source::{Meta, Source};
use super::window::{Buffer, View};
use crate::annotations::Annotations;
use crate::ast::{RangeExtension, Span};
use crate::error::QueryError;

/// A function of a range vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeFunction {
    Rate,
    Increase,
    Delta,
    Irate,
    Idelta,
    Resets,
    Changes,
    Deriv,
    PredictLinear,
    DoubleExponentialSmoothing,
    Avg,
    Sum,
    Count,
    Present,
    First,
    Last,
    Min,
    Max,
    Quantile,
    Stddev,
    Stdvar,
    Mad,
    TimeOfFirst,
    TimeOfLast,
    TimeOfMin,
    TimeOfMax,
}

impl RangeFunction {
    /// The function of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        use RangeFunction as F;
        Some(match name {
            "rate" => F::Rate,
            "increase" => F::Increase,
            "delta" => F::Delta,
            "irate" => F::Irate,
            "idelta" => F::Idelta,
            "resets" => F::Resets,
            "changes" => F::Changes,
            "deriv" => F::Deriv,
            "predict_linear" => F::PredictLinear,
            "double_exponential_smoothing" => F::DoubleExponentialSmoothing,
            "avg_over_time" => F::Avg,
            "sum_over_time" => F::Sum,
            "count_over_time" => F::Count,
            "present_over_time" | "absent_over_time" => F::Present,
            "first_over_time" => F::First,
            "last_over_time" => F::Last,
            "min_over_time" => F::Min,
            "max_over_time" => F::Max,
            "quantile_over_time" => F::Quantile,
            "stddev_over_time" => F::Stddev,
            "stdvar_over_time" => F::Stdvar,
            "mad_over_time" => F::Mad,
            "ts_of_first_over_time" => F::TimeOfFirst,
            "ts_of_last_over_time" => F::TimeOfLast,
            "ts_of_min_over_time" => F::TimeOfMin,
            "ts_of_max_over_time" => F::TimeOfMax,
            _ => return None,
        })
    }

    /// Whether the value is one of the samples, so that it keeps the metric's name.
    pub(crate) fn keeps_name(self) -> bool {
        matches!(self, RangeFunction::First | RangeFunction::Last)
    }

    /// Whether it uses when the samples' counts began.
    fn uses_starts(self) -> bool {
        matches!(
            self,
            RangeFunction::Rate
                | RangeFunction::Increase
                | RangeFunction::Irate
                | RangeFunction::Resets
        )
    }

    /// The functions that may be used with `anchored` or `smoothed`, if this is none of them.
    pub(crate) fn refuses(self, extension: RangeExtension) -> Option<&'static str> {
        use RangeFunction as F;
        let (fine, names) = match extension {
            RangeExtension::None => return None,
            RangeExtension::Anchored => (
                matches!(self, F::Changes | F::Delta | F::Increase | F::Rate | F::Resets),
                "changes, delta, increase, rate, resets",
            ),
            RangeExtension::Smoothed => {
                (matches!(self, F::Delta | F::Increase | F::Rate), "delta, increase, rate")
            }
        };
        (!fine).then_some(names)
    }
}

/// What a function sees at one step.
pub(crate) struct Call<'a> {
    pub(crate) floats: View<'a, f64>,
    pub(crate) histograms: View<'a, std::sync::Arc<store::FloatHistogram>>,
    /// The range is `start < t <= end`, in milliseconds; `anchored` and `smoothed` windows hold more.
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// The time of the step.
    pub(crate) time: i64,
    /// The values of the other arguments at this step.
    pub(crate) arguments: [f64; 2],
    pub(crate) extension: RangeExtension,
    /// Where the range vector stands in the query.
    pub(crate) span: Span,
    pub(crate) metric: &'a str,
    /// Whether the starts of the samples are to be used.
    pub(crate) use_starts: bool,
}

impl Call<'_> {
    /// The length of the range in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        (self.end - self.start) as f64 / 1000.0
    }

    /// Notes a window of both kinds for functions that look at floats only.
    pub(crate) fn note_ignored(&self, annotations: &mut Annotations) {
        if !self.histograms.is_empty() {
            super::notes::ignored_in_range(annotations, self.span, self.metric);
        }
    }
}

/// What a function remembers from step to step of one series.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) drops: changes::Positions,
    pub(crate) changes: changes::Positions,
    pub(crate) sums: fold::Sums,
    pub(crate) extremes: fold::Extremes,
    pub(crate) sorted: Vec<f64>,
}

impl Memory {
    fn clear(&mut self) {
        self.drops.clear();
        self.changes.clear();
        self.sums.clear();
        self.extremes.clear();
    }
}

/// Where the samples come from.
pub(crate) enum Input<'a> {
    /// From the store.
    Series(Vec<Box<dyn Series + 'a>>),
    /// From a subquery, evaluated series by series.
    Subquery { source: Box<dyn Source + 'a>, grid: Grid },
}

/// A range function that reads a series when asked.
pub(crate) struct RangeSource<'a> {
    pub(crate) input: Input<'a>,
    pub(crate) metas: Vec<Meta>,
    pub(crate) function: RangeFunction,
    /// The other arguments, one value per step.
    pub(crate) arguments: Vec<Vec<f64>>,
    pub(crate) grid: Grid,
    pub(crate) when: When,
    pub(crate) range: i64,
    pub(crate) extension: RangeExtension,
    pub(crate) span: Span,
}

impl RangeSource<'_> {
    fn slide_all(
        &self,
        context: &Context<'_>,
        index: usize,
        metric: &str,
        buffer: &mut Buffer,
        scratch: &mut Scratch,
        out: &mut Column,
    ) -> Result<(), QueryError> {
        let lookback = context.environment.lookback_delta;
        let (before, behind) = match self.extension {
            RangeExtension::None => (0, 0),
            RangeExtension::Anchored => (lookback, 0),
            RangeExtension::Smoothed => (lookback, lookback),
        };
        let mut cursor = match &self.input {
            Input::Series(series) => Some(series[index].cursor()),
            Input::Subquery { source, grid } => {
                let mut column = scratch.take_column(grid.count);
                source.fill(context, index, scratch, &mut column)?;
                buffer.take_column(&column, *grid);
                scratch.give_column(column);
                None
            }
        };
        let use_starts =
            context.environment.options.start_timestamps && self.function.uses_starts();
        let mut memory = Memory::default();
        memory.clear();
        let mut heaviest = 0;
        for step in 0..self.grid.count {
            let time = self.grid.time(step);
            let end = self.when.reference(time);
            let start = end - self.range;
            let (after, until) = (start - before, end + behind);
            match &mut cursor {
                Some(cursor) => {
                    buffer.slide(cursor.as_mut(), &mut scratch.samples, after, until)?;
                }
                None => buffer.slide_taken(after, until),
            }
            let call = Call {
                floats: buffer.floats(),
                histograms: buffer.histograms(),
                start,
                end,
                time,
                arguments: [0, 1].map(|at| self.arguments.get(at).map_or(0.0, |a| a[step])),
                extension: self.extension,
                span: self.span,
                metric,
                use_starts,
            };
            if call.floats.is_empty() && call.histograms.is_empty() {
                continue;
            }
            scratch.total += buffer.weight();
            heaviest = buffer.weight().max(heaviest);
            let output = evaluate(self.function, &call, &mut memory, &mut scratch.annotations)?;
            out.set(step, output);
        }
        context.pass(heaviest)
    }
}

impl Source for RangeSource<'_> {
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
        let labels = match &self.input {
            Input::Series(series) => series[index].labels().clone(),
            Input::Subquery { source, .. } => source.metas()[index].labels.clone(),
        };
        let metric = labels.metric_name();
        let mut buffer = scratch.take_buffer();
        let result = self.slide_all(context, index, metric, &mut buffer, scratch, out);
        scratch.read += buffer.read;
        scratch.give_buffer(buffer);
        result?;
        let counts = matches!(self.function, RangeFunction::Rate | RangeFunction::Increase);
        let has_floats =
            (0..out.len()).any(|step| matches!(out.get(step), Some(super::column::Item::Float(_))));
        if counts && !metric.is_empty() && has_floats {
            let annotations = &mut scratch.annotations;
            if context.environment.options.type_and_unit_labels {
                let kind = labels.get("__type__").unwrap_or("");
                if kind != "counter" && kind != "histogram" {
                    super::notes::maybe_no_counter_type(annotations, self.span, metric, kind);
                }
            } else if !["_total", "_sum", "_count", "_bucket"].iter().any(|s| metric.ends_with(s)) {
                super::notes::maybe_no_counter(annotations, self.span, metric);
            }
        }
        Ok(())
    }
}

/// The value of a function at one step. The window is not empty.
pub(crate) fn evaluate(
    function: RangeFunction,
    call: &Call<'_>,
    memory: &mut Memory,
    annotations: &mut Annotations,
) -> Result<Output, QueryError> {
    use RangeFunction as F;
    Ok(match function {
        F::Rate => rate::extrapolated(call, memory, annotations, true, true),
        F::Increase => rate::extrapolated(call, memory, annotations, true, false),
        F::Delta => rate::extrapolated(call, memory, annotations, false, false),
        F::Irate => rate::last_two(call, annotations, true),
        F::Idelta => rate::last_two(call, annotations, false),
        F::Resets => changes::resets(call, memory),
        F::Changes => changes::changes(call, memory),
        F::Deriv => regression::deriv(call, annotations),
        F::PredictLinear => regression::predict(call, annotations),
        F::DoubleExponentialSmoothing => regression::smooth(call, annotations)?,
        F::Avg => over_time::average(call, memory, annotations),
        F::Sum => over_time::sum(call, memory, annotations),
        F::Count => Output::Float((call.floats.len() + call.histograms.len()) as f64),
        F::Present => Output::Float(1.0),
        F::First => over_time::first(call),
        F::Last => over_time::last(call),
        F::Min => over_time::extreme(call, memory, annotations, true),
        F::Max => over_time::extreme(call, memory, annotations, false),
        F::Quantile => over_time::quantile(call, memory, annotations),
        F::Stddev => over_time::deviation(call, annotations, true),
        F::Stdvar => over_time::deviation(call, annotations, false),
        F::Mad => over_time::absolute_deviation(call, memory, annotations),
        F::TimeOfFirst => over_time::time_of_first(call),
        F::TimeOfLast => over_time::time_of_last(call),
        F::TimeOfMin => over_time::time_of_extreme(call, annotations, true),
        F::TimeOfMax => over_time::time_of_extreme(call, annotations, false),
    })
}
