//! What tests that fork have in common.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// Runs `work` on a new thread of a forked child, to its end.
///
/// Not by `std::thread`: there, a thread that begins takes a lock of std's (the list of stacks by which it
/// tells that one overflowed). A thread of the parent may have it at the moment of the fork, and in the child
/// nobody gives it back.
pub(crate) fn on_a_thread(work: fn()) {
    extern "C" fn run(work: *mut c_void) -> *mut c_void {
        // SAFETY: it is the function below, which came here as a pointer.
        let work: fn() = unsafe { std::mem::transmute(work) };
        work();
        null_mut()
    }
    let mut thread = 0;
    // SAFETY: `run` takes what it is given for what it is, and the thread is joined once.
    unsafe {
        assert_eq!(libc::pthread_create(&raw mut thread, null(), run, work as *mut c_void), 0);
        assert_eq!(libc::pthread_join(thread, null_mut()), 0);
    }
}
