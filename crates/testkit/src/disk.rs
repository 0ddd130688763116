//! A disk in memory that can be killed, lose power and refuse, to write as to open.
//!
//! What holds after which end of the process:
//! - **Kill**: everything that was written, in every file, under every name.
//! - **Loss of power**: of a file, what was synced, and of what was appended behind it a part of random
//!   length, which may end in garbage; of names, those whose directory was synced, and of the changes
//!   since then, a random number of the first ones (file systems journal names in order).
//!
//! An end can be planned to strike within the n-th change from now: that one is done in part (a write
//! is torn), and everything fails until [`SimulatedDisk::restart`].

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use store::disk::{Bytes, Disk, File, Held};

use crate::random::Random;

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// `kill -9`.
    Kill,
    /// The machine loses power.
    PowerLoss,
}

#[derive(Clone, Default)]
struct Inode {
    data: Vec<u8>,
    synced: usize,
}

#[derive(Clone, Default)]
struct Names {
    files: BTreeMap<String, usize>,
    directories: BTreeSet<String>,
}

#[derive(Clone)]
enum Change {
    Link(String, usize),
    MakeDirectory(String),
    Rename(String, String),
    Remove(String),
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn inside(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

impl Change {
    fn directories(&self) -> Vec<&str> {
        match self {
            Change::Link(path, _) | Change::MakeDirectory(path) | Change::Remove(path) => {
                vec![parent(path)]
            }
            Change::Rename(from, to) => vec![parent(from), parent(to)],
        }
    }
}

impl Names {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Link(path, inode) => drop(self.files.insert(path.clone(), *inode)),
            Change::MakeDirectory(path) => drop(self.directories.insert(path.clone())),
            Change::Rename(from, to) => {
                let moved = |path: &str| match path.strip_prefix(from.as_str()) {
                    Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{to}{rest}"),
                    _ => path.to_owned(),
                };
                let files = std::mem::take(&mut self.files);
                // What stands at the target gives way, also where it sorts behind the source.
                let (moving, staying): (Vec<_>, Vec<_>) =
                    files.into_iter().partition(|(path, _)| path == from || inside(path, from));
                self.files.extend(staying);
                self.files.extend(moving.into_iter().map(|(path, inode)| (moved(&path), inode)));
                self.directories =
                    std::mem::take(&mut self.directories).iter().map(|path| moved(path)).collect();
            }
            Change::Remove(path) => {
                self.files.retain(|other, _| other != path && !inside(other, path));
                self.directories.retain(|other| other != path && !inside(other, path));
            }
        }
    }
}

impl Names {
    /// What stands in a directory whose own name was lost can't be reached any more.
    fn forget_lost(&mut self) {
        let mut there = BTreeSet::new();
        // Parents sort before what they hold.
        for path in std::mem::take(&mut self.directories) {
            let above = parent(&path);
            if above.is_empty() || there.contains(above) {
                there.insert(path);
            }
        }
        self.files.retain(|path, _| parent(path).is_empty() || there.contains(parent(path)));
        self.directories = there;
    }
}

struct State {
    random: Random,
    inodes: Vec<Inode>,
    now: Names,
    durable: Names,
    pending: Vec<Change>,
    /// Changes until the end strikes.
    countdown: Option<u64>,
    /// The process has ended and has not noticed yet.
    ended: bool,
    /// One change in so many fails; 0 is none.
    failing: u64,
    /// One opening of a file in so many fails; 0 is none.
    refusing: u64,
    locked: bool,
    /// Handles of before a restart do nothing any more.
    epoch: u64,
    writes: u64,
}

/// See the module. Cloning gives another handle to the same disk.
#[derive(Clone)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
    epoch: u64,
}

fn gone() -> io::Error {
    io::Error::other("the simulated process has ended")
}

fn missing(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{path}: no such file"))
}

/// What is to be done of a change.
enum Fate {
    Whole,
    /// In part, or not at all, and an error.
    Fails,
}

impl State {
    fn alive(&self, epoch: u64) -> io::Result<()> {
        if self.ended || self.epoch != epoch { Err(gone()) } else { Ok(()) }
    }

