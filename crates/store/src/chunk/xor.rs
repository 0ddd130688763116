//! Prometheus' XOR chunks: floats in 1.3 bytes per sample where they are regular.
//!
//! The bytes are those of Prometheus' `chunkenc.XORChunk`, bit by bit; the layout is drawn in
//! `docs/format/chunk.md`. It goes back to the paper on Gorilla (VLDB 2015, section 4.1).
//!
//! [`Encoder`] is plain state of 32 bytes that lives beside the bytes, not around them: the head
//! keeps it in a series' row and the bytes in a slab. After each append the buffer's first
//! [`Encoder::len`] bytes are a complete chunk that [`decode`] reads and a block takes over verbatim.
//!
//! 1. The first sample is a varint timestamp and a raw value.
//! 2. The second one is a uvarint difference and an XORed value.
//! 3. Each further one is the difference of differences in 1, 16, 20, 24 or 68 bits, and the XOR
//!    with the previous value: one bit if equal, otherwise the significant bits within the window
//!    (leading, trailing zeros) of the last sample that set one, or within a new window.

use super::Damage;
use crate::select::Samples;

/// Bytes before the samples: their number, as a big-endian `u16`.
pub const HEADER: usize = 2;

/// No sample takes more than these bytes. The longest is a second one: ten bytes of a difference
/// and 77 bits of a value.
pub const SAMPLE_BYTES_MAX: usize = 20;

/// A chunk holds at most this many samples.
pub const SAMPLES_MAX: u16 = u16::MAX;

/// In place of a count of leading zeros: no window has been set.
const NO_WINDOW: u8 = 0xff;

/// The state with which the next sample is appended to a chunk.
///
/// The buffer belongs to the caller and must be handed in with the same content each time; it may
/// move and grow in between. Bytes behind [`Encoder::len`] are scratch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Encoder {
    timestamp: i64,
    value: u64,
    delta: u64,
    /// Position of the next bit, counted from the start of the buffer.
    bit: u32,
    count: u16,
    leading: u8,
    trailing: u8,
}

const _: () = assert!(size_of::<Encoder>() == 32, "a row of the head holds one");

/// The buffer has no room for the sample, or the chunk has [`SAMPLES_MAX`] already. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Default for Encoder {
    fn default() -> Self {
        Encoder::new()
    }
}

impl Encoder {
    /// The state of a chunk without samples, whatever the buffer holds.
    pub const fn new() -> Self {
        Encoder {
            timestamp: 0,
            value: 0,
            delta: 0,
            bit: (HEADER * 8) as u32,
            count: 0,
            leading: NO_WINDOW,
            trailing: 0,
        }
    }

    /// The state after the last sample of `chunk`, to go on appending to a copy of it.
    ///
    /// # Errors
    /// The chunk is damaged.
    pub fn resume(chunk: &[u8]) -> Result<Self, Damage> {
        let mut decoder = Decoder::new(chunk)?;
        while decoder.next()?.is_some() {}
        Ok(Encoder {
            timestamp: decoder.timestamp,
            value: decoder.value,
            delta: decoder.delta,
            bit: (HEADER * 8 + decoder.bits.position) as u32,
            count: decoder.count,
            leading: decoder.leading,
            trailing: decoder.trailing,
        })
    }

    /// Number of samples.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Length of the chunk in bytes: its header at least.
    pub fn len(&self) -> usize {
        self.bit.div_ceil(8) as usize
    }

    /// Whether there are no samples yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The latest timestamp; meaningless while the chunk is empty.
    pub fn timestamp(&self) -> i64 {
        self.timestamp
    }

    /// The latest value, bit by bit; meaningless while the chunk is empty.
    pub fn value(&self) -> f64 {
        f64::from_bits(self.value)
    }

