//! The head's past becomes a block.
//!
//! 1. The start of the head moves to the end of the block: nothing older is taken any more. Samples
//!    of that time were too old already, so that nothing that could have come is refused.
//! 2. Open chunks of before are closed; the shards' chunk files end, so that they can be dropped.
//! 3. The chunks are copied into a block, series by series.
//! 4. The view is replaced: queries that begin now read the block, and the head from its end on.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use ulid::Ulid;
use xxhash_rust::xxh64::xxh64;

use super::maintain::ROWS;
use super::{Core, Maintained, SeriesId, View, sort_blocks};
use crate::block::{Block, BlockWriter, ChunkData, Meta};
use crate::chunk::{self, Encoder};
use crate::head::chunk_file::{ChunkFiles, MappedChunk};
use crate::head::row::{ChunkRef, Slot};
use crate::head::shard::range_start;
use crate::select::Samples;
use crate::{Error, Labels};

/// What a cut leaves behind.
pub(super) struct Cut {
    /// The new start of the head.
    pub(super) start: i64,
    /// The view that was replaced.
    pub(super) replaced: Weak<View>,
}

/// Cuts one block, if one is due.
pub(super) fn cut(core: &Core, now_ms: i64, done: &mut Maintained) -> Result<Option<Cut>, Error> {
    let head = &core.head;
    let range = head.limits.block_range;
    let oldest = head.min_time.load(Ordering::Acquire);
    let newest = head.max_time.load(Ordering::Acquire);
    if newest == i64::MIN || newest.saturating_sub(oldest) <= range / 2 * 3 {
        return Ok(None);
    }
    let from = range_start(oldest, range);
    let to = from + range;
    head.start.fetch_max(to, Ordering::AcqRel);
    let block = write_block(core, from, to, now_ms, done)?;
    let mut view = core.view.write();
    let mut blocks = view.blocks.clone();
    done.blocks_cut += u64::from(block.is_some());
    blocks.extend(block);
    sort_blocks(&mut blocks);
    let replaced = Arc::downgrade(&view);
    *view = Arc::new(View { blocks, head_from: to });
    head.min_time.fetch_max(to, Ordering::AcqRel);
    Ok(Some(Cut { start: to, replaced }))
}

fn write_block(
    core: &Core,
    from: i64,
    to: i64,
    now_ms: i64,
    done: &mut Maintained,
) -> Result<Option<Arc<Block>>, Error> {
    let mut series = Vec::new();
    let mut files = Vec::new();
    for number in 0..core.head.shards.len() {
        files.push(collect(core, number, from, to, &mut series)?);
    }
    let mut labelled = label(core, &series);
    drop(series);
    labelled.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let disk = &**core.disk();
    // The store has neither clock nor chance of its own: the name is of what it was told.
    let mut seed = [0; 24];
    for (at, number) in [from, to, now_ms].into_iter().enumerate() {
        seed[8 * at..8 * at + 8].copy_from_slice(&number.to_le_bytes());
    }
    let chance = u128::from(xxh64(&seed, 1)) << 16 | u128::from(xxh64(&seed, 2)) >> 48;
    let ulid = Ulid::from_parts(now_ms.max(0) as u64, chance);
    let mut writer = BlockWriter::create(disk, Meta::of_head(ulid, from, to))?;
    for (labels, id, closed) in &labelled {
        let walk = files[id.slot().shard()].walk_readable(*closed, from);
        done.damages.extend(walk.damage.map(|error| format!("{labels}: {error}")));
        let mut chunks = walk.chunks.iter().filter(|chunk| chunk.header().min_time < to).peekable();
        if chunks.peek().is_some() {
            writer.series(labels)?;
        }
        for chunk in chunks {
            match copy_chunk(&mut writer, chunk, from, to) {
                // What can't be read costs itself, not the block of all others.
                Err(error) if error.is_corrupt() => done.damages.push(error.to_string()),
                result => result?,
            }
        }
    }
    let Some(meta) = writer.finish()? else { return Ok(None) };
    Block::open(disk, meta.ulid).map(Some)
}

/// Closes the chunks of a shard that begin before `to`, and lists the series that may have any since
/// `from`.
fn collect(
    core: &Core,
    number: usize,
    from: i64,
    to: i64,
    series: &mut Vec<(SeriesId, ChunkRef)>,
) -> Result<ChunkFiles, Error> {
    let mut first = 0;
    loop {
        let mut shard = core.head.shards[number].lock();
        let end = shard.rows.len().min(first + ROWS);
        if first == end {
            shard.end_chunk_file();
            return Ok(shard.files.clone());
        }
        let closing = shard.open_rows(first..end, |row| row.min_time < to);
        shard.close(closing)?;
        for number_of_row in first..end {
            let Some(row) = shard.rows.get(number_of_row) else { continue };
            let since = row.last().is_some_and(|(last, _)| last >= from);
            if row.alive && since && row.closed != ChunkRef::NONE {
                let id = SeriesId::new(Slot::new(number, number_of_row), row.generation);
                series.push((id, row.closed));
            }
        }
        first = end;
    }
}

fn label(core: &Core, series: &[(SeriesId, ChunkRef)]) -> Vec<(Labels, SeriesId, ChunkRef)> {
    let mut scratch = Vec::new();
    let mut labelled = Vec::with_capacity(series.len());
    for series in series.chunks(ROWS as usize) {
        let index = core.head.index.read();
        for &(id, closed) in series {
            if let Some((found, labels)) = index.labels(id.slot(), &mut scratch)
                && found == id
            {
                labelled.push((labels, id, closed));
            }
        }
    }
    labelled
}

/// Copies a chunk; one that reaches out of the block, because blocks had another length when it was
/// written, is encoded anew.
fn copy_chunk(
    writer: &mut BlockWriter<'_>,
    chunk: &MappedChunk,
    from: i64,
    to: i64,
) -> Result<(), Error> {
    let header = chunk.header();
    let whole = ChunkData {
        min_time: header.min_time,
        max_time: header.max_time,
        encoding: header.encoding,
        bytes: chunk.data(),
    };
    if from <= header.min_time && header.max_time < to {
        return writer.chunk(&whole);
    }
    let mut samples = Samples::default();
    let decoded = chunk::decode(header.encoding, chunk.data(), from, to - 1, &mut samples);
    decoded.map_err(|damage| Error::corrupt("head chunk", damage.to_string()))?;
    let (Some(&min_time), Some(&max_time)) =
        (samples.timestamps.first(), samples.timestamps.last())
    else {
        return Ok(());
    };
    let mut encoder = Encoder::new();
    let mut bytes = Vec::new();
    for (&time, &value) in samples.timestamps.iter().zip(&samples.values) {
        let appended = encoder.append_growing(&mut bytes, time, value);
        appended.expect("a part has no more samples than the whole");
    }
    writer.chunk(&ChunkData { min_time, max_time, encoding: header.encoding, bytes: &bytes })
}
