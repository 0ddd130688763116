//! Blocks: the past, in directories of Prometheus' block format v1, which never change.
//!
//! Holds reading ([`Block`]), writing ([`BlockWriter`]) and the housekeeping of their directories
//! ([`catalog`]). Everything on disk is drawn in `docs/format/block.md`. Blocks are read by mapping
//! them: of a block, memory holds its sampled tables of offsets, and the rest is the page cache's.
//!
//! Refuses index version 1, and damaged files as far as the damage goes: a damaged index costs the
//! block, a damaged file of chunks those chunks, a damaged chunk that chunk. The error names the file and
//! the offset.
//!
//! **Compaction in levels** has its place here, in a module `compact` of its own: it reads the
//! [`BlockSeries`] of several blocks side by side, hands [`BlockSeries::chunks`] to a [`BlockWriter`] as
//! they are where they neither overlap nor have deletions, and otherwise encodes anew what
//! [`crate::select::merge`] gives.

pub mod catalog;
mod index;
pub(crate) mod index_writer;
mod layout;
pub(crate) mod lookup;
mod meta;
mod output;
mod resolve;
mod segments;
mod series;
mod tombstones;
mod writer;

use std::sync::Arc;

use ulid::Ulid;

use crate::disk::Disk;
use crate::{Error, Labels, Matcher};

pub use index::Index;
pub use meta::{Compaction, Meta, Stats};
pub use series::BlockSeries;
pub use writer::{BlockWriter, ChunkData};

use segments::Segments;
use tombstones::Tombstones;

/// A block, opened.
pub struct Block {
    meta: Meta,
    index: Index,
    segments: Segments,
    tombstones: Tombstones,
    size: u64,
    damages: Vec<String>,
}

/// How the series of a block spread over labels: the largest of each kind, largest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostingsStatistics {
    /// Distinct strings in names and values.
    pub symbols: u64,
    /// Distinct label pairs.
    pub label_pairs: u64,
    /// Series by metric name.
    pub series_by_metric: Vec<(String, u64)>,
    /// Distinct values by label name.
    pub values_by_label: Vec<(String, u64)>,
    /// Bytes of the values of all series by label name.
    pub bytes_by_label: Vec<(String, u64)>,
    /// Series by `name=value`.
    pub series_by_pair: Vec<(String, u64)>,
}

