//! What `unladen serve` is to do, out of its flags.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use promql::ParseOptions;
use store::Pattern;
use url::Url;

use super::flags::{Effect, FEATURES, FLAGS};
use super::{Given, Mistake};
use crate::duration;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// `time=… level=INFO source=… msg="…" key=value`
    Logfmt,
    /// One object a line.
    Json,
}

/// What `unladen serve` is to do.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The configuration; without one the server watches itself and the machine.
    pub config_file: Option<PathBuf>,
    /// How often to look whether it changed; `None`: never.
    pub auto_reload: Option<Duration>,
    /// `host:port`, the host may be empty.
    pub listen_addresses: Vec<String>,
    /// How long the head or the body of a request may take; `None` for as long as it wants.
    pub read_timeout: Option<Duration>,
    /// Connections at once.
    pub max_connections: usize,
    /// Where others reach the server; its path has no slash at its end.
    pub external_url: Url,
    /// Begins with a slash and has none at its end; empty for the root.
    pub route_prefix: String,
    /// Reload and shutdown over HTTP.
    pub enable_lifecycle: bool,
    /// The title of the page.
    pub page_title: String,
    /// Which origins may ask.
    pub cors_origin: Pattern,
    /// The directory of the data.
    pub storage_path: PathBuf,
    /// How long samples are kept, where the configuration doesn't say.
    pub retention: Duration,
    /// Length of a block.
    pub block_duration: Duration,
    /// From one sync with discovery to the next.
    pub discovery_interval: Duration,
    /// How long a sample stands for its series.
    pub lookback_delta: Duration,
    /// How long a query may take.
    pub query_timeout: Duration,
    /// Queries at once.
    pub query_concurrency: usize,
    /// Samples that a query may hold.
    pub query_max_samples: u64,
    /// The share of one processor that the server's own profiler may take; 0: none runs.
    pub profile_budget: f64,
    /// Bytes from one sample of the heap to the next, on average; 0: it is not sampled.
    pub profile_heap_bytes: u64,
    /// Features that are on.
    pub features: Vec<&'static str>,
    /// The least that is logged.
    pub log_level: tracing::Level,
    /// How it is logged.
    pub log_format: LogFormat,
    /// All flags with their values.
    pub flags: BTreeMap<String, String>,
    /// Flags and features that were given and have no effect, one sentence each.
    pub warnings: Vec<String>,
}

impl ServeOptions {
    /// Whether a feature is on.
    pub fn has_feature(&self, name: &str) -> bool {
        self.features.contains(&name)
    }

    /// Which experimental parts of PromQL are on.
    pub fn parse_options(&self) -> ParseOptions {
        ParseOptions {
            experimental_functions: self.has_feature("promql-experimental-functions"),
            duration_expressions: true,
            extended_range_selectors: self.has_feature("promql-extended-range-selectors"),
            fill_modifiers: self.has_feature("promql-binop-fill-modifiers"),
        }
    }
}

/// How long samples are kept unless something else is said.
const DEFAULT_RETENTION: Duration = Duration::from_secs(15 * 86_400);

/// The most connections, and the most queries, at once: each can need a thread.
const MAX_AT_ONCE: usize = 1 << 20;

