//! This process' threads as the kernel shows them under `/proc/self/task`.
//!
//! Reading allocates nothing: paths and contents are in buffers of the caller's stack.
//!
//! Unsafe for one call, the calling thread's id.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, RawDir};

/// A thread's id as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(pub i32);

impl Tid {
    /// The calling thread's. *Steady*, one system call.
    pub fn own() -> Tid {
        // SAFETY: it takes nothing and can't fail.
        Tid(unsafe { libc::gettid() })
    }
}

/// The directory of all threads, kept open.
#[derive(Debug)]
pub(crate) struct Tasks {
    directory: File,
}

impl Tasks {
    pub(crate) fn open() -> io::Result<Tasks> {
        Ok(Tasks { directory: File::open("/proc/self/task")? })
    }

    /// How many threads there are, where the kernel says so: Linux gives the directory a link for each,
    /// besides its own two. A list takes ten times as long, or more.
    pub(crate) fn count(&self) -> Option<usize> {
        let links = rustix::fs::fstat(&self.directory).ok()?.st_nlink;
        usize::try_from(links).ok()?.checked_sub(2)
    }

    /// Calls `found` with each thread there is, in the order of their ids.
    pub(crate) fn list(&mut self, mut found: impl FnMut(Tid)) -> io::Result<()> {
        self.directory.seek(SeekFrom::Start(0))?;
        let mut room = [MaybeUninit::uninit(); 8192];
        let mut entries = RawDir::new(&self.directory, &mut room);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if let Some(tid) = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok()) {
                found(Tid(tid));
            }
        }
        Ok(())
    }
}

/// What is to be known of a thread before it is interrupted for the first time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Status {
    name: [u8; 16],
    name_length: u8,
    /// The signals that it has blocked, and those that wait for it, by number less one.
    blocked: u64,
    pending: u64,
    /// The state's letter: `R`, `S`, `D` and so on.
    pub(crate) state: u8,
}

impl Status {
    /// Reads it; none if the thread is gone.
    pub(crate) fn read(tid: Tid) -> Option<Status> {
        // Supplementary groups may be hundreds.
        let mut room = [0; 16 * 1024];
        let text = read_file(tid, "status", &mut room)?;
        let mut status = Status { state: b'?', ..Status::default() };
        for line in text.split(|&b| b == b'\n') {
            if let Some(name) = line.strip_prefix(b"Name:\t") {
                // Longer only where the kernel escaped something.
                let length = name.len().min(status.name.len());
                status.name[..length].copy_from_slice(&name[..length]);
                status.name_length = length as u8;
            } else if let Some(state) = line.strip_prefix(b"State:\t") {
                status.state = state.first().copied().unwrap_or(b'?');
            } else if let Some(mask) = line.strip_prefix(b"SigPnd:\t") {
                status.pending = mask_of(mask)?;
            } else if let Some(mask) = line.strip_prefix(b"SigBlk:\t") {
                status.blocked = mask_of(mask)?;
                break;
            }
        }
        Some(status)
    }

    /// Reads the name again, which takes a fifth of the time for all of it; whether it is another one.
    pub(crate) fn read_name(&mut self, tid: Tid) -> bool {
        let mut room = [0; 64];
        let Some(text) = read_file(tid, "comm", &mut room) else { return false };
        let name = text.strip_suffix(b"\n").unwrap_or(text);
        let name = &name[..name.len().min(self.name.len())];
        if name == &self.name[..usize::from(self.name_length)] {
            return false;
        }
        self.name[..name.len()].copy_from_slice(name);
        self.name_length = name.len() as u8;
        true
    }

    /// The name that was set, of at most 15 bytes.
    pub(crate) fn name(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.name[..usize::from(self.name_length)])
    }

    /// Whether a signal of this number waits for the thread.
    pub(crate) fn awaits(&self, signal: i32) -> bool {
        (self.pending >> (signal - 1)) & 1 == 1
    }

    /// Whether it is a thread that has ended and is still there, as a process' first may be.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// Whether a signal of this number would have to wait.
    pub(crate) fn has_blocked(&self, signal: i32) -> bool {
        (self.blocked >> (signal - 1)) & 1 == 1
    }
}

fn mask_of(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Where a thread stands in a system call that it waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) sp: u64,
    pub(crate) pc: u64,
}

