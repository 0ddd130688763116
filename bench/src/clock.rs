//! CPU and wall time of a piece of work.

use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// How long something took, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Elapsed {
    /// CPU time of the calling thread.
    pub cpu_ns: f64,
    /// CPU time of all threads of the process.
    pub process_cpu_ns: f64,
    /// Wall time.
    pub wall_ns: f64,
}

fn cpu_ns(clock: ClockId) -> f64 {
    let now = clock_gettime(clock);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// Runs `work` on this thread and measures it.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, Elapsed) {
    let clocks = || (cpu_ns(ClockId::ProcessCPUTime), cpu_ns(ClockId::ThreadCPUTime));
    let (process, thread) = clocks();
    let started = Instant::now();
    let value = work();
    let wall_ns = started.elapsed().as_nanos() as f64;
    let (process_after, thread_after) = clocks();
    let (cpu_ns, process_cpu_ns) = (thread_after - thread, process_after - process);
    (value, Elapsed { cpu_ns, process_cpu_ns, wall_ns })
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
