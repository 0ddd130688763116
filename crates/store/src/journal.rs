//! The journal: what was committed and isn't in a closed chunk yet.
//!
//! Each shard of the head has its own: segments of batches, in the order of their commits, and a log
//! of the definitions of its series. The layout is drawn in `docs/format/journal.md`.
//! Nothing here touches a disk: [`crate::head`] decides when bytes are written and files dropped.

pub(crate) mod batch;
pub(crate) mod definition;
pub(crate) mod record;
mod value;
pub(crate) mod varint;

use record::Item;

/// The first bytes of a segment and of a log of definitions, the version included.
pub(crate) const MAGIC: [u8; 8] = *b"UNLJRNL\x01";

/// Reads the file as a journal, for nothing: what a fuzzer calls. Answers the records and samples
/// that it found.
#[doc(hidden)]
pub fn inspect(bytes: &[u8]) -> (usize, usize) {
    let (mut records, mut samples) = (0, 0);
    for item in record::Records::new(bytes, MAGIC.len()) {
        if let Item::Record(payload) = item {
            records += 1;
            match payload.split_first() {
                Some((&batch::KIND, rest)) => drop(batch::decode(rest, |_| samples += 1)),
                Some((&definition::KIND, rest)) => drop(definition::decode(rest, |_, _, _| ())),
                _ => {}
            }
        }
    }
    (records, samples)
}
