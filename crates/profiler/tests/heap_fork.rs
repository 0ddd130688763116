//! Forks while other threads allocate, sample, and are born and die: no child ever hangs.
#![expect(unsafe_code, reason = "forks")]

mod fork;

use std::alloc::System;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use profiler::heap::{self, Options};
use profiler::profile::{Limits, Tables};

#[global_allocator]
static ALLOCATOR: heap::Allocator<System> = heap::Allocator::new(System);

const FORKING_THREADS: usize = 2;
const FORKS: usize = 25;
/// A child that did nothing for so long hangs. Seconds.
const PATIENCE: u32 = 60;

fn allocate(rounds: usize) {
    let mut kept = Vec::new();
    for round in 0..rounds {
        kept.push(black_box(vec![1u8; 1 + round % 900]));
        if round % 7 == 6 {
            kept.clear();
        }
    }
}

/// Runs in the child: samples, reads, stops, starts, and has threads.
fn child(tables: &Tables) -> bool {
    // SAFETY: if this hangs, the signal ends the child.
    unsafe { libc::alarm(PATIENCE) };
    let before = heap::statistics().samples;
    allocate(500);
    let is_sampled = heap::statistics().samples > before;
    fork::on_a_thread(|| allocate(100));
    heap::stop();
    let is_started = heap::start(Options { mean_bytes: 300, seed: None }, tables).is_ok();
    let mut stages = 0;
    heap::stages(|_, _| stages += 1);
    is_sampled && is_started && stages > 0
}

/// Forks once and waits for the child.
fn fork_once(tables: &Tables) {
    // SAFETY: the child does what programs do after a fork: it allocates, and leaves without destructors.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        // SAFETY: as above.
        0 => unsafe { libc::_exit(i32::from(!child(tables))) },
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
    let tables = Tables::new(Limits { stacks: 10_000, bytes: 64 << 20, labels: 100 });
    heap::start(Options { mean_bytes: 300, seed: Some(1) }, &tables).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    allocate(100);
                }
            });
        }
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                thread::spawn(|| allocate(10)).join().unwrap();
            }
        });
        let forking: Vec<_> = (0..FORKING_THREADS)
            .map(|_| scope.spawn(|| (0..FORKS).for_each(|_| fork_once(&tables))))
            .collect();
        let ends: Vec<_> = forking.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
    });
    assert!(heap::is_running());
    heap::stop();
    let statistics = heap::statistics();
    assert_eq!(statistics.forgotten, 0, "{statistics:?}");
}
