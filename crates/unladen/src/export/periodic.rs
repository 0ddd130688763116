//! Collects on an interval and brings what was collected to one exporter.
//!
//! The work is done by a thread of its own:
//!
//! 1. It waits until the interval is over, until the exporter wants to try again, or until somebody asks.
//! 2. It collects as the exporter prefers, lent or as a snapshot, and calls the exporter. An error is
//!    counted and told to whoever wants to hear; a panic is an error like the others.
//! 3. When asked to end it does so once more, tries again what waits for as long as there is time, and
//!    tells the exporter.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::reader::Reader;
use crate::registry::Registry;

use super::error::{Error, Reason};
use super::{Counts, Data, Exporter, MemoryMode, Outcome};

/// Collects on an interval for one exporter, until it is shut down or dropped.
///
/// The interval is 60 seconds, or what `OTEL_METRIC_EXPORT_INTERVAL` says; whoever waits for an export
/// does so for 30 seconds, or what `OTEL_METRIC_EXPORT_TIMEOUT` says (both in milliseconds).
pub struct PeriodicReader {
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
    timeout: Duration,
    exporter: &'static str,
}

/// What a [`PeriodicReader`] begins with.
pub struct Builder<E> {
    exporter: E,
    interval: Duration,
    timeout: Duration,
    on_error: Box<dyn FnMut(&Error) + Send>,
}

impl<E> fmt::Debug for Builder<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("interval", &self.interval)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PeriodicReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeriodicReader").field("exporter", &self.exporter).finish_non_exhaustive()
    }
}

/// What the thread and its owner share.
#[derive(Default)]
struct Control {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Exports that were asked for, and the last of these that is done.
    asked: u64,
    done: u64,
    /// By when it has to have ended.
    end_by: Option<Instant>,
    has_ended: bool,
    /// What came of the last export that was asked for.
    failure: Option<Error>,
}

impl<E: Exporter + 'static> Builder<E> {
    /// Collects this often. Nothing shorter than a millisecond.
    #[must_use]
    pub fn interval(self, interval: Duration) -> Self {
        Builder { interval: interval.max(Duration::from_millis(1)), ..self }
    }

    /// Waits so long for an export that is asked for, and for the last one.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Builder { timeout, ..self }
    }

    /// Tells `hear` about every export that fails; without this, the metrics do. It is called on the
    /// thread of the exports.
    #[must_use]
    pub fn on_error(self, hear: impl FnMut(&Error) + Send + 'static) -> Self {
        Builder { on_error: Box::new(hear), ..self }
    }

    /// Begins. The first export is an interval from now.
    ///
    /// # Errors
    /// There is no thread to be had, or another family of the registry has the name of an exporter's
    /// metric.
    pub fn start(self, registry: &Registry) -> io::Result<PeriodicReader> {
        let Builder { mut exporter, interval, timeout, on_error } = self;
        let name = exporter.name();
        let counts = Counts::new(registry, name).map_err(io::Error::other)?;
        exporter.count_in(&counts);
        let reader = Reader::new(registry, exporter.temporalities());
        let control = Arc::new(Control::default());
        let mut work =
            Work { exporter, reader, counts, interval, on_error, control: control.clone() };
        let thread = std::thread::Builder::new().name("unladen-export".into());
        let thread = thread.spawn(move || work.run())?;
        Ok(PeriodicReader { control, thread: Some(thread), timeout, exporter: name })
    }
}

fn milliseconds(variable: &str, otherwise: u64) -> Duration {
    let set = std::env::var(variable).ok().and_then(|value| value.trim().parse().ok());
    Duration::from_millis(set.filter(|&set| set > 0).unwrap_or(otherwise))
}

impl PeriodicReader {
    /// One for `exporter`, with the settings of the environment.
    pub fn builder<E: Exporter + 'static>(exporter: E) -> Builder<E> {
        Builder {
            exporter,
            interval: milliseconds("OTEL_METRIC_EXPORT_INTERVAL", 60_000),
            timeout: milliseconds("OTEL_METRIC_EXPORT_TIMEOUT", 30_000),
            on_error: Box::new(|_| {}),
        }
    }

    /// Begins with the settings of the environment: see [`Builder::start`].
    ///
    /// # Errors
    /// There is no thread to be had, or another family of the registry has the name of an exporter's
    /// metric.
    pub fn start(registry: &Registry, exporter: impl Exporter + 'static) -> io::Result<Self> {
        PeriodicReader::builder(exporter).start(registry)
    }

    /// Collects and exports now, and waits until that is done.
    ///
    /// # Errors
    /// What the exporter says, or that it took too long, or that this reader has ended.
    pub fn force_flush(&self) -> Result<(), Error> {
        let deadline = Instant::now() + self.timeout;
        let mut state = self.control.state.lock();
        if state.has_ended || state.end_by.is_some() {
            return Err(self.timeout_error("has been shut down"));
        }
        state.asked += 1;
        let mine = state.asked;
        self.control.changed.notify_all();
        while state.done < mine && !state.has_ended {
            if self.control.changed.wait_until(&mut state, deadline).timed_out() {
                return Err(self.timeout_error("took too long; it goes on"));
            }
        }
        state.failure.take().map_or(Ok(()), Err)
    }

    /// Exports a last time and ends the thread.
    ///
    /// # Errors
    /// What the exporter says of the last export, or that it took too long: then the thread is left to
    /// itself.
    pub fn shutdown(mut self) -> Result<(), Error> {
        self.end()
    }

    fn timeout_error(&self, message: &str) -> Error {
        Error::new(self.exporter, Reason::Timeout, message)
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let deadline = Instant::now() + self.timeout;
        let mut state = self.control.state.lock();
        state.end_by = Some(deadline);
        self.control.changed.notify_all();
        while !state.has_ended {
            // The exporter keeps to the deadline where it can; a bit more lets it.
            let grace = deadline + Duration::from_millis(100);
            if self.control.changed.wait_until(&mut state, grace).timed_out() {
                return Err(self.timeout_error("the last export took too long"));
            }
        }
        let failure = state.failure.take();
        drop(state);
        let _ = thread.join();
        failure.map_or(Ok(()), Err)
    }
}

