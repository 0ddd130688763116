//! What a reader collected, as columns: keys that stay from one collection to the next, and words.

use std::sync::Arc;

use crate::attributes::Attributes;
use crate::exemplar::Exemplar;
use crate::observed::NumberType;
use crate::resource::{Resource, Scope};

use super::batch::Batch;
use super::temporality::Temporality;

/// What was collected at one moment; it changes no more, and may outlive reader and registry.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(super) resource: Arc<Resource>,
    /// Those of the families, each once.
    pub(super) scopes: Arc<Vec<Arc<Scope>>>,
    pub(super) times: Times,
    pub(super) families: Vec<Collected>,
}

impl Snapshot {
    /// The same view as that of a leased batch.
    pub fn batch(&self) -> Batch<'_> {
        Batch { snapshot: self }
    }

    /// The bytes on the heap, without those of the sets of attributes. What other snapshots share counts
    /// in each.
    pub fn memory_usage(&self) -> usize {
        let families = self.families.iter().map(|family| {
            family.keys.memory_usage() + family.columns.memory_usage() + size_of::<Meta>()
        });
        families.sum::<usize>() + self.families.capacity() * size_of::<Collected>()
    }
}

/// When was collected, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// When the registry began.
    pub(super) began: u64,
    /// The last collection; 0 in the first.
    pub(super) previous: u64,
    /// This one.
    pub(super) now: u64,
}

impl Times {
    /// A time in tenths of a second since the registry began, which is never after now.
    fn of(&self, tenths: u32) -> u64 {
        (self.began + u64::from(tenths) * 100_000_000).min(self.now)
    }
}

/// What is known of a family from the start.
#[derive(Debug)]
pub(super) struct Meta {
    /// Whether it holds what was said about the family after it was registered.
    pub(super) knows_later: bool,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) unit: String,
    pub(super) scope: usize,
    pub(super) form: Form,
    /// None for what is neither: gauges, summaries.
    pub(super) temporality: Option<Temporality>,
}

/// What the points of a family are.
#[derive(Clone, Debug)]
pub(super) enum Form {
    Gauge,
    Sum {
        is_monotonic: bool,
    },
    /// With the bounds of all points, or none where each point has its own.
    Explicit(Option<Arc<[f64]>>),
    Native,
    Summary,
}

/// A family in a snapshot.
#[derive(Clone, Debug)]
pub(super) struct Collected {
    pub(super) meta: Arc<Meta>,
    pub(super) keys: Arc<Keys>,
    pub(super) columns: Arc<Columns>,
    /// What differences are since, in nanoseconds since 1970, where that is not the last collection.
    pub(super) previous: Option<u64>,
}

/// Whose the points are. Shared by snapshots until it changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    pub(super) sets: Vec<Attributes>,
    /// Beside them: since when each is counted, in tenths of a second since the registry began.
    pub(super) started: Vec<u32>,
}

impl Keys {
    pub(super) fn memory_usage(&self) -> usize {
        self.sets.capacity() * size_of::<Attributes>() + self.started.capacity() * 4
    }
}

/// Points, in words.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) count: usize,
    /// The key of each point; empty where all keys have one, in their order.
    pub(super) places: Vec<u32>,
    /// What the words of numbers are.
    pub(super) number_type: NumberType,
    /// A number, or a record of as many words as the others.
    pub(super) words: Vec<u64>,
    /// Where the record of each point begins, where they differ in length; then one more.
    pub(super) begins: Vec<usize>,
    /// Which point, and an exemplar of it; by rising point.
    pub(super) exemplars: Vec<(u32, Exemplar)>,
    /// Since when and when each point was measured, where a collector says so: 0 for the usual, empty for
    /// the usual everywhere.
    pub(super) own_times: Vec<(u64, u64)>,
}

impl Columns {
    /// No points, with the memory of those before.
    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.places.clear();
        self.words.clear();
        self.begins.clear();
        self.exemplars.clear();
        self.own_times.clear();
    }

    /// An empty one out of `shared`: the same memory unless a snapshot still has it, then as much of its
    /// own.
    pub(super) fn take(shared: &mut Arc<Columns>) -> Columns {
        let Some(columns) = Arc::get_mut(shared) else {
            let before = &**shared;
            let columns = Columns {
                places: Vec::with_capacity(before.places.len()),
                words: Vec::with_capacity(before.words.len()),
                begins: Vec::with_capacity(before.begins.len()),
                own_times: Vec::with_capacity(before.own_times.len()),
                ..Columns::default()
            };
            *shared = Arc::default();
            return columns;
        };
        let mut columns = std::mem::take(columns);
        columns.clear();
        columns
    }

    /// Puts it back; `shared` is as [`take`](Columns::take) left it.
    pub(super) fn give(self, shared: &mut Arc<Columns>) {
        match Arc::get_mut(shared) {
            Some(place) => *place = self,
            None => *shared = Arc::new(self),
        }
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.places.capacity() * 4
            + self.words.capacity() * 8
            + self.begins.capacity() * size_of::<usize>()
            + self.exemplars.capacity() * size_of::<(u32, Exemplar)>()
            + self.own_times.capacity() * 16
    }
}

impl Collected {
    /// The key of a point.
    #[inline]
    fn place(&self, point: usize) -> usize {
        self.columns.places.get(point).map_or(point, |place| *place as usize)
    }

    /// Whose a point is.
    #[inline]
    pub(super) fn attributes(&self, point: usize) -> &Attributes {
        &self.keys.sets[self.place(point)]
    }

    /// Since when and when a point was measured.
    #[inline]
    pub(super) fn interval(&self, point: usize, times: &Times) -> (u64, u64) {
        let started = times.of(self.keys.started[self.place(point)]);
        let start = match self.meta.temporality {
            Some(Temporality::Delta) => started.max(self.previous.unwrap_or(times.previous)),
            _ => started,
        };
        match self.columns.own_times.get(point) {
            None | Some((0, 0)) => (start, times.now),
            Some(&(own_start, 0)) => (own_start.min(times.now), times.now),
            Some(&(0, own_time)) => (start.min(own_time), own_time),
            Some(&own) => own,
        }
    }

    /// The words of a point, of which all have `width` unless they differ.
    #[inline]
    pub(super) fn record(&self, point: usize, width: usize) -> &[u64] {
        match (self.columns.begins.get(point), self.columns.begins.get(point + 1)) {
            (Some(&begin), Some(&end)) => &self.columns.words[begin..end],
            _ => &self.columns.words[point * width..][..width],
        }
    }

    /// The exemplars of a point.
    #[inline]
    pub(super) fn exemplars(&self, point: usize) -> &[(u32, Exemplar)] {
        let all = &*self.columns.exemplars;
        if all.is_empty() {
            return all;
        }
        let begin = all.partition_point(|(of, _)| (*of as usize) < point);
        let length = all[begin..].partition_point(|(of, _)| *of as usize == point);
        &all[begin..][..length]
    }
}
