//! What the server measures about itself.
//!
//! Where a figure means the same as in Prometheus, it has Prometheus' name, so that dashboards and
//! alerts go on working; the rest begins with `unladen_`. `/metrics` writes all of it, `/metrics/node`
//! what the machine says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use http::StatusCode;
use promql::{Outcome, QueryError};
use store::{Db, Maintained, Recovery};
use unladen::{Counter, Error, Family, Gauge, Histogram, Kind, Negotiated, Registry};

use crate::api::PROMETHEUS_VERSION;
use crate::app::App;

/// Upper bounds of the durations of requests, in seconds: those of Prometheus.
const REQUEST_BOUNDS: [f64; 9] = [0.1, 0.2, 0.4, 1.0, 3.0, 8.0, 20.0, 60.0, 120.0];

/// Upper bounds of the durations of queries, in seconds.
const QUERY_BOUNDS: [f64; 9] = [0.0001, 0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0];

/// The figures, and the handles of those that are counted where they happen.
pub(crate) struct Metrics {
    registry: Registry,
    machine: Registry,
    requests: Family<Counter, 2>,
    request_seconds: Family<Histogram, 1>,
    queries: Gauge,
    query_seconds: [(&'static str, Histogram); 4],
    query_samples: Counter,
    query_samples_read: Counter,
    reload_worked: Gauge,
    reload_seconds: Gauge,
    blocks_cut: Counter,
    blocks_deleted: Counter,
    maintenance_failures: Counter,
    damages: Counter,
    corruptions: Arc<AtomicU64>,
    replay_seconds: Gauge,
}

impl Metrics {
    /// Registers what is there from the start.
    ///
    /// # Errors
    /// A name that stands twice: a fault of ours.
    pub(crate) fn new(max_queries: usize) -> Result<Self, Error> {
        let registry = Registry::new();
        let machine = Registry::new();
        let slices = registry.histogram(
            ("prometheus_engine_query_duration_histogram_seconds", "Duration of queries, by part."),
            ["slice"],
            QUERY_BOUNDS,
        )?;
        let query_seconds = ["inner_eval", "prepare_time", "queue_time", "result_sort"]
            .map(|slice| (slice, slices.with([slice])));
        build_info(&registry)?;
        let gauge = |name, help| registry.gauge((name, help), []).map(|family| family.with([]));
        let counter = |name, help| registry.counter((name, help), []).map(|family| family.with([]));
        gauge("prometheus_engine_queries_concurrent_max", "Queries that may run at once.")?
            .set(max_queries as f64);
        let metrics = Metrics {
            requests: registry.counter(
                ("prometheus_http_requests_total", "Requests answered, by handler and status."),
                ["handler", "code"],
            )?,
            request_seconds: registry.histogram(
                ("prometheus_http_request_duration_seconds", "Time to the head of an answer."),
                ["handler"],
                REQUEST_BOUNDS,
            )?,
            queries: gauge("prometheus_engine_queries", "Queries that run.")?,
            query_seconds,
            query_samples: counter(
                "prometheus_engine_query_samples_total",
                "Samples that the steps of queries looked at.",
            )?,
            query_samples_read: counter(
                "prometheus_engine_query_samples_read_total",
                "Samples that queries decoded.",
            )?,
            reload_worked: gauge(
                "prometheus_config_last_reload_successful",
                "Whether the last reload of the configuration worked.",
            )?,
            reload_seconds: gauge(
                "prometheus_config_last_reload_success_timestamp_seconds",
                "When a configuration was last taken up.",
            )?,
            blocks_cut: counter("prometheus_tsdb_compactions_total", "Blocks cut from the head.")?,
            blocks_deleted: counter(
                "prometheus_tsdb_time_retentions_total",
                "Blocks deleted because of their age.",
            )?,
            maintenance_failures: counter(
                "prometheus_tsdb_compactions_failed_total",
                "Rounds of maintenance that failed.",
            )?,
            damages: counter(
                "unladen_store_damages_total",
                "Damaged places that maintenance came across.",
            )?,
            corruptions: Arc::default(),
            replay_seconds: gauge(
                "prometheus_tsdb_data_replay_duration_seconds",
                "How long opening the store took.",
            )?,
            registry,
            machine,
        };
        metrics.summaries();
        metrics.registry.collect(unladen::process::Process::new());
        metrics.machine.collect(crate::machine::collector());
        Ok(metrics)
    }

    /// The duration of queries under the name that dashboards ask for; quantiles come from the
    /// histogram beside it.
    fn summaries(&self) {
        let slices = self.query_seconds.clone();
        self.registry.collect(Summary {
            name: "prometheus_engine_query_duration_seconds",
            help: "Duration of queries, by part.",
            label: "slice",
            parts: move |give: &mut dyn FnMut(&str, f64, f64)| {
                for (slice, histogram) in &slices {
                    give(slice, histogram.sum(), histogram.count() as f64);
                }
            },
        });
    }

    /// Registers what is known once the store is open.
    ///
    /// # Errors
    /// A name that stands twice: a fault of ours.
    pub(crate) fn attach(&self, app: &Arc<App>, db: &Arc<Db>) -> Result<(), Error> {
        let ready = Arc::downgrade(app);
        let corruptions = self.corruptions.clone();
        self.observe(
            "prometheus_ready",
            "Whether requests are answered.",
            Kind::Gauge,
            move || f64::from(ready.upgrade().is_some_and(|app| app.is_ready())),
        )?;
        self.observe(
            "prometheus_tsdb_wal_corruptions_total",
            "Damages found when the store was opened.",
            Kind::Counter,
            move || corruptions.load(Relaxed) as f64,
        )?;
        self.registry.collect(StoreFigures(db.clone()));
        self.registry.collect(crate::cost::Metrics::new(app));
        Ok(())
    }

    fn observe(
        &self,
        name: &'static str,
        help: &'static str,
        kind: Kind,
        figure: impl Fn() -> f64 + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.registry.observe((name, help), kind, [], move |out| out.record([], figure()))
    }

    /// The server's own figures, for the parts of it that write theirs.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Writes the server's figures, or the machine's.
    pub(crate) fn write<S>(
        &self,
        of_machine: bool,
        negotiated: Negotiated,
        state: S,
        fold: impl FnMut(S, &[u8]) -> S,
    ) -> S {
        let registry = if of_machine { &self.machine } else { &self.registry };
        registry.write(negotiated, state, fold)
    }

    pub(crate) fn request_finished(
        &self,
        handler: &'static str,
        status: StatusCode,
        took: Duration,
    ) {
        self.requests.with([handler, status.as_str()]).increment();
        self.request_seconds.with([handler]).record(took.as_secs_f64());
    }

    /// Counts a query as running until the guard is dropped.
    pub(crate) fn query_running(&self) -> QueryRunning {
        self.queries.increment();
        QueryRunning(self.queries.clone())
    }

    pub(crate) fn query_finished(
        &self,
        queued: Duration,
        prepared: Duration,
        outcome: &Result<Outcome, QueryError>,
    ) {
        let [inner, prepare, queue, sort] = &self.query_seconds;
        prepare.1.record(prepared.as_secs_f64());
        queue.1.record(queued.as_secs_f64());
        if let Ok(outcome) = outcome {
            inner.1.record(outcome.stats.evaluation.as_secs_f64());
            sort.1.record(outcome.stats.sorting.as_secs_f64());
            self.query_samples.add(outcome.stats.samples_total);
            self.query_samples_read.add(outcome.stats.samples_read);
        }
    }

    pub(crate) fn reloaded(&self, worked: bool, at_ms: i64) {
        self.reload_worked.set(f64::from(worked));
        if worked {
            self.reload_seconds.set(at_ms as f64 / 1000.0);
        }
    }

    pub(crate) fn opened(&self, recovery: &Recovery, took: Duration) {
        self.corruptions.store(recovery.damaged, Relaxed);
        self.replay_seconds.set(took.as_secs_f64());
    }

    pub(crate) fn corruptions(&self) -> u64 {
        self.corruptions.load(Relaxed)
    }

    pub(crate) fn maintained(&self, done: &Maintained) {
        self.blocks_cut.add(done.blocks_cut);
        self.blocks_deleted.add(done.blocks_deleted);
        self.damages.add(done.damaged);
    }

    pub(crate) fn maintenance_failed(&self) {
        self.maintenance_failures.increment();
    }
}

/// A figure of the store: name, help, kind, whether it is by type of sample, and where it is.
type StoreFigure = (&'static str, &'static str, Kind, bool, fn(&store::Stats) -> f64);

/// What the store says about itself.
const STORE: [StoreFigure; 24] = {
    use Kind::{Counter, Gauge};
    [
        ("prometheus_tsdb_head_series", "Series in the head.", Gauge, false, |s| s.series as f64),
        ("prometheus_tsdb_head_series_created_total", "Series created.", Counter, false, |s| {
            s.series_created as f64
        }),
        ("prometheus_tsdb_head_series_removed_total", "Series removed.", Counter, false, |s| {
            s.series_removed as f64
        }),
        ("prometheus_tsdb_head_chunks", "Chunks in the head.", Gauge, false, |s| s.chunks as f64),
        ("prometheus_tsdb_head_min_time", "First time of the head, in ms.", Gauge, false, |s| {
            s.time_range.map_or(i64::MAX, |range| range.0) as f64
        }),
        ("prometheus_tsdb_head_max_time", "Last time of the head, in ms.", Gauge, false, |s| {
            s.time_range.map_or(i64::MIN, |range| range.1) as f64
        }),
        ("prometheus_tsdb_head_min_time_seconds", "First time of the head.", Gauge, false, |s| {
            s.time_range.map_or(i64::MAX, |range| range.0) as f64 / 1000.0
        }),
        ("prometheus_tsdb_head_max_time_seconds", "Last time of the head.", Gauge, false, |s| {
            s.time_range.map_or(i64::MIN, |range| range.1) as f64 / 1000.0
        }),
        ("prometheus_tsdb_blocks_loaded", "Blocks.", Gauge, false, |s| s.blocks as f64),
        ("prometheus_tsdb_storage_blocks_bytes", "Bytes of the blocks.", Gauge, false, |s| {
            s.block_bytes as f64
        }),
        ("prometheus_tsdb_wal_storage_size_bytes", "Bytes of the journal.", Gauge, false, |s| {
            s.journal_bytes as f64
        }),
        (
            "prometheus_tsdb_head_chunks_storage_size_bytes",
            "Bytes of closed chunks of the head.",
            Gauge,
            false,
            |s| s.head_chunk_bytes as f64,
        ),
        (
            "prometheus_tsdb_exemplar_exemplars_in_storage",
            "Exemplars in memory.",
            Gauge,
            false,
            |s| s.exemplars as f64,
        ),
        ("unladen_store_memory_bytes", "Bytes of memory of the head.", Gauge, false, |s| {
            s.memory_bytes as f64
        }),
        (
            "unladen_store_departed_series",
            "Series that left the head and aren't in a block yet.",
            Gauge,
            false,
            |s| s.departed_series as f64,
        ),
        (
            "unladen_store_departed_files",
            "Files that tell of series that left the head.",
            Gauge,
            false,
            |s| s.departed_files as f64,
        ),
        (
            "unladen_store_departed_bytes",
            "Bytes of the files that tell of series that left the head.",
            Gauge,
            false,
            |s| s.departed_bytes as f64,
        ),
        ("unladen_store_label_pairs", "Label pairs of the head.", Gauge, false, |s| {
            s.label_pairs as f64
        }),
        ("unladen_store_symbols", "Strings of the head's labels.", Gauge, false, |s| {
            s.symbols as f64
        }),
        (
            "unladen_store_samples_unknown_series_total",
            "Samples rejected because their series was gone.",
            Counter,
            false,
            |s| s.samples_rejected[3] as f64,
        ),
        (
            "unladen_store_samples_duplicate_total",
            "Samples rejected because another value has their time.",
            Counter,
            false,
            |s| s.samples_rejected[1] as f64,
        ),
        ("prometheus_tsdb_head_samples_appended_total", "Samples appended.", Counter, true, |s| {
            s.samples_appended as f64
        }),
        (
            "prometheus_tsdb_out_of_order_samples_total",
            "Samples out of order.",
            Counter,
            true,
            |s| s.samples_rejected[0] as f64,
        ),
        (
            "prometheus_tsdb_too_old_samples_total",
            "Samples too old for the head.",
            Counter,
            true,
            |s| s.samples_rejected[2] as f64,
        ),
    ]
};

/// Writes the figures of the store, all of one moment.
struct StoreFigures(Arc<Db>);

impl unladen::Collector for StoreFigures {
    fn collect(&self, out: &mut unladen::FamilyWriter<'_, '_>) {
        use wire::exposition::writer::Family;
        let stats = self.0.stats();
        for (name, help, kind, by_type, figure) in STORE {
            let labels: &[(&str, &str)] = if by_type { &[("type", "float")] } else { &[] };
            out.family(&Family::new(name, help, kind)).sample(labels, figure(&stats));
        }
    }
}

/// A query that runs.
pub(crate) struct QueryRunning(Gauge);

impl Drop for QueryRunning {
    fn drop(&mut self) {
        self.0.decrement();
    }
}

fn build_info(registry: &Registry) -> Result<(), Error> {
    registry
        .gauge(
            (
                "prometheus_build_info",
                "Constant 1; version is that of the Prometheus that the server answers like.",
            ),
            ["version", "revision", "branch", "goversion", "goos", "goarch", "tags"],
        )?
        .with([PROMETHEUS_VERSION, "unladen", "", "", std::env::consts::OS, ARCH, ""])
        .set(1.0);
    registry
        .gauge(("unladen_build_info", "Constant 1."), ["version"])?
        .with([env!("CARGO_PKG_VERSION")])
        .set(1.0);
    Ok(())
}

/// The architecture as Go calls it.
const ARCH: &str = match std::env::consts::ARCH.as_bytes() {
    b"x86_64" => "amd64",
    b"aarch64" => "arm64",
    _ => std::env::consts::ARCH,
};

/// Sum and count of something, by one label or by none.
struct Summary<F> {
    name: &'static str,
    help: &'static str,
    label: &'static str,
    parts: F,
}

impl<F> unladen::Collector for Summary<F>
where
    F: Fn(&mut dyn FnMut(&str, f64, f64)) + Send + Sync,
{
    fn collect(&self, out: &mut unladen::FamilyWriter<'_, '_>) {
        use wire::exposition::writer::{Family, LabelSet, Summary};
        let mut samples = out.family(&Family::new(self.name, self.help, Kind::Summary));
        (self.parts)(&mut |value, sum, count| {
            let pairs = [(self.label, value)];
            let labels = if self.label.is_empty() { &pairs[..0] } else { &pairs[..] };
            samples.summary(
                LabelSet::Pairs(labels),
                &Summary { sum, count: count as u64, ..Summary::default() },
            );
        });
    }
}
