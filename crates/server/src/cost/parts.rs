//! Who holds how many bytes of memory.

use std::sync::{Arc, Weak};

use unladen::{Collector, FamilyWriter};

use super::Resident;
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

/// Calls `part` with all parts that know what they hold, in a fixed order. The last ones are files that are
/// mapped: the system takes their pages back when others need them. *Steady.*
pub(crate) fn parts(app: &App, held: &scrape::Held, mut part: impl FnMut(Part)) {
    let mut part = |name, bytes, items| part(Part { name, bytes, items });
    part("known lines", held.lines_bytes, held.targets);
    part("metadata", held.metadata_bytes, held.metadata_families);
    part("scrape buffers", held.buffer_bytes, held.targets);
    if let Some(tables) = app.profiles.tables() {
        part("profiler tables", tables.bytes as u64, tables.stacks as u64);
    }
    let Ok(db) = app.db() else { return };
    let stats = db.stats();
    part("head rows", stats.memory.rows, stats.series);
    part("head chunks", stats.memory.open_chunks, stats.series);
    part("head index", stats.memory.index, stats.label_pairs);
    part("head symbols", stats.memory.symbols, stats.symbols);
    part("journal buffers", stats.memory.journal_buffers, 1);
    part("exemplars", stats.memory.exemplars, stats.exemplars);
    part("departed tables", stats.memory.departed, stats.departed_files);
    part("mapped head chunks", stats.head_chunk_bytes, stats.chunks);
    part("mapped departed series", stats.departed_bytes, stats.departed_series);
    part("mapped blocks", stats.block_bytes, stats.blocks);
}

/// Writes `unladen_memory_bytes`, `unladen_memory_items` and `unladen_resident_bytes`.
pub(crate) struct Metrics(Weak<App>);

impl Metrics {
    /// It does not keep the server.
    pub(crate) fn new(app: &Arc<App>) -> Self {
        Metrics(Arc::downgrade(app))
    }
}

/// Name, help, and which figure.
type Row = (&'static str, &'static str, fn(&Part) -> u64);

const FAMILIES: [Row; 2] = [
    ("unladen_memory_bytes", "Bytes of memory that a part of the server holds.", |p| p.bytes),
    ("unladen_memory_items", "What a part of the server holds, in its own measure.", |p| p.items),
];

impl Collector for Metrics {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        let Some(app) = self.0.upgrade() else { return };
        let held = app.held();
        for (name, help, figure) in FAMILIES {
            let mut family = out.gauge(name, help);
            parts(&app, &held, |part| family.sample(&[("part", part.name)], figure(&part)));
        }
        let resident = Resident::read();
        let mut family = out.gauge("unladen_resident_bytes", "Bytes of the machine's memory.");
        for (kind, bytes) in [("anonymous", resident.anonymous), ("file", resident.file)] {
            family.sample(&[("kind", kind)], bytes);
        }
    }
}
