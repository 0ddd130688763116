//! The protobuf exposition: `io.prometheus.client.MetricFamily` messages, each with its length in front.
//!
//! ```text
//! reader      Reader: body → Event, one metric at a time, borrowed
//! histogram   the parts of a histogram
//! (the writer is writer::messages, behind the same calls as the lines')
//!
//! body      = { varint length, MetricFamily }
//! family    = 1 name, 2 help, 3 type (varint), { 4 metric }, 5 unit
//! metric    = { 1 label }, one of 2 gauge, 3 counter, 4 summary, 5 untyped, 7 histogram; 6 timestamp in ms (int64)
//! label     = 1 name, 2 value
//! gauge     = 1 value (double); untyped the same
//! counter   = 1 value, 2 exemplar, 3 created
//! summary   = 1 count (uint64), 2 sum (double), { 3 quantile = 1 quantile, 2 value }, 4 created
//! histogram = 1 count, 4 count as double, 2 sum, { 3 bucket }, 15 created, { 16 exemplar }
//!             native: 5 schema (sint32), 6 zero threshold, 7 zero count, 8 zero count as double,
//!             negative { 9 span }, { 10 delta (sint64) } or { 11 count (double) },
//!             positive { 12 span }, { 13 delta } or { 14 count }
//! bucket    = 1 cumulative count, 4 the same as double, 2 upper bound, 3 exemplar
//! span      = 1 offset (sint32), 2 length (uint32)
//! exemplar  = { 1 label }, 2 value, 3 timestamp
//! created, timestamp = 1 seconds (int64), 2 nanoseconds (int32)
//! ```
//! The source is `metrics.proto` of Prometheus' client model.
//!
//! **A family in several messages.** A message needs its length in front of it and a family may have two
//! million series, so the writer makes as many messages of it as it takes chunks, all with the same name,
//! help, type and unit. Prometheus reads a body message by message: it takes each one's name, help and
//! type, then its metrics, and keeps nothing from one message to the next, so that several are the same
//! as one (`ProtobufParser.Next` in its `model/textparse`). A reader that makes a map of families, as
//! Go's `expfmt` decoders are used at times, has to append instead of replacing.
//!
//! **Custom bounds.** The format has no field for a native histogram's custom bounds (schema -53): such a
//! histogram is written with its bounds as explicit buckets, and it is the scraper that makes a native
//! one of them (`convert_classic_histograms_to_nhcb`).
//!
//! Refused: groups and whatever else is no protobuf, text that is not UTF-8, a family without a name or
//! of an unknown type, a metric without the value of its family's type, and spans that do not have as
//! many buckets as they say. Unknown fields are skipped. A field that may stand once counts as it stands
//! last.

mod histogram;
mod reader;

pub use histogram::{Bucket, Histogram, Repeated, Span};
pub use reader::{Event, Exemplar, Family, Metric, Pairs, Quantile, Reader, Summary, Value};

use super::Kind;

/// The numbers of the fields, as the schema names them.
pub(super) mod field {
    pub(in crate::exposition) const FAMILY_NAME: u32 = 1;
    pub(in crate::exposition) const FAMILY_HELP: u32 = 2;
    pub(in crate::exposition) const FAMILY_TYPE: u32 = 3;
    pub(in crate::exposition) const FAMILY_METRIC: u32 = 4;
    pub(in crate::exposition) const FAMILY_UNIT: u32 = 5;

    pub(in crate::exposition) const METRIC_LABEL: u32 = 1;
    pub(in crate::exposition) const METRIC_GAUGE: u32 = 2;
    pub(in crate::exposition) const METRIC_COUNTER: u32 = 3;
    pub(in crate::exposition) const METRIC_SUMMARY: u32 = 4;
    pub(in crate::exposition) const METRIC_UNTYPED: u32 = 5;
    pub(in crate::exposition) const METRIC_TIMESTAMP: u32 = 6;
    pub(in crate::exposition) const METRIC_HISTOGRAM: u32 = 7;

    pub(in crate::exposition) const LABEL_NAME: u32 = 1;
    pub(in crate::exposition) const LABEL_VALUE: u32 = 2;

