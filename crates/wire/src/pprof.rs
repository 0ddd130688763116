//! Profiles in the format of pprof, both directions.
//!
//! ```text
//! record     what a profile is made of, the same for writing and for reading
//! writer     a profile, streamed field by field into a sink
//! ```
//! The source is `perftools.profiles.Profile` (google/pprof, proto/profile.proto, 2026), and where the
//! schema is silent what google/pprof's Go package does: which profiles it refuses, what a label without a
//! value is, which column is shown when none is named.
//!
//! A profile usually travels compressed with gzip; that is left to the caller, in both directions. Of the
//! older text and binary formats that pprof reads, nothing is read.
//!
//! Strings are bytes here: names of threads are cut in the middle of a character by the kernel and symbols
//! of C++ are in any encoding, and Go's reader accepts both.

mod record;
mod writer;

pub use record::{
    Function, FunctionId, Label, LabelValue, Line, Location, LocationId, Mapping, MappingId,
    Sample, StringId, ValueType,
};
pub use writer::{EncodedSample, Writer, encode_label, encode_location_ids};

/// The content type under which a profile is served.
pub const CONTENT_TYPE: &str = "application/octet-stream";
