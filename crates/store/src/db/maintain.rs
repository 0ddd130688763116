//! The regular work behind the appends. One at a time; the lock of a shard is held only for a few
//! thousand rows at once.
//!
//! In this order:
//! 1. the journal is made durable, if it is time; again within what follows, whenever that sorted, wrote
//!    or removed about 32,768 series, twice as many at most, or closed four times as many chunks ([`Pace`]),
//!    and after each block;
//! 2. segments of the journal that are large or old are ended;
//! 3. old blocks go, which makes room;
//! 4. the head's past becomes a block ([`super::cut`]);
//! 5. what blocks have now leaves the head, once no running query looks for it there;
//! 6. open chunks to which nothing comes any more, or for which the journal waits, are closed, and
//!    segments that only closed chunks need are removed;
//! 7. series that went stale leave ([`super::depart`]);
//! 8. logs of definitions with mostly removed series are written anew.
//!
//! What no sync of the journal divides: a look through rows that collects or finds nothing but ids; reading
//! the lists of departed series; the end of a block, where its postings are written; and the disk's own
//! pauses, where another file is made durable or removed.
//!
//! A step that fails does not keep the others from being done: a full disk is what retention and the
//! removal of segments end.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::depart::{Departures, trim};
use super::{Core, Maintained, SeriesId, Unfinished, View, departed, sort_blocks};
use crate::Error;
use crate::block::catalog;
use crate::disk::Disk;
use crate::head::log::{definitions_path, segment_path};
use crate::head::row::{CHUNK_BYTES, Row, Slot};
use crate::journal::{self, definition, record};

/// Rows that are looked at under one lock.
pub(super) const ROWS: u32 = 4096;
/// A cut that failed is tried again after so long: it costs a block's worth of writing.
const CUT_AGAIN_MS: i64 = 60_000;
/// What concerns rows is looked after this often at most: those of a shard are looked through when a segment
/// of its journal ended since, for chunks may lag behind the newest one only then, ...
const SWEEP_INTERVAL_MS: i64 = 30_000;
/// ... and this often at least, for what is idle. They are so many that each time is felt.
const PASS_INTERVAL_MS: i64 = 5 * 60_000;
/// A segment ends at this age, so that those before can go also under little load.
const SEGMENT_AGE_MS: i64 = 30 * 60_000;
/// Segments of a shard that a start may have to replay, besides those that its open chunks would fill: what
/// a sample takes in the journal is less than what it takes in its chunk.
const SEGMENTS_KEPT: u32 = 4;
/// A chunk without new samples for so long is closed...
const IDLE_MS: i64 = 30 * 60_000;
/// ... sooner if the last one says that the series is gone.
pub(super) const STALE_MS: i64 = 5 * 60_000;
/// The value of that sample.
pub(super) const STALE: u64 = 0x7ff0_0000_0000_0002;
/// Blocks that one round writes at most.
const BLOCKS_AT_ONCE: usize = 4;
/// Series that are removed under one lock of the index, for which whoever creates or looks for a series
/// waits: some microseconds each.
const REMOVED_AT_ONCE: usize = 512;

/// Series that something is done with, whatever it is, between two syncs of the journal: some tenths of a
/// second where they are written to a block, less elsewhere.
const SERIES_BETWEEN_SYNCS: usize = 1 << 15;

/// Makes the journal durable in the middle of long work, so that appends don't wait for power to be safe until
/// that ends. The store has no clock: what was done is the measure. Nothing that an append waits for may be
/// held by the caller.
pub(super) struct Pace<'c> {
    core: &'c Core,
    series: usize,
    /// What the first sync that failed said. Work goes on, and the next one tries again.
    synced: Result<(), Error>,
}

impl<'c> Pace<'c> {
    fn new(core: &'c Core) -> Self {
        Pace { core, series: 0, synced: Ok(()) }
    }

    /// So many chunks were closed, which takes a fraction of what else is done with a series.
    pub(super) fn closed(&mut self, chunks: usize) {
        self.did(chunks / 4);
    }

