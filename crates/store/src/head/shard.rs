//! A shard of the head: rows, open chunks, and the files they go to.
//!
//! All that an append touches is here, behind one lock: a worker's series live in its shard, so that
//! workers do not wait for each other. How a batch is appended, [`super::commit`] says.

use std::sync::Arc;

use super::chunk_file::{self, ChunkFile, ChunkFiles, Header};
use super::commit::Accepted;
use super::log::Log;
use super::row::{CHUNK_BYTES, ChunkRef, Row, Rows};
use super::slab::{BLOCK, Chain, Slab};
use crate::Error;
use crate::chunk::Encoding;
use crate::db::SeriesId;
use crate::disk::{Disk, File};
use crate::journal::batch;

/// A file of chunks ends at about this size. Its offsets are 32 bits.
const CHUNK_FILE_BYTES: u64 = 64 << 20;

/// Chunks that are brought to the cache at once when they are closed.
const CHUNKS_AHEAD: usize = 32;

/// Times of samples are at most this far from the epoch, so that sums and differences of them are
/// numbers: 146 million years.
pub(crate) const TIME_MAX: u64 = 1 << 62;

/// What is common to all shards.
#[derive(Clone)]
pub(crate) struct Limits {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) block_range: i64,
    pub(crate) segment_bytes: u64,
    pub(crate) around_journal: fn(&mut dyn FnMut()),
}

/// Samples of one commit, as columns of the same length.
#[derive(Clone, Copy)]
pub(crate) struct Columns<'a> {
    pub(crate) ids: &'a [SeriesId],
    pub(crate) timestamps: &'a [i64],
    pub(crate) values: &'a [f64],
}

/// What was appended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    pub(crate) appended: u64,
    pub(crate) min_time: i64,
    pub(crate) max_time: i64,
}

impl Default for Tally {
    fn default() -> Self {
        Tally { appended: 0, min_time: i64::MAX, max_time: i64::MIN }
    }
}

/// What stands in a file of closed chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contents {
    pub(crate) number: u32,
    /// The earliest time of its samples.
    pub(crate) earliest: i64,
    /// The latest time of its samples.
    pub(crate) latest: i64,
    pub(crate) chunks: u64,
    pub(crate) bytes: u64,
}

impl Contents {
    /// Of a file without chunks.
    pub(crate) fn new(number: u32) -> Self {
        Contents { number, earliest: i64::MAX, latest: i64::MIN, chunks: 0, bytes: 0 }
    }
}

/// See the module.
pub(crate) struct Shard {
    pub(crate) limits: Limits,
    pub(crate) number: usize,
    pub(crate) rows: Rows,
    pub(crate) slab: Slab,
    pub(crate) log: Log,
    pub(crate) files: ChunkFiles,
    /// Beside `files`, in the same order.
    pub(crate) contents: Vec<Contents>,
    pub(crate) open_chunks: u64,
    /// Every new series gets this generation at least.
    pub(crate) generation: u32,
    /// Rounds of removal so far.
    pub(crate) round: u32,
    chunk_file: Option<Box<dyn File>>,
    pub(super) part: u16,
    pub(super) batch: batch::Encoder,
    pub(super) record: Vec<u8>,
    pub(super) accepted: Vec<Accepted>,
    pub(super) closing: Vec<(u32, ChunkRef)>,
    closing_bytes: Vec<u8>,
}

/// The range of blocks that a time is in.
pub(crate) fn range_start(time: i64, block_range: i64) -> i64 {
    time.div_euclid(block_range) * block_range
}

impl Shard {
    pub(crate) fn new(limits: Limits, number: usize) -> Self {
        Shard {
            number,
            rows: Rows::default(),
            slab: Slab::new(),
            log: Log::new(limits.clone(), number),
            files: ChunkFiles::default(),
            contents: Vec::new(),
            open_chunks: 0,
            generation: 1,
            round: 0,
            limits,
            chunk_file: None,
            part: 0,
            batch: batch::Encoder::default(),
            record: Vec::new(),
            accepted: Vec::new(),
            closing: Vec::new(),
            closing_bytes: Vec::new(),
        }
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.rows.memory()
            + self.slab.memory()
            + self.batch.memory()
            + self.record.capacity()
            + self.closing_bytes.capacity()
    }

