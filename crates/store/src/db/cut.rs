//! The head's past becomes a block.
//!
//! 1. The start of the head moves to the end of the block: nothing older is taken any more. What is
//!    that old was refused already, but for batches on their way since before the newest sample came.
//! 2. Open chunks of before are closed; the shards' chunk files end, so that they can be dropped.
//! 3. The chunks are copied into a block, series by series.
//! 4. The view is replaced: queries that begin now read the block, and the head from its end on.
//!
//! Where there was nothing, there is no block, and the next one begins at the earliest sample that the
//! head really has: a sample from far in the past, or a long pause, costs one look through the rows.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use ulid::Ulid;
use xxhash_rust::xxh64::xxh64;

use super::maintain::ROWS;
use super::{Core, Maintained, SeriesId, View, sort_blocks};
use crate::block::{Block, BlockWriter, ChunkData, Meta, catalog};
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
    let empty = block.is_none();
    blocks.extend(block);
    sort_blocks(&mut blocks);
    let replaced = Arc::downgrade(&view);
    *view = Arc::new(View { blocks, head_from: to });
    drop(view);
    if empty {
        // Whoever appends from here on lowers it again, under the lock of a shard; what was appended
        // before, the look under that lock finds.
        head.min_time.store(to.max(newest.saturating_sub(range)), Ordering::Release);
        head.min_time.fetch_min(earliest(core, to), Ordering::AcqRel);
    } else {
        head.min_time.fetch_max(to, Ordering::AcqRel);
    }
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
    let block = Block::open(disk, meta.ulid);
    if block.is_err() {
        // The next attempt writes another one. The error says what is wrong, also with the removal.
        let _ = catalog::remove(disk, meta.ulid);
    }
    block.map(Some)
}

/// The earliest time from `to` on of which the head has a sample; `i64::MAX` if there is none. Walks
/// the chunks of every series.
fn earliest(core: &Core, to: i64) -> i64 {
    let mut earliest = i64::MAX;
    for shard in &core.head.shards {
        let mut first = 0;
        loop {
            let mut closed = Vec::new();
            let files = {
                let shard = shard.lock();
                let end = shard.rows.len().min(first + ROWS);
                if first == end {
                    break;
                }
                for row in (first..end).filter_map(|row| shard.rows.get(row)) {
                    if row.is_open() {
                        earliest = earliest.min(row.min_time().max(to));
                    }
                    let since = row.last().is_some_and(|(last, _)| last >= to);
                    if row.is_alive() && since && row.closed != ChunkRef::NONE {
                        closed.push(row.closed);
                    }
                }
                first = end;
                shard.files.clone()
            };
            for last in closed {
                let chunks = files.walk_readable(last, to).chunks;
                earliest = earliest
                    .min(chunks.first().map_or(i64::MAX, |chunk| chunk.header().min_time.max(to)));
            }
        }
    }
    earliest
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
            shard.end_chunk_file(to);
            return Ok(shard.files.clone());
        }
        let closing = shard.open_rows(first..end, |row| row.min_time() < to);
        shard.close(closing)?;
        for number_of_row in first..end {
            let Some(row) = shard.rows.get(number_of_row) else { continue };
            let since = row.last().is_some_and(|(last, _)| last >= from);
            if row.is_alive() && since && row.closed != ChunkRef::NONE {
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
