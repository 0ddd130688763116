//! What the program's allocator tells about itself.
//!
//! Which allocator there is, and how it is asked, the program knows: this library names none, since
//! asking most of them takes unsafe code or a crate of theirs. It writes what a closure says. For jemalloc,
//! with the crate `tikv-jemalloc-ctl`:
//!
//! ```text
//! use tikv_jemalloc_ctl::{epoch, stats};
//! use unladen::allocator::{Allocator, Figures};
//!
//! // Names are looked up once; reading the figures then allocates nothing.
//! let (epoch, allocated) = (epoch::mib()?, stats::allocated::mib()?);
//! let (active, resident) = (stats::active::mib()?, stats::resident::mib()?);
//! let (mapped, retained) = (stats::mapped::mib()?, stats::retained::mib()?);
//! let metadata = stats::metadata::mib()?;
//! registry.collect(Allocator::new("jemalloc", move || {
//!     // Without it, the figures stay those of the last time.
//!     let _ = epoch.advance();
//!     let read = |figure: Result<usize, _>| figure.ok().map(|bytes| bytes as u64);
//!     Figures {
//!         allocated: read(allocated.read()),
//!         active: read(active.read()),
//!         resident: read(resident.read()),
//!         mapped: read(mapped.read()),
//!         retained: read(retained.read()),
//!         metadata: read(metadata.read()),
//!     }
//! }));
//! ```
//! glibc's `mallinfo2` has `uordblks + hblkhd` for allocated, `arena + hblkhd` for mapped, and nothing for
//! the others.

use std::fmt;

use crate::collector::{Collector, FamilyWriter};

/// What an allocator can tell, in bytes; what it can't is left out of the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// What the program asked for and has not freed.
    pub allocated: Option<u64>,
    /// What pages with anything of that on them take.
    pub active: Option<u64>,
    /// What is in physical memory, as far as the allocator knows.
    pub resident: Option<u64>,
    /// What is mapped for it.
    pub mapped: Option<u64>,
    /// What was given back and is kept as addresses.
    pub retained: Option<u64>,
    /// What the allocator needs for itself.
    pub metadata: Option<u64>,
}

/// Writes `allocator_*_bytes`, with the allocator's name as a label. A program has one of these. *Steady*
/// if its closure is.
pub struct Allocator<F> {
    name: String,
    ask: F,
}

impl<F: Fn() -> Figures + Send + Sync> Allocator<F> {
    /// Asks `ask` for the figures of the allocator `name` at every scrape.
    pub fn new(name: &str, ask: F) -> Self {
        Allocator { name: name.to_owned(), ask }
    }
}

impl<F> fmt::Debug for Allocator<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocator").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<F: Fn() -> Figures + Send + Sync> Collector for Allocator<F> {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        let figures = (self.ask)();
        for (name, help, bytes) in [
            (
                "allocator_allocated_bytes",
                "Bytes that the program asked for and has not freed.",
                figures.allocated,
            ),
            (
                "allocator_active_bytes",
                "Bytes of pages that hold anything of what is allocated.",
                figures.active,
            ),
            (
                "allocator_resident_bytes",
                "Bytes of the allocator in physical memory.",
                figures.resident,
            ),
            ("allocator_mapped_bytes", "Bytes mapped for the allocator.", figures.mapped),
            (
                "allocator_retained_bytes",
                "Bytes of addresses that the allocator keeps without memory behind them.",
                figures.retained,
            ),
            (
                "allocator_metadata_bytes",
                "Bytes that the allocator needs for itself.",
                figures.metadata,
            ),
        ] {
            if let Some(bytes) = bytes {
                out.gauge(name, help).sample(&[("allocator", &self.name)], bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;
    use crate::{Negotiated, Registry};

    #[test]
    fn what_is_told_is_written_and_the_rest_left_out() {
        let registry = Registry::new();
        let asked = AtomicU64::new(0);
        registry.collect(Allocator::new("own", move || Figures {
            allocated: Some(10 + asked.fetch_add(1, Relaxed)),
            mapped: Some(4096),
            ..Figures::default()
        }));
        for allocated in [10, 11] {
            let body = registry.write(Negotiated::default(), Vec::new(), |mut body, chunk| {
                body.extend_from_slice(chunk);
                body
            });
            let body = String::from_utf8(body).unwrap();
            let samples: Vec<_> = body.lines().filter(|line| !line.starts_with('#')).collect();
            let first = format!("allocator_allocated_bytes{{allocator=\"own\"}} {allocated}");
            assert_eq!(samples, [&first, "allocator_mapped_bytes{allocator=\"own\"} 4096"]);
        }
        assert_eq!(registry.check(), Vec::<String>::new());
    }
}
