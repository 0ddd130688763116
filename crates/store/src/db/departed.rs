//! Series that left the head before their samples are in a block: their labels, postings and the places
//! of their chunks, in a file beside the chunks.
//!
//! A file is the index of a block, whose references lead to the head's closed chunks, and a table of the
//! rows that left ([`layout`]). The chunks stay where they are: leaving costs some hundred bytes a series
//! and no copy of its samples. In memory remain an index' tables of offsets.
//!
//! Files are listed oldest first. Small ones are merged with their neighbours ([`to_merge`]), so that
//! there are few, and the merged one takes the place of the youngest. The same series may stand in
//! several files, and in one file twice if it came back while its past was still there; what is younger
//! is believed first, as the head is believed before all of them. The same chunk may be named twice,
//! after a crash between a merge and the removal of what was merged.
//!
//! Refuses samples of before the head's start, which are in blocks: chunks are named as long as one
//! of their file's series has a chunk in the head's range.

mod layout;
mod merge;

use std::ops::Deref;
use std::sync::Arc;

use super::Core;
use crate::block::index_writer::{ChunkEntry, IndexWriter};
use crate::block::{Index, lookup};
use crate::chunk;
use crate::disk::{Bytes, Disk};
use crate::head::chunk_file::{ChunkFiles, MappedChunk};
use crate::head::departed::{DepartedRow, DepartedRows};
use crate::head::row::ChunkRef;
use crate::select::{Cursor, Samples, Series};
use crate::{Error, Labels, Matcher};
use layout::Tail;
use layout::{place, reference};
pub(super) use merge::{Merge, merge, to_merge};

const TEMPORARY: &str = "head/departed.tmp";
const SCRATCH: &str = "head/departed.scratch";

/// The path of a file.
pub(super) fn path(number: u32) -> String {
    format!("head/departed-{number:08}")
}

/// An opened file of departed series.
pub(crate) struct Departed {
    number: u32,
    index: Index,
    /// Earliest and latest time of its chunks.
    pub(crate) first: i64,
    pub(crate) last: i64,
    /// How many series it names.
    pub(crate) series: u32,
    /// Its length.
    pub(crate) bytes: u64,
}

/// The first bytes of a file.
struct Front(Bytes, usize);

impl Deref for Front {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

/// What a start finds.
#[derive(Default)]
pub(super) struct Found {
    pub(super) departed: Vec<Arc<Departed>>,
    pub(super) rows: DepartedRows,
    /// Those that can't be read.
    pub(super) damaged: Vec<u32>,
    pub(super) damages: Vec<String>,
}

/// Opens all files; those that end before `start`, whose samples are in blocks, go.
///
/// # Errors
/// The disk refused. What is damaged is told in the answer.
pub(super) fn open_all(disk: &dyn Disk, start: i64) -> Result<Found, Error> {
    let mut found = Found::default();
    let mut rows = Vec::new();
    let names = disk.list("head").map_err(|error| Error::io("head", error))?;
    for name in names {
        let full = format!("head/{name}");
        if full == TEMPORARY || full == SCRATCH {
            disk.remove(&full).map_err(|error| Error::io(full.as_str(), error))?;
            continue;
        }
        let number = name.strip_prefix("departed-").and_then(|number| number.parse().ok());
        let Some(number) = number.filter(|&number| path(number) == full) else { continue };
        match Departed::open(disk, number) {
            Ok((departed, _)) if departed.last < start => {
                disk.remove(&full).map_err(|error| Error::io(full.as_str(), error))?;
            }
            Ok((departed, more)) => {
                rows.extend(more);
                found.departed.push(Arc::new(departed));
            }
            Err(error) if error.is_corrupt() => {
                found.damages.push(format!(
                    "{error}; series that had left the head are missing until their samples of \
                     that time"
                ));
                found.damaged.push(number);
            }
            Err(error) => return Err(error),
        }
    }
    found.departed.sort_by_key(|departed| departed.number);
    found.rows = DepartedRows::new(rows);
    Ok(found)
}

impl Departed {
    fn open(disk: &dyn Disk, number: u32) -> Result<(Departed, Vec<DepartedRow>), Error> {
        let path = path(number);
        let map = || disk.map(&path).map_err(|error| Error::io(path.as_str(), error));
        let bytes = map()?;
        let length = bytes.len() as u64;
        let Some((tail, end)) = Tail::decode(&bytes) else {
            return Err(Error::corrupt(path.as_str(), "its end is not that of a whole file"));
        };
        let mut index = Index::open(Arc::new(Front(bytes, end)), &path)?;
        index.map_anew(Arc::new(Front(map()?, end)));
        let Tail { first, last, series, rows } = tail;
        Ok((Departed { number, index, first, last, series, bytes: length }, rows))
    }

