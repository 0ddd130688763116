//! What a program measures: every name once, and all of it on request.

use std::cell::Cell;
use std::convert::Infallible;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use wire::exposition::negotiate::Negotiated;
use wire::exposition::writer::{self, Buffer, LabelsRef, StoredLabels};
use wire::exposition::{Format, Kind};

use crate::attributes::{self, Attribute, Attributes};
use crate::callbacks::{Callback, Callbacks, Observable, Round};
use crate::collector::{Collector, Everything, FamilyWriter, Names, Wanted};
use crate::described::{Described, Role};
use crate::error::{Error, ErrorKind};
use crate::expose::{self, Rows};
use crate::resource::{Resource, Scope};
use crate::scoped::Scoped;
use crate::shape::Shape;
use crate::table::{Core, Shared};
use crate::view::View;

/// Scratch memory kept for the next scrapes; more at once allocate theirs and give it back.
const KEPT_SCRATCH: usize = 4;

/// Something that writes itself into a body. The registry holds these in the order of registration.
#[derive(Clone)]
pub(crate) enum Source {
    /// A family with handles.
    Family(Arc<Core>),
    /// A family with callbacks.
    Observable(Arc<Observable>),
    /// Families from a program's own state.
    Collector(Arc<dyn Collector>),
}

impl Source {
    pub(crate) fn described(&self) -> Option<&Described> {
        match self {
            Source::Family(core) => Some(&core.described),
            Source::Observable(observable) => Some(&observable.described),
            Source::Collector(_) => None,
        }
    }
}

#[derive(Default)]
pub(crate) struct Sources {
    /// Taken as a whole by a collection, which must see the same from its begin to its end.
    pub(crate) all: Arc<Vec<Source>>,
    pub(crate) observables: Arc<Vec<Arc<Observable>>>,
    /// Families that a view drops, so that their names are known.
    dropped: Vec<Source>,
}

/// Where a family goes.
enum Place {
    Known(Source),
    New(usize),
}

#[cold]
fn taken(described: &Described, by: &Source) -> Error {
    let by = by.described().map(ToString::to_string).unwrap_or_default();
    Error::new(described.to_string(), ErrorKind::Taken(by))
}

impl Sources {
    /// Behind the families of its name in other scopes, which make one family of a body.
    fn place(&self, described: &Described, known: bool) -> Result<Place, Error> {
        let mut at = self.all.len();
        for (index, source) in self.all.iter().chain(&self.dropped).enumerate() {
            let Some(other) = source.described() else { continue };
            if known && other.is_same(described) {
                return Ok(Place::Known(source.clone()));
            }
            if let Some(clash) = described.clash(other) {
                return Err(Error::new(described.to_string(), clash));
            }
            if other.name == described.name && index < self.all.len() {
                at = index + 1;
            }
        }
        Ok(Place::New(at))
    }

    fn insert(&mut self, at: usize, source: Source) {
        if source.described().is_some_and(|described| described.is_dropped) {
            self.dropped.push(source);
        } else {
            Arc::make_mut(&mut self.all).insert(at, source);
        }
    }
}

/// Holds what is registered. Cloning gives another reference to the same registry.
#[derive(Clone)]
pub struct Registry(Arc<Inner>);

struct Inner {
    sources: RwLock<Sources>,
    shared: Arc<Shared>,
    callbacks: Callbacks,
    views: Vec<View>,
    resource: Resource,
    target_info: StoredLabels,
    has_created_lines: bool,
    no_scope: Arc<Scope>,
    scratch: Mutex<Vec<Scratch>>,
    refused: AtomicU64,
    collectors_panicked: AtomicU64,
    conflicts: Mutex<Conflicts>,
    expiry_due: AtomicU32,
}

/// What was wrong with instruments that a door had to take all the same.
#[derive(Default)]
struct Conflicts {
    count: u64,
    texts: Vec<String>,
}

