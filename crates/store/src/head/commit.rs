//! A batch on its way into a shard.
//!
//! 1. Each sample is tested against its row and encoded for the journal;
//! 2. chunks that end at a block's boundary are closed;
//! 3. the record is written: from here on the samples survive the process;
//! 4. the samples go to the open chunks, and are visible when the lock is released;
//! 5. full chunks are closed.
//!
//! Step 1 changes nothing that a reader or a later batch sees, so a journal that can't be written leaves
//! the rows as they were. Both passes go over rows as they lie: a scrape's series are consecutive, so
//! that a page is looked up once for many samples, and the second pass finds the rows in the cache.
//!
//! A series that occurs twice in a batch ends the part that is handled so, and begins the next one.

use std::ops::Range;

use super::row::{ChunkRef, Row};
use super::shard::{Columns, Shard, TIME_MAX, Tally, range_start};
use crate::Error;
use crate::db::{Committed, Rejected, SeriesId};
use crate::journal::{batch, record};

/// Samples that are appended with one record of the journal: one must not get too long.
const SAMPLES_AT_ONCE: usize = if cfg!(test) { 1000 } else { 1 << 20 };

/// Rows that are asked for ahead of the one that is tested: it takes so long to bring them from memory. The
/// processor does it of its own, but stops at the end of each page of 4 KiB, which has 32 rows.
const AHEAD: usize = 16;

/// Accepted samples, neighbours in the batch as well as in a page of rows.
#[derive(Clone, Copy)]
pub(super) struct Accepted {
    index: u32,
    length: u32,
}

/// What becomes of a sample.
enum Verdict {
    Accept,
    /// It is there already.
    Repetition,
    Reject(Rejected),
    /// The series had a sample in this part.
    NextPart,
}

/// What samples are tested against.
struct Test {
    part: u16,
    min_valid: i64,
    block_range: i64,
    /// The range of blocks in which the last sample was.
    range: (i64, i64),
}

impl Test {
    /// Whether it is what nearly all samples are, without a look at what others may be: another one of
    /// a series that has some, in the range of the sample before.
    #[inline]
    fn is_next(&self, row: &Row, generation: u32, time: i64) -> bool {
        self.range.0 <= time
            && time < self.range.1
            && time >= self.min_valid
            && row.precedes(generation, time)
            && row.mark != self.part
    }

    #[inline]
    fn of(&self, row: &Row, id: SeriesId, time: i64, bits: u64, is_first: bool) -> Verdict {
        if !row.is_alive() || row.generation != id.generation() {
            return Verdict::Reject(Rejected::UnknownSeries);
        }
        // Marks of long ago come round; the first of a part is no repetition.
        if row.mark == self.part && !is_first {
            return Verdict::NextPart;
        }
        if time < self.min_valid || time.unsigned_abs() > TIME_MAX {
            return Verdict::Reject(Rejected::TooOld);
        }
        match row.last() {
            Some((last, _)) if time < last => Verdict::Reject(Rejected::OutOfOrder),
            Some((last, value)) if time == last && bits == value => Verdict::Repetition,
            Some((last, _)) if time == last => Verdict::Reject(Rejected::DuplicateTimestamp),
            _ => Verdict::Accept,
        }
    }

    /// Whether the open chunk has to be closed because the time is in a later range of blocks.
    #[inline]
    fn crosses(&mut self, row: &Row, time: i64) -> bool {
        if time < self.range.0 || time >= self.range.1 {
            let start = range_start(time, self.block_range);
            // Every time in it can be reckoned with.
            let most = TIME_MAX as i64;
            self.range = (start.max(-most), start.saturating_add(self.block_range).min(most + 1));
        }
        row.min_time() < self.range.0
    }
}

/// The number of ids at the start that name consecutive rows of one generation.
#[inline]
fn consecutive(ids: &[SeriesId]) -> usize {
    let Some(first) = ids.first() else { return 0 };
    let next = ids.iter().zip(first.0.get()..).position(|(id, expected)| id.0.get() != expected);
    next.unwrap_or(ids.len())
}

