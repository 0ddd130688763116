//! How much processor time a piece of work takes, on a machine that is busy with other things too.
//!
//! The clock is that of the thread: it stands still while the thread waits or others have the processor.
//! Work that changes threads between begin and end cannot be measured with it.

use rustix::time::{ClockId, clock_gettime};

/// A piece of work of this thread that has begun.
pub(crate) struct CpuSpan {
    began: u64,
    /// The clock of another thread has another beginning: a span stays where it began.
    _of_this_thread: std::marker::PhantomData<*const ()>,
}

impl CpuSpan {
    /// Begins. *Steady*: a system call, about 0.2 µs, as [`CpuSpan::nanoseconds`].
    pub(crate) fn begin() -> Self {
        CpuSpan { began: thread_nanoseconds(), _of_this_thread: std::marker::PhantomData }
    }

    /// Processor time of this thread since then, its own and the kernel's on its behalf.
    pub(crate) fn nanoseconds(&self) -> u64 {
        thread_nanoseconds().saturating_sub(self.began)
    }
}

fn thread_nanoseconds() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::CpuSpan;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "time that passes is what is tested")]
    fn work_counts_and_waiting_does_not() {
        let idle = CpuSpan::begin();
        std::thread::sleep(Duration::from_millis(300));
        let idle = idle.nanoseconds();
        assert!(idle < 100_000_000, "{idle} ns");

        let (busy, began) = (CpuSpan::begin(), Instant::now());
        while busy.nanoseconds() < 5_000_000 {
            assert!(began.elapsed() < Duration::from_secs(60), "the clock stands still");
            std::hint::black_box((0..1000_u32).sum::<u32>());
        }
        assert!(u128::from(busy.nanoseconds()) <= began.elapsed().as_nanos() + 1_000_000);
    }
}
