//! The constants of a block's files, and the two directions of their fields.
//!
//! Numbers are big-endian; varints are those of protobuf, signed ones zigzagged; checksums are
//! CRC-32C. The layouts are drawn in `docs/format/block.md`, with the names that stand here.

/// Begins the file `index`.
pub(crate) const INDEX_MAGIC: u32 = 0xbaaa_d700;
/// The version of `index` that is written. Version 3 has the same layout.
pub(crate) const INDEX_VERSION: u8 = 2;
/// Magic and version.
pub(crate) const INDEX_HEADER: usize = 5;
/// Six offsets and their checksum, at the end of the file.
pub(crate) const TOC_LENGTH: usize = 6 * 8 + CHECKSUM;
/// Series begin at multiples of this; their references count in it.
pub(crate) const SERIES_ALIGN: u64 = 16;

/// Begins each file of `chunks/`.
pub(crate) const SEGMENT_MAGIC: u32 = 0x85bd_40dd;
/// The version of these files.
pub(crate) const SEGMENT_VERSION: u8 = 1;
/// Magic, version and three bytes of padding.
pub(crate) const SEGMENT_HEADER: usize = 8;
/// No file of `chunks/` grows beyond this: offsets in it have 32 bits, and Prometheus maps it whole.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 512 << 20;

/// Begins the file `tombstones`.
pub(crate) const TOMBSTONES_MAGIC: u32 = 0x0130_ba30;
/// The version of this file.
pub(crate) const TOMBSTONES_VERSION: u8 = 1;

/// Bytes of a checksum.
pub(crate) const CHECKSUM: usize = 4;

/// The path of the `number`th file of chunks, from 1.
pub(crate) fn segment_path(directory: &str, number: u64) -> String {
    format!("{directory}/chunks/{number:06}")
}

/// Whether `checksum` is that of `bytes`. Under the fuzzer every checksum is right, so that what it
/// invents gets further than to the first one.
pub(crate) fn verify(bytes: &[u8], checksum: u32) -> bool {
    cfg!(fuzzing) || crc32c::crc32c(bytes) == checksum
}

/// Reads fields from the front of a slice. `None` means that it ends, or that no encoder writes this.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// From the first byte.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Fields { rest: bytes }
    }

    /// From the byte at `offset`.
    pub(crate) fn at(bytes: &'a [u8], offset: usize) -> Option<Self> {
        Some(Fields { rest: bytes.get(offset..)? })
    }

    /// How many bytes are left.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    /// What is left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    #[inline]
    pub(crate) fn uvarint(&mut self) -> Option<u64> {
        let mut number = 0;
        for (index, &byte) in self.rest.iter().enumerate() {
            // The tenth byte has room for one bit.
            if index == 9 && byte > 1 {
                return None;
            }
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Some(number);
            }
            if index == 9 {
                return None;
            }
        }
        None
    }

    pub(crate) fn varint(&mut self) -> Option<i64> {
        let number = self.uvarint()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// A length and as many bytes.
    #[inline]
    pub(crate) fn prefixed(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.uvarint()?).ok()?;
        self.bytes(length)
    }

    /// A length and as many bytes of UTF-8.
    #[inline]
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.prefixed()?).ok()
    }
}

pub(crate) fn put_uvarint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

pub(crate) fn put_varint(to: &mut Vec<u8>, number: i64) {
    put_uvarint(to, (number << 1 ^ number >> 63) as u64);
}

pub(crate) fn put_text(to: &mut Vec<u8>, text: &str) {
    put_uvarint(to, text.len() as u64);
    to.extend_from_slice(text.as_bytes());
}

/// Bytes that [`put_uvarint`] writes.
pub(crate) fn uvarint_length(number: u64) -> usize {
    (64 - (number | 1).leading_zeros()).div_ceil(7) as usize
}

/// Bytes that [`put_text`] writes.
pub(crate) fn text_length(text: &str) -> usize {
    uvarint_length(text.len() as u64) + text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_survive_at_every_length() {
        for shift in 0..64 {
            for number in [1_u64 << shift, (1 << shift) - 1, (1 << shift) + 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                put_uvarint(&mut bytes, number);
                assert_eq!(bytes.len(), uvarint_length(number), "{number}");
                assert_eq!(Fields::new(&bytes).uvarint(), Some(number));
                assert_eq!(Fields::new(&bytes[..bytes.len() - 1]).uvarint(), None);
                bytes.clear();
                put_varint(&mut bytes, number as i64);
                assert_eq!(Fields::new(&bytes).varint(), Some(number as i64));
            }
        }
        assert_eq!(Fields::new(&[0xff; 11]).uvarint(), None, "longer than 64 bits");
        assert_eq!(
            Fields::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).uvarint(),
            None
        );
    }

    #[test]
    fn a_text_does_not_reach_beyond_the_end() {
        assert_eq!(Fields::new(b"\x03abc").text(), Some("abc"));
        assert_eq!(Fields::new(b"\x04abc").text(), None);
        assert_eq!(Fields::new(b"\x01\xff").text(), None, "not UTF-8");
        let mut huge = Vec::new();
        put_uvarint(&mut huge, u64::MAX);
        assert_eq!(Fields::new(&huge).prefixed(), None);
    }
}