impl Shard {
    /// Appends what can be taken of `columns`, all of this shard; `min_valid` is the earliest time
    /// that is not too old. Steady, as long as no memory or file has to be added.
    ///
    /// # Errors
    /// The journal can't be written. Samples that are not told in `tally` are not in.
    pub(crate) fn commit(
        &mut self,
        columns: Columns<'_>,
        min_valid: i64,
        committed: &mut Committed,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        if !self.closing.is_empty() {
            // A disk that was full when chunks had to be closed must take them before any more.
            self.write_closing()?;
        }
        self.log.write_definitions()?;
        let mut next = 0;
        while next < columns.ids.len() {
            next = self.commit_part(columns, next, min_valid, committed, tally)?;
        }
        Ok(())
    }

    fn commit_part(
        &mut self,
        columns: Columns<'_>,
        start: usize,
        min_valid: i64,
        committed: &mut Committed,
        tally: &mut Tally,
    ) -> Result<usize, Error> {
        let segment = self.log.segment()?;
        let (end, repeated) = self.test(columns, start, min_valid, segment, committed);
        if !self.closing.is_empty() {
            self.write_closing()?;
        }
        let accepted = self.batch.len() as u64;
        if accepted > 0 {
            self.record.clear();
            let begin = record::begin(&mut self.record);
            self.batch.finish(&mut self.record);
            record::finish(&mut self.record, begin);
            self.log.append(&self.record)?;
        }
        self.take(columns, segment, tally);
        tally.appended += accepted + repeated;
        committed.appended += accepted + repeated;
        if !self.closing.is_empty() {
            // The samples are in. If the disk refuses now, the next commit tries first.
            let _ = self.write_closing();
        }
        Ok(end)
    }

    /// Step 1 and the choice of step 2. Answers where the part ends, and how many samples repeat the
    /// last one of their series.
    fn test(
        &mut self,
        columns: Columns<'_>,
        start: usize,
        min_valid: i64,
        segment: u32,
        committed: &mut Committed,
    ) -> (usize, u64) {
        self.part = self.part.wrapping_add(1).max(1);
        self.batch.begin();
        self.accepted.clear();
        let block_range = self.limits.block_range;
        let mut test = Test { part: self.part, min_valid, block_range, range: (0, 0) };
        let (mut at, mut repeated) = (start, 0);
        while at < columns.ids.len() {
            let room = SAMPLES_AT_ONCE - self.batch.len();
            if room == 0 {
                return (at, repeated);
            }
            let number = columns.ids[at].slot().row();
            let together = consecutive(&columns.ids[at..]).min(room);
            let rows = self.rows.run_mut(number, together);
            if rows.is_empty() {
                committed.rejected.push((at, Rejected::UnknownSeries));
                at += 1;
                continue;
            }
            let end = at + rows.len();
            let generation = columns.ids[at].generation();
            let (times, values) = (&columns.timestamps[at..end], &columns.values[at..end]);
            let mut first = at;
            rows.iter().take(AHEAD).for_each(Row::prefetch);
            for offset in 0..rows.len() {
                if let Some(ahead) = rows.get(offset + AHEAD) {
                    ahead.prefetch();
                }
                let (row, number, index) = (&mut rows[offset], number + offset as u32, at + offset);
                let (time, bits) = (times[offset], values[offset].to_bits());
                let verdict = if test.is_next(row, generation, time) {
                    Verdict::Accept
                } else {
                    test.of(row, columns.ids[index], time, bits, index == start)
                };
                let mut end_run = || {
                    let samples = std::mem::replace(&mut first, index + 1)..index;
                    accept(&mut self.accepted, &mut self.batch, columns.ids, samples);
                };
                match verdict {
                    Verdict::Accept => {
                        row.mark = test.part;
                        if row.is_open() && test.crosses(row, time) {
                            self.closing.push((number, ChunkRef::NONE));
                        }
                        row.prefetch_chain(&self.slab);
                        let base = (row.base_segment == segment).then_some(row.base);
                        self.batch.push(time, bits, base);
                    }
                    Verdict::Repetition => {
                        end_run();
                        repeated += 1;
                    }
                    Verdict::Reject(reason) => {
                        end_run();
                        committed.rejected.push((index, reason));
                    }
                    Verdict::NextPart => {
                        end_run();
                        return (index, repeated);
                    }
                }
            }
            accept(&mut self.accepted, &mut self.batch, columns.ids, first..end);
            at = end;
        }
        (at, repeated)
    }