    /// Its file's number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Bytes of memory held.
    pub(super) fn memory(&self) -> usize {
        self.index.memory() + size_of::<Departed>()
    }

    /// Whether it may have samples of `from..=to`.
    pub(super) fn overlaps(&self, from: i64, to: i64) -> bool {
        self.first <= to && from <= self.last
    }

    /// The names of the labels of the series that pass, sorted.
    pub(super) fn label_names(&self, matchers: &[Matcher]) -> Result<Vec<&str>, Error> {
        lookup::label_names(&self.index, matchers)
    }

    /// The values of a label of the series that pass, sorted.
    pub(super) fn label_values(
        &self,
        name: &str,
        matchers: &[Matcher],
    ) -> Result<Vec<&str>, Error> {
        lookup::label_values(&self.index, name, matchers)
    }

    /// The series that pass `matchers` and have chunks in `from..=to`, in lists that are each sorted and
    /// have no series twice. The first one is believed most.
    ///
    /// # Errors
    /// The file is damaged where it had to be read.
    pub(super) fn select<'a>(
        &self,
        core: &'a Core,
        matchers: &[Matcher],
        from: i64,
        to: i64,
    ) -> Result<Vec<Vec<DepartedSeries<'a>>>, Error> {
        let mut lists: Vec<Vec<DepartedSeries<'a>>> = Vec::new();
        lookup::each_series(&self.index, matchers, |_, labels, chunks| {
            let wanted =
                chunks.iter().filter(|chunk| chunk.min_time <= to && from <= chunk.max_time);
            let chunks: Vec<_> = wanted.copied().collect();
            if chunks.is_empty() {
                return;
            }
            let series =
                DepartedSeries { core, labels: Labels::from_sorted(labels), chunks, from, to };
            let twice = |list: &Vec<DepartedSeries<'a>>| {
                list.last().is_some_and(|last| last.labels == series.labels)
            };
            match lists.iter().position(|list| !twice(list)) {
                Some(list) => lists[list].push(series),
                None => lists.push(vec![series]),
            }
        })?;
        Ok(lists)
    }

    /// The earliest time from `start` on of which a series has a chunk; `i64::MAX` if there is none.
    /// Reads every series where some chunks are older; where one can't be read, the answer may be too
    /// early.
    pub(super) fn earliest(&self, start: i64) -> i64 {
        if self.last < start {
            return i64::MAX;
        }
        let mut earliest = i64::MAX;
        let read = self.first < start
            && lookup::each_series(&self.index, &[], |_, _, chunks| {
                let since = chunks.iter().find(|chunk| chunk.max_time >= start);
                earliest = earliest.min(since.map_or(i64::MAX, |chunk| chunk.min_time.max(start)));
            })
            .is_ok();
        if read { earliest } else { self.first.max(start) }
    }
}

/// The files of closed chunks, shard by shard, as far as they were asked for.
pub(super) struct Files<'a> {
    core: &'a Core,
    shards: Vec<Option<ChunkFiles>>,
}

impl<'a> Files<'a> {
    pub(super) fn new(core: &'a Core) -> Self {
        Files { core, shards: Vec::new() }
    }

    /// Of a shard.
    pub(super) fn shard(&mut self, number: usize) -> Option<&ChunkFiles> {
        let shard = self.core.head.shards.get(number)?;
        if self.shards.len() <= number {
            self.shards.resize(number + 1, None);
        }
        Some(self.shards[number].get_or_insert_with(|| shard.lock().files.clone()))
    }

    /// Gives the mappings back.
    pub(super) fn unmap(&self) {
        let files = self.shards.iter().flatten().flat_map(ChunkFiles::files);
        files.for_each(|file| file.unmap());
    }

    /// The chunk that an entry leads to.
    ///
    /// # Errors
    /// It isn't there, or something else is.
    pub(super) fn chunk(&mut self, entry: &ChunkEntry) -> Result<MappedChunk, Error> {
        let (shard, at) = place(entry.reference);
        let found = self.shard(shard).map_or(Ok(None), |files| files.chunk(at))?;
        let right = found.filter(|chunk| {
            let header = chunk.header();
            (header.min_time, header.max_time) == (entry.min_time, entry.max_time)
        });
        right.ok_or_else(|| {
            let (file, offset) = (at.file(), at.offset());
            let context = format!("head/{shard:02}-{file:08} at byte {offset}");
            Error::corrupt(context, "the chunk of a departed series is not there")
        })
    }
}

