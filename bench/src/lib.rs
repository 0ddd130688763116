//! What the benches share: how an engine is run, asked and measured.
//!
//! ```text
//! clock       CPU and wall time of a piece of work; pinning a thread
//! deep        calls nested 500 deep
//! memory      resident memory and its peak, from /proc/self
//! protocol    the line `PEER name key=value …` that engines and peers print
//! engine      an engine as a child process that answers commands, and the peers that only run and print
//! statistics  medians and ratios
//! options     the command line
//! otel_reader a reader of opentelemetry_sdk that collects when asked
//! report      tables for people, bars, and the RESULT line for programs
//! ```
//! One engine is one process: the binary starts itself again with `--engine NAME`, so that no engine
//! sees memory that another one left. The parent asks them in turn, round by round, so that a machine
//! that becomes slow becomes slow for all of them.

pub mod clock;
pub mod deep;
pub mod engine;
pub mod memory;
pub mod options;
#[cfg(any(feature = "record", feature = "sdk"))]
pub mod otel_reader;
pub mod protocol;
pub mod report;
pub mod statistics;

/// What a bench returns when it cannot go on.
pub type Failure = Box<dyn std::error::Error>;
