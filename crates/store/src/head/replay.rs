//! What a start reads: series, closed chunks, and the journal's samples that are in none of them.
//!
//! Each shard by itself, several at a time:
//! 1. the definitions make rows;
//! 2. the files of closed chunks are checked and scanned; each row gets its last chunk;
//! 3. the segments are replayed; samples that a closed chunk has are passed over;
//! 4. series without samples leave, and those that had departed; the others go to the index.
//!
//! What is damaged is reported and costs what stands in it; nothing stops the start but a disk that
//! refuses.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::Head;
use super::chunk_file::{self, ChunkFile, Found, Header};
use super::departed::DepartedRows;
use super::log::{Finished, definitions_path, segment_path};
use super::row::{ChunkRef, Row, SHARDS_MAX, Size, Slot};
use super::sets::Pair;
use super::shard::{Contents, Shard, TIME_MAX, chunk_path, range_start};
use crate::chunk::{self, Encoder};
use crate::db::{DAMAGES_MAX, Recovery, SeriesId};
use crate::disk::Bytes;
use crate::journal;
use crate::journal::batch::{self, Decoder, Value};
use crate::journal::definition::{self, Numbers};
use crate::journal::record::{Item, Records};
use crate::select::Samples;
use crate::{Error, Labels};

/// In place of the numbers of a label.
const NO_LABEL: Numbers = (u32::MAX, u32::MAX);

/// Of a log of definitions, about so much is in memory when the index is filled: the index is the last to
/// come, when memory holds everything else already.
const PIECE_BYTES: usize = 256 << 10;

/// Rows up to twice as many as there are definitions and so many more are taken for what they are. Rows are
/// given lowest first, so one beyond that was given when there were more series, or never: 128 bytes of memory
/// for each row before it are spent when a chunk or the journal has samples of it, or of one behind it.
const ROWS_NEAR: usize = 1 << 16;

impl Recovery {
    pub(crate) fn damage(&mut self, what: impl FnOnce() -> String) {
        self.damaged += 1;
        if self.damages.len() < DAMAGES_MAX {
            self.damages.push(what());
        }
    }

    fn merge(&mut self, other: Recovery) {
        self.series += other.series;
        self.samples += other.samples;
        self.samples_lost += other.samples_lost;
        self.bytes += other.bytes;
        self.damaged += other.damaged;
        self.torn += other.torn;
        let room = DAMAGES_MAX.saturating_sub(self.damages.len());
        self.damages.extend(other.damages.into_iter().take(room));
    }
}

/// The files of one shard, by their numbers.
#[derive(Clone, Default)]
struct Files {
    definitions: Vec<u32>,
    segments: Vec<u32>,
    chunks: Vec<u32>,
}

/// The highest shard that has files, and one more; what [`Head::recover`] needs at least.
pub(crate) fn shards_on_disk(disk: &dyn crate::Disk) -> Result<usize, Error> {
    Ok(list(disk)?.len())
}

fn list(disk: &dyn crate::Disk) -> Result<Vec<Files>, Error> {
    let mut shards: Vec<Files> = Vec::new();
    for directory in ["journal", "head"] {
        disk.create_dir(directory).map_err(|error| Error::io(directory, error))?;
        for name in disk.list(directory).map_err(|error| Error::io(directory, error))? {
            let Some((shard, rest)) = name.split_once('-') else { continue };
            let (definitions, number) = match rest.strip_prefix("series-") {
                Some(number) => (true, number),
                None => (false, rest),
            };
            let (Ok(shard), Ok(number)) = (shard.parse::<usize>(), number.parse::<u32>()) else {
                continue;
            };
            let path = match (directory, definitions) {
                ("journal", true) => definitions_path(shard, number),
                ("journal", false) => segment_path(shard, number),
                _ => chunk_path(shard, number),
            };
            // Of another name for the same numbers, nothing would be found.
            if shard >= SHARDS_MAX || path != format!("{directory}/{name}") {
                continue;
            }
            if shards.len() <= shard {
                shards.resize_with(shard + 1, Files::default);
            }
            let files = &mut shards[shard];
            match (directory, definitions) {
                ("journal", true) => files.definitions.push(number),
                ("journal", false) => files.segments.push(number),
                _ => files.chunks.push(number),
            }
        }
    }
    for files in &mut shards {
        for numbers in [&mut files.definitions, &mut files.segments, &mut files.chunks] {
            numbers.sort_unstable();
        }
    }
    Ok(shards)
}

