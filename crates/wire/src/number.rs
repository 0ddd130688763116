//! Numbers as Go writes and reads them, because that is how Prometheus does.
//!
//! Writing: the shortest digits that read back as the same bits (zmij; itoa for integers below 2^53),
//! laid out by one of the [`Buffer`]'s five rules. Reading: [`parse`] takes what Go's
//! `strconv.ParseFloat` takes in an exposition and refuses the rest.
//!
//! Everything is *steady*: digits go to a buffer of the caller's.

mod format;
mod parse;

pub use format::Buffer;
pub(crate) use format::{
    SHORT, write_count, write_exposition, write_integer, write_openmetrics, write_signed,
};
pub(crate) use parse::leading;
pub use parse::{ParseError, parse, parse_literal};

/// The bits of the NaN that stands for "not a number" in stored samples (Go's `math.NaN()`).
pub const NORMAL_NAN_BITS: u64 = 0x7ff8_0000_0000_0001;

/// The bits of the NaN that marks a series as gone.
pub const STALE_NAN_BITS: u64 = 0x7ff0_0000_0000_0002;

/// The NaN that stands for "not a number" in stored samples.
pub const NORMAL_NAN: f64 = f64::from_bits(NORMAL_NAN_BITS);

/// The staleness marker. Compare with [`is_stale`], never with `==`.
pub const STALE_NAN: f64 = f64::from_bits(STALE_NAN_BITS);

/// Whether `value` is the staleness marker.
#[inline]
pub fn is_stale(value: f64) -> bool {
    value.to_bits() == STALE_NAN_BITS
}
