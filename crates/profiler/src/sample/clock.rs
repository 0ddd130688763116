//! Clocks: the one on the wall, and those that count what each thread had of a processor.
//!
//! Unsafe, because the clock of another thread has no safe binding.

use super::tasks::Tid;

/// Nanoseconds of the monotonic clock. In a signal handler, too.
#[inline]
pub(crate) fn now() -> u64 {
    read(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// Nanoseconds that the calling thread had of a processor. In a signal handler, too.
#[inline]
pub(crate) fn own_cpu() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// Nanoseconds that a thread of this process had of a processor; none if it is gone. It stands still
/// exactly while the thread does not run.
#[inline]
pub(crate) fn cpu_of(tid: Tid) -> Option<u64> {
    // As the kernel lays out the number of a thread's clock (include/linux/posix-timers_types.h): the
    // complement of its id, a bit for "of a thread" and two for "what the scheduler counted".
    const OF_A_THREAD: i32 = 4;
    const AS_SCHEDULED: i32 = 2;
    read((!tid.0 << 3) | OF_A_THREAD | AS_SCHEDULED)
}

/// Nanoseconds that all threads of the process together had of a processor, those that ended too.
pub(crate) fn process_cpu() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap_or(0)
}

/// Nanoseconds since the system's start, which is what the kernel dates threads by.
pub(crate) fn since_boot() -> u64 {
    read(libc::CLOCK_BOOTTIME).unwrap_or(0)
}

#[inline]
fn read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a place for the answer; a clock that does not exist is refused.
    let answer = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (answer == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_clock_is_found_by_its_id() {
        let own = Tid::own();
        let before = own_cpu();
        let found = cpu_of(own).unwrap();
        assert!((before..=own_cpu()).contains(&found));
        assert_eq!(cpu_of(Tid(i32::MAX / 16)), None, "there is no such thread");
    }

    #[test]
    fn a_sleeping_threads_clock_stands_still() {
        let (say, hear) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            say.send(Tid::own()).unwrap();
            let _ = stopped.recv();
        });
        let tid = hear.recv().unwrap();
        // It goes to sleep in its own time.
        let mut last = cpu_of(tid).unwrap();
        let mut same = 0;
        while same < 1000 {
            let found = cpu_of(tid).unwrap();
            same = if found == last { same + 1 } else { 0 };
            last = found;
            std::thread::yield_now();
        }
        drop(stop);
        thread.join().unwrap();
    }
}