impl Head {
    /// Reads what the disk holds; the head is empty before. Samples before the head's start are
    /// passed over, and the rows of `departed` do not come back.
    pub(crate) fn recover(&self, departed: &DepartedRows) -> Result<Recovery, Error> {
        let files = list(&*self.limits.disk)?;
        let next = AtomicUsize::new(0);
        let all = Mutex::new((Recovery::default(), Ok(()), Vec::new()));
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(files) = files.get(number) else { break };
                let mut replay = Replay {
                    head: self,
                    files,
                    departed,
                    shard: &mut self.shards[number].lock(),
                    recovery: Recovery::default(),
                    defined: Vec::new(),
                    closed_until: Vec::new(),
                    pieces: Vec::new(),
                    broken: HashMap::new(),
                    min_time: i64::MAX,
                    generation: 0,
                    start: self.start.load(Ordering::Acquire),
                    twins: Vec::new(),
                };
                let result = replay.run();
                let (recovery, twins) = (replay.recovery, replay.twins);
                let mut all = all.lock();
                all.0.merge(recovery);
                all.2.extend(twins);
                if result.is_err() {
                    all.1 = result;
                }
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(files.len());
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        let (mut recovery, result, twins) = all.into_inner();
        result?;
        for (id, labels) in twins {
            self.settle(id, &labels, departed, &mut recovery);
        }
        Ok(recovery)
    }

    /// Of two series with the same labels, of which this one is not in the index, the one to which
    /// something came later stays: it is the one that is appended to. The other one departed, and came
    /// back as this; a start takes it for the head's where the file that tells is damaged.
    fn settle(
        &self,
        id: SeriesId,
        labels: &Labels,
        departed: &DepartedRows,
        recovery: &mut Recovery,
    ) {
        let last = |id: SeriesId| {
            let shard = self.shards[id.slot().shard()].lock();
            shard.rows.series(id).and_then(Row::last).map(|(last, _)| last)
        };
        let mut index = self.index.write();
        if index.contains(id) || last(id).is_none() {
            // It was defined twice, and is settled.
            return;
        }
        let mut leaving = id;
        if let Some(other) = index.find_near(labels.iter(), id.slot().shard())
            && last(id) > last(other)
        {
            leaving = other;
            index.remove(&[other]);
            index.insert(id, labels.iter());
        }
        let slot = leaving.slot();
        self.shards[slot.shard()].lock().remove(slot.row());
        // What departed is found elsewhere.
        if departed.until(slot.shard(), slot.row(), leaving.generation()).is_none() {
            recovery.damage(|| {
                format!("journal: two series have the labels {labels}: the older one is left out")
            });
        }
    }
}

struct Replay<'a> {
    head: &'a Head,
    files: &'a Files,
    departed: &'a DepartedRows,
    shard: &'a mut Shard,
    recovery: Recovery,
    /// Rows and generations that the logs define, as long as there are no rows.
    defined: Vec<(u32, u32)>,
    /// By row: the last time in a closed chunk.
    closed_until: Vec<i64>,
    /// The logs of definitions in pieces of whole records: the number of the log, and what part of it.
    pieces: Vec<(u32, Range<usize>)>,
    /// By row: chains with a gap.
    broken: HashMap<u32, Broken>,
    /// The earliest time of samples that were appended here, whose chunks may be closed again.
    min_time: i64,
    /// The highest that was seen.
    generation: u32,
    /// What lies before is in blocks.
    start: i64,
    /// Series with the labels of others, which aren't in the index.
    twins: Vec<(SeriesId, Labels)>,
}

/// A series whose chunks have a gap: behind a damage, or where the loss of power took an earlier
/// chunk and left a later one. Chunks and journal together are written anew.
#[derive(Default)]
struct Broken {
    /// Those behind the gap.
    chunks: Vec<ChunkRef>,
    /// What the journal has of the time since the gap.
    samples: BTreeMap<i64, u64>,
}

