//! A series of a block: its labels, and its samples chunk by chunk.

use std::sync::Arc;

use super::Block;
use super::index_writer::ChunkEntry;
use super::tombstones::{self, Interval};
use super::writer::ChunkData;
use crate::select::{Cursor, Samples, Series};
use crate::{Error, Labels, chunk};

/// A selected series of a block.
pub struct BlockSeries {
    pub(super) block: Arc<Block>,
    pub(super) labels: Labels,
    /// Those that overlap the selected range, in the order of time.
    pub(super) chunks: Vec<ChunkEntry>,
    pub(super) deleted: Option<Arc<[Interval]>>,
    pub(super) from: i64,
    pub(super) to: i64,
}

impl BlockSeries {
    /// The chunks that overlap the selected range, whole and as they are stored: for whoever copies
    /// them. Deletions are not applied: [`BlockSeries::has_deletions`] tells whether to decode.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = Result<ChunkData<'_>, Error>> {
        self.chunks.iter().map(|entry| {
            let (encoding, bytes) = self.block.segments.chunk(entry.reference)?;
            let (min_time, max_time) = (entry.min_time, entry.max_time);
            Ok(ChunkData { min_time, max_time, encoding, bytes })
        })
    }

    /// Whether some of the samples in [`BlockSeries::chunks`] are deleted.
    pub fn has_deletions(&self) -> bool {
        self.deleted.is_some()
    }

    /// First and last timestamp that its chunks announce; they may lie outside the selected range.
    pub fn time_range(&self) -> Option<(i64, i64)> {
        Some((self.chunks.first()?.min_time, self.chunks.last()?.max_time))
    }
}

impl Series for BlockSeries {
    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn cursor(&self) -> Box<dyn Cursor + '_> {
        Box::new(BlockCursor { series: self, next: 0 })
    }
}

/// Decodes a chunk at a time. After an error, the next call goes on behind the damaged chunk.
struct BlockCursor<'a> {
    series: &'a BlockSeries,
    next: usize,
}

impl Cursor for BlockCursor<'_> {
    fn next(&mut self, samples: &mut Samples) -> Result<bool, Error> {
        let series = self.series;
        let before = samples.len();
        while let Some(entry) = series.chunks.get(self.next) {
            self.next += 1;
            let (encoding, bytes) = series.block.segments.chunk(entry.reference)?;
            let decoded = chunk::decode(encoding, bytes, series.from, series.to, samples);
            if let Err(damage) = decoded {
                samples.truncate(before);
                let context = series.block.chunk_place(entry.reference);
                return Err(Error::corrupt(context, damage.to_string()));
            }
            if let Some(deleted) = &series.deleted {
                tombstones::apply(deleted, samples, before);
            }
            if samples.len() > before {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
