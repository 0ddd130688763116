//! Which labels a series has, as the payload of a record.
//!
//! A record holds the series that were created between two commits. Their strings stand in it once;
//! it can be read without any other record.

use hashbrown::HashMap;

use super::varint::{Reader, put};
use crate::labels::Labels;

/// The first byte of the payload.
pub(crate) const KIND: u8 = 2;

/// Appends the payload for `series` (row, generation, labels) to `out`. Growth.
pub(crate) fn encode<'a>(
    out: &mut Vec<u8>,
    series: impl Iterator<Item = (u32, u32, &'a Labels)> + Clone,
) {
    let mut numbers = HashMap::<&str, u64>::new();
    let mut strings = Vec::new();
    let mut body = Vec::new();
    let mut count = 0u64;
    for (row, generation, labels) in series {
        count += 1;
        put(&mut body, u64::from(row));
        put(&mut body, u64::from(generation));
        put(&mut body, labels.len() as u64);
        for text in labels.iter().flat_map(|(name, value)| [name, value]) {
            let next = strings.len() as u64;
            let number = *numbers.entry(text).or_insert_with(|| {
                strings.push(text);
                next
            });
            put(&mut body, number);
        }
    }
    out.push(KIND);
    put(out, strings.len() as u64);
    for text in strings {
        put(out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
    }
    put(out, count);
    out.extend_from_slice(&body);
}

/// Reads the payload, after its kind, and hands each series to `each`: row, generation and the
/// labels as names and values in turn. `None` if it isn't one.
pub(crate) fn decode<'a>(
    payload: &'a [u8],
    mut each: impl FnMut(u32, u32, &[&'a str]),
) -> Option<()> {
    let mut reader = Reader::new(payload);
    let count = usize::try_from(reader.unsigned()?).ok()?;
    let mut strings = Vec::with_capacity(count.min(reader.remaining()));
    for _ in 0..count {
        let length = usize::try_from(reader.unsigned()?).ok()?;
        strings.push(std::str::from_utf8(reader.take(length)?).ok()?);
    }
    let mut labels = Vec::new();
    for _ in 0..reader.unsigned()? {
        let (row, generation) = (reader.unsigned32()?, reader.unsigned32()?);
        labels.clear();
        for _ in 0..reader.unsigned()?.checked_mul(2)? {
            labels.push(*strings.get(usize::try_from(reader.unsigned()?).ok()?)?);
        }
        let sorted = labels.chunks_exact(2).zip(labels.chunks_exact(2).skip(1));
        if sorted.into_iter().any(|(a, b)| a[0] >= b[0]) {
            return None;
        }
        each(row, generation, &labels);
    }
    reader.is_empty().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn series_come_back_and_strings_stand_once() {
        let sets: Vec<_> = (0..100)
            .map(|i| {
                let name = ["rather_long_metric_name", "another_metric_name"][i % 2];
                Labels::from_pairs([("__name__", name), ("instance", &format!("host-{i}"))])
            })
            .collect();
        let mut payload = Vec::new();
        encode(&mut payload, sets.iter().enumerate().map(|(i, set)| (i as u32, 7, set)));
        assert!(payload.len() < 100 * 20);
        let mut index = 0;
        decode(&payload[1..], |row, generation, labels| {
            assert_eq!((row as usize, generation), (index, 7));
            let pairs = labels.chunks_exact(2).map(|pair| (pair[0], pair[1]));
            assert_eq!(Labels::from_pairs(pairs), sets[index]);
            index += 1;
        })
        .unwrap();
        assert_eq!(index, 100);
    }

    proptest! {
        #[test]
        fn noise_is_refused(payload in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode(&payload, |_, _, labels| assert!(labels.len() <= 128));
        }
    }
}
