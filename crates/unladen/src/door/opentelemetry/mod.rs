//! OpenTelemetry's metrics API (crate `opentelemetry` 0.33) in front of a [`Registry`].
//!
//! ```
//! # use unladen::Registry;
//! use opentelemetry::{KeyValue, global};
//!
//! let registry = Registry::new();
//! global::set_meter_provider(registry.meter_provider());
//!
//! let meter = global::meter("http");
//! let duration = meter.f64_histogram("http.server.duration").with_unit("s").build();
//! duration.record(0.02, &[KeyValue::new("http.status", 200)]);
//! # let body = registry.write(Default::default(), String::new(), |body, chunk| {
//! #     body + std::str::from_utf8(chunk).unwrap()
//! # });
//! # assert!(body.contains("http_server_duration_seconds_count{http_status=\"200\""), "{body}");
//! ```
//! All instruments are there, observable ones and bound ones among them. Making one is *setup*; using
//! one is *steady* for attributes that are known, whatever their types, number and order.
//!
//! What the specification leaves to an implementation:
//! - The same instrument asked for again is the same. One that differs only in its description takes the
//!   first one's. One that differs in more has series of its own, and in an exposition a name of its own
//!   (`requests_gauge`); [`Registry::conflicts`] tells.
//! - An instrument with an invalid name records nothing. A unit that is not valid is left out, and
//!   buckets that can't be are the default ones.
//! - What a counter is given that is negative or no number is left out.
//! - Exemplars are those of sampled spans, for counters and histograms.

mod attributes;
mod instrument;
mod trace;

use std::borrow::Cow;
use std::sync::Arc;

use ::opentelemetry::InstrumentationScope;
use ::opentelemetry::metrics::{
    AsyncInstrumentBuilder, Callback, Counter, Gauge, Histogram, HistogramBuilder,
    InstrumentBuilder, InstrumentProvider, Meter, ObservableCounter, ObservableGauge,
    ObservableUpDownCounter, SyncInstrument, UpDownCounter,
};

use super::{settle, takes};
use crate::callbacks;
use crate::described::{Described, Original, Role, Spec};
use crate::error::{Error, ErrorKind};
use crate::instrument::private::Amount;
use crate::registry::Registry;
use crate::resource::Scope;
use crate::shape::{Buckets, Number, Shape};
use crate::table::Core;
use crate::translate::Translation;
use instrument::{
    Adding, AddingSigned, Nothing, Observing, Operation, Recording, Setting, Unbound, kind_of,
};

impl Registry {
    /// The door for OpenTelemetry's metrics API.
    pub fn meter_provider(&self) -> MeterProvider {
        MeterProvider {
            registry: self.clone(),
            settings: Settings {
                translation: Translation::default(),
                has_exemplars: true,
                buckets: Buckets::explicit(crate::instrument::DEFAULT_BOUNDS),
                limit: None,
            },
        }
    }
}

/// Gives meters whose instruments are families of a registry.
#[derive(Clone, Debug)]
pub struct MeterProvider {
    registry: Registry,
    settings: Settings,
}

#[derive(Clone, Debug)]
struct Settings {
    translation: Translation,
    has_exemplars: bool,
    buckets: Buckets,
    limit: Option<usize>,
}

impl MeterProvider {
    /// How names and units come to an exposition; with underscores and suffixes without this. OTLP has
    /// them as they are.
    #[must_use]
    pub fn translation(mut self, translation: Translation) -> Self {
        self.settings.translation = translation;
        self
    }

    /// Whether measurements in sampled spans are kept as exemplars, as the default filter
    /// `trace_based` says; yes without this. Asking for the span costs a few nanoseconds.
    #[must_use]
    pub fn exemplars(mut self, wanted: bool) -> Self {
        self.settings.has_exemplars = wanted;
        self
    }

    /// The buckets of histograms whose instruments advise none; OpenTelemetry's default ones without
    /// this. [`Buckets::native`] is a good choice for readers that know native histograms. Ones that
    /// can't be are the default ones.
    #[must_use]
    pub fn buckets(mut self, buckets: impl Into<Buckets>) -> Self {
        self.settings.buckets = buckets.into();
        self
    }

    /// How many series an instrument has at most; 10,000 without this. A view says it for some.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.settings.limit = Some(limit);
        self
    }
}

impl ::opentelemetry::metrics::MeterProvider for MeterProvider {
    fn meter_with_scope(&self, scope: InstrumentationScope) -> Meter {
        Meter::new(Arc::new(Instruments {
            registry: self.registry.clone(),
            settings: self.settings.clone(),
            scope: Arc::new(scope_of(&scope)),
        }))
    }
}

