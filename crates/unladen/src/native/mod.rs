//! Native (exponential) histograms, as an algorithm over a row of atomics that somebody else keeps.
//!
//! ```text
//! cell      record: one observation into a cell, by the thread that owns it
//! index     which bucket a value belongs to, exact at every bound
//! fit       which resolution and zero bucket let two ranges of buckets fit into a limit
//! snapshot  Snapshot: what a cell held at one moment; sums and differences of those
//! explicit  the same question for histograms whose bounds are given
//! ```
//! A bucket's bounds are powers of `base = 2^(2^-schema)`: the bucket with index `i` holds
//! `base^i < value <= base^(i+1)`. That is how OTLP numbers them; Prometheus' index is one higher.
//! Lowering the schema by one halves the index, rounding down, because the bounds of a schema are
//! every second bound of the next.
//!
//! # A cell
//! [`Shape::width`] words. A cell of zeros is an empty one, so that fresh and reused memory needs no
//! setting up.
//! ```text
//! word  name            holds
//! 0     SEQUENCE        bits 0..24: changes of layout, counted at their begin and at their end;
//!                       bits 24..64: observations, counted likewise; so an odd count is one under way
//! 1     SUM             bits of an f64: the sum of the finite observations
//! 2     ZERO_THRESHOLD  bits of an f64: the zero bucket's bound, once the windows are in use
//! 3     ZERO_COUNT      observations between -bound and bound, both included
//! 4     WINDOWS + 0     positive window: bits 0..8 8 - schema, 16..32 length, 32..64 first index
//! 5     WINDOWS + 1     negative window: the same; both always have the same schema
//! 6     INFINITE + 0    observations of +Inf
//! 7     INFINITE + 1    observations of -Inf
//! 8     NAN             observations of NaN
//! 9..   BUCKETS         `limit` words: the positive window from the first word upwards, the negative
//!                       one from the last word downwards; words in neither are zero
//! ```
//! Nothing counts all observations: the count is the sum of the buckets, so that it can't differ.
//!
//! # Who writes, who reads
//! One thread at a time writes a cell, its owner; or whoever holds the lock that stands in for one.
//! It loads and stores, and never needs a read-modify-write. Any number of threads read.
//!
//! 1. An observation makes the count of observations odd, stores a bucket and the sum, and makes it
//!    even. A reader that finds the same even sequence before and after has an exact copy.
//! 2. A change of layout (a window grows or moves, the resolution is halved, the zero bucket
//!    swallows others) makes the other count odd and later even. What a reader copied across one is
//!    dropped.
//! 3. Where observations come faster than a copy takes, a reader stops asking for an exact copy after
//!    a few attempts. The buckets are then still such that none ever falls from one read to the next;
//!    only the sum may be ahead of the buckets, or behind, by the observations made during the copy.
//! 4. A writer that is suspended within a change of layout (a few hundred nanoseconds, some tens of
//!    times in the life of a cell) leaves it unreadable. A reader spins, yields, and then gives up
//!    with [`Busy`]; nothing is lost, because the next read finds all of it.
//!
//! # What does not fit
//! - Values that lie outside both windows and for which `limit` has no room: the schema is lowered
//!   until all fit. At schema -4 the zero bucket swallows the buckets nearest to zero, of both signs.
//! - ±Inf: counted apart, and not by a window that reaches there, because one such value would cost
//!   everybody else the resolution. Prometheus has a bucket for them, one above that of `f64::MAX`:
//!   [`Snapshot::overflow_index`]. It is not part of the limit. They make Prometheus' sum infinite.
//! - NaN: counts, belongs to no bucket and makes Prometheus' sum NaN.
//! - OTLP has a place for neither, and asks for a count that is the sum of the buckets and a sum of
//!   normal values: [`Snapshot::finite_count`] and [`Snapshot::finite_sum`] are without them.
//! - Subnormal values have buckets like all others. A sum beyond `f64::MAX` is infinite and stays so.
//!
//! # Sources
//! Prometheus' native histogram specification; OpenTelemetry's metrics data model and SDK
//! specification ("exponential histogram"). Their limit on buckets is not the same: OTel's holds for
//! each sign, and for the range of buckets; Prometheus' for both signs together, and for those in
//! use. Here it is both signs together, and the range.

mod cell;
mod explicit;
mod fit;
mod index;
mod snapshot;
#[cfg(test)]
mod tests;

use std::fmt;

pub(crate) use cell::record;
pub(crate) use explicit::bucket;
#[allow(unused_imports, reason = "its bench asks")]
pub(crate) use index::index_of;
pub(crate) use snapshot::{Buckets, Snapshot};

/// The finest schema: 256 buckets for each power of two.
pub(crate) const FINEST: i8 = 8;
/// The coarsest schema: 16 powers of two in each bucket.
pub(crate) const COARSEST: i8 = -4;
/// The fewest buckets with which every stream of values can be kept: one for each sign.
pub(crate) const SMALLEST_LIMIT: u16 = 2;
/// OpenTelemetry's default for the number of buckets.
pub(crate) const DEFAULT_LIMIT: u16 = 160;
/// Prometheus' default for the zero bucket: 2^-128.
pub(crate) const DEFAULT_ZERO_THRESHOLD: f64 = f64::from_bits((1023 - 128) << 52);

/// What a histogram starts with, and what it may grow to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    schema: i8,
    limit: u16,
    zero_threshold: f64,
}

impl Shape {
    /// Starts at `schema`; counts as zero what is at most `zero_threshold` away from it; has at most
    /// `limit` buckets, positive and negative together.
    ///
    /// With [`SMALLEST_LIMIT`] no observation is lost, and all but the coarsest resolution is. At that
    /// resolution the whole range of an f64 takes 132 buckets for each sign; three decades take at
    /// most 11 buckets at schema 0 and 81 at schema 3, where a bucket is 9% wide.
    pub(crate) fn new(schema: i8, zero_threshold: f64, limit: u16) -> Result<Shape, Invalid> {
        if !(COARSEST..=FINEST).contains(&schema) {
            return Err(Invalid::Schema(schema));
        }
        if !(zero_threshold.is_finite() && zero_threshold >= 0.0) {
            return Err(Invalid::ZeroThreshold(zero_threshold));
        }
        if limit < SMALLEST_LIMIT {
            return Err(Invalid::Limit(limit));
        }
        Ok(Shape { schema, limit, zero_threshold: zero_threshold.abs() })
    }

    /// Words in a cell.
    pub(crate) fn width(&self) -> usize {
        cell::BUCKETS + usize::from(self.limit)
    }

    /// By how many halvings the starting schema is below the finest.
    fn shift(&self) -> u32 {
        u32::from(FINEST.abs_diff(self.schema))
    }
}

/// Why a [`Shape`] can't be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Invalid {
    /// The schema.
    Schema(i8),
    /// The zero threshold.
    ZeroThreshold(f64),
    /// The limit on buckets.
    Limit(u16),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::Schema(schema) => write!(
                f,
                "the schema of a native histogram is {COARSEST} (buckets grow by a factor of 65536) to \
                 {FINEST} (by a factor of 1.0027), not {schema}"
            ),
            Invalid::ZeroThreshold(threshold) => write!(
                f,
                "the zero threshold of a native histogram is a finite number and not negative, which \
                 {threshold} isn't"
            ),
            Invalid::Limit(limit) => write!(
                f,
                "a native histogram needs at least {SMALLEST_LIMIT} buckets, one for each sign, not \
                 {limit}"
            ),
        }
    }
}

impl std::error::Error for Invalid {}
