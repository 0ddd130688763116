//! Files of closed chunks of the head: written at the end, read anywhere, dropped as a whole.
//!
//! The layout is drawn in `docs/format/head.md`. Each chunk names the one before it of the same
//! series, so that memory holds one reference per series and not one per chunk.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

use super::row::{ChunkRef, ROWS_MAX};
use super::shard::TIME_MAX;
use crate::Error;
use crate::chunk::Encoding;
use crate::disk::{Bytes, Disk};

/// The first bytes of a file, the version included.
pub(crate) const MAGIC: [u8; 8] = *b"UNLHEAD\x01";

/// Offsets within a chunk's header.
const CRC: usize = 0;
const LENGTH: usize = 4;
const ENCODING: usize = 6;
const ROW: usize = 7;
const GENERATION: usize = 11;
const PREVIOUS: usize = 15;
const MIN_TIME: usize = 23;
const SPAN: usize = 31;
/// Bytes before a chunk's data.
pub(crate) const HEADER: usize = 35;

/// What stands before a chunk's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) row: u32,
    pub(crate) generation: u32,
    pub(crate) encoding: Encoding,
    pub(crate) previous: ChunkRef,
    pub(crate) min_time: i64,
    pub(crate) max_time: i64,
}

/// Appends a chunk to `out`; `data` appends its bytes. Steady.
///
/// # Panics
/// The chunk has 64 KiB or more, or spans 49 days: chunks are closed long before.
pub(crate) fn encode(out: &mut Vec<u8>, header: &Header, data: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    data(out);
    let bytes = &mut out[start..];
    let length = u16::try_from(bytes.len() - HEADER).expect("a chunk is closed before 64 KiB");
    let span = u32::try_from(header.max_time - header.min_time).expect("a chunk is of one block");
    bytes[LENGTH..ENCODING].copy_from_slice(&length.to_le_bytes());
    bytes[ENCODING] = header.encoding.0;
    bytes[ROW..GENERATION].copy_from_slice(&header.row.to_le_bytes());
    bytes[GENERATION..PREVIOUS].copy_from_slice(&header.generation.to_le_bytes());
    bytes[PREVIOUS..PREVIOUS + 4].copy_from_slice(&header.previous.file().to_le_bytes());
    bytes[PREVIOUS + 4..MIN_TIME].copy_from_slice(&header.previous.offset().to_le_bytes());
    bytes[MIN_TIME..SPAN].copy_from_slice(&header.min_time.to_le_bytes());
    bytes[SPAN..HEADER].copy_from_slice(&span.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[LENGTH..]);
    bytes[CRC..LENGTH].copy_from_slice(&crc.to_le_bytes());
}

