//! System calls have the processor time that was used in them, in a program that is idle for most of the
//! time and works as long in them as outside of them.

use std::fs::File;
use std::hint::black_box;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use profiler::Profiler;

/// Processor time of the calling thread.
fn clock() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is there.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Calls `work` until the thread had a part of its processor time more, and adds what it had.
fn part(had: &mut Duration, mut work: impl FnMut()) {
    let begun = clock();
    while clock() - begun < Duration::from_micros(600) {
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

/// Samples are few, and fewer where others want the processors, so that one round may be off by chance. Time that
/// goes elsewhere is off in each.
#[test]
fn calls_have_their_processor_time() {
    let rounds: Vec<_> = (0..4).map(|_| round()).collect();
    let is_near = |(found, share): &(f64, f64)| (found - share).abs() < 0.12;
    assert!(rounds.iter().any(is_near), "found, and what it is: {rounds:?}");
    // By chance it is too much as often as too little.
    let found: f64 = rounds.iter().map(|(found, share)| found - share).sum::<f64>() / 4.0;
    assert!(found.abs() < 0.3, "found, and what it is: {rounds:?}");
}

/// The part of calls in the processor time of a worker, as the profiler has it and by the worker's clock.
#[expect(clippy::disallowed_methods, reason = "a thread that is idle is what is tested")]
fn round() -> (f64, f64) {
    let profiler = Profiler::builder().tick(Duration::from_millis(1)).budget(1.0).start().unwrap();
    let worker = std::thread::spawn(|| {
        let (file, bytes) = (memory(), vec![1; 64 << 10]);
        let (mut program, mut calls) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..300 {
            {
                let _stage = profiler::stage("program");
                part(&mut program, || {
                    for i in 0..50_000_u64 {
                        black_box(i.wrapping_mul(0x9e37_79b9));
                    }
                });
            }
            {
                let _stage = profiler::stage("calls");
                part(&mut calls, || file.write_all_at(&bytes, 0).unwrap());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        (program, calls)
    });
    let (program, calls) = worker.join().unwrap();
    profiler.stop();

    let share = calls.as_secs_f64() / (program + calls).as_secs_f64();
    let (mut found, mut all) = (Duration::ZERO, Duration::ZERO);
    profiler.stage_cpu(|stage, time| {
        if ["program", "calls"].contains(&stage) {
            all += time;
        }
        if stage == "calls" {
            found = time;
        }
    });
    (found.as_secs_f64() / all.as_secs_f64(), share)
}
