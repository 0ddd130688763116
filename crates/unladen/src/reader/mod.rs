//! Readers: what a registry measures, collected as columns.
//!
//! ```text
//! temporality what values count from
//! batch       Batch: what was collected, lent
//! snapshot    Snapshot: what was collected, kept
//! rows        families with handles
//! asked       families whose values are asked for
//! gather      families that collectors write
//! progress    how far delta readers have come
//! ```
//! A [`Reader`] collects when it is asked, in one of two memory modes:
//!
//! - *reusable*: [`collect`](Reader::collect) lends a [`Batch`] for the duration of a closure. The next
//!   collection writes into the same memory, so that it allocates nothing.
//! - *immutable*: [`snapshot`](Reader::snapshot) gives a [`Snapshot`] that changes no more and may outlive
//!   everything. Its values are its own; whose they are is shared between snapshots.
//!
//! ```
//! use unladen::Registry;
//! use unladen::reader::{Points, Reader, Temporalities};
//!
//! let registry = Registry::new();
//! let jobs = registry.counter(("jobs_total", "Jobs done."), ["queue"])?;
//! let mut reader = Reader::new(&registry, Temporalities::DELTA);
//! jobs.with(["mail"]).add(3);
//! let sum = reader.collect(|batch| {
//!     let metric = batch.metrics().next().unwrap();
//!     let Points::Sum { mut points, .. } = metric.points() else { unreachable!() };
//!     points.next().unwrap().value.as_f64()
//! });
//! assert_eq!(sum, 3.0);
//! // Nothing was added since then.
//! assert_eq!(reader.collect(|batch| batch.point_count()), 0);
//! # Ok::<(), unladen::Error>(())
//! ```
//! A batch can't be kept, nor can anything that is lent from it:
//!
//! ```compile_fail
//! let registry = unladen::Registry::new();
//! let mut reader = unladen::reader::Reader::new(&registry, Default::default());
//! let mut kept = None;
//! reader.collect(|batch| kept = Some(*batch));
//! ```
//! Any number of readers and scrapes collect at the same time: each has columns of its own, and all that
//! they share is read under locks that are held for a segment of at most a thousand series.
//!
//! # What is told
//! - Since when: a series with a handle since it began, one that is asked for since the collection before
//!   the one that first had it (in the first, since its family was registered). Differences are since the
//!   reader's last collection, if the series is not younger, or since the last that had the family, where
//!   a callback panicked or did not come back.
//! - A series that is idle for too long or removed is told no more; as differences, what was added until
//!   then is told once. When its attributes come again it is a new series. A sum that is asked for and
//!   fell began again.
//! - A sum that is no number or infinite has no difference: the next one counts from the last that was
//!   finite. Such an observation leaves a histogram with explicit bounds without a sum.
//! - Differences of handles are left out where nothing was added. Levels are always told, and so is
//!   whatever callbacks say.
//! - Exemplars are those since the reader's last collection; one of the very millisecond of a collection
//!   may be in both.
//! - What [collectors](crate::Collector) write is told like what callbacks say. Their histograms and
//!   summaries are always cumulative, their exemplars are left out, and so are gauge histograms, which
//!   OpenTelemetry does not have. All of it is held at the same time, for whoever looks at the batch.

mod asked;
mod batch;
mod gather;
mod progress;
mod rows;
mod snapshot;
mod temporality;

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use wire::exposition::Kind;

use crate::callbacks::{Observable, Round};
use crate::collector::{Collector, FamilyWriter, Names};
use crate::described::{Described, Role};
use crate::registry::{Registry, Source};
use crate::resource::{Resource, Scope};
use crate::shape::Shape;

pub use batch::{
    Batch, Bounds, Exemplars, ExponentialHistogramPoint, ExponentialHistograms, Head,
    HistogramPoint, Histograms, Metric, NumberPoint, Numbers, Points, Quantiles, ScopeMetrics,
    Side, Summaries, SummaryPoint,
};
pub(crate) use gather::Gathered;
pub(crate) use progress::Progress;
pub use snapshot::Snapshot;
pub use temporality::{Temporalities, Temporality};

use asked::Asked;
use progress::Place;
use rows::Rows;
use snapshot::{Form, Meta, Times};

/// What a collection is the end of.
#[derive(Clone, Copy, Default)]
struct Interval {
    /// When the last one began, in milliseconds since 1970.
    previous_ms: i64,
    /// When this one began, in tenths of a second since the registry did. Series that are younger are
    /// left for the next.
    started: u32,
    /// The same in nanoseconds since 1970.
    now: u64,
}

