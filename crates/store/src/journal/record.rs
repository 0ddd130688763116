//! Records in a file, each of which can be found and checked without the others.
//!
//! The layout is drawn in `docs/format/journal.md`. Reading refuses nothing: what is not a whole
//! record is stepped over, byte by byte, until the next one begins, and its extent is told.

/// Bytes before a record's payload.
pub(crate) const HEADER: usize = 12;
const MARKER: [u8; 2] = [0xa5, 0x4a];

/// A payload is at most this long: a batch is split before.
pub(crate) const PAYLOAD_MAX: usize = 1 << 28;

/// Reserves the header at the end of `out`; the answer goes to [`finish`].
pub(crate) fn begin(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    start
}

/// Fills the header in, once the payload stands behind it.
pub(crate) fn finish(out: &mut [u8], start: usize) {
    let (header, payload) = out[start..].split_at_mut(HEADER);
    assert!(payload.len() <= PAYLOAD_MAX, "a batch is split before it gets this long");
    header[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[8..12].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    let check = crc32c::crc32c(&header[4..12]) as u16;
    header[..2].copy_from_slice(&MARKER);
    header[2..4].copy_from_slice(&check.to_le_bytes());
}

/// What stands at a place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    /// A whole record.
    Record(&'a [u8]),
    /// Bytes that are none, up to the next record or to the end of the file; `torn` if they are what an
    /// append leaves that the end of the process or the loss of power interrupted.
    Damage { offset: usize, length: usize, torn: bool },
}

/// The records of a file's bytes.
pub(crate) struct Records<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Records<'a> {
    /// Starts at `offset`.
    pub(crate) fn new(bytes: &'a [u8], offset: usize) -> Self {
        Records { bytes, offset: offset.min(bytes.len()) }
    }

    /// Where the next item begins.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Length and checksum of the payload of the record that begins there.
    fn header(&self, offset: usize) -> Option<(usize, u32)> {
        let header = self.bytes.get(offset..offset + HEADER)?;
        let field = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let check = crc32c::crc32c(&header[4..12]) as u16;
        let whole = header[..2] == MARKER && header[2..4] == check.to_le_bytes();
        whole.then(|| (field(4) as usize, field(8)))
    }

    fn at(&self, offset: usize) -> Option<&'a [u8]> {
        let (length, checksum) = self.header(offset)?;
        let start = offset + HEADER;
        let payload = self.bytes.get(start..start.checked_add(length)?)?;
        (crc32c::crc32c(payload) == checksum).then_some(payload)
    }

    /// Whether a record begins there whose end was never written: the file ends within it, or its last
    /// bytes are still zero. (A batch doesn't end with a zero byte, so that one with a damaged bit is not
    /// taken for such a one.)
    fn is_torn(&self, offset: usize) -> bool {
        let rest = &self.bytes[offset..];
        let begun = rest.len() < HEADER && rest.iter().zip(MARKER).all(|(a, b)| *a == b);
        let cut = self.header(offset).is_some_and(|(length, _)| rest.len() - HEADER < length);
        begun || cut || rest.last() == Some(&0)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        if self.offset == self.bytes.len() {
            return None;
        }
        if let Some(payload) = self.at(self.offset) {
            self.offset += HEADER + payload.len();
            return Some(Item::Record(payload));
        }
        let offset = self.offset;
        let next = (offset + 1..self.bytes.len()).find(|&next| self.at(next).is_some());
        self.offset = next.unwrap_or(self.bytes.len());
        let torn = next.is_none() && self.is_torn(offset);
        Some(Item::Damage { offset, length: self.offset - offset, torn })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for payload in payloads {
            let start = begin(&mut bytes);
            bytes.extend_from_slice(payload);
            finish(&mut bytes, start);
        }
        bytes
    }

    #[test]
    fn any_damaged_byte_costs_the_record_it_stands_in() {
        let payloads: [&[u8]; 3] = [b"first", b"", b"the third one"];
        let whole = file(&payloads);
        let bounds = [0, HEADER + 5, 2 * HEADER + 5, whole.len()];
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            let hit = (0..3).find(|&i| at < bounds[i + 1]).unwrap();
            let items: Vec<_> = Records::new(&bytes, 0).collect();
            let expected: Vec<_> = (0..3)
                .map(|i| {
                    if i == hit {
                        let length = bounds[i + 1] - bounds[i];
                        Item::Damage { offset: bounds[i], length, torn: false }
                    } else {
                        Item::Record(payloads[i])
                    }
                })
                .collect();
            assert_eq!(items, expected, "byte {at}");
        }
    }

    #[test]
    fn a_cut_file_ends_with_damage() {
        let whole = file(&[b"first", b"second"]);
        for length in HEADER + 6..whole.len() {
            let items: Vec<_> = Records::new(&whole[..length], 0).collect();
            let offset = HEADER + 5;
            let torn = Item::Damage { offset, length: length - offset, torn: true };
            assert_eq!(items, [Item::Record(b"first"), torn]);
            let mut unwritten = whole.clone();
            unwritten[length..].fill(0);
            let length = whole.len() - offset;
            let torn = Item::Damage { offset, length, torn: true };
            assert_eq!(Records::new(&unwritten, 0).last(), Some(torn), "zeros from {length}");
        }
    }
}
