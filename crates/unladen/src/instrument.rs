//! The handles: counter, up-down counter, gauge, histogram.
//!
//! A handle holds one series. Its use neither locks, hashes nor allocates, but for the first use by each
//! thread, of an expired series, and of a native histogram by a thread that has no cell of its own yet
//! ([`segment`](crate::segment) tells how several threads keep out of each other's way). Cloning one is
//! two atomic additions. Not to be used in a signal handler: it may have interrupted a use of the same
//! series by the same thread.

#![expect(private_interfaces, reason = "the traits are sealed: nobody outside calls these")]

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use wire::exposition::Kind;

use crate::described::Role;
use crate::error::ErrorKind;
use crate::exemplar::Trace;
use crate::family::OpenFamily;
use crate::native;
use crate::segment::Row;
use crate::shape::{self, Buckets, NATIVE_EXEMPLARS, Shape};

/// What a [`Family`](crate::Family) hands out.
pub trait Instrument: Clone + fmt::Debug + Send + Sync + private::Held + 'static {
    /// What a family of these measures.
    const KIND: Kind;
    /// What it does with what it is told.
    const ROLE: Role;
}

pub(crate) mod private {
    use super::Row;

    /// How a handle is made of a row.
    pub trait Held {
        /// The handle of this row.
        #[doc(hidden)]
        fn new(row: Row) -> Self;
        /// What a series of it holds unless its registration says otherwise.
        #[doc(hidden)]
        fn shape_of(buckets: Option<&super::Buckets>) -> Result<super::Shape, super::ErrorKind>;
    }

    /// What can be counted in.
    pub trait Amount: Copy + Send + Sync + std::fmt::Debug + 'static {
        /// Whether a counter takes it.
        #[doc(hidden)]
        fn is_growth(self) -> bool;
        /// Adds to a word that only this thread writes.
        #[doc(hidden)]
        fn add_owned(self, word: &super::AtomicU64);
        /// Adds to a word that others write.
        #[doc(hidden)]
        fn add_shared(self, word: &super::AtomicU64);
        /// As a word.
        #[doc(hidden)]
        fn bits(self) -> u64;
        /// As an exemplar has it.
        #[doc(hidden)]
        fn as_f64(self) -> f64;
        /// The shape of a cell of it.
        #[doc(hidden)]
        fn shape() -> super::Shape;
        /// From what is read.
        #[doc(hidden)]
        fn from_number(number: super::shape::Number) -> Self;
    }
}

use private::{Amount, Held};

macro_rules! whole {
    ($type:ty, $shape:ident, $is_growth:expr) => {
        impl Amount for $type {
            #[inline]
            fn is_growth(self) -> bool {
                $is_growth(self)
            }
            #[inline]
            fn add_owned(self, word: &AtomicU64) {
                shape::add_owned(word, self as u64);
            }
            #[inline]
            fn add_shared(self, word: &AtomicU64) {
                word.fetch_add(self as u64, Relaxed);
            }
            fn bits(self) -> u64 {
                self as u64
            }
            fn as_f64(self) -> f64 {
                self as f64
            }
            fn shape() -> Shape {
                Shape::$shape
            }
            fn from_number(number: shape::Number) -> Self {
                match number {
                    shape::Number::Unsigned(value) => value as $type,
                    shape::Number::Signed(value) => value as $type,
                    shape::Number::Float(value) => value as $type,
                }
            }
        }
    };
}

whole!(u64, Unsigned, |_| true);
whole!(i64, Signed, |amount| amount >= 0);

impl Amount for f64 {
    #[inline]
    fn is_growth(self) -> bool {
        self >= 0.0 && self.is_finite()
    }
    #[inline]
    fn add_owned(self, word: &AtomicU64) {
        shape::add_float_owned(word, self);
    }
    #[inline]
    fn add_shared(self, word: &AtomicU64) {
        shape::add_float_shared(word, self);
    }
    fn bits(self) -> u64 {
        self.to_bits()
    }
    fn as_f64(self) -> f64 {
        self
    }
    fn shape() -> Shape {
        Shape::Float
    }
    fn from_number(number: shape::Number) -> Self {
        number.as_f64()
    }
}

macro_rules! handle {
    ($name:ident, $kind:ident) => {
        impl<T: Amount> Instrument for $name<T> {
            const KIND: Kind = Kind::$kind;
            const ROLE: Role = Role::$name;
        }

        impl<T: Amount> Held for $name<T> {
            fn new(row: Row) -> Self {
                $name(row, PhantomData)
            }
            fn shape_of(_: Option<&Buckets>) -> Result<Shape, ErrorKind> {
                Ok(T::shape())
            }
        }

        impl<T: Amount> Clone for $name<T> {
            fn clone(&self) -> Self {
                $name(self.0.clone(), PhantomData)
            }
        }

        impl<T: Amount> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.value()).finish()
            }
        }

        impl<T: Amount> $name<T> {
            /// What it is now; of a handle that waits for room in its family, nothing.
            pub fn value(&self) -> T {
                T::from_number(value(&self.0))
            }
        }
    };
}

