//! A batch of samples as the payload of a record.
//!
//! A batch holds what one commit appended to one shard, column by column:
//! 1. rows, as runs of consecutive ones of the same generation: a target's series cost nothing;
//! 2. timestamps, where they are not all the same;
//! 3. which values stand alone, where not all or none do;
//! 4. values, by their difference from their series' first value in the same segment. A record can
//!    thus be lost without those behind it, unless it holds those first values.

use super::value::{self, SAME, SAME_MAX, Token};
use super::varint::{Reader, put, put_signed};

/// The first byte of the payload.
pub(crate) const KIND: u8 = 1;

const ONE_TIMESTAMP: u8 = 1;
const ALL_RELATIVE: u8 = 2;
const ALL_ABSOLUTE: u8 = 4;

/// Collects a batch. Reused: keeps its buffers. Steady.
///
/// Values come one by one, and the rows that they are of by runs, behind their values.
pub(crate) struct Encoder {
    runs: Vec<u8>,
    run: Run,
    runs_count: u64,
    end: Run,
    /// Whether all samples are like the first one so far: of its time, and with a base as it is or without.
    /// So they are nearly always, and then there is nothing to write of either.
    usual: bool,
    first_timestamp: i64,
    relative: bool,
    /// Where they are not of one time: what each is behind the first.
    timestamps: Vec<u8>,
    /// Where some have a base and some don't: a bit for each.
    absolute: Vec<u8>,
    /// Has room behind `values_length`, so that a value is written without a look at the capacity.
    values: Vec<u8>,
    values_length: usize,
    same: u8,
    count: usize,
}

impl Default for Encoder {
    fn default() -> Self {
        Encoder {
            runs: Vec::new(),
            run: Run::default(),
            runs_count: 0,
            end: Run::default(),
            usual: false,
            first_timestamp: 0,
            relative: true,
            timestamps: Vec::new(),
            absolute: Vec::new(),
            values: Vec::new(),
            values_length: 0,
            same: 0,
            count: 0,
        }
    }
}

/// Consecutive rows.
#[derive(Clone, Copy, Default)]
struct Run {
    row: u32,
    length: u32,
    generation: u32,
}

impl Encoder {
    /// Starts a batch.
    pub(crate) fn begin(&mut self) {
        self.runs.clear();
        self.timestamps.clear();
        self.absolute.clear();
        self.values_length = 0;
        self.run = Run::default();
        self.end = Run::default();
        self.runs_count = 0;
        (self.usual, self.first_timestamp, self.relative) = (false, 0, true);
        self.same = 0;
        self.count = 0;
    }

