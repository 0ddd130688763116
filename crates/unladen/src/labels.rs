//! Labels as a type: names known when the program is compiled, values of types that fit.
//!
//! ```
//! use unladen::{Registry, labels};
//!
//! labels! {
//!     /// How a request came.
//!     #[derive(Clone, Copy)]
//!     pub enum Method { Get => "GET", Post => "POST" }
//! }
//! labels! {
//!     /// What tells requests apart.
//!     pub struct Request<'r> {
//!         method: Method,
//!         /// Under another name than the field's.
//!         status as "code": u16,
//!         route: &'r str,
//!     }
//! }
//!
//! let registry = Registry::new();
//! let requests = registry.counter_of::<Request>(("requests_total", "Requests served."))?;
//! let ok = requests.with(&Request { method: Method::Get, status: 200, route: "/" });
//! ok.increment();
//! // Or without a handle:
//! requests.add(&Request { method: Method::Post, status: 404, route: "/none" }, 1);
//! # let body = registry.write(Default::default(), String::new(), |body, chunk| {
//! #     body + std::str::from_utf8(chunk).unwrap()
//! # });
//! # assert!(body.ends_with(concat!(
//! #     "requests_total{code=\"200\",method=\"GET\",route=\"/\"} 1\n",
//! #     "requests_total{code=\"404\",method=\"POST\",route=\"/none\"} 1\n",
//! # )));
//! # Ok::<(), unladen::Error>(())
//! ```
//! A value becomes text on the stack, so that a known set of labels costs no allocation.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use crate::attributes::{Attribute, Given};
use crate::described::{Described, Spec};
use crate::error::Error;
use crate::instrument::private::Amount;
use crate::instrument::{self, Counter, Gauge, Histogram, Instrument, UpDownCounter};
use crate::registry::Registry;
use crate::scoped::Scoped;
use crate::segment::Row;
use crate::shape::Buckets;
use crate::table::Core;

/// Room for the digits of a whole number.
#[derive(Default)]
pub struct Digits(itoa::Buffer);

impl fmt::Debug for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digits").finish_non_exhaustive()
    }
}

impl Digits {
    /// A whole number as text.
    #[inline]
    pub fn format(&mut self, number: impl itoa::Integer) -> &str {
        self.0.format(number)
    }
}

/// What can be the value of a label: text, whole numbers, booleans, and enums that [`labels!`] declares.
/// None of an option is an empty value, which to Prometheus is no label.
pub trait LabelValue {
    /// The value as text, in `digits` where it needs room. *Steady.*
    fn text<'v>(&'v self, digits: &'v mut Digits) -> &'v str;
}

macro_rules! texts {
    ($($type:ty),*) => {$(
        impl LabelValue for $type {
            #[inline]
            fn text<'v>(&'v self, _: &'v mut Digits) -> &'v str {
                self
            }
        }
    )*};
}