impl Drop for PeriodicReader {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// What the thread has.
struct Work<E> {
    exporter: E,
    reader: Reader,
    counts: Counts,
    interval: Duration,
    on_error: Box<dyn FnMut(&Error) + Send>,
    control: Arc<Control>,
}

/// Why the thread goes on.
enum Cause {
    Interval,
    Retry,
    Asked(u64),
    End(Instant),
}

impl<E: Exporter> Work<E> {
    fn run(&mut self) {
        let mut next = Instant::now() + self.interval;
        let end_by = loop {
            let cause = self.wait(next);
            if matches!(cause, Cause::Interval) {
                // Intervals that were missed are not made up for.
                next = (next + self.interval).max(Instant::now());
            }
            match cause {
                Cause::Interval => drop(self.export()),
                Cause::Retry => drop(self.attempt(E::retry)),
                Cause::Asked(number) => {
                    let failure = self.export().err();
                    let mut state = self.control.state.lock();
                    state.failure = failure;
                    state.done = number;
                    self.control.changed.notify_all();
                }
                Cause::End(end_by) => break end_by,
            }
        };
        let mut last = self.export();
        // Whatever waits has until then to get there.
        while let Some(at) = self.exporter.retry_at().filter(|at| *at < end_by) {
            let mut state = self.control.state.lock();
            while Instant::now() < at {
                self.control.changed.wait_until(&mut state, at);
            }
            drop(state);
            last = self.attempt(E::retry);
        }
        let ended = self.attempt(E::shutdown);
        let mut state = self.control.state.lock();
        state.failure = match (last, ended) {
            // What is lost, and why.
            (Err(last), Err(ended)) => Some(ended.after(&last)),
            (last, ended) => last.and(ended).err(),
        };
        state.has_ended = true;
        self.control.changed.notify_all();
    }

    fn wait(&self, next: Instant) -> Cause {
        let mut state = self.control.state.lock();
        loop {
            if let Some(end_by) = state.end_by {
                return Cause::End(end_by);
            }
            if state.asked > state.done {
                return Cause::Asked(state.asked);
            }
            let retry_at = self.exporter.retry_at();
            let now = Instant::now();
            if now >= next {
                return Cause::Interval;
            }
            if retry_at.is_some_and(|at| now >= at) {
                return Cause::Retry;
            }
            let until = retry_at.map_or(next, |at| at.min(next));
            self.control.changed.wait_until(&mut state, until);
        }
    }

    fn export(&mut self) -> Result<(), Error> {
        let mut points = 0;
        let exporter = &mut self.exporter;
        let reader = &mut self.reader;
        let export = || match exporter.memory_mode() {
            MemoryMode::Reusable => reader.collect(|batch| {
                points = batch.point_count();
                exporter.export(Data::Leased(*batch))
            }),
            MemoryMode::Immutable => {
                let snapshot = reader.snapshot();
                points = snapshot.batch().point_count();
                exporter.export(Data::Shared(snapshot))
            }
        };
        let result = catch_unwind(AssertUnwindSafe(export));
        if result.is_err() {
            self.counts.points(Outcome::Dropped, points);
        }
        self.tell(result)
    }

    fn attempt(&mut self, what: impl FnOnce(&mut E) -> Result<(), Error>) -> Result<(), Error> {
        let result = catch_unwind(AssertUnwindSafe(|| what(&mut self.exporter)));
        self.tell(result)
    }

    fn tell(&mut self, result: std::thread::Result<Result<(), Error>>) -> Result<(), Error> {
        let result = result.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            let message = format!("the exporter panicked: {}", text.unwrap_or("without a text"));
            Err(Error::new(self.exporter.name(), Reason::Panic, message))
        });
        if let Err(error) = &result {
            self.counts.failure(error.reason());
            // Who listens may fail too; that must not end the exports.
            let hear = || (self.on_error)(error);
            let _ = catch_unwind(AssertUnwindSafe(hear));
        }
        result
    }
}
