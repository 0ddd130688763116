//! The journal: what was committed and isn't in a closed chunk yet.
//!
//! Each shard of the head has its own: segments of batches, in the order of their commits, and a log
//! of the definitions of its series. The layout is drawn in `docs/format/journal.md`.
//! Nothing here touches a disk: [`crate::head`] decides when bytes are written and files dropped.

pub(crate) mod batch;
pub(crate) mod definition;
pub(crate) mod record;
mod value;
pub(crate) mod varint;

use record::Item;

/// The first bytes of a segment and of a log of definitions, the version included.
pub(crate) const MAGIC: [u8; 8] = *b"UNLJRNL\x01";

/// Bytes before the first record of a segment: [`MAGIC`], the number of the segment before, and how
/// many bytes of that one count. A record whose writing failed may stand whole behind them; it was
/// never visible, and another one may have taken its place.
pub(crate) const SEGMENT_HEADER: usize = 24;
const PREVIOUS_NUMBER: usize = 8;
const PREVIOUS_BYTES: usize = 12;
const CHECKSUM: usize = 20;

/// The first bytes of a segment.
pub(crate) fn segment_header(previous: u32, previous_bytes: u64) -> [u8; SEGMENT_HEADER] {
    let mut header = [0; SEGMENT_HEADER];
    header[..PREVIOUS_NUMBER].copy_from_slice(&MAGIC);
    header[PREVIOUS_NUMBER..PREVIOUS_BYTES].copy_from_slice(&previous.to_le_bytes());
    header[PREVIOUS_BYTES..CHECKSUM].copy_from_slice(&previous_bytes.to_le_bytes());
    let checksum = crc32c::crc32c(&header[..CHECKSUM]);
    header[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// What a segment says of the one before: its number, and how many bytes of it count.
pub(crate) fn previous_segment(header: &[u8; SEGMENT_HEADER]) -> Option<(u32, u64)> {
    let (told, checksum) = header.split_at(CHECKSUM);
    if checksum != crc32c::crc32c(told).to_le_bytes() {
        return None;
    }
    let (number, bytes) = told.strip_prefix(&MAGIC)?.split_first_chunk()?;
    Some((u32::from_le_bytes(*number), u64::from_le_bytes(*bytes.first_chunk()?)))
}

/// Reads the bytes as a segment, and as the payload of a record, for nothing: what a fuzzer calls, which
/// doesn't guess checksums. Answers the records and samples that it found.
#[doc(hidden)]
pub fn inspect(bytes: &[u8]) -> (usize, usize) {
    let (mut records, mut samples) = (0, 0);
    let whole = record::Records::new(bytes, SEGMENT_HEADER).filter_map(|item| match item {
        Item::Record(payload) => Some(payload),
        Item::Damage { .. } => None,
    });
    for (at, payload) in std::iter::once(bytes).chain(whole).enumerate() {
        records = at;
        match payload.split_first() {
            Some((&batch::KIND, rest)) => drop(batch::decode(rest, |_| samples += 1)),
            Some((&definition::KIND, rest)) => drop(definition::decode(rest, |_, _, _, _| ())),
            _ => {}
        }
    }
    (records, samples)
}
