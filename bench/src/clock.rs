//! CPU and wall time of a piece of work.

use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// How long something took, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Elapsed {
    /// CPU time of the calling thread.
    pub cpu_ns: f64,
    /// Wall time.
    pub wall_ns: f64,
}

/// CPU time that this thread has used, in nanoseconds.
pub fn thread_cpu_ns() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// Runs `work` and measures it on this thread.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, Elapsed) {
    let (cpu, wall) = (thread_cpu_ns(), Instant::now());
    let value = work();
    let wall_ns = wall.elapsed().as_nanos() as f64;
    (value, Elapsed { cpu_ns: thread_cpu_ns() - cpu, wall_ns })
}

/// Keeps this thread on one CPU, where the system allows it: a move in the middle of a round costs more
/// than what some rounds measure.
pub fn pin(cpu: usize) {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let mut set = CpuSet::new();
    set.set(cpu % count);
    // In a container the CPU may not be ours to choose; the figures are then noisier, not wrong.
    let _ = sched_setaffinity(None, &set);
}
