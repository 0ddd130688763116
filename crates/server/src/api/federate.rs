//! `/federate`: the last sample of each series that matches, as an exposition for another server.

use std::collections::BTreeMap;

use crate::web::Body;
use http::{Response, StatusCode};
use store::{Labels, Samples, Select};
use wire::exposition::Kind;
use wire::exposition::negotiate::Negotiated;
use wire::exposition::writer::{Buffer, Extra, Family, LabelSet, Value, fold};

use super::bound::Bound;
use super::form::Form;
use super::reply::Answer;
use super::{ApiError, ErrorKind};
use crate::app::App;

/// A series and its last sample.
struct Last {
    labels: Labels,
    time: i64,
    value: f64,
}

/// Finds the last samples, and gives an answer that writes them.
pub(super) fn federate(
    app: &App,
    form: &Form,
    negotiated: Negotiated,
    bound: &Bound,
) -> Result<Answer, ApiError> {
    let selectors = form
        .all("match[]")
        .map(|text| promql::parse_selector(text).map_err(|error| error.to_string()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(ApiError::bad_data)?;
    let now = app.now_ms();
    let lookback = i64::try_from(app.options.lookback_delta.as_millis()).unwrap_or(i64::MAX);
    let from = now.saturating_sub(lookback);
    let querier = app.db()?.querier(from, now);
    let mut found: BTreeMap<Labels, Last> = BTreeMap::new();
    let mut samples = Samples::default();
    for matchers in &selectors {
        for series in querier.select(matchers, from, now)? {
            bound.check()?;
            if found.contains_key(series.labels()) {
                continue;
            }
            let mut cursor = series.cursor();
            let mut last = None;
            loop {
                samples.clear();
                let more = cursor.next(&mut samples)?;
                if let (Some(&time), Some(&value)) =
                    (samples.timestamps.last(), samples.values.last())
                {
                    let is_float = samples.histogram(samples.len() - 1).is_none();
                    last = is_float.then_some((time, value));
                }
                if !more {
                    break;
                }
            }
            // Staleness markers have no form in an exposition; the reader notices by the time.
            if let Some((time, value)) = last.filter(|(_, value)| !wire::number::is_stale(*value)) {
                let labels = series.labels().clone();
                found.insert(labels.clone(), Last { labels, time, value });
            }
        }
    }
    let mut all: Vec<Last> = found.into_values().collect();
    // By name, then as selected: by labels.
    all.sort_by(|a, b| a.labels.metric_name().cmp(b.labels.metric_name()));
    let external = external_labels(app);
    let content_type = crate::web::content_type(negotiated);
    Ok(Answer::of(content_type, move |out| {
        let mut buffer = Buffer::new();
        fold(
            &mut buffer,
            negotiated,
            out,
            |out, chunk| {
                out.bytes(chunk);
                out
            },
            |writer| {
                let mut name = "";
                for last in all.iter().filter(|last| !last.labels.metric_name().is_empty()) {
                    if last.labels.metric_name() != name {
                        name = last.labels.metric_name();
                        writer.family(&Family::new(name, "", Kind::Unknown));
                    }
                    let pairs = with_external(&last.labels, &external);
                    let extra = Extra { timestamp_ms: Some(last.time), ..Extra::NONE };
                    writer.number(LabelSet::Pairs(&pairs), Value::Float(last.value), &extra);
                }
            },
        );
    }))
}

/// The labels that say which server it was; an empty `instance` keeps the reader from adding its own.
fn external_labels(app: &App) -> Vec<(String, String)> {
    let running = app.running.load();
    let mut all: BTreeMap<String, String> = running
        .loaded
        .config
        .global
        .external_labels
        .iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    all.entry("instance".to_owned()).or_default();
    all.into_iter().collect()
}

/// The series' labels without its name, then the external ones that it doesn't have.
fn with_external<'a>(
    labels: &'a Labels,
    external: &'a [(String, String)],
) -> Vec<(&'a str, &'a str)> {
    let own = labels.iter().filter(|(name, _)| *name != store::labels::METRIC_NAME);
    let others = external
        .iter()
        .filter(|(name, _)| labels.get(name).is_none())
        .map(|(name, value)| (name.as_str(), value.as_str()));
    own.chain(others).collect()
}

/// A failure in plain text, which is what Prometheus answers here.
pub(super) fn failure(error: &ApiError) -> Response<Body> {
    let status = match error.kind() {
        ErrorKind::BadData => StatusCode::BAD_REQUEST,
        ErrorKind::Unavailable | ErrorKind::Timeout => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    crate::web::plain(status, format!("{}\n", error.message()))
}
