//! Forks while other threads record, read, and make tables: no child ever hangs.
#![expect(unsafe_code, reason = "forks")]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use profiler::profile::{
    Label, LabelValue, LabelsId, Limits, Profile, Stack, Tables, ValueType, Window, WriteOptions,
};
use profiler::unwind::End;

const LIMITS: Limits = Limits { stacks: 1000, bytes: 16 << 20, labels: 100 };
const WALL: ValueType = ValueType { kind: "wall", unit: "nanoseconds" };
const FORKING_THREADS: usize = 2;
const FORKS: usize = 15;
/// A child that did nothing for so long hangs. Seconds.
const PATIENCE: u32 = 60;

/// Mostly new stacks, so that most of the time is spent with the lock held.
fn record(profile: &Profile, from: u64) {
    let addresses: Vec<u64> = (from..from + 100).collect();
    let mut recording = profile.lock();
    let thread = [Label { key: "t", value: LabelValue::Number(from as i64 % 200) }];
    let labels = recording.labels(&thread);
    let stack = Stack { addresses: &addresses, end: End::Root };
    recording.record(stack, labels, LabelsId::EMPTY, &[1]);
}

fn total(window: &mut Window) -> i64 {
    let mut total = 0;
    window.for_each(WriteOptions::default(), |sample| total += sample.values()[0]);
    total
}

/// Runs in the child: everything that a program does with its tables.
fn child(tables: &Tables, profile: &Profile, inherited: Window) -> bool {
    // SAFETY: if this hangs, the signal ends the child.
    unsafe { libc::alarm(PATIENCE) };
    drop(inherited);
    let has_entries = tables.statistics().entries > 0;
    let mut window = profile.window();
    record(profile, 1);
    let is_seen = total(&mut window) == 1;
    drop(window);
    // Found without those of the parent's threads, one of which may have been looking.
    tables.follow_modules();
    let tables = Tables::new(LIMITS);
    let profile = Profile::new(&tables, &[WALL], 0, WALL, 1);
    thread::scope(|scope| {
        scope.spawn(|| record(&profile, 7));
    });
    has_entries && is_seen && total(&mut profile.total()) == 1
}

/// Forks once and waits for the child.
fn fork(tables: &Tables, profile: &Profile) {
    let window = profile.window();
    // SAFETY: the child does what programs do after a fork: it allocates, and leaves without destructors.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        // SAFETY: as above.
        0 => unsafe { libc::_exit(i32::from(!child(tables, profile, window))) },
        id => {
            let mut status = 0;
            // SAFETY: the status is written to.
            assert_eq!(unsafe { libc::waitpid(id, &raw mut status, 0) }, id);
            assert!(libc::WIFEXITED(status), "hung or crashed: status {status:#x}");
            assert_eq!(libc::WEXITSTATUS(status), 0);
        }
    }
}

#[test]
fn no_child_hangs() {
    let tables = Tables::new(LIMITS);
    let profile = Profile::new(&tables, &[WALL], 0, WALL, 1);
    record(&profile, 0);
    let is_over = AtomicBool::new(false);
    let until_over = |work: &mut dyn FnMut()| {
        while !is_over.load(Relaxed) {
            work();
            // Locks are not fair: who comes back at once keeps others waiting.
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        for first in [1_000, 1 << 40] {
            let (profile, mut from) = (&profile, first);
            scope.spawn(move || {
                until_over(&mut || {
                    from += 1;
                    record(profile, from);
                });
            });
        }
        scope.spawn(|| {
            let mut window = profile.window();
            until_over(&mut || assert!(total(&mut window) >= 0));
        });
        // Each has a lock of its own, and is gone again at any time.
        scope.spawn(|| {
            until_over(&mut || {
                let tables = Tables::new(LIMITS);
                record(&Profile::new(&tables, &[WALL], 0, WALL, 1), 3);
            });
        });
        let forking: Vec<_> = (0..FORKING_THREADS)
            .map(|_| scope.spawn(|| (0..FORKS).for_each(|_| fork(&tables, &profile))))
            .collect();
        let ends: Vec<_> = forking.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
    });
}