    /// Appends a sample, which must be later than the last one, to the chunk in `buffer`.
    ///
    /// Steady: never allocates.
    ///
    /// # Errors
    /// [`Full`], with nothing changed, when the sample does not fit: `buffer` then has less than
    /// [`SAMPLE_BYTES_MAX`] bytes behind [`Encoder::len`], or the chunk holds [`SAMPLES_MAX`].
    pub fn append(&mut self, buffer: &mut [u8], timestamp: i64, value: f64) -> Result<(), Full> {
        debug_assert!(self.count == 0 || timestamp > self.timestamp, "samples come in order");
        if self.count == SAMPLES_MAX {
            return Err(Full);
        }
        let mut next = *self;
        let value = value.to_bits();
        match self.count {
            0 => {
                let (varint, length) = varint(zigzag(timestamp));
                next.put(buffer, u128::from_be_bytes(varint) >> (128 - 8 * length), 8 * length)?;
                next.put(buffer, u128::from(value), 64)?;
            }
            1 => {
                next.delta = timestamp.wrapping_sub(self.timestamp) as u64;
                let (varint, length) = varint(next.delta);
                next.put(buffer, u128::from_be_bytes(varint) >> (128 - 8 * length), 8 * length)?;
                let (bits, length) = next.value_bits(value);
                next.put(buffer, bits, length)?;
            }
            _ => {
                next.delta = timestamp.wrapping_sub(self.timestamp) as u64;
                let dod = next.delta.wrapping_sub(self.delta) as i64;
                let (head, head_length) = timestamp_bits(dod);
                let (bits, length) = next.value_bits(value);
                if head_length <= 24 {
                    next.put(buffer, u128::from(head) << length | bits, head_length + length)?;
                } else {
                    next.put(buffer, 0b1111 << 64 | u128::from(head), head_length)?;
                    next.put(buffer, bits, length)?;
                }
            }
        }
        next.timestamp = timestamp;
        next.value = value;
        next.count += 1;
        buffer[..HEADER].copy_from_slice(&next.count.to_be_bytes());
        *self = next;
        Ok(())
    }

    /// As [`Encoder::append`], but grows `buffer` where that is needed; its length is that of the
    /// chunk afterwards.
    ///
    /// # Errors
    /// [`Full`] when the chunk holds [`SAMPLES_MAX`].
    pub fn append_growing(
        &mut self,
        buffer: &mut Vec<u8>,
        timestamp: i64,
        value: f64,
    ) -> Result<(), Full> {
        buffer.resize(self.len() + SAMPLE_BYTES_MAX, 0);
        let appended = self.append(buffer, timestamp, value);
        buffer.truncate(self.len());
        appended
    }

    /// The bits that carry `value` after the current one, at most 77; moves the window.
    #[inline]
    fn value_bits(&mut self, value: u64) -> (u128, u32) {
        let xor = value ^ self.value;
        if xor == 0 {
            return (0, 1);
        }
        // Five bits carry the number of leading zeros.
        let leading = (xor.leading_zeros() as u8).min(31);
        let trailing = xor.trailing_zeros() as u8;
        if self.leading != NO_WINDOW && leading >= self.leading && trailing >= self.trailing {
            let significant = 64 - u32::from(self.leading) - u32::from(self.trailing);
            return (0b10 << significant | u128::from(xor >> self.trailing), 2 + significant);
        }
        self.leading = leading;
        self.trailing = trailing;
        let significant = 64 - u32::from(leading) - u32::from(trailing);
        // Six bits carry the number of significant bits; 64 is written as 0, which cannot occur.
        let window = 0b11 << 11 | u128::from(leading) << 6 | u128::from(significant & 63);
        (window << significant | u128::from(xor >> trailing), 13 + significant)
    }

    /// Writes the lowest `length` bits of `bits`, at most 120 of them; the bits above are zero.
    #[inline]
    fn put(&mut self, buffer: &mut [u8], bits: u128, length: u32) -> Result<(), Full> {
        let byte = (self.bit / 8) as usize;
        let used = self.bit % 8;
        let end = ((self.bit + length).div_ceil(8)) as usize;
        if end > buffer.len() {
            return Err(Full);
        }
        let mut aligned = (bits << (128 - used - length)).to_be_bytes();
        if used > 0 {
            // The bits before are kept; those behind may be scratch.
            aligned[0] |= buffer[byte] & !(0xff >> used);
        }
        if let Some(room) = buffer.get_mut(byte..byte + 16) {
            // A copy of fixed size is a move; what is written too much is scratch.
            room.copy_from_slice(&aligned);
        } else {
            buffer[byte..end].copy_from_slice(&aligned[..end - byte]);
        }
        self.bit += length;
        Ok(())
    }
}

