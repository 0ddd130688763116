//! What stands behind the index in a file of departed series, and how its chunks are referred to.
//!
//! Drawn in `docs/format/head.md`.

use crate::head::departed::DepartedRow;
use crate::head::row::{ChunkRef, ROWS_MAX, SHARDS_MAX};

/// Ends the file but for a checksum, the version included.
const MAGIC: [u8; 8] = *b"UNLGONE\x01";

/// Bytes of a row of the table.
const ROW: usize = 20;

/// Offsets in the footer.
const FIRST: usize = 0;
const LAST: usize = 8;
const SERIES: usize = 16;
const ROWS: usize = 20;
const MAGIC_AT: usize = 24;
const CHECKSUM: usize = 32;
/// Bytes of the footer.
const FOOTER: usize = 36;

/// Bits of a reference that number the file of chunks.
const FILE_BITS: u32 = 26;

/// What the end of the file tells.
#[derive(Debug, PartialEq)]
pub(super) struct Tail {
    /// Earliest and latest time of all chunks.
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) series: u32,
    pub(super) rows: Vec<DepartedRow>,
}

impl Tail {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.rows.len() * ROW + FOOTER);
        for row in &self.rows {
            for number in [row.shard, row.row, row.generation] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(&row.until.to_le_bytes());
        }
        bytes.extend_from_slice(&self.first.to_le_bytes());
        bytes.extend_from_slice(&self.last.to_le_bytes());
        bytes.extend_from_slice(&self.series.to_le_bytes());
        bytes.extend_from_slice(&(self.rows.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// Reads the end of a file; with it, how many bytes of the file are the index. `None` if this is no
    /// end that [`Tail::encode`] wrote.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Tail, usize)> {
        let footer = bytes.len().checked_sub(FOOTER)?;
        let (before, footer) = bytes.split_at(footer);
        let u32_at = |from: &[u8], at: usize| {
            Some(u32::from_le_bytes(from.get(at..at + 4)?.try_into().ok()?))
        };
        let i64_at = |from: &[u8], at: usize| {
            Some(i64::from_le_bytes(from.get(at..at + 8)?.try_into().ok()?))
        };
        if footer[MAGIC_AT..CHECKSUM] != MAGIC {
            return None;
        }
        let count = u32_at(footer, ROWS)? as usize;
        let index = before.len().checked_sub(count.checked_mul(ROW)?)?;
        let checked = &bytes[index..bytes.len() - FOOTER + CHECKSUM];
        if crc32c::crc32c(checked) != u32_at(footer, CHECKSUM)? {
            return None;
        }
        let mut rows = Vec::with_capacity(count);
        for row in before[index..].chunks_exact(ROW) {
            rows.push(DepartedRow {
                shard: u32_at(row, 0)?,
                row: u32_at(row, 4)?,
                generation: u32_at(row, 8)?,
                until: i64_at(row, 12)?,
            });
        }
        let tail = Tail {
            first: i64_at(footer, FIRST)?,
            last: i64_at(footer, LAST)?,
            series: u32_at(footer, SERIES)?,
            rows,
        };
        let sound =
            tail.rows.iter().all(|row| row.row < ROWS_MAX && (row.shard as usize) < SHARDS_MAX);
        sound.then_some((tail, index))
    }
}

/// The reference of a chunk of a shard; `None` for a file of a number that no shard reaches.
pub(super) fn reference(shard: usize, at: ChunkRef) -> Option<u64> {
    let file = u64::from(at.file());
    (file >> FILE_BITS == 0)
        .then(|| ((shard as u64) << FILE_BITS | file) << 32 | u64::from(at.offset()))
}

/// Shard and place of a reference.
pub(super) fn place(reference: u64) -> (usize, ChunkRef) {
    let file = (reference >> 32) as u32;
    let shard = (file >> FILE_BITS) as usize;
    (shard, ChunkRef::new(file & ((1 << FILE_BITS) - 1), reference as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_read_as_written_and_any_damage_is_noticed() {
        let row = |n: u32| DepartedRow { shard: n, row: n * 7, generation: n + 1, until: -5 };
        let tail =
            Tail { first: i64::MIN, last: 77, series: 2, rows: vec![row(0), row(1), row(63)] };
        let mut bytes = b"index".to_vec();
        bytes.extend(tail.encode());
        assert_eq!(Tail::decode(&bytes), Some((tail, 5)));
        for at in 5..bytes.len() {
            bytes[at] ^= 1;
            assert_eq!(Tail::decode(&bytes), None, "byte {at}");
            bytes[at] ^= 1;
            assert_eq!(Tail::decode(&bytes[..at]), None, "{at} bytes");
        }
    }

    #[test]
    fn references_name_shard_file_and_offset() {
        for shard in [0, 1, SHARDS_MAX - 1] {
            for at in [ChunkRef::new(1, 8), ChunkRef::new((1 << FILE_BITS) - 1, u32::MAX)] {
                assert_eq!(place(reference(shard, at).unwrap()), (shard, at));
            }
        }
        assert_eq!(reference(0, ChunkRef::new(1 << FILE_BITS, 8)), None);
    }
}
