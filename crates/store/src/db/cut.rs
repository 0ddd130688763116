//! The head's past becomes a block.
//!
//! 1. The start of the head moves to the end of the block: nothing older is taken any more. What is
//!    that old was refused already, but for batches on their way since before the newest sample came.
//! 2. Open chunks of before are closed; the shards' chunk files end, so that they can be dropped.
//! 3. The chunks are copied into a block, series by series: those of the head and those that departed.
//!    Where chunks of a series overlap, because it came back with samples of a time before it left, they
//!    are encoded anew.
//! 4. The view is replaced: queries that begin now read the block, and the head from its end on.
//!
//! Where there was nothing, there is no block, and the next one begins at the earliest sample that the
//! head really has: a sample from far in the past, or a long pause, costs one look through the rows.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use ulid::Ulid;
use xxhash_rust::xxh64::xxh64;

use super::departed::{Departed, Files, Merge};
use super::maintain::{Pace, ROWS};
use super::ordered::Ordered;
use super::{Core, Maintained, SeriesId, View, sort_blocks};
use crate::block::{Block, BlockWriter, ChunkData, Meta, catalog};
use crate::chunk::{self, Encoder, Encoding};
use crate::head::chunk_file::{MappedChunk, Places};
use crate::head::row::{CHUNK_SAMPLES, ChunkRef, Slot};
use crate::head::shard::range_start;
use crate::select::Samples;
use crate::{Error, Labels};

/// What a cut leaves behind.
pub(super) struct Cut {
    /// The new start of the head.
    pub(super) start: i64,
    /// The view that was replaced.
    pub(super) replaced: Weak<View>,
    /// Files of departed series that are not in the new view: all that they name is in blocks.
    pub(super) departed: Vec<Arc<Departed>>,
}

/// Cuts one block, if one is due.
pub(super) fn cut(
    core: &Core,
    now_ms: i64,
    pace: &mut Pace<'_>,
    done: &mut Maintained,
) -> Result<Option<Cut>, Error> {
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
    let block = write_block(core, (from, to), now_ms, pace, done)?;
    if block.is_none() {
        // Whoever appends from here on lowers it again, under the lock of a shard; what was appended
        // before, the look under that lock finds.
        head.min_time.store(to.max(newest.saturating_sub(range)), Ordering::Release);
        // Where the look fails, this range is still the one to be cut.
        let earliest = earliest(core, to, pace);
        head.min_time.fetch_min(*earliest.as_ref().unwrap_or(&oldest), Ordering::AcqRel);
        earliest?;
    }
    let mut view = core.view.write();
    let mut blocks = view.blocks.clone();
    done.blocks_cut += u64::from(block.is_some());
    if block.is_some() {
        head.min_time.fetch_max(to, Ordering::AcqRel);
    }
    blocks.extend(block);
    sort_blocks(&mut blocks);
    let replaced = Arc::downgrade(&view);
    let (departed, past) = view.departed.iter().cloned().partition(|old| old.last >= to);
    *view = Arc::new(View { blocks, departed, head_from: to });
    drop(view);
    Ok(Some(Cut { start: to, replaced, departed: past }))
}