texts!(str, String, Box<str>, Arc<str>, Rc<str>, Cow<'_, str>);

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl LabelValue for $type {
            #[inline]
            fn text<'v>(&'v self, digits: &'v mut Digits) -> &'v str {
                digits.format(*self)
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

impl LabelValue for bool {
    #[inline]
    fn text<'v>(&'v self, _: &'v mut Digits) -> &'v str {
        if *self { "true" } else { "false" }
    }
}

impl<T: LabelValue + ?Sized> LabelValue for &T {
    #[inline]
    fn text<'v>(&'v self, digits: &'v mut Digits) -> &'v str {
        (**self).text(digits)
    }
}

impl<T: LabelValue> LabelValue for Option<T> {
    #[inline]
    fn text<'v>(&'v self, digits: &'v mut Digits) -> &'v str {
        self.as_ref().map_or("", |value| value.text(digits))
    }
}

/// The labels of a family, as [`labels!`] declares them.
pub trait Labels {
    /// Their names.
    const NAMES: &'static [&'static str];

    /// Has `look` see the values, in the order of the names. *Steady.*
    fn look<R>(&self, look: impl FnOnce(&[&str]) -> R) -> R;
}

/// Declares labels: a struct with a label for each field, or an enum that is the value of one.
///
/// A field is named as its label, unless `as "name"` says another name. Types of fields are
/// [`LabelValue`](crate::labels::LabelValue)s; a struct may have one lifetime. A variant is `Name` or
/// `Name => "text"`. Examples stand in the module [`labels`](crate::labels).
#[macro_export]
macro_rules! labels {
    (
        $(#[$meta:meta])*
        $visible:vis struct $name:ident $(<$lifetime:lifetime>)? {
            $($(#[$field_meta:meta])* $field:ident $(as $label:literal)? : $type:ty),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $visible struct $name $(<$lifetime>)? {
            $($(#[$field_meta])* $visible $field: $type,)*
        }

        impl $(<$lifetime>)? $crate::labels::Labels for $name $(<$lifetime>)? {
            const NAMES: &'static [&'static str] =
                &[$($crate::labels!(@or stringify!($field) $(, $label)?)),*];

            #[inline]
            fn look<R>(&self, look: impl FnOnce(&[&str]) -> R) -> R {
                $(let mut $field = $crate::labels::Digits::default();)*
                look(&[$($crate::labels::LabelValue::text(&self.$field, &mut $field)),*])
            }
        }
    };
    (
        $(#[$meta:meta])*
        $visible:vis enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident $(=> $text:literal)?),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $visible enum $name {
            $($(#[$variant_meta])* $variant,)*
        }

        impl $crate::labels::LabelValue for $name {
            #[inline]
            fn text<'v>(&'v self, _: &'v mut $crate::labels::Digits) -> &'v str {
                match self {
                    $($name::$variant => $crate::labels!(@or stringify!($variant) $(, $text)?),)*
                }
            }
        }
    };
    (@or $default:expr) => { $default };
    (@or $default:expr, $given:literal) => { $given };
}

/// A family whose labels are those of `L`. Cloning gives another reference to the same family.
pub struct TypedFamily<I: Instrument, L> {
    core: Arc<Core>,
    // The family of labels that live for ever takes those that live shorter.
    types: PhantomData<fn() -> (I, L)>,
}

impl<I: Instrument, L> Clone for TypedFamily<I, L> {
    fn clone(&self) -> Self {
        TypedFamily { core: self.core.clone(), types: PhantomData }
    }
}

impl<I: Instrument, L> fmt::Debug for TypedFamily<I, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypedFamily({}, {} series)", self.core.described, self.core.len())
    }
}

fn given<'g, L: Labels>(values: &'g [&'g str]) -> impl Given<'g> {
    L::NAMES.iter().zip(values).map(|(name, value)| Attribute::from((*name, *value)))
}

impl<I: Instrument, L: Labels> TypedFamily<I, L> {
    /// The handle of the series with these labels; keep it. See [`Family::with`](crate::Family::with).
    pub fn with(&self, labels: &L) -> I {
        labels.look(|values| I::new(self.core.with(given::<L>(values))))
    }

    /// Takes the series with these labels out; see [`Family::remove`](crate::Family::remove).
    pub fn remove(&self, labels: &L) -> bool {
        labels.look(|values| self.core.remove(given::<L>(values)))
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
    fn use_series(&self, labels: &L, write: impl Fn(&Row)) {
        labels.look(|values| self.core.use_series(given::<L>(values), write));
    }
}

impl<T: Amount, L: Labels> TypedFamily<Counter<T>, L> {
    /// So much more, without a handle. What is negative or no number is left out. *Steady* for a known
    /// series.
    #[inline]
    pub fn add(&self, labels: &L, amount: T) {
        self.use_series(labels, |row| instrument::add_growth(row, amount));
    }
}

impl<T: Amount, L: Labels> TypedFamily<UpDownCounter<T>, L> {
    /// So much more, or less, without a handle. *Steady* for a known series.
    #[inline]
    pub fn add(&self, labels: &L, amount: T) {
        self.use_series(labels, |row| instrument::add(row, amount));
    }
}

impl<T: Amount, L: Labels> TypedFamily<Gauge<T>, L> {
    /// It is `value` now, without a handle. *Steady* for a known series.
    #[inline]
    pub fn set(&self, labels: &L, value: T) {
        self.use_series(labels, |row| instrument::set(row, value));
    }
}

impl<L: Labels> TypedFamily<Histogram, L> {
    /// A value was seen, without a handle. *Steady* for a known series.
    #[inline]
    pub fn record(&self, labels: &L, value: f64) {
        self.use_series(labels, |row| instrument::record(row, value));
    }
}

impl Scoped {
    fn typed<I: Instrument, L: Labels>(
        &self,
        spec: &Spec<'_>,
        buckets: Option<&Buckets>,
    ) -> Result<TypedFamily<I, L>, Error> {
        let described = Described::new(spec, I::KIND, I::ROLE, L::NAMES, self.scope())?;
        let shape = I::shape_of(buckets).map_err(|kind| Error::new(spec.name, kind))?;
        let core = self.registry().add_family(described, shape, false)?;
        Ok(TypedFamily { core, types: PhantomData })
    }
}

macro_rules! registrations {
    ($($(#[$doc:meta])* $name:ident: $handle:ty;)*) => {
        impl Scoped {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// A bad name or label, or a name that is taken.
            pub fn $name<'a, L: Labels>(
                &self,
                spec: impl Into<Spec<'a>>,
            ) -> Result<TypedFamily<$handle, L>, Error> {
                self.typed(&spec.into(), None)
            }
        )*}

        impl Registry {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// A bad name or label, or a name that is taken.
            pub fn $name<'a, L: Labels>(
                &self,
                spec: impl Into<Spec<'a>>,
            ) -> Result<TypedFamily<$handle, L>, Error> {
                self.unscoped().$name(spec)
            }
        )*}
    };
}

registrations! {
    /// Registers a counter of whole steps with the labels `L`.
    counter_of: Counter<u64>;
    /// Registers a counter of fractions with the labels `L`.
    float_counter_of: Counter<f64>;
    /// Registers an up-down counter of whole steps with the labels `L`.
    up_down_counter_of: UpDownCounter<i64>;
    /// Registers an up-down counter of fractions with the labels `L`.
    float_up_down_counter_of: UpDownCounter<f64>;
    /// Registers a gauge of numbers with a fraction with the labels `L`.
    gauge_of: Gauge<f64>;
    /// Registers a gauge of whole numbers with the labels `L`.
    integer_gauge_of: Gauge<i64>;
}

impl Scoped {
    /// Registers a histogram with the labels `L` and these buckets.
    ///
    /// # Errors
    /// A bad name or label, a name that is taken, buckets that can't be.
    pub fn histogram_of<'a, L: Labels>(
        &self,
        spec: impl Into<Spec<'a>>,
        buckets: impl Into<Buckets>,
    ) -> Result<TypedFamily<Histogram, L>, Error> {
        self.typed(&spec.into(), Some(&buckets.into()))
    }
}

impl Registry {
    /// Registers a histogram with the labels `L` and these buckets.
    ///
    /// # Errors
    /// A bad name or label, a name that is taken, buckets that can't be.
    pub fn histogram_of<'a, L: Labels>(
        &self,
        spec: impl Into<Spec<'a>>,
        buckets: impl Into<Buckets>,
    ) -> Result<TypedFamily<Histogram, L>, Error> {
        self.unscoped().histogram_of(spec, buckets)
    }
}