impl Replay<'_> {
    fn run(&mut self) -> Result<(), Error> {
        for &number in &self.files.definitions {
            let path = definitions_path(self.shard.number, number);
            let Some(bytes) = self.read(&path, &journal::MAGIC)? else { continue };
            self.shard.log.definitions_bytes += bytes.len() as u64;
            self.define(&path, number, &bytes);
        }
        self.shard.log.recovered_definitions(&self.files.definitions);
        self.restore()?;
        self.closed_until = vec![i64::MIN; self.shard.rows.len() as usize];
        self.chunks()?;
        // The one that was begun behind a segment tells how much of it counts.
        let mut told = HashMap::new();
        for &number in &self.files.segments {
            if let Some((previous, bytes)) = self.previous(number)? {
                told.entry(previous).or_insert(bytes);
            }
        }
        for &number in &self.files.segments {
            let path = segment_path(self.shard.number, number);
            let bytes = self.read(&path, &journal::MAGIC)?;
            let mut length = bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
            length = told.get(&number).map_or(length, |&bytes| length.min(bytes));
            // Nobody knows how much of it is durable: the next sync sees to it.
            let finished = Finished { number, bytes: length, synced: false };
            self.shard.log.finished.push(finished);
            self.shard.log.number = number + 1;
            if let Some(bytes) = bytes {
                self.segment(&path, number, &bytes[..length as usize])?;
            }
        }
        self.repair()?;
        self.shard.flush_replayed()?;
        self.finish()
    }

    /// The bytes of a file, if it is one of ours and not empty.
    fn read(&mut self, path: &str, magic: &[u8; 8]) -> Result<Option<Bytes>, Error> {
        let disk = &self.shard.limits.disk;
        let bytes = disk.map(path).map_err(|error| Error::io(path, error))?;
        self.recovery.bytes += bytes.len() as u64;
        if bytes.starts_with(magic) {
            return Ok(Some(bytes));
        }
        let good = bytes.iter().zip(magic).take_while(|(a, b)| a == b).count();
        if bytes.len() < journal::SEGMENT_HEADER || bytes[good..].iter().all(|&byte| byte == 0) {
            // The end came between the file and its first bytes.
            self.recovery.torn += u64::from(!bytes.is_empty());
        } else {
            self.recovery.damage(|| {
                format!(
                    "{path}: it doesn't begin as this version's files do: nothing of it is used"
                )
            });
        }
        Ok(None)
    }

    /// What a segment says of the length of the one before, if it says so.
    fn previous(&self, number: u32) -> Result<Option<(u32, u64)>, Error> {
        let mut header = [0; journal::SEGMENT_HEADER];
        let path = segment_path(self.shard.number, number);
        match self.shard.limits.disk.read_at(&path, 0, &mut header) {
            Ok(()) => Ok(journal::previous_segment(&header)),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(Error::io(path, error)),
        }
    }

    fn torn_or_damaged(&mut self, path: &str, offset: usize, length: usize, torn: bool) {
        if torn {
            self.recovery.torn += 1;
        } else {
            self.recovery
                .damage(|| format!("{path}: {length} bytes from byte {offset} on are lost"));
        }
    }

    fn define(&mut self, path: &str, number: u32, bytes: &[u8]) {
        let mut records = Records::new(bytes, journal::MAGIC.len());
        let mut begin = records.offset();
        while let Some(item) = records.next() {
            let end = records.offset();
            if end - begin >= PIECE_BYTES || end == bytes.len() {
                self.pieces.push((number, begin..end));
                begin = end;
            }
            match item {
                Item::Record([definition::KIND, payload @ ..]) => {
                    let read = definition::decode_rows(payload, |row, generation| {
                        self.generation = self.generation.max(generation);
                        self.defined.push((row, generation));
                    });
                    if read.is_none() {
                        self.recovery.damage(|| format!("{path}: a record makes no sense"));
                    }
                }
                Item::Record(_) => {
                    self.recovery.damage(|| format!("{path}: a record of an unknown kind"));
                }
                Item::Damage { offset, length, torn } => {
                    self.torn_or_damaged(path, offset, length, torn);
                }
            }
        }
    }

    /// Makes the rows that are defined, but for those far away of which there is nothing: they would leave at
    /// the end in any case, and cost memory for all rows before them until then.
    fn restore(&mut self) -> Result<(), Error> {
        let defined = std::mem::take(&mut self.defined);
        self.shard.log.defined += defined.len() as u64;
        let near = u32::try_from(2 * defined.len() + ROWS_NEAR).unwrap_or(u32::MAX);
        let is_far = defined.iter().any(|&(row, _)| row >= near);
        let end = if is_far { near.max(self.rows_with_samples()?) } else { near };
        for (row, generation) in defined.into_iter().filter(|&(row, _)| row < end) {
            self.shard.rows.restore(row, generation);
        }
        Ok(())
    }

    /// The number behind the highest row of which a chunk or the journal tells.
    fn rows_with_samples(&self) -> Result<u32, Error> {
        let disk = &self.shard.limits.disk;
        let map = |path: String| disk.map(&path).map_err(|error| Error::io(path, error));
        let mut end = 0;
        for &number in &self.files.chunks {
            let bytes = map(chunk_path(self.shard.number, number))?;
            let chunks = bytes.starts_with(&chunk_file::MAGIC).then(|| chunk_file::scan(&bytes));
            for found in chunks.into_iter().flatten() {
                if let Found::Chunk(_, header, _) = found {
                    end = end.max(header.row.saturating_add(1));
                }
            }
        }
        for &number in &self.files.segments {
            let bytes = map(segment_path(self.shard.number, number))?;
            let is_ours = bytes.starts_with(&journal::MAGIC);
            let records = is_ours.then(|| Records::new(&bytes, journal::SEGMENT_HEADER));
            for item in records.into_iter().flatten() {
                if let Item::Record([batch::KIND, payload @ ..]) = item
                    && let Some((_, rows)) = Decoder::new(payload)
                {
                    end = end.max(rows.end);
                }
            }
        }
        Ok(end)
    }

    fn chunks(&mut self) -> Result<(), Error> {
        for &number in &self.files.chunks {
            let path = chunk_path(self.shard.number, number);
            let disk = self.shard.limits.disk.clone();
            let file = Arc::new(ChunkFile::new(disk, path.clone(), number));
            self.shard.files = self.shard.files.with(file);
            let mut contents = Contents::new(number);
            let bytes = self.read(&path, &chunk_file::MAGIC)?;
            contents.bytes = bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
            for found in bytes.iter().flat_map(|bytes| chunk_file::scan(bytes)) {
                match found {
                    Found::Chunk(offset, header, size) => {
                        contents.earliest = contents.earliest.min(header.min_time);
                        contents.latest = contents.latest.max(header.max_time);
                        contents.chunks += 1;
                        self.chunk(ChunkRef::new(number, offset as u32), &header, size)?;
                    }
                    Found::Damage { offset, length, last } => {
                        self.torn_or_damaged(&path, offset, length, last);
                    }
                }
            }
            self.shard.contents.push(contents);
        }
        // Behind some gaps everything was written anew, and that is here.
        let (files, until) = (&self.shard.files, &self.closed_until);
        let mut refused = Ok(());
        self.broken.retain(|&row, broken| {
            broken.chunks.retain(|&at| match files.chunk(at) {
                Ok(chunk) => {
                    chunk.is_some_and(|chunk| chunk.header().max_time > until[row as usize])
                }
                Err(error) => {
                    refused = Err(error);
                    false
                }
            });
            !broken.chunks.is_empty()
        });
        refused
    }

    /// Links a closed chunk to its row.
    fn chunk(&mut self, at: ChunkRef, header: &Header, size: Size) -> Result<(), Error> {
        let start = self.start;
        self.generation = self.generation.max(header.generation);
        let Some(row) = self.shard.rows.get(header.row) else { return Ok(()) };
        if !row.is_alive() || row.generation != header.generation || header.max_time < start {
            return Ok(());
        }
        let last = row.closed;
        if header.previous != last && !self.predecessor_is_there(header, last, start)? {
            // What lies between is lost here, and may still be in the journal.
            self.broken.entry(header.row).or_default().chunks.push(at);
            return Ok(());
        }
        // A chunk whose writing failed was written again, with what had come to it since, and one
        // behind a gap was, with what filled it: the later one holds all, and leads past the other.
        let Some(row) = self.shard.rows.get_mut(header.row) else { return Ok(()) };
        row.restore_closed(header.row, at, size);
        self.closed_until[header.row as usize] = header.max_time;
        self.head.min_time.fetch_min(header.min_time.max(start), Ordering::Relaxed);
        Ok(())
    }

    /// Whether what a chunk names as the one before it, which isn't the row's last one, is still a
    /// good one to go on from; or gone with its file, which needs no more.
    ///
    /// # Errors
    /// The disk refused.
    fn predecessor_is_there(
        &self,
        header: &Header,
        last: ChunkRef,
        start: i64,
    ) -> Result<bool, Error> {
        let previous = header.previous;
        if self.broken.get(&header.row).is_some_and(|broken| broken.chunks.contains(&previous)) {
            return Ok(false);
        }
        if previous == ChunkRef::NONE {
            return Ok(true);
        }
        Ok(match self.shard.files.chunk(previous) {
            Ok(None) => self.files.chunks.first().is_none_or(|&first| previous.file() < first),
            Ok(Some(chunk)) => {
                let found = chunk.header();
                let same = (found.row, found.generation) == (header.row, header.generation);
                same && (found.max_time < start
                    || found.max_time < header.min_time && previous < last)
            }
            Err(error) if error.is_corrupt() => false,
            Err(error) => return Err(error),
        })
    }

    /// Replays a segment: rows that share no batch one after the other, each with all its batches, so
    /// that a target's rows and chunks stay in the processor's cache. (Batch by batch, every sample
    /// would wait for memory.)
    fn segment(&mut self, path: &str, number: u32, bytes: &[u8]) -> Result<(), Error> {
        let mut batches = Vec::new();
        for item in Records::new(bytes, journal::SEGMENT_HEADER) {
            match item {
                Item::Record([batch::KIND, payload @ ..]) => match Decoder::new(payload) {
                    Some((_, rows)) => batches.push((rows, payload)),
                    None => self.recovery.damage(|| format!("{path}: a record makes no sense")),
                },
                Item::Record(_) => {
                    self.recovery.damage(|| format!("{path}: a record of an unknown kind"));
                }
                Item::Damage { offset, length, torn } => {
                    self.torn_or_damaged(path, offset, length, torn);
                }
            }
        }
        for index in grouped(&batches) {
            let Some((mut decoder, _)) = Decoder::new(batches[index].1) else { continue };
            if !self.batch(number, &mut decoder)? {
                self.recovery.damage(|| format!("{path}: a record makes no sense"));
            }
        }
        Ok(())
    }

    /// Replays a batch; `false` if it makes no sense.
    fn batch(&mut self, segment: u32, decoder: &mut Decoder<'_>) -> Result<bool, Error> {
        while decoder.has_run() {
            let Some(run) = decoder.run() else { return Ok(false) };
            self.generation = self.generation.max(run.generation);
            let mut at = run.first;
            while at < run.first + run.length {
                let left = run.first + run.length - at;
                let Some(read) = self.rows(segment, decoder, (at, left, run.generation))? else {
                    return Ok(false);
                };
                at += read;
            }
        }
        Ok(decoder.is_whole())
    }

    /// Replays samples of rows that lie together, until a chunk has to be closed. Answers how many;
    /// `None` if they make no sense.
    #[inline]
    fn rows(
        &mut self,
        segment: u32,
        decoder: &mut Decoder<'_>,
        (first, length, generation): (u32, u32, u32),
    ) -> Result<Option<u32>, Error> {
        let (start, departed, shard) = (self.start, self.departed, self.shard.number);
        let lost = Lost { departed, start, shard, generation };
        let Shard { rows, slab, open_chunks, limits, .. } = &mut *self.shard;
        let rows = rows.run_mut(first, length as usize);
        if rows.is_empty() {
            let lost = lost.all(decoder, first..first + length);
            self.recovery.samples_lost += lost.unwrap_or(0);
            return Ok(lost.map(|_| length));
        }
        let (mut read, mut closing) = (0, None);
        // The block of the times so far.
        let mut range = (i64::MAX, i64::MIN);
        for row in rows {
            let number = first + read;
            let Some((time, value)) = decoder.sample() else { return Ok(None) };
            read += 1;
            if !row.is_alive() || row.generation != generation {
                self.recovery.samples_lost += u64::from(lost.is(number, time));
                continue;
            }
            let bits = told(row, segment, value);
            let closed = self.closed_until.get(number as usize).copied();
            let known = row.last().map_or(i64::MIN, |(last, _)| last);
            if time < start || time <= known.max(closed.unwrap_or(i64::MIN)) {
                continue;
            }
            let Some(bits) = bits.filter(|_| time.unsigned_abs() <= TIME_MAX) else {
                // The record with the value from which this one differs is damaged.
                self.recovery.samples_lost += 1;
                continue;
            };
            self.recovery.samples += 1;
            self.min_time = self.min_time.min(time);
            if !self.broken.is_empty()
                && let Some(broken) = self.broken.get_mut(&number)
            {
                // Of samples of the same time, the first one was taken.
                broken.samples.entry(time).or_insert(bits);
                continue;
            }
            if time < range.0 || time >= range.1 {
                let start = range_start(time, limits.block_range);
                range = (start, start.saturating_add(limits.block_range));
            }
            if row.is_open() && row.min_time() < range.0 {
                closing = Some((number, Some((time, bits))));
                break;
            }
            *open_chunks += u64::from(!row.is_open());
            row.append(slab, segment, time, bits);
            if row.is_full(number) {
                closing = Some((number, None));
                break;
            }
        }
        if let Some((number, later)) = closing {
            self.shard.close_replayed(number)?;
            if let Some((time, bits)) = later {
                self.shard.replay(number, segment, time, bits)?;
            }
        }
        Ok(Some(read))
    }

    /// Writes series whose chunks have a gap anew from the gap on.
    fn repair(&mut self) -> Result<(), Error> {
        let start = self.start;
        for (row, mut broken) in std::mem::take(&mut self.broken) {
            let mut samples = Samples::default();
            for &at in &broken.chunks {
                let Some(chunk) = self.shard.files.chunk(at)? else { continue };
                let encoding = chunk.header().encoding;
                if chunk::decode(encoding, chunk.data(), start, i64::MAX, &mut samples).is_err() {
                    self.recovery.damage(|| "head: a chunk can't be decoded".to_owned());
                }
            }
            let closed = samples.timestamps.into_iter().zip(samples.values);
            let known = self.closed_until[row as usize];
            for (time, value) in closed.filter(|&(time, _)| time > known) {
                broken.samples.insert(time, value.to_bits());
            }
            let segment = self.shard.log.number;
            for (time, bits) in broken.samples {
                self.min_time = self.min_time.min(time);
                self.shard.replay(row, segment, time, bits)?;
            }
            // What came from chunks is in no segment: it must not stay in memory alone.
            self.shard.close_replayed(row)?;
        }
        Ok(())
    }

    /// Removes series without samples, and gives the others to the index.
    fn finish(&mut self) -> Result<(), Error> {
        let (mut min_time, mut max_time) = (self.min_time, i64::MIN);
        for number in 0..self.shard.rows.len() {
            let row = self.shard.rows.get_mut(number).expect("rows are consecutive");
            if !row.is_alive() {
                continue;
            }
            if row.is_open() {
                min_time = min_time.min(row.min_time());
            } else if row.closed != ChunkRef::NONE && row.last().is_none() {
                // Of the last chunk, the time and the value of the last sample are wanted.
                let chunk = self.shard.files.chunk(row.closed)?;
                let encoder = chunk.and_then(|chunk| Encoder::resume(chunk.data()).ok());
                if let Some(last) = encoder.filter(|encoder| !encoder.is_empty()) {
                    row.set_last(last.timestamp(), last.value().to_bits());
                }
            }
            let until = self.departed.until(self.shard.number, number, row.generation);
            match row.last() {
                // All that it has is found elsewhere.
                Some((last, _)) if !row.is_open() && until.is_some_and(|until| last <= until) => {
                    self.shard.rows.remove(number, &mut self.shard.slab);
                }
                Some((last, _)) => max_time = max_time.max(last),
                None => self.shard.rows.remove(number, &mut self.shard.slab),
            }
        }
        update(&self.head.min_time, &self.head.max_time, min_time, max_time);
        let departed = self.departed.generation(self.shard.number);
        self.shard.generation = self.generation.max(departed).saturating_add(1);
        self.shard.rows.find_free();
        // The index takes the most memory of all that a start takes for a while.
        self.closed_until = Vec::new();
        let (alive, rows) = (self.shard.rows.alive() as usize, self.shard.rows.len() as usize);
        self.head.index.write().reserve(alive, self.shard.number, rows);
        let disk = self.shard.limits.disk.clone();
        let mut bytes = Vec::new();
        for (number, piece) in std::mem::take(&mut self.pieces) {
            let path = definitions_path(self.shard.number, number);
            bytes.resize(piece.len(), 0);
            let read = disk.read_at(&path, piece.start as u64, &mut bytes);
            read.map_err(|error| Error::io(path.as_str(), error))?;
            self.index(&path, &bytes);
        }
        Ok(())
    }

    /// Gives the series of a piece of a log of definitions to the index.
    fn index(&mut self, path: &str, bytes: &[u8]) {
        let mut known = HashMap::<Numbers, Pair>::new();
        let (mut numbers, mut pairs) = (Vec::<Numbers>::new(), Vec::<Pair>::new());
        for item in Records::new(bytes, 0) {
            let Item::Record([definition::KIND, payload @ ..]) = item else { continue };
            known.clear();
            numbers.clear();
            pairs.clear();
            let mut index = self.head.index.write();
            let read = definition::decode(payload, |row, generation, strings, labels| {
                let id = SeriesId::new(Slot::new(self.shard.number, row), generation);
                if self.shard.rows.series(id).is_none() || index.contains(id) {
                    return;
                }
                numbers.resize(labels.len(), NO_LABEL);
                pairs.resize(labels.len(), Pair(0));
                for ((&label, before), pair) in labels.iter().zip(&mut numbers).zip(&mut pairs) {
                    // Most labels are those of the series before.
                    if *before != label {
                        *before = label;
                        *pair = *known.entry(label).or_insert_with(|| {
                            let (name, value) = strings.label(label);
                            index.pair_of(name, value)
                        });
                    }
                }
                if index.insert_pairs(id, &pairs) {
                    self.recovery.series += 1;
                    return;
                }
                if self.twins.last().is_none_or(|&(last, _)| last != id) {
                    let labels = labels.iter().map(|&label| strings.label(label));
                    self.twins.push((id, Labels::from_pairs(labels)));
                }
            });
            if read.is_none() {
                self.recovery.damage(|| format!("{path}: a record makes no sense"));
            }
        }
    }
}

