//! A busy program: threads that compute, all of it below 500 calls.
//!
//! A unit of work is some ten microseconds of arithmetic over 16 KiB; for each, the thread leaves the
//! innermost calls and comes back on one of several ways, so that there are as many stacks for each thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use bench::Failure;
use bench::deep::{NESTED, descend};

/// The calls that change from unit to unit.
const CHANGING: usize = 12;

/// A line of the cache to each: what is counted must not slow what is counted down.
#[derive(Default)]
#[repr(align(128))]
struct Done(AtomicU64);

/// Threads at work until this is dropped.
pub struct Busy {
    is_over: Arc<AtomicBool>,
    done: Arc<Vec<Done>>,
    running: Vec<JoinHandle<()>>,
}

impl Busy {
    /// Starts so many threads that do `work` again and again, each on so many ways in turn.
    pub fn start(
        threads: usize,
        ways: u64,
        work: impl Fn(u64) + Send + Sync + Clone + 'static,
    ) -> Result<Busy, Failure> {
        let is_over = Arc::new(AtomicBool::new(false));
        let done: Arc<Vec<Done>> = Arc::new((0..threads).map(|_| Done::default()).collect());
        let mut busy = Busy { is_over, done, running: Vec::new() };
        for number in 0..threads {
            let (is_over, done, work) = (busy.is_over.clone(), busy.done.clone(), work.clone());
            let named = thread::Builder::new().name(format!("busy-{number}"));
            let running = named.stack_size(1 << 20).spawn(move || {
                let mut unit = 0;
                let mut leaf = || {
                    while !is_over.load(Relaxed) {
                        unit += 1;
                        descend(unit % ways, CHANGING, &mut || work(unit));
                        done[number].0.store(unit, Relaxed);
                    }
                };
                descend(number as u64 + 1, NESTED - CHANGING - 1, &mut leaf);
            })?;
            busy.running.push(running);
        }
        Ok(busy)
    }

    /// Units of all threads together.
    pub fn units(&self) -> u64 {
        self.done.iter().map(|done| done.0.load(Relaxed)).sum()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        for running in self.running.drain(..) {
            // A thread that panicked has said so.
            let _ = running.join();
        }
    }
}

/// Arithmetic over memory of the stack's own.
pub fn compute(unit: u64) {
    let mut memory = [unit; 2048];
    for round in 0..4 {
        let mut state = unit + round;
        for word in &mut memory {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(*word);
            *word ^= state >> 29;
        }
        std::hint::black_box(&mut memory);
    }
}
