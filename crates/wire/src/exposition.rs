//! What a program exposes its metrics in: Prometheus' text 0.0.4, OpenMetrics 1.0, protobuf messages.
//!
//! ```text
//! reader      Reader: body → Event, one line at a time, borrowed; as Prometheus 3 reads it
//! text        the grammar of 0.0.4: how a line is read, how a number and a timestamp are written
//! openmetrics the same for OpenMetrics 1.0
//! messages    the protobuf exposition, and its own Reader
//! labels      the labels of a series or an exemplar, and their escapes
//! stored      labels escaped once, to be copied ever after
//! writer      Writer: families → body, through one buffer into a sink
//! negotiate   which format the two sides of a scrape agree on
//! name        names outside the legacy alphabet, and how they are spelt for those who can't read them
//! ```
//! What is refused: everything that Prometheus 3 refuses, with the line and the byte where it stands.

mod error;
mod labels;
pub mod messages;
pub mod name;
pub mod negotiate;
mod openmetrics;
mod reader;
mod stored;
mod text;
pub mod writer;

pub use error::{ReadError, Reason};
pub use labels::{Escaped, Label, Labels};
pub use reader::{Event, Exemplar, Expected, Reader, Reading, Sample};

/// A format of exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// Prometheus' text format 0.0.4.
    #[default]
    Text,
    /// OpenMetrics 1.0 text.
    OpenMetrics,
    /// Length-delimited messages of Prometheus' client model. [`Reader`] reads lines;
    /// [`messages::Reader`] reads these.
    Protobuf,
}

impl Format {
    /// The `Content-Type` under which a body of this format is served, without an escaping scheme.
    pub const fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                 encoding=delimited"
            }
        }
    }
}

/// What a family measures, as its TYPE line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    /// Only grows, or starts again from zero.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets under `le`, `_sum` and `_count`.
    Histogram,
    /// As a histogram, of values that may fall. OpenMetrics only.
    GaugeHistogram,
    /// Quantiles under `quantile`, `_sum` and `_count`.
    Summary,
    /// Labels around a constant 1. OpenMetrics only.
    Info,
    /// One of several states. OpenMetrics only.
    StateSet,
    /// Not said; `untyped` in text 0.0.4.
    #[default]
    Unknown,
}

impl Kind {
    /// The name in Prometheus' metadata and in OpenMetrics; `unknown` where text 0.0.4 writes `untyped`.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::GaugeHistogram => "gaugehistogram",
            Kind::Summary => "summary",
            Kind::Info => "info",
            Kind::StateSet => "stateset",
            Kind::Unknown => "unknown",
        }
    }

    /// The word in a TYPE line of `format`. Text 0.0.4 has no word for the kinds that OpenMetrics added
    /// and gets the nearest. Protobuf has numbers and no words, and gets those of Prometheus' metadata.
    pub const fn word(self, format: Format) -> &'static str {
        match (format, self) {
            (Format::Text, Kind::Unknown) => "untyped",
            (Format::Text, Kind::GaugeHistogram) => "histogram",
            (Format::Text, Kind::Info | Kind::StateSet) => "gauge",
            _ => self.name(),
        }
    }

    /// The kind that `word` means in a TYPE line of `format`.
    pub fn from_word(word: &[u8], format: Format) -> Option<Kind> {
        Some(match (format, word) {
            (_, b"counter") => Kind::Counter,
            (_, b"gauge") => Kind::Gauge,
            (_, b"histogram") => Kind::Histogram,
            (_, b"summary") => Kind::Summary,
            (Format::Text, b"untyped") => Kind::Unknown,
            (Format::OpenMetrics, b"unknown") => Kind::Unknown,
            (Format::OpenMetrics, b"gaugehistogram") => Kind::GaugeHistogram,
            (Format::OpenMetrics, b"info") => Kind::Info,
            (Format::OpenMetrics, b"stateset") => Kind::StateSet,
            _ => return None,
        })
    }

    /// Whether a series of this kind may come with the time at which it was created.
    pub const fn has_created(self) -> bool {
        matches!(self, Kind::Counter | Kind::Histogram | Kind::Summary)
    }
}
