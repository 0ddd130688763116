//! Registering: where instruments and observable families come from.

use std::fmt;
use std::sync::Arc;

use wire::exposition::Kind;

use crate::described::{Described, Role, Spec};
use crate::error::{Error, ErrorKind};
use crate::family::{Family, OpenFamily};
use crate::instrument::{Counter, Gauge, Histogram, Info, Instrument, StateSets, UpDownCounter};
use crate::observed::{Observer, OpenObserver};
use crate::registry::Registry;
use crate::resource::Scope;
use crate::shape::{Buckets, Shape};

/// Registers instruments under a scope. Cloning gives another reference to the same.
///
/// All that registers is *setup*. Errors are a bad name, label, unit or bucket, and a name that is
/// taken; those name both sides.
#[derive(Clone)]
pub struct Scoped {
    registry: Registry,
    scope: Arc<Scope>,
}

impl fmt::Debug for Scoped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scoped").field(&self.scope).finish()
    }
}

/// Writes a method of [`Scoped`] for families with declared labels and one for open ones, and the same
/// for [`Registry`].
macro_rules! instruments {
    ($($(#[$doc:meta])* $name:ident, $open:ident: $handle:ty;)*) => {
        impl Scoped {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// A bad name or label, or a name that is taken.
            pub fn $name<'a, const N: usize>(
                &self,
                spec: impl Into<Spec<'a>>,
                labels: [&str; N],
            ) -> Result<Family<$handle, N>, Error> {
                self.family(&spec.into(), labels, None)
            }

            $(#[$doc])*
            ///
            /// Its series may have any attributes.
            ///
            /// # Errors
            /// A bad name, or a name that is taken.
            pub fn $open<'a>(
                &self,
                spec: impl Into<Spec<'a>>,
            ) -> Result<OpenFamily<$handle>, Error> {
                self.open(&spec.into(), None)
            }
        )*}

        impl Registry {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// A bad name or label, or a name that is taken.
            pub fn $name<'a, const N: usize>(
                &self,
                spec: impl Into<Spec<'a>>,
                labels: [&str; N],
            ) -> Result<Family<$handle, N>, Error> {
                self.unscoped().$name(spec, labels)
            }

            $(#[$doc])*
            ///
            /// Its series may have any attributes.
            ///
            /// # Errors
            /// A bad name, or a name that is taken.
            pub fn $open<'a>(
                &self,
                spec: impl Into<Spec<'a>>,
            ) -> Result<OpenFamily<$handle>, Error> {
                self.unscoped().$open(spec)
            }
        )*}
    };
}

instruments! {
    /// Registers a counter of whole steps.
    counter, open_counter: Counter<u64>;
    /// Registers a counter of fractions.
    float_counter, open_float_counter: Counter<f64>;
    /// Registers an up-down counter of whole steps.
    up_down_counter, open_up_down_counter: UpDownCounter<i64>;
    /// Registers an up-down counter of fractions.
    float_up_down_counter, open_float_up_down_counter: UpDownCounter<f64>;
    /// Registers a gauge of numbers with a fraction.
    gauge, open_gauge: Gauge<f64>;
    /// Registers a gauge of whole numbers.
    integer_gauge, open_integer_gauge: Gauge<i64>;
    /// Registers an info: a series stands for what its labels say. The name ends in `_info`.
    info, open_info: Info;
}

impl Registry {
    /// Registers a histogram: see [`Scoped::histogram`].
    ///
    /// # Errors
    /// A bad name or label, a name that is taken, buckets that can't be.
    pub fn histogram<'a, const N: usize>(
        &self,
        spec: impl Into<Spec<'a>>,
        labels: [&str; N],
        buckets: impl Into<Buckets>,
    ) -> Result<Family<Histogram, N>, Error> {
        self.unscoped().histogram(spec, labels, buckets)
    }

    /// Registers a histogram whose series may have any attributes.
    ///
    /// # Errors
    /// A bad name, a name that is taken, buckets that can't be.
    pub fn open_histogram<'a>(
        &self,
        spec: impl Into<Spec<'a>>,
        buckets: impl Into<Buckets>,
    ) -> Result<OpenFamily<Histogram>, Error> {
        self.unscoped().open_histogram(spec, buckets)
    }

    /// Registers state sets: see [`Scoped::state_set`].
    ///
    /// # Errors
    /// A bad name or label, a state that stands twice, or a name that is taken.
    pub fn state_set<'a, const N: usize>(
        &self,
        spec: impl Into<Spec<'a>>,
        labels: [&str; N],
        states: &[&str],
    ) -> Result<StateSets<N>, Error> {
        self.unscoped().state_set(spec, labels, states)
    }

    /// Registers an observable family: see [`Scoped::observe`].
    ///
    /// # Errors
    /// A bad name or label, a name that is taken, a kind that has more than one value.
    pub fn observe<'a, const N: usize>(
        &self,
        spec: impl Into<Spec<'a>>,
        kind: Kind,
        labels: [&str; N],
        observe: impl Fn(&mut Observer<'_, '_, N>) + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.unscoped().observe(spec, kind, labels, observe)
    }

    /// Registers an observable family whose series may have any attributes.
    ///
    /// # Errors
    /// A bad name, a name that is taken, [`Role::Histogram`].
    pub fn observe_open<'a>(
        &self,
        spec: impl Into<Spec<'a>>,
        role: Role,
        observe: impl Fn(&mut OpenObserver<'_>) + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.unscoped().observe_open(spec, role, observe)
    }
}