impl Waiting {
    /// Reads it; none if the thread runs, is gone, or may not be looked at.
    pub(crate) fn read(tasks: &Tasks, tid: Tid) -> Option<Waiting> {
        // From the open directory, and at once, since this is read at most ticks: the way to the file from
        // the root takes as long as what is in it.
        let (mut path, mut room) = ([0; 24], [0; 256]);
        let path = path_of(&mut path, format_args!("{}/syscall", tid.0))?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&tasks.directory, path, flags, Mode::empty()).ok()?;
        let length = rustix::io::read(&file, &mut room).ok()?;
        // "nr arg0 … arg5 sp pc", or "-1 sp pc" outside of a call, or "running".
        let mut words = std::str::from_utf8(&room[..length]).ok()?.split_ascii_whitespace().rev();
        let mut word = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let (pc, sp) = (word()?, word()?);
        Some(Waiting { sp, pc })
    }

    /// Whether this is where a thread was interrupted that had `sp` and `pc`.
    pub(crate) fn is_at(&self, sp: u64, pc: u64) -> bool {
        self.sp == sp && is_same_call(self.pc, pc)
    }
}

/// Whether two places belong to the same call. One that is begun again after a signal stands at its
/// instruction, one that is waited in, or has come to its end, behind it.
pub(crate) fn is_same_call(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= 4
}

/// When a thread was started, in nanoseconds since the system's start, to a hundredth of a second.
pub(crate) fn start_of(tid: Tid) -> Option<u64> {
    /// Ticks a second: what the kernel shows to programs whatever it works with.
    const USER_HZ: u64 = 100;
    let mut room = [0; 1024];
    let text = read_file(tid, "stat", &mut room)?;
    // The name in parentheses may hold anything, parentheses too.
    let behind = text.iter().rposition(|&b| b == b')')? + 1;
    let fields = std::str::from_utf8(&text[behind..]).ok()?;
    // The 22nd field, of which the name was the second.
    let ticks: u64 = fields.split_ascii_whitespace().nth(19)?.parse().ok()?;
    Some(ticks * (1_000_000_000 / USER_HZ))
}

fn read_file<'r>(tid: Tid, name: &str, room: &'r mut [u8]) -> Option<&'r [u8]> {
    let mut path = [0; 48];
    let path = path_of(&mut path, format_args!("/proc/self/task/{}/{name}", tid.0))?;
    let mut file = File::open(path).ok()?;
    let mut length = 0;
    while length < room.len() {
        match file.read(&mut room[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(&room[..length])
}

/// A path in the caller's memory.
fn path_of<'p>(room: &'p mut [u8], path: std::fmt::Arguments<'_>) -> Option<&'p Path> {
    let size = room.len();
    let mut rest = &mut *room;
    rest.write_fmt(path).ok()?;
    let length = size - rest.len();
    Some(Path::new(OsStr::from_bytes(&room[..length])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_found_with_its_name_its_mask_and_its_start() {
        let thread = std::thread::Builder::new().name("a (name)".to_owned()).spawn(|| {
            let own = Tid::own();
            let mut listed = Vec::new();
            Tasks::open().unwrap().list(|tid| listed.push(tid)).unwrap();
            assert!(listed.contains(&own));
            assert!(listed.is_sorted());
            // Others come and go meanwhile.
            let mut tasks = Tasks::open().unwrap();
            let is_counted = |_| {
                let (before, mut listed) = (tasks.count(), 0);
                tasks.list(|_| listed += 1).unwrap();
                before == Some(listed)
            };
            assert!((0..1000).any(is_counted));
            let status = Status::read(own).unwrap();
            assert_eq!(status.name(), "a (name)");
            let mut same = status;
            assert!(!same.read_name(own) && same.name() == "a (name)");
            same.name_length = 1;
            assert!(same.read_name(own) && same.name() == "a (name)");
            assert_eq!(status.state, b'R');
            assert!(!status.has_blocked(libc::SIGURG));
            let start = start_of(own).unwrap();
            let now = super::super::clock::since_boot();
            assert!(start <= now && now - start < 10_000_000_000, "{start} {now}");
        });
        thread.unwrap().join().unwrap();
        assert!(Status::read(Tid(i32::MAX / 16)).is_none());
    }

    #[test]
    fn a_waiting_thread_shows_where() {
        let (say, hear) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            say.send(Tid::own()).unwrap();
            let _ = stopped.recv();
        });
        let tid = hear.recv().unwrap();
        let tasks = Tasks::open().unwrap();
        let waiting = loop {
            match Waiting::read(&tasks, tid) {
                Some(waiting) => break waiting,
                None => std::thread::yield_now(),
            }
        };
        assert!(waiting.sp > 4096 && waiting.pc > 4096);
        assert!(waiting.is_at(waiting.sp, waiting.pc - 2));
        assert!(!waiting.is_at(waiting.sp + 8, waiting.pc));
        assert_eq!(Waiting::read(&tasks, Tid(i32::MAX)), None, "there is no such thread");
        drop(stop);
        thread.join().unwrap();
    }
}