/// The value that a record of a segment tells; `None` where it tells a difference from one that isn't known.
#[inline]
fn told(row: &mut Row, segment: u32, value: Value) -> Option<u64> {
    match value {
        Value::First(bits) => {
            (row.base, row.base_segment) = (bits, segment);
            Some(bits)
        }
        Value::Relative(change) if row.base_segment == segment => change.apply(row.base),
        Value::Relative(_) => None,
    }
}

/// Which samples without a row are lost: those of series whose definition is. A series that was removed had
/// nothing since the start, and what departed is safe.
struct Lost<'d> {
    departed: &'d DepartedRows,
    start: i64,
    shard: usize,
    generation: u32,
}

impl Lost<'_> {
    fn is(&self, row: u32, time: i64) -> bool {
        let until = || self.departed.until(self.shard, row, self.generation);
        time >= self.start && until().is_none_or(|until| time > until)
    }

    /// How many of the samples of these rows are; `None` if they make no sense.
    fn all(&self, decoder: &mut Decoder<'_>, rows: Range<u32>) -> Option<u64> {
        let mut lost = 0;
        for row in rows {
            let (time, _) = decoder.sample()?;
            lost += u64::from(self.is(row, time));
        }
        Some(lost)
    }
}

/// The order in which batches are replayed: those that share rows, directly or by others between them,
/// stay together and in their order.
fn grouped(batches: &[(Range<u32>, &[u8])]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..batches.len()).collect();
    order.sort_by_key(|&index| batches[index].0.start);
    let mut begin = 0;
    while begin < order.len() {
        let mut reach = batches[order[begin]].0.end;
        let mut end = begin + 1;
        while end < order.len() && batches[order[end]].0.start < reach {
            reach = reach.max(batches[order[end]].0.end);
            end += 1;
        }
        order[begin..end].sort_unstable();
        begin = end;
    }
    order
}