/// A selected series.
pub(super) struct DepartedSeries<'a> {
    core: &'a Core,
    labels: Labels,
    chunks: Vec<ChunkEntry>,
    from: i64,
    to: i64,
}

impl Series for DepartedSeries<'_> {
    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn cursor(&self) -> Box<dyn Cursor + '_> {
        Box::new(DepartedCursor { series: self, files: Files::new(self.core), next: 0 })
    }
}

/// Decodes a chunk at a time. After an error, the next call goes on behind the damaged chunk.
struct DepartedCursor<'a> {
    series: &'a DepartedSeries<'a>,
    files: Files<'a>,
    next: usize,
}

impl Cursor for DepartedCursor<'_> {
    fn next(&mut self, samples: &mut Samples) -> Result<bool, Error> {
        let DepartedSeries { labels, from, to, .. } = self.series;
        let before = samples.len();
        while let Some(entry) = self.series.chunks.get(self.next) {
            self.next += 1;
            let chunk = self.files.chunk(entry)?;
            let encoding = chunk.header().encoding;
            if let Err(damage) = chunk::decode(encoding, chunk.data(), *from, *to, samples) {
                samples.truncate(before);
                return Err(Error::corrupt(format!("head chunk of {labels}"), damage.to_string()));
            }
            if samples.len() > before {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A file being written. Dropped before [`Writer::finish`], it takes what it wrote with it.
pub(super) struct Writer<'d> {
    disk: &'d dyn Disk,
    index: Option<IndexWriter<'d>>,
    first: i64,
    last: i64,
}

impl<'d> Writer<'d> {
    pub(super) fn create(disk: &'d dyn Disk) -> Result<Self, Error> {
        let index = IndexWriter::create(disk, TEMPORARY.to_owned(), SCRATCH.to_owned())?;
        Ok(Writer { disk, index: Some(index), first: i64::MAX, last: i64::MIN })
    }

    /// Adds the next series in the order of labels, with chunks in the order of time.
    pub(super) fn series(&mut self, labels: &Labels, chunks: &[ChunkEntry]) -> Result<(), Error> {
        let (Some(first), Some(last)) = (chunks.first(), chunks.last()) else { return Ok(()) };
        self.first = self.first.min(first.min_time);
        self.last = self.last.max(last.max_time);
        self.index.as_mut().expect("taken by finish only").series(labels, chunks)
    }

    /// Makes the file durable under this number, in place of another one if there is one, and opens it.
    ///
    /// # Errors
    /// The disk refused. A whole file may be there all the same: it says nothing that the chunks and the
    /// journal don't.
    pub(super) fn finish(
        mut self,
        number: u32,
        rows: Vec<DepartedRow>,
    ) -> Result<Option<Arc<Departed>>, Error> {
        let index = self.index.take().expect("only finish takes it");
        let series = index.len();
        if series == 0 {
            return Ok(None);
        }
        let tail = Tail { first: self.first, last: self.last, series, rows };
        index.finish(&tail.encode())?;
        let path = path(number);
        self.disk.rename(TEMPORARY, &path).map_err(|error| Error::io(path.as_str(), error))?;
        super::maintain::sync_dir(self.disk, "head")?;
        let (departed, _) = Departed::open(self.disk, number)?;
        Ok(Some(Arc::new(departed)))
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.index = None;
        // What isn't there needs no removal; what can't be removed, the next start removes, and the next
        // writer writes anew.
        for path in [SCRATCH, TEMPORARY] {
            let _ = self.disk.remove(path);
        }
    }
}

/// The places of chunks of one shard as entries, in the order of time; `None` where one can't be told.
pub(super) fn entries<'c>(
    shard: usize,
    chunks: impl IntoIterator<Item = &'c MappedChunk>,
) -> Option<Vec<ChunkEntry>> {
    let entry = |chunk: &MappedChunk| {
        let (min_time, max_time) = (chunk.header().min_time, chunk.header().max_time);
        let at: ChunkRef = chunk.place();
        Some(ChunkEntry { min_time, max_time, reference: reference(shard, at)? })
    };
    chunks.into_iter().map(entry).collect()
}
