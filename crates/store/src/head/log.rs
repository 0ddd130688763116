//! The files of a shard's journal: the segment being written, those before, and the definitions.
//!
//! Definitions of series are written before the first record that has samples of them, and a sync makes
//! them durable first, so that a synced sample always has its labels.

use std::io::{self, ErrorKind::NotFound};

use super::shard::Limits;
use crate::disk::File;
use crate::journal::{MAGIC, definition, record, segment_header};
use crate::{Error, Labels};

/// Definitions in one record: one must not get too long.
const DEFINITIONS_AT_ONCE: usize = 1000;

/// A finished segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    pub(crate) number: u32,
    pub(crate) bytes: u64,
    pub(crate) synced: bool,
}

struct Active {
    file: Box<dyn File>,
    path: String,
    dirty: bool,
}

/// See the module.
pub(crate) struct Log {
    limits: Limits,
    shard: usize,
    segment: Option<Active>,
    /// Number of the segment that is, or will be, written to.
    pub(crate) number: u32,
    pub(crate) finished: Vec<Finished>,
    definitions: Option<Active>,
    /// Number of the log of definitions that is, or will be, written to.
    pub(crate) definitions_number: u32,
    pub(crate) definitions_bytes: u64,
    /// Series that stand in the logs.
    pub(crate) defined: u64,
    /// Logs of definitions before the one that is written to.
    pub(crate) ended_definitions: Vec<u32>,
    /// Those of them that are not durable.
    unsynced: Vec<u32>,
    pending: Vec<(u32, u32, Labels)>,
    record: Vec<u8>,
    /// Whether there are files whose names are not durable yet.
    new_files: bool,
}

/// What a sync has to do.
#[derive(Debug, Default)]
pub(crate) struct Unsynced {
    /// In this order: definitions first.
    pub(crate) paths: Vec<String>,
    /// The logs of definitions among them.
    definitions: Vec<u32>,
    pub(crate) directory: bool,
}

impl Log {
    pub(crate) fn new(limits: Limits, shard: usize) -> Self {
        Log {
            limits,
            shard,
            segment: None,
            number: 1,
            finished: Vec::new(),
            definitions: None,
            definitions_number: 1,
            definitions_bytes: 0,
            defined: 0,
            ended_definitions: Vec::new(),
            unsynced: Vec::new(),
            pending: Vec::new(),
            record: Vec::new(),
            new_files: false,
        }
    }

    /// Begins a file. Where that fails, no file is left; the error comes with 1 if one is all the same,
    /// so that another attempt takes the next number.
    fn create(&mut self, path: String, header: &[u8]) -> Result<Active, (Error, u32)> {
        let disk = &self.limits.disk;
        let created = disk.create(&path).and_then(|mut file| {
            file.append(header)?;
            Ok(file)
        });
        match created {
            Ok(file) => {
                self.new_files = true;
                Ok(Active { file, path, dirty: true })
            }
            Err(error) => {
                let left = matches!(disk.remove(&path), Err(error) if error.kind() != NotFound);
                Err((Error::io(path, error), u32::from(left)))
            }
        }
    }

    /// The number of the segment to which the next record goes; opens one if necessary.
    pub(crate) fn segment(&mut self) -> Result<u32, Error> {
        // Maintenance ends segments in time; this is for when it doesn't come.
        if self.segment_bytes() >= 2 * self.limits.segment_bytes {
            self.end_segment();
        }
        if self.segment.is_none() {
            let previous = self.finished.last().map_or((0, 0), |last| (last.number, last.bytes));
            let header = segment_header(previous.0, previous.1);
            match self.create(segment_path(self.shard, self.number), &header) {
                Ok(created) => self.segment = Some(created),
                Err((error, left)) => {
                    self.number += left;
                    return Err(error);
                }
            }
        }
        Ok(self.number)
    }

