//! The heap's profile, and what is allocated by stage.
//!
//! ```text
//! allocator   the wrapper around the program's allocator: counts, and asks for more now and then
//! threads     what a thread has of its own: counters, the bytes to its next sample, room for a stack
//! distance    which bytes are sampled, and what a sampled block stands for
//! record      a sample's way into the profile, and back out of it when its block is freed; forks
//! calls       which frames are the allocator's own
//! live        the sampled blocks in use
//! stage       parts of the work that allocations are counted by
//! metrics     the counts as metrics
//! ```
//! Every allocation is counted; about one in 512 KiB is sampled, see [`Options`]. What costs anything
//! happens at a sample: some microseconds, on the thread that allocates. What is freed is looked for in a
//! table without locks.
//!
//! It refuses: allocators that do not go through [`GlobalAlloc`](std::alloc::GlobalAlloc), that is, the
//! memory of C libraries, and `mmap`.

mod allocator;
mod calls;
mod distance;
mod live;
#[cfg(feature = "metrics")]
mod metrics;
mod record;
mod stage;
mod threads;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering::Relaxed;

pub use allocator::Allocator;
pub(crate) use calls::is_shim;
#[cfg(feature = "metrics")]
pub use metrics::Metrics;
pub(crate) use record::Inside;
pub use stage::{InStage, MOST_STAGES, StageGuard, in_stage, stage, stages};
pub(crate) use stage::{STAGES, name_of as stage_name, used as stages_used};
pub use threads::Counts;
pub(crate) use threads::{StageCell, adopt, stage_cells, stage_changes};

use crate::Error;
use crate::profile::{Profile, Tables, ValueType};

/// What a heap profile has for each stack: Go's columns, in Go's order.
pub const COLUMNS: [ValueType; 4] = [
    ValueType { kind: "alloc_objects", unit: "count" },
    ValueType { kind: "alloc_space", unit: "bytes" },
    ValueType { kind: "inuse_objects", unit: "count" },
    ValueType { kind: "inuse_space", unit: "bytes" },
];
/// The column that tools show first.
const IN_USE_SPACE: usize = 3;

/// How the heap is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// One sample in so many bytes on average, 512 KiB by default; 1 samples every block. Estimates of
    /// what a stack allocates are within a part of `sqrt(mean_bytes / bytes)` of the truth, one time in
    /// three further: 2% for a gigabyte at the default.
    pub mean_bytes: u64,
    /// Which blocks are sampled is drawn from this number; from chance by default. With the same number a
    /// program that does the same again gets the same samples.
    pub seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Options { mean_bytes: 512 << 10, seed: None }
    }
}

/// Begins to sample what the program allocates. The profile has the columns [`COLUMNS`], whole numbers
/// that stand for all allocations, the label `stage` where there is one, and those of the thread's
/// [scopes](crate::scope). What was allocated before is not known, and neither is its free.
///
/// After [`stop`] it can begin again. With the same tables the profile is the same, so that what was
/// allocated in the first run and is freed in the second is right; its period remains that of the first.
///
/// Libraries that are loaded later are found by a [`Profiler`](crate::Profiler), if there is one; without,
/// stacks through them end there, as lost.
///
/// *Setup.* An error if the program's allocator is not an [`Allocator`], or sampling has begun already.
pub fn start(options: Options, tables: &Tables) -> Result<Profile, Error> {
    // Larger ones would not fit a distance drawn from them.
    let mean = options.mean_bytes.clamp(1, 1 << 48);
    let seed = options.seed.unwrap_or_else(|| RandomState::new().hash_one(mean));
    tables.follow_modules();
    record::start(mean, seed, tables, || {
        let period_type = ValueType { kind: "space", unit: "bytes" };
        Profile::new(tables, &COLUMNS, IN_USE_SPACE, period_type, mean as i64)
    })
}

/// Samples no more. Blocks in use stay in the profile until they are freed.
pub fn stop() {
    record::stop();
}

/// Whether the heap is sampled.
pub fn is_running() -> bool {
    record::is_on()
}

/// What this thread allocated and freed since it began: zero where the program's allocator is not an
/// [`Allocator`]. What a part of the program allocates is the difference of two calls. *Steady*: about a
/// tenth of a microsecond.
pub fn thread_counts() -> Counts {
    threads::with_local(threads::Local::counts)
}

/// What sampling did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Blocks sampled.
    pub samples: u64,
    /// Of those, in use now.
    pub live: usize,
    /// How many may be in use at a time; at the default mean those of 64 GiB. From seven tenths of it on
    /// a sample may find no place.
    pub capacity: usize,
    /// Samples that found no place: they are in what was allocated, and missing in what is in use.
    pub untracked: u64,
    /// Samples that the profile had dropped by the time they were freed; 0 unless it is wrong.
    pub forgotten: u64,
}

/// What sampling did so far. *Steady.*
pub fn statistics() -> Statistics {
    Statistics {
        samples: record::SAMPLES.load(Relaxed),
        live: record::LIVE.used(),
        capacity: live::CAPACITY,
        untracked: record::UNTRACKED.load(Relaxed),
        forgotten: record::FORGOTTEN.load(Relaxed),
    }
}