/// Checks the values of all flags.
pub(super) fn build(given: &Given) -> Result<ServeOptions, Mistake> {
    let mut warnings = Vec::new();
    refuse_or_warn(given, &mut warnings)?;
    let values = Values(given);
    let features = features(&values, &mut warnings)?;
    let mut listen_addresses = values.all("web.listen-address");
    for address in &mut listen_addresses {
        check_address(address)?;
    }
    let external_url = external_url(&values, &listen_addresses[0])?;
    let route_prefix = match values.text("web.route-prefix") {
        "" => external_url.path(),
        prefix => prefix,
    };
    let route_prefix = match route_prefix.trim_matches('/') {
        "" => String::new(),
        prefix => format!("/{prefix}"),
    };
    let auto_reload =
        values.is_on("config.auto-reload") || features.contains(&"auto-reload-config");
    let retention = match values.text("storage.tsdb.retention.time") {
        "" => values.text("storage.tsdb.retention"),
        time => time,
    };
    let retention = match retention {
        "" => Duration::ZERO,
        text => parse_duration("storage.tsdb.retention.time", text)?,
    };
    // As in Prometheus, a retention of nothing is none that was given.
    let retention = if retention.is_zero() { DEFAULT_RETENTION } else { retention };
    let read_timeout = values.duration("web.read-timeout")?;
    let cors_origin = Pattern::new(values.text("web.cors.origin")).map_err(|error| {
        Mistake::new(format!("--web.cors.origin is no regular expression: {error}"))
    })?;
    let interval = values.duration("config.auto-reload-interval")?.max(Duration::from_secs(1));
    let config_file = values.text("config.file");
    Ok(ServeOptions {
        config_file: (!config_file.is_empty()).then(|| config_file.into()),
        auto_reload: auto_reload.then_some(interval),
        listen_addresses,
        read_timeout: (!read_timeout.is_zero()).then_some(read_timeout),
        max_connections: values.at_most("web.max-connections", MAX_AT_ONCE)?,
        external_url,
        route_prefix,
        enable_lifecycle: values.is_on("web.enable-lifecycle"),
        page_title: values.text("web.page-title").to_owned(),
        cors_origin,
        storage_path: values.text("storage.tsdb.path").into(),
        retention,
        block_duration: block_duration(&values)?,
        discovery_interval: values.duration("scrape.discovery-reload-interval")?,
        lookback_delta: values.duration("query.lookback-delta")?,
        query_timeout: values.duration("query.timeout")?,
        query_concurrency: values.at_most("query.max-concurrency", MAX_AT_ONCE)?,
        query_max_samples: values.number("query.max-samples")?,
        profile_budget: profile_budget(&values)?,
        profile_heap_bytes: values.number("profile.heap-sample-bytes")?,
        features,
        log_level: log_level(values.text("log.level"))?,
        log_format: log_format(values.text("log.format"))?,
        flags: super::all_values(given),
        warnings,
    })
}

/// Flags that cannot be honoured, and flags without effect, that were given another value than their
/// default.
fn refuse_or_warn(given: &Given, warnings: &mut Vec<String>) -> Result<(), Mistake> {
    let changed = |name: &str, default: &str| {
        given.get(name).is_some_and(|values| values.iter().any(|value| value != default))
    };
    let agent: Vec<_> = FLAGS
        .iter()
        .filter(|flag| flag.effect == Effect::Agent && given.contains_key(flag.name))
        .map(|flag| format!("\"--{}\"", flag.name))
        .collect();
    if !agent.is_empty() {
        return Err(Mistake {
            message: format!(
                "The following flag(s) can only be used in agent mode: [{}]",
                agent.join(" ")
            ),
            code: 3,
        });
    }
    for flag in FLAGS.iter().filter(|flag| changed(flag.name, flag.default)) {
        match flag.effect {
            Effect::NotYet(what) => {
                return Err(Mistake::new(format!(
                    "--{} asks for something that doesn't work yet ({what}): leave it out",
                    flag.name
                )));
            }
            Effect::Nothing(reason) => {
                warnings.push(format!("--{} has no effect: {reason}", flag.name));
            }
            Effect::Works | Effect::Agent => {}
        }
    }
    Ok(())
}

fn features(values: &Values<'_>, warnings: &mut Vec<String>) -> Result<Vec<&'static str>, Mistake> {
    let mut on = Vec::new();
    let lists = values.all("enable-feature");
    for name in lists.iter().flat_map(|list| list.split(',')).filter(|name| !name.is_empty()) {
        match FEATURES.iter().find(|(known, _)| *known == name) {
            Some(&(known, Effect::Works)) => on.push(known),
            Some((known, Effect::NotYet(what))) => {
                return Err(Mistake::new(format!(
                    "--enable-feature={known} asks for something that doesn't work yet ({what}): \
                     leave it out"
                )));
            }
            Some((known, Effect::Nothing(reason))) => {
                warnings.push(format!("--enable-feature={known} has no effect: {reason}"));
            }
            Some((_, Effect::Agent)) | None => {
                warnings.push(format!("Unknown option for --enable-feature: {name}"));
            }
        }
    }
    Ok(on)
}

/// The values of flags, given or by default.
struct Values<'a>(&'a Given);