fn scope_of(scope: &InstrumentationScope) -> Scope {
    let mut made = Scope::new(scope.name());
    if let Some(version) = scope.version() {
        made = made.with_version(version);
    }
    if let Some(schema_url) = scope.schema_url() {
        made = made.with_schema_url(schema_url);
    }
    for pair in scope.attributes() {
        let mut text = String::new();
        attributes::write_value(&pair.value, &mut text);
        made = made.with(pair.key.as_str(), &text);
    }
    made
}

/// The instruments of a scope.
struct Instruments {
    registry: Registry,
    settings: Settings,
    scope: Arc<Scope>,
}

/// The longest name and unit that the specification allows.
const MOST_IN_NAME: usize = 255;
const MOST_IN_UNIT: usize = 63;

fn is_name(name: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-/".contains(&byte);
    name.len() <= MOST_IN_NAME
        && name.bytes().all(is_legal)
        && name.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
}

fn is_unit(unit: &str) -> bool {
    unit.len() <= MOST_IN_UNIT && unit.is_ascii() && !unit.contains(|c: char| c.is_ascii_control())
}

/// What a builder says.
struct Wanted<'w> {
    name: &'w str,
    description: &'w Option<Cow<'static, str>>,
    unit: &'w Option<Cow<'static, str>>,
}

impl Instruments {
    /// What an instrument is in a registry; none if its name is not valid.
    fn described(&self, wanted: &Wanted<'_>, role: Role) -> Option<Described> {
        let Wanted { name, description, unit } = *wanted;
        if !is_name(name) {
            let reason = "is none that OpenTelemetry allows: a letter, then letters, digits and _.-/, \
                          at most 255; the instrument records nothing";
            self.note(name, ErrorKind::Name(reason));
            return None;
        }
        let mut unit = unit.as_deref().unwrap_or_default();
        if !is_unit(unit) {
            self.registry.note_conflict(format!(
                "the unit {unit:?} of {name} is left out: units are at most 63 characters of ASCII"
            ));
            unit = "";
        }
        // Names that differ in case alone are one instrument, by the first one's name.
        let known = self.registry.sources(|sources| {
            let originals = sources.all.iter().filter_map(|source| {
                let described = source.described()?;
                (described.scope == self.scope).then_some(described.original.as_ref()?)
            });
            let mut names = originals.map(|original| &original.name);
            names.find(|known| known.eq_ignore_ascii_case(name)).cloned()
        });
        let original = Original {
            name: known.unwrap_or_else(|| name.to_owned()),
            unit: unit.to_owned(),
            translation: self.settings.translation,
            apart: String::new(),
        };
        let (translated, unit) = original.translated(role);
        let mut spec =
            Spec::new(&translated, description.as_deref().unwrap_or_default()).unit(&unit);
        if let Some(limit) = self.settings.limit {
            spec = spec.limit(limit);
        }
        match Described::new(&spec, kind_of(role), role, &[], &self.scope) {
            Ok(described) => Some(Described {
                original: Some(original),
                is_spelt_legacy: self.settings.translation.is_escaping(),
                ..described
            }),
            Err(error) => {
                self.registry.note_conflict(error.to_string());
                None
            }
        }
    }

    fn note(&self, name: &str, kind: ErrorKind) {
        self.registry.note_conflict(Error::new(name, kind).to_string());
    }

    /// The instrument that does `O` with what it is given.
    fn unbound<T: Amount, O: Operation<T>>(
        &self,
        wanted: &Wanted<'_>,
        shape: &Shape,
    ) -> Arc<dyn SyncInstrument<T> + Send + Sync> {
        let Some(described) = self.described(wanted, O::ROLE) else { return Arc::new(Nothing) };
        let apart = word_of(O::ROLE, shape);
        let core = settle(&self.registry, described.clone(), apart, rename, |described| {
            let name = described.name.clone();
            let core = self.registry.add_family(described, shape.clone(), true)?;
            match takes(&core.shape, shape) {
                true => Ok(core),
                false => Err(Error::new(name, ErrorKind::Taken(core.described.to_string()))),
            }
        });
        // A view that gives several instruments one name leaves no way to tell them apart.
        let core = core
            .unwrap_or_else(|| Core::new(described, shape.clone(), self.registry.shared().clone()));
        Arc::new(Unbound::<O>::new(core, self.settings.has_exemplars))
    }

    fn sync<T: Amount, O: Operation<T>, I>(
        &self,
        builder: &InstrumentBuilder<'_, I>,
    ) -> Arc<dyn SyncInstrument<T> + Send + Sync> {
        let InstrumentBuilder { name, description, unit, .. } = builder;
        self.unbound::<T, O>(&Wanted { name, description, unit }, &T::shape())
    }

