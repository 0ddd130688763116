//! A disk that fails for good at any operation leaves a whole block or none.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use store::Disk;
use store::block::{Block, catalog};
use store::disk::{Bytes, Directory, File, Held};
use testkit::random::Random;
use ulid::Ulid;

use crate::corpus::{self, Scratch};

/// A directory that dies after a number of changes.
#[derive(Clone)]
struct Mortal {
    directory: Directory,
    left: Arc<AtomicU64>,
}

impl Mortal {
    fn change(&self) -> io::Result<()> {
        let spend = |left: u64| left.checked_sub(1);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend) {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other("the disk is gone")),
        }
    }
}

struct MortalFile {
    disk: Mortal,
    file: Box<dyn File>,
}

impl File for MortalFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.disk.change() {
            // A write that failed may have gone half the way.
            self.file.append(&bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        self.file.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.change()?;
        self.file.sync()
    }

    fn size(&self) -> u64 {
        self.file.size()
    }
}

impl Disk for Mortal {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        self.change()?;
        let file = self.directory.create(path)?;
        Ok(Box::new(MortalFile { disk: self.clone(), file }))
    }

    fn open_append(&self, path: &str) -> io::Result<Box<dyn File>> {
        self.directory.open_append(path)
    }

    fn map(&self, path: &str) -> io::Result<Bytes> {
        self.directory.map(path)
    }

    fn read_at(&self, path: &str, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.directory.read_at(path, offset, buffer)
    }

    fn len(&self, path: &str) -> io::Result<u64> {
        self.directory.len(path)
    }

    fn truncate(&self, path: &str, length: u64) -> io::Result<()> {
        self.change()?;
        self.directory.truncate(path, length)
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.directory.list(directory)
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.change()?;
        self.directory.create_dir(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change()?;
        self.directory.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.change()?;
        self.directory.remove(path)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.change()?;
        self.directory.remove_dir(path)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.change()?;
        self.directory.sync_dir(path)
    }

    fn lock(&self) -> io::Result<Held> {
        self.directory.lock()
    }
}

#[test]
fn writing_and_removing_may_end_anywhere() {
    let scratch = Scratch::new("crash");
    let model = corpus::random_model(&mut Random::new(41), 20, 0, 100_000);
    let whole = |when: &str| {
        let ulids = catalog::list(&scratch.disk).unwrap();
        for &ulid in &ulids {
            let block = Block::open(&scratch.disk, ulid).unwrap();
            assert!(block.damages().is_empty(), "{when}");
            let found = corpus::selected(&block, &[], i64::MIN, i64::MAX).unwrap();
            assert!(found == model, "{when}");
        }
        !ulids.is_empty()
    };
    let mut leftovers = 0;
    let mut finished = 0;
    for changes in 0.. {
        assert!(changes < 1_000, "writing ends");
        let left = Arc::new(AtomicU64::new(changes));
        let disk = Mortal { directory: scratch.disk.clone(), left };
        let written = corpus::try_write(&disk, &model, Ulid::nil(), (0, 100_000), 5_000);
        leftovers += catalog::clean(&scratch.disk).unwrap().len();
        let there = whole(&format!("written with {changes} changes"));
        assert!(there || written.is_err());
        if !there {
            continue;
        }
        finished += 1;
        if written.is_err() {
            // The name was there, and the disk died before it was known to last.
            catalog::remove(&scratch.disk, Ulid::nil()).unwrap();
            continue;
        }
        break;
    }
    assert!(leftovers > 10 && finished == 2, "{leftovers} {finished}");

    for changes in 0..3 {
        let disk =
            Mortal { directory: scratch.disk.clone(), left: Arc::new(AtomicU64::new(changes)) };
        catalog::remove(&disk, Ulid::nil()).unwrap_err();
        let there = whole(&format!("removed with {changes} changes"));
        assert_eq!(there, changes == 0);
        assert_eq!(catalog::clean(&scratch.disk).unwrap().len(), usize::from(!there));
        if !there {
            corpus::write(&scratch.disk, &model, Ulid::nil(), (0, 100_000), 5_000);
        }
    }
}
