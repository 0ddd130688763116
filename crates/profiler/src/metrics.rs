//! What the profiler did, what that cost, and what its tables hold, as metrics.

use std::fmt;
use std::sync::Arc;

use unladen::{Collector, FamilyWriter};

use crate::profile::{Tables, TablesStatistics};
use crate::profiler::{Profiler, WeakProfiler};
use crate::sample::{Counters, Statistics};
use crate::scope::scopes_refused;

/// Writes `profiler_*`. It does not keep the profiler running: when that stops, its figures stay as they are.
///
/// ```no_run
/// # let registry = unladen::Registry::new();
/// let profiler = profiler::Profiler::start()?;
/// registry.collect(profiler::Metrics::new(&profiler));
/// # Ok::<(), profiler::Error>(())
/// ```
/// The share of a processor that sampling takes is `rate(profiler_cost_seconds_total[5m])`, summed; it stays
/// below `profiler_budget_ratio`. `profiler_stage_cpu_seconds_total` is what [`Profiler::stage_cpu`] gives;
/// threads get their time up to the moment before it is written, which takes a microsecond for each.
/// *Steady.*
pub struct Metrics {
    counters: Arc<Counters>,
    tables: Tables,
    profiler: WeakProfiler,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Name, help, and which figure.
type Row<T> = (&'static str, &'static str, fn(&T) -> u64);
/// The value of a label, and which figure.
type Part<T> = (&'static str, fn(&T) -> u64);

const COUNTERS: [Row<Statistics>; 7] = [
    ("profiler_ticks_total", "Ticks, at each of which some threads have their turn.", |s| s.ticks),
    (
        "profiler_ticks_skipped_total",
        "Ticks left out for the sake of the budget, or because little ran.",
        |s| s.ticks_skipped,
    ),
    ("profiler_samples_total", "Stacks that time was given to.", |s| s.samples),
    ("profiler_signals_total", "Signals sent to threads.", |s| s.signals),
    ("profiler_asleep_total", "Threads found asleep where they were, without a signal.", |s| {
        s.asleep
    }),
    ("profiler_frames_total", "Calls walked over.", |s| s.frames),
    ("profiler_threads_ended_total", "Threads that ended.", |s| s.ended),
];

const SKIPPED: [Part<Statistics>; 4] = [
    ("blocked", |s| s.skipped_blocked),
    ("full", |s| s.skipped_full),
    ("swallowed", |s| s.skipped_swallowed),
    ("unsent", |s| s.skipped_unsent),
];

const WALKS: [Part<Statistics>; 3] =
    [("complete", |s| s.complete), ("lost", |s| s.lost), ("truncated", |s| s.truncated)];

const COST: [Part<Statistics>; 4] = [
    ("displaced", |s| s.cost_displaced_ns),
    ("handlers", |s| s.cost_handlers_ns),
    ("sampler", |s| s.cost_sampler_ns),
    ("signals", |s| s.cost_signals_ns),
];

const HELD: [Part<TablesStatistics>; 6] = [
    ("entries", |t| t.entries as u64),
    ("functions", |t| t.functions as u64),
    ("labels", |t| t.labels as u64),
    ("locations", |t| t.locations as u64),
    ("stacks", |t| t.stacks as u64),
    ("strings", |t| t.strings as u64),
];

const REFUSED: [Part<TablesStatistics>; 3] = [
    ("labels", |t| t.refused_labels),
    ("scopes", |_| scopes_refused()),
    ("stacks", |t| t.refused_stacks),
];

impl Metrics {
    /// The metrics of a profiler. A program has one of these.
    pub fn new(profiler: &Profiler) -> Self {
        let (counters, tables) = profiler.measured();
        Metrics { counters, tables, profiler: profiler.downgrade() }
    }
}

impl Collector for Metrics {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        // So that time is where it belongs at this moment, and the sum over stages is the process' time.
        self.profiler.settle();
        let now = self.counters.read();
        for (name, help, figure) in COUNTERS {
            out.counter(name, help).sample(&[], figure(&now));
        }
        let mut skipped =
            out.counter("profiler_turns_skipped_total", "Turns of threads that were left out.");
        for (reason, figure) in SKIPPED {
            skipped.sample(&[("reason", reason)], figure(&now));
        }
        let mut walks = out.counter("profiler_walks_total", "Stacks walked, by how they ended.");
        for (end, figure) in WALKS {
            walks.sample(&[("end", end)], figure(&now));
        }
        let mut cost = out.counter("profiler_cost_seconds_total", "Time that sampling took.");
        for (part, figure) in COST {
            cost.sample(&[("part", part)], figure(&now) as f64 / 1e9);
        }
        let mut stages = out.counter(
            "profiler_stage_cpu_seconds_total",
            "Processor time by the stage that threads were in.",
        );
        self.counters
            .stage_cpu(|stage, time| stages.sample(&[("stage", stage)], time.as_secs_f64()));
        out.gauge("profiler_budget_ratio", "Share of a processor that sampling may take.")
            .sample(&[], now.budget_ppm as f64 / 1e6);
        out.gauge("profiler_pause_seconds", "Time between ticks now.")
            .sample(&[], now.pause_ns as f64 / 1e9);
        out.gauge("profiler_threads", "Threads that are sampled.").sample(&[], now.threads);
        self.tables(out);
    }
}

impl Metrics {
    fn tables(&self, out: &mut FamilyWriter<'_, '_>) {
        let now = self.tables.statistics();
        let mut held = out.gauge("profiler_table_rows", "What the tables hold.");
        for (table, figure) in HELD {
            held.sample(&[("table", table)], figure(&now));
        }
        out.gauge("profiler_table_bytes", "Bytes that the tables take.")
            .sample(&[], now.bytes as u64);
        let mut refused = out.counter("profiler_refused_total", "What the tables had no room for.");
        for (what, figure) in REFUSED {
            refused.sample(&[("what", what)], figure(&now));
        }
        out.counter("profiler_dropped_total", "Entries dropped to make room.")
            .sample(&[], now.dropped);
    }
}

#[cfg(test)]
mod tests {
    use unladen::{Negotiated, Registry};

    use super::*;

    #[test]
    fn every_figure_is_there_and_none_twice() {
        let profiler = Profiler::builder().budget(0.0).start().unwrap();
        let registry = Registry::new();
        registry.collect(Metrics::new(&profiler));
        let body = registry.write(Negotiated::default(), Vec::new(), |mut body, chunk| {
            body.extend_from_slice(chunk);
            body
        });
        let body = String::from_utf8(body).unwrap();
        for line in [
            "profiler_ticks_total 0",
            "profiler_turns_skipped_total{reason=\"blocked\"} 0",
            "profiler_walks_total{end=\"complete\"} 0",
            "profiler_cost_seconds_total{part=\"handlers\"} 0",
            "profiler_budget_ratio 0",
            "profiler_table_rows{table=\"stacks\"} ",
            "profiler_table_bytes ",
            "profiler_refused_total{what=\"stacks\"} 0",
        ] {
            assert!(body.lines().any(|found| found.starts_with(line)), "{line}: {body}");
        }
        assert_eq!(registry.check(), Vec::<String>::new());
    }
}
