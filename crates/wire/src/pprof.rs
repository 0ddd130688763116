//! Profiles in the format of pprof, both directions.
//!
//! ```text
//! record     what a profile is made of, the same for writing and for reading
//! writer     a profile, streamed field by field into a sink
//! reader     a profile's fields as they come, lent from its bytes
//! document   a profile, checked and indexed, for who asks what stands behind an id
//! error      what is wrong with a profile, and where
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

mod document;
mod error;
mod reader;
mod record;
mod writer;

pub use document::{Document, Facts, Frame, Frames, Samples};
pub use error::{Error, Reason, Table};
pub use reader::{Comments, Event, Item, Labels, Lines, LocationIds, Reader, SampleRead, Values};
pub use record::{
    Function, FunctionId, Label, LabelValue, Line, Location, LocationId, Mapping, MappingId,
    Sample, StringId, ValueType,
};
pub use writer::{EncodedSample, Writer, encode_label, encode_location_ids};

/// The content type under which a profile is served.
pub const CONTENT_TYPE: &str = "application/octet-stream";
