//! The head: what was appended and isn't in a block yet.
//!
//! Series are spread over shards, in which all that an append needs lies together; one index over all
//! of them says which series there are. Whoever needs both locks takes the index first.

mod arena;
pub(crate) mod chunk_file;
mod commit;
pub(crate) mod departed;
pub(crate) mod exemplars;
pub(crate) mod index;
pub(crate) mod log;
mod page;
mod postings;
mod prefetch;
pub(crate) mod replay;
pub(crate) mod row;
mod sets;
pub(crate) mod shard;
mod slab;
mod symbols;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockWriteGuard};

use crate::db::{Committed, SeriesId};
use crate::matcher::Matcher;
use crate::{Error, Labels};
use chunk_file::MappedChunk;
use exemplars::Ring;
use index::{Filter, Index};
use row::{ChunkRef, SHARDS_MAX, Slot};
use shard::{Columns, Limits, Shard, Tally};

/// Series that are looked at under one lock of the index.
const SLICE: usize = 512;

/// Attempts to have two locks before one is held while the other is waited for.
const TRIES: usize = 100;

/// See the module.
pub(crate) struct Head {
    pub(crate) limits: Limits,
    pub(crate) shards: Box<[Mutex<Shard>]>,
    pub(crate) index: RwLock<Index>,
    pub(crate) exemplars: Mutex<Ring>,
    pub(crate) min_time: AtomicI64,
    pub(crate) max_time: AtomicI64,
    /// The head takes and shows nothing before this time: it is in blocks.
    pub(crate) start: AtomicI64,
    pub(crate) appended: AtomicU64,
    pub(crate) rejected: [AtomicU64; 4],
    pub(crate) created: AtomicU64,
    pub(crate) removed: AtomicU64,
    /// The directory may be somebody else's by now.
    pub(crate) closed: AtomicBool,
}

impl Head {
    /// A head without series.
    pub(crate) fn new(limits: &Limits, shards: usize, exemplars: usize) -> Self {
        let shards = shards.clamp(1, SHARDS_MAX);
        Head {
            limits: limits.clone(),
            shards: (0..shards).map(|n| Mutex::new(Shard::new(limits.clone(), n))).collect(),
            index: RwLock::default(),
            exemplars: Mutex::new(Ring::new(exemplars)),
            min_time: AtomicI64::new(i64::MAX),
            max_time: AtomicI64::new(i64::MIN),
            start: AtomicI64::new(i64::MIN),
            appended: AtomicU64::new(0),
            rejected: Default::default(),
            created: AtomicU64::new(0),
            removed: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Samples before this time are too old: as in Prometheus, half a block behind the newest.
    /// (Before the start of the head they are too, which is looked at under the shard's lock.)
    pub(crate) fn min_valid(&self) -> i64 {
        self.max_time.load(Ordering::Acquire).saturating_sub(self.limits.block_range / 2)
    }

    /// The series with these labels, created in `shard` where it doesn't exist.
    pub(crate) fn series(&self, labels: &Labels, shard: usize) -> Result<SeriesId, Error> {
        let looked_at = {
            let index = self.index.read();
            if let Some(id) = index.find_near(labels.iter(), shard) {
                return Ok(id);
            }
            index.inserted()
        };
        let (mut index, mut shard) = loop {
            let index = self.index.write();
            if index.inserted() != looked_at
                && let Some(id) = index.find_near(labels.iter(), shard)
            {
                return Ok(id);
            }
            if let Some(shard) = self.shards[shard].try_lock() {
                break (index, shard);
            }
            // It may be writing: nobody else is to wait for that, at the index.
            drop(index);
            drop(self.shards[shard].lock());
        };
        let (generation, round) = (shard.generation, shard.round);
        let Some((row, generation)) = shard.rows.insert(generation, round) else {
            return Err(Error::full(format!(
                "the head holds {} series in one shard, which is all it can",
                row::ROWS_MAX
            )));
        };
        shard.log.define(row, generation, labels.clone());
        let id = SeriesId::new(Slot::new(shard.number, row), generation);
        index.insert(id, labels.iter());
        self.created.fetch_add(1, Ordering::Relaxed);
        Ok(id)
    }

    /// Both locks, without anybody waiting at the index for who has the shard: it may be writing.
    pub(crate) fn index_and_shard(
        &self,
        shard: usize,
    ) -> (RwLockWriteGuard<'_, Index>, MutexGuard<'_, Shard>) {
        for _ in 0..TRIES {
            let index = self.index.write();
            if let Some(shard) = self.shards[shard].try_lock() {
                return (index, shard);
            }
            drop(index);
            // The other way round, what was waited for is in hand at the second attempt.
            let shard = self.shards[shard].lock();
            if let Some(index) = self.index.try_write() {
                return (index, shard);
            }
        }
        // Both are always taken: it has to come to an end.
        (self.index.write(), self.shards[shard].lock())
    }

    /// Appends samples that all are of `shard`.
    pub(crate) fn commit(
        &self,
        shard: usize,
        columns: Columns<'_>,
        min_valid: i64,
        committed: &mut Committed,
    ) -> Result<(), Error> {
        let mut tally = Tally::default();
        let mut shard = self.shards[shard].lock();
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::closed());
        }
        // Read under the lock: a block being cut waits for it after it moved the start.
        let min_valid = min_valid.max(self.start.load(Ordering::Acquire));
        let result = shard.commit(columns, min_valid, committed, &mut tally);
        if tally.appended > 0 {
            self.appended.fetch_add(tally.appended, Ordering::Relaxed);
        }
        // Loaded first, because workers share them and they rarely change twice in a moment.
        if tally.min_time < self.min_time.load(Ordering::Relaxed) {
            self.min_time.fetch_min(tally.min_time, Ordering::AcqRel);
        }
        if tally.max_time > self.max_time.load(Ordering::Relaxed) {
            self.max_time.fetch_max(tally.max_time, Ordering::AcqRel);
        }
        drop(shard);
        result
    }

