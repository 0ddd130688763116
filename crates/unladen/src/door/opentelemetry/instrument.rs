//! What OpenTelemetry's instruments do when they are used.

use std::marker::PhantomData;
use std::sync::Arc;

use ::opentelemetry::KeyValue;
use ::opentelemetry::metrics::{AsyncInstrument, BoundSyncInstrument, SyncInstrument};
use parking_lot::Mutex;
use wire::exposition::Kind;

use super::attributes::{Use, read};
use super::trace;
use crate::attributes::Given;
use crate::described::Role;
use crate::instrument;
use crate::instrument::private::Amount;
use crate::observed::OpenObserver;
use crate::segment::Row;
use crate::shape::Number;
use crate::table::Core;

/// What is done with a measurement of `T`.
pub(super) trait Operation<T>: Send + Sync + 'static {
    const ROLE: Role;
    /// Whether an exposition can show exemplars of it.
    const HAS_EXEMPLARS: bool;
    /// Does it.
    fn write(row: &Row, value: T);
}

/// Adds up what is not negative.
pub(super) struct Adding;
/// Adds up.
pub(super) struct AddingSigned;
/// Keeps the last.
pub(super) struct Setting;
/// Counts by buckets.
pub(super) struct Recording;

impl<T: Amount> Operation<T> for Adding {
    const ROLE: Role = Role::Counter;
    const HAS_EXEMPLARS: bool = true;
    #[inline]
    fn write(row: &Row, value: T) {
        instrument::add_growth(row, value);
    }
}

impl<T: Amount> Operation<T> for AddingSigned {
    const ROLE: Role = Role::UpDownCounter;
    const HAS_EXEMPLARS: bool = false;
    #[inline]
    fn write(row: &Row, value: T) {
        instrument::add(row, value);
    }
}

impl<T: Amount> Operation<T> for Setting {
    const ROLE: Role = Role::Gauge;
    const HAS_EXEMPLARS: bool = false;
    #[inline]
    fn write(row: &Row, value: T) {
        instrument::set(row, value);
    }
}

impl<T: Amount> Operation<T> for Recording {
    const ROLE: Role = Role::Histogram;
    const HAS_EXEMPLARS: bool = true;
    #[inline]
    fn write(row: &Row, value: T) {
        instrument::record(row, value.as_f64());
    }
}

pub(super) fn kind_of(role: Role) -> Kind {
    match role {
        Role::Counter => Kind::Counter,
        Role::UpDownCounter | Role::Gauge => Kind::Gauge,
        Role::Histogram => Kind::Histogram,
    }
}

/// An instrument that is used with attributes.
pub(super) struct Unbound<O> {
    core: Arc<Core>,
    has_exemplars: bool,
    operation: PhantomData<O>,
}

impl<O> Unbound<O> {
    pub(super) fn new(core: Arc<Core>, has_exemplars: bool) -> Self {
        Unbound { core, has_exemplars, operation: PhantomData }
    }
}

#[inline]
fn write<T: Amount, O: Operation<T>>(row: &Row, value: T, has_exemplars: bool) {
    O::write(row, value);
    if O::HAS_EXEMPLARS
        && has_exemplars
        && let Some(trace) = trace::current()
    {
        instrument::keep_example(row, value.as_f64(), &trace);
    }
}

struct Measure<'u, T, O> {
    unbound: &'u Unbound<O>,
    value: T,
}

impl<T: Amount, O: Operation<T>> Use for Measure<'_, T, O> {
    type Output = ();
    #[inline]
    fn run<'a>(self, given: impl Given<'a>) {
        let Measure { unbound, value } = self;
        unbound.core.use_series(given, |row| write::<T, O>(row, value, unbound.has_exemplars));
    }
}

struct Bind<'u>(&'u Core);

impl Use for Bind<'_> {
    type Output = Row;
    fn run<'a>(self, given: impl Given<'a>) -> Row {
        self.0.with(given)
    }
}

impl<T: Amount, O: Operation<T>> SyncInstrument<T> for Unbound<O> {
    fn measure(&self, value: T, attributes: &[KeyValue]) {
        read(attributes, Measure { unbound: self, value });
    }

    fn bind(&self, attributes: &[KeyValue]) -> Box<dyn BoundSyncInstrument<T> + Send + Sync> {
        Box::new(Bound::<O> {
            row: read(attributes, Bind(&self.core)),
            has_exemplars: self.has_exemplars,
            operation: PhantomData,
        })
    }
}

/// An instrument whose attributes are fixed.
struct Bound<O> {
    row: Row,
    has_exemplars: bool,
    operation: PhantomData<O>,
}

impl<T: Amount, O: Operation<T>> BoundSyncInstrument<T> for Bound<O> {
    fn measure(&self, value: T) {
        write::<T, O>(&self.row, value, self.has_exemplars);
    }
}

/// An instrument that could not be made.
pub(super) struct Nothing;

impl<T> SyncInstrument<T> for Nothing {
    fn measure(&self, _: T, _: &[KeyValue]) {}

    fn bind(&self, _: &[KeyValue]) -> Box<dyn BoundSyncInstrument<T> + Send + Sync> {
        Box::new(Nothing)
    }
}

impl<T> BoundSyncInstrument<T> for Nothing {
    fn measure(&self, _: T) {}
}

/// What a callback observes into. The lock is nearly always free: only a callback that observes from
/// several threads finds it taken.
pub(super) struct Observing<'o, 'c>(Mutex<&'o mut OpenObserver<'c>>);

impl<'o, 'c> Observing<'o, 'c> {
    pub(super) fn new(observer: &'o mut OpenObserver<'c>) -> Self {
        Observing(Mutex::new(observer))
    }
}

struct Observe<'l, 'c>(&'l mut OpenObserver<'c>, Number);

impl Use for Observe<'_, '_> {
    type Output = ();
    #[inline]
    fn run<'a>(self, given: impl Given<'a>) {
        self.0.observe_given(self.1, given);
    }
}

impl<T: Amount + Into<Number>> AsyncInstrument<T> for Observing<'_, '_> {
    fn observe(&self, value: T, attributes: &[KeyValue]) {
        let mut observer = self.0.lock();
        read(attributes, Observe(&mut observer, value.into()));
    }
}
