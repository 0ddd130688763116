//! Prometheus' XOR chunks: floats in 1.3 bytes per sample where they are regular.
//!
//! The bytes are those of Prometheus' `chunkenc.XORChunk`, bit by bit; the layout is drawn in
//! `docs/format/chunk.md`. It goes back to the paper on Gorilla (VLDB 2015, section 4.1).
//!
//! [`Encoder`] is plain state that lives beside the bytes, not around them: the head keeps it in a
//! series' row, packed, and the bytes in a slab. After each append the buffer's first
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
pub(crate) const NO_WINDOW: u8 = 0xff;

/// The state with which the next sample is appended to a chunk.
///
/// The buffer belongs to the caller and must be handed in with the same content each time; it may
/// move and grow in between. Bytes behind [`Encoder::len`] are scratch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Encoder {
    pub(crate) timestamp: i64,
    pub(crate) value: u64,
    pub(crate) delta: u64,
    /// Position of the next bit, counted from the start of the buffer.
    pub(crate) bit: u32,
    pub(crate) count: u16,
    pub(crate) leading: u8,
    pub(crate) trailing: u8,
}

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
        let state = decoder.state;
        Ok(Encoder {
            timestamp: state.timestamp,
            value: state.value,
            delta: state.delta,
            bit: (HEADER * 8 + state.bits.position) as u32,
            count: decoder.count,
            leading: state.leading,
            trailing: state.trailing,
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

    /// Gives up the complete bytes behind the header: answers their number, and expects the byte after
    /// them (if [`Encoder::len`] says that there is one) right behind the header from now on. So the
    /// bytes of a chunk can live elsewhere, in pieces, and only the last one is handed in.
    pub fn detach(&mut self) -> usize {
        let complete = self.bit / 8 - HEADER as u32;
        self.bit -= 8 * complete;
        complete as usize
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
        let value = value.to_bits();
        // The state is read and written field by field, never copied: a copy as a whole would wait
        // for the narrow writes of the append before it (12 ns for a sample in place of 5).
        let mut bits = Writer { buffer, bit: self.bit };
        let mut window = (self.leading, self.trailing);
        let mut delta = 0;
        match self.count {
            0 => {
                bits.put_varint(zigzag(timestamp))?;
                bits.put(value, 64)?;
            }
            1 => {
                delta = timestamp.wrapping_sub(self.timestamp) as u64;
                bits.put_varint(delta)?;
                bits.put_value(0, 0, value ^ self.value, &mut window)?;
            }
            _ => {
                delta = timestamp.wrapping_sub(self.timestamp) as u64;
                let dod = delta.wrapping_sub(self.delta) as i64;
                let (head, length) = timestamp_bits(dod);
                if length <= 24 {
                    bits.put_value(head, length, value ^ self.value, &mut window)?;
                } else {
                    bits.put(0b1111, 4)?;
                    bits.put(dod as u64, 64)?;
                    bits.put_value(0, 0, value ^ self.value, &mut window)?;
                }
            }
        }
        self.bit = bits.bit;
        self.timestamp = timestamp;
        self.value = value;
        self.delta = delta;
        self.count += 1;
        (self.leading, self.trailing) = window;
        buffer[..HEADER].copy_from_slice(&self.count.to_be_bytes());
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
}

/// Appends bits, from the highest of each byte on.
struct Writer<'a> {
    buffer: &'a mut [u8],
    bit: u32,
}

impl Writer<'_> {
    /// Writes the `length` bits of `head`, at most 24, and then a value that differs from the one
    /// before it by `xor`; moves the window of leading and trailing zeros.
    #[inline(always)]
    fn put_value(
        &mut self,
        head: u64,
        length: u32,
        xor: u64,
        window: &mut (u8, u8),
    ) -> Result<(), Full> {
        if xor == 0 {
            return self.put(head << 1, length + 1);
        }
        let value = value_bits(xor, window);
        self.put(head << value.fields_length | value.fields, length + value.fields_length)?;
        self.put(value.significant, value.significant_length)
    }

    fn put_varint(&mut self, mut number: u64) -> Result<(), Full> {
        while number >= 0x80 {
            self.put(number & 0x7f | 0x80, 8)?;
            number >>= 7;
        }
        self.put(number, 8)
    }

    /// Writes the lowest `length` bits of `bits`, 1 to 64 of them; the bits above are zero.
    #[inline(always)]
    fn put(&mut self, bits: u64, length: u32) -> Result<(), Full> {
        if length > 57 {
            // With up to seven bits of a byte begun before, a word would not hold them.
            self.put_word(bits >> 32, length - 32)?;
            return self.put_word(bits & 0xffff_ffff, 32);
        }
        self.put_word(bits, length)
    }

    #[inline(always)]
    fn put_word(&mut self, bits: u64, length: u32) -> Result<(), Full> {
        let byte = (self.bit / 8) as usize;
        let used = self.bit % 8;
        let word = bits << (64 - used - length);
        if let Some(room) = self.buffer.get_mut(byte..).and_then(<[u8]>::first_chunk_mut::<8>) {
            // The bits before are kept; those behind may be scratch. A copy of fixed size is a move;
            // what is written too much is scratch again.
            let begun = u64::from(room[0] & !(0xff >> used)) << 56;
            *room = (word | begun).to_be_bytes();
        } else {
            put_at_end(self.buffer, byte, used, word.to_be_bytes(), length)?;
        }
        self.bit += length;
        Ok(())
    }
}

