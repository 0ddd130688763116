//! Queries: evaluated at one time or over a range, formatted, parsed, and their exemplars.

use std::time::{Duration, Instant};

use promql::ast::{Kind, ValueType};
use promql::value::Value;
use promql::{Cancel, Limits, Outcome, Query, Stats};

use super::answer::{success, success_with};
use super::bound::Bound;
use super::error::ApiError;
use super::form::{Form, MAX_TIME, MIN_TIME, Nanoseconds, parse_duration};
use super::json;
use super::reply::{Answer, Out};
use super::tree;
use crate::app::App;

/// The most points per series that a range query may ask for: a week in steps of a minute.
const MAX_POINTS: i128 = 11_000;

/// Warnings and infos shown of each kind.
const MAX_ANNOTATIONS: usize = 10;

const TRUNCATED: &str = "results truncated due to limit";

/// A query whose parameters are all in order.
pub(super) struct Prepared {
    query: Query,
    times: Times,
    limit: usize,
    /// What the request asks for; the command line may allow less.
    timeout: Option<Duration>,
    lookback_delta: Option<i64>,
    /// The parameter `stats`.
    stats: String,
    /// How long reading all that took.
    took: Duration,
}

/// When a query is evaluated, in milliseconds.
#[derive(Clone, Copy)]
enum Times {
    At(i64),
    Range { start: i64, end: i64, step: i64 },
}

impl Prepared {
    /// When the query has to be through that was asked for at `asked`.
    pub(super) fn deadline(&self, app: &App, asked: Instant) -> Instant {
        let most = app.options.query_timeout;
        let allowed = self.timeout.map_or(most, |timeout| timeout.min(most));
        asked.checked_add(allowed).unwrap_or(asked + super::YEAR)
    }

    /// Evaluates the query, until `deadline` at most. Waiting for it took `queued`.
    pub(super) fn run(
        self,
        app: &App,
        cancel: &Cancel,
        deadline: Instant,
        queued: Duration,
    ) -> Result<Answer, ApiError> {
        let limits = Limits {
            timeout: Some(deadline.saturating_duration_since(Instant::now())),
            lookback_delta: self.lookback_delta,
            cancel: cancel.clone(),
        };
        let querier = app.db()?.querier(i64::MIN, i64::MAX);
        let engine = app.engine.load();
        let outcome = match self.times {
            Times::At(time) => engine.instant(&querier, &self.query, time, &limits),
            Times::Range { start, end, step } => {
                engine.range(&querier, &self.query, start, end, step, &limits)
            }
        };
        app.metrics.query_finished(queued, self.took, &outcome);
        Ok(answer(self, outcome?, queued))
    }
}

/// Reads the parameters of `/query`.
pub(super) fn instant(app: &App, form: &Form) -> Result<Prepared, ApiError> {
    let limit = form.limit()?;
    let time = form.time_or("time", app.now_ms())?;
    prepare(app, form, limit, Times::At(time))
}

/// Reads the parameters of `/query_range`.
pub(super) fn range(app: &App, form: &Form) -> Result<Prepared, ApiError> {
    let limit = form.limit()?;
    let (start, end) = (form.time("start")?, form.time("end")?);
    if end < start {
        return Err(ApiError::parameter("end", "end timestamp must not be before start time"));
    }
    let step =
        parse_duration(form.get("step")).map_err(|reason| ApiError::parameter("step", reason))?;
    if step.milliseconds() <= 0 {
        return Err(ApiError::parameter(
            "step",
            "zero or negative query resolution step widths are not accepted. Try a positive integer",
        ));
    }
    if (i128::from(end) - i128::from(start)) * 1_000_000 / i128::from(step.0) > MAX_POINTS {
        return Err(ApiError::bad_data(
            "exceeded maximum resolution of 11,000 points per timeseries. \
             Try decreasing the query resolution (?step=XX)",
        ));
    }
    let times = Times::Range { start, end, step: step.milliseconds() };
    let prepared = prepare(app, form, limit, times)?;
    let kind = prepared.query.value_type(prepared.query.root);
    if !matches!(kind, ValueType::Scalar | ValueType::Vector) {
        return Err(ApiError::parameter(
            "query",
            format!(
                "invalid expression type \"{}\" for range query, \
                 must be Scalar or instant Vector",
                kind.documented()
            ),
        ));
    }
    Ok(prepared)
}