    fn change(&mut self, epoch: u64) -> io::Result<Fate> {
        self.alive(epoch)?;
        self.writes += 1;
        if let Some(left) = &mut self.countdown {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.ended = true;
                return Ok(Fate::Fails);
            }
        }
        if self.failing > 0 && self.random.below(self.failing) == 0 {
            return Ok(Fate::Fails);
        }
        Ok(Fate::Whole)
    }

    /// Before a file is opened.
    fn open(&mut self, epoch: u64) -> io::Result<()> {
        self.alive(epoch)?;
        if self.refusing > 0 && self.random.below(self.refusing) == 0 {
            return Err(io::Error::other("injected refusal"));
        }
        Ok(())
    }

    fn rename_or_link(&mut self, epoch: u64, change: Change) -> io::Result<()> {
        match self.change(epoch)? {
            Fate::Whole => {
                self.now.apply(&change);
                self.pending.push(change);
                Ok(())
            }
            Fate::Fails => Err(io::Error::other("injected failure")),
        }
    }

    fn inode(&self, path: &str) -> io::Result<usize> {
        self.now.files.get(path).copied().ok_or_else(|| missing(path))
    }
}

impl SimulatedDisk {
    /// An empty disk.
    pub fn new(seed: u64) -> Self {
        let state = State {
            random: Random::new(seed),
            inodes: Vec::new(),
            now: Names::default(),
            durable: Names::default(),
            pending: Vec::new(),
            countdown: None,
            ended: false,
            failing: 0,
            refusing: 0,
            locked: false,
            epoch: 0,
            writes: 0,
        };
        SimulatedDisk { state: Arc::new(Mutex::new(state)), epoch: 0 }
    }

    /// Plans the end of the process within the `changes`-th change from now.
    pub fn end_after(&self, changes: u64) {
        self.state.lock().countdown = Some(changes.max(1));
    }

    /// Lets one change in `every` fail from now on; a write that fails is done in part. 0 ends that.
    pub fn fail_one_in(&self, every: u64) {
        self.state.lock().failing = every;
    }

    /// Lets one opening of an existing file in `every` fail from now on, to map it, to read or to append,
    /// as a process without free handles or memory sees it. 0 ends that.
    pub fn refuse_one_in(&self, every: u64) {
        self.state.lock().refusing = every;
    }

    /// Whether the planned end has struck.
    pub fn has_ended(&self) -> bool {
        self.state.lock().ended
    }

    /// Changes so far.
    pub fn writes(&self) -> u64 {
        self.state.lock().writes
    }

    /// Ends the process, if that has not happened yet, and gives the disk as the next one finds it.
    /// Handles of before are dead.
    pub fn restart(&self, end: End) -> SimulatedDisk {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if end == End::PowerLoss {
            let kept = state.random.below(state.pending.len() as u64 + 1) as usize;
            for change in &state.pending[..kept] {
                state.durable.apply(change);
            }
            state.durable.forget_lost();
            state.now = state.durable.clone();
            for inode in &mut state.inodes {
                let tail = inode.data.len() - inode.synced;
                let kept = inode.synced + state.random.below(tail as u64 + 1) as usize;
                inode.data.truncate(kept);
                if kept > inode.synced && state.random.below(4) == 0 {
                    let from =
                        inode.synced + state.random.below((kept - inode.synced) as u64) as usize;
                    inode.data[from..].iter_mut().for_each(|byte| *byte = 0);
                }
                inode.synced = kept;
            }
            state.pending.clear();
            state.durable = state.now.clone();
        }
        state.countdown = None;
        state.ended = false;
        state.failing = 0;
        state.refusing = 0;
        state.locked = false;
        state.epoch += 1;
        SimulatedDisk { state: self.state.clone(), epoch: state.epoch }
    }

    /// All files with their lengths.
    pub fn files(&self) -> Vec<(String, usize)> {
        let state = self.state.lock();
        let length = |inode: usize| state.inodes[inode].data.len();
        state.now.files.iter().map(|(path, &inode)| (path.clone(), length(inode))).collect()
    }

    /// The content of a file.
    pub fn content(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.state.lock();
        Some(state.inodes[*state.now.files.get(path)?].data.clone())
    }

    /// Flips bits of a byte of a file, as time does.
    ///
    /// # Panics
    /// There is no such byte.
    pub fn damage(&self, path: &str, offset: usize, bits: u8) {
        let mut state = self.state.lock();
        let inode = *state.now.files.get(path).expect("the file to damage exists");
        state.inodes[inode].data[offset] ^= bits;
    }
}

