//! What is appended while a round of maintenance takes long is made durable before that ends.

mod naive;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use naive::read;
use parking_lot::Mutex;
use store::disk::{Bytes, Disk, File, Held};
use store::{Db, Labels, Options};
use testkit::disk::{End, SimulatedDisk};

const RANGE: i64 = 7_200_000;
const START: i64 = RANGE * 200;
const SERIES: usize = 20;

type Hook = Box<dyn FnMut() + Send>;

/// A disk that calls somebody whenever chunks of a block begin to be written.
struct Watched {
    disk: SimulatedDisk,
    hook: Mutex<Option<Hook>>,
}

impl Disk for Watched {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        if path.contains("/chunks/")
            && let Some(hook) = &mut *self.hook.lock()
        {
            hook();
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
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
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

#[test]
fn what_comes_while_one_block_is_cut_is_durable_while_the_next_one_is() {
    for seed in 0..10 {
        let disk = SimulatedDisk::new(seed);
        let watched = Arc::new(Watched { disk: disk.clone(), hook: Mutex::new(None) });
        let options = Options { shards: 1, ..Options::default() };
        let (db, _) = Db::open(watched.clone(), options.clone(), START).expect("it opens");
        let mut appender = db.appender();
        let labels = |number: usize| Labels::from_pairs([("number", &number.to_string())]);
        let ids: Vec<_> =
            (0..SERIES).map(|number| appender.series(&labels(number)).unwrap()).collect();
        let mut append = move |time: i64| {
            for &id in &ids {
                appender.append(id, time, 1.0);
            }
            assert_eq!(appender.commit().unwrap().appended, SERIES as u64);
        };
        let end = START + RANGE / 2 * 7;
        for time in (START..end).step_by(600_000) {
            append(time);
        }
        let cuts = Arc::new(AtomicUsize::new(0));
        let after = Arc::new(Mutex::new(None));
        let (cut, lost) = (cuts.clone(), after.clone());
        *watched.hook.lock() = Some(Box::new(move || match cut.fetch_add(1, Ordering::Relaxed) {
            0 => append(end),
            1 => *lost.lock() = Some(disk.restart(End::PowerLoss)),
            _ => {}
        }));
        db.maintain(end).expect_err("the power went");
        drop(db);
        *watched.hook.lock() = None;
        let disk = after.lock().take().expect("a second block was begun");
        let (db, _) = Db::open(Arc::new(disk), options, START).expect("it opens");
        let found = read(&db, &[], end, end);
        assert_eq!(found.len(), SERIES, "seed {seed}: what came with the first block was synced");
    }
}