    /// Step 4: appends what was accepted.
    fn take(&mut self, columns: Columns<'_>, segment: u32, tally: &mut Tally) {
        let Shard { rows, slab, closing, open_chunks, accepted, .. } = self;
        for run in &*accepted {
            let (start, length) = (run.index as usize, run.length as usize);
            let number = columns.ids[start].slot().row();
            let times = &columns.timestamps[start..start + length];
            let values = &columns.values[start..start + length];
            let rows = rows.run_mut(number, length);
            assert_eq!(rows.len(), length, "they lay together when they were tested");
            for (at, ((row, &time), value)) in rows.iter_mut().zip(times).zip(values).enumerate() {
                let bits = value.to_bits();
                if row.base_segment != segment {
                    row.base_segment = segment;
                    row.base = bits;
                }
                *open_chunks += u64::from(!row.is_open());
                row.append(slab, segment, time, bits);
                if row.is_full(number + at as u32) {
                    closing.push((number + at as u32, ChunkRef::NONE));
                }
                tally.min_time = tally.min_time.min(time);
                tally.max_time = tally.max_time.max(time);
            }
        }
    }
}

/// Samples whose values are in the batch, of consecutive rows of one generation.
fn accept(
    accepted: &mut Vec<Accepted>,
    batch: &mut batch::Encoder,
    ids: &[SeriesId],
    samples: Range<usize>,
) {
    if !samples.is_empty() {
        let (id, length) = (ids[samples.start], samples.len() as u32);
        batch.push_rows(id.slot().row(), length, id.generation());
        accepted.push(Accepted { index: samples.start as u32, length });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::disk::{Directory, Disk};
    use crate::{Db, Labels, Options};

    #[test]
    fn batches_of_several_records_are_replayed() {
        const COUNT: usize = 5 * SAMPLES_AT_ONCE / 2;
        // Around the end of the first record, in the middle of consecutive rows.
        const EARLY: std::ops::Range<usize> = SAMPLES_AT_ONCE - 2..SAMPLES_AT_ONCE + 3;
        let name = format!("unladen-records-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let disk: Arc<dyn Disk> = Arc::new(Directory::open(&root).expect("a scratch directory"));
        let options = Options { shards: 1, ..Options::default() };
        let open = || Db::open(disk.clone(), options.clone(), 0).expect("it opens");
        let (db, _) = open();
        let mut appender = db.appender();
        let labels = |number: usize| Labels::from_pairs([("n", number.to_string().as_str())]);
        let ids: Vec<_> = (0..COUNT).map(|n| appender.series(&labels(n)).unwrap()).collect();
        EARLY.for_each(|number| appender.append(ids[number], 2000, 0.5));
        assert_eq!(appender.commit().unwrap().appended, EARLY.len() as u64);
        for (number, &id) in ids.iter().enumerate() {
            appender.append(id, 1000, number as f64);
        }
        let committed = appender.commit().unwrap();
        assert_eq!(committed.appended, (COUNT - EARLY.len()) as u64);
        let too_late = EARLY.map(|number| (number, Rejected::OutOfOrder));
        assert!(committed.rejected.iter().copied().eq(too_late), "{:?}", committed.rejected);
        drop(appender);
        db.close().unwrap();

        let (db, recovery) = open();
        assert_eq!((recovery.samples, recovery.damages), (COUNT as u64, Vec::new()));
        let shard = db.core.head.shards[0].lock();
        for (number, &id) in ids.iter().enumerate() {
            let (time, value) =
                if EARLY.contains(&number) { (2000, 0.5) } else { (1000, number as f64) };
            let last = shard.rows.series(id).and_then(Row::last);
            assert_eq!(last, Some((time, value.to_bits())), "series {number}");
        }
        drop(shard);
        drop(db);
        std::fs::remove_dir_all(&root).expect("the scratch directory is there");
    }
}
