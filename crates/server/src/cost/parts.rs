//! Who holds how many bytes of memory.

use crate::app::App;
use crate::scrape;

/// A part of the server that holds memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) bytes: u64,
    /// Of what it holds, in its own measure: series, strings, targets.
    pub(crate) items: u64,
}

/// All parts that know what they hold, largest or not, in a fixed order. The last ones are files that are
/// mapped: the system takes their pages back when others need them. *Growth.*
pub(crate) fn parts(app: &App, status: &scrape::Status) -> Vec<Part> {
    let mut parts = Vec::with_capacity(16);
    let mut part = |name, bytes, items| parts.push(Part { name, bytes, items });
    let active = || status.pools.values().flat_map(|pool| &pool.active);
    let targets = active().count() as u64;
    part("known lines", active().map(|target| target.memory_bytes).sum(), targets);
    let (families, bytes) = active()
        .map(scrape::TargetStatus::metadata_size)
        .fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
    part("metadata", bytes as u64, families as u64);
    part("scrape buffers", status.buffer_bytes, targets);
    if let Ok(db) = app.db() {
        let stats = db.stats();
        part("head rows", stats.memory.rows, stats.series);
        part("head chunks", stats.memory.open_chunks, stats.chunks);
        part("head index", stats.memory.index, stats.label_pairs);
        part("head symbols", stats.memory.symbols, stats.symbols);
        part("journal buffers", stats.memory.journal_buffers, 1);
        part("exemplars", stats.memory.exemplars, stats.exemplars);
        if let Some(profiles) = app.profiles.tables() {
            part("profiler tables", profiles.bytes as u64, profiles.stacks as u64);
        }
        part("mapped head chunks", stats.head_chunk_bytes, stats.chunks);
        part("mapped blocks", stats.block_bytes, stats.blocks);
    }
    parts
}
