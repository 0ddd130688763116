//! The field layer of protobuf, under the protobuf exposition, OTLP and whatever else is made of fields.
//!
//! ```text
//! write    sizes of fields, and a sink that takes fields: a `Vec`, a count of bytes, or chunks of 64 KiB
//! read     the fields of a message, lent from its bytes
//! ```
//! The source is the encoding page of the protocol buffers documentation ("Encoding", wire types 0, 1, 2
//! and 5). Nested messages have their exact length in front of them: a writer is run once over [`Length`]
//! to know it and once over the real sink, as [`Sink::message`] does, or adds the sizes up itself.
//!
//! Refuses groups (wire types 3 and 4, deprecated before proto3), field number 0 and those above 2^29 - 1,
//! integers of more than 64 bits and whatever ends in the middle; each error names the byte and the
//! reason. A reader goes one message deep: who wants a nested one asks for its reader, so that depth is
//! a matter of the schema and never of the input.

mod chunks;
mod read;
mod write;

pub use chunks::{Buffer, CHUNK, Chunks, fold};
pub(crate) use read::unzigzag;
pub use read::{Error, Field, Packed, Reader, Reason, Value, take_varint};
pub use write::{
    Length, MAX_VARINT, Message, Sink, WireType, bool_len, bytes_len, fixed64_len, int64_len,
    sint64_len, tag_len, uint64_len, varint_len, zigzag,
};

#[cfg(test)]
mod tests;