fn write_block(
    core: &Core,
    (from, to): (i64, i64),
    now_ms: i64,
    pace: &mut Pace<'_>,
    done: &mut Maintained,
) -> Result<Option<Arc<Block>>, Error> {
    let mut series = Vec::new();
    for number in 0..core.head.shards.len() {
        collect(core, number, (from, to), pace, &mut series)?;
    }
    let mut living = Ordered::new(core, &series, pace);
    drop(series);
    let disk = &**core.disk();
    // The store has neither clock nor chance of its own: the name is of what it was told.
    let mut seed = [0; 24];
    for (at, number) in [from, to, now_ms].into_iter().enumerate() {
        seed[8 * at..8 * at + 8].copy_from_slice(&number.to_le_bytes());
    }
    let chance = u128::from(xxh64(&seed, 1)) << 16 | u128::from(xxh64(&seed, 2)) >> 48;
    let ulid = Ulid::from_parts(now_ms.max(0) as u64, chance);
    let mut writer = BlockWriter::create(disk, Meta::of_head(ulid, from, to))?;
    let view = core.view.read().clone();
    let past = view.departed.iter().filter(|departed| departed.overlaps(from, to - 1));
    let mut departed = Merge::new(past, from, done);
    let mut files = Files::new(core);
    let mut places: HashMap<usize, Places> = HashMap::new();
    loop {
        let next = living.peek().into_iter().chain(departed.peek()).min();
        let Some(labels) = next.cloned() else { break };
        let mut chunks = Vec::new();
        if living.peek() == Some(&labels)
            && let Some((_, id, closed)) = living.next()
        {
            let places = places.entry(id.slot().shard()).or_default();
            let shard = files.shard(id.slot().shard());
            let walk = shard.map(|files| files.walk_readable(places, id, closed, from));
            let walk = walk.expect("the series is of a shard")?;
            if let Some(error) = walk.damage {
                done.damage(|| format!("{labels}: {error}"));
            }
            chunks = walk.chunks;
        }
        if departed.peek() == Some(&labels)
            && let Some((_, parts)) = departed.next(from, done)
        {
            for entry in parts.iter().flatten().filter(|entry| entry.min_time < to) {
                match files.chunk(entry) {
                    Err(error) if error.is_corrupt() => {
                        done.damage(|| format!("{labels}: {error}"));
                    }
                    found => chunks.push(found?),
                }
            }
        }
        chunks.retain(|chunk| chunk.header().min_time < to);
        write_series(&mut writer, &labels, chunks, from, to, done)?;
        pace.did(1);
    }
    files.unmap();
    let Some(meta) = writer.finish()? else { return Ok(None) };
    let block = Block::open(disk, meta.ulid);
    if block.is_err() {
        // The next attempt writes another one. The error says what is wrong, also with the removal.
        let _ = catalog::remove(disk, meta.ulid);
    }
    block.map(Some)
}

/// Writes a series of these chunks, of which those listed first are believed where two have a sample of
/// the same time.
fn write_series(
    writer: &mut BlockWriter<'_>,
    labels: &Labels,
    mut chunks: Vec<MappedChunk>,
    from: i64,
    to: i64,
    done: &mut Maintained,
) -> Result<(), Error> {
    if chunks.is_empty() {
        return Ok(());
    }
    writer.series(labels)?;
    let range = |chunk: &MappedChunk| (chunk.header().min_time, chunk.header().max_time);
    let believed: Vec<usize> = if chunks.is_sorted_by(|a, b| range(a).1 < range(b).0) {
        Vec::new()
    } else {
        // What departed and didn't leave is told twice.
        let mut order: Vec<usize> = (0..chunks.len()).collect();
        order.sort_by_key(|&at| range(&chunks[at]));
        order.dedup_by(|b, a| {
            let (a, b) = (&chunks[*a], &chunks[*b]);
            range(a) == range(b) && a.data() == b.data()
        });
        chunks = order.iter().map(|&at| chunks[at].clone()).collect();
        order
    };
    let mut rest = &chunks[..];
    let mut at = 0;
    while let Some(first) = rest.first() {
        let mut end = range(first).1;
        let mut length = 1;
        while let Some(next) = rest.get(length).filter(|next| range(next).0 <= end) {
            end = end.max(range(next).1);
            length += 1;
        }
        let written = if length == 1 {
            copy_chunk(writer, first, from, to)
        } else {
            let mut overlapping: Vec<_> = (0..length).collect();
            overlapping.sort_by_key(|&index| believed[at + index]);
            let overlapping = overlapping.iter().map(|&index| &rest[index]);
            encode_anew(writer, overlapping, from, to)
        };
        match written {
            // What can't be read costs itself, not the block of all others.
            Err(error) if error.is_corrupt() => done.damage(|| error.to_string()),
            result => result?,
        }
        rest = &rest[length..];
        at += length;
    }
    Ok(())
}

