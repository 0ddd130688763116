//! When the sampler wakes up, and how soon it then has a processor. Samples stand for what threads do all the
//! time only if it sees them at moments that have nothing to do with what they do.
//!
//! 1. Timers are collected: one that may come some microseconds later comes together with the next. The
//!    sampler would be woken together with threads that wait for theirs, and see them as they begin. Its own
//!    timer must come when it is due.
//! 2. A thread that wakes up on a processor where another is at work waits, as a rule, until that one has had
//!    its slice (some milliseconds) or goes to sleep. The sampler would see threads where they wait, or where
//!    their slices end, and nowhere else. Linux lets a thread ask for shorter slices, without any privilege;
//!    who wakes up with a shorter one goes first.
//!
//! Unsafe, because slices have no binding at all.

use std::num::NonZeroU64;

/// How long a slice of the sampler is: a tick takes about as long. The least that Linux takes.
const SLICE: u64 = 100_000;

/// Nanoseconds that its timers may come later than they are due; 50,000 without this.
const SLACK: NonZeroU64 = NonZeroU64::MIN;

/// Has the calling thread wake up when it is due. Where the system does not know how, nothing changes. *Setup.*
pub(crate) fn be_punctual() {
    // A thread can always ask for itself.
    let _ = rustix::thread::set_current_timer_slack(Some(SLACK));
    ask_for_short_slices();
}

/// Where they aren't known (before Linux 6.12), or where the program runs under other rules than the usual
/// ones, nothing changes.
fn ask_for_short_slices() {
    // SAFETY: numbers go in, and the kernel writes no more than what the size says.
    unsafe {
        let mut own: libc::sched_attr = std::mem::zeroed();
        let size = size_of::<libc::sched_attr>() as u32;
        if libc::syscall(libc::SYS_sched_getattr, 0, &raw mut own, size, 0) != 0
            || own.sched_policy != libc::SCHED_OTHER as u32
        {
            return;
        }
        own.size = size;
        own.sched_runtime = SLICE;
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const own, 0);
    }
}
