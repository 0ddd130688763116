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

/// The strings of a record.
pub(crate) struct Strings<'a>(Vec<&'a str>);

/// A label of a series: the numbers of its name and value among the strings.
pub(crate) type Numbers = (u32, u32);

impl<'a> Strings<'a> {
    /// A string, by its number.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> &'a str {
        self.0[number as usize]
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// A label in words.
    #[inline]
    pub(crate) fn label(&self, (name, value): Numbers) -> (&'a str, &'a str) {
        (self.get(name), self.get(value))
    }
}

/// Generations begin at 1.
fn generation(reader: &mut Reader<'_>) -> Option<u32> {
    reader.unsigned32().filter(|&generation| generation > 0)
}

/// Reads the payload, after its kind, and hands each series to `each`: row, generation and labels, whose
/// strings are in a record once, so that equal numbers are equal strings. `None` if it isn't one.
pub(crate) fn decode<'a>(
    payload: &'a [u8],
    mut each: impl FnMut(u32, u32, &Strings<'a>, &[Numbers]),
) -> Option<()> {
    let mut reader = Reader::new(payload);
    let count = usize::try_from(reader.unsigned()?).ok()?;
    let mut strings = Vec::with_capacity(count.min(reader.remaining()));
    for _ in 0..count {
        let length = usize::try_from(reader.unsigned()?).ok()?;
        strings.push(std::str::from_utf8(reader.take(length)?).ok()?);
    }
    let strings = Strings(strings);
    let known = |number: u32| ((number as usize) < strings.len()).then_some(number);
    let mut labels: Vec<Numbers> = Vec::new();
    let mut before: Vec<u32> = Vec::new();
    for _ in 0..reader.unsigned()? {
        let (row, generation) = (reader.unsigned32()?, generation(&mut reader)?);
        labels.clear();
        for _ in 0..reader.unsigned()? {
            labels.push((known(reader.unsigned32()?)?, known(reader.unsigned32()?)?));
        }
        // Most series of a target have the same names.
        if !labels.iter().map(|label| label.0).eq(before.iter().copied()) {
            let texts = labels.iter().map(|label| strings.get(label.0));
            if !texts.is_sorted_by(|a, b| a < b) {
                return None;
            }
            before.clear();
            before.extend(labels.iter().map(|label| label.0));
        }
        each(row, generation, &strings, &labels);
    }
    reader.is_empty().then_some(())
}

/// As [`decode`], without the labels: row and generation of each series.
pub(crate) fn decode_rows(payload: &[u8], mut each: impl FnMut(u32, u32)) -> Option<()> {
    let mut reader = Reader::new(payload);
    for _ in 0..reader.unsigned()? {
        let length = usize::try_from(reader.unsigned()?).ok()?;
        reader.take(length)?;
    }
    for _ in 0..reader.unsigned()? {
        let (row, generation) = (reader.unsigned32()?, generation(&mut reader)?);
        for _ in 0..reader.unsigned()?.checked_mul(2)? {
            reader.unsigned()?;
        }
        each(row, generation);
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
        decode(&payload[1..], |row, generation, strings, labels| {
            assert_eq!((row as usize, generation), (index, 7));
            let pairs = labels.iter().map(|&label| strings.label(label));
            assert_eq!(Labels::from_pairs(pairs), sets[index]);
            index += 1;
        })
        .unwrap();
        assert_eq!(index, 100);
        let mut rows = Vec::new();
        decode_rows(&payload[1..], |row, generation| rows.push((row, generation))).unwrap();
        assert_eq!(rows, (0..100).map(|row| (row, 7)).collect::<Vec<_>>());
    }

    #[test]
    fn a_generation_of_zero_is_refused() {
        let labels = Labels::from_pairs([("a", "b")]);
        for (generation, sound) in [(0, None), (1, Some(()))] {
            let mut payload = Vec::new();
            encode(&mut payload, [(3, generation, &labels)].into_iter());
            assert_eq!(decode(&payload[1..], |_, _, _, _| ()), sound);
            assert_eq!(decode_rows(&payload[1..], |_, _| ()), sound);
        }
    }

    proptest! {
        #[test]
        fn noise_is_refused(payload in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode(&payload, |_, _, _, labels| assert!(labels.len() <= 64));
            let _ = decode_rows(&payload, |_, _| ());
        }
    }
}
