//! Start, stop, read.

use std::fmt;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::profile::{Limits, Profile, Tables, ValueType};
use crate::sample::{
    Budget, Counters, LONGEST, Options, Sampler, Statistics, ThreadStack, now, without_signals,
};
use crate::{heap, scope};

/// What a wall-clock profile measures at each stack.
pub const WALL_COLUMNS: [ValueType; 3] = [
    ValueType { kind: "samples", unit: "count" },
    ValueType { kind: "wall", unit: "nanoseconds" },
    ValueType { kind: "cpu", unit: "nanoseconds" },
];

/// The deepest stacks that may be asked for.
const DEEPEST: usize = 8192;

/// The process in which a profiler runs; 0 for none. A child of `fork` has its parent's number here, and
/// none of its threads.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// How a [`Profiler`] is to sample. The usual settings suit a service that is profiled all the time.
#[derive(Clone, Debug)]
pub struct Builder {
    threads_per_tick: usize,
    tick: Duration,
    budget: f64,
    depth: usize,
    signal: i32,
    recognises_sleepers: bool,
    pub(crate) tables: Option<Tables>,
}

impl Builder {
    /// How many threads are interrupted at a tick at most; 16 without this, 64 at most. It bounds what one
    /// tick does to a service's latency.
    #[must_use]
    pub fn threads_per_tick(mut self, threads: usize) -> Self {
        self.threads_per_tick = threads.clamp(1, 64);
        self
    }

    /// The time between ticks, in the middle; 20 ms without this. Each is up to a quarter shorter or longer,
    /// so that sampling does not keep step with what the program does regularly. Where the program has less
    /// than a fifth of a processor, the time grows, up to 25 times of this, so that a fifth of it is work of the
    /// program (4 ms of 20). At 0, one tick follows the other, as far as the budget allows.
    #[must_use]
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// The share of one processor that sampling may take; 0.02 without this. What it costs is measured, with
    /// an estimate on top of what it displaces from caches. Where ticks cost more, there
    /// are fewer; one in ten seconds at least. Of a program that has less than one processor it is the same
    /// share of what that has, as far as the longest [`tick`](Self::tick) allows. With 0 nothing is sampled.
    #[must_use]
    pub fn budget(mut self, share: f64) -> Self {
        self.budget = share;
        self
    }

    /// How many calls of a stack are kept, from the innermost; 512 without this. Deeper stacks are marked.
    #[must_use]
    pub fn max_depth(mut self, frames: usize) -> Self {
        self.depth = frames.clamp(1, DEEPEST);
        self
    }

    /// The signal; `SIGURG` without this. Others are for programs that use that one themselves and can't
    /// share it: a handler that was there before gets the signals that are not the profiler's, and one
    /// that is installed later has to be left alone.
    #[must_use]
    pub fn signal(mut self, signal: i32) -> Self {
        self.signal = signal;
        self
    }

    /// Whether a thread that has not run since its last sample keeps its stack without being interrupted;
    /// so without this. To measure what sampling costs.
    #[must_use]
    pub fn recognise_sleepers(mut self, recognise: bool) -> Self {
        self.recognises_sleepers = recognise;
        self
    }

    /// The tables to keep stacks in, where they are shared with a heap profile; new ones without this.
    #[must_use]
    pub fn tables(mut self, tables: &Tables) -> Self {
        self.tables = Some(tables.clone());
        self
    }

    /// Starts sampling all threads of the process. *Setup*; prepares the unwind tables of all modules,
    /// which takes some milliseconds for every megabyte of code.
    ///
    /// # Errors
    /// A profiler is running already; a budget that is no share; a signal that can't be handled; what the
    /// system says where it refuses the signal, `/proc`, or a thread.
    pub fn start(self) -> Result<Profiler, Error> {
        if !(self.budget >= 0.0 && self.budget.is_finite()) {
            let budget = self.budget;
            return Err(Error::new(format!(
                "a budget of {budget} is not a share of a processor: give 0.02 for 2%, 0 for no sampling"
            )));
        }
        let tables = self.tables.unwrap_or_else(|| Tables::new(Limits::default()));
        let period = i64::try_from(self.tick.as_nanos()).unwrap_or(i64::MAX);
        let wall = Profile::new(&tables, &WALL_COLUMNS, 1, WALL_COLUMNS[1], period);
        let counters = Arc::new(Counters::default());
        counters.budget_ppm.set((self.budget * 1e6) as u64);
        let is_off = self.budget == 0.0;
        let options = Options {
            threads_per_tick: self.threads_per_tick,
            looks_per_tick: 4 * self.threads_per_tick.max(16),
            tick: period as u64,
            share: self.budget,
            depth: self.depth,
            signal: self.signal,
            recognises_sleepers: self.recognises_sleepers,
        };
        let running =
            if is_off { None } else { Some(Running::start(options, &tables, &wall, &counters)?) };
        Ok(Profiler(Arc::new(Inner { tables, wall, counters, running, process: process::id() })))
    }
}