    /// Values so far.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> usize {
        self.runs.capacity()
            + self.timestamps.capacity()
            + self.absolute.capacity()
            + self.values.capacity()
    }

    /// Adds a sample; `base` is the bits of its series' first value in the segment, if it had one.
    #[inline(always)]
    pub(crate) fn push(&mut self, timestamp: i64, bits: u64, base: Option<u64>) {
        let is_like = timestamp == self.first_timestamp && base.is_some() == self.relative;
        if !(self.usual && is_like) {
            self.push_unusual(timestamp, base.is_some());
        }
        self.count += 1;
        let base = base.unwrap_or(0);
        if bits == base {
            self.same += 1;
            if self.same == SAME_MAX {
                self.end_same();
            }
        } else {
            self.end_same();
            let length = value::encode(self.room(), bits, base);
            self.values_length += length;
        }
    }

    /// Adds the rows of the `length` values that were pushed behind those whose rows are known: as many
    /// consecutive ones of a generation.
    pub(crate) fn push_rows(&mut self, row: u32, length: u32, generation: u32) {
        let is_next = row == self.run.row.wrapping_add(self.run.length);
        if is_next && generation == self.run.generation && self.run.length > 0 {
            self.run.length += length;
        } else {
            self.end_run();
            self.run = Run { row, length, generation };
        }
    }

    /// What is to be remembered of a sample that is the first, or not like it, or comes behind such a one.
    #[cold]
    #[inline(never)]
    fn push_unusual(&mut self, timestamp: i64, relative: bool) {
        if self.count == 0 {
            (self.usual, self.first_timestamp, self.relative) = (true, timestamp, relative);
            return;
        }
        self.usual = false;
        if timestamp != self.first_timestamp && self.timestamps.is_empty() {
            self.timestamps.resize(self.count, 0);
        }
        if !self.timestamps.is_empty() {
            put_signed(&mut self.timestamps, timestamp.wrapping_sub(self.first_timestamp));
        }
        if relative != self.relative && self.absolute.is_empty() {
            self.begin_mixed();
        }
        if !self.absolute.is_empty() {
            if self.absolute.len() <= self.count / 8 {
                self.absolute.push(0);
            }
            self.absolute[self.count / 8] |= u8::from(!relative) << (self.count % 8);
        }
    }

    /// Where the next value goes.
    #[inline(always)]
    fn room(&mut self) -> &mut [u8; 16] {
        if self.values.len() < self.values_length + 16 {
            self.grow();
        }
        let room = self.values[self.values_length..].first_chunk_mut();
        room.expect("it was just made")
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.values.resize(2 * self.values_length + 1024, 0);
    }

    /// Some values stand alone and some don't: a bit for each sample tells which. Those before were all of
    /// one kind.
    fn begin_mixed(&mut self) {
        let before = if self.relative { 0 } else { 0xff };
        self.absolute.resize(self.count.div_ceil(8), before);
        if !self.count.is_multiple_of(8) {
            self.absolute[self.count / 8] &= (1 << (self.count % 8)) - 1;
        }
    }

    #[inline(always)]
    fn end_same(&mut self) {
        if self.same > 0 {
            self.room()[0] = SAME | (self.same - 1) << 2;
            self.values_length += 1;
            self.same = 0;
        }
    }

    fn end_run(&mut self) {
        if self.run.length > 0 {
            let expected = self.end.row.wrapping_add(self.end.length);
            put_signed(&mut self.runs, i64::from(self.run.row) - i64::from(expected));
            put(&mut self.runs, u64::from(self.run.length));
            put_signed(
                &mut self.runs,
                i64::from(self.run.generation) - i64::from(self.end.generation),
            );
            self.end = self.run;
            self.runs_count += 1;
            self.run.length = 0;
        }
    }

    /// Appends the payload to `out`.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        self.end_run();
        self.end_same();
        let mut flags = 0;
        if self.timestamps.is_empty() {
            flags |= ONE_TIMESTAMP;
        }
        if self.absolute.is_empty() {
            flags |= if self.relative { ALL_RELATIVE } else { ALL_ABSOLUTE };
        }
        out.extend_from_slice(&[KIND, flags]);
        put_signed(out, self.first_timestamp);
        put(out, self.count as u64);
        put(out, self.runs_count);
        out.extend_from_slice(&self.runs);
        out.extend_from_slice(&self.timestamps);
        out.extend_from_slice(&self.absolute);
        out.extend_from_slice(&self.values[..self.values_length]);
    }
}

/// A sample read from a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) row: u32,
    pub(crate) generation: u32,
    pub(crate) timestamp: i64,
    pub(crate) value: Value,
}

/// A value as far as the batch alone tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    /// The value; it is the base of what follows in the segment.
    First(u64),
    /// What the series' base becomes; `None` if it makes no sense with that base.
    Relative(Change),
}

/// The change from a base.
#[derive(Clone, Copy)]
pub(crate) struct Change(Option<value::Difference>);

impl Change {
    /// The value's bits.
    #[inline]
    pub(crate) fn apply(self, base: u64) -> Option<u64> {
        match self.0 {
            None => Some(base),
            Some(difference) => difference.apply(base),
        }
    }
}

impl PartialEq for Change {
    fn eq(&self, other: &Self) -> bool {
        self.apply(0) == other.apply(0)
    }
}

impl std::fmt::Debug for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} from 0", self.apply(0))
    }
}

