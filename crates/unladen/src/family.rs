//! One name and its series, as a program holds it: with labels declared beforehand, or with any
//! attributes.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::attributes::{Attribute, Attributes};
use crate::instrument::private::Amount;
use crate::instrument::{self, Counter, Gauge, Histogram, Instrument, UpDownCounter};
use crate::segment::Row;
use crate::table::Core;

/// A family of `N` labels. Cloning gives another reference to the same family.
pub struct Family<I: Instrument, const N: usize> {
    core: Arc<Core>,
    labels: Arc<[String; N]>,
    handles: PhantomData<I>,
}

impl<I: Instrument, const N: usize> Clone for Family<I, N> {
    fn clone(&self) -> Self {
        Family { core: self.core.clone(), labels: self.labels.clone(), handles: PhantomData }
    }
}

impl<I: Instrument, const N: usize> fmt::Debug for Family<I, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Family({}, {} series)", self.core.described, self.core.len())
    }
}

impl<I: Instrument, const N: usize> Family<I, N> {
    pub(crate) fn new(core: Arc<Core>, labels: [&str; N]) -> Self {
        let labels = Arc::new(labels.map(str::to_owned));
        let family = Family { core, labels, handles: PhantomData };
        if N == 0 {
            // Nothing has to be told apart, so the series is there from the start, at zero.
            family.with([""; N]);
        }
        family
    }

    /// The handle of the series with these values, in the order in which the labels were declared. Keep
    /// it: finding a known one hashes and takes a lock, a new one is *growth*.
    ///
    /// At the family's limit, every further set of values shares the series
    /// `{otel_metric_overflow="true"}`; its handle moves to a series of its own as soon as there is room.
    pub fn with(&self, values: [&str; N]) -> I {
        I::new(self.core.with(self.given(values).iter().copied()))
    }

    /// Takes the series with these values out; says whether there was one. A use of a handle brings it
    /// back where it stood. What nobody holds begins again at zero.
    pub fn remove(&self, values: [&str; N]) -> bool {
        self.core.remove(self.given(values).iter().copied())
    }

    /// How many series there are, the one for the overflow not counted.
    pub fn len(&self) -> usize {
        self.core.len()
    }

    /// Whether there is no series.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn given<'g>(&'g self, values: [&'g str; N]) -> [Attribute<'g>; N] {
        let mut given = [Attribute::from(("", "")); N];
        for (given, (name, value)) in given.iter_mut().zip(self.labels.iter().zip(values)) {
            *given = Attribute::from((name.as_str(), value));
        }
        given
    }

    #[inline]
    fn use_series(&self, values: [&str; N], write: impl Fn(&Row)) {
        // Paired as they are read: an attribute stored in parts and read as a whole would wait for its
        // own stores.
        let pairs = self.labels.iter().zip(&values);
        self.core.use_series(pairs.map(|(name, value)| (name.as_str(), *value).into()), write);
    }
}

/// A family whose series may have any attributes, in any order: what OpenTelemetry calls an instrument.
/// Cloning gives another reference to the same family.
pub struct OpenFamily<I: Instrument>(Arc<Core>, PhantomData<I>);

impl<I: Instrument> Clone for OpenFamily<I> {
    fn clone(&self) -> Self {
        OpenFamily(self.0.clone(), PhantomData)
    }
}

impl<I: Instrument> fmt::Debug for OpenFamily<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenFamily({}, {} series)", self.0.described, self.0.len())
    }
}

impl<I: Instrument> OpenFamily<I> {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        OpenFamily(core, PhantomData)
    }

    /// The handle of the series with these attributes, in any order; of a name that stands twice, the
    /// last counts. As [`Family::with`] otherwise.
    pub fn with(&self, attributes: &[(&str, &str)]) -> I {
        I::new(self.0.with(attributes.iter().map(Attribute::from)))
    }

    /// The handle of the series with attributes that are stored already.
    pub fn with_stored(&self, attributes: &Attributes) -> I {
        I::new(self.0.with_stored(attributes))
    }

    /// Takes the series with these attributes out, as [`Family::remove`] does.
    pub fn remove(&self, attributes: &[(&str, &str)]) -> bool {
        self.0.remove(attributes.iter().map(Attribute::from))
    }

    /// How many series there are, the one for the overflow not counted.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no series.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn use_series(&self, attributes: &[(&str, &str)], write: impl Fn(&Row)) {
        self.0.use_series(attributes.iter().map(Attribute::from), write);
    }
}

/// Writes the methods that use a series without a handle, for both kinds of family.
macro_rules! unresolved {
    ($($(#[$doc:meta])* $handle:ty, $name:ident($value:ident: $type:ty) => $write:expr;)*) => {$(
        impl<T: Amount, const N: usize> Family<$handle, N> {
            $(#[$doc])*
            ///
            /// Without a handle: one hash and a look into this thread's cache. *Steady* for a known
            /// series, with no lock for one that this thread used lately.
            #[inline]
            pub fn $name(&self, values: [&str; N], $value: $type) {
                self.use_series(values, |row| $write(row, $value));
            }
        }

        impl<T: Amount> OpenFamily<$handle> {
            $(#[$doc])*
            ///
            /// Without a handle: one hash and a look into this thread's cache, whatever the order of the
            /// attributes. *Steady* for a known series, with no lock for one that this thread used
            /// lately.
            #[inline]
            pub fn $name(&self, $value: $type, attributes: &[(&str, &str)]) {
                self.use_series(attributes, |row| $write(row, $value));
            }
        }
    )*};
}

unresolved! {
    /// So much more. What is negative or no number is left out.
    Counter<T>, add(amount: T) => instrument::add_growth;
    /// So much more, or less.
    UpDownCounter<T>, add(amount: T) => instrument::add;
    /// It is `value` now.
    Gauge<T>, set(value: T) => instrument::set;
}

impl<const N: usize> Family<Histogram, N> {
    /// A value was seen.
    ///
    /// Without a handle: one hash and a look into this thread's cache. *Steady* for a known series, with
    /// no lock for one that this thread used lately.
    #[inline]
    pub fn record(&self, values: [&str; N], value: f64) {
        self.use_series(values, |row| instrument::record(row, value));
    }
}

impl OpenFamily<Histogram> {
    /// A value was seen.
    ///
    /// Without a handle: one hash and a look into this thread's cache, whatever the order of the
    /// attributes. *Steady* for a known series, with no lock for one that this thread used lately.
    #[inline]
    pub fn record(&self, value: f64, attributes: &[(&str, &str)]) {
        self.use_series(attributes, |row| instrument::record(row, value));
    }
}