/// Samples all threads of this process until the last clone is dropped, or until it is stopped.
///
/// ```no_run
/// let profiler = profiler::Profiler::builder().budget(0.01).start()?;
/// let mut window = profiler.wall().window();
/// // … the program works …
/// profiler.settle();
/// # let _ = &mut window; // window.write(…)
/// # Ok::<(), profiler::Error>(())
/// ```
#[derive(Clone)]
pub struct Profiler(Arc<Inner>);

struct Inner {
    tables: Tables,
    wall: Profile,
    counters: Arc<Counters>,
    running: Option<Running>,
    /// The process that it was started in.
    process: u32,
}

impl fmt::Debug for Profiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profiler").field("is_running", &self.is_running()).finish_non_exhaustive()
    }
}

impl Profiler {
    /// With the usual settings.
    pub fn builder() -> Builder {
        Builder {
            threads_per_tick: 16,
            tick: Duration::from_millis(20),
            budget: 0.02,
            depth: 512,
            signal: libc::SIGURG,
            recognises_sleepers: true,
            tables: None,
        }
    }

    /// Starts with the usual settings.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub fn start() -> Result<Profiler, Error> {
        Profiler::builder().start()
    }

    /// The profile that samples go to: samples, wall-clock and processor time by stack, thread and scope.
    /// It lives on after the profiler was stopped.
    pub fn wall(&self) -> &Profile {
        &self.0.wall
    }

    /// The tables that it shares with others.
    pub fn tables(&self) -> &Tables {
        &self.0.tables
    }

    /// Whether it samples: it was not stopped, its budget is above zero, and this is not a child process
    /// of the one that started it.
    pub fn is_running(&self) -> bool {
        self.running().is_some_and(|running| !running.stopped.load(Relaxed))
    }

    fn running(&self) -> Option<&Running> {
        self.0.running.as_ref().filter(|_| self.0.process == process::id())
    }

    /// Gives every thread its time up to now, so that totals are true to the moment. Call it before a
    /// window is written. Locks the sampler for about a microsecond for each thread. *Steady.*
    pub fn settle(&self) {
        if let Some(mut sampler) = self.at_work() {
            sampler.settle();
        }
    }

    /// What every thread is doing now, the calling one included: each is interrupted once. Takes as long as
    /// the slowest needs to get a processor, two seconds at most. *Growth.*
    pub fn threads(&self) -> Vec<ThreadStack> {
        const PATIENCE: Duration = Duration::from_secs(2);
        let Some(running) = self.running() else { return Vec::new() };
        // One at a time: those who ask share what the sampler is told.
        let _asking = running.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + PATIENCE;
        if let Some(mut sampler) = self.at_work() {
            sampler.ask();
        }
        loop {
            let Some(mut sampler) = self.at_work() else { return Vec::new() };
            if sampler.ask_on() || Instant::now() >= until {
                return sampler.take_asked();
            }
            drop(sampler);
            // Whoever waits for the sampler gets it now.
            std::thread::yield_now();
        }
    }

    /// The sampler, unless it was stopped. Asked with its lock held: who waits for it while another stops it
    /// would go on afterwards.
    fn at_work(&self) -> Option<MutexGuard<'_, Sampler>> {
        let sampler = self.running()?.sampler();
        self.is_running().then_some(sampler)
    }

    /// What it did so far, and what that cost. *Steady*, locks nothing.
    pub fn statistics(&self) -> Statistics {
        self.0.counters.read()
    }

    /// Calls `each` with every [stage](crate::stage) and the processor time that threads had in it, by
    /// their samples. `none` has what was outside of all stages, or before the profiler was started, so
    /// that the sum is the process' processor time; `profiler` the sampler's own thread. Exact up to the
    /// last [`settle`](Self::settle), otherwise up to a thread's last turn, which is some two and a half
    /// seconds ago at most where there are no more than two hundred threads; and not lower than before.
    /// *Steady*, locks nothing.
    pub fn stage_cpu(&self, each: impl FnMut(&'static str, Duration)) {
        self.0.counters.stage_cpu(each);
    }

    /// One that does not keep it running.
    #[cfg(feature = "metrics")]
    pub(crate) fn downgrade(&self) -> WeakProfiler {
        WeakProfiler(Arc::downgrade(&self.0))
    }

    /// What it counts, and the tables.
    #[cfg(feature = "metrics")]
    pub(crate) fn measured(&self) -> (Arc<Counters>, Tables) {
        (self.0.counters.clone(), self.0.tables.clone())
    }

    /// Stops sampling and waits until no handler is at work. What was recorded stays readable. Signals that
    /// are still on their way do nothing.
    pub fn stop(&self) {
        if let Some(running) = self.running() {
            running.stop();
        }
    }
}

/// A profiler that may be gone.
#[cfg(feature = "metrics")]
pub(crate) struct WeakProfiler(std::sync::Weak<Inner>);

#[cfg(feature = "metrics")]
impl WeakProfiler {
    /// As [`Profiler::settle`], if it is there.
    pub(crate) fn settle(&self) {
        if let Some(inner) = self.0.upgrade() {
            Profiler(inner).settle();
        }
    }
}

