//! The server about itself.

use std::sync::Arc;
use std::time::Duration;

use store::Cardinality;

use super::answer::success;
use super::error::ApiError;
use super::form::{Form, parse_whole};
use super::json;
use super::reply::{Answer, Out};
use crate::app::App;
use crate::{duration, time};

/// The largest `limit` of `/status/tsdb`.
const MAX_CARDINALITY: i64 = 10_000;

/// The features of Prometheus' API that are there, with whether each is on.
const API_FEATURES: [(&str, bool); 7] = [
    ("admin", false),
    ("exclude_alerts", true),
    ("label_values_match", true),
    ("query_stats", true),
    ("query_warnings", true),
    ("time_range_labels", true),
    ("time_range_series", true),
];

/// `/status/config`
pub(super) fn config(app: &App) -> Answer {
    let running = app.running.load_full();
    success(move |out| {
        out.text("{\"yaml\":");
        json::string(out, &running.loaded.text);
        out.text("}");
    })
}

/// `/status/flags`
pub(super) fn flags(app: &App) -> Answer {
    let flags = app.options.flags.clone();
    success(move |out| object(out, flags.iter(), |out, value: &String| json::string(out, value)))
}

/// `/status/buildinfo`
pub(super) fn buildinfo() -> Answer {
    success(|out| {
        let fields = [
            // Clients decide by it what the server can do: the Prometheus that it answers like.
            ("version", PROMETHEUS_VERSION),
            ("revision", "unladen"),
            ("branch", "unladen"),
            ("buildUser", "unladen"),
            ("buildDate", ""),
            ("goVersion", ""),
            ("application", "unladen"),
            ("applicationVersion", env!("CARGO_PKG_VERSION")),
        ];
        object(out, fields.iter().map(|(k, v)| (k, v)), |out, text: &&str| {
            json::string(out, text);
        });
    })
}

/// The version of Prometheus that the API answers like.
pub(crate) const PROMETHEUS_VERSION: &str = "3.14.0";

/// `/status/runtimeinfo`
pub(super) fn runtimeinfo(app: &App) -> Answer {
    let running = app.running.load_full();
    let retention = match app.retention(&running.loaded) {
        Duration::ZERO => String::new(),
        retention => duration::format(retention),
    };
    let directory = std::env::current_dir().map(|path| path.display().to_string());
    let texts = [
        ("startTime", time::rfc3339(Some(app.started_ms))),
        ("CWD", directory.unwrap_or_default()),
        ("hostname", rustix::system::uname().nodename().to_string_lossy().into_owned()),
        ("serverTime", time::rfc3339(Some(app.now_ms()))),
        ("lastConfigTime", time::rfc3339(Some(running.last_success_ms))),
        ("GOGC", String::new()),
        ("GODEBUG", String::new()),
        ("storageRetention", retention),
    ];
    let corruptions = app.metrics.corruptions();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    success(move |out| {
        out.text("{\"reloadConfigSuccess\":");
        out.text(if running.last_reload_worked { "true" } else { "false" });
        for (name, text) in &texts {
            out.text(",");
            json::string(out, name);
            out.text(":");
            json::string(out, text);
        }
        let numbers = [
            ("corruptionCount", corruptions),
            ("goroutineCount", 0),
            ("GOMAXPROCS", threads as u64),
            ("GOMEMLIMIT", 0),
        ];
        for (name, number) in numbers {
            out.text(",");
            json::string(out, name);
            out.text(":");
            json::integer(out, i64::try_from(number).unwrap_or(i64::MAX));
        }
        out.text("}");
    })
}

