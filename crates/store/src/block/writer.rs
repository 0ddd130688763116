//! Writes a block: its directory appears whole or not at all.
//!
//! Everything goes through [`Disk`], in an order that a crash at any point leaves readable:
//!
//! 1. into the directory `<ulid>.tmp-for-creation`, which every start throws away: chunks as they
//!    come, then `index`, `tombstones` and `meta.json`;
//! 2. every file is made durable, then the entries of both directories;
//! 3. the directory gets its name, and the entry of that is made durable.
//!
//! Chunks are copied as they are. Where samples have to be rewritten (overlaps, deletions), that is
//! the caller's work, in front of this.

use std::ops::RangeInclusive;

use super::catalog::CREATION;
use super::index_writer::{ChunkEntry, IndexWriter};
use super::layout::SEGMENT_BYTES_MAX;
use super::meta::Meta;
use super::output::Output;
use super::segments::SegmentWriter;
use crate::chunk::{self, Encoding};
use crate::disk::Disk;
use crate::{Error, Labels};

/// A chunk as it is handed from one place to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChunkData<'a> {
    /// Time of its first sample, in milliseconds.
    pub min_time: i64,
    /// Time of its last sample.
    pub max_time: i64,
    /// How it is encoded.
    pub encoding: Encoding,
    /// Its bytes, number of samples first.
    pub bytes: &'a [u8],
}

impl ChunkData<'_> {
    /// From the first to the last sample.
    pub fn range(&self) -> RangeInclusive<i64> {
        self.min_time..=self.max_time
    }
}

/// A block being written. Dropped before [`BlockWriter::finish`], it takes its files with it.
///
/// Memory: the distinct strings and label pairs, four bytes per series at the end, and 32 MiB.
pub struct BlockWriter<'d> {
    disk: &'d dyn Disk,
    /// Empty once finished.
    directory: String,
    meta: Meta,
    index: Option<IndexWriter<'d>>,
    chunks: Option<SegmentWriter<'d>>,
    /// Whether there was a series.
    begun: bool,
    /// Those of the current one.
    labels: Labels,
    entries: Vec<ChunkEntry>,
}

impl<'d> BlockWriter<'d> {
    /// Starts the block that `meta` names. Its statistics are counted here; all else is taken over.
    ///
    /// # Errors
    /// The disk refused.
    pub fn create(disk: &'d dyn Disk, meta: Meta) -> Result<Self, Error> {
        Self::with_segment_size(disk, meta, SEGMENT_BYTES_MAX)
    }

    /// As [`BlockWriter::create`], with files of chunks of at most `bytes_max`, where a single chunk
    /// is not longer. A block in object storage may want smaller ones than 512 MiB.
    ///
    /// # Errors
    /// The disk refused.
    pub fn with_segment_size(
        disk: &'d dyn Disk,
        mut meta: Meta,
        bytes_max: u64,
    ) -> Result<Self, Error> {
        let directory = format!("{}{CREATION}", meta.ulid);
        let chunks = format!("{directory}/chunks");
        disk.create_dir(&chunks).map_err(|error| Error::io(chunks, error))?;
        meta.stats = super::meta::Stats::default();
        Ok(BlockWriter {
            index: Some(IndexWriter::create(
                disk,
                format!("{directory}/index"),
                format!("{directory}/series.scratch"),
            )?),
            chunks: Some(SegmentWriter::new(disk, &directory, bytes_max.min(SEGMENT_BYTES_MAX))),
            disk,
            directory,
            meta,
            begun: false,
            labels: Labels::empty(),
            entries: Vec::new(),
        })
    }

    /// Begins the next series; its chunks follow by [`BlockWriter::chunk`]. A series without chunks
    /// leaves no trace.
    ///
    /// # Errors
    /// The disk refused; or, corrupt, the labels do not come after those of the last series. Then
    /// nothing has changed, and the caller may go on with another series.
    pub fn series(&mut self, labels: &Labels) -> Result<(), Error> {
        if self.begun && self.labels >= *labels {
            let reason = format!("it does not come after {} in the order of labels", self.labels);
            return Err(Error::corrupt(format!("series {labels}"), reason));
        }
        self.end_series()?;
        self.begun = true;
        self.labels = labels.clone();
        Ok(())
    }

