//! How soon the sampler gets a processor.
//!
//! A thread that wakes up on a processor where another is at work waits, as a rule, until that one has had
//! its slice (some milliseconds) or goes to sleep. For the sampler that is fatal: it would see the threads
//! of a program where they wait, or where their slices end, and nowhere else. Linux lets a thread ask for
//! shorter slices, without any privilege; who wakes up with a shorter one goes first.
//!
//! Unsafe, because that has no binding at all.

/// Nanoseconds: a tick takes about as long. The least that Linux takes.
const SLICE: u64 = 100_000;

/// Asks for short slices for the calling thread. Where that isn't known (before Linux 6.12), or where the
/// program runs under other rules than the usual ones, nothing changes. *Setup.*
pub(crate) fn ask_for_short_slices() {
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
