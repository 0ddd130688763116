//! What scraping looks like from outside, at one moment: for the API and the page.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use store::Labels;
use wire::exposition::Kind;

use super::counters::Count;
use super::metadata::Families;

/// Every pool, by name.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// One for each job of the configuration.
    pub pools: BTreeMap<String, PoolStatus>,
}

/// What scraping holds in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Targets that are scraped.
    pub targets: u64,
    /// Bytes of what is remembered of their lines.
    pub lines_bytes: u64,
    /// Metric families whose metadata is remembered.
    pub metadata_families: u64,
    /// Bytes of that; texts that targets share are counted for each.
    pub metadata_bytes: u64,
    /// Bytes of the buffers for bodies.
    pub buffer_bytes: u64,
}

/// One job.
#[derive(Clone, Debug, Default)]
pub struct PoolStatus {
    /// Targets that are scraped, sorted by URL, then by labels.
    pub active: Vec<TargetStatus>,
    /// Targets that relabelling dropped, as many of them as `keep_dropped_targets` allows.
    pub dropped: Vec<DroppedTarget>,
    /// How many were dropped in all.
    pub dropped_count: usize,
    /// Targets that cannot be made from what was discovered, with the reason; bounded.
    pub invalid: Vec<String>,
    /// Why sources of targets hold on to what they found before.
    pub discovery_errors: Vec<String>,
    /// What all scrapes of the job took, also those of targets that are gone.
    pub cost: Cost,
}

/// What scrapes took since the target, or the job, began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Scrapes, failed ones included.
    pub scrapes: u64,
    /// Samples in their bodies.
    pub samples: u64,
    /// Bytes of bodies, inflated.
    pub body_bytes: u64,
    /// Bytes of bodies as transferred.
    pub transferred_bytes: u64,
    /// From the start of scrapes until their bodies were read and inflated: mostly spent waiting, for other
    /// scrapes of the same worker, too.
    pub fetch_nanoseconds: u64,
    /// From the inflated bodies to the committed batches, by the clock.
    pub ingest_nanoseconds: u64,
    /// Processor time of inflating and ingesting bodies.
    pub cpu_nanoseconds: u64,
    /// What was allocated meanwhile.
    pub allocated_bytes: u64,
}

/// A [`Cost`] to which many targets add.
#[derive(Debug, Default)]
pub(super) struct CostSums {
    scrapes: Count,
    samples: Count,
    body_bytes: Count,
    transferred_bytes: Count,
    fetch_nanoseconds: Count,
    ingest_nanoseconds: Count,
    cpu_nanoseconds: Count,
    allocated_bytes: Count,
}

impl Cost {
    /// Adds another one. Steady.
    pub(super) fn add(&mut self, more: &Cost) {
        self.scrapes += more.scrapes;
        self.samples += more.samples;
        self.body_bytes += more.body_bytes;
        self.transferred_bytes += more.transferred_bytes;
        self.fetch_nanoseconds += more.fetch_nanoseconds;
        self.ingest_nanoseconds += more.ingest_nanoseconds;
        self.cpu_nanoseconds += more.cpu_nanoseconds;
        self.allocated_bytes += more.allocated_bytes;
    }
}

impl CostSums {
    /// Adds the cost of a scrape. Steady.
    pub(super) fn add(&self, more: &Cost) {
        self.scrapes.add(more.scrapes);
        self.samples.add(more.samples);
        self.body_bytes.add(more.body_bytes);
        self.transferred_bytes.add(more.transferred_bytes);
        self.fetch_nanoseconds.add(more.fetch_nanoseconds);
        self.ingest_nanoseconds.add(more.ingest_nanoseconds);
        self.cpu_nanoseconds.add(more.cpu_nanoseconds);
        self.allocated_bytes.add(more.allocated_bytes);
    }

    pub(super) fn get(&self) -> Cost {
        Cost {
            scrapes: self.scrapes.get(),
            samples: self.samples.get(),
            body_bytes: self.body_bytes.get(),
            transferred_bytes: self.transferred_bytes.get(),
            fetch_nanoseconds: self.fetch_nanoseconds.get(),
            ingest_nanoseconds: self.ingest_nanoseconds.get(),
            cpu_nanoseconds: self.cpu_nanoseconds.get(),
            allocated_bytes: self.allocated_bytes.get(),
        }
    }
}

/// A target that is scraped.
#[derive(Clone, Debug)]
pub struct TargetStatus {
    /// Its labels before relabelling.
    pub discovered_labels: Labels,
    /// Its labels: those that its series get.
    pub labels: Labels,
    /// The job's name in the configuration.
    pub scrape_pool: Arc<str>,
    /// What is fetched.
    pub scrape_url: Arc<str>,
    /// Why the last scrape failed.
    pub last_error: Option<Arc<str>>,
    /// The start of the last scrape, in milliseconds since 1970; `None` before the first.
    pub last_scrape_ms: Option<i64>,
    /// How long the last scrape took.
    pub last_scrape_duration: Duration,
    /// Whether the last scrape worked.
    pub health: Health,
    /// From scrape to scrape, as Prometheus writes durations.
    pub scrape_interval: Arc<str>,
    /// For one scrape, as Prometheus writes durations.
    pub scrape_timeout: Arc<str>,
    /// Samples of the last scrape, before and after relabelling.
    pub samples_scraped: u64,
    /// Samples of the last scrape after relabelling.
    pub samples_post_relabel: u64,
    /// Bytes of the last body, inflated.
    pub body_bytes: u64,
    /// Bytes of the last body as they were transferred.
    pub transferred_bytes: u64,
    /// Bytes of what is remembered of the target's lines.
    pub memory_bytes: u64,
    /// What the target's scrapes took so far.
    pub cost: Cost,
    pub(super) families: Arc<Families>,
}

impl TargetStatus {
    /// What the target says about its metrics, in the order of the names. Copies.
    pub fn metadata(&self) -> Vec<Metadata> {
        self.families.list()
    }

    /// How many families that are, and the bytes of their texts.
    pub fn metadata_size(&self) -> (usize, usize) {
        self.families.size()
    }

    /// What the target says about one metric family.
    pub fn metadata_of(&self, family: &str) -> Option<Metadata> {
        self.families.get(family)
    }
}

/// A target that relabelling dropped.
#[derive(Clone, Debug)]
pub struct DroppedTarget {
    /// Its labels before relabelling.
    pub discovered_labels: Labels,
    /// The job's name in the configuration.
    pub scrape_pool: Arc<str>,
}

/// Whether a target answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// Not scraped yet.
    #[default]
    Unknown,
    /// The last scrape worked.
    Up,
    /// The last scrape failed.
    Down,
}

impl Health {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Health::Unknown => "unknown",
            Health::Up => "up",
            Health::Down => "down",
        }
    }
}

/// What a target says about a metric family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The family's name.
    pub family: Arc<str>,
    /// Its type.
    pub kind: Kind,
    /// What it is about.
    pub help: Arc<str>,
    /// What it is counted in.
    pub unit: Arc<str>,
}
