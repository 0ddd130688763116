//! What is recorded: `bench/peers/WORKLOADS.md`, "record".

use std::sync::Arc;

/// The attributes of the one set, by OpenTelemetry's names.
pub const ATTRIBUTES: [(&str, &str); 3] = [
    ("http.request.method", "GET"),
    ("http.route", "/api/queues/:vhost/:name"),
    ("http.response.status_code", "200"),
];

/// Their names where dots are not allowed.
pub const LABELS: [&str; 3] = ["http_request_method", "http_route", "http_response_status_code"];

/// The bounds of the histogram with explicit buckets.
pub const BOUNDS: [f64; 10] = [5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0];

/// The most buckets of the native histogram.
pub const NATIVE_BUCKETS: usize = 160;

/// All cases, in the order of the table.
pub const CASES: [&str; 8] = [
    "bound",
    "unbound3",
    "reordered3",
    "histogram",
    "histogram_native",
    "histogram_unbound3",
    "contended2",
    "contended2_unbound3",
];

/// The value of operation `n` of a histogram.
#[inline]
pub fn value(n: u64) -> f64 {
    (n * 7919 % 1009) as f64
}

/// So many operations in a loop: the loop is inside, so that what calls it costs once per round.
pub type Work = Arc<dyn Fn(u64) + Send + Sync>;

/// One case of an engine.
#[derive(Clone)]
pub struct Case {
    pub name: &'static str,
    pub threads: usize,
    pub work: Work,
}

/// An engine: its cases, and how much it has recorded in the end.
pub struct Built {
    pub cases: Vec<Case>,
    /// All that was added to its counters, and all values that its histograms hold.
    pub recorded: Box<dyn Fn() -> u64>,
    /// What the library asks to be done now and then; outside the measurement.
    pub upkeep: Box<dyn Fn()>,
}

impl Built {
    /// An engine without cases.
    pub fn new(recorded: impl Fn() -> u64 + 'static) -> Self {
        Built { cases: Vec::new(), recorded: Box::new(recorded), upkeep: Box::new(|| ()) }
    }

    /// Adds a case on one thread.
    pub fn case(&mut self, name: &'static str, operation: impl Fn(u64) + Send + Sync + 'static) {
        self.cases.push(Case { name, threads: 1, work: every(operation) });
    }

    /// Adds a case on one thread, and the same work on two threads at once.
    pub fn contended(
        &mut self,
        [name, contended]: [&'static str; 2],
        operation: impl Fn(u64) + Send + Sync + 'static,
    ) {
        let work = every(operation);
        self.cases.push(Case { name, threads: 1, work: work.clone() });
        self.cases.push(Case { name: contended, threads: 2, work });
    }
}

/// The operation in a loop of its own.
fn every(operation: impl Fn(u64) + Send + Sync + 'static) -> Work {
    Arc::new(move |operations| {
        for number in 0..operations {
            operation(number);
        }
    })
}
