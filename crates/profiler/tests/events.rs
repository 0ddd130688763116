//! Processor time is found without signals. All in one function: descriptors and handlers are counted,
//! which belong to the process.
#![cfg(feature = "symbols")]
#![expect(clippy::print_stdout, reason = "a test that can't run says why")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use profiler::events::Events;
use profiler::profile::{LabelValue, Window, WriteOptions};
use profiler::symbols::Resolver;

/// Nanoseconds that the calling thread had of a processor.
fn own_cpu() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the answer.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[inline(never)]
fn works_below(depth: u32, until: &AtomicBool, had: &AtomicU64) -> u64 {
    let mut sum = 0;
    if depth > 0 {
        sum += works_below(depth - 1, until, had);
    } else {
        while !until.load(Relaxed) {
            had.store(own_cpu(), Relaxed);
            for number in 0..1000_u64 {
                sum = black_box(sum ^ number.wrapping_mul(31));
            }
        }
    }
    // Behind the call, so that it stays a call.
    black_box(sum) + 1
}

/// A thread that works until it is told to stop, and says what it had of a processor.
fn works(name: &str, stop: &Arc<AtomicBool>) -> (JoinHandle<u64>, Arc<AtomicU64>) {
    let (stop, had) = (stop.clone(), Arc::new(AtomicU64::new(own_cpu())));
    let says = had.clone();
    let work = move || black_box(works_below(20, &stop, &says));
    (std::thread::Builder::new().name(name.to_owned()).spawn(work).unwrap(), had)
}

/// A thread that sleeps by system calls, and counts those that were cut short.
fn sleeps(stop: &Arc<AtomicBool>, cut: &Arc<AtomicU64>) -> JoinHandle<()> {
    let (stop, cut) = (stop.clone(), cut.clone());
    std::thread::spawn(move || {
        while !stop.load(Relaxed) {
            let time = libc::timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            // SAFETY: a time to read, and nowhere to write.
            if unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) } != 0 {
                cut.fetch_add(1, Relaxed);
            }
        }
    })
}

/// The handlers of all signals, as far as the kernel shows them.
fn handlers() -> Vec<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().filter(|line| line.starts_with("SigCgt")).map(str::to_owned).collect()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[derive(Debug, Default)]
struct Found {
    samples: i64,
    cpu: i64,
    cpu_below: i64,
    complete: i64,
}

/// By thread name: what was found, and how much of it in [`works_below`].
fn read(window: &mut Window) -> BTreeMap<String, Found> {
    let mut threads: BTreeMap<String, Found> = BTreeMap::new();
    let mut resolver = Resolver::of_process();
    let options = WriteOptions { symbolizer: Some(&mut resolver), ..WriteOptions::default() };
    window.for_each(options, |sample| {
        let mut name = String::new();
        for label in sample.labels() {
            match (label.key, label.value) {
                ("thread name", LabelValue::Text(text)) => name = text.to_owned(),
                ("thread id", LabelValue::Number(number)) => assert!(number > 0),
                other => panic!("{other:?}"),
            }
        }
        let found = threads.entry(name).or_default();
        let below = sample.frames().filter(|f| f.symbol.name == "events::works_below").count();
        found.samples += sample.values()[0];
        found.cpu += sample.values()[1];
        found.cpu_below += if below > 0 { sample.values()[1] } else { 0 };
        let is_complete =
            below == 21 && sample.frames().any(|f| f.symbol.name.contains("thread_start"));
        found.complete += if is_complete { sample.values()[0] } else { 0 };
    });
    threads
}

#[test]
fn processor_time_is_found_without_signals() {
    // The first reading of names opens nothing that stays.
    drop(std::thread::spawn(|| {}).join());
    let (stop, cut) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let old = works("old-worker", &stop);
    let sleeper = sleeps(&stop, &cut);
    let (open, caught) = (descriptors(), handlers());
    let events = match Events::builder().frequency(499).budget(0.5).start() {
        Ok(events) => events,
        Err(error) => {
            println!("skipped: {error}");
            stop.store(true, Relaxed);
            assert_eq!(descriptors(), open);
            return;
        }
    };
    let before = old.1.load(Relaxed);
    assert!(events.is_running());
    assert_eq!(handlers(), caught);
    let mut window = events.cpu().window();
    let new = works("new-worker", &stop);
    let begun = Instant::now();
    // Until there is enough to judge by, however little of the machine is ours.
    while events.statistics().samples < 800 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::park_timeout(Duration::from_millis(50));
    }
    events.settle();
    let (real_old, real_new) = (old.1.load(Relaxed) - before, new.1.load(Relaxed));
    let found = read(&mut window);
    stop.store(true, Relaxed);
    for thread in [new.0, old.0] {
        thread.join().unwrap();
    }
    sleeper.join().unwrap();
    let statistics = events.statistics();
    println!("{statistics:?}\n{found:?}\nold {real_old} new {real_new}");

    assert_eq!(cut.load(Relaxed), 0, "system calls that were cut short");
    assert_eq!(handlers(), caught);
    // Each works for a moment between its last sample and the reading, and before it is watched.
    for (name, real) in [("old-worker", real_old), ("new-worker", real_new)] {
        let thread = &found[name];
        let (cpu, real) = (thread.cpu as f64, real as f64);
        assert!((0.9..1.1).contains(&(cpu / real)), "{name}: {cpu} of {real}");
        assert!(thread.cpu_below as f64 > 0.95 * cpu, "{name}: {thread:?}");
        assert!(thread.samples > 100, "{name}: {thread:?}");
        assert!(thread.complete as f64 > 0.95 * thread.samples as f64, "{name}: {thread:?}");
    }
    assert!(statistics.unwound_root as f64 > 0.99 * statistics.samples as f64, "{statistics:?}");
    assert_eq!((statistics.foreign, statistics.threads_missed), (0, 0));

    let samples = events.statistics().samples;
    events.stop();
    assert!(!events.is_running());
    assert_eq!(descriptors(), open, "descriptors are closed");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(entry.unwrap().path().join("comm")).unwrap_or_default()
    };
    assert!(
        !std::fs::read_dir("/proc/self/task").unwrap().map(name).any(|n| n.starts_with("unladen"))
    );
    assert!(events.statistics().samples >= samples);
    assert!(events.cpu().total().memory_usage() < 1 << 30, "still readable");
    events.stop();
    drop(events);

    accounts_for_threads_that_end();
    assert_eq!(descriptors(), open);
    stops_at_once_whatever_a_child_has();
    costs_no_more_than_it_may();
    assert_eq!(descriptors(), open);

    let off = Events::builder().frequency(0).start().unwrap();
    assert!(!off.is_running());
    assert!(Events::builder().budget(f64::NAN).start().is_err());
    let none = Events::builder().descriptors(0).start().unwrap_err().to_string();
    assert!(none.contains("descriptors"), "{none}");
    assert_eq!(descriptors(), open);
}