    fn histogram<T: Amount>(
        &self,
        builder: HistogramBuilder<'_, Histogram<T>>,
    ) -> Arc<dyn SyncInstrument<T> + Send + Sync> {
        let HistogramBuilder { name, description, unit, boundaries, .. } = builder;
        let advised = boundaries.map_or_else(|| self.settings.buckets.clone(), Buckets::explicit);
        let shape = advised.shape().unwrap_or_else(|kind| {
            self.note(&name, kind);
            Shape::Explicit(crate::instrument::DEFAULT_BOUNDS.into())
        });
        let wanted = Wanted { name: &name, description: &description, unit: &unit };
        self.unbound::<T, Recording>(&wanted, &shape)
    }

    fn observable<T: Amount + Into<Number>, I>(
        &self,
        role: Role,
        builder: AsyncInstrumentBuilder<'_, I, T>,
    ) {
        let AsyncInstrumentBuilder { name, description, unit, callbacks, .. } = builder;
        let wanted = Wanted { name: &name, description: &description, unit: &unit };
        let Some(described) = self.described(&wanted, role) else { return };
        let callback = |callback: Callback<T>| -> callbacks::Callback {
            Arc::new(move |observer| callback(&Observing::new(observer)))
        };
        let observable = settle(&self.registry, described, "observable", rename, |described| {
            self.registry.add_observable(described, None, true)
        });
        if let Some(observable) = observable {
            callbacks.into_iter().map(callback).for_each(|callback| observable.add(callback));
        }
    }
}

/// What tells an instrument from another one of its name.
fn word_of(role: Role, shape: &Shape) -> &'static str {
    match (role, shape) {
        (Role::Counter, Shape::Float) => "float_counter",
        (Role::Counter, _) => "counter",
        (Role::UpDownCounter, Shape::Float) => "float_up_down_counter",
        (Role::UpDownCounter, _) => "up_down_counter",
        (Role::Gauge, Shape::Float) => "float_gauge",
        (Role::Gauge, Shape::Unsigned) => "unsigned_gauge",
        (Role::Gauge, _) => "gauge",
        (Role::Histogram, _) => "histogram",
    }
}

fn rename(described: &mut Described, apart: &str) {
    if let Some(original) = &mut described.original {
        apart.clone_into(&mut original.apart);
        (described.name, described.unit) = original.translated(described.role);
    }
}

macro_rules! instruments {
    ($($name:ident: $handle:ident<$type:ty> => $operation:ty;)*) => {$(
        fn $name(&self, builder: InstrumentBuilder<'_, $handle<$type>>) -> $handle<$type> {
            $handle::new(self.sync::<$type, $operation, _>(&builder))
        }
    )*};
}

macro_rules! observables {
    ($($name:ident: $handle:ident<$type:ty> => $role:ident;)*) => {$(
        fn $name(
            &self,
            builder: AsyncInstrumentBuilder<'_, $handle<$type>, $type>,
        ) -> $handle<$type> {
            self.observable(Role::$role, builder);
            $handle::new()
        }
    )*};
}

impl InstrumentProvider for Instruments {
    instruments! {
        u64_counter: Counter<u64> => Adding;
        f64_counter: Counter<f64> => Adding;
        i64_up_down_counter: UpDownCounter<i64> => AddingSigned;
        f64_up_down_counter: UpDownCounter<f64> => AddingSigned;
        u64_gauge: Gauge<u64> => Setting;
        i64_gauge: Gauge<i64> => Setting;
        f64_gauge: Gauge<f64> => Setting;
    }

    observables! {
        u64_observable_counter: ObservableCounter<u64> => Counter;
        f64_observable_counter: ObservableCounter<f64> => Counter;
        i64_observable_up_down_counter: ObservableUpDownCounter<i64> => UpDownCounter;
        f64_observable_up_down_counter: ObservableUpDownCounter<f64> => UpDownCounter;
        u64_observable_gauge: ObservableGauge<u64> => Gauge;
        i64_observable_gauge: ObservableGauge<i64> => Gauge;
        f64_observable_gauge: ObservableGauge<f64> => Gauge;
    }

    fn f64_histogram(&self, builder: HistogramBuilder<'_, Histogram<f64>>) -> Histogram<f64> {
        Histogram::new(self.histogram(builder))
    }

    fn u64_histogram(&self, builder: HistogramBuilder<'_, Histogram<u64>>) -> Histogram<u64> {
        Histogram::new(self.histogram(builder))
    }
}