impl Values<'_> {
    fn text(&self, name: &str) -> &str {
        match self.0.get(name).and_then(|values| values.last()) {
            Some(value) => value,
            None => FLAGS.iter().find(|flag| flag.name == name).map_or("", |flag| flag.default),
        }
    }

    fn all(&self, name: &str) -> Vec<String> {
        match self.0.get(name) {
            Some(values) => values.clone(),
            None => vec![self.text(name).to_owned()],
        }
    }

    /// A count of what can be there at once, from 1 to `most`.
    fn at_most(&self, name: &str, most: usize) -> Result<usize, Mistake> {
        match self.number(name)? {
            count @ 1.. if count <= most => Ok(count),
            count => Err(Mistake::new(format!("--{name} is from 1 to {most}, not {count}"))),
        }
    }

    fn is_on(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    fn duration(&self, name: &str) -> Result<Duration, Mistake> {
        parse_duration(name, self.text(name))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T, Mistake> {
        let text = self.text(name);
        text.parse()
            .map_err(|_| Mistake::new(format!("--{name} wants a whole number, {text:?} is none")))
    }
}

fn parse_duration(name: &str, text: &str) -> Result<Duration, Mistake> {
    duration::parse(text).map_err(|reason| Mistake::new(format!("--{name}: {reason}")))
}

fn check_address(address: &str) -> Result<(), Mistake> {
    let port = address.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(_)) => Ok(()),
        _ => Err(Mistake::new(format!(
            "--web.listen-address wants host:port such as 0.0.0.0:9090 or :9090, not {address:?}"
        ))),
    }
}

fn block_duration(values: &Values<'_>) -> Result<Duration, Mistake> {
    let (least, most) = (Duration::from_secs(1), Duration::from_secs(31 * 86_400));
    let length = values.duration("storage.tsdb.min-block-duration")?;
    if length < least || length > most {
        return Err(Mistake::new(format!(
            "--storage.tsdb.min-block-duration is from 1s to 31d, not {}",
            values.text("storage.tsdb.min-block-duration")
        )));
    }
    Ok(length)
}

fn profile_budget(values: &Values<'_>) -> Result<f64, Mistake> {
    let text = values.text("profile.budget");
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(Mistake::new(format!(
            "--profile.budget is a share of one processor such as 0.02, from 0 to 1, not {text:?}"
        ))),
    }
}

fn external_url(values: &Values<'_>, address: &str) -> Result<Url, Mistake> {
    let given = values.text("web.external-url");
    let text = if given.is_empty() {
        let port = address.rsplit_once(':').map_or("9090", |(_, port)| port);
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        format!("http://{host}:{port}/")
    } else if given.starts_with('"') || given.starts_with('\'') {
        return Err(Mistake::new(
            "parse external URL: URL must not begin or end with quotes: take them away",
        ));
    } else {
        given.to_owned()
    };
    let refused = |reason: String| Mistake::new(format!("parse external URL \"{text}\": {reason}"));
    let mut url = Url::parse(&text).map_err(|error| refused(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(refused("it has to begin with http://host or https://host".to_owned()));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

fn log_level(text: &str) -> Result<tracing::Level, Mistake> {
    Ok(match text {
        "debug" => tracing::Level::DEBUG,
        "info" => tracing::Level::INFO,
        "warn" => tracing::Level::WARN,
        "error" => tracing::Level::ERROR,
        other => {
            return Err(Mistake::new(format!(
                "--log.level is one of debug, info, warn, error, not {other:?}"
            )));
        }
    })
}

fn log_format(text: &str) -> Result<LogFormat, Mistake> {
    match text {
        "logfmt" => Ok(LogFormat::Logfmt),
        "json" => Ok(LogFormat::Json),
        other => Err(Mistake::new(format!("--log.format is logfmt or json, not {other:?}"))),
    }
}