/// Consecutive rows of the same generation in a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rows {
    pub(crate) first: u32,
    pub(crate) length: u32,
    pub(crate) generation: u32,
}

/// Reads the payload of a batch: run by run, and of each run sample by sample. Steady.
///
/// Where it answers `None`, the payload isn't a batch, and the samples so far came from a damaged one. As
/// records are checksummed, that is another version's or an adversary's.
pub(crate) struct Decoder<'a> {
    flags: u8,
    first_timestamp: i64,
    runs: Reader<'a>,
    runs_left: usize,
    expected: i64,
    generation: i64,
    timestamps: Option<Reader<'a>>,
    absolute: Option<&'a [u8]>,
    values: Reader<'a>,
    same: u8,
    index: usize,
}

impl<'a> Decoder<'a> {
    /// Reads what stands before the values; `payload` is what follows its kind. Answers also the least
    /// row and one more than the greatest.
    pub(crate) fn new(payload: &'a [u8]) -> Option<(Self, std::ops::Range<u32>)> {
        let mut reader = Reader::new(payload);
        let flags = reader.byte()?;
        let first_timestamp = reader.signed()?;
        let count = usize::try_from(reader.unsigned()?).ok()?;
        let runs_left = usize::try_from(reader.unsigned()?).ok()?;
        // Three bytes for a run, one for 64 values: a lying count must not buy time or memory.
        if runs_left > payload.len() / 3 || count > payload.len().saturating_mul(64) {
            return None;
        }
        let mut decoder = Decoder {
            flags,
            first_timestamp,
            runs: reader.clone(),
            runs_left,
            expected: 0,
            generation: 0,
            timestamps: None,
            absolute: None,
            values: reader,
            same: 0,
            index: 0,
        };
        let (mut total, mut least, mut end) = (0u64, u32::MAX, 0);
        while decoder.runs_left > 0 {
            let run = decoder.run()?;
            total += u64::from(run.length);
            least = least.min(run.first);
            end = end.max(run.first + run.length);
        }
        if total != count as u64 {
            return None;
        }
        let behind = std::mem::replace(&mut decoder.runs, decoder.values.clone());
        decoder.values = behind;
        (decoder.runs_left, decoder.expected, decoder.generation) = (runs_left, 0, 0);
        if flags & ONE_TIMESTAMP == 0 {
            decoder.timestamps = Some(decoder.values.clone());
            for _ in 0..count {
                decoder.values.signed()?;
            }
        }
        if flags & (ALL_RELATIVE | ALL_ABSOLUTE) == 0 {
            decoder.absolute = Some(decoder.values.take(count.div_ceil(8))?);
        }
        Some((decoder, least.min(end)..end))
    }

    /// Whether there is another run.
    pub(crate) fn has_run(&self) -> bool {
        self.runs_left > 0
    }

    /// The next run; the samples of the one before have been read.
    pub(crate) fn run(&mut self) -> Option<Rows> {
        self.runs_left = self.runs_left.checked_sub(1)?;
        let first = self.runs.signed()?.checked_add(self.expected)?;
        let length = self.runs.unsigned32()?;
        self.generation = self.generation.checked_add(self.runs.signed()?)?;
        self.expected = first.checked_add(i64::from(length))?;
        let (first, generation) =
            (u32::try_from(first).ok()?, u32::try_from(self.generation).ok()?);
        first.checked_add(length)?;
        Some(Rows { first, length, generation })
    }

    /// Time and value of the next sample of the run.
    #[inline(always)]
    pub(crate) fn sample(&mut self) -> Option<(i64, Value)> {
        let timestamp = match &mut self.timestamps {
            Some(column) => self.first_timestamp.wrapping_add(column.signed()?),
            None => self.first_timestamp,
        };
        let change = if self.same > 0 {
            self.same -= 1;
            Change(None)
        } else {
            match value::decode(&mut self.values)? {
                Token::Same(run) => {
                    self.same = run - 1;
                    Change(None)
                }
                Token::Difference(difference) => Change(Some(difference)),
            }
        };
        let alone = match self.absolute {
            Some(bits) => bits[self.index / 8] >> (self.index % 8) & 1 == 1,
            None => self.flags & ALL_ABSOLUTE != 0,
        };
        self.index += 1;
        let value = if alone { Value::First(change.apply(0)?) } else { Value::Relative(change) };
        Some((timestamp, value))
    }

