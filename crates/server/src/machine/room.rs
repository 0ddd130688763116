//! The memory that reading the machine needs, and the few ways in which the kernel writes numbers.

use std::fs::File;
use std::io::{self, Read};
use std::str::FromStr;

use super::filesystem::Mount;

/// Memory that is used again at the next scrape.
#[derive(Default)]
pub(super) struct Room {
    /// The file being read.
    pub(super) bytes: Vec<u8>,
    /// A smaller file beside it.
    pub(super) more: Vec<u8>,
    /// A name or path being put together.
    pub(super) name: String,
    /// A text being put together.
    pub(super) help: String,
    /// What is known of the mounts.
    pub(super) mounts: Vec<Mount>,
}

/// Reads a whole file; allocates only where it is larger than any before.
pub(super) fn read<'r>(path: &str, bytes: &'r mut Vec<u8>) -> io::Result<&'r [u8]> {
    bytes.clear();
    File::open(path)?.read_to_end(bytes)?;
    Ok(bytes)
}

/// Reads a whole file of text.
pub(super) fn read_text<'r>(path: &str, bytes: &'r mut Vec<u8>) -> io::Result<&'r str> {
    let bytes = read(path, bytes)?;
    std::str::from_utf8(bytes).map_err(|_| odd("not UTF-8"))
}

/// A file that does not say what it should.
#[cold]
pub(super) fn odd(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The field at `index` as a number.
pub(super) fn number<T: FromStr>(line: &str, index: usize) -> Option<T> {
    line.split_ascii_whitespace().nth(index)?.parse().ok()
}

/// Puts a text together in memory that is used again.
pub(super) fn join<'r>(room: &'r mut String, parts: &[&str]) -> &'r str {
    room.clear();
    for part in parts {
        room.push_str(part);
    }
    room
}
