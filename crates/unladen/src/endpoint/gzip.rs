//! Packs a body on its way out, in memory that is kept from body to body.

use flate2::{Compress, Compression, FlushCompress, Status};

/// What is handed on at once.
const CHUNK: usize = 32 << 10;

/// Packs one body after the other.
#[derive(Debug)]
pub(super) struct Gzip {
    compress: Compress,
    out: Box<[u8]>,
    length: usize,
    has_begun: bool,
}

/// Takes chunks with the state so far.
pub(super) trait Fold<S, E>: FnMut(S, &[u8]) -> Result<S, E> {}
impl<S, E, F: FnMut(S, &[u8]) -> Result<S, E>> Fold<S, E> for F {}

impl Gzip {
    /// Allocates what packing needs, about 300 KB. *Setup.*
    pub(super) fn new(level: u32) -> Self {
        Gzip {
            // The largest window that there is.
            compress: Compress::new_gzip(Compression::new(level), 15),
            out: vec![0; CHUNK].into_boxed_slice(),
            length: 0,
            has_begun: false,
        }
    }

    /// Begins another body. *Steady.*
    pub(super) fn begin(&mut self) {
        self.compress.reset();
        self.length = 0;
        self.has_begun = false;
    }

    /// Takes a part of the body; `fold` gets what is ready. *Steady.*
    pub(super) fn push<S, E>(
        &mut self,
        part: &[u8],
        state: S,
        fold: &mut impl Fold<S, E>,
    ) -> Result<S, E> {
        if self.has_begun {
            return self.run(part, FlushCompress::None, state, fold);
        }
        // Whoever waits for the first bytes gets them at once, at the cost of five more.
        self.has_begun = true;
        let state = self.run(part, FlushCompress::Sync, state, fold)?;
        self.hand_on(state, fold)
    }

    /// Ends the body. *Steady.*
    pub(super) fn finish<S, E>(&mut self, state: S, fold: &mut impl Fold<S, E>) -> Result<S, E> {
        let state = self.run(&[], FlushCompress::Finish, state, fold)?;
        self.hand_on(state, fold)
    }

    fn run<S, E>(
        &mut self,
        mut part: &[u8],
        flush: FlushCompress,
        mut state: S,
        fold: &mut impl Fold<S, E>,
    ) -> Result<S, E> {
        loop {
            if self.length == self.out.len() {
                state = self.hand_on(state, fold)?;
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
                return Ok(state);
            }
        }
    }

    fn hand_on<S, E>(&mut self, state: S, fold: &mut impl Fold<S, E>) -> Result<S, E> {
        match std::mem::take(&mut self.length) {
            0 => Ok(state),
            length => fold(state, &self.out[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io::Read;

    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_again() {
        let mut seed = 7u64;
        let mut random = Vec::new();
        for _ in 0..300_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random.push((seed >> 56) as u8);
        }
        let text = "queue_messages{queue=\"a\"} 17\n".repeat(10_000).into_bytes();
        let mut gzip = Gzip::new(1);
        let append = |mut body: Vec<u8>, chunk: &[u8]| {
            assert!(!chunk.is_empty() && chunk.len() <= CHUNK);
            body.extend_from_slice(chunk);
            Ok::<_, Infallible>(body)
        };
        for body in [&b""[..], b"a", &random, &text, &random[..CHUNK], &random[..65_536]] {
            for size in [1000, 65_536] {
                gzip.begin();
                let mut packed = Vec::new();
                for (index, part) in body.chunks(size).enumerate() {
                    packed = gzip.push(part, packed, &mut { append }).unwrap();
                    if index == 0 {
                        let mut first = Vec::new();
                        let _ =
                            flate2::bufread::GzDecoder::new(&packed[..]).read_to_end(&mut first);
                        assert_eq!(first, part, "the first part is there at once");
                    }
                }
                packed = gzip.finish(packed, &mut { append }).unwrap();
                let mut unpacked = Vec::new();
                flate2::bufread::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
                assert!(unpacked == body, "{} bytes by {size}", body.len());
            }
        }
    }
}
