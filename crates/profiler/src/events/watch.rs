//! Which threads the kernel samples, and the rings that it writes to.
//!
//! 1. For each processor one ring: memory for rings is locked memory, of which there is little.
//! 2. For each thread that is there, a counter on each processor: only those may be inherited and write to
//!    a ring that is shared.
//! 3. Threads that start later inherit the counters, and need no descriptors.
//!
//! Between listing threads and opening their counters others may start: the list is read again until there
//! is nobody new. A thread that inherited counters meanwhile then has them twice, and only those of the
//! first that has a sample count.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use super::kernel::{self, Counter, Ring, Wanted};
use crate::Error;
use crate::sample::{Tasks, Tid};

/// The bytes of a ring, if the kernel allows it: half of what it gives to each processor by default.
const RING: usize = 256 << 10;
/// How often threads are listed while there are new ones.
const LISTS: usize = 16;

/// Where counters came from: the thread that they were opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin(u32);

/// A processor that is switched on, or was.
#[derive(Debug)]
struct Processor {
    number: i32,
    /// The first counter of its ring, by its place in [`Watch::counters`]; none without a ring.
    owner: Option<usize>,
}

/// Counters of all threads.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) tasks: Tasks,
    pub(super) rings: Vec<Ring>,
    processors: Vec<Processor>,
    counters: Vec<Counter>,
    origins: HashMap<u64, Origin, RandomState>,
    wanted: Wanted,
    most: usize,
    /// Threads for which there were no descriptors left.
    pub(super) missed: u64,
}

impl Watch {
    /// Watches all threads but `own`, with `most` descriptors at most; `seen` is called for each thread.
    pub(super) fn open(
        period: u64,
        stack: u32,
        most: usize,
        own: Tid,
        mut seen: impl FnMut(Tid),
    ) -> Result<Watch, Error> {
        let threads =
            |error| Error::system("the threads in /proc/self/task can't be listed", error);
        let processors = processors().into_iter();
        let mut watch = Watch {
            tasks: Tasks::open().map_err(threads)?,
            rings: Vec::new(),
            processors: processors.map(|number| Processor { number, owner: None }).collect(),
            counters: Vec::new(),
            origins: HashMap::default(),
            wanted: Wanted::new(period, stack, (RING / 2) as u32),
            most: most.min(kernel::most_descriptors() / 2),
            missed: 0,
        };
        let mut known: HashSet<i32, RandomState> = HashSet::default();
        for _ in 0..LISTS {
            let mut new = Vec::new();
            watch
                .tasks
                .list(|tid| {
                    if tid != own && known.insert(tid.0) {
                        new.push(tid);
                    }
                })
                .map_err(threads)?;
            for &tid in &new {
                seen(tid);
                watch.add(tid)?;
            }
            if new.is_empty() {
                break;
            }
        }
        if watch.rings.is_empty() {
            return Err(Error::new("there is no thread that the kernel could sample"));
        }
        Ok(watch)
    }

    /// Opens counters for a thread, on all processors or on none.
    fn add(&mut self, tid: Tid) -> Result<(), Error> {
        let (before, rings) = (self.counters.len(), self.rings.len());
        let origin = Origin(before as u32);
        for processor in 0..self.processors.len() {
            let counter = match self.counter(tid, self.processors[processor].number) {
                Ok(counter) => counter,
                // The thread has ended.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
                // The processor was switched off.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
                Err(error) if is_full(&error) && before > 0 => {
                    self.take_back(before, rings);
                    self.missed += 1;
                    return Ok(());
                }
                Err(error) => return Err(refused(error)),
            };
            match self.processors[processor].owner {
                Some(owner) => counter.write_to(&self.counters[owner]).map_err(refused)?,
                None => {
                    let ring = self.ring(&counter)?;
                    self.rings.push(ring);
                    self.processors[processor].owner = Some(self.counters.len());
                }
            }
            self.origins.insert(counter.id().map_err(refused)?, origin);
            self.counters.push(counter);
        }
        Ok(())
    }