/// The sampler's thread.
struct Running {
    shared: Arc<Shared>,
    stopped: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Held by who asks all threads.
    asking: Mutex<()>,
    process: u32,
}

struct Shared {
    sampler: Mutex<Sampler>,
    stop: Mutex<bool>,
    stopping: Condvar,
}

impl Running {
    fn start(
        options: Options,
        tables: &Tables,
        wall: &Profile,
        counters: &Arc<Counters>,
    ) -> Result<Running, Error> {
        let own = process::id();
        let claimed = RUNNING.fetch_update(Relaxed, Relaxed, |held| (held != own).then_some(own));
        if claimed.is_err() {
            return Err(Error::new(
                "a profiler is running in this process: use a clone of it, or stop it first",
            ));
        }
        if claimed.is_ok_and(|held| held != 0) {
            // It is a child of the process that a profiler ran in.
            scope::adopt();
        }
        heap::adopt();
        let started = Running::start_claimed(options, tables, wall, counters);
        if started.is_err() {
            RUNNING.store(0, Relaxed);
        }
        started
    }

    fn start_claimed(
        options: Options,
        tables: &Tables,
        wall: &Profile,
        counters: &Arc<Counters>,
    ) -> Result<Running, Error> {
        let refused = |error| Error::system("the profiler can't sample here", error);
        let (share, tick) = (options.share, options.tick);
        let sampler = Sampler::new(options, tables.clone(), wall.clone(), counters.clone())
            .map_err(refused)?;
        let shared = Arc::new(Shared {
            sampler: Mutex::new(sampler),
            stop: Mutex::new(false),
            stopping: Condvar::new(),
        });
        let (its_own, counters) = (shared.clone(), counters.clone());
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let thread = without_signals(|| {
            std::thread::Builder::new()
                .name("unladen-profile".to_owned())
                .spawn(move || its_own.run(Budget::new(share, tick), tick, &counters, &ready))
        })
        .map_err(|error| Error::system("no thread for the profiler", error))?;
        // From here on the sampler knows which thread is its own.
        let _ = is_ready.recv();
        Ok(Running {
            shared,
            stopped: AtomicBool::new(false),
            thread: Mutex::new(Some(thread)),
            asking: Mutex::new(()),
            process: process::id(),
        })
    }

    fn sampler(&self) -> MutexGuard<'_, Sampler> {
        self.shared.sampler()
    }

    fn stop(&self) {
        // Until the end, so that whoever else stops it does not return before.
        let mut held = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(thread) = held.take() else { return };
        *self.shared.stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.stopping.notify_all();
        let _ = thread.join();
        let mut sampler = self.sampler();
        sampler.settle();
        sampler.disarm();
        self.stopped.store(true, Relaxed);
        drop(sampler);
        RUNNING.store(0, Relaxed);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.process == process::id() {
            self.stop();
        } else {
            // A child process has the handle, but not the thread: to let go of it might let go of a thread
            // of its own, which has taken that one's place.
            let handle = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
            std::mem::forget(handle);
        }
    }
}

impl Shared {
    fn sampler(&self) -> MutexGuard<'_, Sampler> {
        self.sampler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sampler's thread.
    fn run(&self, mut budget: Budget, tick: u64, counters: &Counters, ready: &SyncSender<()>) {
        let _stage = heap::stage("profiler");
        self.sampler().set_own();
        let _ = ready.send(());
        let mut last = now();
        let mut pause = tick;
        loop {
            let random = self.sampler().random();
            if self.is_told_to_stop(jitter(pause, random)) {
                return;
            }
            let ticked = self.sampler().tick();
            let time = now();
            let elapsed = time - last;
            last = time;
            if let Some(skipped @ 1..) = elapsed.checked_div(tick).and_then(|n| n.checked_sub(1)) {
                counters.ticks_skipped.add(skipped);
            }
            pause = budget.pause(elapsed, ticked.cost, ticked.ran);
            counters.pause_ns.set(pause);
        }
    }

    /// Waits, and says whether that is the end.
    fn is_told_to_stop(&self, pause: u64) -> bool {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        if pause == 0 || *stop {
            return *stop;
        }
        let pause = Duration::from_nanos(pause);
        let waited = self.stopping.wait_timeout_while(stop, pause, |stop| !*stop);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// `pause`, up to a quarter shorter or longer.
fn jitter(pause: u64, random: u64) -> u64 {
    let half = pause / 2;
    (pause - half / 2 + random.checked_rem(half).unwrap_or(0)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_vary_around_what_they_are_to_be() {
        let pauses: Vec<_> = (0..10_000).map(|i| jitter(10_000_000, i * 7919)).collect();
        assert!(pauses.iter().all(|pause| (7_500_000..=12_500_000).contains(pause)));
        let mean = pauses.iter().sum::<u64>() / pauses.len() as u64;
        assert!((9_900_000..10_100_000).contains(&mean), "{mean}");
        assert_eq!(jitter(0, 5), 0);
    }
}
