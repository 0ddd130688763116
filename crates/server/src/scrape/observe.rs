//! Scraping and discovery in the server's own metrics, under Prometheus' names where they mean the
//! same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use unladen::{Collector, FamilyWriter};
use wire::exposition::Kind;
use wire::exposition::writer::{Family, LabelSet, Summary};

use super::Shared;
use super::counters::Count;
use super::intervals::QUANTILES;
use super::pool::Pool;
use super::status::Cost;
use crate::discovery;

/// Writes the figures when the server is scraped.
pub(super) struct Figures {
    pub(super) shared: Arc<Shared>,
    pub(super) pools: Arc<Mutex<BTreeMap<String, Arc<Pool>>>>,
    pub(super) sources: Arc<discovery::Counters>,
}

/// One pool's, copied.
struct PoolFigures {
    name: String,
    targets: usize,
    dropped: usize,
    discovered: usize,
    limit: u64,
    syncs: u64,
    sync_failed: u64,
    metadata_entries: usize,
    metadata_bytes: usize,
    memory_bytes: u64,
    cost: Cost,
}

impl Collector for Figures {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        self.scrapes(out);
        self.intervals(out);
        self.pools(out);
        self.discovery(out);
    }
}

impl Figures {
    fn scrapes(&self, out: &mut FamilyWriter<'_, '_>) {
        let c = &self.shared.counters;
        let counters: [(&str, &str, &Count); 16] = [
            (
                "prometheus_target_scrape_pools_total",
                "Total number of scrape pools made.",
                &c.scrape_pools,
            ),
            (
                "prometheus_target_scrape_pool_reloads_total",
                "Total number of scrape pool reloads.",
                &c.scrape_pool_reloads,
            ),
            (
                "prometheus_target_scrape_pool_exceeded_target_limit_total",
                "Syncs of scrape pools that found more targets than target_limit.",
                &c.scrape_pool_exceeded_target_limit,
            ),
            (
                "prometheus_target_scrape_pool_exceeded_label_limits_total",
                "Scrapes that failed because a series exceeded a limit on labels.",
                &c.scrape_pool_exceeded_label_limits,
            ),
            (
                "prometheus_target_scrapes_exceeded_sample_limit_total",
                "Scrapes that failed because they exceeded sample_limit.",
                &c.scrapes_exceeded_sample_limit,
            ),
            (
                "prometheus_target_scrapes_exceeded_body_size_limit_total",
                "Scrapes that failed because they exceeded body_size_limit.",
                &c.scrapes_exceeded_body_size_limit,
            ),
            (
                "prometheus_target_scrapes_sample_duplicate_timestamp_total",
                "Samples rejected because their series had another value at the same time.",
                &c.scrapes_sample_duplicate_timestamp,
            ),
            (
                "prometheus_target_scrapes_sample_out_of_order_total",
                "Samples rejected because they are older than the last one of their series.",
                &c.scrapes_sample_out_of_order,
            ),
            (
                "prometheus_target_scrapes_sample_out_of_bounds_total",
                "Samples rejected because they are too old or too far in the future.",
                &c.scrapes_sample_out_of_bounds,
            ),
            ("unladen_scrapes_total", "Scrapes, failed ones included.", &c.scrapes),
            ("unladen_scrapes_failed_total", "Scrapes that failed.", &c.scrapes_failed),
            ("unladen_scrape_samples_total", "Samples in scraped bodies.", &c.samples_scraped),
            (
                "unladen_scrape_body_bytes_total",
                "Bytes of scraped bodies, inflated.",
                &c.body_bytes,
            ),
            (
                "unladen_scrape_transferred_bytes_total",
                "Bytes of scraped bodies as they were transferred.",
                &c.transferred_bytes,
            ),
            (
                "unladen_scrape_fetch_nanoseconds_total",
                "Time from the start of scrapes until their bodies were read and inflated, together.",
                &c.fetch_nanoseconds,
            ),
            (
                "unladen_scrape_ingest_nanoseconds_total",
                "Time from the inflated bodies of scrapes to journal and head, together.",
                &c.ingest_nanoseconds,
            ),
        ];
        for (name, help, count) in counters {
            out.counter(name, help).sample(&[], count.get());
        }
        let held = self.shared.buffers.held() as u64;
        out.gauge("unladen_scrape_buffer_bytes", "Bytes of the buffers for bodies.")
            .sample(&[], held);
    }

    fn intervals(&self, out: &mut FamilyWriter<'_, '_>) {
        let all = self.shared.intervals.all();
        let mut samples = out.family(&Family::new(
            "prometheus_target_interval_length_seconds",
            "Actual intervals between scrapes.",
            Kind::Summary,
        ));
        for distances in &all {
            let labels = [("interval", distances.shown.as_str())];
            let mut quantiles = [(0.0, 0.0); QUANTILES.len()];
            for (to, pair) in
                quantiles.iter_mut().zip(QUANTILES.into_iter().zip(distances.quantiles()))
            {
                *to = pair;
            }
            let (count, sum) = distances.totals();
            samples.summary(
                LabelSet::Pairs(&labels),
                &Summary { quantiles: &quantiles, sum, count, ..Summary::default() },
            );
        }
    }

