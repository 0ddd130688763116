//! Bytes that cross a process boundary, both directions; no I/O.
//!
//! ```text
//! number       f64 ⇄ text, as Go writes and reads it
//! exposition   text 0.0.4, OpenMetrics 1.0 and protobuf: one writer, a reader each, content negotiation,
//!              name escaping
//! otlp         OpenTelemetry's metrics: requests and answers, reader and writer
//! pprof        profiles, reader and writer
//! protobuf     fields of protobuf messages: sizes, sinks and a reader
//! ```
//!
//! Readers lend slices of their input and never own a label set; nothing here recurses on input, and no
//! input can make it panic. Writers hold one buffer and hand it to a sink when it is full.
#![forbid(unsafe_code)]

pub mod exposition;
pub mod number;
pub mod otlp;
pub mod pprof;
pub mod protobuf;