impl Block {
    /// Opens the block of this name. Reads its tables of offsets and strings once, the rest not at all.
    ///
    /// # Errors
    /// A file is missing or damaged such that nothing of the block can be found. What is lost without
    /// that is told by [`Block::damages`].
    pub fn open(disk: &dyn Disk, ulid: Ulid) -> Result<Arc<Self>, Error> {
        let directory = ulid.to_string();
        let map = |name: &str| {
            let path = format!("{directory}/{name}");
            let bytes = disk.map(&path).map_err(|error| Error::io(path.as_str(), error))?;
            Ok((bytes, path))
        };
        let (bytes, path) = map("meta.json")?;
        let mut size = bytes.len() as u64;
        let meta = Meta::parse(&bytes, &path)?;
        if meta.ulid != ulid {
            return Err(Error::corrupt(path, format!("it is that of block {}", meta.ulid)));
        }
        let (bytes, path) = map("index")?;
        size += bytes.len() as u64;
        let mut index = Index::open(bytes, &path)?;
        index.map_anew(map("index")?.0);
        let segments = Segments::open(disk, &directory)?;
        size += segments.size();
        let mut damages: Vec<String> = segments.damages().collect();
        let path = format!("{directory}/tombstones");
        // Old blocks may do without the file.
        let tombstones = match disk.map(&path) {
            Ok(bytes) => {
                size += bytes.len() as u64;
                // To show samples that somebody deleted is the lesser evil: their block is readable.
                Tombstones::parse(&bytes, &path).unwrap_or_else(|error| {
                    damages.push(format!("{error}; deletions in this block are not applied"));
                    Tombstones::default()
                })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Tombstones::default(),
            Err(error) => return Err(Error::io(path, error)),
        };
        Ok(Arc::new(Block { meta, index, segments, tombstones, size, damages }))
    }

    /// What the block says of itself.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Its name.
    pub fn ulid(&self) -> Ulid {
        self.meta.ulid
    }

    /// Bytes of its files.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What could not be read when it was opened, a line each: file, reason, consequence.
    pub fn damages(&self) -> &[String] {
        &self.damages
    }

    /// Stretches of series that are deleted.
    pub fn tombstones(&self) -> usize {
        self.tombstones.len()
    }

    /// Whether the block may hold samples of `from..=to` (milliseconds).
    pub fn overlaps(&self, from: i64, to: i64) -> bool {
        self.meta.min_time <= to && from < self.meta.max_time
    }

    /// The series that pass all `matchers` and have chunks in `from..=to` (milliseconds), sorted by
    /// their labels.
    ///
    /// # Errors
    /// The index is damaged where it had to be read.
    pub fn select(
        self: &Arc<Self>,
        matchers: &[Matcher],
        from: i64,
        to: i64,
    ) -> Result<Vec<BlockSeries>, Error> {
        let mut found = Vec::new();
        if !self.overlaps(from, to) {
            return Ok(found);
        }
        lookup::each_series(&self.index, matchers, |reference, labels, chunks| {
            let deleted = self.tombstones.of(reference);
            let wanted = |chunk: &&index_writer::ChunkEntry| {
                chunk.min_time <= to
                    && from <= chunk.max_time
                    && !deleted.is_some_and(|deleted| {
                        tombstones::covers(deleted, chunk.min_time, chunk.max_time)
                    })
            };
            let chunks: Vec<_> = chunks.iter().filter(wanted).copied().collect();
            if !chunks.is_empty() {
                found.push(BlockSeries {
                    block: self.clone(),
                    labels: Labels::from_sorted(labels),
                    chunks,
                    deleted: deleted.cloned(),
                    from,
                    to,
                });
            }
        })?;
        Ok(found)
    }

    /// The names of the labels of all series that pass, sorted, lent by the block. Without matchers
    /// none of the series is read.
    ///
    /// # Errors
    /// The index is damaged where it had to be read.
    pub fn label_names(&self, matchers: &[Matcher]) -> Result<Vec<&str>, Error> {
        lookup::label_names(&self.index, matchers)
    }

    /// The values of the label `name` of all series that pass, sorted, lent by the block. Without
    /// matchers of other labels none of the series is read.
    ///
    /// # Errors
    /// The index is damaged where it had to be read.
    pub fn label_values(&self, name: &str, matchers: &[Matcher]) -> Result<Vec<&str>, Error> {
        lookup::label_values(&self.index, name, matchers)
    }

    /// How the series spread over labels, the `limit` largest of each kind. Reads the length of every
    /// list of postings: milliseconds per 100,000 label pairs.
    ///
    /// # Errors
    /// The index is damaged where it had to be read.
    pub fn postings_statistics(&self, limit: usize) -> Result<PostingsStatistics, Error> {
        let mut statistics = PostingsStatistics {
            symbols: u64::from(self.index.symbol_count()),
            ..PostingsStatistics::default()
        };
        for name in self.index.names() {
            let (mut values, mut bytes) = (0, 0);
            for value in self.index.values(name, "") {
                let (value, postings) = value?;
                let series = self.index.postings_at(postings)?.len() as u64;
                values += 1;
                bytes += series * value.len() as u64;
                if name == crate::labels::METRIC_NAME {
                    keep_largest(&mut statistics.series_by_metric, limit, series, || {
                        value.to_owned()
                    });
                }
                let pair = || format!("{name}={value}");
                keep_largest(&mut statistics.series_by_pair, limit, series, pair);
            }
            statistics.label_pairs += values;
            keep_largest(&mut statistics.values_by_label, limit, values, || name.to_owned());
            keep_largest(&mut statistics.bytes_by_label, limit, bytes, || name.to_owned());
        }
        Ok(statistics)
    }

    fn chunk_place(&self, reference: u64) -> String {
        self.segments.place(reference)
    }
}

/// Keeps `largest` sorted and at most `limit` long.
fn keep_largest(
    largest: &mut Vec<(String, u64)>,
    limit: usize,
    size: u64,
    name: impl FnOnce() -> String,
) {
    if largest.len() == limit && largest.last().is_none_or(|&(_, smallest)| smallest >= size) {
        return;
    }
    let at = largest.partition_point(|&(_, other)| other >= size);
    largest.insert(at, (name(), size));
    largest.truncate(limit);
}