/// Reads and checks the chunk at `offset`; `None` if there is no whole one.
pub(crate) fn decode(bytes: &[u8], offset: usize) -> Option<(Header, &[u8])> {
    let header = bytes.get(offset..offset.checked_add(HEADER)?)?;
    let u32_at = |at: usize| {
        u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let length = usize::from(u16::from_le_bytes([header[LENGTH], header[LENGTH + 1]]));
    let end = offset + HEADER + length;
    let checked = bytes.get(offset + LENGTH..end)?;
    // The cheap tests first: the search for a chunk behind a damage tries every byte.
    let plausible = length > 2 && header[ENCODING] == Encoding::XOR.0 && u32_at(ROW) < ROWS_MAX;
    if !plausible || crc32c::crc32c(checked) != u32_at(CRC) {
        return None;
    }
    let mut min_time = [0; 8];
    min_time.copy_from_slice(&header[MIN_TIME..SPAN]);
    let min_time = i64::from_le_bytes(min_time);
    if min_time.unsigned_abs() > TIME_MAX {
        return None;
    }
    let header = Header {
        row: u32_at(ROW),
        generation: u32_at(GENERATION),
        encoding: Encoding(header[ENCODING]),
        previous: ChunkRef::new(u32_at(PREVIOUS), u32_at(PREVIOUS + 4)),
        min_time,
        max_time: min_time.checked_add(i64::from(u32_at(SPAN)))?,
    };
    Some((header, &bytes[offset + HEADER..end]))
}

/// What stands in a file, from `offset` on.
pub(crate) enum Found {
    /// A chunk at this offset.
    Chunk(usize, Header),
    /// No chunk for so many bytes; `last` if nothing comes behind.
    Damage { offset: usize, length: usize, last: bool },
}

/// All chunks of a file's bytes; what is damaged is stepped over until the next chunk.
pub(crate) fn scan(bytes: &[u8]) -> impl Iterator<Item = Found> {
    let mut offset = MAGIC.len().min(bytes.len());
    std::iter::from_fn(move || {
        if offset == bytes.len() {
            return None;
        }
        let start = offset;
        if let Some((header, data)) = decode(bytes, start) {
            offset += HEADER + data.len();
            return Some(Found::Chunk(start, header));
        }
        let next = (start + 1..bytes.len()).find(|&next| decode(bytes, next).is_some());
        offset = next.unwrap_or(bytes.len());
        Some(Found::Damage { offset: start, length: offset - start, last: next.is_none() })
    })
}

/// A file of closed chunks, readable by queries also after it was removed.
pub(crate) struct ChunkFile {
    pub(crate) number: u32,
    path: String,
    disk: Arc<dyn Disk>,
    mapped: Mutex<Option<Bytes>>,
    /// Whether it is finished and was made durable since.
    pub(crate) durable: AtomicBool,
}

impl ChunkFile {
    pub(crate) fn new(disk: Arc<dyn Disk>, path: String, number: u32) -> Self {
        ChunkFile { number, path, disk, mapped: Mutex::new(None), durable: AtomicBool::new(false) }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Bytes of the file, `length` at least. A file that still grows is mapped again when it has
    /// outgrown its mapping; files only grow and are never rewritten, so that a mapping stays true.
    pub(crate) fn bytes(&self, length: usize) -> Result<Bytes, Error> {
        let mut mapped = self.mapped.lock();
        if let Some(bytes) = mapped.as_ref().filter(|bytes| bytes.len() >= length) {
            return Ok(bytes.clone());
        }
        let bytes =
            self.disk.map(&self.path).map_err(|error| Error::io(self.path.as_str(), error))?;
        *mapped = Some(bytes.clone());
        Ok(bytes)
    }

    /// Gives the mapping back, as far as nobody holds it: who has read much of the file, for once, does not
    /// let it stay resident.
    pub(crate) fn unmap(&self) {
        *self.mapped.lock() = None;
    }
}

/// The chunk files of a shard, as a query sees them.
#[derive(Clone, Default)]
pub(crate) struct ChunkFiles {
    files: Arc<[Arc<ChunkFile>]>,
}

/// A chunk of a mapped file.
#[derive(Clone)]
pub(crate) struct MappedChunk {
    bytes: Bytes,
    offset: usize,
    file: u32,
    header: Header,
}

impl MappedChunk {
    /// Where it stands.
    pub(crate) fn place(&self) -> ChunkRef {
        ChunkRef::new(self.file, self.offset as u32)
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    pub(crate) fn data(&self) -> &[u8] {
        let start = self.offset + HEADER;
        let length = u16::from_le_bytes([
            self.bytes[self.offset + LENGTH],
            self.bytes[self.offset + LENGTH + 1],
        ]);
        &self.bytes[start..start + usize::from(length)]
    }
}

impl ChunkFiles {
    pub(crate) fn files(&self) -> &[Arc<ChunkFile>] {
        &self.files
    }

    /// These and one more.
    pub(crate) fn with(&self, file: Arc<ChunkFile>) -> Self {
        let files = self.files.iter().cloned().chain([file]).collect();
        ChunkFiles { files }
    }

    /// Those for which `keep` says so.
    pub(crate) fn retain(&self, keep: impl Fn(&ChunkFile) -> bool) -> Self {
        let files: Arc<[_]> = self.files.iter().filter(|file| keep(file)).cloned().collect();
        ChunkFiles { files }
    }

    /// The chunk at a place; `None` if its file is gone.
    pub(crate) fn chunk(&self, at: ChunkRef) -> Result<Option<MappedChunk>, Error> {
        let Ok(index) = self.files.binary_search_by_key(&at.file(), |file| file.number) else {
            return Ok(None);
        };
        let file = &self.files[index];
        let offset = at.offset() as usize;
        // The first look maps what there is; only then is the length known.
        let mut bytes = file.bytes(offset + HEADER)?;
        if let Some(length) = bytes.get(offset + LENGTH..offset + ENCODING) {
            let end = offset + HEADER + usize::from(u16::from_le_bytes([length[0], length[1]]));
            bytes = file.bytes(end)?;
        }
        let Some((header, _)) = decode(&bytes, offset) else {
            let context = format!("{} at byte {offset}", file.path);
            return Err(Error::corrupt(context, "no whole chunk stands there"));
        };
        Ok(Some(MappedChunk { bytes, offset, file: at.file(), header }))
    }

    /// The chunks of a series from `last` back that have samples from `from` on, oldest first.
    ///
    /// # Errors
    /// One of them can't be read.
    pub(crate) fn walk(&self, last: ChunkRef, from: i64) -> Result<Vec<MappedChunk>, Error> {
        let walk = self.walk_readable(last, from);
        walk.damage.map_or(Ok(walk.chunks), Err)
    }

    /// As [`ChunkFiles::walk`], with those that can be read; before a damaged one, none is found.
    pub(crate) fn walk_readable(&self, last: ChunkRef, from: i64) -> Walk {
        let (mut chunks, mut damage) = (Vec::new(), None);
        let mut at = last;
        while at != ChunkRef::NONE {
            let chunk = match self.chunk(at) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(error) => {
                    damage = Some(error);
                    break;
                }
            };
            if chunk.header.max_time < from {
                break;
            }
            let before = chunk.header.previous;
            // A chain only leads back: damage must not make it a circle.
            at = if before < at { before } else { ChunkRef::NONE };
            chunks.push(chunk);
        }
        chunks.reverse();
        Walk { chunks, damage }
    }
}

/// The chunks of a series, as far as they can be read.
pub(crate) struct Walk {
    pub(crate) chunks: Vec<MappedChunk>,
    pub(crate) damage: Option<Error>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_damaged_byte_costs_one_chunk() {
        let mut bytes = MAGIC.to_vec();
        let mut offsets = Vec::new();
        for i in 0..4u32 {
            offsets.push(bytes.len());
            let header = Header {
                row: i,
                generation: 1,
                encoding: Encoding::XOR,
                previous: ChunkRef::new(3, i),
                min_time: -5,
                max_time: i64::from(i),
            };
            encode(&mut bytes, &header, |out| out.extend_from_slice(&[i as u8; 20]));
            assert_eq!(decode(&bytes, offsets[i as usize]), Some((header, &[i as u8; 20][..])));
        }
        for at in MAGIC.len()..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            let (mut chunks, mut damages) = (Vec::new(), Vec::new());
            for found in scan(&damaged) {
                match found {
                    Found::Chunk(offset, header) => chunks.push((offset, header.row)),
                    Found::Damage { offset, length, .. } => damages.push((offset, length)),
                }
            }
            let hit = offsets.iter().rposition(|&offset| offset <= at).unwrap();
            assert_eq!(damages, [(offsets[hit], HEADER + 20)], "byte {at}");
            assert_eq!(chunks.len(), 3);
        }
    }
}