/// So many conflicts are remembered; further ones are counted.
const MOST_CONFLICTS: usize = 64;

/// What one scrape needs while it runs.
#[derive(Default)]
struct Scratch {
    buffer: Buffer,
    names: Names,
    rows: expose::Scratch,
    round: Round,
}

impl Default for Registry {
    fn default() -> Self {
        Registry::new()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources = self.0.sources.read();
        let described = sources.all.iter().filter_map(Source::described).map(ToString::to_string);
        f.debug_list().entries(described).finish()
    }
}

/// What a [`Registry`] begins with.
#[derive(Clone, Debug)]
pub struct Builder {
    resource: Resource,
    views: Vec<View>,
    patience: Duration,
    has_created_lines: bool,
}

impl Builder {
    /// What the program is and where it runs; nothing without this.
    #[must_use]
    pub fn resource(self, resource: Resource) -> Self {
        Builder { resource, ..self }
    }

    /// Changes the instruments that `view` matches, behind the views given before.
    #[must_use]
    pub fn view(mut self, view: View) -> Self {
        self.views.push(view);
        self
    }

    /// How long a callback may take before a collection goes on without it; a second without this.
    #[must_use]
    pub fn callback_patience(self, patience: Duration) -> Self {
        Builder { patience, ..self }
    }

    /// Whether OpenMetrics tells by `_created` lines when counters and histograms began: no without
    /// this, because the lines make a body half as long again. The protobuf exposition and OTLP always
    /// tell.
    #[must_use]
    pub fn created_lines(self, wanted: bool) -> Self {
        Builder { has_created_lines: wanted, ..self }
    }

    /// The registry.
    pub fn build(self) -> Registry {
        Registry(Arc::new(Inner {
            sources: RwLock::default(),
            shared: Arc::default(),
            callbacks: Callbacks::new(self.patience),
            views: self.views,
            target_info: self.resource.labels(),
            resource: self.resource,
            has_created_lines: self.has_created_lines,
            no_scope: Arc::default(),
            scratch: Mutex::default(),
            refused: AtomicU64::new(0),
            collectors_panicked: AtomicU64::new(0),
            conflicts: Mutex::default(),
            expiry_due: AtomicU32::new(0),
        }))
    }
}

impl Registry {
    /// An empty registry without a resource or views.
    pub fn new() -> Self {
        Registry::builder().build()
    }

    /// For a registry with a resource, views, or other settings.
    pub fn builder() -> Builder {
        Builder {
            resource: Resource::new(),
            views: Vec::new(),
            patience: Duration::from_secs(1),
            has_created_lines: false,
        }
    }

    /// What the program is and where it runs.
    pub fn resource(&self) -> &Resource {
        &self.0.resource
    }

    /// Registers instruments under a scope: the part of the program that has them.
    pub fn scope(&self, scope: Scope) -> Scoped {
        Scoped::new(self.clone(), Arc::new(scope))
    }

    pub(crate) fn unscoped(&self) -> Scoped {
        Scoped::new(self.clone(), self.0.no_scope.clone())
    }

    /// Stores attributes, once for all instruments, in whatever order they come. *Growth.*
    pub fn attributes(&self, attributes: &[(&str, &str)]) -> Attributes {
        self.stored(attributes.iter().map(Attribute::from))
    }

