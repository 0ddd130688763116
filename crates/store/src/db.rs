//! The door of the store: open, append, query, maintain.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::RwLock;

use crate::disk::{Disk, Held};
use crate::exemplar::{Exemplar, SeriesExemplars};
use crate::select::{Cursor, Samples, Select, Series};
use crate::{Error, Labels, Matcher};

/// How a store behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Blocks whose samples are all older than this many milliseconds are removed; 0 keeps all.
    pub retention_ms: i64,
    /// Length of a block in milliseconds.
    pub block_range_ms: i64,
    /// Exemplars kept in memory; 0 keeps none.
    pub max_exemplars: usize,
}

impl Default for Options {
    /// Prometheus' defaults: 15 days, blocks of two hours.
    fn default() -> Self {
        Options {
            retention_ms: 15 * 24 * 3_600_000,
            block_range_ms: 2 * 3_600_000,
            max_exemplars: 100_000,
        }
    }
}

/// A series of the head. Never given to another series, not even after this one is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesId(pub(crate) u64);

/// Why a sample was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Older than the last sample of its series.
    OutOfOrder,
    /// At the time of the last sample of its series, with another value.
    DuplicateTimestamp,
    /// Before the time from which the head takes samples.
    TooOld,
    /// The series was removed (nothing came for it for long): ask [`Appender::series`] again.
    UnknownSeries,
}

/// What a commit did.
#[derive(Debug, Default)]
pub struct Committed {
    /// Samples that are now in the journal and visible; repetitions of the last sample count.
    pub appended: u64,
    /// The others, by their index in the batch, ascending.
    pub rejected: Vec<(usize, Rejected)>,
}

/// What opening found.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Series in the head.
    pub series: u64,
    /// Samples replayed from the journal.
    pub samples: u64,
    /// Bytes of journal and head chunks that were read.
    pub bytes: u64,
    /// Blocks opened.
    pub blocks: u64,
    /// What was damaged, one line each, with file, offset and consequence. Its length is bounded.
    pub damages: Vec<String>,
}

/// What one round of maintenance did.
#[derive(Clone, Debug, Default)]
pub struct Maintained {
    /// Blocks cut from the head.
    pub blocks_cut: u64,
    /// Blocks deleted by retention.
    pub blocks_deleted: u64,
    /// Series removed from the head.
    pub series_removed: u64,
    /// Journal segments removed.
    pub segments_removed: u64,
    /// Chunks closed because they lagged behind.
    pub chunks_closed: u64,
}

/// Figures about the store, for `/status/tsdb` and its own metrics.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Series in the head.
    pub series: u64,
    /// Series created since the start.
    pub series_created: u64,
    /// Series removed since the start.
    pub series_removed: u64,
    /// Chunks in the head, open and closed.
    pub chunks: u64,
    /// First and last timestamp of the head; `None` while it is empty.
    pub time_range: Option<(i64, i64)>,
    /// Samples appended since the start.
    pub samples_appended: u64,
    /// Samples rejected since the start: out of order, duplicate, too old, unknown.
    pub samples_rejected: [u64; 4],
    /// Bytes of journal that a start would read.
    pub journal_bytes: u64,
    /// Bytes of closed chunks of the head, in files.
    pub head_chunk_bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// Bytes of the blocks.
    pub block_bytes: u64,
    /// Distinct label pairs of the head.
    pub label_pairs: u64,
    /// Distinct strings of the head's labels.
    pub symbols: u64,
    /// Bytes of memory that the head holds, as far as it knows.
    pub memory_bytes: u64,
    /// Exemplars in memory.
    pub exemplars: u64,
}

/// The largest of each kind in the head, largest first.
#[derive(Clone, Debug, Default)]
pub struct Cardinality {
    /// Series by metric name.
    pub series_by_metric: Vec<(String, u64)>,
    /// Distinct values by label name.
    pub values_by_label: Vec<(String, u64)>,
    /// Bytes of the values of all series by label name.
    pub bytes_by_label: Vec<(String, u64)>,
    /// Series by `name=value`.
    pub series_by_pair: Vec<(String, u64)>,
}

#[derive(Default)]
struct Memory {
    ids: HashMap<Labels, u64>,
    series: Vec<(Labels, Vec<(i64, f64)>)>,
    exemplars: Vec<(u64, Exemplar)>,
    appended: u64,
    rejected: [u64; 4],
}

struct Shared {
    memory: RwLock<Memory>,
    options: Options,
    _disk: Arc<dyn Disk>,
    _lock: Held,
}

/// A store of metrics.
pub struct Db {
    shared: Arc<Shared>,
}