    /// The series that pass `matchers` and have chunks that overlap `from..=to`, in no order.
    pub(crate) fn select(
        &self,
        matchers: &[Matcher],
        from: i64,
        to: i64,
    ) -> Result<Vec<(SeriesId, Labels)>, Error> {
        let mut candidates = self.index.read().candidates(matchers);
        // Series that lie together are locked together.
        candidates.sort_unstable();
        candidates.dedup();
        let mut filter = Filter::new(matchers);
        let mut scratch = Vec::new();
        let mut found = Vec::new();
        for slice in candidates.chunks(SLICE) {
            let mut matching = Vec::new();
            let index = self.index.read();
            filter.resume(&index);
            for &slot in slice {
                if filter.matches(&index, slot) {
                    matching.extend(index.labels(slot, &mut scratch));
                }
            }
            drop(index);
            let overlap = self.overlap(&matching, from, to)?;
            let both = matching.into_iter().zip(overlap);
            found.extend(both.filter_map(|(series, overlaps)| overlaps.then_some(series)));
        }
        Ok(found)
    }

    /// Which of `series` have chunks that overlap `from..=to`.
    fn overlap(
        &self,
        series: &[(SeriesId, Labels)],
        from: i64,
        to: i64,
    ) -> Result<Vec<bool>, Error> {
        let mut overlap = vec![false; series.len()];
        let mut at = 0;
        while at < series.len() {
            let number = series[at].0.slot().shard();
            let shard = self.shards[number].lock();
            let mut closed = Vec::new();
            while at < series.len() && series[at].0.slot().shard() == number {
                if let Some(row) = shard.rows.series(series[at].0)
                    && row.last().is_some_and(|(last, _)| last >= from)
                {
                    overlap[at] = row.is_open() && row.min_time() <= to;
                    if !overlap[at] && row.closed != ChunkRef::NONE {
                        closed.push((at, row.closed));
                    }
                }
                at += 1;
            }
            let files = shard.files.clone();
            drop(shard);
            for (index, last) in closed {
                let chunks = files.walk(last, from)?;
                overlap[index] = chunks.iter().any(|chunk| chunk.header().min_time <= to);
            }
        }
        Ok(overlap)
    }

    /// The chunks of a series that may have samples from `from` on: closed ones, and a copy of the
    /// open one.
    pub(crate) fn chunks(&self, id: SeriesId, from: i64) -> Result<SeriesChunks, Error> {
        let mut open = Vec::new();
        let (closed, files) = {
            let shard = self.shards[id.slot().shard()].lock();
            let Some(row) = shard.rows.series(id) else {
                return Ok(SeriesChunks { closed: Vec::new(), open: None });
            };
            if row.is_open() && row.last().is_some_and(|(last, _)| last >= from) {
                open.reserve_exact(row.chunk_bytes());
                row.copy_chunk(&shard.slab, &mut open);
            }
            (row.closed, shard.files.clone())
        };
        let closed = files.walk(closed, from)?;
        Ok(SeriesChunks { closed, open: (!open.is_empty()).then_some(open) })
    }
}

/// What a query reads of a series of the head, in the order of time.
pub(crate) struct SeriesChunks {
    pub(crate) closed: Vec<MappedChunk>,
    pub(crate) open: Option<Vec<u8>>,
}
