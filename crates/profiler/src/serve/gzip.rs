//! Packs profiles on their way out, in memory that is kept for the next ones.

use std::sync::Mutex;

use flate2::{Compress, Compression, FlushCompress, Status};

/// What is handed on at once.
const CHUNK: usize = 32 << 10;

/// States that are kept for the next bodies, of about 300 KB each.
const KEPT: usize = 2;

/// Packs one body after the other.
pub(super) struct Gzip {
    compress: Compress,
    out: Box<[u8]>,
    length: usize,
}

/// Takes chunks, and says whether more are wanted.
pub(super) type Give<'g> = &'g mut dyn FnMut(&[u8]) -> bool;

impl Gzip {
    fn new(level: u32) -> Self {
        // The largest window that there is.
        let compress = Compress::new_gzip(Compression::new(level), 15);
        Gzip { compress, out: vec![0; CHUNK].into_boxed_slice(), length: 0 }
    }

    /// Packs a part of the body; gives what is ready, and says whether more is wanted. Of the first part that
    /// is gzip's own head at least, so that whoever has gone away is missed before the second is made.
    pub(super) fn push(&mut self, part: &[u8], give: Give<'_>) -> bool {
        self.run(part, FlushCompress::None, give) && self.hand_on(give)
    }

    fn finish(&mut self, give: Give<'_>) -> bool {
        self.run(&[], FlushCompress::Finish, give) && self.hand_on(give)
    }

    fn run(&mut self, mut part: &[u8], flush: FlushCompress, give: Give<'_>) -> bool {
        loop {
            if self.length == self.out.len() && !self.hand_on(give) {
                return false;
            }
            let (read, written) = (self.compress.total_in(), self.compress.total_out());
            let status = self
                .compress
                .compress(part, &mut self.out[self.length..], flush)
                .expect("packing fails only where its own state is broken");
            // What one call takes and gives fits into a chunk.
            part = &part[(self.compress.total_in() - read) as usize..];
            self.length += (self.compress.total_out() - written) as usize;
            let is_done = match flush {
                FlushCompress::Finish => status == Status::StreamEnd,
                _ => part.is_empty() && self.length < self.out.len(),
            };
            if is_done {
                return true;
            }
        }
    }

    fn hand_on(&mut self, give: Give<'_>) -> bool {
        match std::mem::take(&mut self.length) {
            0 => true,
            length => give(&self.out[..length]),
        }
    }
}

/// States of packing that wait for the next body.
#[derive(Default)]
pub(super) struct Gzips(Mutex<Vec<Gzip>>);

impl Gzips {
    /// Packs what `body` writes into the function that it is given; that says whether more is wanted.
    /// *Steady* once as many bodies have been packed at the same time, up to two.
    pub(super) fn pack(
        &self,
        level: u32,
        give: Give<'_>,
        body: impl FnOnce(&mut dyn FnMut(&[u8]) -> bool),
    ) {
        let kept = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop();
        let mut gzip = kept.unwrap_or_else(|| Gzip::new(level));
        let mut is_wanted = true;
        body(&mut |part| {
            is_wanted = is_wanted && gzip.push(part, give);
            is_wanted
        });
        // One that was given up is not kept: zlib-rs leaves its block open across a reset.
        if is_wanted && gzip.finish(give) {
            gzip.compress.reset();
            let mut kept = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if kept.len() < KEPT {
                kept.push(gzip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_again() {
        let gzips = Gzips::default();
        let text = "stack;of;calls 17\n".repeat(50_000);
        for (body, parts) in [("", 1), ("a", 1), (&*text, 1000), (&*text, 70_000)] {
            let mut packed = Vec::new();
            let mut take = |chunk: &[u8]| {
                assert!(!chunk.is_empty() && chunk.len() <= CHUNK);
                packed.extend_from_slice(chunk);
                true
            };
            gzips.pack(1, &mut take, |give| {
                for part in body.as_bytes().chunks(parts) {
                    assert!(give(part));
                }
            });
            let mut unpacked = String::new();
            flate2::bufread::GzDecoder::new(&packed[..]).read_to_string(&mut unpacked).unwrap();
            assert!(unpacked == body, "{} bytes", body.len());
        }
        assert_eq!(gzips.0.lock().unwrap().len(), 1);
        // Whoever goes away ends it: at once when nothing else was given before.
        let mut wanted = Vec::new();
        gzips.pack(1, &mut |_| false, |give| wanted.push(give(b"a")));
        assert_eq!(wanted, [false]);
        assert!(gzips.0.lock().unwrap().is_empty());
        let mut seed = 7u32;
        let mut noise = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        };
        let mut written = 0;
        gzips.pack(1, &mut |_| false, |give| {
            while give(&[noise(), noise(), noise(), noise()]) {
                written += 4;
            }
        });
        assert!(written < 1 << 20, "{written}");
        assert!(gzips.0.lock().unwrap().is_empty());
    }
}
