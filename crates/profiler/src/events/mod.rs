//! Profiles without signals: processor time by stack, from the kernel's perf events.
//!
//! For programs that cannot bear system calls to end with EINTR. The kernel itself takes a sample when a
//! thread has had its period of processor time: registers, and a copy of the stack's upper end, which a
//! thread of ours unwinds. The program's threads notice nothing but the time, some microseconds a sample.
//! Beside it there is the heap profile, which has no signals either; what threads wait for is not seen.
//!
//! ```text
//! Events   start, stop, read
//! watch    which threads are sampled, and the rings that the kernel writes to
//! reader   samples → stacks → profile; each thread's time; how often there is a sample
//! account  whose time is in the profile already
//! record   what the kernel writes
//! kernel   what it is asked
//! ```
//! What is refused: stacks deeper than the copy, which are marked; processors that are switched on later;
//! threads for which there are no descriptors, which are counted.
//!
//! The stack is copied rather than walked by the kernel, because the kernel walks by frame pointers, which
//! neither libc nor most release builds have.

mod account;
mod kernel;
mod reader;
mod record;
mod watch;

use std::fmt;
use std::io::{PipeReader, PipeWriter, Write as _};
use std::mem;
use std::os::fd::AsRawFd;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use reader::Reader;
use watch::Watch;

use crate::Error;
use crate::profile::{Limits, Profile, Tables, ValueType};
use crate::sample::{Tid, cpu_of, now, without_signals};

/// What a profile from events measures at each stack.
pub const CPU_COLUMNS: [ValueType; 2] =
    [ValueType { kind: "samples", unit: "count" }, ValueType { kind: "cpu", unit: "nanoseconds" }];

/// The deepest stacks that may be asked for.
const DEEPEST: usize = 8192;
/// A record's length has 16 bits.
const MOST_STACK: u32 = 63 << 10;

/// How the kernel is to sample.
#[derive(Clone, Debug)]
pub struct Builder {
    frequency: u32,
    budget: f64,
    stack_bytes: u32,
    depth: usize,
    descriptors: usize,
    tables: Option<Tables>,
}

impl Builder {
    /// Samples for each second of processor time; 99 without this, which keeps no step with what programs do
    /// regularly; 10,000 at most. With 0 nothing is sampled.
    #[must_use]
    pub fn frequency(mut self, hertz: u32) -> Self {
        self.frequency = hertz.min(10_000);
        self
    }

    /// The share of one processor that sampling may take; 0.02 without this. Where samples cost more, there
    /// are fewer: it rests in between, for ten seconds at most. With 0 nothing is sampled.
    #[must_use]
    pub fn budget(mut self, share: f64) -> Self {
        self.budget = share;
        self
    }

    /// How many bytes of a stack are copied for a sample; 32 KiB without this, 63 KiB at most. Calls beyond
    /// are missing, and marked as truncated.
    #[must_use]
    pub fn stack_bytes(mut self, bytes: u32) -> Self {
        self.stack_bytes = bytes.clamp(1024, MOST_STACK).next_multiple_of(8);
        self
    }

    /// How many calls of a stack are kept, from the innermost; 512 without this. Deeper stacks are marked.
    #[must_use]
    pub fn max_depth(mut self, frames: usize) -> Self {
        self.depth = frames.clamp(1, DEEPEST);
        self
    }

    /// How many descriptors may be open; 4,096 without this, and never more than half of what the process
    /// may have. Each thread that is there at the start takes one for each processor; those that start
    /// later take none.
    #[must_use]
    pub fn descriptors(mut self, most: usize) -> Self {
        self.descriptors = most;
        self
    }

    /// The tables to keep stacks in, where they are shared with a heap profile; new ones without this.
    #[must_use]
    pub fn tables(mut self, tables: &Tables) -> Self {
        self.tables = Some(tables.clone());
        self
    }

    /// Starts sampling all threads of the process. *Setup*: a system call for each thread and processor, and
    /// 256 KiB of locked memory for each processor. Early in the program is best: descriptors are for the
    /// threads that are there.
    ///
    /// # Errors
    /// A budget that is no share; what the system says where it refuses perf events, descriptors, locked
    /// memory or a thread, and what to do about it.
    pub fn start(self) -> Result<Events, Error> {
        if !(self.budget >= 0.0 && self.budget.is_finite()) {
            let budget = self.budget;
            return Err(Error::new(format!(
                "a budget of {budget} is not a share of a processor: give 0.02 for 2%, 0 for no sampling"
            )));
        }
        let tables = self.tables.clone().unwrap_or_else(|| Tables::new(Limits::default()));
        let period = self.period() as i64;
        let cpu = Profile::new(&tables, &CPU_COLUMNS, 1, CPU_COLUMNS[1], period);
        let is_off = self.budget == 0.0 || self.frequency == 0;
        let running = if is_off { None } else { Some(Running::start(self, &tables, &cpu)?) };
        Ok(Events(Arc::new(Inner { tables, cpu, running })))
    }

