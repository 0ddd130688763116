//! What is appended while a round of maintenance takes long is made durable before that ends.

mod naive;

use std::io;
use std::sync::Arc;

use naive::read;
use parking_lot::Mutex;
use store::disk::{Bytes, Disk, File, Held};
use store::{Db, Labels, Options, SeriesId};
use testkit::disk::{End, SimulatedDisk};

const RANGE: i64 = 7_200_000;
const START: i64 = RANGE * 200;
const MINUTE: i64 = 60_000;
const SERIES: usize = 20;
/// More than are written between two syncs.
const MANY: usize = (1 << 15) + 1000;
const STALE: u64 = 0x7ff0_0000_0000_0002;

type Hook = Box<dyn FnMut(&str) + Send>;

/// A disk that calls somebody with the paths of what maintenance does without a lock: it creates files of a
/// block or of departed series, gives a file its name, or removes one of closed chunks.
struct Watched {
    disk: SimulatedDisk,
    hook: Mutex<Option<Hook>>,
}

impl Watched {
    fn new(disk: &SimulatedDisk) -> Arc<Self> {
        Arc::new(Watched { disk: disk.clone(), hook: Mutex::new(None) })
    }

    fn tell(&self, path: &str) {
        if let Some(hook) = &mut *self.hook.lock() {
            hook(path);
        }
    }
}

impl Disk for Watched {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        if path.contains(".tmp-for-creation/") || path.contains("departed") {
            self.tell(path);
        }
        self.disk.create(path)
    }

    fn open_append(&self, path: &str) -> io::Result<Box<dyn File>> {
        self.disk.open_append(path)
    }

    fn map(&self, path: &str) -> io::Result<Bytes> {
        self.disk.map(path)
    }

    fn read_at(&self, path: &str, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.disk.read_at(path, offset, buffer)
    }

    fn len(&self, path: &str) -> io::Result<u64> {
        self.disk.len(path)
    }

    fn truncate(&self, path: &str, length: u64) -> io::Result<()> {
        self.disk.truncate(path, length)
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.disk.list(directory)
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.disk.create_dir(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.tell(to);
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        if path.starts_with("head/") {
            self.tell(path);
        }
        self.disk.remove(path)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.disk.remove_dir(path)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.disk.sync_dir(path)
    }

    fn lock(&self) -> io::Result<Held> {
        self.disk.lock()
    }
}

/// What happens while maintenance is at work, by what the paths of its changes contain.
struct Between {
    what: &'static str,
    /// With this change, a sample of each series comes...
    append: &'static str,
    /// ... after so many changes of the same kind;
    skipped: usize,
    /// with this one, the power goes.
    lose: &'static str,
}

/// Does maintenance, which is interrupted, and checks that what came before the power went is there.
fn maintain(
    db: Db,
    watched: &Watched,
    now: i64,
    series: usize,
    between: &Between,
    mut append: impl FnMut() + Send + 'static,
) {
    let after = Arc::new(Mutex::new(None));
    let (disk, lost) = (watched.disk.clone(), after.clone());
    let &Between { what, append: first, mut skipped, lose } = between;
    let mut appended = false;
    *watched.hook.lock() = Some(Box::new(move |path| {
        let mut lost = lost.lock();
        if !appended && path.contains(first) {
            appended = skipped == 0;
            if appended {
                append();
            }
            skipped = skipped.saturating_sub(1);
        } else if appended && lost.is_none() && path.contains(lose) {
            *lost = Some(disk.restart(End::PowerLoss));
        }
    }));
    db.maintain(now).expect_err("the power went");
    drop(db);
    *watched.hook.lock() = None;
    let disk = after.lock().take().unwrap_or_else(|| panic!("{what}: it was not reached"));
    let options = Options { retention_ms: 0, shards: 2, ..Options::default() };
    let (db, _) = Db::open(Arc::new(disk), options, START).expect("it opens");
    let found = read(&db, &[], now, now);
    assert_eq!(found.len(), series, "{what}: what came before was not synced");
}