    /// Closes all but the first `counters`, and the rings that there were not with those.
    fn take_back(&mut self, counters: usize, rings: usize) {
        self.counters.truncate(counters);
        self.rings.truncate(rings);
        for processor in &mut self.processors {
            processor.owner = processor.owner.filter(|&owner| owner < counters);
        }
    }

    fn counter(&mut self, tid: Tid, processor: i32) -> io::Result<Counter> {
        if self.counters.len() >= self.most {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        loop {
            match Counter::open(tid, processor, &self.wanted) {
                Err(error) if self.counters.is_empty() && self.wanted.settle_for_less(&error) => {}
                answer => return answer,
            }
        }
    }

    /// Maps a ring, a smaller one where locked memory is short: it must hold two samples.
    fn ring(&mut self, counter: &Counter) -> Result<Ring, Error> {
        let least = (2 * self.wanted.stack as usize + 4096).next_power_of_two();
        let mut bytes = RING.max(least);
        loop {
            match Ring::map(counter, bytes) {
                Ok(ring) => return Ok(ring),
                Err(_) if bytes / 2 >= least => bytes /= 2,
                Err(error) => return Err(no_memory(bytes, error)),
            }
        }
    }

    /// The thread whose counter `id` is.
    pub(super) fn origin(&self, id: u64) -> Option<Origin> {
        self.origins.get(&id).copied()
    }

    /// Whether time in the kernel has samples of its own.
    pub(super) fn has_kernel(&self) -> bool {
        self.wanted.has_kernel()
    }

    pub(super) fn descriptors(&self) -> usize {
        self.counters.len()
    }

    /// The descriptors to wait for.
    pub(super) fn ring_descriptors(&self) -> impl Iterator<Item = i32> {
        let owners = self.processors.iter().filter_map(|processor| processor.owner);
        owners.map(|owner| self.counters[owner].as_raw_fd())
    }

    /// Starts or stops all counters.
    pub(super) fn switch(&self, on: bool) {
        for counter in &self.counters {
            // One that refuses goes on as before, which costs more than it should and is seen there.
            let _ = counter.switch(on);
        }
    }
}

/// The processors that are switched on.
fn processors() -> Vec<i32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let mut processors = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
            processors.extend(first..=last.min(first.saturating_add(8191)));
        }
    }
    if processors.is_empty() {
        let count = std::thread::available_parallelism().map_or(1, |count| count.get() as i32);
        processors.extend(0..count);
    }
    processors
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOSPC))
}

/// What to do where the kernel says no.
#[cold]
fn refused(error: io::Error) -> Error {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok();
    let paranoid = paranoid.and_then(|text| text.trim().parse::<i32>().ok());
    let what = match (error.raw_os_error(), paranoid) {
        (Some(libc::EACCES | libc::EPERM), Some(level @ 3..)) => format!(
            "perf events are for privileged processes here: set kernel.perf_event_paranoid, which is \
             {level}, to 2 or less, or give the process CAP_PERFMON"
        ),
        (Some(libc::EACCES | libc::EPERM), _) => "perf events are forbidden here, as containers do with \
             seccomp: allow the system call perf_event_open, or use the profiler with signals"
            .to_owned(),
        (Some(libc::ENOSYS | libc::ENOENT | libc::EOPNOTSUPP), _) => {
            "this kernel has no perf events for a thread's clock: use the profiler with signals".to_owned()
        }
        (Some(libc::EMFILE | libc::ENFILE), _) => {
            "perf events take a descriptor for each thread and processor: start before other threads, \
             which then need none, allow more descriptors, or raise RLIMIT_NOFILE"
                .to_owned()
        }
        _ => "the kernel refuses perf events".to_owned(),
    };
    Error::system(what, error)
}

#[cold]
fn no_memory(bytes: usize, error: io::Error) -> Error {
    let what = format!(
        "{} KiB of locked memory for each processor can't be had for perf events: raise \
         kernel.perf_event_mlock_kb or RLIMIT_MEMLOCK, or copy less of the stack",
        bytes >> 10
    );
    Error::system(what, error)
}
