//! The door of the store: open, append, query, maintain.

mod appender;
mod cut;
mod depart;
mod departed;
mod maintain;
mod memory;
mod ordered;
mod querier;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::{Mutex, RwLock};

pub use appender::Appender;
pub use memory::Memory;
pub use querier::Querier;

use crate::Error;
use crate::block::{Block, catalog};
use crate::disk::{Disk, Held};
use crate::head::Head;
use crate::head::replay::shards_on_disk;
use crate::head::shard::Limits;
use departed::Departed;
use maintain::Maintenance;

/// How a store behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Blocks whose samples are all older than this many milliseconds are removed; 0 keeps all.
    pub retention_ms: i64,
    /// Length of a block in milliseconds.
    pub block_range_ms: i64,
    /// Exemplars kept in memory; 0 keeps none.
    pub max_exemplars: usize,
    /// Shards over which appenders are spread, 64 at most: as many as there are workers, so that none
    /// waits for another.
    pub shards: usize,
    /// A segment of a shard's journal ends at this size. Four of them bound what a start replays.
    pub segment_bytes: u64,
    /// [`Db::maintain`] makes the journal durable this often.
    pub sync_interval_ms: i64,
    /// Called around each write to the journal; calls what it is given, once. So a program can count
    /// what the journal costs as a stage of its own, in time and in allocations.
    pub around_journal: fn(write: &mut dyn FnMut()),
}

impl Default for Options {
    /// Prometheus' defaults: 15 days, blocks of two hours.
    fn default() -> Self {
        Options {
            retention_ms: 15 * 24 * 3_600_000,
            block_range_ms: 2 * 3_600_000,
            max_exemplars: 100_000,
            shards: 16,
            segment_bytes: 16 << 20,
            sync_interval_ms: 5_000,
            around_journal: |write| write(),
        }
    }
}

/// A series of the head. Never given to another series, not even after this one is gone. Eight bytes, also
/// as an `Option`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesId(pub(crate) NonZeroU64);

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

/// Damages that a start or a round of maintenance tells one by one.
pub(crate) const DAMAGES_MAX: usize = 100;

/// What opening found.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Series in the head.
    pub series: u64,
    /// Samples replayed from the journal.
    pub samples: u64,
    /// Samples in the journal that no series could be found for, or whose value is told by its
    /// difference from one in a damaged record.
    pub samples_lost: u64,
    /// Bytes of journal and head chunks that were read.
    pub bytes: u64,
    /// Blocks opened.
    pub blocks: u64,
    /// Segments of Prometheus' own write-ahead log in the directory. They are not read.
    pub foreign_segments: u64,
    /// Files whose end was torn, as a crash leaves it: nothing that was committed stood there.
    pub torn: u64,
    /// Places that were damaged.
    pub damaged: u64,
    /// The first hundred of them, one line each, with file, offset and consequence.
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
    /// Series whose samples were made ready to be found without the head, because nothing comes for
    /// them any more. They are removed from it as soon as no query looks for them there.
    pub series_departed: u64,
    /// Journal segments removed.
    pub segments_removed: u64,
    /// Chunks closed because nothing came for them any more, or the journal waited for them.
    pub chunks_closed: u64,
    /// Places that could not be read because they are damaged. What stands there is lost; the next round
    /// does not come across it again, or says it again.
    pub damaged: u64,
    /// The first hundred of them, a line each.
    pub damages: Vec<String>,
}

impl Maintained {
    pub(crate) fn damage(&mut self, what: impl FnOnce() -> String) {
        self.damaged += 1;
        if self.damages.len() < DAMAGES_MAX {
            self.damages.push(what());
        }
    }
}

/// A round of maintenance of which a part failed.
#[derive(Debug)]
pub struct Unfinished {
    /// What was done all the same.
    pub done: Maintained,
    /// Why the first of the parts that failed did; the next round tries them again.
    pub error: Error,
}

