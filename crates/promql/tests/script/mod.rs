//! Scripts that load series and evaluate queries over them, in the language that
//! `shared/conformance/README.md` describes.
//!
//! [`read`] turns a text into commands, [`run`] executes them against an engine over series in
//! memory, and tells of each evaluation whether it answered as expected. An instant query is also
//! evaluated with every selector fixed in time by `@`, at other times, and as the middle of a range.

mod compare;
mod read;
mod series;
mod storage;

use promql::ast::{At, Kind, NodeId, Query};
use promql::value::{Sample, VectorSample};
use promql::{Engine, Limits, Outcome, Value};

use read::{Command, Evaluation, read};
use storage::Storage;

/// How the evaluations of a script ended.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) passed: usize,
    /// Line and reason of each failure.
    pub(crate) failed: Vec<(usize, String)>,
}

impl Report {
    pub(crate) fn total(&self) -> usize {
        self.passed + self.failed.len()
    }
}

/// Executes a script. A command that cannot be read counts as a failed evaluation.
pub(crate) fn run(engine: &Engine, text: &str) -> Report {
    let mut report = Report::default();
    let mut storage = Storage::default();
    for command in read(text) {
        match command {
            Command::Clear => storage = Storage::default(),
            Command::Load(load) => storage.load(&load),
            Command::Unreadable { line, reason } => report.failed.push((line, reason)),
            Command::Evaluate(evaluation) => match execute(engine, &storage, &evaluation) {
                Ok(()) => report.passed += 1,
                Err(reason) => {
                    let reason = format!("{}: {reason}", evaluation.query);
                    report.failed.push((evaluation.line, reason));
                }
            },
        }
    }
    report
}

fn execute(engine: &Engine, storage: &Storage, evaluation: &Evaluation) -> Result<(), String> {
    let query = match promql::parse(&evaluation.query) {
        Ok(query) => query,
        Err(error) if evaluation.fails() => return evaluation.check_failure(&error.to_string()),
        Err(error) => return Err(format!("does not parse: {error}")),
    };
    let limits = Limits::default();
    if let Some((start, end, step)) = evaluation.range {
        let outcome = engine.range(storage, &query, start, end, step, &limits);
        return judge(evaluation, outcome);
    }
    let mut cases = vec![(query.clone(), evaluation.time)];
    if let Some(fixed) = fix_in_time(&query, evaluation.time) {
        let t = evaluation.time;
        let times = if t == 0 { vec![-1000, 0, 1000] } else { vec![-10 * t, 0, t / 5, t, 10 * t] };
        cases.extend(times.into_iter().map(|time| (fixed.clone(), time)));
    }
    for (index, (query, time)) in cases.iter().enumerate() {
        let context = |reason: String| match index {
            0 => reason,
            _ => format!("with @, at {time}: {reason}"),
        };
        let outcome = engine.instant(storage, query, *time, &limits);
        let scalar = matches!(&outcome, Ok(Outcome { value: Value::Scalar { .. }, .. }));
        let failed = outcome.is_err();
        judge(evaluation, outcome).map_err(context)?;
        if failed || evaluation.excluded_from_range() || depends_on_range(&evaluation.query) {
            continue;
        }
        let outcome = engine
            .range(storage, query, time - 60_000, time + 60_000, 60_000, &limits)
            .map_err(|error| context(format!("as a range: {error}")))?;
        if evaluation.is_ordered() {
            continue;
        }
        let middle = middle(outcome.value, *time, scalar);
        compare::value(evaluation, &middle)
            .map_err(|reason| context(format!("as a range: {reason}")))?;
    }
    Ok(())
}

fn judge(
    evaluation: &Evaluation,
    outcome: Result<Outcome, promql::QueryError>,
) -> Result<(), String> {
    match outcome {
        Err(error) if evaluation.fails() => evaluation.check_failure(&error.to_string()),
        Err(error) => Err(format!("fails: {error}")),
        Ok(_) if evaluation.fails() => Err("should fail".to_owned()),
        Ok(outcome) => {
            evaluation.check_annotations(
                &outcome.annotations.warnings(&evaluation.query, 0),
                &outcome.annotations.infos(&evaluation.query, 0),
            )?;
            compare::value(evaluation, &outcome.value)
        }
    }
}

fn depends_on_range(query: &str) -> bool {
    ["start()", "end()", "range()", "step()"].iter().any(|call| query.contains(call))
}

/// The samples of a matrix at one time, as an instant query would answer.
fn middle(value: Value, time: i64, scalar: bool) -> Value {
    let Value::Matrix(series) = value else { return value };
    let mut samples = Vec::new();
    for series in series {
        let float = series.floats.iter().find(|(t, _)| *t == time);
        let histogram = series.histograms.iter().find(|(t, _)| *t == time);
        let sample = match (float, histogram) {
            (Some((_, value)), _) => Sample::Float(*value),
            (None, Some((_, value))) => Sample::Histogram(value.clone()),
            (None, None) => continue,
        };
        samples.push(VectorSample { labels: series.labels, time, sample });
    }
    match samples.first() {
        Some(VectorSample { sample: Sample::Float(value), .. }) if scalar => {
            Value::Scalar { time, value: *value }
        }
        _ => Value::Vector(samples),
    }
}

/// The query with `@` at every selector and subquery that has none; none if its value depends on the
/// time of the evaluation all the same.
fn fix_in_time(query: &Query, time: i64) -> Option<Query> {
    const TIME_DEPENDENT: [&str; 14] = [
        "days_in_month",
        "day_of_month",
        "day_of_week",
        "day_of_year",
        "end",
        "hour",
        "minute",
        "month",
        "predict_linear",
        "range",
        "start",
        "step",
        "time",
        "timestamp",
    ];
    let mut fixed = query.clone();
    let mut rest: Vec<NodeId> = vec![query.root];
    while let Some(id) = rest.pop() {
        match &mut fixed.nodes[id.0 as usize].kind {
            Kind::Number { .. } | Kind::String(_) => {}
            Kind::VectorSelector(selector) => {
                if !matches!(selector.at.at, Some(At::Timestamp(_))) {
                    selector.at.at = Some(At::Timestamp(time));
                }
            }
            Kind::MatrixSelector { selector, .. } => rest.push(*selector),
            Kind::Subquery { at, .. } => {
                // What is inside of a fixed subquery needs no fixing.
                if !matches!(at.at, Some(At::Timestamp(_))) {
                    at.at = Some(At::Timestamp(time));
                }
            }
            Kind::Unary { expr, .. } | Kind::Paren(expr) => rest.push(*expr),
            Kind::Binary(binary) => rest.extend([binary.left, binary.right]),
            Kind::Aggregate(aggregate) => {
                rest.push(aggregate.expr);
                rest.extend(aggregate.parameter);
            }
            Kind::Call { function, arguments } => {
                if TIME_DEPENDENT.contains(&function.name) || function.name == "year" {
                    return None;
                }
                rest.extend(arguments.iter().copied());
            }
        }
    }
    Some(fixed)
}