    /// Nanoseconds of processor time between samples.
    fn period(&self) -> u64 {
        1_000_000_000 / u64::from(self.frequency.max(1))
    }
}

/// Samples all threads of this process, without signals, until the last clone is dropped, or until it is
/// stopped. What was recorded stays readable.
///
/// ```no_run
/// let events = profiler::events::Events::builder().frequency(199).start()?;
/// let mut window = events.cpu().window();
/// // … the program works …
/// events.settle();
/// # let _ = &mut window; // window.write(…)
/// # Ok::<(), profiler::Error>(())
/// ```
#[derive(Clone)]
pub struct Events(Arc<Inner>);

struct Inner {
    tables: Tables,
    cpu: Profile,
    running: Option<Running>,
}

impl Events {
    /// With the usual settings.
    pub fn builder() -> Builder {
        Builder {
            frequency: 99,
            budget: 0.02,
            stack_bytes: 32 << 10,
            depth: 512,
            descriptors: 4096,
            tables: None,
        }
    }

    /// The profile that samples go to: samples and processor time by stack and thread.
    pub fn cpu(&self) -> &Profile {
        &self.0.cpu
    }

    /// The tables that it shares with others.
    pub fn tables(&self) -> &Tables {
        &self.0.tables
    }

    /// Whether it samples: it was not stopped, neither frequency nor budget are zero, and this is not a child
    /// process of the one that started it.
    pub fn is_running(&self) -> bool {
        self.0
            .running
            .as_ref()
            .is_some_and(|running| running.is_own() && !running.stopped.load(Relaxed))
    }

    /// Reads what the kernel has written up to now, and gives the processor time of threads that ended, as
    /// far as they have no samples for it, to the entry `[ended threads]`. Call it before a window is
    /// written. Takes some microseconds for each sample that waits, and one for each thread. *Steady.*
    pub fn settle(&self) {
        if let Some(running) = self.0.running.as_ref().filter(|running| running.is_own())
            && let Some(reader) = &mut *running.reader()
        {
            reader.settle();
        }
    }

    /// What it did so far, and what that cost. *Steady*; waits for the reader.
    pub fn statistics(&self) -> Statistics {
        let Some(running) = self.0.running.as_ref().filter(|running| running.is_own()) else {
            return Statistics::default();
        };
        let last = *running.shared.last.lock().unwrap_or_else(PoisonError::into_inner);
        running.reader().as_ref().map_or(last, Reader::statistics)
    }

    /// Stops sampling, reads what is there, ends the reader's thread and closes all descriptors.
    pub fn stop(&self) {
        if let Some(running) = self.0.running.as_ref().filter(|running| running.is_own()) {
            running.stop();
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("is_running", &self.is_running()).finish_non_exhaustive()
    }
}

/// What [`Events`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Samples recorded.
    pub samples: u64,
    /// Stacks that were complete.
    pub unwound_root: u64,
    /// Stacks deeper than what was copied of them or kept.
    pub unwound_truncated: u64,
    /// Stacks that could not be followed to their end.
    pub unwound_lost: u64,
    /// Records for which a ring had no room. Their time went to the thread's next sample.
    pub lost: u64,
    /// Times that the kernel held samples back.
    pub throttled: u64,
    /// Samples of a thread that was watched twice; they do not count.
    pub doubled: u64,
    /// Samples of child processes, before Linux 5.13; they do not count.
    pub foreign: u64,
    /// Threads that are known.
    pub threads: u64,
    /// Threads for which there were no descriptors.
    pub threads_missed: u64,
    /// Descriptors that are open.
    pub descriptors: u64,
    /// Whether time in the kernel has samples of its own. If not, it is given to the thread's samples outside
    /// of the kernel: `kernel.perf_event_paranoid` above 1 does not allow more.
    pub samples_kernel: bool,
    /// Nanoseconds of processor time between samples, now and on average.
    pub period_ns: u64,
    /// Nanoseconds that reading took, and an estimate of what sampling took in the kernel.
    pub cost_ns: u64,
}

/// The reader's thread.
struct Running {
    shared: Arc<Shared>,
    stopped: AtomicBool,
    /// The thread, and what wakes it when it is written to.
    thread: Mutex<Option<(JoinHandle<()>, PipeWriter)>>,
    process: u32,
}