/// Writes the samples of overlapping chunks, the most believed first, as chunks that don't overlap.
fn encode_anew<'c>(
    writer: &mut BlockWriter<'_>,
    chunks: impl Iterator<Item = &'c MappedChunk>,
    from: i64,
    to: i64,
) -> Result<(), Error> {
    let mut all = BTreeMap::new();
    let mut samples = Samples::default();
    for chunk in chunks {
        samples.clear();
        let encoding = chunk.header().encoding;
        let decoded = chunk::decode(encoding, chunk.data(), from, to - 1, &mut samples);
        decoded.map_err(|damage| Error::corrupt("head chunk", damage.to_string()))?;
        for (&time, &value) in samples.timestamps.iter().zip(&samples.values) {
            all.entry(time).or_insert(value);
        }
    }
    let all: Vec<(i64, f64)> = all.into_iter().collect();
    for samples in all.chunks(usize::from(CHUNK_SAMPLES)) {
        write_samples(writer, samples)?;
    }
    Ok(())
}

/// Writes a chunk of these samples, if there are any.
fn write_samples(writer: &mut BlockWriter<'_>, samples: &[(i64, f64)]) -> Result<(), Error> {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return Ok(()) };
    let mut encoder = Encoder::new();
    let mut bytes = Vec::new();
    for &(time, value) in samples {
        let appended = encoder.append_growing(&mut bytes, time, value);
        appended.expect("a chunk that was read has no more samples than fit into one");
    }
    let (min_time, max_time) = (first.0, last.0);
    writer.chunk(&ChunkData { min_time, max_time, encoding: Encoding::XOR, bytes: &bytes })
}

/// The earliest time from `to` on of which the head has a sample, or one that departed; `i64::MAX` if
/// there is none. Walks the chunks of every series.
///
/// # Errors
/// The disk refused. What is damaged is passed over.
fn earliest(core: &Core, to: i64, pace: &mut Pace<'_>) -> Result<i64, Error> {
    let departed = core.view.read().departed.clone();
    let mut earliest =
        departed.iter().map(|departed| departed.earliest(to)).min().unwrap_or(i64::MAX);
    for (number, shard) in core.head.shards.iter().enumerate() {
        let (mut first, mut places) = (0, Places::default());
        loop {
            let mut closed = Vec::new();
            let files = {
                let shard = shard.lock();
                let end = shard.rows.len().min(first + ROWS);
                if first == end {
                    break;
                }
                for (at, row) in shard.rows.each(first..end) {
                    if row.is_open() {
                        earliest = earliest.min(row.min_time().max(to));
                    }
                    let since = row.last().is_some_and(|(last, _)| last >= to);
                    if row.is_alive() && since && row.closed != ChunkRef::NONE {
                        let id = SeriesId::new(Slot::new(number, at), row.generation);
                        closed.push((id, row.closed));
                    }
                }
                first = end;
                shard.files.clone()
            };
            pace.did(closed.len());
            for (id, last) in closed {
                let chunks = files.walk_readable(&mut places, id, last, to)?.chunks;
                earliest = earliest
                    .min(chunks.first().map_or(i64::MAX, |chunk| chunk.header().min_time.max(to)));
            }
        }
    }
    Ok(earliest)
}

/// Closes the chunks of a shard that begin before `to`, and lists the series that may have any since
/// `from`.
fn collect(
    core: &Core,
    number: usize,
    (from, to): (i64, i64),
    pace: &mut Pace<'_>,
    series: &mut Vec<(SeriesId, ChunkRef)>,
) -> Result<(), Error> {
    let mut first = 0;
    loop {
        let mut shard = core.head.shards[number].lock();
        let end = shard.rows.len().min(first + ROWS);
        if first == end {
            shard.end_chunk_file(to);
            return Ok(());
        }
        let closed = shard.close(first..end, |row| row.min_time() < to)?;
        for (number_of_row, row) in shard.rows.each(first..end) {
            let since = row.last().is_some_and(|(last, _)| last >= from);
            if row.is_alive() && since && row.closed != ChunkRef::NONE {
                let id = SeriesId::new(Slot::new(number, number_of_row), row.generation);
                series.push((id, row.closed));
            }
        }
        drop(shard);
        pace.closed(closed as usize);
        first = end;
    }
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
    let samples: Vec<_> = samples.timestamps.into_iter().zip(samples.values).collect();
    write_samples(writer, &samples)
}
