//! The configuration as the rest of the server sees it: checked, every default filled in, what a job
//! inherits from `global` already inherited, every relative path joined with its file's folder.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use store::Labels;
use url::Url;

use super::http_client::{HttpClient, redacted_url};
use crate::relabel::Rule;

/// What works of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What applies to everything that does not say otherwise.
    pub global: Global,
    /// The jobs of the main file, then those of `scrape_config_files`.
    pub scrape_configs: Vec<ScrapeConfig>,
    /// The store's options that can change while it runs.
    pub storage: Storage,
}

/// The section `global`. What jobs inherit stands in each [`ScrapeConfig`].
#[derive(Clone, Debug, PartialEq)]
pub struct Global {
    /// How often to scrape.
    pub scrape_interval: Duration,
    /// How long a scrape may take.
    pub scrape_timeout: Duration,
    /// How often to evaluate rules.
    pub evaluation_interval: Duration,
    /// How far in the past rules are evaluated.
    pub rule_query_offset: Duration,
    /// Added to what leaves this server (federation, alerts, remote write). `$NAME` and `${NAME}` are
    /// already replaced from the environment.
    pub external_labels: Labels,
}

/// One job: an element of `scrape_configs`.
#[derive(Clone, Debug, PartialEq)]
pub struct ScrapeConfig {
    /// The value of the label `job`; unique.
    pub job_name: String,
    /// From the start of a scrape to the start of the next.
    pub scrape_interval: Duration,
    /// At most `scrape_interval`.
    pub scrape_timeout: Duration,
    /// What to accept, most wanted first; never empty, no duplicates.
    pub scrape_protocols: Vec<ScrapeProtocol>,
    /// How to read an answer whose content type says nothing usable; `None` fails the scrape.
    pub fallback_scrape_protocol: Option<ScrapeProtocol>,
    /// The scraped `job` and `instance` (and other clashing labels) win over the target's.
    pub honor_labels: bool,
    /// Timestamps in the answer count; on by default.
    pub honor_timestamps: bool,
    /// Series with explicit timestamps get staleness markers too.
    pub track_timestamps_staleness: bool,
    /// Query parameters, by name.
    pub params: BTreeMap<String, Vec<String>>,
    /// `/metrics` unless said otherwise.
    pub metrics_path: String,
    /// What `__scheme__` starts as.
    pub scheme: Scheme,
    /// Ask for a compressed answer; on by default.
    pub enable_compression: bool,
    /// The bounds of one scrape and of the job.
    pub limits: Limits,
    /// Where failed scrapes are logged.
    pub scrape_failure_log_file: Option<PathBuf>,
    /// Which names are valid.
    pub validation: NameValidation,
    /// Which escaping to ask for.
    pub escaping: NameEscaping,
    /// Read native histograms.
    pub scrape_native_histograms: bool,
    /// Turn classic histograms into native ones with custom buckets.
    pub convert_classic_histograms_to_nhcb: bool,
    /// Keep a classic histogram also where there is a native one.
    pub always_scrape_classic_histograms: bool,
    /// Also store the three `scrape_*` series of limits, timeout and body size.
    pub extra_scrape_metrics: bool,
    /// How to speak to the targets.
    pub http: HttpClient,
    /// Where the targets come from, in the order of Prometheus' sections.
    pub discoveries: Vec<Discovery>,
    /// Applied to each discovered target.
    pub relabel_configs: Vec<Rule>,
    /// Applied to each scraped series.
    pub metric_relabel_configs: Vec<Rule>,
}

/// Bounds. `None` is no limit; the file writes that as 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Bytes of an uncompressed answer.
    pub body_size: Option<u64>,
    /// Samples of a scrape after metric relabelling.
    pub samples: Option<u64>,
    /// Targets of the job after relabelling.
    pub targets: Option<u64>,
    /// Labels of a series.
    pub labels: Option<u64>,
    /// Bytes of a label's name.
    pub label_name_length: Option<u64>,
    /// Bytes of a label's value.
    pub label_value_length: Option<u64>,
    /// Buckets of a native histogram; more are merged.
    pub native_histogram_buckets: Option<u64>,
    /// The smallest growth from bucket to bucket; 0 leaves the schema alone.
    pub native_histogram_min_bucket_factor: f64,
    /// How many dropped targets of the job to remember.
    pub keep_dropped_targets: Option<u64>,
}

/// `http` or `https`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// In the clear.
    #[default]
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// As it is written in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// A format that a target may answer in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScrapeProtocol {
    /// Delimited protobuf.
    PrometheusProto,
    /// The text format.
    PrometheusText004,
    /// The text format with escaping negotiated.
    PrometheusText100,
    /// OpenMetrics' draft.
    OpenMetricsText001,
    /// OpenMetrics.
    OpenMetricsText100,
}

