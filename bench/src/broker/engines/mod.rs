//! The engines: each holds the workload's series and renders them.

mod floor;
mod metrics_exporter;
mod prometheus;
mod prometheus_client;
mod unladen_collector;
mod unladen_registered;

use bench::Failure;

use crate::workload::Workload;

/// Takes the chunks of a body.
pub type Sink<'s> = dyn FnMut(&[u8]) + 's;

/// Renders one body into a sink; owns what the engine may keep from one body to the next.
pub type Scraper<'e> = dyn FnMut(&mut Sink<'_>) + 'e;

/// Holds the workload's series.
pub trait Engine: Sync {
    /// What renders on one thread.
    fn scraper(&self) -> Box<Scraper<'_>>;
}

/// An engine with its series in it and every handle kept, as a program keeps them.
pub struct Built {
    pub engine: Box<dyn Engine>,
    /// Of what is kept, the bytes that a program has anyway: its own table.
    pub program_bytes: i64,
    /// Whether it writes fractions as the integers they come from.
    pub is_floor: bool,
}

impl Built {
    fn engine(engine: impl Engine + 'static) -> Self {
        Built { engine: Box::new(engine), program_bytes: 0, is_floor: false }
    }
}

/// How an engine is built.
type Build = fn(Workload) -> Result<Built, Failure>;

/// An engine and how many rounds it gets: few where one takes seconds.
pub struct Entry {
    pub name: &'static str,
    pub rounds: usize,
    build: Build,
}

/// All engines, in the order of the table.
pub static ENGINES: [Entry; 8] = [
    Entry { name: "floor", rounds: 11, build: floor::build },
    Entry { name: "unladen", rounds: 11, build: unladen_registered::build },
    Entry { name: "unladen-collector", rounds: 11, build: unladen_collector::build_stored },
    Entry { name: "unladen-collector-pairs", rounds: 11, build: unladen_collector::build_pairs },
    Entry { name: "prometheus-client", rounds: 11, build: prometheus_client::build_reusing },
    Entry { name: "prometheus-client-fresh", rounds: 5, build: prometheus_client::build_fresh },
    Entry { name: "prometheus", rounds: 3, build: prometheus::build },
    Entry { name: "metrics-exporter-prometheus", rounds: 3, build: metrics_exporter::build },
];

/// Builds the engine of that name.
pub fn build(name: &str, workload: Workload) -> Result<Built, Failure> {
    let entry = ENGINES.iter().find(|entry| entry.name == name);
    (entry.ok_or_else(|| format!("there is no engine {name}"))?.build)(workload)
}
