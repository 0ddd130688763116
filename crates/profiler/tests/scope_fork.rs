//! Forks while other threads set labels, old ones and new ones, and are born and die: in the child labels are
//! set as before.
#![expect(unsafe_code, reason = "forks")]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use profiler::{scope, scopes_refused};

const FORKS: usize = 200;
/// A child that did nothing for so long hangs. Seconds.
const PATIENCE: u32 = 60;

/// Runs in the child: whether a new label, and one on a new thread, is set.
fn child() -> bool {
    // SAFETY: if this hangs, the signal ends the child.
    unsafe { libc::alarm(PATIENCE) };
    let before = scopes_refused();
    drop(scope("child", "new"));
    thread::spawn(|| drop(scope("child", "of a thread"))).join().unwrap();
    scopes_refused() == before
}

fn fork() -> bool {
    // SAFETY: the child sets labels, and leaves without destructors.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        // SAFETY: as above.
        0 => unsafe { libc::_exit(i32::from(!child())) },
        id => {
            let mut status = 0;
            // SAFETY: the status is written to.
            assert_eq!(unsafe { libc::waitpid(id, &raw mut status, 0) }, id);
            assert!(libc::WIFEXITED(status), "hung or crashed: status {status:#x}");
            libc::WEXITSTATUS(status) == 0
        }
    }
}

#[test]
fn a_child_has_no_lock_that_nobody_gives_back() {
    let is_over = AtomicBool::new(false);
    let failed = thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while !is_over.load(Relaxed) {
                    drop(scope("old", "label"));
                }
            });
        }
        threads.spawn(|| {
            // Far from the bound, so that a child has room.
            for number in 0..3000 {
                drop(scope("number", &number.to_string()));
                thread::yield_now();
            }
        });
        threads.spawn(|| {
            while !is_over.load(Relaxed) {
                thread::spawn(|| drop(scope("old", "label"))).join().unwrap();
            }
        });
        let failed = (0..FORKS).filter(|_| !fork()).count();
        is_over.store(true, Relaxed);
        failed
    });
    assert_eq!(failed, 0, "children of {FORKS} whose labels were refused");
}