    pub(crate) fn stored<'a>(&self, given: impl attributes::Given<'a>) -> Attributes {
        self.0.shared.sets.get(attributes::hash(given.clone()), given)
    }

    /// Registers a family with handles. With `known`, one that is the same in everything is given again.
    pub(crate) fn add_family(
        &self,
        described: Described,
        shape: Shape,
        known: bool,
    ) -> Result<Arc<Core>, Error> {
        let (mut described, shape) = self.seen_through_views(described, shape)?;
        described.is_native = matches!(shape, Shape::Native(_));
        let mut sources = self.0.sources.write();
        match sources.place(&described, known)? {
            Place::Known(Source::Family(core)) => Ok(core),
            Place::Known(other) => Err(taken(&described, &other)),
            Place::New(at) => {
                let core = Core::new(described, shape, self.0.shared.clone());
                sources.insert(at, Source::Family(core.clone()));
                Ok(core)
            }
        }
    }

    /// Registers a family with a callback. With `known`, one that is the same in everything gets the
    /// callback as well.
    pub(crate) fn add_observable(
        &self,
        described: Described,
        callback: Option<Callback>,
        known: bool,
    ) -> Result<Arc<Observable>, Error> {
        let (described, _) = self.seen_through_views(described, Shape::Float)?;
        let mut sources = self.0.sources.write();
        match sources.place(&described, known)? {
            Place::Known(Source::Observable(observable)) => {
                callback.into_iter().for_each(|callback| observable.add(callback));
                Ok(observable)
            }
            Place::Known(other) => Err(taken(&described, &other)),
            Place::New(at) => {
                let index = sources.observables.len();
                let is_dropped = described.is_dropped;
                let observable = Arc::new(Observable::new(
                    described,
                    index,
                    self.0.shared.clock.now(),
                    callback,
                ));
                if !is_dropped {
                    Arc::make_mut(&mut sources.observables).push(observable.clone());
                }
                sources.insert(at, Source::Observable(observable.clone()));
                Ok(observable)
            }
        }
    }

    fn seen_through_views(
        &self,
        described: Described,
        shape: Shape,
    ) -> Result<(Described, Shape), Error> {
        let matches = |view: &&View| view.matches(&described);
        let Some(view) = self.0.views.iter().find(matches) else { return Ok((described, shape)) };
        let shape = match (&view.buckets, described.role) {
            (Some(buckets), Role::Histogram) => {
                buckets.shape().map_err(|kind| Error::new(&described.name, kind))?
            }
            _ => shape,
        };
        Ok((described.seen_through(view)?, shape))
    }

    /// What was wrong with instruments of OpenTelemetry's or the `metrics` facade's, which can't be told
    /// to who registered them: invalid names, and two that would be one family of a body. Each once, in
    /// words; the metric `unladen_instrument_conflicts_total` counts them.
    pub fn conflicts(&self) -> Vec<String> {
        self.0.conflicts.lock().texts.clone()
    }

    /// The help of the family that is the same as `described` in everything else.
    #[allow(dead_code, reason = "for doors, which are features")]
    pub(crate) fn known_help(&self, described: &Described) -> Option<String> {
        let sources = self.0.sources.read();
        let all = sources.all.iter().chain(&sources.dropped).filter_map(Source::described);
        all.filter(|other| {
            let is_of_scope = other.scope == described.scope;
            other.name == described.name
                && (other.kind, other.role) == (described.kind, described.role)
                && other.unit == described.unit
                && (!is_of_scope || other.original == described.original)
        })
        .map(|other| other.help().to_owned())
        .next()
    }

    #[allow(dead_code, reason = "for doors, which are features")]
    pub(crate) fn note_conflict(&self, text: String) {
        let mut conflicts = self.0.conflicts.lock();
        // Beyond the bound nobody can tell whether one was there before: they are not counted either.
        if conflicts.texts.len() < MOST_CONFLICTS && !conflicts.texts.contains(&text) {
            conflicts.count += 1;
            conflicts.texts.push(text);
        }
    }

    /// Has `collector` write its families after those registered so far.
    pub fn collect(&self, collector: impl Collector + 'static) {
        let mut sources = self.0.sources.write();
        Arc::make_mut(&mut sources.all).push(Source::Collector(Arc::new(collector)));
    }

    #[allow(dead_code, reason = "for doors, which are features")]
    pub(crate) fn no_scope(&self) -> &Arc<Scope> {
        &self.0.no_scope
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    pub(crate) fn sources<R>(&self, look: impl FnOnce(&Sources) -> R) -> R {
        look(&self.0.sources.read())
    }

    /// A collector was asked and panicked, or wrote families without a name or under that of another.
    pub(crate) fn tell_of_collector(&self, has_panicked: bool, refused: u64) {
        self.0.collectors_panicked.fetch_add(u64::from(has_panicked), Relaxed);
        self.0.refused.fetch_add(refused, Relaxed);
    }

    /// Asks all callbacks.
    pub(crate) fn observe_all(&self, round: &mut Round) {
        let observables = self.0.sources.read().observables.clone();
        if !observables.is_empty() {
            self.0.callbacks.run(round, &observables, &self.0.shared);
        }
    }

    /// Looks after expiry where it is due.
    pub(crate) fn expire(&self) {
        let now = self.0.shared.clock.now();
        let due = self.0.expiry_due.load(Relaxed);
        if now < due || self.0.expiry_due.compare_exchange(due, now + 1, Relaxed, Relaxed).is_err()
        {
            return;
        }
        let sources = self.0.sources.read();
        for source in &*sources.all {
            if let Source::Family(core) = source {
                core.expire(now);
            }
        }
    }

    /// Writes everything: `fold` takes each chunk of at most 64 KiB with the state so far and gives the
    /// next. *Steady* once as many have written at the same time before.
    pub fn write<S>(
        &self,
        negotiated: Negotiated,
        state: S,
        mut fold: impl FnMut(S, &[u8]) -> S,
    ) -> S {
        let fold = |state, chunk: &[u8]| Ok::<S, Infallible>(fold(state, chunk));
        let Ok(state) = self.write_wanted(negotiated, &Everything, state, fold);
        state
    }

    /// Writes what is wanted. When `fold` fails, nothing more is rendered than fits into one more chunk.
    ///
    /// The first chunk leaves before callbacks are asked and as soon as it is full: it waits for nothing
    /// but the families in it.
    pub(crate) fn write_wanted<S, E>(
        &self,
        negotiated: Negotiated,
        wanted: &dyn Wanted,
        state: S,
        mut fold: impl FnMut(S, &[u8]) -> Result<S, E>,
    ) -> Result<S, E> {
        let mut scratch = self.0.scratch.lock().pop().unwrap_or_default();
        let Scratch { buffer, names, rows, round } = &mut scratch;
        let shared = &self.0.shared;
        let stopped = Cell::new(false);
        let fold = |state: Result<S, E>, chunk: &[u8]| {
            let next = fold(state?, chunk);
            stopped.set(next.is_err());
            next
        };
        let state = writer::fold(buffer, negotiated, Ok(state), fold, |out| {
            out.set_created_lines(self.0.has_created_lines);
            let has_created = match negotiated.format {
                Format::Text => false,
                Format::OpenMetrics => self.0.has_created_lines,
                Format::Protobuf => true,
            };
            let clock = &shared.clock;
            let rows = Rows {
                clock,
                scratch: rows,
                started: clock.begin_collection(),
                has_created,
                has_exemplars: false,
            };
            self.write_sources(rows, round, &mut FamilyWriter::new(out, names, wanted, &stopped));
        });
        // Families that the body has were looked after before they were written.
        self.expire();
        let mut kept = self.0.scratch.lock();
        if kept.len() < KEPT_SCRATCH {
            kept.push(scratch);
        }
        state
    }

    fn write_sources(&self, mut rows: Rows<'_>, round: &mut Round, out: &mut FamilyWriter<'_, '_>) {
        let mut has_asked = false;
        if !self.0.target_info.as_str().is_empty() {
            let labels = self.0.target_info.borrow();
            let family = writer::Family::new("target_info", "Target metadata", Kind::Info);
            out.family(&family).stored(labels, 1u64);
        }
        let mut before: Option<&Source> = None;
        // Registering waits for nobody's sink, and what is registered meanwhile is in the next body.
        let sources = self.0.sources.read().all.clone();
        for source in &*sources {
            if out.is_stopped() {
                return;
            }
            let is_same = |before: &Source| match (before.described(), source.described()) {
                (Some(before), Some(now)) => before.name == now.name,
                _ => false,
            };
            out.set_legacy_names(source.described().is_some_and(|d| d.is_spelt_legacy));
            if let Source::Collector(collector) = source {
                let write = || collector.collect(out);
                if catch_unwind(AssertUnwindSafe(write)).is_err() {
                    self.0.collectors_panicked.fetch_add(1, Relaxed);
                }
            } else if let Some(described) = source.described() {
                let family = described.family();
                let mut samples = if before.is_some_and(is_same) {
                    out.family_of_another_scope(&family)
                } else {
                    out.family(&family)
                };
                match source {
                    Source::Family(_) | Source::Observable(_) if !samples.is_open() => {}
                    Source::Family(core) => {
                        core.expire(rows.started);
                        rows.write(core, &mut samples);
                    }
                    Source::Observable(observable) => {
                        if !has_asked {
                            // Callbacks may take their time; what there is needs not wait for them.
                            samples.writer().flush();
                            self.observe_all(round);
                            has_asked = true;
                        }
                        if let Some(column) = round.column(observable) {
                            expose::write_column(
                                column,
                                rows.clock,
                                rows.has_created,
                                &mut samples,
                            );
                        }
                    }
                    Source::Collector(_) => {}
                }
            }
            before = Some(source);
        }
        self.write_own(out);
    }

    /// What went wrong, once something did.
    fn write_own(&self, out: &mut FamilyWriter<'_, '_>) {
        out.set_legacy_names(false);
        let inner = &*self.0;
        let refused = inner.refused.fetch_add(out.refused(), Relaxed) + out.refused();
        let faults = &inner.callbacks.faults;
        for (name, help, count) in [
            (
                "unladen_families_refused_total",
                "Families that a collector wrote without a name or under the name of another.",
                refused,
            ),
            (
                "unladen_collectors_panicked_total",
                "Collectors that panicked; what they had written until then is in the body.",
                inner.collectors_panicked.load(Relaxed),
            ),
            (
                "unladen_instrument_conflicts_total",
                "Instruments with a bad name, or that would have been one family with another.",
                inner.conflicts.lock().count,
            ),
            (
                "unladen_callbacks_panicked_total",
                "Callbacks of observable families that panicked; their family was left out.",
                faults.panicked.load(Relaxed),
            ),
            (
                "unladen_callbacks_overdue_total",
                "Callbacks of observable families that did not come back in time; their family is left \
                 out until they do.",
                faults.overdue.load(Relaxed),
            ),
            (
                "unladen_delta_series_lost_total",
                "Series that ended and made room before every reader of differences had collected what \
                 they had left.",
                inner.shared.collected.lost(),
            ),
        ] {
            if count > 0 {
                out.counter(name, help).stored(LabelsRef::EMPTY, count);
            }
        }
    }

    /// The bytes on the heap: series, sets of attributes, scratch for scrapes. Walks everything.
    pub fn memory_usage(&self) -> usize {
        let families = self.0.sources.read();
        let families = families.all.iter().map(|source| match source {
            Source::Family(core) => core.memory_usage(),
            Source::Observable(observable) => observable.memory_usage(),
            Source::Collector(_) => 0,
        });
        let scratch = self.0.scratch.lock();
        let scratch = scratch.iter().map(|scratch| writer::CHUNK + scratch.round.memory_usage());
        families.sum::<usize>() + scratch.sum::<usize>() + self.0.shared.sets.memory_usage()
    }

    /// For tests of a program: writes everything and reads it again, and tells each family that came
    /// twice or without a name, each series that came twice, and each line that can't be read.
    pub fn check(&self) -> Vec<String> {
        crate::check::check(|negotiated| {
            self.write(negotiated, Vec::new(), |mut body, chunk| {
                body.extend_from_slice(chunk);
                body
            })
        })
    }
}