    /// Adds the next chunk to the series, verbatim.
    ///
    /// # Errors
    /// The disk refused; or, corrupt, the bytes are no chunk, or one of a time outside the block or
    /// not behind the last chunk. Then nothing has changed, and the caller may go on without it.
    pub fn chunk(&mut self, chunk: &ChunkData<'_>) -> Result<(), Error> {
        let refuse = |reason: String| {
            let context = format!("chunk of {} from {}", self.labels, chunk.min_time);
            Err(Error::corrupt(context, reason))
        };
        let samples = chunk::sample_count(chunk.encoding, chunk.bytes).filter(|&count| count > 0);
        let Some(samples) = samples else {
            return refuse("it holds no samples".to_owned());
        };
        let (block, range) = (self.meta.min_time..self.meta.max_time, chunk.range());
        if range.is_empty() || !block.contains(range.start()) || !block.contains(range.end()) {
            return refuse(format!("its time {range:?} is not within the block's, {block:?}"));
        }
        if let Some(last) = self.entries.last().filter(|last| last.max_time >= chunk.min_time) {
            return refuse(format!("the chunk before it ends at {} only", last.max_time));
        }
        let chunks = self.chunks.as_mut().expect("taken by finish only");
        let reference = chunks.chunk(chunk.encoding, chunk.bytes)?;
        let (min_time, max_time) = (chunk.min_time, chunk.max_time);
        self.entries.push(ChunkEntry { min_time, max_time, reference });
        let stats = &mut self.meta.stats;
        stats.num_chunks += 1;
        stats.num_samples += u64::from(samples);
        if chunk.encoding.is_float() {
            stats.num_float_samples += u64::from(samples);
        } else {
            stats.num_histogram_samples += u64::from(samples);
        }
        Ok(())
    }

    fn end_series(&mut self) -> Result<(), Error> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let index = self.index.as_mut().expect("taken by finish only");
        index.series(&self.labels, &self.entries)?;
        self.entries.clear();
        Ok(())
    }

    /// Makes the block durable and gives it its name. Without any series there is no block: `None`.
    ///
    /// # Errors
    /// The disk refused; nothing is left over.
    pub fn finish(mut self) -> Result<Option<Meta>, Error> {
        self.end_series()?;
        let index = self.index.take().expect("only finish takes it");
        let chunks = self.chunks.take().expect("only finish takes it");
        if index.len() == 0 {
            return Ok(None);
        }
        self.meta.stats.num_series = u64::from(index.len());
        chunks.finish()?;
        index.finish(&[])?;
        self.write_file("tombstones", &super::tombstones::encode_empty())?;
        self.write_file("meta.json", &self.meta.to_json())?;
        for directory in [format!("{}/chunks", self.directory), self.directory.clone()] {
            self.sync_dir(&directory)?;
        }
        let name = self.meta.ulid.to_string();
        self.disk
            .rename(&self.directory, &name)
            .map_err(|error| Error::io(self.directory.as_str(), error))?;
        if let Err(error) = self.sync_dir("") {
            // It may be there after a loss of power, or not: the caller starts anew.
            if self.disk.rename(&name, &self.directory).is_err() {
                let _ = self.disk.remove_dir(&name);
            }
            return Err(error);
        }
        self.directory.clear();
        Ok(Some(self.meta.clone()))
    }

    fn write_file(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let mut file = Output::create(self.disk, format!("{}/{name}", self.directory))?;
        file.write(content)?;
        file.finish()?;
        Ok(())
    }

    fn sync_dir(&self, directory: &str) -> Result<(), Error> {
        self.disk.sync_dir(directory).map_err(|error| Error::io(directory, error))
    }
}

impl Drop for BlockWriter<'_> {
    fn drop(&mut self) {
        if !self.directory.is_empty() {
            self.index = None;
            self.chunks = None;
            // What cannot be removed now, the next start removes.
            let _ = self.disk.remove_dir(&self.directory);
        }
    }
}
