//! Series that went stale leave the head, long before their samples are cut into a block.
//!
//! 1. Series without an open chunk whose last sample is a stale marker of some minutes ago, or that got
//!    nothing for long, are collected, shard by shard. Their chunks are made durable.
//! 2. Their labels and the places of their chunks are written to a file ([`super::departed`]), which is
//!    durable before anything else happens. From here on a start leaves them out.
//! 3. The view is replaced by one with that file. Queries that begin now find them there, and those that
//!    are also still in the head once.
//! 4. When nobody holds an older view any more, rows, index and strings are released. A series to which
//!    something came in the meantime stays: the file says less of it than the head does.
//! 5. Small files are merged.
//!
//! A failure or a crash between any two of these leaves a file that repeats what the head still has, or
//! none. A series that comes back after it left is a new one of the head.
//!
//! Series with exemplars stay, because these are found by them; so do series one of whose chunks can't
//! be read.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::departed::{self, Departed};
use super::maintain::{Pace, ROWS, STALE, STALE_MS, remove, remove_rows, sync_chunks};
use super::{Core, Maintained, SeriesId, View};
use crate::Error;
use crate::head::chunk_file::ChunkFiles;
use crate::head::departed::DepartedRow;
use crate::head::row::{ChunkRef, Row, Slot};

/// Series leave this often: each time costs a file.
const INTERVAL_MS: i64 = 5 * 60_000;
/// Series that leave in one file: their labels are in memory while it is written.
const SERIES_AT_ONCE: usize = 1 << 15;
/// Series whose labels are read under one lock of the index.
const LABELLED_AT_ONCE: usize = 512;
/// A series leaves when nothing came for it for so long, at least; and for half a block, before which
/// samples are too old to come, so that one that comes back does not reach into its past.
const IDLE_MS: i64 = 60 * 60_000;

/// A series that is to leave: its place, its last closed chunk, and the time of its last sample.
#[derive(Clone, Copy)]
struct Leaving {
    id: SeriesId,
    closed: ChunkRef,
    until: i64,
}

impl Leaving {
    /// Whether nothing came since.
    fn is_still(&self, row: &Row) -> bool {
        !row.is_open()
            && row.closed == self.closed
            && row.last().is_some_and(|(last, _)| last == self.until)
    }
}

/// What is to be remembered between two rounds.
pub(super) struct Departures {
    last: i64,
    /// The number of the next file.
    number: u32,
    /// Written and in the view, and still in the head.
    leaving: Vec<Leaving>,
    /// Views without them, to which somebody may hold.
    before: Vec<Weak<View>>,
}

impl Departures {
    /// The next file gets `number`.
    pub(super) fn new(now_ms: i64, number: u32) -> Self {
        Departures { last: now_ms, number, leaving: Vec::new(), before: Vec::new() }
    }

    /// Whether series leave now. Their idle chunks are to be closed before.
    pub(super) fn due(&self, now_ms: i64) -> bool {
        self.leaving.is_empty() && super::maintain::due(now_ms, self.last, INTERVAL_MS)
    }

    /// Lets go whoever can: those that are idle, of which no chunk is open. Views that are replaced come to
    /// `retired`, where all are that somebody may still hold.
    pub(super) fn run(
        &mut self,
        core: &Core,
        now_ms: i64,
        retired: &mut Vec<Weak<View>>,
        pace: &mut Pace<'_>,
        done: &mut Maintained,
    ) -> Result<(), Error> {
        self.last = now_ms;
        let mut collected = Vec::new();
        for number in 0..core.head.shards.len() {
            collect(core, number, now_ms, &mut collected);
        }
        let exemplars = core.head.exemplars.lock();
        collected.retain(|leaving| !exemplars.has(leaving.id));
        drop(exemplars);
        for leaving in collected.chunks(SERIES_AT_ONCE) {
            self.depart(core, leaving, retired, done)?;
            pace.did(leaving.len());
            self.release(core, pace, done);
        }
        merge(core, retired, pace, done)
    }

    /// Steps 2 and 3.
    fn depart(
        &mut self,
        core: &Core,
        leaving: &[Leaving],
        retired: &mut Vec<Weak<View>>,
        done: &mut Maintained,
    ) -> Result<(), Error> {
        let mut files = Vec::new();
        for (number, shard) in core.head.shards.iter().enumerate() {
            files.push(shard.lock().files.clone());
            if leaving.iter().any(|leaving| leaving.id.slot().shard() == number) {
                sync_chunks(core, number)?;
            }
        }
        // Not the head's start: that moves before a block is there.
        let start = core.view.read().head_from;
        let mut series = Vec::with_capacity(leaving.len());
        let mut scratch = Vec::new();
        for leaving in leaving.chunks(LABELLED_AT_ONCE) {
            let index = core.head.index.read();
            for &leaving in leaving {
                let labels = index.labels(leaving.id.slot(), &mut scratch);
                series.extend(
                    labels.filter(|(id, _)| *id == leaving.id).map(|(_, labels)| (labels, leaving)),
                );
            }
        }
        series.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let disk = &**core.disk();
        let mut writer = departed::Writer::create(disk)?;
        let mut rows = Vec::with_capacity(series.len());
        let mut left = Vec::with_capacity(series.len());
        for (labels, leaving) in series {
            let slot = leaving.id.slot();
            let chunks = match files[slot.shard()].walk(leaving.closed, start) {
                Ok(chunks) => chunks,
                // Where something is damaged, it stays as it is.
                Err(error) if error.is_corrupt() => continue,
                Err(error) => return Err(error),
            };
            let Some(chunks) = departed::entries(slot.shard(), &chunks) else { continue };
            if chunks.is_empty() {
                continue;
            }
            writer.series(&labels, &chunks)?;
            rows.push(DepartedRow {
                shard: slot.shard() as u32,
                row: slot.row(),
                generation: leaving.id.generation(),
                until: leaving.until,
            });
            left.push(leaving);
        }
        files.iter().flat_map(ChunkFiles::files).for_each(|file| file.unmap());
        let number = self.number;
        // A failure may leave a file: the next one gets another name.
        self.number += 1;
        rows.sort_unstable();
        let Some(departed) = writer.finish(number, rows)? else { return Ok(()) };
        retired.push(replace(core, |all| all.push(departed)));
        done.series_departed += left.len() as u64;
        self.before = retired.clone();
        self.leaving.extend(left);
        Ok(())
    }

