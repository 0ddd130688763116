//! Evaluation, series by series across all steps.
//!
//! 1. [`plan`] computes what is known before the first sample: times, durations, what is the same at
//!    every step.
//! 2. [`evaluator`] walks the tree from the root. Selectors, range functions and whatever looks at one
//!    sample at a time become [`source::Source`]s, which compute a series when it is asked for;
//!    aggregations and operators between vectors go through their input and hold what they must.
//! 3. [`run`] collects what the root yields and gives it the shape of an answer.
//!
//! Nothing nests deeper than the parser allows, and deep queries get a stack of their own.

mod aggregate;
mod binary;
mod call;
mod changes;
mod choose;
mod classic;
mod column;
mod context;
mod element;
mod evaluator;
mod fold;
mod group;
mod info;
mod labels;
mod map;
mod notes;
mod number;
mod over_time;
mod plan;
mod range;
mod rate;
mod regression;
mod selector;
mod smooth;
mod sort;
mod source;
mod statistics;
mod window;

use std::time::Instant;

use store::Select;

use crate::ast::{Query, ValueType};
use crate::engine::{Cancel, Options, Outcome, Stats};
use crate::error::QueryError;
use crate::value::{Sample, SeriesPoints, Value, VectorSample};
pub(crate) use column::is_stale;
use column::{Column, Grid, Item};
use context::Context;
use evaluator::{Evaluated, Evaluator};
use plan::Plan;
use source::{Held, collect, drop_names};

/// Stack of the threads that evaluate. A level of the tree takes less than 4 KiB in a debug build,
/// and the parser allows 1,000; sources of subqueries nest as deep again.
pub(crate) const STACK_BYTES: usize = 16 << 20;
/// Trees up to this depth run on the stack of the caller.
const SHALLOW: usize = 40;

/// The times to evaluate at, in milliseconds; one time where `step` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) step: i64,
}

/// What is the same for the whole query.
pub(crate) struct Environment<'a> {
    pub(crate) options: &'a Options,
    pub(crate) pool: &'a rayon::ThreadPool,
    pub(crate) select: &'a dyn Select,
    pub(crate) query: &'a Query,
    pub(crate) lookback_delta: i64,
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancel: Cancel,
}

/// Evaluates a query.
pub(crate) fn run(
    environment: &Environment<'_>,
    range: Range,
    started: Instant,
) -> Result<Outcome, QueryError> {
    let plan = Plan::new(environment.query, range)?;
    if plan.depth <= SHALLOW {
        return run_here(environment, &plan, range, started);
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || run_here(environment, &plan, range, started))
            .map_err(|error| QueryError::execution(format!("cannot start a thread: {error}")))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn run_here<'a>(
    environment: &'a Environment<'a>,
    plan: &'a Plan,
    range: Range,
    started: Instant,
) -> Result<Outcome, QueryError> {
    let context = Context::new(environment, plan);
    let query = environment.query;
    let instant = range.step == 0;
    let grid = Grid::new(range.start, range.end, range.step.max(1));
    let evaluator = Evaluator { context: &context };
    let mut sorting = std::time::Duration::ZERO;
    let value = if query.value_type(query.root) == ValueType::Matrix {
        let mut series = evaluator.matrix(query.root, grid)?;
        let before = Instant::now();
        series.sort_by(|a, b| a.labels.cmp(&b.labels));
        sorting = before.elapsed();
        Value::Matrix(series)
    } else {
        match evaluator.evaluate(query.root, grid)? {
            Evaluated::String(value) => Value::String { time: range.start, value },
            Evaluated::Scalar(values) if instant => {
                let value = values.first().copied().unwrap_or(f64::NAN);
                Value::Scalar { time: range.start, value }
            }
            Evaluated::Scalar(values) => {
                let column = Column::from_values(values);
                Value::Matrix(vec![points(store::Labels::empty(), &column, grid)])
            }
            Evaluated::Vector(vector) => {
                let series = drop_names(collect(&context, vector, grid.count)?)?;
                let before = Instant::now();
                let value = vector_value(series, grid, instant);
                sorting = before.elapsed();
                value
            }
        }
    };
    context.check()?;
    let (annotations, [samples_total, samples_read, samples_peak]) = context.finish();
    let stats =
        Stats { samples_total, samples_read, samples_peak, evaluation: started.elapsed(), sorting };
    Ok(Outcome { value, annotations, stats })
}

fn vector_value(mut series: Vec<Held>, grid: Grid, instant: bool) -> Value {
    if instant {
        let samples = series.into_iter().filter_map(|held| {
            let sample = match held.column.get(0)? {
                Item::Float(value) => Sample::Float(value),
                Item::Histogram(histogram) => Sample::Histogram(histogram.clone()),
            };
            Some(VectorSample { labels: held.meta.labels, time: grid.start, sample })
        });
        return Value::Vector(samples.collect());
    }
    series.sort_by(|a, b| a.meta.labels.cmp(&b.meta.labels));
    let series = series.into_iter().map(|held| points(held.meta.labels, &held.column, grid));
    Value::Matrix(series.filter(|series| !series.is_empty()).collect())
}

/// A column with the times of its steps.
fn points(labels: store::Labels, column: &Column, grid: Grid) -> SeriesPoints {
    let mut series = SeriesPoints { labels, ..SeriesPoints::default() };
    for step in 0..column.len() {
        match column.get(step) {
            None => {}
            Some(Item::Float(value)) => series.floats.push((grid.time(step), value)),
            Some(Item::Histogram(histogram)) => {
                series.histograms.push((grid.time(step), histogram.clone()));
            }
        }
    }
    series
}
