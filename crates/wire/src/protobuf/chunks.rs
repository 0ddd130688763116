//! A sink of one buffer, handed on when it is full.

use std::fmt;

use super::write::{MAX_VARINT, Sink, WireType, encode_varint};

/// What a chunk holds at most.
pub const CHUNK: usize = 64 * 1024;

/// The memory that writing needs. Make one and use it for every message.
pub struct Buffer {
    bytes: Box<[u8]>,
}

impl Buffer {
    /// Allocates [`CHUNK`] bytes. *Setup.*
    pub fn new() -> Self {
        Buffer { bytes: vec![0; CHUNK].into_boxed_slice() }
    }

    /// The bytes on the heap.
    pub fn memory_usage(&self) -> usize {
        self.bytes.len()
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Buffer::new()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").finish_non_exhaustive()
    }
}

/// Writes through `buffer`: `write` says what, `fold` takes each chunk with the state so far and gives the
/// next. The chunks are of at most [`CHUNK`] bytes and come in order, never an empty one. *Steady.*
pub fn fold<S>(
    buffer: &mut Buffer,
    state: S,
    mut fold: impl FnMut(S, &[u8]) -> S,
    write: impl FnOnce(&mut Chunks<'_>),
) -> S {
    // Absent only while the fold has it.
    let mut slot = Some(state);
    let mut sink = |chunk: &[u8]| slot = slot.take().map(|state| fold(state, chunk));
    let mut chunks = Chunks::new(buffer, &mut sink);
    write(&mut chunks);
    chunks.finish();
    slot.expect("the fold gives its state back")
}

/// Takes fields into a buffer that is handed on when it is full; see [`fold`].
pub struct Chunks<'s> {
    bytes: &'s mut [u8],
    length: usize,
    /// What the sink has had before.
    flushed: u64,
    sink: &'s mut dyn FnMut(&[u8]),
}

impl fmt::Debug for Chunks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks").field("length", &self.length).finish_non_exhaustive()
    }
}

impl<'s> Chunks<'s> {
    pub(crate) fn new(buffer: &'s mut Buffer, sink: &'s mut dyn FnMut(&[u8])) -> Self {
        Chunks { bytes: &mut buffer.bytes, length: 0, flushed: 0, sink }
    }

    /// Hands on what is left.
    pub(crate) fn finish(mut self) {
        self.flush();
    }

    /// The bytes taken so far.
    pub fn position(&self) -> u64 {
        self.flushed + self.length as u64
    }

    /// What does not fit goes out in whole chunks.
    #[cold]
    fn put_across(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.length == self.bytes.len() {
                self.flush();
            }
            let (now, later) = bytes.split_at(bytes.len().min(self.bytes.len() - self.length));
            self.bytes[self.length..self.length + now.len()].copy_from_slice(now);
            self.length += now.len();
            bytes = later;
        }
    }

    fn flush(&mut self) {
        if self.length > 0 {
            (self.sink)(&self.bytes[..self.length]);
            self.flushed += self.length as u64;
            self.length = 0;
        }
    }
}

/// Copies `bytes` to `room`, which is as long. Most names and values have at most 16 bytes, for which a call
/// of `memcpy` with a length not known beforehand costs more than the copy: two overlapping moves do it.
#[inline]
fn copy_short(room: &mut [u8], bytes: &[u8]) {
    match bytes.len() {
        8..=16 => copy_ends::<8>(room, bytes),
        4..8 => copy_ends::<4>(room, bytes),
        2..4 => copy_ends::<2>(room, bytes),
        1 => room[0] = bytes[0],
        _ => room.copy_from_slice(bytes),
    }
}

/// Copies the first and the last `N` bytes.
#[inline]
fn copy_ends<const N: usize>(room: &mut [u8], bytes: &[u8]) {
    if let (Some(first), Some(room)) = (bytes.first_chunk::<N>(), room.first_chunk_mut::<N>()) {
        *room = *first;
    }
    if let (Some(last), Some(room)) = (bytes.last_chunk::<N>(), room.last_chunk_mut::<N>()) {
        *room = *last;
    }
}

impl Sink for Chunks<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        match self.bytes.get_mut(self.length..self.length + bytes.len()) {
            Some(room) => {
                copy_short(room, bytes);
                self.length += bytes.len();
            }
            None => self.put_across(bytes),
        }
    }

    #[inline]
    fn varint(&mut self, value: u64) {
        let room = self.bytes.get_mut(self.length..).and_then(|room| room.first_chunk_mut());
        if let Some(room) = room {
            if value < 0x80 {
                room[0] = value as u8;
                self.length += 1;
            } else {
                self.length += encode_varint(value, room);
            }
        } else {
            let mut room = [0; MAX_VARINT];
            let length = encode_varint(value, &mut room);
            self.put_across(&room[..length]);
        }
    }
    #[inline]
    fn fixed64(&mut self, field: u32, value: u64) {
        let room = self.bytes.get_mut(self.length..).and_then(|room| room.first_chunk_mut::<9>());
        match room {
            // Tag and value into the same room, each from its register.
            Some([tag, rest @ ..]) if field < 16 => {
                *tag = (field << 3) as u8 | WireType::Fixed64 as u8;
                *rest = value.to_le_bytes();
                self.length += 9;
            }
            _ => {
                self.tag(field, WireType::Fixed64);
                self.put(&value.to_le_bytes());
            }
        }
    }
}