fn prepare(app: &App, form: &Form, limit: usize, times: Times) -> Result<Prepared, ApiError> {
    let timeout = form.duration("timeout")?.map(Nanoseconds::length);
    let lookback_delta = lookback_delta(form)?;
    let preparing = Instant::now();
    let query = parse(app, form)?;
    let stats = form.get("stats").to_owned();
    let took = preparing.elapsed();
    Ok(Prepared { query, times, limit, timeout, lookback_delta, stats, took })
}

fn parse(app: &App, form: &Form) -> Result<Query, ApiError> {
    promql::parse_with(form.get("query"), app.options.parse_options())
        .map_err(|error| ApiError::parameter("query", error))
}

fn lookback_delta(form: &Form) -> Result<Option<i64>, ApiError> {
    match form.get("lookback_delta") {
        "" => Ok(None),
        text => match parse_duration(text) {
            Ok(delta) => Ok(Some(delta.milliseconds()).filter(|delta| *delta > 0)),
            Err(reason) => {
                Err(ApiError::bad_data(format!("error parsing lookback delta duration: {reason}")))
            }
        },
    }
}

fn answer(prepared: Prepared, outcome: Outcome, queued: Duration) -> Answer {
    let Prepared { query, limit, stats: wanted, took, .. } = prepared;
    let Outcome { mut value, annotations, stats } = outcome;
    let mut warnings = annotations.warnings(&query.text, MAX_ANNOTATIONS);
    let infos = annotations.infos(&query.text, MAX_ANNOTATIONS);
    if limit > 0 && truncate(&mut value, limit) {
        warnings.push(TRUNCATED.to_owned());
    }
    let stats = (!wanted.is_empty()).then_some(stats);
    if !matches!(wanted.as_str(), "" | "true" | "all") {
        warnings.push(format!(
            "value {} for parameter \"stats\" is deprecated and will be rejected in the next major \
             release, use \"true\" or \"all\"",
            promql::quote::quoted(&wanted)
        ));
    }
    success_with(warnings, infos, move |out| {
        out.text("{\"resultType\":\"");
        out.text(value_type(&value));
        out.text("\",\"result\":");
        write_value(out, &value);
        if let Some(stats) = stats {
            out.text(",\"stats\":");
            write_stats(out, &stats, queued, took);
        }
        out.text("}");
    })
}

fn truncate(value: &mut Value, limit: usize) -> bool {
    match value {
        Value::Vector(samples) if samples.len() > limit => samples.truncate(limit),
        Value::Matrix(series) if series.len() > limit => series.truncate(limit),
        _ => return false,
    }
    true
}

fn value_type(value: &Value) -> &'static str {
    match value {
        Value::Scalar { .. } => "scalar",
        Value::String { .. } => "string",
        Value::Vector(_) => "vector",
        Value::Matrix(_) => "matrix",
    }
}