/// Collects everything that a registry measures, when it is asked.
pub struct Reader {
    registry: Registry,
    temporalities: Temporalities,
    /// The registry's sources in the last collection.
    all: Arc<Vec<Source>>,
    /// Beside them: what is known of each.
    sources: Vec<Known>,
    current: Snapshot,
    round: Round,
    scratch: rows::Scratch,
    names: Names,
    /// When it last collected, in milliseconds since 1970.
    last_ms: Option<i64>,
    place: Option<Place>,
}

/// A source of the registry, and what is known of it.
enum Known {
    Rows(Rows),
    Asked(Arc<Observable>, Asked),
    Collector(Arc<dyn Collector>, Gathered),
}

impl Known {
    fn is(&self, source: &Source) -> bool {
        match (self, source) {
            (Known::Rows(rows), Source::Family(core)) => Arc::ptr_eq(&rows.core, core),
            (Known::Asked(known, _), Source::Observable(other)) => Arc::ptr_eq(known, other),
            (Known::Collector(known, _), Source::Collector(other)) => Arc::ptr_eq(known, other),
            _ => false,
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("temporalities", &self.temporalities).finish_non_exhaustive()
    }
}

impl Reader {
    /// A reader of `registry`. *Setup.*
    ///
    /// One that wants differences keeps ended series readable until it has collected: what nobody
    /// collects should be dropped. A family keeps as many as its limit, and a thousand if that is less;
    /// what goes unread beyond that is counted by [`Reader::lost`].
    pub fn new(registry: &Registry, temporalities: Temporalities) -> Self {
        let place = temporalities.has_delta_of_handles().then(|| Place::take(registry.shared()));
        let current = Snapshot {
            resource: Arc::new(registry.resource().clone()),
            scopes: Arc::default(),
            times: Times {
                began: registry.shared().clock.to_ms(0).max(0) as u64 * 1_000_000,
                ..Times::default()
            },
            families: Vec::new(),
        };
        let mut reader = Reader {
            registry: registry.clone(),
            temporalities,
            all: Arc::default(),
            sources: Vec::new(),
            current,
            round: Round::default(),
            scratch: rows::Scratch::default(),
            names: Names::default(),
            last_ms: None,
            place,
        };
        reader.follow();
        for known in &mut reader.sources {
            if let Known::Rows(rows) = known {
                rows.skip_ended(&mut reader.scratch);
            }
        }
        reader
    }