    /// So many series were sorted, written or removed.
    pub(super) fn did(&mut self, series: usize) {
        self.series += series;
        if self.series >= SERIES_BETWEEN_SYNCS {
            self.sync();
        }
    }

    /// Now, because what was done takes long by itself.
    pub(super) fn sync(&mut self) {
        self.series = 0;
        let synced = sync(self.core);
        self.synced = std::mem::replace(&mut self.synced, Ok(())).and(synced);
    }
}

/// What is to be remembered between two rounds.
pub(super) struct Maintenance {
    last_sweep: i64,
    /// When all rows were looked through, whatever had happened.
    last_pass: i64,
    /// By shard: the newest segment when its rows were looked through; `None` where that failed.
    swept: Vec<Option<u32>>,
    last_sync: i64,
    segments_since: i64,
    /// When a cut failed.
    cut_failed: Option<i64>,
    /// Views that were replaced and may still be looked at.
    retired: Vec<Weak<View>>,
    /// Before this time, the head can be emptied once `retired` is.
    truncate_before: Option<i64>,
    departures: Departures,
    /// Files of departed series that no new query reads, with the last time of their samples.
    left_over: Vec<(u32, i64)>,
}

pub(super) fn sync_dir(disk: &dyn Disk, path: &str) -> Result<(), Error> {
    disk.sync_dir(path).map_err(|error| Error::io(path, error))
}