fn update(min: &AtomicI64, max: &AtomicI64, min_time: i64, max_time: i64) {
    min.fetch_min(min_time, Ordering::Relaxed);
    max.fetch_max(max_time, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Directory, Disk};
    use crate::head::row::ROWS_MAX;
    use crate::journal::record;
    use crate::{Db, Options};

    fn labels(number: u32) -> Labels {
        Labels::from_pairs([("number", number.to_string().as_str())])
    }

    #[test]
    fn a_row_far_away_costs_memory_only_where_it_has_samples() {
        // With a series of this row, too, whose samples are in the journal, or in a chunk alone.
        let cases = [(None, false), (Some(90_000), false), (Some(90_000), true)];
        for (case, (far, in_chunk)) in cases.into_iter().enumerate() {
            let name = format!("unladen-rows-{}-{case}", std::process::id());
            let root = std::env::temp_dir().join(name);
            let disk = Arc::new(Directory::open(&root).expect("a scratch directory"));
            let options = Options { shards: 1, ..Options::default() };
            let open = || Db::open(disk.clone(), options.clone(), 0).expect("it opens");
            let (db, _) = open();
            let mut appender = db.appender();
            let mut ids: Vec<_> =
                (0..10).map(|number| appender.series(&labels(number)).unwrap()).collect();
            if let Some(row) = far {
                // As if all rows before had been taken and left again.
                let mut index = db.core.head.index.write();
                let mut shard = db.core.head.shards[0].lock();
                assert!(shard.rows.restore(row, 3));
                shard.log.define(row, 3, labels(row));
                ids.push(SeriesId::new(Slot::new(0, row), 3));
                index.insert(ids[10], labels(row).iter());
            }
            for &id in &ids {
                appender.append(id, 1000, 7.5);
            }
            assert_eq!(appender.commit().unwrap().appended, ids.len() as u64);
            if in_chunk {
                let mut shard = db.core.head.shards[0].lock();
                assert_eq!(shard.close(0..ROWS_MAX, |_| true).unwrap(), ids.len() as u64);
            }
            db.close().unwrap();
            if in_chunk {
                disk.remove(&segment_path(0, 1)).unwrap();
            }
            let mut record = Vec::new();
            let begin = record::begin(&mut record);
            definition::encode(&mut record, [(ROWS_MAX - 1, 2, &labels(11))].into_iter());
            record::finish(&mut record, begin);
            disk.open_append(&definitions_path(0, 1)).unwrap().append(&record).unwrap();

            let (db, recovery) = open();
            assert_eq!((recovery.series, recovery.damages), (ids.len() as u64, Vec::new()));
            let shard = db.core.head.shards[0].lock();
            let rows = far.map_or(10, |row| row + 1);
            assert_eq!(shard.rows.len(), rows, "case {case}");
            for &id in &ids {
                let last = shard.rows.series(id).and_then(Row::last);
                assert_eq!(last, Some((1000, 7.5f64.to_bits())), "case {case}");
            }
            drop(shard);
            drop(db);
            let _ = std::fs::remove_dir_all(root);
        }
    }

    #[test]
    fn batches_that_share_rows_stay_in_their_order() {
        let cases: [(&[Range<u32>], &[usize]); 4] = [
            (&[], &[]),
            // Three targets, two scrapes.
            (&[10..20, 0..10, 20..25, 10..20, 0..10, 20..25], &[1, 4, 0, 3, 2, 5]),
            // The last batch lies between two others.
            (&[20..30, 0..10, 40..50, 5..25], &[0, 1, 3, 2]),
            // One without rows.
            (&[20..30, 0..0, 0..10], &[1, 2, 0]),
        ];
        for (rows, expected) in cases {
            let batches: Vec<_> = rows.iter().map(|rows| (rows.clone(), &[][..])).collect();
            assert_eq!(grouped(&batches), expected, "{rows:?}");
        }
    }
}