impl Db {
    /// Opens the store on `disk` at the time `now_ms`. What is damaged is reported and left out.
    ///
    /// # Errors
    /// The directory can't be read or written, or somebody else has it open.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: Options,
        _now_ms: i64,
    ) -> Result<(Db, Recovery), Error> {
        let lock = disk.lock().map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => Error::locked("lock"),
            _ => Error::io("lock", error),
        })?;
        let shared = Shared { memory: RwLock::default(), options, _disk: disk, _lock: lock };
        Ok((Db { shared: Arc::new(shared) }, Recovery::default()))
    }

    /// An appender of its own for each worker. Setup.
    pub fn appender(&self) -> Appender {
        Appender {
            shared: self.shared.clone(),
            ids: Vec::new(),
            timestamps: Vec::new(),
            values: Vec::new(),
            exemplars: Vec::new(),
            committed: Committed::default(),
        }
    }

    /// What a query over `from..=to` (milliseconds) reads: the store as it is now.
    pub fn querier(&self, from: i64, to: i64) -> Querier {
        Querier { shared: self.shared.clone(), from, to }
    }

    /// The regular work: cuts blocks, applies retention, truncates the journal, removes idle series.
    /// To be called on a timer, every few seconds; does nothing where there is nothing to do.
    ///
    /// # Errors
    /// The disk refused; the next call tries again.
    pub fn maintain(&self, _now_ms: i64) -> Result<Maintained, Error> {
        Ok(Maintained::default())
    }

    /// Figures about the store. Cheap: no scan.
    pub fn stats(&self) -> Stats {
        let memory = self.shared.memory.read();
        Stats {
            series: memory.series.len() as u64,
            samples_appended: memory.appended,
            samples_rejected: memory.rejected,
            exemplars: memory.exemplars.len() as u64,
            ..Stats::default()
        }
    }

    /// The `limit` largest of each kind in the head. Scans the head's index.
    pub fn cardinality(&self, _limit: usize) -> Cardinality {
        Cardinality::default()
    }

    /// Makes everything committed so far survive the loss of power.
    ///
    /// # Errors
    /// The disk refused.
    pub fn sync(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Syncs and gives the directory up. Appenders that are left over fail from here on.
    ///
    /// # Errors
    /// The disk refused.
    pub fn close(self) -> Result<(), Error> {
        self.sync()
    }
}

/// Takes samples in batches. Not shared: each worker has one and keeps it.
pub struct Appender {
    shared: Arc<Shared>,
    ids: Vec<SeriesId>,
    timestamps: Vec<i64>,
    values: Vec<f64>,
    exemplars: Vec<(SeriesId, Exemplar)>,
    committed: Committed,
}

impl Appender {
    /// The series with these labels, created where it doesn't exist. Growth.
    ///
    /// # Errors
    /// The head is full.
    pub fn series(&mut self, labels: &Labels) -> Result<SeriesId, Error> {
        let mut memory = self.shared.memory.write();
        if let Some(&id) = memory.ids.get(labels) {
            return Ok(SeriesId(id));
        }
        let id = memory.series.len() as u64;
        memory.ids.insert(labels.clone(), id);
        memory.series.push((labels.clone(), Vec::new()));
        Ok(SeriesId(id))
    }

    /// Adds a sample to the batch. Steady: two columns and an id.
    pub fn append(&mut self, id: SeriesId, timestamp: i64, value: f64) {
        self.ids.push(id);
        self.timestamps.push(timestamp);
        self.values.push(value);
    }

    /// Adds an exemplar to the batch; it becomes visible with it.
    pub fn exemplar<'a>(
        &mut self,
        id: SeriesId,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        value: f64,
        timestamp: i64,
    ) {
        let labels = Labels::from_pairs(labels);
        self.exemplars.push((id, Exemplar { labels, value, timestamp }));
    }

    /// Samples in the batch so far.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Journals the batch, makes it visible and starts the next one. Steady.
    ///
    /// # Errors
    /// The journal can't be written: nothing of the batch is visible, and it is gone.
    pub fn commit(&mut self) -> Result<&Committed, Error> {
        self.committed.appended = 0;
        self.committed.rejected.clear();
        let mut memory = self.shared.memory.write();
        for index in 0..self.ids.len() {
            let (t, v) = (self.timestamps[index], self.values[index]);
            let Some((_, samples)) = memory.series.get_mut(self.ids[index].0 as usize) else {
                self.committed.rejected.push((index, Rejected::UnknownSeries));
                continue;
            };
            match samples.last() {
                Some(&(last, _)) if t < last => {
                    self.committed.rejected.push((index, Rejected::OutOfOrder));
                }
                Some(&(last, value)) if t == last && v.to_bits() != value.to_bits() => {
                    self.committed.rejected.push((index, Rejected::DuplicateTimestamp));
                }
                Some(&(last, _)) if t == last => self.committed.appended += 1,
                _ => {
                    samples.push((t, v));
                    self.committed.appended += 1;
                }
            }
        }
        memory.appended += self.committed.appended;
        for &(_, reason) in &self.committed.rejected {
            memory.rejected[reason as usize] += 1;
        }
        let most = self.shared.options.max_exemplars;
        memory.exemplars.extend(self.exemplars.drain(..).map(|(id, exemplar)| (id.0, exemplar)));
        let excess = memory.exemplars.len().saturating_sub(most);
        memory.exemplars.drain(..excess);
        drop(memory);
        self.rollback();
        Ok(&self.committed)
    }

    /// Forgets the batch.
    pub fn rollback(&mut self) {
        self.ids.clear();
        self.timestamps.clear();
        self.values.clear();
        self.exemplars.clear();
    }
}

