//! Compressed bodies: gzip and zstd, into a buffer that is reused, up to a bound.
//!
//! gzip goes whole through libdeflate (2.5 times the speed of a streaming inflater here) with the size
//! that the trailer promises; what isn't one whole member (several members, a wrong or huge promise)
//! goes through the streaming one, which takes any of them.

use std::io::Read;

use super::buffers::Lent;
use super::{Error, LARGE_BODY};

/// How a body is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Encoding {
    #[default]
    Identity,
    Gzip,
    Zstd,
}

impl Encoding {
    /// The encoding with this name in `Content-Encoding`.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let name = name.trim();
        if name.is_empty() || name.eq_ignore_ascii_case("identity") {
            Some(Encoding::Identity)
        } else if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") {
            Some(Encoding::Gzip)
        } else if name.eq_ignore_ascii_case("zstd") {
            Some(Encoding::Zstd)
        } else {
            None
        }
    }
}

/// Without a limit of the caller: an honest exposition shrinks to a tenth or a twentieth, a bomb to a
/// thousandth.
const MOST_RATIO: usize = 100;

/// What any body may inflate to, whatever its ratio.
const ALWAYS_ALLOWED: usize = 64 << 20;

/// What no body may inflate to.
pub(super) const HARD_BOUND: usize = 1 << 30;

/// The window that a zstd frame may ask for: 2^27 bytes, as the `zstd` program allows by default.
const ZSTD_WINDOW_LOG: u32 = 27;

/// The state of the inflaters, kept between bodies.
#[derive(Default)]
pub(super) struct Inflater {
    gzip: Option<libdeflater::Decompressor>,
    zstd: Option<zstd_safe::DCtx<'static>>,
}

/// The bound on the inflated size of `compressed` bytes: the caller's, and ours.
fn bound(compressed: usize, limit: Option<u64>) -> usize {
    match limit {
        Some(limit) => usize::try_from(limit).unwrap_or(usize::MAX).min(HARD_BOUND),
        None => compressed.saturating_mul(MOST_RATIO).clamp(ALWAYS_ALLOWED, HARD_BOUND),
    }
}

/// Whether inflating may take milliseconds: an exposition shrinks to a tenth, and gzip says more.
pub(super) fn takes_long(compressed: &[u8], encoding: Encoding) -> bool {
    let promised = match (encoding, compressed.last_chunk()) {
        (Encoding::Gzip, Some(size)) => u32::from_le_bytes(*size) as usize,
        _ => 0,
    };
    compressed.len().saturating_mul(10).max(promised) > LARGE_BODY
}

/// Inflates `lent.raw[body]` into `lent.inflated`. Steady: does not allocate once the buffer has the
/// size.
pub(super) fn inflate(
    lent: &mut Lent,
    body: std::ops::Range<usize>,
    encoding: Encoding,
    limit: Option<u64>,
) -> Result<(), Error> {
    let _stage = profiler::stage("inflate");
    let bound = bound(body.len(), limit);
    let result = match encoding {
        Encoding::Identity => unreachable!("there is nothing to inflate"),
        Encoding::Gzip => gunzip(lent, body.clone(), bound),
        Encoding::Zstd => unzstd(lent, body.clone(), bound),
    };
    match result {
        Ok(()) => Ok(()),
        Err(Failure::Error(error)) => Err(error),
        Err(Failure::Bound) => Err(match limit {
            Some(limit) if limit as usize <= HARD_BOUND => Error::too_large(limit),
            _ => Error::inflate(format!(
                "{} bytes inflate to more than {bound}: a compression bomb; a body_size_limit \
                 would replace this bound",
                body.len()
            )),
        }),
    }
}

enum Failure {
    Error(Error),
    Bound,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Error(error)
    }
}

fn gunzip(lent: &mut Lent, body: std::ops::Range<usize>, bound: usize) -> Result<(), Failure> {
    let bytes = &lent.buffer.raw[body.clone()];
    let Some(trailer) = bytes.len().checked_sub(4).map(|at| &bytes[at..]) else {
        return Err(Error::inflate("gzip: shorter than a gzip header and trailer").into());
    };
    let promised = u32::from_le_bytes([trailer[0], trailer[1], trailer[2], trailer[3]]) as usize;
    // libdeflate stops after the first member and does not say where, so a body that may hold a second
    // one is not for it. By chance these three bytes stand in one compressed body of 16 MB.
    let single = memchr::memmem::find(&bytes[3..], &[0x1f, 0x8b, 0x08]).is_none();
    // A promise beyond what deflate can do (1:1032) is no promise.
    if single && promised < bound && promised <= bytes.len().saturating_mul(1032) {
        lent.resize_inflated(promised)?;
        let buffer = &mut lent.buffer;
        let inflater = buffer.inflater.gzip.get_or_insert_with(libdeflater::Decompressor::new);
        let done = inflater.gzip_decompress(&buffer.raw[body.clone()], &mut buffer.inflated);
        if done == Ok(promised) {
            return Ok(());
        }
    }
    gunzip_streaming(lent, body, bound)
}

#[cold]
fn gunzip_streaming(
    lent: &mut Lent,
    body: std::ops::Range<usize>,
    bound: usize,
) -> Result<(), Failure> {
    let mut length = 0;
    let raw = lent.take_raw();
    let result = {
        let mut decoder = flate2::bufread::MultiGzDecoder::new(&raw[body]);
        loop {
            if length == lent.buffer.inflated.len()
                && let Err(failure) = grow(lent, length, bound)
            {
                break Err(failure);
            }
            match decoder.read(&mut lent.buffer.inflated[length..]) {
                Ok(0) => break Ok(()),
                Ok(read) => length += read,
                Err(error) => {
                    break Err(Failure::Error(Error::inflate(format!(
                        "gzip: {error} (after {length} inflated bytes)"
                    ))));
                }
            }
            if length >= bound {
                break Err(Failure::Bound);
            }
        }
    };
    lent.put_raw(raw);
    lent.buffer.inflated.truncate(length);
    result
}

