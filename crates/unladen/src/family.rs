//! One name and its series, each with an instrument and its labels in the form in which they are
//! written.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use parking_lot::RwLock;
use wire::exposition::writer::StoredLabels;

use crate::collector::FamilyWriter;
use crate::instrument::Instrument;
use crate::registry::Described;

/// Series written between two looks at the table: while the sink has a chunk no lock is held.
const BATCH: usize = 32;

/// What stands for every set of label values that came after the limit was reached: the label that
/// OpenTelemetry gives this series.
pub(crate) const OVERFLOW: (&str, &str) = ("otel_metric_overflow", "true");

/// A family of `N` labels. Cloning gives another reference to the same family.
pub struct Family<I: Instrument, const N: usize>(Arc<Inner<I, N>>);

impl<I: Instrument, const N: usize> Clone for Family<I, N> {
    fn clone(&self) -> Self {
        Family(self.0.clone())
    }
}

impl<I: Instrument, const N: usize> fmt::Debug for Family<I, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family")
            .field("described", &self.0.described)
            .field("series", &self.len())
            .finish()
    }
}

struct Inner<I: Instrument, const N: usize> {
    described: Described,
    labels: [String; N],
    shape: I::Shape,
    hasher: RandomState,
    table: RwLock<Table<I, N>>,
}

struct Table<I, const N: usize> {
    /// In the order of arrival. A removed series leaves a hole for the next one, so that a scrape
    /// that is half through neither misses a series nor writes one twice.
    slots: Vec<Option<Arc<Series<I, N>>>>,
    holes: Vec<usize>,
    by_values: HashTable<usize>,
    overflow: Option<Arc<Series<I, N>>>,
}

struct Series<I, const N: usize> {
    values: [Box<str>; N],
    labels: StoredLabels,
    instrument: I,
}

impl<I: Instrument, const N: usize> Family<I, N> {
    pub(crate) fn new(described: Described, labels: [&str; N], shape: I::Shape) -> Self {
        let table = Table {
            slots: Vec::new(),
            holes: Vec::new(),
            by_values: HashTable::new(),
            overflow: None,
        };
        let family = Family(Arc::new(Inner {
            described,
            labels: labels.map(str::to_owned),
            shape,
            hasher: RandomState::default(),
            table: RwLock::new(table),
        }));
        if N == 0 {
            // Nothing has to be told apart, so the series is there from the start, at zero.
            family.with([""; N]);
        }
        family
    }

    /// The handle of the series with these values, in the order in which the labels were declared. Keep
    /// it: finding a known one hashes and takes a lock, a new one is *growth*.
    ///
    /// At the family's limit every further set shares one series, `{otel_metric_overflow="true"}`.
    pub fn with(&self, values: [&str; N]) -> I {
        let hash = self.hash(&values);
        if let Some(slot) = self.0.table.read().find(hash, &values) {
            return slot.instrument.clone();
        }
        let mut table = self.0.table.write();
        if let Some(slot) = table.find(hash, &values) {
            return slot.instrument.clone();
        }
        if table.by_values.len() >= self.0.described.limit {
            return table.overflow(&self.0.shape);
        }
        let labels = StoredLabels::new(self.0.labels.iter().map(String::as_str).zip(values));
        let instrument = I::new(&self.0.shape);
        let series = Series { values: values.map(Box::from), labels, instrument };
        let instrument = series.instrument.clone();
        table.insert(hash, series, |values| self.hash(&values.each_ref().map(|v| &**v)));
        instrument
    }

    /// Takes the series with these values out; says whether there was one. A handle to it goes on
    /// counting unseen, and [`with`](Family::with) begins again at zero.
    pub fn remove(&self, values: [&str; N]) -> bool {
        self.0.table.write().remove(self.hash(&values), &values)
    }

    /// How many series there are, the one for the overflow not counted.
    pub fn len(&self) -> usize {
        self.0.table.read().by_values.len()
    }

    /// Whether there is no series.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn hash(&self, values: &[&str; N]) -> u64 {
        self.0.hasher.hash_one(values)
    }

    /// Writes all series. *Steady.*
    pub(crate) fn write(&self, out: &mut FamilyWriter<'_, '_>) {
        let mut samples = out.family(&self.0.described.family());
        let mut from = 0;
        loop {
            let mut batch = [const { None }; BATCH];
            let overflow = {
                let table = self.0.table.read();
                let slots = table.slots.get(from..).unwrap_or_default();
                for (to, slot) in batch.iter_mut().zip(slots) {
                    to.clone_from(slot);
                }
                (slots.len() <= BATCH).then(|| table.overflow.clone())
            };
            for series in batch.iter().flatten() {
                series.instrument.write(&series.labels, &mut samples);
            }
            if let Some(overflow) = overflow {
                if let Some(series) = overflow {
                    series.instrument.write(&series.labels, &mut samples);
                }
                return;
            }
            from += BATCH;
        }
    }
}

impl<I: Instrument, const N: usize> Table<I, N> {
    fn series(&self, slot: usize) -> &Arc<Series<I, N>> {
        self.slots[slot].as_ref().expect("the index leads to series only")
    }

    fn find(&self, hash: u64, values: &[&str; N]) -> Option<&Series<I, N>> {
        let is_it = |slot: &usize| is_same(&self.series(*slot).values, values);
        self.by_values.find(hash, is_it).map(|slot| &**self.series(*slot))
    }

    fn insert(&mut self, hash: u64, series: Series<I, N>, rehash: impl Fn(&[Box<str>; N]) -> u64) {
        let series = Some(Arc::new(series));
        let slot = match self.holes.pop() {
            Some(hole) => {
                self.slots[hole] = series;
                hole
            }
            None => {
                self.slots.push(series);
                self.slots.len() - 1
            }
        };
        let slots = &self.slots;
        self.by_values.insert_unique(hash, slot, |slot| {
            slots[*slot].as_ref().map_or(0, |series| rehash(&series.values))
        });
    }

    fn remove(&mut self, hash: u64, values: &[&str; N]) -> bool {
        let slots = &self.slots;
        let is_it = |slot: &usize| {
            slots[*slot].as_ref().is_some_and(|series| is_same(&series.values, values))
        };
        let Ok(entry) = self.by_values.find_entry(hash, is_it) else {
            return false;
        };
        let (slot, _) = entry.remove();
        self.slots[slot] = None;
        self.holes.push(slot);
        true
    }

    fn overflow(&mut self, shape: &I::Shape) -> I {
        let series = self.overflow.get_or_insert_with(|| {
            Arc::new(Series {
                values: [const { String::new() }; N].map(String::into_boxed_str),
                labels: StoredLabels::new([OVERFLOW]),
                instrument: I::new(shape),
            })
        });
        series.instrument.clone()
    }
}

fn is_same<const N: usize>(known: &[Box<str>; N], values: &[&str; N]) -> bool {
    known.iter().zip(values).all(|(known, value)| **known == **value)
}
