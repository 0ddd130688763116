//! The `metrics` facade (crate `metrics` 0.24) in front of a [`Registry`].
//!
//! ```
//! # use unladen::Registry;
//! let registry = Registry::new();
//! unladen::door::metrics::install(&registry)?;
//!
//! metrics::counter!("requests", "code" => "200").increment(1);
//! # let body = registry.write(Default::default(), String::new(), |body, chunk| {
//! #     body + std::str::from_utf8(chunk).unwrap()
//! # });
//! # assert!(body.ends_with("requests{code=\"200\"} 1\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! Names, labels and kinds come out as metrics-exporter-prometheus writes them, but for histograms: they
//! are native ones here unless buckets are given, and never summaries.
//!
//! A macro of the facade looks its metric up each time it runs. Each thread keeps the handles that it
//! used lately, so that this neither locks nor allocates for a metric that is known (*steady*); the first
//! use by a thread is *growth*. A handle that a program keeps works for ever: one whose series expired
//! brings it back where it stood.

mod handle;
mod name;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ::metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, SetRecorderError, SharedString, Unit,
};
use parking_lot::RwLock;
use wire::exposition::Kind;

use super::{settle, takes};
use crate::attributes::{Attribute, Gathered};
use crate::described::{Described, Later, Role, Spec};
use crate::error::{Error, ErrorKind};
use crate::registry::Registry;
use crate::segment::Row;
use crate::shape::{Buckets, Shape};
use crate::table::Core;
use handle::{CounterHandle, GaugeHandle, Handle, Handles, HistogramHandle, Known};
pub use name::Matcher;

/// Installs a recorder for `registry` with the settings of [`Registry::recorder`].
///
/// # Errors
/// A recorder is installed already.
pub fn install(registry: &Registry) -> Result<(), SetRecorderError<Recorder>> {
    registry.recorder().install()
}

impl Registry {
    /// The door for the `metrics` facade.
    pub fn recorder(&self) -> Recorder {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        Recorder {
            id: NEXT_ID.fetch_add(1, Relaxed),
            registry: self.clone(),
            settings: Box::new(Settings {
                has_recommended_names: false,
                buckets: Buckets::native(),
                buckets_by_name: Vec::new(),
                global_labels: Vec::new(),
                idle: None,
                limit: None,
            }),
            families: Box::default(),
        }
    }
}

/// Takes the facade's metrics into a registry.
pub struct Recorder {
    /// Tells recorders apart in the threads' caches.
    id: u64,
    registry: Registry,
    // In boxes, because the facade hands a recorder about by value.
    settings: Box<Settings>,
    families: Box<RwLock<Families>>,
}

struct Settings {
    has_recommended_names: bool,
    buckets: Buckets,
    buckets_by_name: Vec<(Matcher, Buckets)>,
    global_labels: Vec<(String, String)>,
    idle: Option<Duration>,
    limit: Option<usize>,
}

