//! A real directory as a [`Disk`].
//!
//! Holds nothing but the root's path: every operation opens what it needs and closes it again, files
//! being written and mappings excepted. Refuses paths that would leave the root.
//!
//! **Mapping.** But for a hint to the processor (`head/prefetch.rs`), this is the only file of the store
//! with `unsafe` in it. A mapping is sound as long as
//! nobody shrinks the file under it: reading a page beyond the end of a mapped file raises SIGBUS,
//! and writing to a mapped hole on a full disk does too. The store therefore maps for reading only,
//! and never truncates or rewrites a file that it maps. Such a file is finished, or is one that is
//! still appended to: then the mapping ends at the length of the moment in which it was made, and the
//! bytes below that are written already and stay as they are. Files are unlinked, which leaves the
//! mapping's pages intact until the last holder lets go.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::{Bytes, Disk, File, Held};

/// A directory of the file system and all below it.
#[derive(Clone, Debug)]
pub struct Directory {
    root: PathBuf,
}

impl Directory {
    /// Opens `root`, which is created with its parents where it doesn't exist.
    ///
    /// # Errors
    /// The directory cannot be created, or something else stands at its place.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        fs::create_dir_all(&root)?;
        Ok(Directory { root })
    }

    /// The path that was opened.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn resolve(&self, path: &str) -> io::Result<PathBuf> {
        let relative = Path::new(path);
        let stays = relative
            .components()
            .all(|component| matches!(component, Component::Normal(_) | Component::CurDir));
        if !stays {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{path:?} leaves the directory {}", self.root.display()),
            ));
        }
        Ok(self.root.join(relative))
    }
}

impl Disk for Directory {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).open(self.resolve(path)?)?;
        Ok(Box::new(Appender { file, size: 0 }))
    }

    fn open_append(&self, path: &str) -> io::Result<Box<dyn File>> {
        let file = OpenOptions::new().append(true).open(self.resolve(path)?)?;
        let size = file.metadata()?.len();
        Ok(Box::new(Appender { file, size }))
    }

    fn map(&self, path: &str) -> io::Result<Bytes> {
        let file = fs::File::open(self.resolve(path)?)?;
        map_so_far(&file)
    }

    fn read_at(&self, path: &str, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        fs::File::open(self.resolve(path)?)?.read_exact_at(buffer, offset)
    }

    fn len(&self, path: &str) -> io::Result<u64> {
        Ok(fs::metadata(self.resolve(path)?)?.len())
    }

    fn truncate(&self, path: &str, length: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.resolve(path)?)?;
        file.set_len(length)?;
        file.sync_all()
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.resolve(directory)?) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        fs::create_dir_all(self.resolve(path)?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.resolve(from)?, self.resolve(to)?)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.resolve(path)?)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        fs::remove_dir_all(self.resolve(path)?)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        fs::File::open(self.resolve(path)?)?.sync_all()
    }

    fn lock(&self) -> io::Result<Held> {
        // The file that Prometheus locks, in the same way: the two exclude each other. The lock goes
        // with the open file, so with the process; the file stays.
        let path = self.root.join("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(fs::TryLockError::WouldBlock) => Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                format!("{} is in use by another process", self.root.display()),
            )),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

/// A file that only grows. Nothing is buffered here: what `append` has returned from is the kernel's.
struct Appender {
    file: fs::File,
    size: u64,
}

impl File for Appender {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        // Of the metadata, fdatasync writes what reading the data back needs: the length.
        self.file.sync_data()
    }

    fn size(&self) -> u64 {
        self.size
    }
}

#[allow(unsafe_code)]
fn map_so_far(file: &fs::File) -> io::Result<Bytes> {
    if file.metadata()?.len() == 0 {
        return Ok(Arc::new(Vec::new()));
    }
    // SAFETY: the mapping is read-only and as long as the file is now. By the contract of `Disk::map`
    // nobody of this process truncates the file or writes anywhere but behind its end, so that no
    // mapped byte changes or goes away; the directory's lock keeps other stores out. Removing the
    // file leaves the pages mapped. The bytes are only lent out through the
    // `Mmap`, which unmaps when the last `Arc` goes.
    let mapping = unsafe { memmap2::Mmap::map(file)? };
    Ok(Arc::new(mapping))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> (PathBuf, Directory) {
        let root = std::env::temp_dir().join(format!("unladen-disk-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let directory = Directory::open(&root).unwrap();
        (root, directory)
    }

    #[test]
    fn a_file_grows_is_cut_and_is_read() {
        let (root, disk) = scratch("grow");
        disk.create_dir("a/b").unwrap();
        let mut file = disk.create("a/b/c").unwrap();
        file.append(b"hello ").unwrap();
        file.sync().unwrap();
        drop(file);
        let mut file = disk.open_append("a/b/c").unwrap();
        assert_eq!(file.size(), 6);
        file.append(b"world").unwrap();
        drop(file);
        assert_eq!(&**disk.map("a/b/c").unwrap(), b"hello world");
        let mut middle = [0; 3];
        disk.read_at("a/b/c", 4, &mut middle).unwrap();
        assert_eq!(&middle, b"o w");
        assert!(disk.read_at("a/b/c", 9, &mut middle).is_err(), "beyond the end");
        disk.truncate("a/b/c", 5).unwrap();
        assert_eq!(disk.len("a/b/c").unwrap(), 5);
        disk.truncate("a/b/c", 0).unwrap();
        assert!(disk.map("a/b/c").unwrap().is_empty());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_mapping_outlives_its_file() {
        let (root, disk) = scratch("unlink");
        disk.create("f").unwrap().append(b"stays").unwrap();
        let bytes = disk.map("f").unwrap();
        disk.remove("f").unwrap();
        assert_eq!(&**bytes, b"stays");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn directories_are_listed_renamed_and_removed() {
        let (root, disk) = scratch("list");
        assert!(disk.list("nowhere").unwrap().is_empty());
        disk.create_dir("x.tmp/chunks").unwrap();
        disk.create("b").unwrap();
        disk.rename("x.tmp", "x").unwrap();
        disk.sync_dir("").unwrap();
        assert_eq!(disk.list("").unwrap(), ["b", "x"]);
        disk.remove_dir("x").unwrap();
        assert_eq!(disk.list("").unwrap(), ["b"]);
        for outside in ["../b", "/etc/passwd", "x/../../b"] {
            assert_eq!(disk.len(outside).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_lock_excludes_a_second_holder() {
        let (root, disk) = scratch("lock");
        let lock = disk.lock().unwrap();
        assert_eq!(disk.lock().err().unwrap().kind(), io::ErrorKind::WouldBlock);
        drop(lock);
        disk.lock().unwrap();
        fs::remove_dir_all(root).unwrap();
    }
}
