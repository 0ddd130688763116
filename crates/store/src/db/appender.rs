//! Batches of samples on their way into the head.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Committed, Core, SeriesId};
use crate::head::exemplars::put_label;
use crate::head::shard::Columns;
use crate::{Error, Labels};

/// Takes samples in batches. Not shared: each worker has one and keeps it.
pub struct Appender {
    core: Arc<Core>,
    /// The shard for the series that this appender creates: one of its own, unless it is told otherwise.
    home: usize,
    ids: Vec<SeriesId>,
    timestamps: Vec<i64>,
    values: Vec<f64>,
    exemplars: Vec<PendingExemplar>,
    exemplar_labels: Vec<u8>,
    committed: Committed,
    part: Part,
    part_committed: Committed,
}

/// The samples of one shard of a batch that is of several: a target has moved between workers.
#[derive(Default)]
struct Part {
    ids: Vec<SeriesId>,
    timestamps: Vec<i64>,
    values: Vec<f64>,
    indices: Vec<usize>,
}

struct PendingExemplar {
    id: SeriesId,
    timestamp: i64,
    value: f64,
    /// Where its labels end in `exemplar_labels`; they begin where those before end.
    labels_end: usize,
}

impl Appender {
    pub(super) fn new(core: Arc<Core>, number: usize) -> Self {
        Appender {
            home: number % core.head.shards.len(),
            core,
            ids: Vec::new(),
            timestamps: Vec::new(),
            values: Vec::new(),
            exemplars: Vec::new(),
            exemplar_labels: Vec::new(),
            committed: Committed::default(),
            part: Part::default(),
            part_committed: Committed::default(),
        }
    }

    /// Puts the series that are created from now on into the shard of `id`; without one, into the next
    /// of as many shards as there are processors. The series of a target stay together, whichever appender
    /// takes its scrapes: a batch of one shard is committed as it is. And the targets are spread evenly,
    /// though a worker that is quick enough takes nearly all of them: a start reads a shard with one
    /// processor. Steady.
    pub fn stay_with(&mut self, id: Option<SeriesId>) {
        self.home = match id {
            Some(id) => id.slot().shard(),
            None => self.core.homes.fetch_add(1, Ordering::Relaxed) % self.core.spread,
        };
    }

    /// The series with these labels, created where it doesn't exist. Growth.
    ///
    /// # Errors
    /// The head is full.
    pub fn series(&mut self, labels: &Labels) -> Result<SeriesId, Error> {
        self.core.head.series(labels, self.home)
    }

    /// Adds a sample to the batch. Steady: two columns and an id.
    #[inline]
    pub fn append(&mut self, id: SeriesId, timestamp: i64, value: f64) {
        self.ids.push(id);
        self.timestamps.push(timestamp);
        self.values.push(value);
    }

    /// Adds an exemplar to the batch; it becomes visible with it. One that repeats the last one of
    /// its series, or is older, is passed over. Steady.
    pub fn exemplar<'a>(
        &mut self,
        id: SeriesId,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        value: f64,
        timestamp: i64,
    ) {
        for (name, label) in labels {
            put_label(&mut self.exemplar_labels, name, label);
        }
        let labels_end = self.exemplar_labels.len();
        self.exemplars.push(PendingExemplar { id, timestamp, value, labels_end });
    }

    /// Samples in the batch so far.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Journals the batch, makes it visible and starts the next one. Steady for known series: it
    /// allocates only when a file or a page of memory has to be added.
    ///
    /// # Errors
    /// The journal can't be written, or the store was closed. What couldn't be journalled isn't
    /// visible, and is gone. (Of a batch whose series were created by several appenders, or that has
    /// a series twice, another part may be in.)
    pub fn commit(&mut self) -> Result<&Committed, Error> {
        self.committed.clear();
        let result = self.commit_samples();
        if result.is_ok() {
            self.commit_exemplars();
        }
        for &(_, reason) in &self.committed.rejected {
            self.core.head.rejected[reason as usize].fetch_add(1, Ordering::Relaxed);
        }
        self.rollback();
        result.map(|()| &self.committed)
    }

    fn commit_samples(&mut self) -> Result<(), Error> {
        let Some(first) = self.ids.first().map(|id| id.slot().shard()) else { return Ok(()) };
        let mut shards = 0u64;
        for id in &self.ids {
            shards |= 1 << id.slot().shard();
        }
        // One bound for the whole batch, whatever it brings.
        let min_valid = self.core.head.min_valid();
        let all = Columns { ids: &self.ids, timestamps: &self.timestamps, values: &self.values };
        if shards.is_power_of_two() {
            return self.core.head.commit(first, all, min_valid, &mut self.committed);
        }
        while shards != 0 {
            let shard = shards.trailing_zeros() as usize;
            shards &= shards - 1;
            self.part.collect(all, shard);
            self.part_committed.clear();
            let columns = self.part.columns();
            self.core.head.commit(shard, columns, min_valid, &mut self.part_committed)?;
            self.committed.appended += self.part_committed.appended;
            let rejected = self.part_committed.rejected.iter();
            let indices = &self.part.indices;
            self.committed
                .rejected
                .extend(rejected.map(|&(index, reason)| (indices[index], reason)));
        }
        self.committed.rejected.sort_unstable_by_key(|&(index, _)| index);
        Ok(())
    }

    fn commit_exemplars(&mut self) {
        if self.exemplars.is_empty() {
            return;
        }
        let mut ring = self.core.head.exemplars.lock();
        let mut start = 0;
        for pending in &self.exemplars {
            let labels = &self.exemplar_labels[start..pending.labels_end];
            ring.push(pending.id, labels, pending.value, pending.timestamp);
            start = pending.labels_end;
        }
    }

    /// Forgets the batch.
    pub fn rollback(&mut self) {
        self.ids.clear();
        self.timestamps.clear();
        self.values.clear();
        self.exemplars.clear();
        self.exemplar_labels.clear();
    }
}

impl Part {
    fn collect(&mut self, all: Columns<'_>, shard: usize) {
        self.ids.clear();
        self.timestamps.clear();
        self.values.clear();
        self.indices.clear();
        for (index, id) in all.ids.iter().enumerate() {
            if id.slot().shard() == shard {
                self.ids.push(*id);
                self.timestamps.push(all.timestamps[index]);
                self.values.push(all.values[index]);
                self.indices.push(index);
            }
        }
    }

    fn columns(&self) -> Columns<'_> {
        Columns { ids: &self.ids, timestamps: &self.timestamps, values: &self.values }
    }
}

impl Committed {
    fn clear(&mut self) {
        self.appended = 0;
        self.rejected.clear();
    }
}