fn value(row: &Row) -> shape::Number {
    let row = row.settled();
    if row.is_waiting() {
        return shape::Number::Unsigned(0);
    }
    shape::number(row.segment(), row.index())
}

/// Something that only grows, in whole steps (`u64`) or not (`f64`).
pub struct Counter<T: Amount = u64>(Row, PhantomData<T>);
handle!(Counter, Counter);

impl<T: Amount> Counter<T> {
    /// So much more. What is negative, infinite or no number is left out: a counter does not fall.
    /// *Steady.*
    #[inline]
    pub fn add(&self, amount: T) {
        add_growth(&self.0, amount);
    }

    /// So much more, for which `trace` is an example. *Steady* after the series' first example.
    pub fn add_traced(&self, amount: T, trace: &Trace) {
        self.add(amount);
        if amount.is_growth() {
            keep_exemplar(&self.0, 0, amount.as_f64(), trace);
        }
    }
}

impl Counter<u64> {
    /// One more. *Steady.*
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }
}

#[inline]
pub(crate) fn add_growth<T: Amount>(row: &Row, amount: T) {
    if amount.is_growth() {
        add(row, amount);
    }
}

#[inline]
pub(crate) fn add<T: Amount>(row: &Row, amount: T) {
    row.update(|cell| amount.add_owned(&cell[0]), |cell| amount.add_shared(&cell[0]));
}

/// A sum of what came and went, `i64` or `f64`: requests in flight, bytes in use. Unlike a [`Gauge`] it
/// is never set, and several threads add to it side by side.
pub struct UpDownCounter<T: Amount = i64>(Row, PhantomData<T>);
handle!(UpDownCounter, Gauge);

impl<T: Amount> UpDownCounter<T> {
    /// So much more, or less. *Steady.*
    #[inline]
    pub fn add(&self, amount: T) {
        add(&self.0, amount);
    }
}

impl UpDownCounter<i64> {
    /// One more. *Steady.*
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// One less. *Steady.*
    #[inline]
    pub fn decrement(&self) {
        self.add(-1);
    }
}

/// Something that goes up and down, as a number with a fraction (`f64`) or a whole one (`i64`).
pub struct Gauge<T: Amount = f64>(Row, PhantomData<T>);
handle!(Gauge, Gauge);

impl<T: Amount> Gauge<T> {
    /// It is `value` now. *Steady.*
    #[inline]
    pub fn set(&self, value: T) {
        set(&self.0, value);
    }

    /// It is `amount` more, or less. *Steady.*
    #[inline]
    pub fn add(&self, amount: T) {
        add_to_gauge(&self.0, amount);
    }
}

#[inline]
pub(crate) fn add_to_gauge<T: Amount>(row: &Row, amount: T) {
    row.update_single(|cell| amount.add_shared(&cell[0]));
}

#[inline]
pub(crate) fn set<T: Amount>(row: &Row, value: T) {
    row.update_single(|cell| cell[0].store(value.bits(), Relaxed));
}

/// The same for both types, whose one is written differently.
macro_rules! steps {
    ($type:ty, $one:expr) => {
        impl Gauge<$type> {
            /// One more. *Steady.*
            #[inline]
            pub fn increment(&self) {
                self.add($one);
            }

            /// One less. *Steady.*
            #[inline]
            pub fn decrement(&self) {
                self.add(-$one);
            }
        }
    };
}
steps!(f64, 1.0);
steps!(i64, 1);

/// How values are distributed, by buckets with explicit bounds or native ones, as the family says.
#[derive(Clone)]
pub struct Histogram(Row);

impl Instrument for Histogram {
    const KIND: Kind = Kind::Histogram;
    const ROLE: Role = Role::Histogram;
}

impl Held for Histogram {
    fn new(row: Row) -> Self {
        Histogram(row)
    }
    fn shape_of(buckets: Option<&Buckets>) -> Result<Shape, ErrorKind> {
        buckets.map_or_else(|| Ok(Shape::Explicit(DEFAULT_BOUNDS.into())), Buckets::shape)
    }
}

/// The bounds that OpenTelemetry's SDKs give a histogram whose instrument says nothing.
pub(crate) const DEFAULT_BOUNDS: [f64; 15] = [
    0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0, 5000.0, 7500.0,
    10000.0,
];

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram").finish_non_exhaustive()
    }
}

impl Histogram {
    /// A value was seen. One that is no number counts as above all bounds, and makes the sum none.
    /// *Steady.*
    #[inline]
    pub fn record(&self, value: f64) {
        record(&self.0, value);
    }

    /// How many values were seen. Adds buckets up.
    pub fn count(&self) -> u64 {
        self.total().0
    }

    /// The sum of all values.
    pub fn sum(&self) -> f64 {
        self.total().1
    }