impl Scoped {
    pub(crate) fn new(registry: Registry, scope: Arc<Scope>) -> Self {
        Scoped { registry, scope }
    }

    /// Registers a histogram with these buckets; a bound `+Inf` is implied.
    ///
    /// # Errors
    /// A bad name or label, a name that is taken, buckets that can't be.
    pub fn histogram<'a, const N: usize>(
        &self,
        spec: impl Into<Spec<'a>>,
        labels: [&str; N],
        buckets: impl Into<Buckets>,
    ) -> Result<Family<Histogram, N>, Error> {
        self.family(&spec.into(), labels, Some(&buckets.into()))
    }

    /// Registers a histogram whose series may have any attributes.
    ///
    /// # Errors
    /// A bad name, a name that is taken, buckets that can't be.
    pub fn open_histogram<'a>(
        &self,
        spec: impl Into<Spec<'a>>,
        buckets: impl Into<Buckets>,
    ) -> Result<OpenFamily<Histogram>, Error> {
        self.open(&spec.into(), Some(&buckets.into()))
    }

    /// Registers sets of these states. The label that tells them apart has the family's name.
    ///
    /// # Errors
    /// A bad name or label, a state that stands twice, or a name that is taken.
    pub fn state_set<'a, const N: usize>(
        &self,
        spec: impl Into<Spec<'a>>,
        labels: [&str; N],
        states: &[&str],
    ) -> Result<StateSets<N>, Error> {
        let spec = spec.into();
        let twice = (1..states.len()).find(|&at| states[..at].contains(&states[at]));
        if let Some(at) = twice {
            let kind = ErrorKind::Label(states[at].to_owned(), "stands twice among the states");
            return Err(Error::new(spec.name, kind));
        }
        let described = Described::new(&spec, Kind::StateSet, Role::Gauge, &labels, &self.scope)?;
        let core = self.registry.add_family(described, Shape::Unsigned, false)?;
        // A view may have given it another name.
        let name = core.described.name.clone();
        Ok(StateSets::new(OpenFamily::new(core), labels, &name, states))
    }

    /// Registers a family whose values are asked for when they are collected: `observe` gives all of
    /// them, and what it does not give is gone. It is called on a thread of the registry's; one that
    /// panics, or does not come back in time, spoils its own family only.
    ///
    /// # Errors
    /// A bad name or label, a name that is taken, a kind that has more than one value.
    pub fn observe<'a, const N: usize>(
        &self,
        spec: impl Into<Spec<'a>>,
        kind: Kind,
        labels: [&str; N],
        observe: impl Fn(&mut Observer<'_, '_, N>) + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let spec = spec.into();
        if matches!(kind, Kind::Histogram | Kind::GaugeHistogram | Kind::Summary) {
            let reason = "belongs to a kind that has several series: write it from a collector";
            return Err(Error::new(spec.name, ErrorKind::Name(reason)));
        }
        let described = Described::new(&spec, kind, Role::of(kind), &labels, &self.scope)?;
        let labels = labels.map(str::to_owned);
        let callback = move |open: &mut OpenObserver<'_>| {
            observe(&mut Observer { labels: &labels, open });
        };
        self.registry.add_observable(described, Some(Arc::new(callback)), false).map(|_| ())
    }

    /// Registers a family whose series may have any attributes and are asked for, as
    /// [`observe`](Scoped::observe) says.
    ///
    /// # Errors
    /// A bad name, a name that is taken, [`Role::Histogram`].
    pub fn observe_open<'a>(
        &self,
        spec: impl Into<Spec<'a>>,
        role: Role,
        observe: impl Fn(&mut OpenObserver<'_>) + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let spec = spec.into();
        let kind = match role {
            Role::Counter => Kind::Counter,
            Role::UpDownCounter | Role::Gauge => Kind::Gauge,
            Role::Histogram => {
                let reason = "is of histograms, which can't be observed";
                return Err(Error::new(spec.name, ErrorKind::Name(reason)));
            }
        };
        let described = Described::new(&spec, kind, role, &[], &self.scope)?;
        self.registry.add_observable(described, Some(Arc::new(observe)), false).map(|_| ())
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn scope(&self) -> &Arc<Scope> {
        &self.scope
    }

    fn family<I: Instrument, const N: usize>(
        &self,
        spec: &Spec<'_>,
        labels: [&str; N],
        buckets: Option<&Buckets>,
    ) -> Result<Family<I, N>, Error> {
        let described = Described::new(spec, I::KIND, I::ROLE, &labels, &self.scope)?;
        let shape = I::shape_of(buckets).map_err(|kind| Error::new(spec.name, kind))?;
        let core = self.registry.add_family(described, shape, false)?;
        Ok(Family::new(core, labels))
    }

    fn open<I: Instrument>(
        &self,
        spec: &Spec<'_>,
        buckets: Option<&Buckets>,
    ) -> Result<OpenFamily<I>, Error> {
        let described = Described::new(spec, I::KIND, I::ROLE, &[], &self.scope)?;
        let shape = I::shape_of(buckets).map_err(|kind| Error::new(spec.name, kind))?;
        Ok(OpenFamily::new(self.registry.add_family(described, shape, false)?))
    }
}
