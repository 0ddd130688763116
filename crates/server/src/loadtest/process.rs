//! What the kernel knows of another process, read in `/proc`.
//!
//! Processor time comes from `task/*/schedstat`, in nanoseconds, for each thread; a thread that ended keeps
//! what it had when it was last looked at. `stat` has the same in ticks of 10 ms, ended threads included, and
//! says how much of it the kernel had: the larger of the two is taken. Where there is no `schedstat`, ticks
//! are all there is.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// What a process has used so far, and what it holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Look {
    /// Processor time of all threads, in nanoseconds.
    pub(super) cpu_ns: u64,
    /// Ticks as a user, and in the kernel.
    pub(super) ticks: [u64; 2],
    /// Resident memory, in bytes.
    pub(super) rss: u64,
    /// The most it ever was.
    pub(super) rss_peak: u64,
    /// Bytes given to the page cache to be written.
    pub(super) written: u64,
    pub(super) threads: u64,
    /// Times that threads waited, and times that they were made to.
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
    /// Open file descriptors.
    pub(super) descriptors: u64,
}

impl Look {
    /// The share of its time since `before` that it was in the kernel, from 0 to 1.
    pub(super) fn system_share(&self, before: &Look) -> f64 {
        let [user, system] = [0, 1].map(|at| self.ticks[at].saturating_sub(before.ticks[at]));
        system as f64 / (user + system).max(1) as f64
    }
}

/// A process that is looked at again and again.
pub(super) struct Process {
    root: PathBuf,
    /// Ticks per second.
    ticks: u64,
    page: u64,
    /// By thread: nanoseconds, and both kinds of context switches.
    threads: BTreeMap<u32, [u64; 3]>,
}

impl Process {
    pub(super) fn new(id: u32) -> Self {
        Process::at(PathBuf::from(format!("/proc/{id}")))
    }

    fn at(root: PathBuf) -> Self {
        Process {
            root,
            ticks: rustix::param::clock_ticks_per_second().max(1),
            page: rustix::param::page_size() as u64,
            threads: BTreeMap::new(),
        }
    }

    /// Looks.
    ///
    /// # Errors
    /// The process is gone, or the kernel writes what is not understood.
    pub(super) fn look(&mut self) -> io::Result<Look> {
        let stat = std::fs::read_to_string(self.root.join("stat"))?;
        let stat = Stat::parse(&stat).ok_or_else(|| odd("stat"))?;
        self.look_at_threads()?;
        let status = std::fs::read_to_string(self.root.join("status"))?;
        let io = std::fs::read_to_string(self.root.join("io"))?;
        let sum = |at: usize| self.threads.values().map(|of| of[at]).sum::<u64>();
        let (user, system) = (stat.user_ticks, stat.system_ticks);
        let by_ticks = (user + system) * (1_000_000_000 / self.ticks);
        let descriptors =
            std::fs::read_dir(self.root.join("fd")).map_or(0, |all| all.count() as u64);
        Ok(Look {
            cpu_ns: sum(0).max(by_ticks),
            ticks: [user, system],
            rss: stat.rss_pages * self.page,
            rss_peak: field(&status, "VmHWM:").unwrap_or(0) * 1024,
            written: field(&io, "write_bytes:").ok_or_else(|| odd("io"))?,
            threads: stat.threads,
            voluntary: sum(1),
            involuntary: sum(2),
            descriptors,
        })
    }

    fn look_at_threads(&mut self) -> io::Result<()> {
        for entry in std::fs::read_dir(self.root.join("task"))? {
            let entry = entry?;
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A thread may end between two looks, or between two files.
            let of = self.threads.entry(id).or_default();
            if let Some(time) = read(&entry.path(), "schedstat").as_deref().and_then(running_time) {
                of[0] = of[0].max(time);
            }
            if let Some(status) = read(&entry.path(), "status") {
                of[1] = field(&status, "voluntary_ctxt_switches:").unwrap_or(0).max(of[1]);
                of[2] = field(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0).max(of[2]);
            }
        }
        Ok(())
    }

    /// Memory that would be free without the process, in bytes: shared pages count in part. Walks all its
    /// pages, so that it is not for every second.
    pub(super) fn proportional(&self) -> Option<u64> {
        let rollup = read(&self.root, "smaps_rollup")?;
        field(&rollup, "Pss:").map(|kilobytes| kilobytes * 1024)
    }
}

fn read(directory: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(directory.join(name)).ok()
}

#[cold]
fn odd(file: &'static str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("/proc/PID/{file} has not what it should have"),
    )
}

/// What is needed of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    user_ticks: u64,
    system_ticks: u64,
    threads: u64,
    rss_pages: u64,
}

impl Stat {
    /// The name of the program may have spaces and parentheses: fields are counted from its end.
    fn parse(text: &str) -> Option<Stat> {
        let (_, rest) = text.rsplit_once(") ")?;
        let field = |at: usize| rest.split(' ').nth(at - 3)?.trim_end().parse::<u64>().ok();
        Some(Stat {
            user_ticks: field(14)?,
            system_ticks: field(15)?,
            threads: field(20)?,
            rss_pages: field(24)?,
        })
    }
}

/// The first number of `schedstat`: nanoseconds on a processor.
fn running_time(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// The number behind a name at the begin of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))?
        .split_ascii_whitespace()
        .next()?
        .parse()
        .ok()
}