    /// Appends a sample that the journal tells of. Chunks that end are closed in memory at once;
    /// [`Shard::flush_replayed`] has to follow before anybody reads.
    pub(crate) fn replay(
        &mut self,
        number: u32,
        segment: u32,
        time: i64,
        bits: u64,
    ) -> Result<(), Error> {
        let Some(row) = self.rows.get_mut(number) else { return Ok(()) };
        if row.is_open() && crosses(row, time, self.limits.block_range) {
            self.close_replayed(number)?;
        }
        let Some(row) = self.rows.get_mut(number) else { return Ok(()) };
        self.open_chunks += u64::from(!row.is_open());
        row.append(&mut self.slab, segment, time, bits);
        if row.is_full(number) { self.close_replayed(number) } else { Ok(()) }
    }

    /// Closes the open chunk of a row, if there is one, as [`Shard::replay`] does.
    pub(crate) fn close_replayed(&mut self, number: u32) -> Result<(), Error> {
        if !self.rows.get(number).is_some_and(Row::is_open) {
            return Ok(());
        }
        let at = self.encode_chunk(number)?;
        let row = self.rows.get_mut(number).expect("its chunk was just encoded");
        row.close_chunk(number, &mut self.slab, at);
        self.open_chunks -= 1;
        if self.closing_bytes.len() >= 1 << 20 { self.flush_replayed() } else { Ok(()) }
    }

    /// Writes the chunks that [`Shard::replay`] closed.
    pub(crate) fn flush_replayed(&mut self) -> Result<(), Error> {
        if self.closing_bytes.is_empty() { Ok(()) } else { self.write_chunks() }
    }

    /// Appends the open chunk of a row to the bytes that go to the chunk file next, and answers where
    /// it will stand.
    fn encode_chunk(&mut self, number: u32) -> Result<ChunkRef, Error> {
        let (file, size) = self.chunk_file()?;
        let row = self.rows.get(number).expect("who closes a chunk has looked at the row");
        let at = ChunkRef::new(file, (size + self.closing_bytes.len() as u64) as u32);
        let header = Header {
            row: number,
            generation: row.generation,
            encoding: Encoding::XOR,
            previous: row.closed,
            min_time: row.min_time(),
            max_time: row.last().map_or(row.min_time(), |(last, _)| last),
        };
        let slab = &self.slab;
        let copy = |out: &mut Vec<u8>| row.copy_chunk(slab, out);
        chunk_file::encode(&mut self.closing_bytes, &header, row.chunk_bytes(), copy);
        if let Some(contents) = self.contents.last_mut() {
            contents.earliest = contents.earliest.min(header.min_time);
            contents.latest = contents.latest.max(header.max_time);
            contents.chunks += 1;
        }
        Ok(at)
    }

    fn write_chunks(&mut self) -> Result<(), Error> {
        let file = self.chunk_file.as_mut().expect("encoding a chunk opens it");
        let result = file.append(&self.closing_bytes);
        let contents = self.contents.last_mut().expect("the open file is listed");
        contents.bytes += self.closing_bytes.len() as u64;
        self.closing_bytes.clear();
        result.map_err(|error| {
            // Who knows what stands at its end now.
            self.chunk_file = None;
            Error::io(chunk_path(self.number, contents.number), error)
        })
    }

    /// Makes the row of a series that is not in the index vacant, with what it has.
    pub(crate) fn remove(&mut self, number: u32) {
        let Some(row) = self.rows.get(number).filter(|row| row.is_alive()) else { return };
        self.open_chunks -= u64::from(row.is_open());
        self.rows.remove(number, &mut self.slab);
    }