impl Disk for SimulatedDisk {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        let mut state = self.state.lock();
        let directory = parent(path);
        if !directory.is_empty() && !state.now.directories.contains(directory) {
            return Err(missing(directory));
        }
        state.inodes.push(Inode::default());
        let inode = state.inodes.len() - 1;
        state.rename_or_link(self.epoch, Change::Link(path.to_owned(), inode))?;
        Ok(Box::new(Handle { disk: self.clone(), inode, size: 0 }))
    }

    fn open_append(&self, path: &str) -> io::Result<Box<dyn File>> {
        let mut state = self.state.lock();
        state.open(self.epoch)?;
        let inode = state.inode(path)?;
        let size = state.inodes[inode].data.len() as u64;
        Ok(Box::new(Handle { disk: self.clone(), inode, size }))
    }

    fn map(&self, path: &str) -> io::Result<Bytes> {
        let mut state = self.state.lock();
        state.open(self.epoch)?;
        Ok(Arc::new(state.inodes[state.inode(path)?].data.clone()))
    }

    fn read_at(&self, path: &str, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        state.open(self.epoch)?;
        let data = &state.inodes[state.inode(path)?].data;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let range = data.get(start..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(range.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn len(&self, path: &str) -> io::Result<u64> {
        let state = self.state.lock();
        state.alive(self.epoch)?;
        Ok(state.inodes[state.inode(path)?].data.len() as u64)
    }

    fn truncate(&self, path: &str, length: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        state.change(self.epoch)?;
        let inode = state.inode(path)?;
        let inode = &mut state.inodes[inode];
        inode.data.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        inode.synced = inode.data.len();
        Ok(())
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let state = self.state.lock();
        state.alive(self.epoch)?;
        let paths = state.now.files.keys().chain(&state.now.directories);
        let names = paths.filter(|path| parent(path) == directory && !path.is_empty());
        let names: BTreeSet<_> = names
            .map(|path| path.rsplit_once('/').map_or(path.as_str(), |(_, name)| name).to_owned())
            .collect();
        Ok(names.into_iter().collect())
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.alive(self.epoch)?;
        let mut so_far = String::new();
        for part in path.split('/') {
            if !so_far.is_empty() {
                so_far.push('/');
            }
            so_far.push_str(part);
            if !state.now.directories.contains(&so_far) {
                state.rename_or_link(self.epoch, Change::MakeDirectory(so_far.clone()))?;
            }
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        if !state.now.directories.contains(from) {
            state.inode(from)?;
        }
        state.rename_or_link(self.epoch, Change::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.inode(path)?;
        state.rename_or_link(self.epoch, Change::Remove(path.to_owned()))
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        if !state.now.directories.contains(path) {
            return Err(missing(path));
        }
        state.rename_or_link(self.epoch, Change::Remove(path.to_owned()))
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if let Fate::Fails = state.change(self.epoch)? {
            return Err(io::Error::other("injected failure"));
        }
        let pending = std::mem::take(&mut state.pending);
        for change in pending {
            if change.directories().contains(&path) {
                state.durable.apply(&change);
            } else {
                state.pending.push(change);
            }
        }
        Ok(())
    }

    fn lock(&self) -> io::Result<Held> {
        let mut state = self.state.lock();
        state.alive(self.epoch)?;
        if std::mem::replace(&mut state.locked, true) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Lock(self.clone())))
    }
}

struct Lock(SimulatedDisk);

impl Drop for Lock {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if state.epoch == self.0.epoch {
            state.locked = false;
        }
    }
}

struct Handle {
    disk: SimulatedDisk,
    inode: usize,
    size: u64,
}

impl File for Handle {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut guard = self.disk.state.lock();
        let state = &mut *guard;
        let fate = state.change(self.disk.epoch)?;
        let written = match fate {
            Fate::Whole => bytes.len(),
            Fate::Fails => state.random.below(bytes.len() as u64 + 1) as usize,
        };
        state.inodes[self.inode].data.extend_from_slice(&bytes[..written]);
        self.size += written as u64;
        match fate {
            Fate::Whole => Ok(()),
            Fate::Fails => Err(io::Error::new(io::ErrorKind::StorageFull, "injected failure")),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut guard = self.disk.state.lock();
        let state = &mut *guard;
        if let Fate::Fails = state.change(self.disk.epoch)? {
            return Err(io::Error::other("injected failure"));
        }
        let inode = &mut state.inodes[self.inode];
        inode.synced = inode.data.len();
        Ok(())
    }

    fn size(&self) -> u64 {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_keeps_what_was_written_and_the_loss_of_power_what_was_synced() {
        let mut lost = 0;
        for seed in 0..100 {
            let disk = SimulatedDisk::new(seed);
            let mut file = disk.create("kept").unwrap();
            disk.sync_dir("").unwrap();
            file.append(b"synced").unwrap();
            file.sync().unwrap();
            file.append(b" and not").unwrap();
            disk.create("forgotten").unwrap();
            let killed = disk.restart(End::Kill);
            assert!(file.append(b"!").is_err() && disk.len("kept").is_err(), "dead handles");
            assert_eq!(killed.content("kept").unwrap(), b"synced and not");
            assert_eq!(killed.list("").unwrap(), ["forgotten", "kept"]);
            killed.create("new").unwrap().append(b"x").unwrap();
            let cut = killed.restart(End::PowerLoss);
            // A kill between makes nothing durable.
            let content = cut.content("kept").unwrap();
            assert!(content.starts_with(b"synced") && content.len() <= 14);
            lost += usize::from(!cut.list("").unwrap().contains(&"new".to_owned()));
        }
        assert!((20..80).contains(&lost), "names are lost by chance: {lost}");
    }

    #[test]
    fn a_file_is_there_only_with_its_directory() {
        let mut lost = 0;
        for seed in 0..100 {
            let disk = SimulatedDisk::new(seed);
            disk.create_dir("a").unwrap();
            disk.create("a/f").unwrap();
            disk.sync_dir("a").unwrap();
            lost += usize::from(disk.restart(End::PowerLoss).files().is_empty());
        }
        assert!((20..80).contains(&lost), "its name is in another directory: {lost}");
    }

    #[test]
    fn a_planned_end_tears_a_write() {
        let mut lengths = BTreeSet::new();
        for seed in 0..50 {
            let disk = SimulatedDisk::new(seed);
            let mut file = disk.create("f").unwrap();
            disk.end_after(2);
            file.append(b"first").unwrap();
            assert!(file.append(b"second").is_err() && disk.has_ended());
            assert!(file.append(b"third").is_err() && disk.create("g").is_err());
            lengths.insert(disk.restart(End::Kill).len("f").unwrap());
        }
        assert!(lengths.len() > 3 && lengths.iter().all(|&length| (5..=11).contains(&length)));
    }

    #[test]
    fn openings_are_refused_and_nothing_else_is() {
        let disk = SimulatedDisk::new(1);
        let mut file = disk.create("f").unwrap();
        disk.refuse_one_in(2);
        let mut refused = [0; 3];
        for _ in 0..100 {
            file.append(b"x").and_then(|()| file.sync()).unwrap();
            refused[0] += usize::from(disk.map("f").is_err());
            refused[1] += usize::from(disk.open_append("f").is_err());
            refused[2] += usize::from(disk.read_at("f", 0, &mut [0]).is_err());
        }
        assert!(refused.iter().all(|count| (30..70).contains(count)), "{refused:?}");
        disk.refuse_one_in(0);
        assert!(disk.map("f").unwrap().len() == 100 && disk.open_append("f").is_ok());
    }

    #[test]
    fn directories_are_renamed_with_what_they_hold() {
        let disk = SimulatedDisk::new(1);
        disk.create_dir("a.tmp/chunks").unwrap();
        disk.create("a.tmp/chunks/1").unwrap();
        disk.create("a.tmpx").unwrap();
        disk.rename("a.tmp", "a").unwrap();
        assert_eq!(disk.list("").unwrap(), ["a", "a.tmpx"]);
        assert_eq!(disk.list("a/chunks").unwrap(), ["1"]);
        disk.remove_dir("a").unwrap();
        assert_eq!(disk.files().len(), 1);
    }

    #[test]
    fn one_holder_at_a_time() {
        let disk = SimulatedDisk::new(1);
        let held = disk.lock().unwrap();
        assert_eq!(disk.lock().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(held);
        let _held = disk.lock().unwrap();
        assert!(disk.restart(End::Kill).lock().is_ok());
    }
}