/// Threads that live for less than a period, and for some, have their time in the profile, and are forgotten.
fn accounts_for_threads_that_end() {
    let process = clock(libc::CLOCK_PROCESS_CPUTIME_ID);
    let events = Events::builder().frequency(99).budget(0.5).start().unwrap();
    let mut window = events.cpu().window();
    let had = Arc::new(AtomicU64::new(0));
    for round in 0..60 {
        let had = had.clone();
        let works = move || {
            let until = if round % 10 == 0 { 35_000_000 } else { 6_000_000 };
            while own_cpu() < until {
                black_box(round);
            }
            had.fetch_add(own_cpu(), Relaxed);
        };
        std::thread::Builder::new().name("short".to_owned()).spawn(works).unwrap().join().unwrap();
        if round % 20 == 0 {
            events.settle();
        }
    }
    events.settle();
    let process = clock(libc::CLOCK_PROCESS_CPUTIME_ID) - process;
    let found = read(&mut window);
    // The name of a thread that ended before its sample was read is not known.
    let of = |name| found.get(name).map_or(0, |thread: &Found| thread.cpu);
    let (cpu, real) = (of("short") + of(""), had.load(Relaxed));
    let share = cpu as f64 / real as f64;
    // They begin and end beside what they say.
    assert!((0.99..1.2).contains(&share), "{cpu} of {real}: {found:?}");
    let all: i64 = found.values().map(|thread| thread.cpu).sum();
    assert!(all <= process as i64, "{all} of {process}: {found:?}");

    let begun = Instant::now();
    let there = || std::fs::read_dir("/proc/self/task").unwrap().count() as u64;
    while events.statistics().threads > there() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", events.statistics());
        events.settle();
        std::thread::yield_now();
    }
}

/// A child process has all descriptors, and its clone of the handle does nothing.
fn stops_at_once_whatever_a_child_has() {
    let took = |keeps_it: bool| {
        // So few samples that the reader looks once in a second.
        let events = Events::builder().frequency(1).start().unwrap();
        let (mut told, mut tell) = std::io::pipe().unwrap();
        // SAFETY: the child writes, waits for a signal, and leaves without destructors.
        let child = match unsafe { libc::fork() } {
            0 => {
                let runs = events.is_running();
                events.settle();
                if !keeps_it {
                    drop(events);
                }
                let _ = tell.write_all(&[u8::from(runs)]);
                loop {
                    // SAFETY: it takes nothing.
                    unsafe { libc::pause() };
                }
            }
            child => child,
        };
        let mut runs = [2];
        told.read_exact(&mut runs).unwrap();
        let begun = Instant::now();
        events.stop();
        let took = begun.elapsed();
        // SAFETY: a child of ours, which was not waited for.
        unsafe { libc::kill(child, libc::SIGKILL) };
        // SAFETY: as above; it says nowhere how it ended.
        assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
        assert_eq!(runs, [0], "whether it runs in the child");
        took
    };
    // The machine may be busy for once.
    took(false);
    let least = (0..3).map(|_| took(true)).min().unwrap();
    assert!(least < Duration::from_millis(30), "{least:?}");
}

/// Samples that cost too much become fewer, for threads that inherited their counters, too.
fn costs_no_more_than_it_may() {
    let events = Events::builder().frequency(1999).budget(0.004).start().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (worker, _) = works("worker", &stop);
    let usual = events.statistics().period_ns;
    assert_eq!(usual, 500_250);
    let begun = Instant::now();
    while events.statistics().period_ns < 4 * usual && begun.elapsed() < Duration::from_secs(60) {
        std::thread::park_timeout(Duration::from_millis(50));
    }
    let slow = events.statistics();
    assert!(slow.period_ns >= 4 * usual, "{slow:?}");
    // From here on at the new pace, over some rests.
    events.settle();
    let mut window = events.cpu().window();
    let begun = Instant::now();
    let seen = events.statistics().samples;
    // While it rests there are none.
    while begun.elapsed() < Duration::from_secs(5) || events.statistics().samples < seen + 20 {
        assert!(begun.elapsed() < Duration::from_secs(90), "{:?}", events.statistics());
        std::thread::park_timeout(Duration::from_millis(50));
    }
    events.settle();
    let found = &read(&mut window)["worker"];
    assert!(found.cpu > 2 * usual as i64 * found.samples && found.samples >= 20, "{found:?}");
    stop.store(true, Relaxed);
    worker.join().unwrap();
}
