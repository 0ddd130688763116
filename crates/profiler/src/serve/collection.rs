//! A profile that is collected, and then written.
//!
//! 1. A window is opened when the request comes, and its time begins.
//! 2. When the time is up, every thread is given its time up to now.
//! 3. What the window has seen is written; addresses that are new get their names first. No lock is held
//!    while the reader takes what is there.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::query::{DEFAULT_COLLECTION, Debug, Kind, Parameters};
use super::sampling::Lease;
use super::{Place, Pprof, text};
use crate::Error;
use crate::events::Events;
use crate::profile::{
    Label, LabelValue, LabelsId, Mapping, NOT_SAMPLED_YET, Profile, SIGNALS_BLOCKED, Stack,
    Symbolize, Tables, ValueType, Window, WriteOptions,
};
use crate::profiler::Profiler;
use crate::sample::ThreadStack;
#[cfg(feature = "symbols")]
use crate::symbols::Resolver;
use crate::unwind::{self, End};

/// What is written of threads as they are now.
const THREADS: [ValueType; 1] = [ValueType { kind: "threads", unit: "count" }];

/// A profile that somebody waits for. Dropping it ends its part in sampling.
pub(super) struct Collection {
    pub(super) kind: Kind,
    pub(super) parameters: Parameters,
    pub(super) ready_at: Option<Instant>,
    begun: Instant,
    source: Source,
    /// None for the heap alone.
    lease: Option<Lease>,
    pprof: Pprof,
    _place: Place,
}

enum Source {
    Window(Box<Window>, Tables),
    /// Asked when the answer is written.
    Threads,
}

impl Kind {
    /// How long it takes to collect; none for what is there.
    pub(super) fn length(self, parameters: &Parameters) -> Option<Duration> {
        match self {
            Kind::Cpu | Kind::Wall => Some(parameters.seconds.unwrap_or(DEFAULT_COLLECTION)),
            Kind::Heap | Kind::Allocs => parameters.seconds,
            Kind::Threads => None,
        }
    }
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collection").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Collection {
    pub(super) fn begin(
        pprof: &Pprof,
        kind: Kind,
        parameters: Parameters,
        place: Place,
    ) -> Result<Self, Error> {
        let needs_sampler = match kind {
            Kind::Cpu => pprof.events.is_none(),
            Kind::Wall | Kind::Threads => true,
            Kind::Heap | Kind::Allocs => false,
        };
        let lease = if needs_sampler { pprof.sampling.lease()? } else { None };
        let length = kind.length(&parameters);
        let profile = match kind {
            Kind::Cpu | Kind::Wall => match (&lease, &pprof.events) {
                (Some(lease), _) => Some(lease.profiler.wall()),
                (None, events) => events.as_ref().map(Events::cpu),
            },
            Kind::Heap | Kind::Allocs => pprof.heap.as_ref(),
            Kind::Threads => None,
        };
        // What was before belongs to others.
        match (&lease, &pprof.events) {
            (Some(lease), _) if kind != Kind::Threads => lease.profiler.settle(),
            (None, Some(events)) if kind == Kind::Cpu => events.settle(),
            _ => {}
        }
        let source = match (profile, length) {
            (Some(profile), Some(_)) => {
                Source::Window(Box::new(profile.window()), profile.tables())
            }
            (Some(profile), None) => Source::Window(Box::new(profile.total()), profile.tables()),
            (None, _) => Source::Threads,
        };
        let begun = Instant::now();
        Ok(Collection {
            kind,
            parameters,
            ready_at: length.map(|length| begun + length),
            begun,
            source,
            lease,
            pprof: pprof.clone(),
            _place: place,
        })
    }

    /// Writes what was collected into `give`, in chunks of at most 64 KiB, until that wants no more.
    pub(super) fn render(mut self: Box<Self>, give: &mut dyn FnMut(&[u8]) -> bool) {
        if self.parameters.debug != Debug::Off {
            let mut profile = Vec::new();
            // The largest stacks come first: nothing can be handed on before all is known.
            self.write(&mut |chunk| {
                profile.extend_from_slice(chunk);
                true
            });
            return text::write(&profile, self.kind, self.parameters.debug, give);
        }
        match self.pprof.gzip_level {
            0 => self.write(give),
            level => {
                let shared = self.pprof.shared.clone();
                shared.gzips.pack(level, give, |give| self.write(give));
            }
        }
    }