/// As in [`Writer::put_word`], where the buffer ends within eight bytes.
#[inline(never)]
fn put_at_end(
    buffer: &mut [u8],
    byte: usize,
    used: u32,
    mut word: [u8; 8],
    length: u32,
) -> Result<(), Full> {
    let bytes = (used + length).div_ceil(8) as usize;
    let room = buffer.get_mut(byte..byte + bytes).ok_or(Full)?;
    word[0] |= room[0] & !(0xff >> used);
    room.copy_from_slice(&word[..bytes]);
    Ok(())
}

/// A value that differs from the one before it.
struct ValueBits {
    fields: u64,
    fields_length: u32,
    significant: u64,
    significant_length: u32,
}

/// How a value is written that differs by `xor`, which isn't 0; moves the window.
#[inline(always)]
fn value_bits(xor: u64, window: &mut (u8, u8)) -> ValueBits {
    // Five bits carry the number of leading zeros.
    let leading = (xor.leading_zeros() as u8).min(31);
    let trailing = xor.trailing_zeros() as u8;
    let (mut fields, mut fields_length) = (0b10, 2);
    // (Without a window, its leading zeros are more than any.)
    if leading < window.0 || trailing < window.1 {
        *window = (leading, trailing);
        let significant = 64 - u64::from(leading) - u64::from(trailing);
        // Six bits carry the number of significant bits; 64 is written as 0, which cannot occur.
        fields = 0b11 << 11 | u64::from(leading) << 6 | significant & 63;
        fields_length = 13;
    }
    let significant_length = 64 - u32::from(window.0) - u32::from(window.1);
    ValueBits { fields, fields_length, significant: xor >> window.1, significant_length }
}

/// The bits of any sample from the third on, and their number, which is at most [`STEP_BITS_MAX`]; moves
/// the window. `None` for a difference of differences that needs the longest form.
#[inline(always)]
pub(crate) fn step(dod: i64, xor: u64, window: &mut (u8, u8)) -> Option<(u128, u32)> {
    let (head, length) = timestamp_bits(dod);
    if length > 24 {
        return None;
    }
    if xor == 0 {
        return Some((u128::from(head << 1), length + 1));
    }
    let value = value_bits(xor, window);
    let fields = head << value.fields_length | value.fields;
    let bits = u128::from(fields) << value.significant_length | u128::from(value.significant);
    Some((bits, length + value.fields_length + value.significant_length))
}

/// See [`step`].
pub(crate) const STEP_BITS_MAX: u32 = 24 + 13 + 64;

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