fn open(disk: &Arc<Watched>) -> Db {
    let options = Options { retention_ms: 0, shards: 2, ..Options::default() };
    Db::open(disk.clone(), options, START).expect("it opens").0
}

fn labels(number: usize) -> Labels {
    Labels::from_pairs([("number", &number.to_string())])
}

/// Series with these numbers, in the next shard.
fn create(db: &Db, numbers: std::ops::Range<usize>) -> (store::Appender, Vec<SeriesId>) {
    let mut appender = db.appender();
    let ids = numbers.map(|number| appender.series(&labels(number)).unwrap()).collect();
    (appender, ids)
}

fn append(appender: &mut store::Appender, ids: &[SeriesId], time: i64, value: f64) {
    ids.iter().for_each(|&id| appender.append(id, time, value));
    assert_eq!(appender.commit().unwrap().appended, ids.len() as u64);
}

#[test]
fn what_comes_while_one_block_is_cut_is_durable_while_the_next_one_is() {
    let what = "two blocks";
    let between = Between { what, append: "/chunks/", skipped: 0, lose: "/chunks/" };
    for seed in 0..10 {
        let watched = Watched::new(&SimulatedDisk::new(seed));
        let db = open(&watched);
        let (mut appender, ids) = create(&db, 0..SERIES);
        let end = START + RANGE / 2 * 7;
        for time in (START..end).step_by(600_000) {
            append(&mut appender, &ids, time, 1.0);
        }
        maintain(db, &watched, end, SERIES, &between, move || {
            append(&mut appender, &ids, end, 1.0);
        });
    }
}

#[test]
fn what_comes_while_many_series_are_cut_is_durable_before_all_of_them_are() {
    let writing = Between { what: "writing", append: "/chunks/", skipped: 0, lose: "/tombstones" };
    // The chunks of the first shard go, then its series, then the chunks of the second shard.
    let removal = Between { what: "removal", append: "head/00-", skipped: 0, lose: "head/01-" };
    for between in [writing, removal] {
        let watched = Watched::new(&SimulatedDisk::new(1));
        let db = open(&watched);
        let (mut appender, leaving) = create(&db, 0..MANY);
        append(&mut appender, &leaving, START, 1.0);
        // In both shards, where each cut closes some chunks: what the last one wrote to stays.
        let mut staying = create(&db, MANY..MANY + SERIES).1;
        staying.extend(create(&db, MANY + SERIES..MANY + 2 * SERIES).1);
        append(&mut appender, &staying, START, 1.0);
        append(&mut appender, &staying, START + RANGE, 1.0);
        let end = START + RANGE / 4 * 11;
        append(&mut appender, &staying[..1], end - 1, 1.0);
        maintain(db, &watched, end, 2 * SERIES, &between, move || {
            append(&mut appender, &staying, end, 1.0);
        });
    }
}

#[test]
fn what_comes_while_files_of_departed_series_are_merged_is_durable_before_they_are() {
    let watched = Watched::new(&SimulatedDisk::new(1));
    let db = open(&watched);
    let (mut few, staying) = create(&db, MANY..MANY + SERIES);
    let mut now = START;
    for fleet in 0..4 {
        let (mut many, leaving) = create(&db, fleet * MANY / 4..(fleet + 1) * MANY / 4);
        append(&mut many, &leaving, now, 1.0);
        append(&mut many, &leaving, now + 1, f64::from_bits(STALE));
        append(&mut few, &staying, now, 1.0);
        now += 6 * MINUTE;
        append(&mut few, &staying, now - 1, 1.0);
        if fleet < 3 {
            let done = db.maintain(now).unwrap();
            assert_eq!(done.series_departed, leaving.len() as u64, "fleet {fleet}");
        }
    }
    let what = "a merge";
    // The first file is that of the last ones to leave.
    let between = Between { what, append: "head/departed.tmp", skipped: 1, lose: "head/departed-" };
    maintain(db, &watched, now, SERIES, &between, move || {
        append(&mut few, &staying, now, 1.0);
    });
}