    /// Writes the format of pprof, until no more is wanted: names that nobody waits for are not looked for.
    fn write(&mut self, give: &mut dyn FnMut(&[u8]) -> bool) {
        let fold = |(), chunk: &[u8]| if give(chunk) { Ok(()) } else { Err(()) };
        let profiler = self.lease.as_ref().map(|lease| &lease.profiler);
        match (&self.source, profiler, &self.pprof.events) {
            (Source::Threads, ..) => {}
            (_, Some(profiler), _) => profiler.settle(),
            (_, None, Some(events)) if self.kind == Kind::Cpu => events.settle(),
            (Source::Window(_, tables), None, _) => tables.follow_modules(),
        }
        // Settling may have had to wait, and what came meanwhile is in.
        let elapsed = self.begun.elapsed();
        #[cfg(feature = "symbols")]
        let mut resolver = Resolver::of_process();
        #[cfg(feature = "symbols")]
        let symbolizer = Some(&mut resolver as &mut dyn Symbolize);
        #[cfg(not(feature = "symbols"))]
        let symbolizer: Option<&mut dyn Symbolize> = None;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let is_span = self.ready_at.is_some();
        let options = WriteOptions {
            time_nanos: nanoseconds(if is_span { now.saturating_sub(elapsed) } else { now }),
            duration_nanos: if is_span { nanoseconds(elapsed) } else { 0 },
            symbolizer: symbolizer.filter(|_| self.parameters.symbolize),
            ..WriteOptions::default()
        };
        match &mut self.source {
            Source::Window(window, _) => {
                let (default, keep): (_, fn(&[i64]) -> bool) = match self.kind {
                    Kind::Cpu if profiler.is_none() => (None, |_| true),
                    Kind::Cpu => (Some(2), |values| values[2] > 0),
                    Kind::Wall => (Some(1), |_| true),
                    Kind::Allocs => (Some(1), |_| true),
                    Kind::Heap | Kind::Threads => (None, |_| true),
                };
                // Who wants no more is told nothing.
                let _ = window.try_write(WriteOptions { default, keep, ..options }, (), fold);
            }
            Source::Threads => {
                let Some(profiler) = profiler else { return };
                let profile = threads(profiler);
                let _ = profile.total().try_write(options, (), fold);
            }
        }
    }
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// What every thread is doing now.
fn threads(profiler: &Profiler) -> Profile {
    let threads = profiler.threads();
    let profile = Profile::new(profiler.tables(), &THREADS, 0, THREADS[0], 1);
    for thread in &threads {
        let mut recording = profile.lock();
        let labels = recording.labels(&[
            Label { key: "thread id", value: LabelValue::Number(i64::from(thread.tid.0)) },
            Label { key: "thread name", value: LabelValue::Text(&thread.name) },
            Label { key: "state", value: LabelValue::Text(state(thread.state)) },
        ]);
        recording.record(stack(thread), labels, LabelsId::default(), &[1]);
    }
    profile
}

fn stack(thread: &ThreadStack) -> Stack<'_> {
    if thread.addresses.is_empty() {
        let why = if thread.is_blocked { &[SIGNALS_BLOCKED] } else { &[NOT_SAMPLED_YET] };
        return Stack { addresses: why, end: End::Root };
    }
    Stack { addresses: &thread.addresses, end: thread.end }
}

/// A thread's state in a word.
fn state(letter: char) -> &'static str {
    match letter {
        'R' => "running",
        'S' => "waiting",
        'D' => "waiting for a device",
        'T' | 't' => "stopped",
        'Z' | 'X' => "ended",
        _ => "unknown",
    }
}

/// The names of addresses in this process, the outermost function at each.
#[cfg(feature = "symbols")]
pub(super) fn names_of(addresses: &[u64], give: &mut dyn FnMut(u64, &str)) {
    let mappings: Vec<_> = unwind::modules().into_iter().map(Mapping::from).collect();
    let mut resolver = Resolver::of_process();
    resolver.prepare(addresses, &mappings);
    for &address in addresses {
        let holds = |mapping: &&Mapping| (mapping.start..mapping.limit).contains(&address);
        let mut name = String::new();
        resolver.symbolize(address, mappings.iter().find(holds), &mut |symbol| {
            symbol.name.clone_into(&mut name);
        });
        if !name.is_empty() {
            give(address, &name);
        }
    }
}

/// Nobody knows names here.
#[cfg(not(feature = "symbols"))]
pub(super) fn names_of(_: &[u64], _: &mut dyn FnMut(u64, &str)) {}
