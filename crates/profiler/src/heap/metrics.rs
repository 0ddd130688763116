//! Allocations by stage, and what sampling did, as metrics.

use unladen::{Collector, FamilyWriter};

use super::threads::Counts;
use super::{stages, statistics};

/// Writes `heap_allocations_total`, `heap_allocated_bytes_total`, `heap_frees_total` and
/// `heap_freed_bytes_total` by `stage`, and `heap_profile_*` about sampling:
///
/// ```text
/// registry.collect(profiler::heap::Metrics);
///
/// # Bytes allocated for each sample that is parsed.
/// rate(heap_allocated_bytes_total{stage="parse"}[5m]) / rate(samples_parsed_total[5m])
/// ```
/// A program has one of these. *Steady.*
#[derive(Clone, Copy, Debug, Default)]
pub struct Metrics;

/// Name, help, and which of the counts.
type Row = (&'static str, &'static str, fn(&Counts) -> u64);

const BY_STAGE: [Row; 4] = [
    ("heap_allocations_total", "Blocks that were allocated.", |c| c.allocations),
    ("heap_allocated_bytes_total", "Bytes that were asked for.", |c| c.allocated_bytes),
    ("heap_frees_total", "Blocks that were freed.", |c| c.frees),
    ("heap_freed_bytes_total", "Bytes that were freed.", |c| c.freed_bytes),
];

impl Collector for Metrics {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        for (name, help, of) in BY_STAGE {
            let mut family = out.counter(name, help);
            stages(|stage, counts| family.sample(&[("stage", stage)], of(&counts)));
        }
        let now = statistics();
        out.counter("heap_profile_samples_total", "Blocks that were sampled.")
            .sample(&[], now.samples);
        out.gauge("heap_profile_blocks", "Sampled blocks that are in use.")
            .sample(&[], now.live as u64);
        out.gauge("heap_profile_blocks_limit", "Sampled blocks that may be in use.")
            .sample(&[], now.capacity as u64);
        out.counter(
            "heap_profile_untracked_total",
            "Samples that are missing in what is in use, because too many blocks are.",
        )
        .sample(&[], now.untracked);
    }
}
