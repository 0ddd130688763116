//! What sampling did, and what it cost.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::heap::{STAGES, stages_used};
use crate::unwind::End;

/// What a profiler did since it was started, and what that cost. Times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Ticks there were.
    pub ticks: u64,
    /// Ticks that were left out because they would have cost more than the budget, or because little ran.
    pub ticks_skipped: u64,
    /// Samples: stacks walked, and threads found asleep at the stack that is known.
    pub samples: u64,
    /// Signals sent.
    pub signals: u64,
    /// Threads found asleep at the stack that is known, without a signal.
    pub asleep: u64,
    /// Stacks that reach the thread's start.
    pub complete: u64,
    /// Stacks that were deeper than the depth to look at.
    pub truncated: u64,
    /// Stacks that ended where nothing says how to go on.
    pub lost: u64,
    /// Frames walked.
    pub frames: u64,
    /// Turns that were left out because every slot waited for another thread.
    pub skipped_full: u64,
    /// Signals that the system had no room for.
    pub skipped_unsent: u64,
    /// Signals that never came: the program let them be ignored for a while, or somebody else's handler took
    /// them.
    pub skipped_swallowed: u64,
    /// Turns of threads that block the signal.
    pub skipped_blocked: u64,
    /// Threads that ended.
    pub ended: u64,
    /// Threads there are.
    pub threads: u64,
    /// Processor time of the sampler's own thread.
    pub cost_sampler_ns: u64,
    /// Time in handlers of the sampled threads.
    pub cost_handlers_ns: u64,
    /// What sending signals and the way into and out of handlers costs, as measured at the start.
    pub cost_signals_ns: u64,
    /// What the sampled threads lose besides, because sampling has taken the caches: estimated from the three
    /// others, as a program's throughput shows it.
    pub cost_displaced_ns: u64,
    /// The pause between ticks now.
    pub pause_ns: u64,
    /// Millionths of one processor that sampling may take.
    pub budget_ppm: u64,
}

impl Statistics {
    /// All that sampling cost.
    pub fn cost_ns(&self) -> u64 {
        self.cost_sampler_ns + self.cost_handlers_ns + self.cost_signals_ns + self.cost_displaced_ns
    }
}

/// The same while it is counted: by one thread, read by any.
macro_rules! counters {
    ($($name:ident),* $(,)?) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
            pub(crate) stages: StageTimes,
        }

        impl Counters {
            pub(crate) fn read(&self) -> Statistics {
                Statistics { $($name: self.$name.get(),)* }
            }
        }
    };
}

counters!(
    ticks,
    ticks_skipped,
    samples,
    signals,
    asleep,
    complete,
    truncated,
    lost,
    frames,
    skipped_full,
    skipped_unsent,
    skipped_swallowed,
    skipped_blocked,
    ended,
    threads,
    cost_sampler_ns,
    cost_handlers_ns,
    cost_signals_ns,
    cost_displaced_ns,
    pause_ns,
    budget_ppm,
);

/// Processor time by the number of its stage, in nanoseconds: what is in the profile, and in the first
/// what the process had before.
#[derive(Debug)]
pub(crate) struct StageTimes([Counter; STAGES]);

impl Default for StageTimes {
    fn default() -> Self {
        StageTimes([const { Counter(AtomicU64::new(0)) }; STAGES])
    }
}

impl StageTimes {
    pub(crate) fn add(&self, stage: u8, time: u64) {
        self.0[usize::from(stage)].add(time);
    }

    pub(crate) fn get(&self, stage: usize) -> u64 {
        self.0[stage].get()
    }
}

/// A number that one thread writes.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed) + more, Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Counters {
    /// Calls `each` with the stages and their processor time.
    pub(crate) fn stage_cpu(&self, mut each: impl FnMut(&'static str, Duration)) {
        stages_used(|name, stage| {
            let time = self.stages.get(stage);
            if stage + 1 != STAGES || time > 0 {
                each(name, Duration::from_nanos(time));
            }
        });
    }

    pub(crate) fn ended_at(&self, end: End, frames: usize) {
        self.frames.add(frames as u64);
        match end {
            End::Root => self.complete.add(1),
            End::Truncated => self.truncated.add(1),
            End::Lost => self.lost.add(1),
        }
    }
}
