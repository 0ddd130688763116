//! Chunks: whatever the bytes are, decoding ends with samples in the order of time or with an error,
//! and what it gives encodes to a chunk that decodes to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use store::Samples;
use store::chunk::{self, Encoder, Encoding};

fuzz_target!(|bytes: &[u8]| {
    let Some((&encoding, bytes)) = bytes.split_first() else { return };
    let mut samples = Samples::default();
    let encoding = Encoding(encoding % 8);
    if chunk::decode(encoding, bytes, i64::MIN, i64::MAX, &mut samples).is_err() {
        return;
    }
    assert_eq!(Some(samples.len() as u16), chunk::sample_count(encoding, bytes));
    assert!(samples.timestamps.is_sorted_by(|a, b| a < b));
    if samples.is_empty() {
        return;
    }
    let mut encoder = Encoder::new();
    let mut again = Vec::new();
    for (&timestamp, &value) in samples.timestamps.iter().zip(&samples.values) {
        encoder.append_growing(&mut again, timestamp, value).expect("not more than there were");
    }
    let mut decoded = Samples::default();
    chunk::decode(Encoding::XOR, &again, i64::MIN, i64::MAX, &mut decoded).expect("just encoded");
    assert_eq!(decoded.timestamps, samples.timestamps);
    let bits = |samples: &Samples| samples.values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&decoded), bits(&samples));
    let resumed = Encoder::resume(&again).expect("just encoded");
    assert_eq!(resumed, encoder);
    let middle = samples.timestamps[samples.len() / 2];
    let mut late = Samples::default();
    chunk::decode(encoding, bytes, middle, i64::MAX, &mut late).expect("it was decoded before");
    assert_eq!(late.len(), samples.len() - samples.len() / 2);
});
