//! System calls have the processor time that was used in them, in programs that are idle for most of the
//! time: one that works as long in them as outside of them, and one that is woken often.

use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::time::Duration;

use profiler::Profiler;

/// Processor time of the calling thread.
fn clock() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is there.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Calls `work` until the thread had so much of a processor more, and adds what it had.
fn part(had: &mut Duration, length: Duration, mut work: impl FnMut()) {
    let begun = clock();
    while clock() - begun < length {
        work();
    }
    *had += clock() - begun;
}

/// A file in memory: writing takes a processor, and never waits.
fn memory() -> File {
    // SAFETY: the name ends with a zero.
    let descriptor = unsafe { libc::memfd_create(c"calls".as_ptr(), 0) };
    assert!(descriptor >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: nobody else has it.
    unsafe { File::from_raw_fd(descriptor) }
}

/// A worker's part in calls of all its processor time.
struct Part {
    /// As the profiler has it.
    found: f64,
    /// By the worker's clock.
    is: f64,
}

/// Has a worker profiled, which returns its processor time in stage `program` and in stage `calls`.
fn profiled(worker: impl FnOnce() -> [Duration; 2] + Send + 'static) -> Part {
    /// There is one profiler in a process at a time.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    let profiler = Profiler::builder().tick(Duration::from_millis(1)).budget(1.0).start().unwrap();
    let [program, calls] = std::thread::spawn(worker).join().unwrap();
    profiler.stop();

    let (mut found, mut all) = (Duration::ZERO, Duration::ZERO);
    profiler.stage_cpu(|stage, time| {
        if ["program", "calls"].contains(&stage) {
            all += time;
        }
        if stage == "calls" {
            found = time;
        }
    });
    let part = |calls: Duration, all: Duration| calls.as_secs_f64() / all.as_secs_f64();
    Part { found: part(found, all), is: part(calls, program + calls) }
}

fn multiply(times: u64) {
    for i in 0..times {
        black_box(i.wrapping_mul(0x9e37_79b9));
    }
}

/// Samples are few, and fewer where others want the processors, so that one round may be off by chance. Time
/// that goes elsewhere is off in each.
#[test]
fn calls_have_their_processor_time() {
    let rounds: Vec<_> = (0..4).map(|_| profiled(works_in_calls)).collect();
    let off: Vec<_> = rounds.iter().map(|part| part.found - part.is).collect();
    assert!(off.iter().any(|off| off.abs() < 0.12), "off by {off:?}");
    // By chance it is too much as often as too little.
    assert!((off.iter().sum::<f64>() / 4.0).abs() < 0.3, "off by {off:?}");
}

#[expect(clippy::disallowed_methods, reason = "a thread that is idle is what is tested")]
fn works_in_calls() -> [Duration; 2] {
    const LENGTH: Duration = Duration::from_micros(600);
    let (file, bytes) = (memory(), vec![1; 64 << 10]);
    let (mut program, mut calls) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..300 {
        {
            let _stage = profiler::stage("program");
            part(&mut program, LENGTH, || multiply(50_000));
        }
        {
            let _stage = profiler::stage("calls");
            part(&mut calls, LENGTH, || file.write_all_at(&bytes, 0).unwrap());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    [program, calls]
}

/// A thread that was woken is ready for some time before it has a processor: as ready as one at work, and
/// still in the call that it waited in.
#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "calls leave no trace in registers there")]
fn waiting_has_no_more_than_waking_up_takes() {
    let part = profiled(is_woken_often);
    assert!(
        part.found < part.is + 0.1,
        "{} of the time waiting, and it was {}",
        part.found,
        part.is
    );
}

#[expect(clippy::disallowed_methods, reason = "a thread that is idle is what is tested")]
fn is_woken_often() -> [Duration; 2] {
    let (mut wakes, mut woken) = std::io::pipe().map(|(read, write)| (write, read)).unwrap();
    let other = std::thread::spawn(move || {
        for _ in 0..4_000 {
            std::thread::sleep(Duration::from_micros(500));
            wakes.write_all(&[0]).unwrap();
        }
    });
    let (mut program, mut calls) = (Duration::ZERO, Duration::ZERO);
    let mut byte = [0];
    loop {
        let begun = clock();
        {
            let _stage = profiler::stage("calls");
            if woken.read(&mut byte).unwrap() == 0 {
                break;
            }
        }
        let back = clock();
        let _stage = profiler::stage("program");
        calls += back - begun;
        part(&mut program, Duration::from_micros(400), || multiply(2_000));
    }
    other.join().unwrap();
    [program, calls]
}