/// The bits of a difference of differences. Of the longest form, 68 bits, the lower 64 are given.
#[inline]
fn timestamp_bits(dod: i64) -> (u64, u32) {
    // Of n bits, the range is -(2^(n-1) - 1) ..= 2^(n-1): one more than of a two's complement at the
    // upper end, one less at the lower one.
    let fits = |bits: u32| (-((1 << (bits - 1)) - 1)..=1 << (bits - 1)).contains(&dod);
    let low = |bits: u32| dod as u64 & ((1 << bits) - 1);
    if dod == 0 {
        (0, 1)
    } else if fits(14) {
        (0b10 << 14 | low(14), 16)
    } else if fits(17) {
        (0b110 << 17 | low(17), 20)
    } else if fits(20) {
        (0b1110 << 20 | low(20), 24)
    } else {
        (dod as u64, 68)
    }
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// The varint of `value` at the front of the bytes, and its length.
fn varint(mut value: u64) -> ([u8; 16], u32) {
    let mut bytes = [0; 16];
    let mut length = 0;
    while value >= 0x80 {
        bytes[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    bytes[length] = value as u8;
    (bytes, length as u32 + 1)
}

/// Appends the samples of `chunk` in `from..=to` to `samples`; see [`super::decode`].
///
/// # Errors
/// The chunk is damaged.
pub fn decode(chunk: &[u8], from: i64, to: i64, samples: &mut Samples) -> Result<(), Damage> {
    let mut decoder = Decoder::new(chunk)?;
    // A damaged count must not reserve what the bytes cannot hold: a sample takes at least two bits.
    let expected = usize::from(decoder.count).min(chunk.len() * 4);
    samples.timestamps.reserve(expected);
    samples.values.reserve(expected);
    let before = samples.timestamps.len();
    let result = loop {
        match decoder.next() {
            Ok(Some((timestamp, value))) => {
                if timestamp > to {
                    break Ok(());
                }
                if timestamp >= from {
                    samples.timestamps.push(timestamp);
                    samples.values.push(value);
                }
            }
            Ok(None) => break Ok(()),
            Err(damage) => break Err(damage),
        }
    };
    if !samples.histograms.is_empty() && samples.timestamps.len() > before {
        samples.histograms.resize(samples.timestamps.len(), None);
    }
    result
}

/// Reads a chunk sample by sample. Never allocates.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    bits: Bits<'a>,
    timestamp: i64,
    value: u64,
    delta: u64,
    count: u16,
    read: u16,
    leading: u8,
    trailing: u8,
}

impl<'a> Decoder<'a> {
    /// Starts before the first sample.
    ///
    /// # Errors
    /// The bytes are too short for a header.
    pub fn new(chunk: &'a [u8]) -> Result<Self, Damage> {
        let (header, data) = chunk.split_first_chunk::<HEADER>().ok_or(Damage::Short)?;
        Ok(Decoder {
            bits: Bits { data, position: 0 },
            timestamp: 0,
            value: 0,
            delta: 0,
            count: u16::from_be_bytes(*header),
            read: 0,
            leading: NO_WINDOW,
            trailing: 0,
        })
    }

    /// Number of samples that the chunk announces.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The next sample; `None` behind the last one.
    ///
    /// # Errors
    /// The chunk is damaged. What comes after an error means nothing.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot fail")]
    #[inline(always)]
    pub fn next(&mut self) -> Result<Option<(i64, f64)>, Damage> {
        if self.read == self.count {
            return Ok(None);
        }
        if self.read >= 2 {
            let dod = self.read_dod()?;
            self.delta = self.delta.wrapping_add(dod as u64);
            let previous = self.timestamp;
            self.timestamp = previous.wrapping_add(self.delta as i64);
            self.read_value()?;
            if self.timestamp <= previous {
                return Err(Damage::Order);
            }
        } else {
            self.read_first_two()?;
        }
        self.read += 1;
        Ok(Some((self.timestamp, f64::from_bits(self.value))))
    }

    #[inline(never)]
    fn read_first_two(&mut self) -> Result<(), Damage> {
        let number = self.bits.read_varint()?;
        if self.read == 0 {
            self.timestamp = (number >> 1) as i64 ^ -((number & 1) as i64);
            self.value = self.bits.read(64)?;
            return Ok(());
        }
        self.delta = number;
        let previous = self.timestamp;
        self.timestamp = previous.wrapping_add(number as i64);
        self.read_value()?;
        if self.timestamp <= previous { Err(Damage::Order) } else { Ok(()) }
    }

    #[inline(always)]
    fn read_dod(&mut self) -> Result<i64, Damage> {
        let word = self.bits.peek();
        let (prefix, length) = match word.leading_ones() {
            0 => {
                self.bits.skip(1)?;
                return Ok(0);
            }
            1 => (2, 14),
            2 => (3, 17),
            3 => (4, 20),
            _ => {
                self.bits.skip(4)?;
                return Ok(self.bits.read(64)? as i64);
            }
        };
        self.bits.skip(prefix + length)?;
        let number = (word << prefix >> (64 - length)) as i64;
        // The upper end of the range is one more than in a two's complement.
        Ok(if number > 1 << (length - 1) { number - (1 << length) } else { number })
    }

    #[inline(always)]
    fn read_value(&mut self) -> Result<(), Damage> {
        let word = self.bits.peek();
        if word >> 63 == 0 {
            return self.bits.skip(1);
        }
        if word >> 62 == 0b10 {
            if self.leading == NO_WINDOW {
                return Err(Damage::Field);
            }
            self.bits.skip(2)?;
        } else {
            let leading = (word >> 57) as u8 & 31;
            let significant = match (word >> 51) as u8 & 63 {
                0 => 64,
                some => some,
            };
            self.bits.skip(13)?;
            if leading + significant > 64 {
                return Err(Damage::Field);
            }
            self.leading = leading;
            self.trailing = 64 - leading - significant;
        }
        let significant = 64 - self.leading - self.trailing;
        let xor = self.bits.read(u32::from(significant))?;
        self.value ^= xor << self.trailing;
        Ok(())
    }
}

/// Bits from the highest of each byte on.
#[derive(Clone, Debug)]
struct Bits<'a> {
    data: &'a [u8],
    /// In bits; never beyond the end.
    position: usize,
}

impl Bits<'_> {
    /// The next bits from the top of the word: at least 57 of them are data, or zeros behind its end.
    #[inline(always)]
    fn peek(&self) -> u64 {
        let byte = self.position / 8;
        let word = match self.data.get(byte..byte + 8) {
            Some(bytes) => u64::from_be_bytes(bytes.try_into().expect("eight bytes")),
            None => self.tail(byte),
        };
        word << (self.position % 8)
    }

    #[inline(never)]
    fn tail(&self, byte: usize) -> u64 {
        let rest = self.data.get(byte..).unwrap_or(&[]);
        let mut padded = [0; 8];
        for (to, from) in padded.iter_mut().zip(rest) {
            *to = *from;
        }
        u64::from_be_bytes(padded)
    }

    #[inline(always)]
    fn skip(&mut self, bits: u32) -> Result<(), Damage> {
        let position = self.position + bits as usize;
        if position > self.data.len() * 8 {
            return Err(Damage::Short);
        }
        self.position = position;
        Ok(())
    }

    /// The next `length` bits, 1 to 64, as a number.
    #[inline(always)]
    fn read(&mut self, length: u32) -> Result<u64, Damage> {
        if length <= 57 {
            let bits = self.peek() >> (64 - length);
            self.skip(length)?;
            return Ok(bits);
        }
        let high = self.peek() >> 32;
        self.skip(32)?;
        let rest = length - 32;
        let low = self.peek() >> (64 - rest);
        self.skip(rest)?;
        Ok(high << rest | low)
    }

    fn read_varint(&mut self) -> Result<u64, Damage> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.read(8)?;
            if shift == 63 && byte > 1 {
                return Err(Damage::Field);
            }
            number |= (byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Damage::Field)
    }
}

#[cfg(test)]
#[path = "xor_tests.rs"]
mod tests;