impl std::fmt::Display for Unfinished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Unfinished {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
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
    /// Bytes of memory that the head holds, as far as it knows: the total of `memory`.
    pub memory_bytes: u64,
    /// The same by part.
    pub memory: Memory,
    /// Exemplars in memory.
    pub exemplars: u64,
    /// Series that left the head and aren't in a block yet; one that left twice counts twice.
    pub departed_series: u64,
    /// Files that tell of them, and their bytes.
    pub departed_files: u64,
    /// See `departed_files`.
    pub departed_bytes: u64,
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

/// What a query sees: the blocks, and the head from a time on, with what has left it. Replaced as a
/// whole.
pub(crate) struct View {
    pub(crate) blocks: Vec<Arc<Block>>,
    /// Oldest first.
    pub(crate) departed: Vec<Arc<Departed>>,
    /// Before this time, the blocks have what the head had.
    pub(crate) head_from: i64,
}

pub(crate) struct Core {
    pub(crate) options: Options,
    /// At first that of the options; 0 keeps all.
    pub(crate) retention_ms: AtomicI64,
    pub(crate) head: Head,
    pub(crate) view: RwLock<Arc<View>>,
    maintenance: Mutex<Maintenance>,
    appenders: std::sync::atomic::AtomicUsize,
    /// The shards over which targets are spread, and how many were.
    spread: usize,
    homes: std::sync::atomic::AtomicUsize,
    held: Mutex<Option<Held>>,
}

/// Segments that a Prometheus left in `wal/`: files with names of digits.
fn foreign_segments(disk: &dyn Disk) -> Result<u64, Error> {
    let names = disk.list("wal").map_err(|error| Error::io("wal", error))?;
    Ok(names.iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).count() as u64)
}

/// All blocks, in the order of time, and what is damaged of them.
fn open_blocks(disk: &dyn Disk) -> Result<(Vec<Arc<Block>>, Vec<String>), Error> {
    let mut damages = Vec::new();
    let mut blocks = Vec::new();
    catalog::clean(disk)?;
    for ulid in catalog::list(disk)? {
        match Block::open(disk, ulid) {
            Ok(block) => {
                damages.extend(block.damages().iter().cloned());
                blocks.push(block);
            }
            Err(error) if error.is_corrupt() || error.is_missing() => {
                damages.push(format!("{error}; the block is left out"));
            }
            // It may be well at the next attempt; without it, the head would begin elsewhere.
            Err(error) => return Err(error),
        }
    }
    sort_blocks(&mut blocks);
    Ok((blocks, damages))
}

impl Core {
    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.head.limits.disk
    }
}

/// A store of metrics.
pub struct Db {
    pub(crate) core: Arc<Core>,
}

