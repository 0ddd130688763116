//! What answers are made in, kept from one to the next: pages of bytes, and compressors.
//!
//! A page goes to the connection as it is and comes back when its last byte is on the way. Without this
//! an answer of 100 kB allocates three times its size, and a compressor takes more than that: a server
//! that is asked for its own metrics every few seconds would allocate most for that.

use flate2::{Compress, Compression, FlushCompress, Status};
use parking_lot::Mutex;

use bytes::Bytes;

/// Bytes of a page. It is sent when it is full.
pub(super) const PAGE: usize = 64 * 1024;

/// What may be written to a page that is just not full.
const SLACK: usize = 1024;

/// Pages that wait for the next answer; further ones are freed.
const MOST_PAGES: usize = 16;

/// Compressors that wait, each some 300 kB; further ones are freed.
const MOST_COMPRESSORS: usize = 4;

static PAGES: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
static COMPRESSORS: Mutex<Vec<Compress>> = Mutex::new(Vec::new());

/// A buffer for a part of an answer; comes back when dropped.
pub(super) struct Page {
    pub(super) bytes: Vec<u8>,
}

impl Page {
    /// Takes an empty page. Steady.
    pub(super) fn take() -> Self {
        let kept = PAGES.lock().pop();
        Page { bytes: kept.unwrap_or_else(|| Vec::with_capacity(PAGE + SLACK)) }
    }

    /// What was written, for the connection. Allocates a few words.
    pub(super) fn into_bytes(self) -> Bytes {
        if self.bytes.is_empty() { Bytes::new() } else { Bytes::from_owner(self) }
    }
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        // Nothing is left of one that went on, and something large was written in one go to the other.
        if bytes.capacity() < PAGE || bytes.capacity() > 2 * PAGE {
            return;
        }
        bytes.clear();
        let mut pages = PAGES.lock();
        if pages.len() < MOST_PAGES {
            pages.push(bytes);
        }
    }
}

/// A stream of gzip; its compressor comes back when dropped, if the stream came to its end: reset in the
/// middle of one, zlib-rs 0.6 begins the next with bits that were left.
pub(super) struct Gzip {
    compressor: Option<Compress>,
    is_whole: bool,
}

impl Gzip {
    /// Begins a stream. Steady.
    pub(super) fn begin() -> Self {
        let kept = COMPRESSORS.lock().pop();
        let compressor = kept.unwrap_or_else(|| Compress::new_gzip(Compression::fast(), 15));
        Gzip { compressor: Some(compressor), is_whole: false }
    }

    /// Appends to `out` what is known of the compressed stream once `bytes` are in it; all of it if they
    /// are the `last`.
    pub(super) fn write(&mut self, mut bytes: &[u8], last: bool, out: &mut Vec<u8>) {
        let Some(compressor) = &mut self.compressor else { return };
        let flush = if last { FlushCompress::Finish } else { FlushCompress::None };
        loop {
            if out.capacity() - out.len() < SLACK {
                out.reserve(PAGE / 2);
            }
            let before = compressor.total_in();
            let status = compressor.compress_vec(bytes, out, flush);
            bytes = &bytes[(compressor.total_in() - before) as usize..];
            let has_room = out.len() < out.capacity();
            match status {
                Ok(Status::StreamEnd) => {
                    self.is_whole = true;
                    return;
                }
                Ok(Status::Ok | Status::BufError) if bytes.is_empty() && !last && has_room => {
                    return;
                }
                Ok(_) => {}
                // Only for streams that were not begun, or are over.
                Err(_) => return,
            }
        }
    }
}

impl Drop for Gzip {
    fn drop(&mut self) {
        if let Some(mut compressor) = self.compressor.take().filter(|_| self.is_whole) {
            compressor.reset();
            let mut kept = COMPRESSORS.lock();
            if kept.len() < MOST_COMPRESSORS {
                kept.push(compressor);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn streams_are_whole_however_they_are_cut_and_compressors_serve_again() {
        let text: Vec<u8> = (0..60_000u32).flat_map(|n| n.to_string().into_bytes()).collect();
        for size in [1, 100, 1000, PAGE, text.len()] {
            let text = &text[..text.len().min(size * 2000)];
            let mut gzip = Gzip::begin();
            let mut out = Vec::new();
            for part in text.chunks(size) {
                gzip.write(part, false, &mut out);
            }
            gzip.write(b"", true, &mut out);
            let mut back = Vec::new();
            flate2::read::GzDecoder::new(&*out).read_to_end(&mut back).unwrap();
            assert!(back == text, "in parts of {size}");
        }
        // One that is given up in the middle leaves nothing behind.
        Gzip::begin().write(&text, false, &mut Vec::new());
        let (mut out, mut back) = (Vec::new(), Vec::new());
        Gzip::begin().write(b"again", true, &mut out);
        flate2::read::GzDecoder::new(&*out).read_to_end(&mut back).unwrap();
        assert_eq!(back, b"again");
    }

    #[test]
    fn pages_come_back_unless_they_have_grown() {
        let mut page = Page::take();
        page.bytes.extend_from_slice(b"x");
        let bytes = page.into_bytes();
        assert_eq!(&bytes[..], b"x");
        drop(bytes);
        assert!(Page::take().bytes.is_empty());
        let mut page = Page::take();
        page.bytes.reserve(4 * PAGE);
        drop(page);
        assert!(PAGES.lock().iter().all(|page| page.capacity() <= 2 * PAGE));
        assert!(Page::take().into_bytes().is_empty());
    }
}
