//! The watchdog, and what is held at a time: memory, files, threads.

use std::fmt::Write as _;
use std::fs;
use std::io::{Write as _, stderr};
use std::process;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Actor, STALL, Storm, crash, pause};

/// What may be left allocated when all is over, the heap profile's tables apart: the rings that handlers
/// look into are kept for good, 64 slots of every depth that was asked for.
const MOST_LEFT: i64 = 4 << 20;

/// What resident memory may grow by between the first third and the last, the profilers' own tables apart.
/// Allocators keep what they were given back, in pieces, and for some minutes more and more of it.
const MOST_GROWTH: i64 = 64 << 20;

/// What the process has at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    resident: i64,
    /// What the program's allocator gave and did not get back.
    live: i64,
    tables: i64,
    files: usize,
    threads: usize,
}

impl Held {
    pub(super) fn now() -> Held {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let of = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
            line.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0i64)
        };
        let files = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let threads = of("Threads:") as usize;
        let mut live = 0;
        profiler::heap::stages(|_, counts| {
            live += counts.allocated_bytes.cast_signed() - counts.freed_bytes.cast_signed();
        });
        Held { resident: of("RssAnon:") * 1024, live, tables: 0, files, threads }
    }
}

/// What was held in the course of time.
pub(super) struct History(Vec<Held>);

impl History {
    /// How many bytes are allocated that were not before, the tables' apart; an error where these are more
    /// than there may be, files or threads are left over, or resident memory went on growing.
    pub(super) fn leaked(&self, before: &Held, tables: i64) -> Result<i64, String> {
        let after = settled(before);
        if after.files > before.files || after.threads > before.threads {
            return Err(format!(
                "before: {} files and {} threads; when all was over: {} and {}\n{}",
                before.files,
                before.threads,
                after.files,
                after.threads,
                open_files(),
            ));
        }
        let left = after.live - before.live - tables;
        if left > MOST_LEFT {
            return Err(format!("{left} bytes are left allocated, {tables} in tables apart"));
        }
        let third = self.0.len() / 3;
        if third == 0 {
            return Ok(left);
        }
        // The first tenth is left out: the program warms up.
        let first = middle(&self.0[(third / 3).min(third - 1)..third]);
        let last = middle(&self.0[self.0.len() - third..]);
        let grown = last - first;
        if grown > MOST_GROWTH {
            let course: Vec<String> = self.0.iter().map(|held| held.to_string()).collect();
            return Err(format!(
                "memory grew by {} KiB, from {} to {}; by seconds (resident-tables/files/threads):\n{}",
                grown >> 10,
                first >> 10,
                last >> 10,
                course.join(" "),
            ));
        }
        Ok(left)
    }
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (resident, tables) = (self.resident >> 10, self.tables >> 10);
        write!(f, "{resident}-{tables}/{}/{}", self.files, self.threads)
    }
}

/// The middle of what was resident without the tables.
fn middle(held: &[Held]) -> i64 {
    let mut bytes: Vec<i64> = held.iter().map(|held| held.resident - held.tables).collect();
    bytes.sort_unstable();
    bytes[bytes.len() / 2]
}

/// What is held when threads that have ended are gone from the kernel's tables too.
fn settled(before: &Held) -> Held {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let held = Held::now();
        let is_settled = held.files <= before.files && held.threads <= before.threads;
        if is_settled || Instant::now() > until {
            return held;
        }
        pause(Duration::from_millis(10));
    }
}

fn open_files() -> String {
    let mut shown = String::new();
    for entry in fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let _ = writeln!(shown, "  {} {}", entry.file_name().display(), target.display());
    }
    shown
}

/// Watches the actors for so long, or until one fails.
pub(super) fn watch(actors: &[Arc<Actor>], storm: &Storm, time: Duration) -> History {
    let began = Instant::now();
    let mut dog = Dog::new(actors);
    let mut history = Vec::new();
    let mut next = Duration::from_millis(500);
    while storm.goes_on() && began.elapsed() < time {
        pause(Duration::from_millis(100));
        dog.look();
        if began.elapsed() >= next {
            let tables = storm.counts.tables.load(Relaxed).cast_signed();
            history.push(Held { tables, ..Held::now() });
            next += Duration::from_millis(500);
        }
    }
    History(history)
}

/// Waits for the actors to end, watching.
pub(super) fn wait(actors: &[Arc<Actor>], playing: &[JoinHandle<()>]) {
    let mut dog = Dog::new(actors);
    while !playing.iter().all(JoinHandle::is_finished) {
        pause(Duration::from_millis(10));
        dog.look();
    }
}

/// Remembers when each actor was seen to make a step.
struct Dog<'a> {
    actors: &'a [Arc<Actor>],
    seen: Vec<(u64, Instant)>,
}

impl<'a> Dog<'a> {
    fn new(actors: &'a [Arc<Actor>]) -> Self {
        Dog { actors, seen: actors.iter().map(|_| (0, Instant::now())).collect() }
    }

    /// Aborts with all that is known where an actor hangs.
    fn look(&mut self) {
        let mut hangs = false;
        for (actor, seen) in self.actors.iter().zip(&mut self.seen) {
            let steps = actor.steps.load(Relaxed);
            if steps != seen.0 || actor.has_ended() {
                *seen = (steps, Instant::now());
            }
            hangs |= seen.1.elapsed() > STALL;
        }
        if hangs {
            self.bark();
        }
    }

    fn bark(&self) -> ! {
        let mut shown = format!("an actor made no step for {} s\n", STALL.as_secs());
        for (actor, seen) in self.actors.iter().zip(&self.seen) {
            let doing = *actor.doing.lock().unwrap_or_else(PoisonError::into_inner);
            let ago = seen.1.elapsed().as_secs_f64();
            let _ = writeln!(shown, "  {}: {doing}, step {}, {ago:.1} s ago", actor.name, seen.0);
        }
        shown += &process_state(process::id().cast_signed());
        let _ = stderr().write_all(shown.as_bytes());
        crash::print_all_stacks();
        process::abort();
    }
}

impl Actor {
    fn has_ended(&self) -> bool {
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner) == "has ended"
    }
}

/// Every thread of a process: its name, state, the call it waits in and the signals it has or blocks.
pub(super) fn process_state(process: libc::pid_t) -> String {
    let mut shown = String::new();
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        let read = |name: &str| {
            let text = fs::read_to_string(task.path().join(name)).unwrap_or_default();
            text.trim().to_owned()
        };
        let status = read("status");
        let wanted = ["State:", "SigPnd:", "ShdPnd:", "SigBlk:"];
        let fields = status.lines().filter(|line| wanted.iter().any(|name| line.starts_with(name)));
        let fields: Vec<&str> = fields.collect();
        let (name, waits, call) = (read("comm"), read("wchan"), read("syscall"));
        let thread = task.file_name();
        let fields = fields.join(" ").replace('\t', " ");
        let _ = writeln!(shown, "  {} {name}: {fields} in {waits} {call}", thread.display());
    }
    shown
}
