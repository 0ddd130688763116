//! The handles that the facade gets, and where a thread keeps those that it used lately.

use std::sync::Arc;

use ::metrics::{CounterFn, GaugeFn, HistogramFn, Key};
use hashbrown::HashTable;
use parking_lot::Mutex;

use crate::instrument;
use crate::segment::Row;
use crate::shape::{self, Number};

/// One at a time sets a counter to an absolute value: what is added depends on what was there.
static SETTING: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

/// A counter's series.
pub(super) struct CounterHandle {
    row: Row,
    hash: u64,
}

/// A gauge's series.
pub(super) struct GaugeHandle(Row);

/// A histogram's series.
pub(super) struct HistogramHandle(Row);

impl CounterFn for CounterHandle {
    #[inline]
    fn increment(&self, value: u64) {
        instrument::add(&self.row, value);
    }

    /// Raises the counter to `value`; one that is there already stays. Beyond the family's limit there
    /// is no telling what was there, and nothing is done.
    fn absolute(&self, value: u64) {
        let _one_at_a_time = SETTING[self.hash as usize % SETTING.len()].lock();
        // Brings an expired series back, and finds room for one that had none.
        instrument::add(&self.row, 0u64);
        let row = self.row.settled();
        if row.is_waiting() {
            return;
        }
        if let Number::Unsigned(before) = shape::number(row.segment(), row.index()) {
            instrument::add(&self.row, value.saturating_sub(before));
        }
    }
}

impl GaugeFn for GaugeHandle {
    #[inline]
    fn increment(&self, value: f64) {
        instrument::add_to_gauge(&self.0, value);
    }

    #[inline]
    fn decrement(&self, value: f64) {
        instrument::add_to_gauge(&self.0, -value);
    }

    #[inline]
    fn set(&self, value: f64) {
        instrument::set(&self.0, value);
    }
}

impl HistogramFn for HistogramHandle {
    #[inline]
    fn record(&self, value: f64) {
        instrument::record(&self.0, value);
    }
}

/// A handle of any kind.
pub(super) enum AnyHandle {
    Counter(Arc<CounterHandle>),
    Gauge(Arc<GaugeHandle>),
    Histogram(Arc<HistogramHandle>),
}

/// A handle of one kind.
pub(super) trait Handle: Clone {
    fn new(row: Row, hash: u64) -> Self;
    fn of(any: &AnyHandle) -> Option<Self>;
    fn into_any(self) -> AnyHandle;
}

macro_rules! handle {
    ($handle:ident, $kind:ident, |$row:ident, $hash:ident| $new:expr) => {
        impl Handle for Arc<$handle> {
            fn new($row: Row, $hash: u64) -> Self {
                Arc::new($new)
            }

            #[inline]
            fn of(any: &AnyHandle) -> Option<Self> {
                match any {
                    AnyHandle::$kind(handle) => Some(handle.clone()),
                    _ => None,
                }
            }

            fn into_any(self) -> AnyHandle {
                AnyHandle::$kind(self)
            }
        }
    };
}

handle!(CounterHandle, Counter, |row, hash| CounterHandle { row, hash });
handle!(GaugeHandle, Gauge, |row, _hash| GaugeHandle(row));
handle!(HistogramHandle, Histogram, |row, _hash| HistogramHandle(row));

/// A metric that a thread used.
pub(super) struct Known {
    recorder: u64,
    kind: usize,
    key: Key,
    handle: AnyHandle,
}

impl Known {
    pub(super) fn new(recorder: u64, kind: usize, key: Key, handle: AnyHandle) -> Self {
        Known { recorder, kind, key, handle }
    }

    fn mixed(&self) -> u64 {
        mixed(self.recorder, self.kind, self.key.get_hash())
    }
}

/// What a thread used lately: every one has its place, so that none is made again because of another.
pub(super) struct Handles(HashTable<Known>);

/// When there are more, all are forgotten: those in use are back soon.
const MOST: usize = 16_384;

fn mixed(recorder: u64, kind: usize, hash: u64) -> u64 {
    (hash ^ (4 * recorder + kind as u64)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Handles {
    pub(super) const fn new() -> Self {
        Handles(HashTable::new())
    }

    /// *Steady.*
    #[inline]
    pub(super) fn find(&self, recorder: u64, kind: usize, key: &Key) -> Option<&AnyHandle> {
        let is_it =
            |known: &Known| known.recorder == recorder && known.kind == kind && known.key == *key;
        let known = self.0.find(mixed(recorder, kind, key.get_hash()), is_it)?;
        Some(&known.handle)
    }

    /// One that [`find`](Handles::find) did not find.
    pub(super) fn insert(&mut self, known: Known) {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert_unique(known.mixed(), known, Known::mixed);
    }
}
