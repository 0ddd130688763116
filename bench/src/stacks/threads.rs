//! Threads that wait below 500 calls.
//!
//! - *asleep*: for good. The profiler may know them as such and need no signal.
//! - *awake*: each wakes again and again for a moment, the more rarely the more there are, so that all of
//!   them together wake equally often whatever their number. None has slept all the time between two of
//!   its samples.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bench::Failure;
use bench::deep::{NESTED, descend};

/// How the threads wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wait {
    Asleep,
    /// Each wakes once in so many microseconds for each thread there is.
    Awake(u64),
}

#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    /// For those who look rather than wait.
    is_over: AtomicBool,
}

/// Deep threads; they end when this is dropped.
pub struct Threads {
    ids: Vec<libc::pid_t>,
    gate: Arc<Gate>,
    running: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts so many and waits until all are deep.
    pub fn start(count: usize, wait: Wait) -> Result<Threads, Failure> {
        let gate = Arc::new(Gate::default());
        let (arrived, arrivals) = sync_channel(count);
        let mut threads = Threads { ids: Vec::new(), gate, running: Vec::new() };
        for number in 0..count {
            let (gate, arrived) = (threads.gate.clone(), arrived.clone());
            let named = thread::Builder::new().name(format!("deep-{number}"));
            let running = named.stack_size(512 << 10).spawn(move || {
                let mut leaf = || {
                    // SAFETY: a plain call.
                    let _ = arrived.send(unsafe { libc::gettid() });
                    gate.wait(wait, count as u64);
                };
                descend(number as u64 + 1, NESTED, &mut leaf);
            })?;
            threads.running.push(running);
        }
        for _ in 0..count {
            threads.ids.push(arrivals.recv()?);
        }
        Ok(threads)
    }

    /// Their ids, for the kernel.
    pub fn ids(&self) -> &[libc::pid_t] {
        &self.ids
    }
}

impl Gate {
    fn wait(&self, wait: Wait, count: u64) {
        match wait {
            Wait::Asleep => {
                let mut is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
                while !*is_open {
                    is_open = self.opened.wait(is_open).unwrap_or_else(PoisonError::into_inner);
                }
            }
            Wait::Awake(us) => {
                while !self.is_over.load(Relaxed) {
                    thread::sleep(Duration::from_micros(us * count));
                }
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.gate.is_over.store(true, Relaxed);
        *self.gate.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.gate.opened.notify_all();
        for running in self.running.drain(..) {
            // A thread that panicked has said so.
            let _ = running.join();
        }
    }
}