struct Shared {
    /// None once everything is closed.
    reader: Mutex<Option<Reader>>,
    last: Mutex<Statistics>,
    stop: AtomicBool,
}

impl Running {
    fn start(options: Builder, tables: &Tables, cpu: &Profile) -> Result<Running, Error> {
        let refused = |error| Error::system("no thread for the profiler", error);
        let shared = Arc::new(Shared {
            reader: Mutex::new(None),
            last: Mutex::new(Statistics::default()),
            stop: AtomicBool::new(false),
        });
        let (woken, waker) = std::io::pipe().map_err(refused)?;
        let (ready, is_ready) = sync_channel(1);
        let (its_own, tables, cpu) = (shared.clone(), tables.clone(), cpu.clone());
        let thread = without_signals(|| {
            std::thread::Builder::new()
                .name("unladen-events".to_owned())
                .spawn(move || its_own.run(&options, tables, cpu, &woken, &ready))
        })
        .map_err(refused)?;
        let answer = is_ready.recv();
        if let Ok(Err(error)) = answer {
            let _ = thread.join();
            return Err(error);
        }
        Ok(Running {
            shared,
            stopped: AtomicBool::new(false),
            thread: Mutex::new(Some((thread, waker))),
            process: process::id(),
        })
    }

    fn is_own(&self) -> bool {
        self.process == process::id()
    }

    fn reader(&self) -> MutexGuard<'_, Option<Reader>> {
        self.shared.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((thread, mut waker)) = thread else { return };
        self.shared.stop.store(true, Relaxed);
        // Closing it would not do: child processes have it, too. If this fails it wakes by itself, later.
        let _ = waker.write_all(&[0]);
        let _ = thread.join();
        self.stopped.store(true, Relaxed);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A child process has the handle and not the thread; what that had stays there for ever, rings
        // too, whose memory a child does not get: there may be something else now.
        if self.is_own() {
            return self.stop();
        }
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((thread, waker)) = thread {
            drop(waker);
            // Dropped it would be detached: by a number that may be another thread's here.
            mem::forget(thread);
        }
    }
}

impl Shared {
    /// The reader's thread. It opens the counters, too, so that they are not inherited by itself.
    fn run(
        &self,
        options: &Builder,
        tables: Tables,
        cpu: Profile,
        woken: &PipeReader,
        ready: &SyncSender<Result<(), Error>>,
    ) {
        // Before there are samples, which would wait for it in a ring that is too small.
        tables.follow_modules();
        let mut threads = Vec::new();
        let watch = Watch::open(
            options.period(),
            options.stack_bytes,
            options.descriptors,
            Tid::own(),
            |tid| threads.extend(cpu_of(tid).map(|cpu| (tid, cpu))),
        );
        let watch = match watch {
            Ok(watch) => watch,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let reader = Reader::new(watch, &threads, tables, cpu, options, now());
        let descriptor = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut descriptors = vec![descriptor(woken.as_raw_fd())];
        descriptors.extend(reader.watch().ring_descriptors().map(descriptor));
        let mut pause = Pause::of(reader.period());
        let mut due = None;
        *self.lock() = Some(reader);
        let _ = ready.send(Ok(()));
        while !self.stop.load(Relaxed) {
            kernel::wait(&mut descriptors, pause.until(due));
            if let Some(reader) = &mut *self.lock() {
                let samples = reader.drain();
                reader.reconsider(now());
                // A ring whose descriptor says nothing any more has to be looked at in time.
                let is_heard = descriptors[1..].iter().all(|descriptor| descriptor.fd >= 0);
                pause.next(reader.period(), samples == 0 && is_heard);
                due = reader.due();
            }
        }
        let reader = self.lock().take();
        if let Some(mut reader) = reader {
            reader.settle();
            let statistics = Statistics { descriptors: 0, ..reader.statistics() };
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = statistics;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Reader>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long to wait for the kernel to say that a ring is half full.
struct Pause {
    milliseconds: i32,
}

impl Pause {
    fn of(period: u64) -> Pause {
        // A ring has room for seven samples of the usual size, and its processor takes one in a period.
        Pause { milliseconds: (4 * period / 1_000_000).clamp(10, 1000) as i32 }
    }

    /// At most until `due`.
    fn until(&self, due: Option<u64>) -> i32 {
        let left = due.map_or(i32::MAX, |due| {
            (due.saturating_sub(now()) / 1_000_000 + 1).try_into().unwrap_or(i32::MAX)
        });
        self.milliseconds.min(left)
    }

    fn next(&mut self, period: u64, idle: bool) {
        let usual = Pause::of(period).milliseconds;
        self.milliseconds = if idle { (self.milliseconds * 2).clamp(usual, 1000) } else { usual };
    }
}
