//! The files of a shard's journal: the segment being written, those before, and the definitions.
//!
//! Definitions of series are written before the first record that has samples of them, and made
//! durable before it, so that a durable sample always has its labels.

use super::shard::Limits;
use crate::disk::File;
use crate::journal::{MAGIC, definition, record, segment_header};
use crate::{Error, Labels};

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
    unsynced: Vec<String>,
    pending: Vec<(u32, u32, Labels)>,
    record: Vec<u8>,
    /// Whether there are files whose names are not durable yet.
    new_files: bool,
}

/// What a sync has to do.
#[derive(Debug, Default)]
pub(crate) struct Unsynced {
    /// In this order.
    pub(crate) paths: Vec<String>,
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

    fn create(&mut self, path: String, header: &[u8]) -> Result<Active, Error> {
        let context = |error| Error::io(path.as_str(), error);
        let mut file = self.limits.disk.create(&path).map_err(context)?;
        file.append(header).map_err(context)?;
        self.new_files = true;
        Ok(Active { file, path, dirty: true })
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
            let created = self.create(segment_path(self.shard, self.number), &header);
            // Whatever stands there now, another attempt gets another name.
            self.number += u32::from(created.is_err());
            self.segment = Some(created?);
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
        if let Err(error) = segment.file.append(record) {
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
        if self.pending.is_empty() {
            return Ok(());
        }
        if self.definitions.is_none() {
            let path = definitions_path(self.shard, self.definitions_number);
            let created = self.create(path, &MAGIC);
            // Whatever stands there now, another attempt gets another name.
            self.definitions_number += u32::from(created.is_err());
            self.definitions = Some(created?);
            self.definitions_bytes += MAGIC.len() as u64;
        }
        self.record.clear();
        let begin = record::begin(&mut self.record);
        let series =
            self.pending.iter().map(|(row, generation, labels)| (*row, *generation, labels));
        definition::encode(&mut self.record, series);
        record::finish(&mut self.record, begin);
        let log = self.definitions.as_mut().expect("it was just opened");
        log.dirty = true;
        if let Err(error) = log.file.append(&self.record) {
            let path = log.path.clone();
            // Who knows what stands at its end now.
            self.end_definitions();
            return Err(Error::io(path, error));
        }
        self.definitions_bytes += self.record.len() as u64;
        self.defined += self.pending.len() as u64;
        self.pending.clear();
        if self.record.capacity() > 1 << 20 {
            self.record = Vec::new();
        }
        Ok(())
    }

    /// These logs were read at the start. Whether they are durable, nobody knows.
    pub(crate) fn recovered_definitions(&mut self, numbers: &[u32]) {
        self.ended_definitions = numbers.to_vec();
        self.definitions_number = numbers.last().map_or(1, |last| last + 1);
        self.unsynced =
            numbers.iter().map(|&number| definitions_path(self.shard, number)).collect();
        self.new_files = true;
    }

    /// Goes on with another log of definitions: those so far can be written anew.
    pub(crate) fn end_definitions(&mut self) {
        if let Some(log) = self.definitions.take() {
            self.unsynced.extend(log.dirty.then_some(log.path));
            self.ended_definitions.push(self.definitions_number);
            self.definitions_number += 1;
        }
    }

    /// The logs that were ended were replaced by one, which is durable, under the last one's number.
    pub(crate) fn replaced_definitions(&mut self, number: u32, series: u64, bytes: u64) {
        self.ended_definitions.retain(|&ended| ended >= number);
        self.unsynced.clear();
        self.defined = series;
        self.definitions_bytes = bytes + self.definitions.as_ref().map_or(0, |log| log.file.size());
    }

    /// What has to be made durable; taken as done until [`Log::sync_failed`].
    pub(crate) fn unsynced(&mut self) -> Unsynced {
        let mut paths = std::mem::take(&mut self.unsynced);
        if let Some(log) = self.definitions.as_mut().filter(|log| log.dirty) {
            log.dirty = false;
            paths.push(log.path.clone());
        }
        for segment in self.finished.iter_mut().filter(|segment| !segment.synced) {
            segment.synced = true;
            paths.push(segment_path(self.shard, segment.number));
        }
        if let Some(segment) = self.segment.as_mut().filter(|segment| segment.dirty) {
            segment.dirty = false;
            paths.push(segment.path.clone());
        }
        Unsynced { paths, directory: std::mem::take(&mut self.new_files) }
    }

    /// Nothing of this was made durable after all.
    pub(crate) fn sync_failed(&mut self, unsynced: Unsynced) {
        self.new_files = true;
        self.unsynced = unsynced.paths;
        for active in [&mut self.definitions, &mut self.segment].into_iter().flatten() {
            active.dirty = true;
        }
        for segment in &mut self.finished {
            segment.synced = false;
        }
    }
}

/// The path of a segment.
pub(crate) fn segment_path(shard: usize, number: u32) -> String {
    format!("journal/{shard:02}-{number:08}")
}

/// The path of a log of definitions.
pub(crate) fn definitions_path(shard: usize, number: u32) -> String {
    format!("journal/{shard:02}-series-{number:08}")
}
