//! Forks while other threads set labels, old ones and new ones, and are born and die: in the child labels are
//! set as before.
#![expect(unsafe_code, reason = "forks")]

mod fork;

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
    fork::on_a_thread(|| drop(scope("child", "of a thread")));
    scopes_refused() == before
}

fn fork_once() -> bool {
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

/// Says so also if the test fails before: the threads that go on until then would keep it from ending.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
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
        let _over = Over(&is_over);
        (0..FORKS).filter(|_| !fork_once()).count()
    });
    assert_eq!(failed, 0, "children of {FORKS} whose labels were refused");
}
