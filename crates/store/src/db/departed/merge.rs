//! Several files of departed series read as one, and written as one.

use std::sync::Arc;

use super::{Departed, Writer};
use crate::block::index_writer::ChunkEntry;
use crate::db::Maintained;
use crate::db::maintain::Pace;
use crate::disk::Disk;
use crate::{Error, Labels};

/// So many neighbours of about the same size become one.
const MERGED_AT_ONCE: usize = 4;
/// A file is not merged into one of more series than this: merging must not take long, nor much memory.
const SERIES_MAX: u64 = 1 << 18;

/// How many of the youngest of these files, oldest first, are to become one; 0 if none. Files of a size
/// wait for others of their size, so that a series is written again once for each fourfold.
pub(in crate::db) fn to_merge(series: impl DoubleEndedIterator<Item = u32>) -> usize {
    let (mut count, mut largest, mut sum) = (0, 0, 0);
    for size in series.rev().map(u64::from) {
        if count > 0 && size > 2 * largest || sum + size > SERIES_MAX {
            break;
        }
        count += 1;
        largest = largest.max(size);
        sum += size;
    }
    if count < MERGED_AT_ONCE { 0 } else { count }
}

/// Reads files side by side, in the order of labels.
pub(in crate::db) struct Merge<'a> {
    /// The first one is believed most.
    sources: Vec<Reader<'a>>,
}

/// The chunks of one series: those that one file names together, the most believed first. None is named
/// twice.
pub(in crate::db) type Parts = Vec<Vec<ChunkEntry>>;

struct Reader<'a> {
    departed: &'a Departed,
    references: Vec<u32>,
    next: usize,
    front: Option<(Labels, Vec<ChunkEntry>)>,
}

impl Reader<'_> {
    /// Moves to the next series that can be read and has a chunk from `start` on. What can't be read
    /// is told to `done`.
    fn advance(&mut self, start: i64, done: &mut Maintained) {
        let (mut labels, mut chunks) = (Vec::new(), Vec::new());
        self.front = None;
        while let Some(&reference) = self.references.get(self.next) {
            self.next += 1;
            match self.departed.index.series(reference, &mut labels, &mut chunks) {
                Ok(()) => chunks.retain(|chunk| chunk.max_time >= start),
                Err(error) => {
                    done.damage(|| format!("{error}; a departed series is lost"));
                    continue;
                }
            }
            if !chunks.is_empty() {
                self.front = Some((Labels::from_sorted(&labels), chunks));
                break;
            }
        }
    }
}

impl<'a> Merge<'a> {
    /// Of files of which the oldest is the first; chunks that end before `start` are passed over. What
    /// is damaged is told to `done`.
    pub(in crate::db) fn new(
        departed: impl DoubleEndedIterator<Item = &'a Arc<Departed>>,
        start: i64,
        done: &mut Maintained,
    ) -> Self {
        let mut merge = Merge { sources: Vec::new() };
        for departed in departed.rev() {
            let references = match departed.index.all() {
                Ok(all) => all.iter().collect(),
                Err(error) => {
                    done.damage(|| format!("{error}; its series are looked for one by one"));
                    departed.index.scan()
                }
            };
            let mut reader = Reader { departed, references, next: 0, front: None };
            reader.advance(start, done);
            merge.sources.push(reader);
        }
        merge
    }

    /// The labels of the series that is next.
    pub(in crate::db) fn peek(&self) -> Option<&Labels> {
        self.sources.iter().filter_map(|source| Some(&source.front.as_ref()?.0)).min()
    }

    /// The series that is next.
    pub(in crate::db) fn next(
        &mut self,
        start: i64,
        done: &mut Maintained,
    ) -> Option<(Labels, Parts)> {
        let labels = self.peek()?.clone();
        let mut parts = Parts::new();
        for source in &mut self.sources {
            while let Some((_, mut chunks)) = source.front.take_if(|front| front.0 == labels) {
                let known = |chunk: &ChunkEntry| {
                    parts
                        .iter()
                        .flatten()
                        .any(|other: &ChunkEntry| other.reference == chunk.reference)
                };
                chunks.retain(|chunk| !known(chunk));
                if !chunks.is_empty() {
                    parts.push(chunks);
                }
                source.advance(start, done);
            }
        }
        Some((labels, parts))
    }
}

/// All chunks in the order of time; `None` if they overlap.
fn join(parts: &Parts) -> Option<Vec<ChunkEntry>> {
    let mut chunks: Vec<ChunkEntry> = parts.iter().flatten().copied().collect();
    chunks.sort_by_key(|chunk| chunk.min_time);
    chunks.windows(2).all(|two| two[0].max_time < two[1].min_time).then_some(chunks)
}

/// What became of files.
pub(in crate::db) struct Merged {
    /// So many of the youngest are replaced...
    pub(in crate::db) count: usize,
    /// ... by this one; `None` if nothing is left.
    pub(in crate::db) file: Option<Arc<Departed>>,
}

/// Writes neighbouring files as one in place of the youngest, without what ends before `start`. The others
/// can be removed once nobody begins to read them any more. A file that is damaged where all of it is
/// told, and those older than it, stay as they are.
///
/// # Errors
/// The disk refused: all are as they were.
pub(in crate::db) fn merge(
    disk: &dyn Disk,
    departed: &[Arc<Departed>],
    start: i64,
    pace: &mut Pace<'_>,
    done: &mut Maintained,
) -> Result<Merged, Error> {
    let mut rows = Vec::new();
    let mut count = 0;
    for departed in departed.iter().rev() {
        match Departed::open(disk, departed.number) {
            Ok((_, more)) => rows.extend(more),
            Err(error) if error.is_corrupt() => {
                done.damage(|| format!("{error}; the file is not merged with others"));
                break;
            }
            Err(error) => return Err(error),
        }
        count += 1;
    }
    let readable = &departed[departed.len() - count..];
    let Some(youngest) = readable.last().filter(|_| count >= departed.len().min(2)) else {
        return Ok(Merged { count: 0, file: None });
    };
    let departed = readable;
    let read = rows.len();
    rows.retain(|row| row.until >= start);
    // Those that are passed over are read, too.
    pace.did(read - rows.len());
    rows.sort_unstable();
    rows.dedup();
    let mut merge = Merge::new(departed.iter(), start, done);
    let mut writer = Writer::create(disk)?;
    while let Some((labels, parts)) = merge.next(start, done) {
        match join(&parts) {
            Some(chunks) => writer.series(&labels, &chunks)?,
            None => parts.iter().try_for_each(|chunks| writer.series(&labels, chunks))?,
        }
        pace.did(1);
    }
    let file = writer.finish(youngest.number, rows)?;
    Ok(Merged { count, file })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_few_and_series_are_written_a_few_times() {
        let (mut files, mut written, mut most) = (Vec::<u32>::new(), 0_u64, 0);
        let mut random = testkit::random::Random::new(3);
        let mut sum = 0;
        for _ in 0..1000 {
            let size = 50 + random.below(100) as u32;
            files.push(size);
            sum += u64::from(size);
            loop {
                let count = to_merge(files.iter().copied());
                if count == 0 {
                    break;
                }
                let merged = files.split_off(files.len() - count).iter().sum();
                files.push(merged);
                written += u64::from(merged);
            }
            most = most.max(files.len());
        }
        assert!(most <= 20 && written < 6 * sum, "{most} files, {written} written of {sum}");
        assert_eq!(to_merge([200_000, 200_000, 200_000, 200_000].into_iter()), 0);
    }
}