    /// Step 4, if it is time.
    pub(super) fn release(&mut self, core: &Core, pace: &mut Pace<'_>, done: &mut Maintained) {
        self.before.retain(|view| view.strong_count() > 0);
        if !self.before.is_empty() || self.leaving.is_empty() {
            return;
        }
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.sort_unstable_by_key(|leaving| leaving.id.slot());
        for of_shard in leaving.chunk_by(|a, b| a.id.slot().shard() == b.id.slot().shard()) {
            let still = |row: &Row, id: SeriesId| {
                let found = of_shard.binary_search_by_key(&id.slot(), |leaving| leaving.id.slot());
                found.is_ok_and(|at| of_shard[at].is_still(row))
            };
            let ids: Vec<_> = of_shard.iter().map(|leaving| leaving.id).collect();
            remove_rows(core, of_shard[0].id.slot().shard(), &ids, still, pace, done);
        }
    }
}

/// Replaces the view by one with other files of departed series.
fn replace(core: &Core, change: impl FnOnce(&mut Vec<Arc<Departed>>)) -> Weak<View> {
    let mut view = core.view.write();
    let mut departed = view.departed.clone();
    change(&mut departed);
    let replaced = Arc::downgrade(&view);
    *view = Arc::new(View { blocks: view.blocks.clone(), departed, head_from: view.head_from });
    replaced
}

/// Lists the series of a shard that are to leave.
fn collect(core: &Core, number: usize, now_ms: i64, collected: &mut Vec<Leaving>) {
    // A clock that runs ahead, here or at a target, must not make everything look idle.
    let now = now_ms.min(core.head.max_time.load(Ordering::Acquire));
    let start = core.view.read().head_from;
    let idle = IDLE_MS.max(core.head.limits.block_range / 2);
    let mut first = 0;
    loop {
        let shard = core.head.shards[number].lock();
        let end = shard.rows.len().min(first + ROWS);
        if first == end {
            return;
        }
        for (row, found) in shard.rows.each(first..end) {
            let Some((last, value)) = found.last().filter(|_| found.is_alive() && !found.is_open())
            else {
                continue;
            };
            let limit = if value == STALE { STALE_MS } else { idle };
            if last >= start && now.saturating_sub(last) >= limit && found.closed != ChunkRef::NONE
            {
                let id = SeriesId::new(Slot::new(number, row), found.generation);
                collected.push(Leaving { id, closed: found.closed, until: last });
            }
        }
        first = end;
    }
}

/// Writes files anew that name chunks of before the head's beginning, without these.
pub(super) fn trim(
    core: &Core,
    retired: &mut Vec<Weak<View>>,
    pace: &mut Pace<'_>,
    done: &mut Maintained,
) -> Result<(), Error> {
    let disk = &**core.disk();
    let view = core.view.read().clone();
    for (at, departed) in view.departed.iter().enumerate().rev() {
        if departed.first >= view.head_from {
            continue;
        }
        let one = std::slice::from_ref(departed);
        let trimmed = departed::merge(disk, one, view.head_from, pace, done)?;
        if trimmed.count == 0 {
            continue;
        }
        let gone = trimmed.file.is_none();
        retired.push(replace(core, |all| drop(all.splice(at..=at, trimmed.file))));
        if gone {
            remove(disk, &departed::path(departed.number()))?;
        }
    }
    Ok(())
}

/// Step 5.
fn merge(
    core: &Core,
    retired: &mut Vec<Weak<View>>,
    pace: &mut Pace<'_>,
    done: &mut Maintained,
) -> Result<(), Error> {
    let disk = &**core.disk();
    loop {
        let view = core.view.read().clone();
        let departed = &view.departed;
        let count = departed::to_merge(departed.iter().map(|departed| departed.series));
        if count == 0 {
            return Ok(());
        }
        let merging = &departed[departed.len() - count..];
        // What every query reads from blocks is left out.
        let merged = departed::merge(disk, merging, view.head_from, pace, done)?;
        if merged.count == 0 {
            return Ok(());
        }
        // The merged one has the name of the youngest.
        let merging = &departed[departed.len() - merged.count..];
        let leaving = &merging[..merged.count - usize::from(merged.file.is_some())];
        retired.push(replace(core, |all| {
            all.truncate(all.len() - merged.count);
            all.extend(merged.file);
        }));
        // Who reads them has them mapped.
        for departed in leaving {
            remove(disk, &departed::path(departed.number()))?;
        }
    }
}
