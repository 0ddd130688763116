//! The file `tombstones`: what was deleted from a block after it was written.
//!
//! Written empty with every block; read and honoured. Adding to it comes with the deletion API.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::layout::{CHECKSUM, Fields, TOMBSTONES_MAGIC, TOMBSTONES_VERSION, verify};
use crate::Error;
use crate::select::Samples;

/// A deleted stretch of time: both ends belong to it, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// The deleted stretches of a block, by the reference of the series.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    by_series: BTreeMap<u64, Arc<[Interval]>>,
}

/// The content of a file without tombstones.
pub(crate) fn encode_empty() -> Vec<u8> {
    let mut bytes = TOMBSTONES_MAGIC.to_be_bytes().to_vec();
    bytes.push(TOMBSTONES_VERSION);
    // The checksum covers what stands between version and checksum: nothing.
    bytes.extend_from_slice(&crc32c::crc32c(&[]).to_be_bytes());
    bytes
}

impl Tombstones {
    /// Reads the file's content.
    pub(crate) fn parse(bytes: &[u8], path: &str) -> Result<Self, Error> {
        let failed = |reason: &str| Error::corrupt(path, reason);
        let mut fields = Fields::new(bytes);
        if fields.u32() != Some(TOMBSTONES_MAGIC) {
            return Err(failed("it does not begin as a file of tombstones does"));
        }
        if fields.u8() != Some(TOMBSTONES_VERSION) {
            return Err(failed("its version is not 1"));
        }
        let stones = fields.left().checked_sub(CHECKSUM).and_then(|length| fields.bytes(length));
        let (Some(stones), Some(checksum)) = (stones, fields.u32()) else {
            return Err(failed("it ends before its checksum"));
        };
        if !verify(stones, checksum) {
            return Err(failed("its checksum does not match"));
        }
        let mut lists: BTreeMap<u64, Vec<Interval>> = BTreeMap::new();
        let mut fields = Fields::new(stones);
        while fields.left() > 0 {
            let stone = (|| Some((fields.uvarint()?, fields.varint()?, fields.varint()?)))();
            let Some((series, from, to)) = stone else {
                let at = bytes.len() - CHECKSUM - fields.left();
                return Err(Error::corrupt(format!("{path} at byte {at}"), "no tombstone"));
            };
            lists.entry(series).or_default().push(Interval { from, to });
        }
        let by_series = lists.into_iter().map(|(series, list)| (series, union(list))).collect();
        Ok(Tombstones { by_series })
    }

    /// The deleted stretches of a series, ascending and apart.
    pub(crate) fn of(&self, series: u32) -> Option<&Arc<[Interval]>> {
        self.by_series.get(&u64::from(series))
    }

    /// How many stretches there are.
    pub(crate) fn len(&self) -> usize {
        self.by_series.values().map(|list| list.len()).sum()
    }
}

fn union(mut list: Vec<Interval>) -> Arc<[Interval]> {
    list.retain(|interval| interval.from <= interval.to);
    list.sort_unstable_by_key(|interval| interval.from);
    let mut joined: Vec<Interval> = Vec::with_capacity(list.len());
    for next in list {
        match joined.last_mut() {
            Some(last) if next.from <= last.to.saturating_add(1) => last.to = last.to.max(next.to),
            _ => joined.push(next),
        }
    }
    Arc::from(joined)
}

/// Whether all of `from..=to` is deleted.
pub(crate) fn covers(deleted: &[Interval], from: i64, to: i64) -> bool {
    deleted.iter().any(|interval| interval.from <= from && to <= interval.to)
}

/// Removes the deleted ones of the samples from `start` on.
pub(crate) fn apply(deleted: &[Interval], samples: &mut Samples, start: usize) {
    let mut kept = start;
    for index in start..samples.len() {
        let timestamp = samples.timestamps[index];
        let next = deleted.partition_point(|interval| interval.to < timestamp);
        if deleted.get(next).is_some_and(|interval| interval.from <= timestamp) {
            continue;
        }
        if kept < index {
            samples.timestamps[kept] = timestamp;
            samples.values[kept] = samples.values[index];
            if !samples.histograms.is_empty() {
                samples.histograms.swap(kept, index);
            }
        }
        kept += 1;
    }
    samples.timestamps.truncate(kept);
    samples.values.truncate(kept);
    samples.histograms.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::super::layout::{put_uvarint, put_varint};
    use super::*;

    fn file(stones: &[(u64, i64, i64)]) -> Vec<u8> {
        let mut body = Vec::new();
        for &(series, from, to) in stones {
            put_uvarint(&mut body, series);
            put_varint(&mut body, from);
            put_varint(&mut body, to);
        }
        let mut bytes = TOMBSTONES_MAGIC.to_be_bytes().to_vec();
        bytes.push(TOMBSTONES_VERSION);
        bytes.extend_from_slice(&body);
        bytes.extend_from_slice(&crc32c::crc32c(&body).to_be_bytes());
        bytes
    }

    #[test]
    fn stretches_are_joined_and_applied() {
        let stones = [(7, 50, 60), (7, -5, 10), (7, 11, 20), (9, 0, 0), (7, 55, 58), (7, 90, 80)];
        let tombstones = Tombstones::parse(&file(&stones), "t").unwrap();
        let deleted = tombstones.of(7).unwrap();
        assert_eq!(**deleted, [Interval { from: -5, to: 20 }, Interval { from: 50, to: 60 }]);
        assert_eq!(tombstones.len(), 3);
        assert!(tombstones.of(8).is_none());
        assert!(covers(deleted, 50, 60) && !covers(deleted, 20, 21));

        let mut samples = Samples::default();
        for timestamp in -10..100 {
            samples.push(timestamp, timestamp as f64);
        }
        apply(deleted, &mut samples, 3);
        let expected: Vec<i64> = (-10..100)
            .filter(|t| *t < -7 || !(-5..=20).contains(t) && !(50..=60).contains(t))
            .collect();
        assert_eq!(samples.timestamps, expected);
        assert!(samples.timestamps.iter().zip(&samples.values).all(|(t, v)| *t as f64 == *v));
    }

    #[test]
    fn damage_is_refused() {
        assert_eq!(Tombstones::parse(&encode_empty(), "t").unwrap().len(), 0);
        let good = file(&[(1, 2, 3), (300, -4, 5_000_000)]);
        for length in 0..good.len() {
            assert!(Tombstones::parse(&good[..length], "t").is_err(), "{length}");
        }
        for byte in 0..good.len() {
            let mut bad = good.clone();
            bad[byte] ^= 1;
            assert!(Tombstones::parse(&bad, "t").is_err(), "{byte}");
        }
    }
}