/// Appends the samples of `chunk` in `from..=to` to `samples`; see [`super::decode`].
///
/// # Errors
/// The chunk is damaged.
pub fn decode(chunk: &[u8], from: i64, to: i64, samples: &mut Samples) -> Result<(), Damage> {
    let mut decoder = Decoder::new(chunk)?;
    let count = usize::from(decoder.count);
    // A damaged count must not reserve what the bytes cannot hold: a sample takes at least two bits.
    let possible = count.min(chunk.len() * 4);
    let before = samples.timestamps.len();
    samples.timestamps.resize(before + possible, 0);
    samples.values.resize(before + possible, 0.0);
    let columns = (&mut samples.timestamps[before..], &mut samples.values[before..]);
    let (read, result) = decode_columns(&mut decoder, columns, to);
    let result = if possible < count { result.and(Err(Damage::Short)) } else { result };
    samples.timestamps.truncate(before + read);
    samples.values.truncate(before + read);
    let early = samples.timestamps[before..].partition_point(|&timestamp| timestamp < from);
    if early > 0 {
        samples.timestamps.drain(before..before + early);
        samples.values.drain(before..before + early);
    }
    if !samples.histograms.is_empty() {
        samples.histograms.resize(samples.timestamps.len(), None);
    }
    result
}

/// Fills the columns with the samples up to the time `to`; gives how many these are.
fn decode_columns(
    decoder: &mut Decoder<'_>,
    (timestamps, values): (&mut [i64], &mut [f64]),
    to: i64,
) -> (usize, Result<(), Damage>) {
    let mut read = 0;
    while read < 2 {
        match decoder.next() {
            Ok(Some((timestamp, value))) if timestamp <= to && read < timestamps.len() => {
                (timestamps[read], values[read]) = (timestamp, value);
                read += 1;
            }
            Ok(_) => return (read, Ok(())),
            Err(damage) => return (read, Err(damage)),
        }
    }
    // A copy that no other function sees stays in registers.
    let mut state = decoder.state;
    for (timestamp, value) in timestamps[2..].iter_mut().zip(&mut values[2..]) {
        if let Err(damage) = state.advance() {
            return (read, Err(damage));
        }
        if state.timestamp > to {
            break;
        }
        *timestamp = state.timestamp;
        *value = f64::from_bits(state.value);
        read += 1;
    }
    (read, Ok(()))
}

/// Reads a chunk sample by sample. Never allocates.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    state: State<'a>,
    count: u16,
    read: u16,
}

impl<'a> Decoder<'a> {
    /// Starts before the first sample.
    ///
    /// # Errors
    /// The bytes are too short for a header.
    pub fn new(chunk: &'a [u8]) -> Result<Self, Damage> {
        let (header, data) = chunk.split_first_chunk::<HEADER>().ok_or(Damage::Short)?;
        let state = State {
            bits: Bits { data, position: 0 },
            timestamp: 0,
            value: 0,
            delta: 0,
            leading: NO_WINDOW,
            trailing: 0,
        };
        Ok(Decoder { state, count: u16::from_be_bytes(*header), read: 0 })
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
    pub fn next(&mut self) -> Result<Option<(i64, f64)>, Damage> {
        if self.read == self.count {
            return Ok(None);
        }
        match self.read {
            0 => self.state.first()?,
            1 => self.state.second()?,
            _ => self.state.advance()?,
        }
        self.read += 1;
        Ok(Some((self.state.timestamp, f64::from_bits(self.state.value))))
    }
}

/// What the next sample is relative to.
#[derive(Clone, Copy, Debug)]
struct State<'a> {
    bits: Bits<'a>,
    timestamp: i64,
    value: u64,
    delta: u64,
    leading: u8,
    trailing: u8,
}

