//! Arbitrary bytes as a segment of the journal, and as the payload of a record.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (records, samples) = store::journal::inspect(bytes);
    // A record has a header of twelve bytes, and a byte of payload stands for 64 samples at most;
    // the bytes are read as a payload besides.
    assert!(records * 12 <= bytes.len() && samples <= bytes.len() * 128);
});