    fn total(&self) -> (u64, f64) {
        let row = self.0.settled();
        let segment = row.segment();
        match &segment.shape {
            _ if row.is_waiting() => (0, 0.0),
            Shape::Native(layout) => {
                let (mut total, mut cell) = (native::Snapshot::new(), native::Snapshot::new());
                shape::native(segment, row.index(), layout, &mut total, &mut cell);
                (total.count(), total.sum())
            }
            shape => {
                let mut totals = vec![0; shape.width()];
                shape::buckets(segment, row.index(), &mut totals);
                let sum = totals.pop().unwrap_or_default();
                (totals.iter().sum(), f64::from_bits(sum))
            }
        }
    }

    /// A value was seen, for which `trace` is an example. *Steady* after the series' first example.
    pub fn record_traced(&self, value: f64, trace: &Trace) {
        self.record(value);
        keep_example(&self.0, value, trace);
    }
}

/// Keeps what was recorded or added as an exemplar, where a series of this shape has it. *Steady* after
/// the series' first example.
pub(crate) fn keep_example(row: &Row, value: f64, trace: &Trace) {
    let place = match &row.segment().shape {
        Shape::Explicit(bounds) => native::bucket(bounds, value),
        // Neighbouring powers of two have different places.
        Shape::Native(_) => (value.abs().to_bits() >> 52) as usize % NATIVE_EXEMPLARS,
        Shape::Unsigned | Shape::Signed | Shape::Float => 0,
    };
    keep_exemplar(row, place, value, trace);
}

#[inline]
pub(crate) fn record(row: &Row, value: f64) {
    match &row.segment().shape {
        Shape::Explicit(bounds) => {
            let bucket = native::bucket(bounds, value);
            let sum = bounds.len() + 1;
            row.update(
                |cell| {
                    shape::add_owned(&cell[bucket], 1);
                    shape::add_float_owned(&cell[sum], value);
                },
                |cell| {
                    cell[bucket].fetch_add(1, Relaxed);
                    shape::add_float_shared(&cell[sum], value);
                },
            );
        }
        Shape::Native(layout) => row.update(
            |cell| native::record(layout, &cell[..layout.width()], value),
            |cell| shape::record_shared(layout, cell, value),
        ),
        Shape::Unsigned | Shape::Signed | Shape::Float => {}
    }
}

fn keep_exemplar(row: &Row, place: usize, value: f64, trace: &Trace) {
    let row = row.settled();
    if !row.is_waiting() {
        let segment = row.segment();
        segment.exemplars(segment.shape.exemplars()).keep(row.index(), place, trace, value);
    }
}

/// Labels around a constant 1: a version, a configuration.
#[derive(Clone, Debug)]
pub struct Info(#[expect(dead_code, reason = "holding the row keeps the series")] Row);

impl Instrument for Info {
    const KIND: Kind = Kind::Info;
    const ROLE: Role = Role::Gauge;
}

impl Held for Info {
    fn new(row: Row) -> Self {
        set(&row, 1u64);
        Info(row)
    }
    fn shape_of(_: Option<&Buckets>) -> Result<Shape, ErrorKind> {
        Ok(Shape::Unsigned)
    }
}

/// One of the states of a state set: on or off.
#[derive(Clone, Debug)]
pub struct State(Row);

impl Instrument for State {
    const KIND: Kind = Kind::StateSet;
    const ROLE: Role = Role::Gauge;
}

impl Held for State {
    fn new(row: Row) -> Self {
        State(row)
    }
    fn shape_of(_: Option<&Buckets>) -> Result<Shape, ErrorKind> {
        Ok(Shape::Unsigned)
    }
}

/// States of which some are on, as OpenMetrics has them: a series for each, with a label that is named
/// as the family.
#[derive(Clone, Debug)]
pub struct StateSet(Arc<[State]>);

impl StateSet {
    /// Turns the state with this place in the family's list on or off. One that is not in the list is
    /// left out. *Steady.*
    pub fn set(&self, state: usize, is_on: bool) {
        if let Some(State(row)) = self.0.get(state) {
            set(row, u64::from(is_on));
        }
    }

    /// Turns the state with this place on and all others off. *Steady.*
    pub fn set_only(&self, state: usize) {
        for at in 0..self.0.len() {
            self.set(at, at == state);
        }
    }
}

/// A family of state sets with `N` labels. Cloning gives another reference to the same family.
#[derive(Clone, Debug)]
pub struct StateSets<const N: usize> {
    family: OpenFamily<State>,
    labels: [String; N],
    name: String,
    states: Arc<[String]>,
}

impl<const N: usize> StateSets<N> {
    pub(crate) fn new(
        family: OpenFamily<State>,
        labels: [&str; N],
        name: &str,
        states: &[&str],
    ) -> Self {
        let states = states.iter().map(|state| (*state).to_owned()).collect();
        StateSets { family, labels: labels.map(str::to_owned), name: name.to_owned(), states }
    }

    /// The states of what these values stand for; all of them are off at first. *Growth.*
    pub fn with(&self, values: [&str; N]) -> StateSet {
        let labels = self.labels.iter().map(String::as_str).zip(values);
        let labels: Vec<(&str, &str)> = labels.collect();
        let state = |state: &String| {
            let mut labels = labels.clone();
            labels.push((&self.name, state));
            self.family.with(&labels)
        };
        StateSet(self.states.iter().map(state).collect())
    }
}