    /// Closes the open chunks of those of `rows` of which `which` says so, which is asked of all that have
    /// one. Answers how many. Allocates nothing where none is closed.
    ///
    /// # Errors
    /// The disk refused; the chunks are still open.
    pub(crate) fn close(
        &mut self,
        rows: std::ops::Range<u32>,
        mut which: impl FnMut(&Row) -> bool,
    ) -> Result<u64, Error> {
        let before = self.closing.len();
        let closing = self.rows.each(rows).filter(|(_, row)| row.is_open() && which(row));
        self.closing.extend(closing.map(|(row, _)| (row, ChunkRef::NONE)));
        let closing = self.closing.len() - before;
        self.write_closing()?;
        Ok(closing as u64)
    }

    pub(super) fn write_closing(&mut self) -> Result<(), Error> {
        // A chunk may wait here twice when the disk refused it before.
        self.closing.sort_unstable_by_key(|&(row, _)| row);
        self.closing.dedup_by_key(|&mut (row, _)| row);
        let rows = &self.rows;
        self.closing.retain(|&(row, _)| rows.get(row).is_some_and(Row::is_open));
        if self.closing.is_empty() {
            return Ok(());
        }
        for index in 0..self.closing.len() {
            if index.is_multiple_of(CHUNKS_AHEAD) {
                self.prefetch_closing(index);
            }
            let at = self.encode_chunk(self.closing[index].0);
            self.closing[index].1 = at.inspect_err(|_| self.closing_bytes.clear())?;
        }
        self.write_chunks()?;
        for &(number, at) in &self.closing {
            let row = self.rows.get_mut(number).expect("it was just looked at");
            row.close_chunk(number, &mut self.slab, at);
        }
        self.open_chunks -= self.closing.len() as u64;
        self.closing.clear();
        Ok(())
    }

    /// Has the next chunks that are closed brought to the cache: nobody has touched most of their blocks for
    /// dozens of scrapes.
    fn prefetch_closing(&self, index: usize) {
        let mut chains = [Chain::EMPTY; CHUNKS_AHEAD];
        for (chain, &(row, _)) in chains.iter_mut().zip(&self.closing[index..]) {
            *chain = self.rows.get(row).map_or(Chain::EMPTY, Row::chain);
        }
        self.slab.prefetch_all(&mut chains, CHUNK_BYTES.div_ceil(BLOCK));
    }

    /// The chunk file that is written to: its number and size.
    fn chunk_file(&mut self) -> Result<(u32, u64), Error> {
        if let Some(file) = &self.chunk_file
            && file.size() < CHUNK_FILE_BYTES
        {
            let number = self.contents.last().expect("the open file is listed").number;
            return Ok((number, file.size()));
        }
        let number = self.contents.last().map_or(0, |last| last.number) + 1;
        let path = chunk_path(self.number, number);
        let disk = &self.limits.disk;
        let mut file = disk.create(&path).map_err(|error| Error::io(path.as_str(), error))?;
        file.append(&chunk_file::MAGIC).map_err(|error| Error::io(path.as_str(), error))?;
        let size = file.size();
        self.chunk_file = Some(file);
        self.files = self.files.with(Arc::new(ChunkFile::new(disk.clone(), path, number)));
        self.contents.push(Contents { bytes: size, ..Contents::new(number) });
        Ok((number, size))
    }

    /// Goes on with another chunk file if the one so far has anything of before `to`, so that it can
    /// be dropped some day.
    pub(crate) fn end_chunk_file(&mut self, to: i64) {
        if self.contents.last().is_some_and(|last| last.earliest < to) {
            self.chunk_file = None;
        }
    }
}

/// Whether a sample of this time belongs to another block than the open chunk of the row.
fn crosses(row: &Row, time: i64, block_range: i64) -> bool {
    // One division for two: a chunk is not open for longer than a block.
    time.saturating_sub(range_start(row.min_time(), block_range)) >= block_range
}

/// The path of a file of closed chunks.
pub(crate) fn chunk_path(shard: usize, number: u32) -> String {
    format!("head/{shard:02}-{number:08}")
}