    /// Collects, and lends what was collected. The reader's memory is used again by the next collection.
    /// *Steady* for known series.
    pub fn collect<R>(&mut self, look: impl FnOnce(&Batch<'_>) -> R) -> R {
        self.refresh();
        look(&self.current.batch())
    }

    /// Collects into memory that nobody writes to any more. Allocates for the values of all series,
    /// unless the snapshot before was dropped; for their keys where they changed.
    pub fn snapshot(&mut self) -> Arc<Snapshot> {
        self.refresh();
        let snapshot = Arc::new(self.current.clone());
        self.current.families.clear();
        snapshot
    }

    /// What each role's values count from.
    pub fn temporalities(&self) -> &Temporalities {
        &self.temporalities
    }

    /// How many series of the registry ended and had to make room before every delta reader had
    /// collected what they had left.
    pub fn lost(&self) -> u64 {
        self.registry.shared().collected.lost()
    }

    /// The bytes on the heap, without those of the sets of attributes, which are the registry's. Walks
    /// everything.
    pub fn memory_usage(&self) -> usize {
        let sources = self.sources.iter().map(|known| match known {
            Known::Rows(rows) => rows.memory_usage(),
            Known::Asked(_, asked) => asked.memory_usage(),
            Known::Collector(_, gathered) => gathered.memory_usage(),
        });
        sources.sum::<usize>()
            + self.sources.capacity() * size_of::<Known>()
            + self.round.memory_usage()
    }

    fn refresh(&mut self) {
        // What the last batch lent is the families' own again.
        self.current.families.clear();
        self.registry.expire();
        let started = self.registry.shared().clock.begin_collection();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let times = &mut self.current.times;
        times.previous = if self.last_ms.is_some() { times.now } else { 0 };
        times.now = now_ns.max(times.previous);
        let interval = Interval { previous_ms: self.last_ms.unwrap_or(0), started, now: times.now };
        self.follow();
        // Asked after the sources were taken, so that every one of them is asked.
        self.registry.observe_all(&mut self.round);
        self.names.clear();
        for index in 0..self.sources.len() {
            self.read(index, &interval);
        }
        self.last_ms = Some((now_ns / 1_000_000) as i64);
        if let Some(place) = &self.place {
            place.advance(started);
        }
    }

    /// Reads one source.
    fn read(&mut self, index: usize, interval: &Interval) {
        self.hear_later(index);
        let collected = match &mut self.sources[index] {
            Known::Rows(rows) => {
                self.names.insert(&rows.core.described.name);
                rows.collect(interval, &mut self.scratch)
            }
            Known::Asked(observable, asked) => {
                self.names.insert(&observable.described.name);
                let column = self.round.column(observable);
                column.and_then(|column| asked.collect(column, &[], interval))
            }
            Known::Collector(collector, gathered) => {
                gathered.begin();
                let stopped = Cell::new(false);
                let mut out = FamilyWriter::gathering(gathered, &mut self.names, &stopped);
                let write = || collector.collect(&mut out);
                let has_panicked = catch_unwind(AssertUnwindSafe(write)).is_err();
                self.registry.tell_of_collector(has_panicked, out.refused());
                gathered.finish(has_panicked, interval, &mut self.current.families);
                None
            }
        };
        self.current.families.extend(collected);
    }

    /// Takes the registry's sources as they are now. What is known of one goes with it, wherever it is.
    /// *Growth* for new ones.
    fn follow(&mut self) {
        let all = self.registry.sources(|sources| sources.all.clone());
        if Arc::ptr_eq(&all, &self.all) {
            return;
        }
        let mut before = VecDeque::from(std::mem::take(&mut self.sources));
        self.sources.reserve_exact(all.len());
        for source in &*all {
            // Mostly the first that is left, since all keep their order.
            let known = before.iter().position(|known| known.is(source));
            let known = known.and_then(|at| before.remove(at));
            let known = known.unwrap_or_else(|| self.know(source));
            self.sources.push(known);
        }
        self.all = all;
    }

    /// Takes over what was said about a family after it was registered.
    fn hear_later(&mut self, index: usize) {
        let Some(described) = self.all[index].described() else { return };
        let meta = match &mut self.sources[index] {
            Known::Rows(rows) => &mut rows.meta,
            Known::Asked(_, asked) => &mut asked.meta,
            Known::Collector(..) => return,
        };
        if !meta.knows_later && described.later.get().is_some() {
            *meta = Arc::new(Meta {
                name: meta.name.clone(),
                description: described.help().to_owned(),
                unit: described.otlp_unit().to_owned(),
                form: meta.form.clone(),
                knows_later: true,
                ..**meta
            });
        }
    }

    fn know(&mut self, source: &Source) -> Known {
        match source {
            Source::Family(core) => {
                let meta = self.meta(&core.described, Some(&core.shape));
                Known::Rows(Rows::new(core.clone(), meta))
            }
            Source::Observable(observable) => {
                let meta = self.meta(&observable.described, None);
                Known::Asked(observable.clone(), Asked::new(meta, observable.since))
            }
            Source::Collector(collector) => {
                let scope = self.scope(&Arc::default());
                let gathered = Gathered::new(&self.registry, self.temporalities, scope);
                Known::Collector(collector.clone(), gathered)
            }
        }
    }

    fn meta(&mut self, described: &Described, shape: Option<&Shape>) -> Meta {
        let scope = self.scope(&described.scope);
        let temporality = self.temporalities.of(described.role, shape.is_none());
        Meta::new(described, shape, temporality, scope)
    }

    fn scope(&mut self, scope: &Arc<Scope>) -> usize {
        let scopes = &mut self.current.scopes;
        let known = scopes.iter().position(|known| Arc::ptr_eq(known, scope) || known == scope);
        known.unwrap_or_else(|| {
            Arc::make_mut(scopes).push(scope.clone());
            scopes.len() - 1
        })
    }
}

impl Meta {
    fn new(
        described: &Described,
        shape: Option<&Shape>,
        temporality: Option<Temporality>,
        scope: usize,
    ) -> Self {
        let form = match (described.role, described.kind, shape) {
            (Role::Counter, ..) => Form::Sum { is_monotonic: true },
            (Role::UpDownCounter, ..) => Form::Sum { is_monotonic: false },
            // What OpenTelemetry makes of what only OpenMetrics has.
            (Role::Gauge, Kind::Info | Kind::StateSet, _) => Form::Sum { is_monotonic: false },
            (Role::Gauge, ..) => Form::Gauge,
            (Role::Histogram, _, Some(Shape::Native(_))) => Form::Native,
            (Role::Histogram, _, Some(Shape::Explicit(bounds))) => {
                Form::Explicit(Some(bounds.clone()))
            }
            (Role::Histogram, ..) => Form::Explicit(None),
        };
        let temporality = match (&form, described.role) {
            (Form::Sum { .. }, Role::Gauge) => Some(Temporality::Cumulative),
            _ => temporality,
        };
        Meta {
            name: described.otlp_name().to_owned(),
            description: described.help().to_owned(),
            unit: described.otlp_unit().to_owned(),
            scope,
            form,
            temporality,
            knows_later: described.later.get().is_some(),
        }
    }
}

/// So that a resource need not be imported to be named.
impl Snapshot {
    /// What was measured: the process and where it runs.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }
}
