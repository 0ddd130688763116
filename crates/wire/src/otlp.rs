//! Metrics of OpenTelemetry on the wire, both directions.
//!
//! ```text
//! attribute   attribute values: written, read, walked through
//! point       what a metric's points hold, the same for writing and for reading
//! writer      an ExportMetricsServiceRequest, measured and then streamed
//! reader      an ExportMetricsServiceRequest, lent from its bytes
//! answer      what a server answers: ExportMetricsServiceResponse and google.rpc.Status
//! ```
//! The source is opentelemetry-proto v1 (`opentelemetry.proto.collector.metrics.v1`, `metrics.v1`,
//! `common.v1`, `resource.v1`) in its binary encoding, which is the body of OTLP/HTTP with the content
//! type [`CONTENT_TYPE`]. The JSON encoding is not read and not written; profiles, logs and traces have
//! other messages.
//!
//! The writer leaves out what proto3 leaves out (a time of 0, an empty name) and writes what carries its
//! presence: a point's value, a histogram's sum, min and max, and an attribute's value are there even
//! when they are 0 or empty. The reader ignores fields it does not know and takes fields in any order,
//! lists of numbers packed or not; of a message that may come once and comes twice, the last counts.

pub mod answer;
pub mod attribute;
pub mod point;
pub mod reader;
pub mod writer;

pub use answer::{PartialSuccess, Response, Status};
pub use attribute::AttributeValue;
pub use point::{
    Buckets, Exemplar, ExponentialHistogramPoint, HistogramPoint, Metric, NoAttributes,
    NoExemplars, Number, NumberPoint, Resource, Scope, SummaryPoint, Temporality,
};
pub use reader::Request;
pub use writer::{Buffer, Changed, Measured, Writer, fold, measure};

/// The content type of a request and of its answer.
pub const CONTENT_TYPE: &str = "application/x-protobuf";
