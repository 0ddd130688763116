//! The process' own figures, under the names that all of Prometheus' clients use.
//!
//! Everything comes from `/proc/self`, read into the stack. A file that is missing or odd costs the
//! families that come from it only; where there is no `/proc` at all, nothing is written.

use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

use crate::collector::{Collector, FamilyWriter};

/// The unit of times in `/proc/self/stat`. The kernel gives it as 100 to every program, whatever its
/// own tick is.
const TICKS_PER_SECOND: f64 = 100.0;

/// Writes `process_*`. *Steady* on Linux 6.2 and later; before, counting the open files allocates.
#[derive(Debug, Default)]
pub struct Process {
    start_seconds: OnceLock<Option<f64>>,
}

impl Process {
    /// The collector of the process it runs in.
    pub fn new() -> Self {
        Process::default()
    }
}

impl Collector for Process {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        let mut room = [0; 4096];
        if let Some(stat) = read("/proc/self/stat", &mut room).and_then(stat) {
            out.counter(
                "process_cpu_seconds_total",
                "Total user and system CPU time spent in seconds.",
            )
            .sample(&[], stat.cpu_seconds);
            let start =
                self.start_seconds.get_or_init(|| boot_seconds().map(|b| b + stat.start_seconds));
            if let Some(start) = start {
                out.gauge(
                    "process_start_time_seconds",
                    "Start time of the process since unix epoch in seconds.",
                )
                .sample(&[], *start);
            }
            out.gauge("process_threads", "Number of threads of the process.")
                .sample(&[], stat.threads);
        }
        let Memory { virtual_bytes, resident_bytes } =
            read("/proc/self/status", &mut room).map(memory).unwrap_or_default();
        for (name, help, bytes) in [
            ("process_virtual_memory_bytes", "Virtual memory size in bytes.", virtual_bytes),
            ("process_resident_memory_bytes", "Resident memory size in bytes.", resident_bytes),
        ] {
            if let Some(bytes) = bytes {
                out.gauge(name, help).sample(&[], bytes);
            }
        }
        let limits = read("/proc/self/limits", &mut room);
        for (name, help, limit) in [
            ("process_max_fds", "Maximum number of open file descriptors.", "Max open files"),
            (
                "process_virtual_memory_max_bytes",
                "Maximum amount of virtual memory available in bytes.",
                "Max address space",
            ),
        ] {
            if let Some(limit) = limits.and_then(|limits| soft_limit(limits, limit)) {
                out.gauge(name, help).sample(&[], limit);
            }
        }
        if let Some(open) = open_files() {
            out.gauge("process_open_fds", "Number of open file descriptors.").sample(&[], open);
        }
    }
}

/// The beginning of a file, as far as there is room.
fn read<'r>(path: &str, room: &'r mut [u8]) -> Option<&'r str> {
    let mut file = File::open(path).ok()?;
    let mut length = 0;
    while length < room.len() {
        match file.read(&mut room[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    std::str::from_utf8(&room[..length]).ok()
}

#[derive(Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    /// After boot.
    start_seconds: f64,
    threads: f64,
}

/// proc_pid_stat(5). The program's name stands in parentheses and may hold blanks and parentheses.
fn stat(text: &str) -> Option<Stat> {
    let after_name = &text[text.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace();
    // The first field behind the name is number 3.
    let mut field = |number: usize, from: usize| fields.nth(number - from)?.parse::<f64>().ok();
    let user = field(14, 3)?;
    let system = field(15, 15)?;
    let threads = field(20, 16)?;
    let start = field(22, 21)?;
    Some(Stat {
        cpu_seconds: (user + system) / TICKS_PER_SECOND,
        start_seconds: start / TICKS_PER_SECOND,
        threads,
    })
}

#[derive(Debug, Default, PartialEq)]
struct Memory {
    virtual_bytes: Option<f64>,
    resident_bytes: Option<f64>,
}

/// proc_pid_status(5).
fn memory(text: &str) -> Memory {
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
        Some(kibibytes * 1024.0)
    };
    Memory { virtual_bytes: bytes("VmSize:"), resident_bytes: bytes("VmRSS:") }
}

/// proc_pid_limits(5); "unlimited" is the largest number, as the kernel has it.
fn soft_limit(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_ascii_whitespace().next()? {
        "unlimited" => Some(u64::MAX as f64),
        limit => limit.parse().ok(),
    }
}

fn boot_seconds() -> Option<f64> {
    // Once per process, and longer than any stack should hold where there are many interrupts.
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn open_files() -> Option<f64> {
    const FOLDER: &str = "/proc/self/fd";
    // Since Linux 6.2 the folder's size says how many there are.
    match std::fs::metadata(FOLDER).ok()?.len() {
        0 => Some(std::fs::read_dir(FOLDER).ok()?.count().saturating_sub(1) as f64),
        count => Some(count as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        let text = "17 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 13 14 15 16 9 18 12345 20 21\n";
        let expected = Stat { cpu_seconds: 2.0, start_seconds: 123.45, threads: 9.0 };
        assert_eq!(stat(text), Some(expected));
        for odd in ["", "17 a S", "17 (a) S 1 2", "17 (a) S 1 2 3 4 5 6 7 8 9 10 x 50 13 14 15"] {
            assert_eq!(stat(odd), None, "{odd}");
        }
        let status = "Name:\ta\nVmSize:\t    2048 kB\nVmRSS:\t     17 kB\n";
        let expected = Memory { virtual_bytes: Some(2_097_152.0), resident_bytes: Some(17_408.0) };
        assert_eq!(memory(status), expected);
        assert_eq!(memory("Name:\tkthreadd\nVmRSS:\t x kB\n"), Memory::default());
        let limits = "Limit   Soft Limit  Hard Limit  Units\n\
            Max address space         unlimited            unlimited            bytes\n\
            Max open files            1024                 524288               files\n";
        assert_eq!(soft_limit(limits, "Max open files"), Some(1024.0));
        assert_eq!(soft_limit(limits, "Max address space"), Some(u64::MAX as f64));
        assert_eq!(soft_limit(limits, "Max locks"), None);
    }

    #[test]
    fn this_process_is_there() {
        if !std::path::Path::new("/proc/self/stat").exists() {
            return;
        }
        let registry = crate::Registry::new();
        registry.collect(Process::new());
        let body = registry.write(crate::Negotiated::default(), Vec::new(), |mut body, chunk| {
            body.extend_from_slice(chunk);
            body
        });
        let body = String::from_utf8(body).unwrap();
        for name in [
            "process_cpu_seconds_total",
            "process_start_time_seconds",
            "process_threads",
            "process_virtual_memory_bytes",
            "process_resident_memory_bytes",
            "process_max_fds",
            "process_virtual_memory_max_bytes",
            "process_open_fds",
        ] {
            let line = body.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            assert!(line.trim().parse::<f64>().is_ok_and(|v| v >= 0.0), "{name}: {line:?}");
        }
        assert_eq!(registry.check(), Vec::<String>::new());
    }
}
