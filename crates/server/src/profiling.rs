//! The server's own profiles.
//!
//! A profiler runs from the start to the end, within `--profile.budget`, and the heap is sampled every
//! `--profile.heap-sample-bytes`. Either may be refused by the system or left out: the server then lives
//! without, and says so once.
//!
//! Allocations and processor time are counted by stage: `fetch` (connections to targets, waiting for answers
//! and reading them, and whatever else threads of scraping do), `inflate`, `parse`, `relabel` (new series
//! only), `append` (new series and the head), `journal` (writing to it), `query`, `answer` (reading
//! requests, writing what was asked for), `upkeep` (blocks, retention), `open` (reading journal and blocks
//! at the start) and `profiler` (the sampler's thread). Outside of all is the main thread, which starts,
//! reloads and ends the server, and what watches files.

use profiler::heap;
use profiler::profile::{Limits, Profile, Tables, TablesStatistics};
use profiler::serve::Pprof;
use profiler::{Metrics, Profiler};
use unladen::Registry;

use crate::cli::ServeOptions;

/// What the server takes of itself, for those who read it in the server.
#[derive(Clone)]
pub(crate) struct Profiles {
    /// Samples of threads.
    pub(crate) sampled: Option<Profiler>,
    /// Samples of what is allocated.
    pub(crate) heap: Option<Profile>,
    tables: Tables,
}

impl Profiles {
    /// Gives every thread its time up to now, and knows libraries that were loaded since.
    pub(crate) fn settle(&self) {
        match &self.sampled {
            Some(profiler) => profiler.settle(),
            None => self.tables.follow_modules(),
        }
    }

    /// What the tables hold, if anything is kept in them.
    pub(crate) fn tables(&self) -> Option<TablesStatistics> {
        let is_used = self.sampled.is_some() || self.heap.is_some();
        is_used.then(|| self.tables.statistics())
    }
}

/// Has the calling thread in a stage whenever it is in no other: for its first instruction.
pub(crate) fn spend_in(stage: &'static str) {
    // Nothing is behind it that the guard would have to put back.
    std::mem::forget(profiler::stage(stage));
}

/// Starts what the flags ask for, and has `registry` tell what it does. Setup.
pub(crate) fn start(options: &ServeOptions, registry: &Registry) -> (Pprof, Profiles) {
    let tables = Tables::new(Limits::default());
    let mut profiles = Profiles { sampled: None, heap: None, tables: tables.clone() };
    let pprof = match options.profile_budget {
        0.0 => Pprof::without_sampling(),
        budget => match Profiler::builder().budget(budget).tables(&tables).start() {
            Ok(profiler) => {
                registry.collect(Metrics::new(&profiler));
                profiles.sampled = Some(profiler.clone());
                Pprof::new(profiler)
            }
            Err(error) => {
                tracing::warn!(%error, "No profiles of CPU time and elapsed time");
                Pprof::without_sampling()
            }
        },
    };
    let mean_bytes = options.profile_heap_bytes;
    if mean_bytes == 0 {
        return (pprof, profiles);
    }
    match heap::start(heap::Options { mean_bytes, ..heap::Options::default() }, &tables) {
        Ok(profile) => {
            registry.collect(heap::Metrics);
            profiles.heap = Some(profile.clone());
            (pprof.heap(profile), profiles)
        }
        Err(error) => {
            tracing::warn!(%error, "No profile of the heap");
            (pprof, profiles)
        }
    }
}