/// Bytes on disk of what is below a directory, by the names right in it; what vanishes meanwhile is not
/// there. Blocks of the file system are counted, so that files with holes are not larger than they are.
pub(super) fn directory_bytes(root: &Path) -> BTreeMap<String, u64> {
    let mut sizes = BTreeMap::new();
    let mut open: Vec<(String, PathBuf)> = Vec::new();
    let mut top = true;
    open.push((String::new(), root.to_path_buf()));
    while let Some((name, directory)) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            let name =
                if top { entry.file_name().to_string_lossy().into_owned() } else { name.clone() };
            let Ok(data) = entry.metadata() else { continue };
            if data.is_dir() {
                open.push((name, entry.path()));
            } else {
                use std::os::unix::fs::MetadataExt as _;
                *sizes.entry(name).or_default() += data.blocks() * 512;
            }
        }
        top = false;
    }
    sizes
}

/// Whether the file system of `path` is in memory, so that nothing that is written to it counts as written.
/// One that can't be asked is taken for a disk's.
pub(super) fn in_memory(path: &Path) -> bool {
    /// `TMPFS_MAGIC` and `RAMFS_MAGIC` of the kernel's `linux/magic.h`.
    const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
    // The type's width and sign differ from one architecture to the next; the number has 32 bits.
    rustix::fs::statfs(path)
        .is_ok_and(|found| IN_MEMORY.contains(&(found.f_type as u64 & 0xffff_ffff)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    const STAT: &str = "4242 (a) (b c) S 1 4242 4242 0 -1 4194560 1203 0 0 0 150 50 0 0 20 0 7 0 8123 \
                        129024000 2500 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n";

    #[test]
    fn a_name_may_have_anything_in_it() {
        let stat = Stat { user_ticks: 150, system_ticks: 50, threads: 7, rss_pages: 2500 };
        assert_eq!(Stat::parse(STAT), Some(stat));
        assert_eq!(Stat::parse("4242 (a) S 1 2 3"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn threads_that_ended_still_count() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let switches = "Name:\tx\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n";
        fixture(
            root,
            &[
                ("stat", STAT),
                ("status", "VmHWM:\t   20480 kB\nVmRSS:\t   10000 kB\n"),
                (
                    "io",
                    "rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n",
                ),
                ("task/1/schedstat", "1500000000 1 1\n"),
                ("task/1/status", switches),
                ("task/2/schedstat", "700000000 1 1\n"),
                ("task/2/status", switches),
                ("fd/0", ""),
                ("fd/1", ""),
                (
                    "smaps_rollup",
                    "5592 ---p 0 00:00 0 [rollup]\nRss: 1764 kB\nPss:   233 kB\nPss_Dirty: 1 kB\n",
                ),
            ],
        );
        let mut process = Process::at(root.to_path_buf());
        process.ticks = 100;
        process.page = 4096;
        let look = process.look().unwrap();
        // 200 ticks are 2 s, the threads' own counts are finer and have more.
        assert_eq!(look.cpu_ns, 2_200_000_000);
        assert_eq!((look.rss, look.rss_peak, look.written), (10_240_000, 20 << 20, 8192));
        assert_eq!(
            (look.voluntary, look.involuntary, look.threads, look.descriptors),
            (10, 4, 7, 2)
        );
        assert_eq!(look.ticks, [150, 50]);
        assert_eq!(look.system_share(&Look { ticks: [50, 30], ..Look::default() }), 20.0 / 120.0);
        assert_eq!(look.system_share(&look), 0.0);
        assert_eq!(process.proportional(), Some(233 * 1024));
        std::fs::remove_dir_all(root.join("task/2")).unwrap();
        fixture(root, &[("task/1/schedstat", "1600000000 1 1\n")]);
        assert_eq!(process.look().unwrap().cpu_ns, 2_300_000_000);
        // Without schedstat, ticks are what there is.
        std::fs::remove_dir_all(root.join("task/1")).unwrap();
        assert_eq!(
            Process { threads: BTreeMap::new(), ..process }.look().unwrap().cpu_ns,
            2_000_000_000
        );
        std::fs::remove_file(root.join("io")).unwrap();
        assert!(Process::at(root.to_path_buf()).look().is_err());
    }

    #[test]
    fn this_process_is_understood() {
        let mut process = Process::new(std::process::id());
        let look = process.look().unwrap();
        assert!(look.rss > 1 << 20 && look.rss_peak >= look.rss / 2, "{look:?}");
        assert!(look.threads >= 1 && look.descriptors >= 3, "{look:?}");
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "a test that can't run says why")]
    fn file_systems_in_memory_are_told() {
        assert!(!in_memory(Path::new("/proc")) && !in_memory(Path::new("/no/such/place")));
        // Where it is mounted at all, it is what the mounts say.
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        let shared = mounts.lines().find(|line| line.split(' ').nth(1) == Some("/dev/shm"));
        let kind = shared.and_then(|line| line.split(' ').nth(2));
        match kind {
            Some(kind) => assert_eq!(in_memory(Path::new("/dev/shm")), kind == "tmpfs"),
            None => println!("skipped: nothing is mounted on /dev/shm"),
        }
    }

    #[test]
    fn sizes_are_summed_by_the_names_at_the_top() {
        let directory = tempfile::tempdir().unwrap();
        let body = "x".repeat(10_000);
        fixture(directory.path(), &[("a/b/c", &body), ("a/d", &body), ("e", &body)]);
        let sizes = directory_bytes(directory.path());
        assert_eq!(sizes.keys().collect::<Vec<_>>(), ["a", "e"]);
        assert!(sizes["a"] >= 20_000 && sizes["e"] >= 10_000, "{sizes:?}");
    }
}
