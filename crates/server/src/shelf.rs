//! Things that are lent for a while and come back: each thread has a shelf of its own for them.
//!
//! What a thread puts back it takes again next, still warm in its caches, and threads do not wait for
//! each other. Only one whose shelf is empty looks at the others'.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use parking_lot::Mutex;

/// More shelves would only be searched longer.
const MOST_SHELVES: usize = 64;

/// What waits to be lent, bounded.
pub(crate) struct Shelves<T> {
    shelves: Box<[Shelf<T>]>,
    /// So many things fit on a shelf.
    most: usize,
}

/// On cache lines of its own.
#[repr(align(128))]
struct Shelf<T>(Mutex<Vec<T>>);

impl<T> Shelves<T> {
    /// Shelves for at least `most` things, as many as there are processors. Setup.
    pub(crate) fn new(most: usize) -> Self {
        let count = available_parallelism().map_or(1, usize::from).min(MOST_SHELVES);
        let most = most.div_ceil(count);
        let shelves = (0..count).map(|_| Shelf(Mutex::new(Vec::with_capacity(most))));
        Shelves { shelves: shelves.collect(), most }
    }

    /// Something that was put back. Steady: takes an uncontended lock.
    pub(crate) fn take(&self) -> Option<T> {
        let own = self.own();
        let found = self.shelves[own].0.lock().pop();
        found.or_else(|| self.take_from_others(own))
    }

    #[cold]
    fn take_from_others(&self, own: usize) -> Option<T> {
        let others = self.shelves[own + 1..].iter().chain(&self.shelves[..own]);
        others.filter_map(|shelf| shelf.0.try_lock()).find_map(|mut shelf| shelf.pop())
    }

    /// Puts something back; gives it to the caller if there is no room for it. Steady: takes an
    /// uncontended lock.
    pub(crate) fn put(&self, thing: T) -> Option<T> {
        let mut shelf = self.shelves[self.own()].0.lock();
        if shelf.len() >= self.most {
            return Some(thing);
        }
        shelf.push(thing);
        None
    }

    /// Takes everything.
    #[cold]
    pub(crate) fn take_all(&self) -> Vec<T> {
        let mut all = Vec::new();
        for shelf in &self.shelves {
            all.append(&mut shelf.0.lock());
        }
        all
    }

    fn own(&self) -> usize {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
        }
        NUMBER.with(|number| number % self.shelves.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_last_is_taken_first_and_the_rest_by_whoever_needs_it() {
        let shelves = Shelves::new(4);
        assert_eq!(shelves.take(), None);
        let fits = shelves.most;
        for n in 0..fits {
            assert_eq!(shelves.put(n), None);
        }
        assert_eq!(shelves.put(99), Some(99), "no room");
        assert_eq!(shelves.take(), Some(fits - 1));
        assert_eq!(shelves.put(fits - 1), None);
        // Another thread has another shelf, or the same: it finds all of it.
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| (0..fits).filter_map(|_| shelves.take()).count());
            assert_eq!(taken.join().unwrap(), fits);
        });
        assert_eq!(shelves.take(), None);
        assert_eq!(shelves.put(7), None);
        assert_eq!(shelves.take_all(), [7]);
    }
}
