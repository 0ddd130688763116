//! The one buffer between what is written and the sink.

use super::CHUNK;

/// Bytes on their way to the sink.
pub(super) struct Chunk<'s> {
    bytes: &'s mut [u8],
    length: usize,
    sink: &'s mut dyn FnMut(&[u8]),
}

impl<'s> Chunk<'s> {
    pub(super) fn new(bytes: &'s mut [u8], sink: &'s mut dyn FnMut(&[u8])) -> Self {
        Chunk { bytes, length: 0, sink }
    }

    /// The bytes that are written.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// What is written, from `begin` on.
    pub(super) fn written(&mut self, begin: usize) -> &mut [u8] {
        &mut self.bytes[begin..self.length]
    }

    /// Takes the last `length` bytes back.
    pub(super) fn retreat(&mut self, length: usize) {
        self.length -= length;
    }

    /// The bytes that are free.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.bytes.len() - self.length
    }

    /// What is free, where that is at least `size` bytes.
    #[inline]
    pub(super) fn free(&mut self, size: usize) -> Option<&mut [u8]> {
        let end = self.length + size;
        self.bytes.get_mut(self.length..end)
    }

    /// Counts `length` bytes that [`free`](Chunk::free) lent as written.
    #[inline]
    pub(super) fn advance(&mut self, length: usize) {
        self.length += length;
    }

    /// Makes room for `size` bytes if a chunk holds as many, so that they come in one piece.
    #[inline]
    pub(super) fn reserve(&mut self, size: usize) {
        if self.room() < size {
            self.flush();
        }
    }

    /// Room for a number, whose length is not known before it is written: `size` is far below a chunk.
    #[inline]
    pub(super) fn number(&mut self, size: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        self.reserve(size);
        self.length += write(&mut self.bytes[self.length..]);
    }

    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        match self.free(bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.length += bytes.len();
            }
            None => self.put_across(bytes),
        }
    }

    /// What does not fit goes out in whole chunks.
    #[cold]
    fn put_across(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.length == CHUNK {
                self.flush();
            }
            let (now, later) = bytes.split_at(bytes.len().min(self.room()));
            self.bytes[self.length..self.length + now.len()].copy_from_slice(now);
            self.length += now.len();
            bytes = later;
        }
    }

    /// Writes `text` so that it ends neither the line nor, with `quote`, the quotes that it stands in.
    pub(super) fn escaped(&mut self, text: &str, quote: bool) {
        let bytes = text.as_bytes();
        let mut begin = 0;
        for (at, byte) in bytes.iter().enumerate() {
            let escape: &[u8] = match byte {
                b'\\' => b"\\\\",
                b'\n' => b"\\n",
                b'"' if quote => b"\\\"",
                _ => continue,
            };
            self.put(&bytes[begin..at]);
            self.put(escape);
            begin = at + 1;
        }
        self.put(&bytes[begin..]);
    }

    pub(super) fn flush(&mut self) {
        if self.length > 0 {
            (self.sink)(&self.bytes[..self.length]);
            self.length = 0;
        }
    }
}

/// Copies `text` to the front of `to`, which is at least as long. What names and values are long is
/// copied in two pieces that overlap, each of a size that the compiler knows: asking the library costs
/// twice as much.
#[inline]
pub(super) fn copy_text(text: &[u8], to: &mut [u8]) {
    let length = text.len();
    let to = &mut to[..length];
    match length {
        33..=64 => copy_ends::<32>(text, to),
        17..=32 => copy_ends::<16>(text, to),
        9..=16 => copy_ends::<8>(text, to),
        4..=8 => copy_ends::<4>(text, to),
        _ => to.copy_from_slice(text),
    }
}

/// Both are as long, and at least `N`.
#[inline]
fn copy_ends<const N: usize>(text: &[u8], to: &mut [u8]) {
    if let (Some(first), Some(last)) = (text.first_chunk::<N>(), text.last_chunk::<N>()) {
        to[..N].copy_from_slice(first);
        let at = to.len() - N;
        to[at..].copy_from_slice(last);
    }
}
