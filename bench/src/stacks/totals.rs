//! Whether each thread is said to have spent the time that it spent: so many seconds, all of them.
//!
//! 65 threads, one more than four rounds of sixteen: most are asleep below 500 calls, some wake often, some
//! keep a processor busy now and then. The profiler is as it comes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use bench::Failure;
use bench::clock;
use bench::protocol::Line;
use profiler::Profiler;
use profiler::profile::WriteOptions;
use wire::pprof::{Document, LabelValue};

use crate::threads::{Threads, Wait};

/// Asleep, waking, and working ones.
const ASLEEP: usize = 30;
const AWAKE: usize = 30;
const BUSY: usize = 5;

/// Runs a profiler over all of them for so long and compares.
pub fn measure(seconds: u64, name: &str) -> Result<Line, Failure> {
    let asleep = Threads::start(ASLEEP, Wait::Asleep)?;
    let awake = Threads::start(AWAKE, Wait::Awake(300))?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (told, ids) = std::sync::mpsc::channel();
        for _ in 0..BUSY {
            let (told, is_over) = (told.clone(), &is_over);
            scope.spawn(move || {
                // SAFETY: a plain call.
                let _ = told.send(unsafe { libc::gettid() });
                work_now_and_then(is_over);
            });
        }
        let mut ids: Vec<i32> = ids.iter().take(BUSY).collect();
        ids.extend(asleep.ids());
        ids.extend(awake.ids());
        let compared = compare(&ids, seconds, name);
        is_over.store(true, Relaxed);
        compared
    })
}

/// A sixth of a processor.
fn work_now_and_then(is_over: &AtomicBool) {
    while !is_over.load(Relaxed) {
        let until = Instant::now() + Duration::from_millis(2);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Profiles for so long and holds what each thread is said to have spent against the clock.
fn compare(ids: &[i32], seconds: u64, name: &str) -> Result<Line, Failure> {
    let profiler = Profiler::start()?;
    // Threads' first samples are taken by now, so that what follows is neither their beginning nor ours.
    thread::sleep(Duration::from_millis(500));
    profiler.settle();
    let mut window = profiler.wall().window();
    let threads = profiler.statistics().threads as usize;
    let ((), elapsed) = clock::measure(|| {
        thread::sleep(Duration::from_secs(seconds));
        profiler.settle();
    });
    let written = window.write(WriteOptions::default(), Vec::new(), |mut all, chunk| {
        all.extend_from_slice(chunk);
        all
    });
    let found = by_thread(&written)?;
    let expected = elapsed.wall_ns;
    let mut worst = 0f64;
    for id in ids {
        let wall = found.get(&i64::from(*id)).map_or(0.0, |spent| spent.wall);
        worst = worst.max((wall - expected).abs() / 1e9);
    }
    let wall: f64 = found.values().map(|spent| spent.wall).sum();
    let cpu: f64 = found.values().map(|spent| spent.cpu).sum();
    Ok(Line::new(name)
        .with("totals_threads", ids.len())
        .with("totals_seconds", seconds)
        .with("totals_worst", worst)
        .with("totals_process", wall / (expected * threads as f64))
        .with("totals_cpu", cpu / elapsed.process_cpu_ns)
        .with("totals_ticks", profiler.statistics().ticks))
}

/// What a thread is said to have spent, in nanoseconds.
#[derive(Default)]
struct Spent {
    wall: f64,
    cpu: f64,
}

fn by_thread(profile: &[u8]) -> Result<BTreeMap<i64, Spent>, Failure> {
    let profile = Document::read(profile).map_err(|error| error.to_string())?;
    let column = |name: &str| {
        let types = profile.sample_types();
        let found = types.iter().position(|column| profile.string(column.kind) == name.as_bytes());
        found.ok_or(format!("the profile has no column {name}"))
    };
    let (wall, cpu) = (column("wall")?, column("cpu")?);
    let mut found = BTreeMap::<i64, Spent>::new();
    for sample in profile.samples() {
        let mut labels = sample.labels.clone();
        let thread = labels.find(|label| profile.string(label.key) == b"thread id");
        // What is said of no thread in particular is of those that have ended.
        let value = match thread.map(|label| label.value) {
            Some(LabelValue::Number { value, .. }) => value,
            _ => 0,
        };
        let values: Vec<i64> = sample.values.collect();
        let spent = found.entry(value).or_default();
        spent.wall += values[wall] as f64;
        spent.cpu += values[cpu] as f64;
    }
    Ok(found)
}