    /// Whether nothing is left over, once all samples were read.
    pub(crate) fn is_whole(&self) -> bool {
        self.runs_left == 0 && self.same == 0 && self.values.is_empty()
    }
}

/// Reads the payload of a batch, after its kind, and hands each sample to `each`; see [`Decoder`].
pub(crate) fn decode(payload: &[u8], mut each: impl FnMut(Entry)) -> Option<()> {
    let (mut decoder, _) = Decoder::new(payload)?;
    while decoder.has_run() {
        let Rows { first, length, generation } = decoder.run()?;
        for row in first..first + length {
            let (timestamp, value) = decoder.sample()?;
            each(Entry { row, generation, timestamp, value });
        }
    }
    decoder.is_whole().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Sample = (u32, u32, i64, u64, Option<u64>);

    fn round_trip(samples: &[Sample]) -> usize {
        let mut encoder = Encoder::default();
        let mut payload = Vec::new();
        for _ in 0..2 {
            encoder.begin();
            // Rows by runs behind their values, of a length or another.
            for (several, most) in samples.chunks(7).zip([1, 2, 7].into_iter().cycle()) {
                for &(.., timestamp, bits, base) in several {
                    encoder.push(timestamp, bits, base);
                }
                let follows = |a: &Sample, b: &Sample| (a.0.wrapping_add(1), a.1) == (b.0, b.1);
                for run in several.chunk_by(follows).flat_map(|run| run.chunks(most)) {
                    encoder.push_rows(run[0].0, run.len() as u32, run[0].1);
                }
            }
            payload.clear();
            encoder.finish(&mut payload);
        }
        assert_eq!(payload[0], KIND);
        let mut index = 0;
        decode(&payload[1..], |entry| {
            let (row, generation, timestamp, bits, base) = samples[index];
            assert_eq!((entry.row, entry.generation), (row, generation));
            assert_eq!(entry.timestamp, timestamp);
            match (entry.value, base) {
                (Value::First(value), None) => assert_eq!(value, bits),
                (Value::Relative(change), Some(base)) => {
                    assert_eq!(change.apply(base), Some(bits));
                }
                other => panic!("{other:?}"),
            }
            index += 1;
        })
        .expect("what was written");
        assert_eq!(index, samples.len());
        payload.len()
    }

    #[test]
    fn a_scrape_costs_its_changes() {
        let value = |i: u32| f64::from(i * 1000).to_bits();
        let same: Vec<Sample> =
            (0..1000).map(|i| (i, 1, 1_700_000_000_000, value(i), Some(value(i)))).collect();
        assert!(round_trip(&same) < 40);
        let grown: Vec<Sample> = (0..1000)
            .map(|i| {
                let now = f64::from(i * 1000 + 900).to_bits();
                (i, 1, 1_700_000_000_000, now, Some(value(i)))
            })
            .collect();
        assert!(round_trip(&grown) < 2020);
    }

    proptest! {
        #[test]
        fn batches_come_back(samples in prop::collection::vec((
            0u32..60, 0u32..3, -5i64..5, prop::sample::select(vec![0, 1, 2, 0x3ff0_0000_0000_0000,
            0x7ff0_0000_0000_0002, 0x4059_0000_0000_0000, u64::MAX]),
            prop::option::of(prop::sample::select(vec![0, 0x3ff0_0000_0000_0000, 7]))
        ), 0..200)) {
            round_trip(&samples);
        }

        #[test]
        fn noise_is_refused_and_not_believed(payload in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut samples = 0usize;
            let _ = decode(&payload, |_| samples += 1);
            prop_assert!(samples <= payload.len() * 64);
        }
    }
}