#[derive(Default)]
struct Families {
    /// By the names that the program gives: counters, gauges, histograms.
    by_name: [HashMap<String, Arc<Core>>; 3],
    /// By the names of the exposition.
    descriptions: HashMap<String, (SharedString, Option<Unit>)>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Recorder {
    /// Installs the recorder for the whole process.
    ///
    /// # Errors
    /// There is one already; this one comes back in the error.
    pub fn install(self) -> Result<(), SetRecorderError<Recorder>> {
        ::metrics::set_global_recorder(self)
    }

    /// Counters' names end in `_total` and all names in the unit, as metrics-exporter-prometheus'
    /// `with_recommended_naming` does it; no without this. A unit has to be described before the metric
    /// is used for the first time.
    #[must_use]
    pub fn recommended_names(mut self, wanted: bool) -> Self {
        self.settings.has_recommended_names = wanted;
        self
    }

    /// The buckets of histograms that [`buckets_of`](Recorder::buckets_of) says nothing about; native
    /// ones without this. Ones that can't be are native ones.
    #[must_use]
    pub fn buckets(mut self, buckets: impl Into<Buckets>) -> Self {
        self.settings.buckets = buckets.into();
        self
    }

    /// The buckets of histograms whose name matches. A full name counts more than a beginning, and that
    /// more than an end; of the same the first one.
    #[must_use]
    pub fn buckets_of(mut self, matcher: Matcher, buckets: impl Into<Buckets>) -> Self {
        self.settings.buckets_by_name.push((matcher.sanitized(), buckets.into()));
        self.settings.buckets_by_name.sort_by_key(|(matcher, _)| matcher.rank());
        self
    }

    /// A label of every series, unless a metric has one of the same name.
    #[must_use]
    pub fn global_label(mut self, name: &str, value: &str) -> Self {
        self.settings.global_labels.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Series that were not used for `idle` (and up to a quarter more) go.
    #[must_use]
    pub fn idle_timeout(mut self, idle: Duration) -> Self {
        self.settings.idle = Some(idle);
        self
    }

    /// How many series a metric has at most, 10,000 without this; what comes beyond goes into one.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.settings.limit = Some(limit);
        self
    }

    fn row(&self, kind: Kind, key: &Key) -> Row {
        let core = self.family(kind, key.name());
        let global =
            self.settings.global_labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let labels = global.chain(key.labels().map(|label| (label.key(), label.value())));
        let given = Gathered::new(labels.map(Attribute::from));
        core.with(given.iter())
    }

    /// The family of this name, registered when it is first asked for.
    fn family(&self, kind: Kind, name: &str) -> Arc<Core> {
        let place = place_of(kind);
        if let Some(core) = self.families.read().by_name[place].get(name) {
            return core.clone();
        }
        let mut families = self.families.write();
        if let Some(core) = families.by_name[place].get(name) {
            return core.clone();
        }
        let core = self.register(kind, name, &families.descriptions);
        families.by_name[place].insert(name.to_owned(), core.clone());
        core
    }

    fn register(
        &self,
        kind: Kind,
        name: &str,
        descriptions: &HashMap<String, (SharedString, Option<Unit>)>,
    ) -> Arc<Core> {
        let sanitized = name::sanitized(name);
        let (help, unit) = match descriptions.get(&sanitized) {
            Some((help, unit)) => (help.as_ref(), *unit),
            None => ("", None),
        };
        let is_named = self.settings.has_recommended_names;
        let full = |name: &str| match is_named {
            true => name::recommended(name, unit, kind),
            false => (name.to_owned(), ""),
        };
        let shape = self.shape(kind, &sanitized);
        let (name, in_name) = full(&sanitized);
        let mut spec = Spec::new(&name, help).unit(in_name);
        spec = self.settings.limit.map_or(spec, |limit| spec.limit(limit));
        spec = self.settings.idle.map_or(spec, |idle| spec.expire_after(idle));
        let scope = self.registry.no_scope();
        let described = Described::new(&spec, kind, Role::of(kind), &[], scope).or_else(|error| {
            // An empty name, which the facade does not mind.
            self.registry.note_conflict(error.to_string());
            Described::new(&Spec { name: "_", ..spec }.unit(""), kind, Role::of(kind), &[], scope)
        });
        let mut described = described.expect("the name is legal, and nothing else can be wrong");
        described.is_spelt_legacy = true;
        if let Some(unit) = unit {
            let unit = name::otlp_unit(unit).to_owned();
            described.later = Later { help: String::new(), unit }.into();
        }
        let rename = |described: &mut Described, apart: &str| {
            let (name, unit) = full(&format!("{sanitized}_{apart}"));
            (described.name, described.unit) = (name, unit.to_owned());
        };
        let word = kind.name();
        let core = settle(&self.registry, described.clone(), word, rename, |described| {
            let name = described.name.clone();
            let core = self.registry.add_family(described, shape.clone(), true)?;
            match takes(&core.shape, &shape) {
                true => Ok(core),
                false => Err(Error::new(name, ErrorKind::Taken(core.described.to_string()))),
            }
        });
        // A view that gives several metrics one name leaves no way to tell them apart.
        core.unwrap_or_else(|| Core::new(described, shape, self.registry.shared().clone()))
    }

    fn shape(&self, kind: Kind, name: &str) -> Shape {
        match kind {
            Kind::Counter => return Shape::Unsigned,
            Kind::Histogram => {}
            _ => return Shape::Float,
        }
        let mut by_name = self.settings.buckets_by_name.iter();
        let buckets = by_name.find(|(matcher, _)| matcher.matches(name));
        let buckets = buckets.map_or(&self.settings.buckets, |(_, buckets)| buckets);
        buckets.shape().unwrap_or_else(|kind| {
            self.registry.note_conflict(Error::new(name, kind).to_string());
            let native = Buckets::native().shape();
            native.unwrap_or_else(|_| Shape::Explicit(crate::instrument::DEFAULT_BOUNDS.into()))
        })
    }

    fn describe(&self, name: &KeyName, unit: Option<Unit>, help: SharedString) {
        let sanitized = name::sanitized(name.as_str());
        let mut families = self.families.write();
        if families.descriptions.contains_key(&sanitized) {
            return;
        }
        let later = Later {
            help: help.as_ref().to_owned(),
            unit: unit.map(name::otlp_unit).unwrap_or_default().to_owned(),
        };
        for (name, core) in families.by_name.iter().flatten() {
            if name::sanitized(name) == sanitized {
                // The first description counts, as it does everywhere else.
                let _ = core.described.later.set(later.clone());
            }
        }
        families.descriptions.insert(sanitized, (help, unit));
    }
}

fn place_of(kind: Kind) -> usize {
    match kind {
        Kind::Counter => 0,
        Kind::Histogram => 2,
        _ => 1,
    }
}

thread_local! {
    static HANDLES: RefCell<Handles> = const { RefCell::new(Handles::new()) };
}

/// The handle of `key` that this thread used lately, or a new one.
#[inline]
fn handle<H: Handle>(recorder: &Recorder, kind: Kind, key: &Key) -> H {
    let find = |handles: &RefCell<Handles>| {
        H::of(handles.try_borrow().ok()?.find(recorder.id, place_of(kind), key)?)
    };
    // A thread that is ending has no cache any more.
    match HANDLES.try_with(find) {
        Ok(Some(known)) => known,
        _ => new_handle(recorder, kind, key),
    }
}

#[cold]
fn new_handle<H: Handle>(recorder: &Recorder, kind: Kind, key: &Key) -> H {
    let new = H::new(recorder.row(kind, key), key.get_hash());
    let known = Known::new(recorder.id, place_of(kind), key.to_retained(), new.clone().into_any());
    let _ = HANDLES.try_with(|handles| {
        if let Ok(mut handles) = handles.try_borrow_mut() {
            handles.insert(known);
        }
    });
    new
}

impl ::metrics::Recorder for Recorder {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&key, unit, description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&key, unit, description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&key, unit, description);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(handle::<Arc<CounterHandle>>(self, Kind::Counter, key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(handle::<Arc<GaugeHandle>>(self, Kind::Gauge, key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(handle::<Arc<HistogramHandle>>(self, Kind::Histogram, key))
    }
}