/// Reads the store as it was when the querier was made, between two times.
pub struct Querier {
    shared: Arc<Shared>,
    from: i64,
    to: i64,
}

impl Querier {
    fn matching(&self, matchers: &[Matcher], from: i64, to: i64) -> Vec<MemorySeries> {
        let memory = self.shared.memory.read();
        let mut found: Vec<_> = memory
            .series
            .iter()
            .filter(|(labels, _)| {
                matchers.iter().all(|m| m.matches(labels.get(m.name()).unwrap_or("")))
            })
            .map(|(labels, samples)| {
                let inside = samples.iter().filter(|(t, _)| (from..=to).contains(t));
                MemorySeries { labels: labels.clone(), samples: inside.copied().collect() }
            })
            .filter(|series| !series.samples.is_empty())
            .collect();
        found.sort_by(|a, b| a.labels.cmp(&b.labels));
        found
    }

    /// Label names of the series that match, sorted; at most `limit` unless it is 0.
    ///
    /// # Errors
    /// A block that can't be read.
    pub fn label_names(&self, matchers: &[Matcher], limit: usize) -> Result<Vec<String>, Error> {
        let mut names = BTreeSet::new();
        for series in self.matching(matchers, self.from, self.to) {
            names.extend(series.labels.iter().map(|(name, _)| name.to_owned()));
        }
        Ok(names.into_iter().take(if limit == 0 { usize::MAX } else { limit }).collect())
    }

    /// Values of the label `name` of the series that match, sorted; at most `limit` unless it is 0.
    ///
    /// # Errors
    /// A block that can't be read.
    pub fn label_values(
        &self,
        name: &str,
        matchers: &[Matcher],
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        let mut values = BTreeSet::new();
        for series in self.matching(matchers, self.from, self.to) {
            values.extend(series.labels.get(name).map(str::to_owned));
        }
        Ok(values.into_iter().take(if limit == 0 { usize::MAX } else { limit }).collect())
    }

    /// The label sets that match, sorted, without reading samples; at most `limit` unless it is 0.
    ///
    /// # Errors
    /// A block that can't be read.
    pub fn series(&self, matchers: &[Matcher], limit: usize) -> Result<Vec<Labels>, Error> {
        let found = self.matching(matchers, self.from, self.to).into_iter();
        let limit = if limit == 0 { usize::MAX } else { limit };
        Ok(found.map(|series| series.labels).take(limit).collect())
    }

    /// Exemplars within the querier's time of the series that pass any of the `selectors`, sorted by
    /// the labels of the series.
    pub fn exemplars(&self, selectors: &[Vec<Matcher>]) -> Vec<SeriesExemplars> {
        let memory = self.shared.memory.read();
        let mut found = BTreeMap::<Labels, Vec<Exemplar>>::new();
        for (id, exemplar) in &memory.exemplars {
            let labels = &memory.series[*id as usize].0;
            let matches = selectors.iter().any(|matchers| {
                matchers.iter().all(|m| m.matches(labels.get(m.name()).unwrap_or("")))
            });
            if matches && (self.from..=self.to).contains(&exemplar.timestamp) {
                found.entry(labels.clone()).or_default().push(exemplar.clone());
            }
        }
        found.into_iter().map(|(labels, exemplars)| SeriesExemplars { labels, exemplars }).collect()
    }
}

struct MemorySeries {
    labels: Labels,
    samples: Vec<(i64, f64)>,
}

impl Series for MemorySeries {
    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn cursor(&self) -> Box<dyn Cursor + '_> {
        Box::new(MemoryCursor(&self.samples))
    }
}

struct MemoryCursor<'a>(&'a [(i64, f64)]);

impl Cursor for MemoryCursor<'_> {
    fn next(&mut self, samples: &mut Samples) -> Result<bool, Error> {
        let (run, rest) = self.0.split_at(self.0.len().min(120));
        for &(t, v) in run {
            samples.push(t, v);
        }
        self.0 = rest;
        Ok(!run.is_empty())
    }
}

impl Select for Querier {
    fn select(
        &self,
        matchers: &[Matcher],
        from: i64,
        to: i64,
    ) -> Result<Vec<Box<dyn Series + '_>>, Error> {
        let found = self.matching(matchers, from, to).into_iter();
        Ok(found.map(|series| Box::new(series) as Box<dyn Series>).collect())
    }
}