fn write_value(out: &mut Out, value: &Value) {
    match value {
        // Scalars alone are never written with an exponent.
        Value::Scalar { time, value } => {
            out.text("[");
            json::seconds(out, *time);
            out.text(",\"");
            out.text(wire::number::Buffer::new().plain(*value));
            out.text("\"]");
        }
        Value::String { time, value } => {
            out.text("[");
            json::seconds(out, *time);
            out.text(",");
            json::string(out, value);
            out.text("]");
        }
        Value::Vector(samples) => json::list(out, samples, |out, sample| {
            out.text("{\"metric\":");
            json::labels(out, &sample.labels);
            out.text(",");
            json::sample(out, sample.time, &sample.sample);
            out.text("}");
        }),
        Value::Matrix(all) => json::list(out, all, |out, series| {
            if out.is_gone() {
                return;
            }
            out.text("{\"metric\":");
            json::labels(out, &series.labels);
            if !series.floats.is_empty() {
                out.text(",\"values\":");
                json::list(out, &series.floats, |out, &(time, value)| {
                    json::point(out, time, value);
                });
            }
            if !series.histograms.is_empty() {
                out.text(",\"histograms\":");
                json::list(out, &series.histograms, |out, (time, histogram)| {
                    json::histogram_point(out, *time, histogram);
                });
            }
            out.text("}");
        }),
    }
}

fn write_stats(out: &mut Out, stats: &Stats, queued: Duration, prepared: Duration) {
    let total = stats.evaluation + stats.sorting;
    let timings = [
        ("evalTotalTime", total),
        ("resultSortTime", stats.sorting),
        ("queryPreparationTime", prepared),
        ("innerEvalTime", stats.evaluation),
        ("execQueueTime", queued),
        ("execTotalTime", total + queued),
    ];
    out.text("{\"timings\":{");
    for (index, (name, time)) in timings.iter().enumerate() {
        out.text(if index > 0 { ",\"" } else { "\"" });
        out.text(name);
        out.text("\":");
        json::number(out, time.as_secs_f64());
    }
    let samples = [
        ("totalQueryableSamples", stats.samples_total),
        ("samplesRead", stats.samples_read),
        ("peakSamples", stats.samples_peak),
    ];
    out.text("},\"samples\":{");
    for (index, (name, count)) in samples.iter().enumerate() {
        out.text(if index > 0 { ",\"" } else { "\"" });
        out.text(name);
        out.text("\":");
        json::integer(out, i64::try_from(*count).unwrap_or(i64::MAX));
    }
    out.text("}}");
}

/// `/format_query`
pub(super) fn format(app: &App, form: &Form) -> Result<Answer, ApiError> {
    let text = promql::prettify(&parse(app, form)?);
    Ok(success(move |out| json::string(out, &text)))
}

/// `/parse_query`
pub(super) fn tree(app: &App, form: &Form) -> Result<Answer, ApiError> {
    let tree = tree::write(&parse(app, form)?);
    Ok(success(move |out| out.bytes(&tree)))
}

/// `/query_exemplars`; `None` where the query selects no series: Prometheus answers that with 204.
pub(super) fn exemplars(app: &App, form: &Form, bound: &Bound) -> Result<Option<Answer>, ApiError> {
    let start = form.time_or("start", MIN_TIME)?;
    let end = form.time_or("end", MAX_TIME)?;
    if end < start {
        return Err(ApiError::bad_data("end timestamp must not be before start timestamp"));
    }
    let query = promql::parse_with(form.get("query"), app.options.parse_options())
        .map_err(|error| ApiError::bad_data(error.to_string()))?;
    let selectors: Vec<_> = query
        .nodes
        .iter()
        .filter_map(|node| match &node.kind {
            Kind::VectorSelector(selector) => Some(selector.matchers.clone()),
            _ => None,
        })
        .collect();
    if selectors.is_empty() {
        return Ok(None);
    }
    let querier = app.db()?.querier(start, end);
    bound.check()?;
    let found = querier.exemplars(&selectors);
    Ok(Some(success(move |out| {
        json::list(out, &found, |out, series| {
            out.text("{\"seriesLabels\":");
            json::labels(out, &series.labels);
            out.text(",\"exemplars\":");
            json::list(out, &series.exemplars, |out, exemplar| {
                out.text("{\"labels\":");
                json::labels(out, &exemplar.labels);
                out.text(",\"value\":");
                json::value(out, exemplar.value);
                out.text(",\"timestamp\":");
                json::seconds(out, exemplar.timestamp);
                out.text("}");
            });
            out.text("}");
        });
    })))
}