impl ScrapeProtocol {
    /// All of them, in the order of their names.
    pub const ALL: [ScrapeProtocol; 5] = [
        ScrapeProtocol::OpenMetricsText001,
        ScrapeProtocol::OpenMetricsText100,
        ScrapeProtocol::PrometheusProto,
        ScrapeProtocol::PrometheusText004,
        ScrapeProtocol::PrometheusText100,
    ];

    /// What is proposed when nothing is said.
    pub const DEFAULT: [ScrapeProtocol; 4] = [
        ScrapeProtocol::OpenMetricsText100,
        ScrapeProtocol::OpenMetricsText001,
        ScrapeProtocol::PrometheusText100,
        ScrapeProtocol::PrometheusText004,
    ];

    /// The name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            ScrapeProtocol::PrometheusProto => "PrometheusProto",
            ScrapeProtocol::PrometheusText004 => "PrometheusText0.0.4",
            ScrapeProtocol::PrometheusText100 => "PrometheusText1.0.0",
            ScrapeProtocol::OpenMetricsText001 => "OpenMetricsText0.0.1",
            ScrapeProtocol::OpenMetricsText100 => "OpenMetricsText1.0.0",
        }
    }

    /// The media range for the header `Accept`, without escaping and quality.
    pub fn media_type(self) -> &'static str {
        match self {
            ScrapeProtocol::PrometheusProto => {
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
            }
            ScrapeProtocol::PrometheusText004 => "text/plain;version=0.0.4",
            ScrapeProtocol::PrometheusText100 => "text/plain;version=1.0.0",
            ScrapeProtocol::OpenMetricsText001 => "application/openmetrics-text;version=0.0.1",
            ScrapeProtocol::OpenMetricsText100 => "application/openmetrics-text;version=1.0.0",
        }
    }

    /// The protocol with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.as_str() == name)
    }
}

/// Which metric and label names are valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameValidation {
    /// Any UTF-8 text that is not empty.
    #[default]
    Utf8,
    /// `[a-zA-Z_][a-zA-Z0-9_]*`, for metrics also `:`.
    Legacy,
}

impl NameValidation {
    /// As it is written in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            NameValidation::Utf8 => "utf8",
            NameValidation::Legacy => "legacy",
        }
    }

    /// Whether a label may have this name.
    pub fn is_label_name(self, name: &str) -> bool {
        match self {
            NameValidation::Utf8 => !name.is_empty(),
            NameValidation::Legacy => store::labels::is_legacy_name(name),
        }
    }

    /// Whether a metric may have this name.
    pub fn is_metric_name(self, name: &str) -> bool {
        match self {
            NameValidation::Utf8 => !name.is_empty(),
            NameValidation::Legacy => {
                let mut bytes = name.bytes();
                bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_' || b == b':')
                    && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b':')
            }
        }
    }
}

/// Which escaping of names a target is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameEscaping {
    /// None: UTF-8 as it is.
    #[default]
    AllowUtf8,
    /// Every invalid character becomes `_`.
    Underscores,
    /// Dots become `_dot_`, and so on.
    Dots,
    /// `U__` and code points.
    Values,
}

impl NameEscaping {
    /// As it is written in the configuration and in `escaping=` of a content type.
    pub fn as_str(self) -> &'static str {
        match self {
            NameEscaping::AllowUtf8 => "allow-utf-8",
            NameEscaping::Underscores => "underscores",
            NameEscaping::Dots => "dots",
            NameEscaping::Values => "values",
        }
    }
}

/// A source of targets that works.
#[derive(Clone, Debug, PartialEq)]
pub enum Discovery {
    /// The targets stand in the configuration.
    Static(Vec<StaticGroup>),
    /// The targets stand in files, which are watched.
    File(FileDiscovery),
    /// The targets are fetched.
    Http(Box<HttpDiscovery>),
}

/// Targets that share labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticGroup {
    /// `host:port`, one for each target.
    pub targets: Vec<String>,
    /// Added to each of them.
    pub labels: Labels,
}

/// `file_sd_configs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiscovery {
    /// Paths whose last part may hold `*`, and which end in `.json`, `.yml` or `.yaml`.
    pub files: Vec<PathBuf>,
    /// How often to read them even when nothing says that they changed.
    pub refresh_interval: Duration,
}

/// `http_sd_configs`.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpDiscovery {
    /// Where the list of groups is. May hold a password: show it through
    /// [`redacted_url`](super::http_client::redacted_url).
    pub url: Url,
    /// How often to fetch it.
    pub refresh_interval: Duration,
    /// How to fetch it.
    pub http: HttpClient,
}

impl fmt::Debug for HttpDiscovery {
    /// Hides the URL's password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpDiscovery")
            .field("url", &redacted_url(&self.url))
            .field("refresh_interval", &self.refresh_interval)
            .field("http", &self.http)
            .finish()
    }
}

/// The section `storage`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Storage {
    /// How many exemplars to keep; 0 keeps none.
    pub max_exemplars: u64,
    /// `None`: what the command line says.
    pub retention_time: Option<Duration>,
    /// Bytes of blocks; `None`: what the command line says.
    pub retention_size: Option<u64>,
}