/// Doubles the inflated buffer, to at most one byte more than `bound`.
fn grow(lent: &mut Lent, length: usize, bound: usize) -> Result<(), Failure> {
    if length > bound {
        return Err(Failure::Bound);
    }
    let size = (length * 2).max(lent.buffer.inflated.capacity()).max(64 << 10);
    lent.resize_inflated(size.min(bound.saturating_add(1)).max(length + 1))?;
    Ok(())
}

fn unzstd(lent: &mut Lent, body: std::ops::Range<usize>, bound: usize) -> Result<(), Failure> {
    let mut context = lent.buffer.inflater.zstd.take().unwrap_or_else(|| {
        let mut context = zstd_safe::DCtx::create();
        // Refused only for values outside zstd's own bounds.
        let _ = context.set_parameter(zstd_safe::DParameter::WindowLogMax(ZSTD_WINDOW_LOG));
        context
    });
    let _ = context.reset(zstd_safe::ResetDirective::SessionOnly);
    let raw = lent.take_raw();
    let mut length = 0;
    let result = {
        let mut input = zstd_safe::InBuffer::around(&raw[body]);
        loop {
            if length == lent.buffer.inflated.len()
                && let Err(failure) = grow(lent, length, bound)
            {
                break Err(failure);
            }
            let mut output = zstd_safe::OutBuffer::around(&mut lent.buffer.inflated[length..]);
            let hint = match context.decompress_stream(&mut output, &mut input) {
                Ok(hint) => hint,
                Err(code) => {
                    break Err(Failure::Error(Error::inflate(format!(
                        "zstd: {} (after {length} inflated bytes)",
                        zstd_safe::get_error_name(code)
                    ))));
                }
            };
            let produced = output.pos();
            length += produced;
            if length >= bound {
                break Err(Failure::Bound);
            }
            if input.pos() == input.src.len() {
                if hint == 0 {
                    break Ok(());
                }
                // Everything was taken and the frame is not complete: either there is more to come
                // out of the decoder, or the body was cut off.
                if produced == 0 {
                    break Err(Failure::Error(Error::inflate(format!(
                        "zstd: the body ends in the middle of a frame (after {length} inflated bytes)"
                    ))));
                }
            }
        }
    };
    lent.put_raw(raw);
    lent.buffer.inflater.zstd = Some(context);
    lent.buffer.inflated.truncate(length);
    result
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::http_client::Buffers;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![0; zstd_safe::compress_bound(bytes.len())];
        let written = zstd_safe::compress(&mut out[..], bytes, 3).unwrap();
        out.truncate(written);
        out
    }

    fn run(bytes: &[u8], encoding: Encoding, limit: Option<u64>) -> Result<Vec<u8>, String> {
        let buffers = Buffers::new(4 << 30);
        let mut lent = buffers.take();
        lent.buffer.raw.extend_from_slice(b"head");
        lent.buffer.raw.extend_from_slice(bytes);
        let end = lent.buffer.raw.len();
        inflate(&mut lent, 4..end, encoding, limit).map_err(|error| error.to_string())?;
        Ok(lent.buffer.inflated.clone())
    }

    #[test]
    fn inflates_what_is_whole_and_refuses_the_rest() {
        let text: Vec<u8> = (0..200_000u32).flat_map(|n| n.to_string().into_bytes()).collect();
        let (first, second) = text.split_at(100_000);
        for (name, encoding, whole, parts) in [
            ("gzip", Encoding::Gzip, gzip(&text), [gzip(first), gzip(second)].concat()),
            ("zstd", Encoding::Zstd, zstd(&text), [zstd(first), zstd(second)].concat()),
        ] {
            assert!(run(&whole, encoding, None) == Ok(text.clone()), "{name}");
            assert!(run(&parts, encoding, None) == Ok(text.clone()), "{name} in two members");
            let error = run(&whole[..whole.len() / 2], encoding, None).unwrap_err();
            assert!(error.contains(name), "{error}");
            let error = run(b"# HELP a b\n", encoding, None).unwrap_err();
            assert!(error.contains(name), "{error}");
            let limit = text.len() as u64;
            assert!(run(&whole, encoding, Some(limit + 1)).is_ok(), "{name}");
            let error = run(&whole, encoding, Some(limit)).unwrap_err();
            assert!(error.contains("body size limit exceeded"), "{error}");
        }
    }

    #[test]
    fn a_bomb_is_recognised_by_its_ratio() {
        let zeros = vec![b'0'; 80 << 20];
        for (encoding, bomb) in [(Encoding::Gzip, gzip(&zeros)), (Encoding::Zstd, zstd(&zeros))] {
            let error = run(&bomb, encoding, None).unwrap_err();
            assert!(error.contains("bomb"), "{error}");
            assert_eq!(run(&bomb, encoding, Some(100 << 20)).unwrap().len(), zeros.len());
        }
    }

    #[test]
    fn equal_members_are_not_taken_for_one() {
        let member = gzip(b"a 1\n");
        assert_eq!(run(&member.repeat(3), Encoding::Gzip, None).unwrap(), b"a 1\n".repeat(3));
    }
}