fn sync_file(disk: &dyn Disk, path: &str) -> Result<(), Error> {
    // A file of its own, so that appends don't wait for the disk.
    match disk.open_append(path).and_then(|mut file| file.sync()) {
        // It was removed in the meantime, because nobody needs it any more.
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

pub(super) fn remove(disk: &dyn Disk, path: &str) -> Result<(), Error> {
    match disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

/// Makes the journal durable. Maintenance is held by the caller.
pub(super) fn sync(core: &Core) -> Result<(), Error> {
    let disk = &**core.disk();
    let mut first = Ok(());
    for shard in &core.head.shards {
        let unsynced = shard.lock().log.unsynced();
        let result = unsynced.paths.iter().try_for_each(|path| sync_file(disk, path));
        let result = result
            .and_then(|()| if unsynced.directory { sync_dir(disk, "journal") } else { Ok(()) });
        if result.is_err() {
            shard.lock().log.sync_failed(unsynced);
            first = first.and(result);
        }
    }
    first
}

/// Whether something that was last done at `last` has to be done again. A clock that was set back
/// must not put it off.
pub(super) fn due(now_ms: i64, last: i64, every: i64) -> bool {
    now_ms < last || now_ms.saturating_sub(last) >= every
}

impl Maintenance {
    /// `departures` is the number of the next file of departed series; of those that are `damaged`, none
    /// has anything later than `newest`.
    pub(super) fn new(now_ms: i64, departures: u32, damaged: &[u32], newest: i64) -> Self {
        Maintenance {
            departures: Departures::new(now_ms, departures),
            left_over: damaged.iter().map(|&number| (number, newest)).collect(),
            last_sweep: now_ms,
            last_pass: now_ms,
            swept: Vec::new(),
            last_sync: now_ms,
            segments_since: now_ms,
            cut_failed: None,
            retired: Vec::new(),
            truncate_before: None,
        }
    }

    pub(super) fn run(&mut self, core: &Core, now_ms: i64) -> Result<Maintained, Box<Unfinished>> {
        let mut done = Maintained::default();
        let mut pace = Pace::new(core);
        if due(now_ms, self.last_sync, core.options.sync_interval_ms) {
            self.last_sync = now_ms;
            pace.sync();
        }
        self.end_segments(core, now_ms);
        let mut first = self.retain_blocks(core, &mut done);
        if self.cut_failed.is_none_or(|failed| due(now_ms, failed, CUT_AGAIN_MS)) {
            let cut = self.cut(core, now_ms, &mut pace, &mut done);
            self.cut_failed = cut.is_err().then_some(now_ms);
            first = first.and(cut);
        }
        self.retired.retain(|view| view.strong_count() > 0);
        let mut truncated = false;
        if self.retired.is_empty()
            && let Some(start) = self.truncate_before
        {
            first = first.and(truncate(core, start, &mut pace, &mut done));
            first = first.and(self.remove_departed(core, start));
            first = first.and(trim(core, &mut self.retired, &mut pace, &mut done));
            self.truncate_before = None;
            truncated = true;
        }
        first = first.and(self.retain_blocks(core, &mut done));
        if truncated || due(now_ms, self.last_sweep, SWEEP_INTERVAL_MS) {
            self.last_sweep = now_ms;
            first = first.and(self.sweep(core, now_ms, truncated, &mut pace, &mut done));
        }
        match first.and(pace.synced) {
            Ok(()) => Ok(done),
            Err(error) => Err(Box::new(Unfinished { done, error })),
        }
    }

    /// Steps 6 to 8.
    fn sweep(
        &mut self,
        core: &Core,
        now_ms: i64,
        truncated: bool,
        pace: &mut Pace<'_>,
        done: &mut Maintained,
    ) -> Result<(), Error> {
        self.departures.release(core, pace, done);
        let leave = self.departures.due(now_ms);
        let regular = leave || due(now_ms, self.last_pass, PASS_INTERVAL_MS);
        if regular {
            self.last_pass = now_ms;
        }
        let mut first = self.sweep_shards(core, now_ms, regular || truncated, pace, done);
        if regular {
            remove_empty(core, pace, done);
        }
        if leave {
            first = first.and(self.departures.run(core, now_ms, &mut self.retired, pace, done));
        }
        first.and(rewrite_definitions(core, pace))
    }

    /// Step 6, of the shards of which a segment ended, or of all.
    fn sweep_shards(
        &mut self,
        core: &Core,
        now_ms: i64,
        all: bool,
        pace: &mut Pace<'_>,
        done: &mut Maintained,
    ) -> Result<(), Error> {
        self.swept.resize(core.head.shards.len(), None);
        let mut first = Ok(());
        for (number, swept) in self.swept.iter_mut().enumerate() {
            let newest = core.head.shards[number].lock().log.number;
            if !all && *swept == Some(newest) {
                continue;
            }
            let needed = close_lagging(core, number, now_ms, newest, pace, done);
            let result = needed.and_then(|needed| remove_segments(core, number, needed, done));
            *swept = result.is_ok().then_some(newest);
            first = first.and(result);
        }
        first
    }

    fn cut(
        &mut self,
        core: &Core,
        now_ms: i64,
        pace: &mut Pace<'_>,
        done: &mut Maintained,
    ) -> Result<(), Error> {
        for _ in 0..BLOCKS_AT_ONCE {
            let Some(cut) = super::cut::cut(core, now_ms, pace, done)? else { break };
            pace.sync();
            self.retired.push(cut.replaced);
            self.truncate_before = Some(cut.start);
            self.left_over.extend(cut.departed.iter().map(|old| (old.number(), old.last)));
        }
        Ok(())
    }

    /// Removes the files of departed series that end before `start`.
    fn remove_departed(&mut self, core: &Core, start: i64) -> Result<(), Error> {
        let mut first = Ok(());
        self.left_over.retain(|&(number, last)| {
            if last >= start {
                return true;
            }
            let removed = remove(&**core.disk(), &departed::path(number));
            let stays = removed.is_err();
            first = std::mem::replace(&mut first, Ok(())).and(removed);
            stays
        });
        first
    }

    fn end_segments(&mut self, core: &Core, now_ms: i64) {
        let old = due(now_ms, self.segments_since, SEGMENT_AGE_MS);
        if old {
            self.segments_since = now_ms;
        }
        for shard in &core.head.shards {
            let log = &mut shard.lock().log;
            if old || log.segment_bytes() >= core.options.segment_bytes {
                log.end_segment();
            }
        }
    }

    fn retain_blocks(&mut self, core: &Core, done: &mut Maintained) -> Result<(), Error> {
        let view = core.view.read().clone();
        let metas = view.blocks.iter().map(|block| block.meta());
        let leaving = catalog::beyond_retention(metas, core.retention_ms.load(Ordering::Relaxed));
        if leaving.is_empty() {
            return Ok(());
        }
        let mut blocks = view.blocks.clone();
        blocks.retain(|block| !leaving.contains(&block.ulid()));
        sort_blocks(&mut blocks);
        // Who still looks at it reads the head from where it says.
        self.retired.push(Arc::downgrade(&view));
        let departed = view.departed.clone();
        *core.view.write() = Arc::new(View { blocks, departed, head_from: view.head_from });
        // Running queries keep the blocks mapped.
        let mut first = Ok(());
        for ulid in leaving {
            let removed = catalog::remove(&**core.disk(), ulid);
            done.blocks_deleted += u64::from(removed.is_ok());
            first = first.and(removed);
        }
        first
    }
}

/// Removes from the head what lies before `start`.
fn truncate(
    core: &Core,
    start: i64,
    pace: &mut Pace<'_>,
    done: &mut Maintained,
) -> Result<(), Error> {
    let mut first = Ok(());
    for number in 0..core.head.shards.len() {
        let mut leaving = Vec::new();
        {
            let mut shard = core.head.shards[number].lock();
            let shard = &mut *shard;
            // What is written to stays; cutting the block ended it if it had anything of before.
            let last = shard.contents.last().map_or(0, |last| last.number);
            let gone = |number: u32, latest: i64| number != last && latest < start;
            for (file, contents) in shard.files.files().iter().zip(&shard.contents) {
                if gone(contents.number, contents.latest) {
                    leaving.push((file.clone(), contents.bytes));
                }
            }
            let stays = |number: u32| leaving.iter().all(|(file, _)| file.number != number);
            shard.files = shard.files.retain(|file| stays(file.number));
            shard.contents.retain(|file| stays(file.number));
        }
        for (file, bytes) in leaving {
            // A query may be about to look at it, which it can't by its name soon.
            if Arc::strong_count(&file) > 1 {
                first = first.and(file.bytes(bytes as usize).map(drop));
            }
            first = first.and(remove(&**core.disk(), file.path()));
        }
        remove_series(core, number, start, pace, done);
    }
    first
}

/// Removes the series of a shard whose samples all lie before `start`.
fn remove_series(
    core: &Core,
    number: usize,
    start: i64,
    pace: &mut Pace<'_>,
    done: &mut Maintained,
) {
    let gone = |row: &Row| !row.is_open() && row.last().is_some_and(|(last, _)| last < start);
    let ids = rows_of(core, number, |row, _| gone(row));
    remove_rows(core, number, &ids, |row, _| gone(row), pace, done);
}

/// Removes the series that were created and got no sample. One that was just created gets the chance of
/// a first one.
fn remove_empty(core: &Core, pace: &mut Pace<'_>, done: &mut Maintained) {
    for (number, shard) in core.head.shards.iter().enumerate() {
        let round = {
            let mut shard = shard.lock();
            shard.round += 1;
            shard.round
        };
        let empty = |row: &Row| !row.is_open() && row.last().is_none() && row.rounds(round) >= 2;
        let ids = rows_of(core, number, |row, _| empty(row));
        remove_rows(core, number, &ids, |row, _| empty(row), pace, done);
    }
}

/// The series of a shard for whose rows `which` says so.
fn rows_of(core: &Core, number: usize, which: impl Fn(&Row, SeriesId) -> bool) -> Vec<SeriesId> {
    let mut ids = Vec::new();
    let mut first = 0;
    loop {
        let shard = core.head.shards[number].lock();
        let end = shard.rows.len().min(first + ROWS);
        if first == end {
            return ids;
        }
        ids.extend(shard.rows.each(first..end).filter_map(|(row, found)| {
            if !found.is_alive() {
                return None;
            }
            let id = SeriesId::new(Slot::new(number, row), found.generation);
            which(found, id).then_some(id)
        }));
        first = end;
    }
}

/// Removes series of a shard, as far as `which` still says so: a sample may have come in between.
pub(super) fn remove_rows(
    core: &Core,
    number: usize,
    ids: &[SeriesId],
    which: impl Fn(&Row, SeriesId) -> bool,
    pace: &mut Pace<'_>,
    done: &mut Maintained,
) {
    for ids in ids.chunks(REMOVED_AT_ONCE) {
        let (mut index, mut guard) = core.head.index_and_shard(number);
        let shard = &mut *guard;
        let mut removed = Vec::with_capacity(ids.len());
        for &id in ids {
            if shard.rows.series(id).is_some_and(|row| which(row, id)) {
                shard.rows.remove(id.slot().row(), &mut shard.slab);
                removed.push(id);
            }
        }
        index.remove(&removed);
        done.series_removed += removed.len() as u64;
        core.head.removed.fetch_add(removed.len() as u64, Ordering::Relaxed);
        drop(index);
        drop(guard);
        pace.did(ids.len());
    }
}

/// Closes open chunks that wait for nothing, or for which too many segments wait, of which `active` is the
/// newest. Answers the first segment that an open chunk still needs.
fn close_lagging(
    core: &Core,
    number: usize,
    now_ms: i64,
    active: u32,
    pace: &mut Pace<'_>,
    done: &mut Maintained,
) -> Result<u32, Error> {
    // A clock that runs ahead, here or at a target, must not make everything look idle.
    let now = now_ms.min(core.head.max_time.load(Ordering::Acquire));
    let alive = core.head.shards[number].lock().rows.alive();
    let open_bytes = u64::from(alive) * CHUNK_BYTES as u64;
    // A row tells segments apart by the lower half of their number.
    let filled = (open_bytes / core.options.segment_bytes.max(1)).min(1 << 15);
    let kept = SEGMENTS_KEPT + filled as u32;
    let lagging = |row: &Row, since: u32| {
        let Some((last, value)) = row.last() else { return false };
        let limit = if value == STALE { STALE_MS } else { IDLE_MS };
        since + kept <= active || now.saturating_sub(last) >= limit
    };
    let mut needed = active;
    let mut first = 0;
    loop {
        let mut shard = core.head.shards[number].lock();
        let end = shard.rows.len().min(first + ROWS);
        if first == end {
            return Ok(needed);
        }
        let newest = shard.log.number;
        let closed = shard.close(first..end, |row| {
            let since = row.since(newest);
            let closes = lagging(row, since);
            if !closes {
                needed = needed.min(since);
            }
            closes
        })?;
        drop(shard);
        done.chunks_closed += closed;
        pace.closed(closed as usize);
        first = end;
    }
}

/// Removes the segments before `needed`, once the chunks that replace them are durable.
fn remove_segments(
    core: &Core,
    number: usize,
    needed: u32,
    done: &mut Maintained,
) -> Result<(), Error> {
    let disk = &**core.disk();
    let segments: Vec<u32> = {
        let shard = core.head.shards[number].lock();
        let finished = shard.log.finished.iter().map(|segment| segment.number);
        finished.filter(|&segment| segment < needed).collect()
    };
    if segments.is_empty() {
        return Ok(());
    }
    sync_chunks(core, number)?;
    for &segment in &segments {
        remove(disk, &segment_path(number, segment))?;
        done.segments_removed += 1;
        core.head.shards[number].lock().log.finished.retain(|other| other.number != segment);
    }
    Ok(())
}

/// Makes the closed chunks of a shard durable.
pub(super) fn sync_chunks(core: &Core, number: usize) -> Result<(), Error> {
    let disk = &**core.disk();
    let (files, last) = {
        let shard = core.head.shards[number].lock();
        (shard.files.clone(), shard.contents.last().map(|last| last.number))
    };
    for file in files.files() {
        if !file.durable.load(Ordering::Relaxed) {
            sync_file(disk, file.path())?;
            // Only the last one is still written to.
            file.durable.store(Some(file.number) != last, Ordering::Relaxed);
        }
    }
    sync_dir(disk, "head")
}

/// Writes the definitions of living series anew where the logs are mostly of removed ones, or many.
fn rewrite_definitions(core: &Core, pace: &mut Pace<'_>) -> Result<(), Error> {
    for number in 0..core.head.shards.len() {
        let ended = {
            let mut shard = core.head.shards[number].lock();
            let alive = u64::from(shard.rows.alive());
            let log = &mut shard.log;
            if log.defined <= 2 * alive + 1000 && log.ended_definitions.len() < 4 {
                continue;
            }
            // What is due must not be lost between the old and the new.
            log.write_definitions()?;
            log.end_definitions();
            log.ended_definitions.clone()
        };
        // What is created from here on stands in the next log.
        let ids = rows_of(core, number, |_, _| true);
        let Some(&last) = ended.last() else { continue };
        let disk = &**core.disk();
        let (temporary, path) =
            (format!("journal/{number:02}-series.tmp"), definitions_path(number, last));
        let bytes = write_definitions(core, &ids, &temporary, pace)?;
        disk.rename(&temporary, &path).map_err(|error| Error::io(path.as_str(), error))?;
        sync_dir(disk, "journal")?;
        for &old in &ended[..ended.len() - 1] {
            remove(disk, &definitions_path(number, old))?;
        }
        core.head.shards[number].lock().log.replaced_definitions(last, ids.len() as u64, bytes);
    }
    Ok(())
}

fn write_definitions(
    core: &Core,
    ids: &[SeriesId],
    path: &str,
    pace: &mut Pace<'_>,
) -> Result<u64, Error> {
    let context = |error| Error::io(path, error);
    let mut file = core.disk().create(path).map_err(context)?;
    file.append(&journal::MAGIC).map_err(context)?;
    let (mut scratch, mut bytes) = (Vec::new(), Vec::new());
    for ids in ids.chunks(1000) {
        let index = core.head.index.read();
        let series: Vec<_> = ids
            .iter()
            .filter_map(|&id| {
                let (found, labels) = index.labels(id.slot(), &mut scratch)?;
                (found == id).then_some((id, labels))
            })
            .collect();
        drop(index);
        bytes.clear();
        let begin = record::begin(&mut bytes);
        let rows = series.iter().map(|(id, labels)| (id.slot().row(), id.generation(), labels));
        definition::encode(&mut bytes, rows);
        record::finish(&mut bytes, begin);
        file.append(&bytes).map_err(context)?;
        pace.did(ids.len());
    }
    file.sync().map_err(context)?;
    Ok(file.size())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::disk::Directory;
    use crate::{Db, Labels, Options};

    #[test]
    #[expect(clippy::disallowed_methods, reason = "nothing tells that the removal is waiting")]
    fn nobody_waits_at_the_index_while_a_removal_waits_for_its_shard() {
        let root = std::env::temp_dir().join(format!("unladen-removal-{}", std::process::id()));
        let disk = Directory::open(&root).expect("a scratch directory");
        let options = Options { shards: 1, ..Options::default() };
        let (db, _) = Db::open(Arc::new(disk), options, 0).expect("it opens");
        let (core, mut appender) = (&*db.core, db.appender());
        let create = |number: usize| {
            let labels = Labels::from_pairs([("number", &number.to_string())]);
            appender.series(&labels).expect("there is room")
        };
        let ids: Vec<SeriesId> = (0..3 * REMOVED_AT_ONCE).map(create).collect();
        let mut done = Maintained::default();
        std::thread::scope(|scope| {
            let busy = core.head.shards[0].lock();
            scope
                .spawn(|| remove_rows(core, 0, &ids, |_, _| true, &mut Pace::new(core), &mut done));
            for _ in 0..100 {
                let index = core.head.index.try_read_for(Duration::from_secs(5));
                assert!(index.is_some(), "the removal has the index and waits for the shard");
                drop(index);
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(busy);
        });
        assert_eq!((done.series_removed, db.stats().series), (ids.len() as u64, 0));
        drop(db);
        let _ = std::fs::remove_dir_all(root);
    }
}