/// `/status/tsdb`
pub(super) fn tsdb(app: &App, form: &Form) -> Result<Answer, ApiError> {
    let limit = match form.get("limit") {
        "" => 10,
        text => match parse_whole(text) {
            Ok(limit @ 1..=MAX_CARDINALITY) => limit as usize,
            Ok(limit) if limit > MAX_CARDINALITY => {
                let reason = format!("limit must not exceed {MAX_CARDINALITY}");
                return Err(ApiError::bad_data(reason));
            }
            _ => return Err(ApiError::bad_data("limit must be a positive number")),
        },
    };
    let db = app.db()?;
    let stats = db.stats();
    let Cardinality { series_by_metric, values_by_label, bytes_by_label, series_by_pair } =
        db.cardinality(limit);
    Ok(success(move |out| {
        // Prometheus' values for an empty head.
        let (first, last) = stats.time_range.unwrap_or((i64::MAX, i64::MIN));
        out.text("{\"headStats\":");
        let fields = [
            ("numSeries", stats.series as i64),
            ("numLabelPairs", stats.label_pairs as i64),
            ("chunkCount", stats.chunks as i64),
            ("minTime", first),
            ("maxTime", last),
        ];
        object(out, fields.iter().map(|(k, v)| (k, v)), |out, n: &i64| json::integer(out, *n));
        for (name, entries) in [
            ("seriesCountByMetricName", &series_by_metric),
            ("labelValueCountByLabelName", &values_by_label),
            ("memoryInBytesByLabelName", &bytes_by_label),
            ("seriesCountByLabelValuePair", &series_by_pair),
        ] {
            out.text(",");
            json::string(out, name);
            out.text(":");
            json::list(out, entries, |out, (name, value)| {
                out.text("{\"name\":");
                json::string(out, name);
                out.text(",\"value\":");
                json::integer(out, i64::try_from(*value).unwrap_or(i64::MAX));
                out.text("}");
            });
        }
        out.text("}");
    }))
}

/// `/status/walreplay`: the start is a replay of one step.
pub(super) fn walreplay() -> Answer {
    success(|out| out.text("{\"min\":0,\"max\":0,\"current\":0}"))
}

/// `/features`
pub(super) fn features(app: &Arc<App>) -> Answer {
    let app = app.clone();
    success(move |out| {
        let parse = app.options.parse_options();
        let api = API_FEATURES.iter().map(|&(name, on)| (name, on));
        let lifecycle = [("lifecycle", app.options.enable_lifecycle)];
        out.text("{\"api\":");
        flag_object(out, api.chain(lifecycle));
        out.text(",\"promql\":");
        flag_object(
            out,
            [
                ("anchored", parse.extended_range_selectors),
                ("at_modifier", true),
                ("bool", true),
                ("by", true),
                ("delayed_name_removal", app.options.has_feature("promql-delayed-name-removal")),
                ("duration_expr", parse.duration_expressions),
                ("fill", parse.fill_modifiers),
                ("fill_left", parse.fill_modifiers),
                ("fill_right", parse.fill_modifiers),
                ("group_left", true),
                ("group_right", true),
                ("ignoring", true),
                ("negative_offset", true),
                ("offset", true),
                ("on", true),
                ("per_query_lookback_delta", true),
                ("per_step_stats", false),
                ("smoothed", parse.extended_range_selectors),
                ("subqueries", true),
                ("type_and_unit_labels", false),
                ("without", true),
            ],
        );
        out.text(",\"promql_functions\":");
        let functions = promql::functions::FUNCTIONS.iter();
        flag_object(
            out,
            functions.map(|f| (f.name, !f.experimental || parse.experimental_functions)),
        );
        out.text(",\"prometheus\":");
        flag_object(
            out,
            [
                ("agent_mode", false),
                ("auto_reload_config", app.options.auto_reload.is_some()),
                ("server_mode", true),
            ],
        );
        out.text(",\"service_discovery_providers\":");
        flag_object(out, [("file", true), ("http", true), ("static", true)]);
        out.text("}");
    })
}

fn flag_object<'a>(out: &mut Out, fields: impl IntoIterator<Item = (&'a str, bool)>) {
    let mut fields: Vec<_> = fields.into_iter().collect();
    fields.sort_unstable();
    object(out, fields.iter().map(|(name, on)| (name, on)), |out, on: &bool| {
        out.text(if *on { "true" } else { "false" });
    });
}

fn object<'a, N: AsRef<str> + 'a, V: 'a>(
    out: &mut Out,
    fields: impl Iterator<Item = (&'a N, &'a V)>,
    write: impl Fn(&mut Out, &V),
) {
    out.text("{");
    for (index, (name, value)) in fields.enumerate() {
        out.text(if index > 0 { "," } else { "" });
        json::string(out, name.as_ref());
        out.text(":");
        write(out, value);
    }
    out.text("}");
}
