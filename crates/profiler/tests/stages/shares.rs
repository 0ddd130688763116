//! A program whose stages have known shares of a processor, with and without the allocator's wrapper. One
//! function: there is one profiler in a process.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use profiler::Profiler;
use profiler::profile::{LabelValue, PROFILER, Sample, WriteOptions};

/// Processor time of the calling thread, or of the process.
fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is there.
    assert_eq!(unsafe { libc::clock_gettime(id, &raw mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Works until the thread had so much of a processor more.
#[inline(never)]
fn work(time: Duration) {
    let until = clock(libc::CLOCK_THREAD_CPUTIME_ID) + time;
    while clock(libc::CLOCK_THREAD_CPUTIME_ID) < until {
        for i in 0..1000u64 {
            black_box(i.wrapping_mul(0x9e37_79b9));
        }
    }
}

/// Three parts in one stage, one in another that is entered within, two outside of both.
fn rounds(count: u32) {
    let part = Duration::from_millis(7);
    for _ in 0..count {
        let outer = profiler::stage("outer");
        work(2 * part);
        {
            let _inner = profiler::stage("inner");
            work(part);
        }
        work(part);
        drop(outer);
        work(2 * part);
    }
}

fn stage_of(sample: &Sample<'_>) -> String {
    let label = sample.labels().find(|label| label.key == "stage");
    match label.map(|label| label.value) {
        Some(LabelValue::Text(name)) => name.to_owned(),
        _ => "none".to_owned(),
    }
}

fn thread_of(sample: &Sample<'_>) -> String {
    let label = sample.labels().find(|label| label.key == "thread name");
    match label.map(|label| label.value) {
        Some(LabelValue::Text(name)) => name.to_owned(),
        _ => String::new(),
    }
}

/// Runs all of it.
pub(crate) fn check() {
    work(Duration::from_millis(20));
    let tick = Duration::from_millis(1);
    let profiler = Profiler::builder().tick(tick).budget(1.0).start().unwrap();
    let wall = profiler.wall().clone();
    // The sampler's own thread gets its entry while it is there.
    profiler.settle();

    // One that waits in its stage from the beginning to the end.
    let (stop, stopped) = mpsc::channel::<()>();
    let (say, hear) = mpsc::channel();
    let sleeper = std::thread::Builder::new().name("sleeper".to_owned()).spawn(move || {
        let _waiting = profiler::stage("waiting");
        say.send(()).unwrap();
        let _ = stopped.recv();
    });
    hear.recv().unwrap();
    // Others that are born and end meanwhile, each with its stage.
    let goes_on = Arc::new(AtomicBool::new(true));
    let others = goes_on.clone();
    let short = std::thread::spawn(move || {
        while others.load(Relaxed) {
            let short = std::thread::spawn(|| {
                let _short = profiler::stage("short");
                work(Duration::from_millis(30));
            });
            short.join().unwrap();
        }
    });
    let worker = std::thread::Builder::new().name("worker".to_owned()).spawn(|| rounds(40));
    worker.unwrap().join().unwrap();
    goes_on.store(false, Relaxed);
    short.join().unwrap();

    let before = clock(libc::CLOCK_PROCESS_CPUTIME_ID);
    profiler.stop();
    let after = clock(libc::CLOCK_PROCESS_CPUTIME_ID);
    drop(stop);
    sleeper.unwrap().join().unwrap();

    let mut counted = BTreeMap::new();
    profiler.stage_cpu(|stage, time| {
        assert!(counted.insert(stage.to_owned(), time).is_none(), "{stage} twice");
    });
    let sum: Duration = counted.values().sum();
    let slack = Duration::from_millis(1);
    assert!(before <= sum + slack && sum <= after + slack, "{before:?} {sum:?} {after:?}");

    let (mut cpu, mut of_worker) = (BTreeMap::new(), BTreeMap::new());
    let (mut waited, mut own) = (BTreeMap::new(), Vec::new());
    wall.total().for_each(WriteOptions::default(), |sample| {
        let (stage, time) = (stage_of(&sample), sample.values()[2] as u64);
        *cpu.entry(stage.clone()).or_insert(0) += time;
        match &*thread_of(&sample) {
            "worker" => *of_worker.entry(stage.clone()).or_insert(0) += time,
            "sleeper" => *waited.entry(stage.clone()).or_insert(0) += sample.values()[1],
            _ => {}
        }
        if sample.frames().any(|frame| frame.address == PROFILER) {
            own.push(stage);
        }
    });
    for (stage, time) in &cpu {
        // What was before the profiler is in no profile.
        if stage != "none" {
            let counted = counted.get(stage).map(Duration::as_nanos);
            assert_eq!(counted, Some(u128::from(*time)), "{stage}: the sum over its samples");
        }
    }
    assert_eq!(own, ["profiler"]);
    // Six parts of 7 ms in 40 rounds.
    let all: u64 = of_worker.values().sum();
    for (stage, share) in [("outer", 0.5), ("inner", 1.0 / 6.0), ("none", 1.0 / 3.0)] {
        let found = of_worker.get(stage).copied().unwrap_or(0) as f64 / all as f64;
        assert!((found - share).abs() < 0.08, "{stage}: {found} instead of {share}: {of_worker:?}");
    }
    let total: i64 = waited.values().sum();
    let waiting = waited.get("waiting").copied().unwrap_or(0);
    assert!(waiting * 10 >= total * 9 && waiting > 0, "{waited:?}");
    assert!(cpu.get("short").is_some_and(|&time| time > 0), "{cpu:?}");
}