    fn pools(&self, out: &mut FamilyWriter<'_, '_>) {
        let pools: Vec<PoolFigures> =
            self.pools.lock().iter().map(|(name, pool)| figures_of(name, pool)).collect();
        type Pick = fn(&PoolFigures) -> u64;
        let gauges: [(&str, &str, Pick); 6] = [
            ("prometheus_target_scrape_pool_targets", "Targets of the scrape pool.", |p| {
                p.targets as u64
            }),
            (
                "prometheus_target_scrape_pool_target_limit",
                "Targets that the scrape pool may have; 0 is no limit.",
                |p| p.limit,
            ),
            (
                "prometheus_target_metadata_cache_entries",
                "Metric families whose metadata is remembered.",
                |p| p.metadata_entries as u64,
            ),
            (
                "prometheus_target_metadata_cache_bytes",
                "Bytes of metadata; texts that targets share are counted for each.",
                |p| p.metadata_bytes as u64,
            ),
            ("unladen_scrape_pool_dropped_targets", "Targets dropped by relabelling.", |p| {
                p.dropped as u64
            }),
            (
                "unladen_scrape_pool_memory_bytes",
                "Bytes of what is remembered of the targets' lines.",
                |p| p.memory_bytes,
            ),
        ];
        for (name, help, pick) in gauges {
            let mut samples = out.gauge(name, help);
            for pool in &pools {
                samples.sample(&[("scrape_job", pool.name.as_str())], pick(pool));
            }
        }
        let counters: [(&str, &str, Pick); 2] = [
            ("prometheus_target_scrape_pool_sync_total", "Syncs of the scrape pool.", |p| p.syncs),
            (
                "prometheus_target_sync_failed_total",
                "Targets that could not be made from what was discovered.",
                |p| p.sync_failed,
            ),
        ];
        for (name, help, pick) in counters {
            let mut samples = out.counter(name, help);
            for pool in &pools {
                samples.sample(&[("scrape_job", pool.name.as_str())], pick(pool));
            }
        }
        pool_costs(out, &pools);
        let mut samples =
            out.gauge("prometheus_sd_discovered_targets", "Current number of discovered targets.");
        for pool in &pools {
            let labels = [("name", "scrape"), ("config", pool.name.as_str())];
            samples.sample(&labels, pool.discovered as u64);
        }
    }

    fn discovery(&self, out: &mut FamilyWriter<'_, '_>) {
        let c = &self.sources;
        let counters = [
            (
                "prometheus_sd_file_read_errors_total",
                "Files of file_sd that could not be read.",
                &c.file_read_errors,
            ),
            (
                "prometheus_sd_file_watcher_errors_total",
                "Directories of file_sd that could not be watched.",
                &c.file_watcher_errors,
            ),
            (
                "prometheus_sd_http_failures_total",
                "Lists of http_sd that could not be fetched.",
                &c.http_failures,
            ),
        ];
        for (name, help, count) in counters {
            out.counter(name, help).sample(&[], count.load(Ordering::Relaxed));
        }
        let updates = c.updates.load(Ordering::Relaxed);
        out.counter("prometheus_sd_updates_total", "Updates that sources of targets published.")
            .sample(&[("name", "scrape")], updates);
    }
}

/// What the scrapes of each job took, also those of targets that are gone.
fn pool_costs(out: &mut FamilyWriter<'_, '_>, pools: &[PoolFigures]) {
    type Pick<T> = fn(&Cost) -> T;
    let counters: [(&str, &str, Pick<u64>); 5] = [
        ("unladen_scrape_pool_scrapes_total", "Scrapes, failed ones included.", |c| c.scrapes),
        ("unladen_scrape_pool_samples_total", "Samples in scraped bodies.", |c| c.samples),
        (
            "unladen_scrape_pool_allocated_bytes_total",
            "Bytes allocated from the last byte of scrapes to journal and head.",
            |c| c.allocated_bytes,
        ),
        ("unladen_scrape_pool_body_bytes_total", "Bytes of scraped bodies, inflated.", |c| {
            c.body_bytes
        }),
        (
            "unladen_scrape_pool_transferred_bytes_total",
            "Bytes of scraped bodies as they were transferred.",
            |c| c.transferred_bytes,
        ),
    ];
    for (name, help, pick) in counters {
        let mut samples = out.counter(name, help);
        for pool in pools {
            samples.sample(&[("scrape_job", pool.name.as_str())], pick(&pool.cost));
        }
    }
    let seconds: [(&str, &str, Pick<u64>); 3] = [
        (
            "unladen_scrape_pool_fetch_seconds_total",
            "Time from the start of scrapes until their bodies were read and inflated, together.",
            |c| c.fetch_nanoseconds,
        ),
        (
            "unladen_scrape_pool_ingest_seconds_total",
            "Time from the inflated bodies of scrapes to journal and head, together.",
            |c| c.ingest_nanoseconds,
        ),
        (
            "unladen_scrape_pool_cpu_seconds_total",
            "Processor time of inflating and ingesting the bodies of scrapes.",
            |c| c.cpu_nanoseconds,
        ),
    ];
    for (name, help, pick) in seconds {
        let mut samples = out.counter(name, help);
        for pool in pools {
            let nanoseconds = pick(&pool.cost) as f64;
            samples.sample(&[("scrape_job", pool.name.as_str())], nanoseconds / 1e9);
        }
    }
}

fn figures_of(name: &str, pool: &Pool) -> PoolFigures {
    let sums = pool.sums();
    let groups = pool.sources.lock().groups();
    PoolFigures {
        name: name.to_owned(),
        targets: sums.targets,
        dropped: sums.dropped,
        discovered: groups.iter().flat_map(|groups| groups.iter()).map(|g| g.targets.len()).sum(),
        limit: pool.shared.settings.load().config.limits.targets.unwrap_or(0),
        syncs: pool.shared.syncs.get(),
        sync_failed: pool.shared.sync_failed.get(),
        metadata_entries: sums.metadata_entries,
        metadata_bytes: sums.metadata_bytes,
        memory_bytes: sums.memory_bytes,
        cost: pool.shared.cost.get(),
    }
}
