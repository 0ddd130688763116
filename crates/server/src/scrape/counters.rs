//! What scraping counts about itself.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Steady: one atomic addition.
    pub fn add(&self, by: u64) {
        if by > 0 {
            self.0.fetch_add(by, Ordering::Relaxed);
        }
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of all pools together; the names are those of Prometheus without `prometheus_target_` and
/// `_total`.
#[derive(Debug, Default)]
pub struct Counters {
    /// Pools that were made.
    pub scrape_pools: Count,
    /// Reloads of pools.
    pub scrape_pool_reloads: Count,
    /// Syncs of pools that found more targets than `target_limit`.
    pub scrape_pool_exceeded_target_limit: Count,
    /// Scrapes with labels beyond a limit.
    pub scrape_pool_exceeded_label_limits: Count,
    /// Scrapes beyond `sample_limit`.
    pub scrapes_exceeded_sample_limit: Count,
    /// Scrapes beyond `body_size_limit`.
    pub scrapes_exceeded_body_size_limit: Count,
    /// Samples that repeat a time with another value.
    pub scrapes_sample_duplicate_timestamp: Count,
    /// Samples older than their series' last.
    pub scrapes_sample_out_of_order: Count,
    /// Samples too old or too far ahead.
    pub scrapes_sample_out_of_bounds: Count,
    /// All scrapes.
    pub scrapes: Count,
    /// Those that failed.
    pub scrapes_failed: Count,
    /// Samples scraped.
    pub samples_scraped: Count,
    /// Bytes of bodies, inflated.
    pub body_bytes: Count,
    /// Bytes of bodies as transferred.
    pub transferred_bytes: Count,
    /// From the start of scrapes until their bodies were read and inflated.
    pub fetch_nanoseconds: Count,
    /// From the inflated bodies to the committed batches.
    pub ingest_nanoseconds: Count,
}