    /// Of a gauge, an untyped one and a counter.
    pub(in crate::exposition) const NUMBER_VALUE: u32 = 1;
    pub(in crate::exposition) const COUNTER_EXEMPLAR: u32 = 2;
    pub(in crate::exposition) const COUNTER_CREATED: u32 = 3;

    pub(in crate::exposition) const SUMMARY_COUNT: u32 = 1;
    pub(in crate::exposition) const SUMMARY_SUM: u32 = 2;
    pub(in crate::exposition) const SUMMARY_QUANTILE: u32 = 3;
    pub(in crate::exposition) const SUMMARY_CREATED: u32 = 4;
    pub(in crate::exposition) const QUANTILE_QUANTILE: u32 = 1;
    pub(in crate::exposition) const QUANTILE_VALUE: u32 = 2;

    pub(in crate::exposition) const HISTOGRAM_COUNT: u32 = 1;
    pub(in crate::exposition) const HISTOGRAM_SUM: u32 = 2;
    pub(in crate::exposition) const HISTOGRAM_BUCKET: u32 = 3;
    pub(in crate::exposition) const HISTOGRAM_COUNT_FLOAT: u32 = 4;
    pub(in crate::exposition) const HISTOGRAM_SCHEMA: u32 = 5;
    pub(in crate::exposition) const HISTOGRAM_ZERO_THRESHOLD: u32 = 6;
    pub(in crate::exposition) const HISTOGRAM_ZERO_COUNT: u32 = 7;
    pub(in crate::exposition) const HISTOGRAM_ZERO_COUNT_FLOAT: u32 = 8;
    pub(in crate::exposition) const HISTOGRAM_NEGATIVE_SPAN: u32 = 9;
    pub(in crate::exposition) const HISTOGRAM_NEGATIVE_DELTA: u32 = 10;
    pub(in crate::exposition) const HISTOGRAM_NEGATIVE_COUNT: u32 = 11;
    pub(in crate::exposition) const HISTOGRAM_POSITIVE_SPAN: u32 = 12;
    pub(in crate::exposition) const HISTOGRAM_POSITIVE_DELTA: u32 = 13;
    pub(in crate::exposition) const HISTOGRAM_POSITIVE_COUNT: u32 = 14;
    pub(in crate::exposition) const HISTOGRAM_CREATED: u32 = 15;
    pub(in crate::exposition) const HISTOGRAM_EXEMPLAR: u32 = 16;

    pub(in crate::exposition) const BUCKET_COUNT: u32 = 1;
    pub(in crate::exposition) const BUCKET_BOUND: u32 = 2;
    pub(in crate::exposition) const BUCKET_EXEMPLAR: u32 = 3;
    pub(in crate::exposition) const BUCKET_COUNT_FLOAT: u32 = 4;

    pub(in crate::exposition) const SPAN_OFFSET: u32 = 1;
    pub(in crate::exposition) const SPAN_LENGTH: u32 = 2;

    pub(in crate::exposition) const EXEMPLAR_LABEL: u32 = 1;
    pub(in crate::exposition) const EXEMPLAR_VALUE: u32 = 2;
    pub(in crate::exposition) const EXEMPLAR_TIMESTAMP: u32 = 3;

    pub(in crate::exposition) const TIME_SECONDS: u32 = 1;
    pub(in crate::exposition) const TIME_NANOSECONDS: u32 = 2;
}

/// The number of `kind` in the field of the type. Info and state sets are gauges, as in text.
pub(super) const fn type_number(kind: Kind) -> u64 {
    match kind {
        Kind::Counter => 0,
        Kind::Gauge | Kind::Info | Kind::StateSet => 1,
        Kind::Summary => 2,
        Kind::Unknown => 3,
        Kind::Histogram => 4,
        Kind::GaugeHistogram => 5,
    }
}

/// The kind that a type's number means.
pub(super) const fn kind_of(number: u64) -> Option<Kind> {
    Some(match number {
        0 => Kind::Counter,
        1 => Kind::Gauge,
        2 => Kind::Summary,
        3 => Kind::Unknown,
        4 => Kind::Histogram,
        5 => Kind::GaugeHistogram,
        _ => return None,
    })
}
