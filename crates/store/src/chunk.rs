//! Chunks: runs of one series' samples in Prometheus' own encodings.
//!
//! Holds the encodings and decodes by their ids; knows neither files nor checksums, which are those
//! of the blocks and of the head's chunk file. The bytes of a chunk are the same in all of them, so
//! that a block is written by copying. Layouts: `docs/format/chunk.md`.
//!
//! Refuses native histograms and the encodings with start timestamps, by name: their place is a file
//! of their own beside [`xor`], and an arm in [`decode`].

pub mod xor;

use std::fmt;

use crate::select::Samples;

pub use xor::Encoder;

/// The id of a chunk's encoding, as it stands before the data in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encoding(pub u8);

impl Encoding {
    /// Floats: delta-of-delta timestamps, XORed values.
    pub const XOR: Encoding = Encoding(1);
    /// Native histograms with integer counts.
    pub const HISTOGRAM: Encoding = Encoding(2);
    /// Native histograms with float counts.
    pub const FLOAT_HISTOGRAM: Encoding = Encoding(3);

    fn name(self) -> &'static str {
        match self.0 {
            1 => "XOR",
            2 => "histogram",
            3 => "float histogram",
            4 => "XOR with start timestamps",
            5 => "histogram with start timestamps",
            6 => "float histogram with start timestamps",
            _ => "unknown",
        }
    }

    /// Whether its samples are floats, as opposed to histograms.
    pub fn is_float(self) -> bool {
        matches!(self.0, 1 | 4)
    }

    /// Whether [`decode`] reads it.
    pub fn is_supported(self) -> bool {
        self == Encoding::XOR
    }
}

/// `1 (XOR)`
impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0, self.name())
    }
}

/// Why a chunk cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The bytes end before the number of samples that the chunk announces.
    Short,
    /// A field holds what no encoder writes.
    Field,
    /// A sample is not later than the one before it.
    Order,
    /// Not damage, but nothing that can be read either.
    Unsupported(Encoding),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Short => f.write_str("the chunk ends before its last sample"),
            Damage::Field => f.write_str("the chunk holds a field that no encoder writes"),
            Damage::Order => f.write_str("the chunk's samples are not in the order of time"),
            Damage::Unsupported(encoding) => {
                write!(f, "chunk encoding {encoding} is not supported yet")
            }
        }
    }
}

impl std::error::Error for Damage {}

/// Appends the samples of `chunk` in `from..=to` (milliseconds) to `samples`.
///
/// Steady: allocates only where the columns of `samples` have to grow.
///
/// # Errors
/// The chunk is damaged or of an encoding that cannot be read; `samples` then holds what came before
/// the damage.
pub fn decode(
    encoding: Encoding,
    chunk: &[u8],
    from: i64,
    to: i64,
    samples: &mut Samples,
) -> Result<(), Damage> {
    match encoding {
        Encoding::XOR => xor::decode(chunk, from, to, samples),
        other => Err(Damage::Unsupported(other)),
    }
}

/// The number of samples that a chunk announces. All encodings begin with it; those of histograms
/// with start timestamps keep two other bits in the same bytes.
pub fn sample_count(encoding: Encoding, chunk: &[u8]) -> Option<u16> {
    let count = u16::from_be_bytes([*chunk.first()?, *chunk.get(1)?]);
    Some(if matches!(encoding.0, 5 | 6) { count & 0x3fff } else { count })
}
