//! Small numbers for threads, so that a cell can say whose it is in two bytes.
//!
//! A thread gets the lowest free number when it first asks and gives it back when it ends; the next
//! thread that gets it sees all that the last one wrote, because both go through one lock. Threads beyond
//! [`MOST`] and threads that are ending have the number [`NOBODY`], which owns nothing.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use parking_lot::Mutex;

/// The number of a thread without one; no cell is ever owned by it.
pub(crate) const NOBODY: u16 = i16::MAX as u16;

/// The highest number that is given out.
pub(crate) const MOST: u16 = NOBODY - 16;

struct Numbers {
    next: u16,
    free: BinaryHeap<Reverse<u16>>,
}

static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { next: 1, free: BinaryHeap::new() });

thread_local! {
    /// Nothing to drop, so that reading it is one load.
    static CURRENT: Cell<u16> = const { Cell::new(0) };
    static LEASE: Lease = Lease::take();
}

/// Gives the number back when the thread ends.
struct Lease(u16);

impl Lease {
    fn take() -> Self {
        let mut numbers = NUMBERS.lock();
        if let Some(Reverse(number)) = numbers.free.pop() {
            return Lease(number);
        }
        if numbers.next > MOST {
            return Lease(NOBODY);
        }
        numbers.next += 1;
        Lease(numbers.next - 1)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        CURRENT.set(NOBODY);
        if self.0 != NOBODY {
            NUMBERS.lock().free.push(Reverse(self.0));
        }
    }
}

/// The number of the thread that asks: 1 to [`MOST`], or [`NOBODY`]. *Steady* after the first time.
#[inline]
pub(crate) fn current() -> u16 {
    match CURRENT.get() {
        0 => number(),
        number => number,
    }
}

#[cold]
fn number() -> u16 {
    let number = LEASE.try_with(|lease| lease.0).unwrap_or(NOBODY);
    CURRENT.set(number);
    number
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use super::*;

    #[test]
    fn numbers_are_distinct_while_threads_live() {
        let barrier = Arc::new(Barrier::new(8));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let barrier = barrier.clone();
                std::thread::spawn(move || {
                    let number = current();
                    barrier.wait();
                    assert_eq!(number, current());
                    number
                })
            })
            .collect();
        let mut numbers: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 8);
        assert!(numbers.iter().all(|number| (1..=MOST).contains(number)));
    }

    #[test]
    fn numbers_come_back() {
        // Other tests' threads come and go meanwhile, so only a bound can be asserted: without reuse
        // the numbers would go past it.
        let highest = (0..500).map(|_| std::thread::spawn(current).join().unwrap()).max();
        assert!(highest < Some(400), "{highest:?}");
    }
}