impl State<'_> {
    fn first(&mut self) -> Result<(), Damage> {
        let number = self.bits.read_varint()?;
        self.timestamp = (number >> 1) as i64 ^ -((number & 1) as i64);
        self.value = self.bits.read(64)?;
        Ok(())
    }

    fn second(&mut self) -> Result<(), Damage> {
        self.delta = self.bits.read_varint()?;
        self.step()?;
        self.read_value(self.bits.peek(), 0)
    }

    /// Any sample from the third on.
    #[inline(always)]
    fn advance(&mut self) -> Result<(), Damage> {
        let word = self.bits.peek();
        let prefixed = |prefix: u32, length: u32| {
            let number = (word << prefix >> (64 - length)) as i64;
            // The upper end of the range is one more than in a two's complement.
            let wraps = number > 1 << (length - 1);
            (prefix + length, number - (i64::from(wraps) << length))
        };
        let (used, dod) = match word.leading_ones() {
            0 => (1, 0),
            1 => prefixed(2, 14),
            2 => prefixed(3, 17),
            3 => prefixed(4, 20),
            _ => {
                self.bits.skip(4)?;
                self.delta = self.delta.wrapping_add(self.bits.read(64)?);
                self.step()?;
                return self.read_value(self.bits.peek(), 0);
            }
        };
        self.delta = self.delta.wrapping_add(dod as u64);
        self.step()?;
        // At least 33 bits of the word are left, and 13 are enough to tell how the value goes on.
        self.read_value(word << used, used)
    }

    #[inline(always)]
    fn step(&mut self) -> Result<(), Damage> {
        let before = self.timestamp;
        self.timestamp = before.wrapping_add(self.delta as i64);
        if self.timestamp > before { Ok(()) } else { Err(self.misstep()) }
    }

    /// What was read behind the end looks like a step, too.
    #[cold]
    fn misstep(&self) -> Damage {
        if self.bits.left() < 24 { Damage::Short } else { Damage::Order }
    }

    /// The value whose bits begin `word`, `used` bits behind the position.
    #[inline(always)]
    fn read_value(&mut self, word: u64, used: u32) -> Result<(), Damage> {
        if word >> 63 == 0 {
            return self.bits.skip(used + 1);
        }
        let behind = if word >> 62 == 0b10 {
            if self.leading == NO_WINDOW {
                return Err(self.misfit(used + 2));
            }
            2
        } else {
            let leading = (word >> 57) as u8 & 31;
            let significant = match (word >> 51) as u8 & 63 {
                0 => 64,
                some => some,
            };
            if leading + significant > 64 {
                return Err(self.misfit(used + 13));
            }
            self.leading = leading;
            self.trailing = 64 - leading - significant;
            13
        };
        let significant = 64 - u32::from(self.leading) - u32::from(self.trailing);
        let xor = if used + behind + significant <= 57 {
            // The word has them all: one read for a whole sample.
            self.bits.skip(used + behind + significant)?;
            word << behind >> (64 - significant)
        } else {
            self.bits.skip(used + behind)?;
            self.bits.read(significant)?
        };
        self.value ^= xor << self.trailing;
        Ok(())
    }

    /// Fields that were read behind the end may be anything.
    #[cold]
    fn misfit(&self, bits: u32) -> Damage {
        if self.bits.left() < bits as usize { Damage::Short } else { Damage::Field }
    }
}

/// Bits from the highest of each byte on.
#[derive(Clone, Copy, Debug)]
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
        let word = match self.data.get(byte..).and_then(<[u8]>::first_chunk::<8>) {
            Some(bytes) => u64::from_be_bytes(*bytes),
            None => tail(self.data, byte),
        };
        word << (self.position % 8)
    }

    fn left(&self) -> usize {
        self.data.len() * 8 - self.position
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

/// The word at `byte`, of which some bytes are behind the end.
#[inline(never)]
fn tail(data: &[u8], byte: usize) -> u64 {
    let rest = data.get(byte..).unwrap_or(&[]);
    let mut padded = [0; 8];
    for (to, from) in padded.iter_mut().zip(rest) {
        *to = *from;
    }
    u64::from_be_bytes(padded)
}

#[cfg(test)]
#[path = "xor_tests.rs"]
mod tests;
