//! `io.prometheus.client` as prost makes it: what the writer and the reader of messages are held against.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LabelPair {
    #[prost(string, optional, tag = "1")]
    pub(crate) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(crate) nanos: i32,
}

/// A gauge, or something untyped.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Number {
    #[prost(double, optional, tag = "1")]
    pub(crate) value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Counter {
    #[prost(double, optional, tag = "1")]
    pub(crate) value: Option<f64>,
    #[prost(message, optional, tag = "2")]
    pub(crate) exemplar: Option<Exemplar>,
    #[prost(message, optional, tag = "3")]
    pub(crate) created_timestamp: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Quantile {
    #[prost(double, optional, tag = "1")]
    pub(crate) quantile: Option<f64>,
    #[prost(double, optional, tag = "2")]
    pub(crate) value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Summary {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub(crate) sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) quantile: Vec<Quantile>,
    #[prost(message, optional, tag = "4")]
    pub(crate) created_timestamp: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) sample_count: Option<u64>,
    #[prost(double, optional, tag = "4")]
    pub(crate) sample_count_float: Option<f64>,
    #[prost(double, optional, tag = "2")]
    pub(crate) sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) bucket: Vec<Bucket>,
    #[prost(message, optional, tag = "15")]
    pub(crate) created_timestamp: Option<Timestamp>,
    #[prost(sint32, optional, tag = "5")]
    pub(crate) schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    pub(crate) zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    pub(crate) zero_count: Option<u64>,
    #[prost(double, optional, tag = "8")]
    pub(crate) zero_count_float: Option<f64>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) negative_span: Vec<BucketSpan>,
    #[prost(sint64, repeated, packed = "false", tag = "10")]
    pub(crate) negative_delta: Vec<i64>,
    #[prost(double, repeated, packed = "false", tag = "11")]
    pub(crate) negative_count: Vec<f64>,
    #[prost(message, repeated, tag = "12")]
    pub(crate) positive_span: Vec<BucketSpan>,
    /// Packed, unlike the negative ones: a reader has to take both.
    #[prost(sint64, repeated, tag = "13")]
    pub(crate) positive_delta: Vec<i64>,
    #[prost(double, repeated, tag = "14")]
    pub(crate) positive_count: Vec<f64>,
    #[prost(message, repeated, tag = "16")]
    pub(crate) exemplars: Vec<Exemplar>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "4")]
    pub(crate) cumulative_count_float: Option<f64>,
    #[prost(double, optional, tag = "2")]
    pub(crate) upper_bound: Option<f64>,
    #[prost(message, optional, tag = "3")]
    pub(crate) exemplar: Option<Exemplar>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct BucketSpan {
    #[prost(sint32, optional, tag = "1")]
    pub(crate) offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    pub(crate) length: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Exemplar {
    #[prost(message, repeated, tag = "1")]
    pub(crate) label: Vec<LabelPair>,
    #[prost(double, optional, tag = "2")]
    pub(crate) value: Option<f64>,
    #[prost(message, optional, tag = "3")]
    pub(crate) timestamp: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metric {
    #[prost(message, repeated, tag = "1")]
    pub(crate) label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    pub(crate) gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    pub(crate) counter: Option<Counter>,
    #[prost(message, optional, tag = "4")]
    pub(crate) summary: Option<Summary>,
    #[prost(message, optional, tag = "5")]
    pub(crate) untyped: Option<Number>,
    #[prost(message, optional, tag = "7")]
    pub(crate) histogram: Option<Histogram>,
    #[prost(int64, optional, tag = "6")]
    pub(crate) timestamp_ms: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    pub(crate) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) help: Option<String>,
    #[prost(int32, optional, tag = "3")]
    pub(crate) r#type: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) metric: Vec<Metric>,
    #[prost(string, optional, tag = "5")]
    pub(crate) unit: Option<String>,
}
