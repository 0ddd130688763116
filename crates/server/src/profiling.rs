//! The server's own profiles.
//!
//! A profiler runs from the start to the end, within `--profile.budget`, and the heap is sampled every
//! `--profile.heap-sample-bytes`. Either may be refused by the system or left out: the server then lives
//! without, and says so once.
//!
//! Allocations are counted by stage: `fetch` (waiting for an answer and reading it), `inflate`, `parse`,
//! `relabel` (new series only), `append` (new series, the journal and the head), `query`, `answer` (writing
//! what was asked for) and `upkeep` (blocks, retention).

use profiler::heap;
use profiler::profile::{Limits, Tables};
use profiler::serve::Pprof;
use profiler::{Metrics, Profiler};
use unladen::Registry;

use crate::cli::ServeOptions;

/// Starts what the flags ask for, and has `registry` tell what it does. Setup.
pub(crate) fn start(options: &ServeOptions, registry: &Registry) -> Pprof {
    let tables = Tables::new(Limits::default());
    let pprof = match options.profile_budget {
        0.0 => Pprof::without_sampling(),
        budget => match Profiler::builder().budget(budget).tables(&tables).start() {
            Ok(profiler) => {
                registry.collect(Metrics::new(&profiler));
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
        return pprof;
    }
    match heap::start(heap::Options { mean_bytes, ..heap::Options::default() }, &tables) {
        Ok(profile) => {
            registry.collect(heap::Metrics);
            pprof.heap(profile)
        }
        Err(error) => {
            tracing::warn!(%error, "No profile of the heap");
            pprof
        }
    }
}
