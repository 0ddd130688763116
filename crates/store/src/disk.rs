//! The one trait through which the store touches a disk.
//!
//! [`Directory`] is a real one; `testkit` has one in memory that tears, loses and
//! corrupts what was not synced. Paths are relative, `/`-separated, to the root that was opened.

mod directory;

use std::io;
use std::ops::Deref;
use std::sync::Arc;

pub use directory::Directory;

/// Bytes of a file that stay readable as long as somebody holds them, also after the file is removed.
pub type Bytes = Arc<dyn Deref<Target = [u8]> + Send + Sync>;

/// Holds the lock of a [`Disk`] until it is dropped.
pub type Held = Box<dyn std::any::Any + Send + Sync>;

/// A directory tree.
pub trait Disk: Send + Sync {
    /// Creates or truncates a file for appending.
    fn create(&self, path: &str) -> io::Result<Box<dyn File>>;
    /// Opens an existing file for appending at its end.
    fn open_append(&self, path: &str) -> io::Result<Box<dyn File>>;
    /// The bytes that a file has now, mapped where the system can. It may be appended to afterwards,
    /// which the answer doesn't show, but not be truncated or rewritten as long as anybody may hold it.
    fn map(&self, path: &str) -> io::Result<Bytes>;
    /// Reads `buffer.len()` bytes at `offset`.
    fn read_at(&self, path: &str, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// The length of a file.
    fn len(&self, path: &str) -> io::Result<u64>;
    /// Cuts a file to `length` bytes.
    fn truncate(&self, path: &str, length: u64) -> io::Result<()>;
    /// Names (not paths) of what a directory holds, sorted; none where it doesn't exist.
    fn list(&self, directory: &str) -> io::Result<Vec<String>>;
    /// Creates a directory and its parents.
    fn create_dir(&self, path: &str) -> io::Result<()>;
    /// Renames a file or a directory, atomically.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Removes a directory with all that it holds.
    fn remove_dir(&self, path: &str) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, path: &str) -> io::Result<()>;
    /// Takes the exclusive lock of the tree; it ends when the answer is dropped or the process dies.
    /// [`io::ErrorKind::WouldBlock`] while somebody else has it.
    fn lock(&self) -> io::Result<Held>;
}

/// A file being written.
pub trait File: Send {
    /// Appends all of `bytes`; what was appended survives the death of the process.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes all that was appended survive the loss of power.
    fn sync(&mut self) -> io::Result<()>;
    /// Bytes so far.
    fn size(&self) -> u64;
}