    /// Size of the segment being written; 0 if there is none.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment.as_ref().map_or(0, |segment| segment.file.size())
    }

    /// Bytes of all segments and definitions.
    pub(crate) fn bytes(&self) -> u64 {
        let finished: u64 = self.finished.iter().map(|segment| segment.bytes).sum();
        finished + self.segment_bytes() + self.definitions_bytes
    }

    /// Ends the segment; the next record goes to a new one, in which no series has a base.
    pub(crate) fn end_segment(&mut self) {
        let bytes = self.segment_bytes();
        self.end_segment_at(bytes);
    }

    fn end_segment_at(&mut self, bytes: u64) {
        if let Some(segment) = self.segment.take() {
            self.finished.push(Finished { number: self.number, bytes, synced: !segment.dirty });
            self.number += 1;
        }
    }

    /// Writes a record to the segment. Steady.
    pub(crate) fn append(&mut self, record: &[u8]) -> Result<(), Error> {
        let segment = self.segment.as_mut().expect("the caller asked for its number");
        segment.dirty = true;
        let bytes = segment.file.size();
        if let Err(error) = write(&self.limits, &mut *segment.file, record) {
            let path = segment.path.clone();
            // Who knows what stands behind them now: nobody reads it.
            self.end_segment_at(bytes);
            return Err(Error::io(path, error));
        }
        Ok(())
    }

    /// A series was created: its definition goes ahead of the next commit.
    pub(crate) fn define(&mut self, row: u32, generation: u32, labels: Labels) {
        self.pending.push((row, generation, labels));
    }

    /// Writes the definitions that are due. Steady when there are none.
    pub(crate) fn write_definitions(&mut self) -> Result<(), Error> {
        while !self.pending.is_empty() {
            self.write_some_definitions()?;
        }
        Ok(())
    }

    fn write_some_definitions(&mut self) -> Result<(), Error> {
        if self.definitions.is_none() {
            let path = definitions_path(self.shard, self.definitions_number);
            match self.create(path, &MAGIC) {
                Ok(created) => self.definitions = Some(created),
                Err((error, left)) => {
                    self.definitions_number += left;
                    return Err(error);
                }
            }
            self.definitions_bytes += MAGIC.len() as u64;
        }
        self.record.clear();
        let begin = record::begin(&mut self.record);
        let count = self.pending.len().min(DEFINITIONS_AT_ONCE);
        let series = self.pending[..count]
            .iter()
            .map(|(row, generation, labels)| (*row, *generation, labels));
        definition::encode(&mut self.record, series);
        record::finish(&mut self.record, begin);
        let log = self.definitions.as_mut().expect("it was just opened");
        log.dirty = true;
        if let Err(error) = write(&self.limits, &mut *log.file, &self.record) {
            let path = log.path.clone();
            // Who knows what stands at its end now.
            self.end_definitions();
            return Err(Error::io(path, error));
        }
        self.definitions_bytes += self.record.len() as u64;
        self.defined += count as u64;
        self.pending.drain(..count);
        if self.record.capacity() > 1 << 20 {
            self.record = Vec::new();
        }
        Ok(())
    }

    /// These logs were read at the start. Whether they are durable, nobody knows.
    pub(crate) fn recovered_definitions(&mut self, numbers: &[u32]) {
        self.ended_definitions = numbers.to_vec();
        self.definitions_number = numbers.last().map_or(1, |last| last + 1);
        self.unsynced = numbers.to_vec();
        self.new_files = true;
    }

    /// Goes on with another log of definitions: those so far can be written anew.
    pub(crate) fn end_definitions(&mut self) {
        if let Some(log) = self.definitions.take() {
            self.unsynced.extend(log.dirty.then_some(self.definitions_number));
            self.ended_definitions.push(self.definitions_number);
            self.definitions_number += 1;
        }
    }

    /// The logs that were ended were replaced by one, which is durable, under the last one's number.
    pub(crate) fn replaced_definitions(&mut self, number: u32, series: u64, bytes: u64) {
        self.ended_definitions.retain(|&ended| ended >= number);
        self.unsynced.retain(|&unsynced| unsynced > number);
        self.defined = series;
        self.definitions_bytes = bytes + self.definitions.as_ref().map_or(0, |log| log.file.size());
    }

    /// What has to be made durable; taken as done until [`Log::sync_failed`].
    pub(crate) fn unsynced(&mut self) -> Unsynced {
        let mut definitions = std::mem::take(&mut self.unsynced);
        if let Some(log) = self.definitions.as_mut().filter(|log| log.dirty) {
            log.dirty = false;
            definitions.push(self.definitions_number);
        }
        let mut paths: Vec<_> =
            definitions.iter().map(|&number| definitions_path(self.shard, number)).collect();
        for segment in self.finished.iter_mut().filter(|segment| !segment.synced) {
            segment.synced = true;
            paths.push(segment_path(self.shard, segment.number));
        }
        if let Some(segment) = self.segment.as_mut().filter(|segment| segment.dirty) {
            segment.dirty = false;
            paths.push(segment.path.clone());
        }
        Unsynced { paths, definitions, directory: std::mem::take(&mut self.new_files) }
    }

    /// Nothing of this was made durable after all.
    pub(crate) fn sync_failed(&mut self, unsynced: Unsynced) {
        self.new_files = true;
        self.unsynced.extend(unsynced.definitions);
        self.unsynced.sort_unstable();
        self.unsynced.dedup();
        for active in [&mut self.definitions, &mut self.segment].into_iter().flatten() {
            active.dirty = true;
        }
        for segment in &mut self.finished {
            segment.synced = false;
        }
    }
}

/// Writes where the program can count it.
fn write(limits: &Limits, file: &mut dyn File, bytes: &[u8]) -> io::Result<()> {
    let mut written = Ok(());
    (limits.around_journal)(&mut || written = file.append(bytes));
    written
}

/// The path of a segment.
pub(crate) fn segment_path(shard: usize, number: u32) -> String {
    format!("journal/{shard:02}-{number:08}")
}

/// The path of a log of definitions.
pub(crate) fn definitions_path(shard: usize, number: u32) -> String {
    format!("journal/{shard:02}-series-{number:08}")
}
