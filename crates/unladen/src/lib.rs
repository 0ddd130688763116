//! The library a program links: instrument, collect, export.
//!
//! ```text
//! instrument
//!   registry    Registry: what a program measures, each name once
//!   scoped      registering: counters, gauges, histograms, infos, state sets, observable families
//!   described   what a family is called, checked once; view changes what others registered
//!   family      Family, OpenFamily: one name, a handle for each set of labels
//!   labels      labels as a type
//!   instrument  Counter, UpDownCounter, Gauge, Histogram: handles that neither lock, hash nor allocate
//!   door        OpenTelemetry's API and the `metrics` facade in front of all this
//! keep
//!   attributes  sets of labels: in any order, escaped once, stored once
//!   table       the series of a family: found, bounded, expired, revived
//!   segment     their cells, and how threads write them side by side; thread numbers the threads
//!   shape       what a cell holds; native: the cells of native histograms; exemplar
//! collect
//!   callbacks   asks observable families so that a broken one spoils itself only; observed keeps the answers
//!   births      since when observable series are there, for all who ask
//!   collector   Collector: families straight from a program's own state; process: the process' own;
//!   allocator   what the program's allocator tells
//!   reader      Reader: everything as columns, cumulative or as differences, lent or kept
//! export
//!   expose      from cells to an exposition, without a copy in between
//!   endpoint    Endpoint: from a scrape's request to an answer, for any HTTP server; a listener
//!   export      to OTLP receivers and to the terminal, periodically
//! ```
//! ```
//! use unladen::{Negotiated, Registry};
//!
//! let registry = Registry::new();
//! let requests = registry.counter(("requests_total", "Requests served."), ["code"])?;
//! let ok = requests.with(["200"]);
//! ok.increment();
//!
//! let body = registry.write(Negotiated::default(), String::new(), |mut body, chunk| {
//!     body.push_str(std::str::from_utf8(chunk).unwrap());
//!     body
//! });
//! assert!(body.ends_with("requests_total{code=\"200\"} 1\n"));
//! # Ok::<(), unladen::Error>(())
//! ```
//! Registering is *setup*; a set of label values that was not seen before is *growth*; using a handle
//! and writing what is known is *steady*: it allocates nothing and frees nothing. Writing keeps no lock
//! while the sink has a chunk, so that any number of scrapes run side by side, however slow one is.
//!
//! Features: `endpoint` (on by default), `http-body`, `listener`, `otlp`, `otlp-tls`, `opentelemetry`, `metrics`.
#![forbid(unsafe_code)]

pub mod allocator;
mod attributes;
mod births;
mod callbacks;
mod check;
mod clock;
pub mod collector;
mod described;
#[cfg(any(feature = "metrics", feature = "opentelemetry"))]
pub mod door;
#[cfg(feature = "endpoint")]
pub mod endpoint;
mod error;
mod exemplar;
pub mod export;
mod expose;
mod family;
mod instrument;
pub mod labels;
mod native;
mod observed;
pub mod process;
pub mod reader;
mod registry;
mod resource;
mod scoped;
mod segment;
mod shape;
mod table;
mod thread;
mod translate;
mod view;

pub use attributes::{Attributes, ValueType};
pub use collector::{Collector, FamilyWriter, Samples};
pub use described::{Role, Spec};
pub use error::Error;
pub use exemplar::{Exemplar, Trace};
pub use family::{Family, OpenFamily};
pub use instrument::{
    Counter, Gauge, Histogram, Info, Instrument, State, StateSet, StateSets, UpDownCounter,
};
pub use observed::{Observer, OpenObserver};
pub use registry::{Builder, Registry};
pub use resource::{Resource, Scope};
pub use scoped::Scoped;
pub use shape::{Buckets, Number};
pub use translate::Translation;
pub use view::View;
pub use wire::exposition::negotiate::{Negotiated, negotiate};
pub use wire::exposition::writer::StoredLabels;
pub use wire::exposition::{Format, Kind};

/// The pages that have code in them, so that it stays true.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/coming-from.md")]
    struct ComingFrom;
    #[doc = include_str!("../../../docs/metrics-facade.md")]
    struct MetricsFacade;
    #[doc = include_str!("../../../docs/opentelemetry.md")]
    struct OpenTelemetry;
}

/// For unit tests of what is not public; the others have their own in `tests/`.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();