impl Db {
    /// Opens the store on `disk` at the time `now_ms`. What is damaged is reported and left out.
    ///
    /// # Errors
    /// The directory can't be read or written, or somebody else has it open.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: Options,
        now_ms: i64,
    ) -> Result<(Db, Recovery), Error> {
        let held = disk.lock().map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => Error::locked("lock"),
            _ => Error::io("lock", error),
        })?;
        // Prometheus' tools take a directory for a data directory only if this is in it.
        disk.create_dir("wal").map_err(|error| Error::io("wal", error))?;
        let shards = options.shards.max(shards_on_disk(&*disk)?);
        // The directories were just created where they weren't there.
        disk.sync_dir("").map_err(|error| Error::io("data directory", error))?;
        let limits = Limits {
            disk,
            // Spans of chunks are 32 bits on disk.
            block_range: options.block_range_ms.clamp(1_000, 31 * 24 * 3_600_000),
            segment_bytes: options.segment_bytes,
            around_journal: options.around_journal,
        };
        let disk = &*limits.disk;
        let (blocks, mut damages) = open_blocks(disk)?;
        // Blocks of samples that came late lie beside the head, not before it.
        let in_order = blocks.iter().map(|block| block.meta()).filter(|meta| !meta.is_late());
        let head_from = in_order.map(|meta| meta.max_time).max();
        let head_from = head_from.unwrap_or(i64::MIN);
        let head = Head::new(&limits, shards, options.max_exemplars);
        head.start.store(head_from, Ordering::Release);
        let found = departed::open_all(disk, head_from)?;
        let mut recovery = head.recover(&found.rows)?;
        for departed in &found.departed {
            head.min_time.fetch_min(departed.earliest(head_from), Ordering::Relaxed);
            head.max_time.fetch_max(departed.last, Ordering::Relaxed);
        }
        damages.extend(found.damages);
        let numbers = found.departed.iter().map(|departed| departed.number());
        let departures =
            numbers.chain(found.damaged.iter().copied()).max().map_or(1, |last| last + 1);
        let newest = head.max_time.load(Ordering::Relaxed);
        let maintenance = Maintenance::new(now_ms, departures, &found.damaged, newest);
        recovery.blocks = blocks.len() as u64;
        recovery.foreign_segments = foreign_segments(disk)?;
        for damage in damages {
            recovery.damage(|| damage);
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let spread = processors.min(options.shards).clamp(1, head.shards.len());
        let core = Core {
            retention_ms: AtomicI64::new(options.retention_ms),
            options,
            head,
            view: RwLock::new(Arc::new(View { blocks, departed: found.departed, head_from })),
            maintenance: Mutex::new(maintenance),
            appenders: std::sync::atomic::AtomicUsize::new(0),
            spread,
            homes: std::sync::atomic::AtomicUsize::new(0),
            held: Mutex::new(Some(held)),
        };
        Ok((Db { core: Arc::new(core) }, recovery))
    }

    /// An appender of its own for each worker. Setup.
    pub fn appender(&self) -> Appender {
        Appender::new(self.core.clone(), self.core.appenders.fetch_add(1, Ordering::Relaxed))
    }

    /// What a query over `from..=to` (milliseconds) reads: the blocks as they are now, and the head.
    pub fn querier(&self, from: i64, to: i64) -> Querier {
        Querier::new(self.core.clone(), from, to)
    }

    /// The regular work: cuts blocks, applies retention, truncates the journal, removes idle series,
    /// makes the journal durable. To be called on a timer, every few seconds; does nothing where there
    /// is nothing to do.
    ///
    /// # Errors
    /// The disk refused; the next call tries again. What was done is told beside the reason.
    pub fn maintain(&self, now_ms: i64) -> Result<Maintained, Box<Unfinished>> {
        self.core.maintenance.lock().run(&self.core, now_ms)
    }

    /// From the next [`Db::maintain`] on, blocks whose samples are all older than `retention_ms`
    /// milliseconds are removed; 0 keeps all.
    pub fn set_retention(&self, retention_ms: i64) {
        self.core.retention_ms.store(retention_ms, Ordering::Relaxed);
    }

    /// Figures about the store. Cheap: no scan; each shard is locked for a moment.
    pub fn stats(&self) -> Stats {
        let head = &self.core.head;
        let mut stats = Stats {
            series_created: head.created.load(Ordering::Relaxed),
            series_removed: head.removed.load(Ordering::Relaxed),
            samples_appended: head.appended.load(Ordering::Relaxed),
            samples_rejected: std::array::from_fn(|i| head.rejected[i].load(Ordering::Relaxed)),
            exemplars: head.exemplars.lock().len() as u64,
            ..Stats::default()
        };
        let index = head.index.read();
        stats.series = index.len() as u64;
        let (pairs, symbols) = index.counts();
        (stats.label_pairs, stats.symbols) = (pairs as u64, symbols as u64);
        drop(index);
        for shard in &head.shards {
            let shard = shard.lock();
            stats.chunks += shard.open_chunks;
            stats.chunks += shard.contents.iter().map(|file| file.chunks).sum::<u64>();
            stats.head_chunk_bytes += shard.contents.iter().map(|file| file.bytes).sum::<u64>();
            stats.journal_bytes += shard.log.bytes();
        }
        stats.memory = memory::memory(&self.core);
        stats.memory_bytes = stats.memory.total();
        let (min, max) =
            (head.min_time.load(Ordering::Relaxed), head.max_time.load(Ordering::Relaxed));
        stats.time_range = (min <= max).then_some((min, max));
        let view = self.core.view.read().clone();
        stats.blocks = view.blocks.len() as u64;
        stats.block_bytes = view.blocks.iter().map(|block| block.size()).sum();
        stats.departed_files = view.departed.len() as u64;
        for departed in &view.departed {
            stats.departed_series += u64::from(departed.series);
            stats.departed_bytes += departed.bytes;
        }
        stats
    }

    /// The `limit` largest of each kind in the head. Scans the head's index.
    pub fn cardinality(&self, limit: usize) -> Cardinality {
        self.core.head.index.read().cardinality(limit)
    }

    /// Makes everything committed so far survive the loss of power.
    ///
    /// # Errors
    /// The disk refused.
    pub fn sync(&self) -> Result<(), Error> {
        let _alone = self.core.maintenance.lock();
        maintain::sync(&self.core)
    }

    /// Syncs and gives the directory up. Appenders that are left over fail from here on.
    ///
    /// # Errors
    /// The disk refused.
    pub fn close(self) -> Result<(), Error> {
        let _alone = self.core.maintenance.lock();
        self.core.head.closed.store(true, Ordering::Release);
        let result = maintain::sync(&self.core);
        *self.core.held.lock() = None;
        result
    }
}

pub(crate) fn sort_blocks(blocks: &mut [Arc<Block>]) {
    blocks.sort_by_key(|block| (block.meta().min_time, block.ulid()));
}
