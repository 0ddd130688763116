//! How far delta readers have come, so that no series' row goes to another series unread.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use parking_lot::Mutex;

use crate::table::Shared;

/// Up to when all delta readers of a registry have collected.
pub(crate) struct Progress {
    readers: Mutex<Vec<(u64, u32)>>,
    /// The least of them, in tenths of a second since the registry began; the largest number where there
    /// is no such reader.
    least: AtomicU32,
    next_id: AtomicU64,
    lost: AtomicU64,
}

impl Default for Progress {
    fn default() -> Self {
        Progress {
            readers: Mutex::default(),
            least: AtomicU32::new(u32::MAX),
            next_id: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }
}

impl Progress {
    /// Series that ended before this were read by everybody.
    pub(crate) fn least(&self) -> u32 {
        self.least.load(Acquire)
    }

    /// A row had to be given away before everybody had read it.
    #[cold]
    pub(crate) fn lose(&self) {
        self.lost.fetch_add(1, Relaxed);
    }

    /// How many rows were given away unread.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<(u64, u32)>)) {
        let mut readers = self.readers.lock();
        change(&mut readers);
        let least = readers.iter().map(|(_, collected)| *collected).min();
        self.least.store(least.unwrap_or(u32::MAX), Release);
    }
}

/// A delta reader's place among the others, for as long as it exists.
pub(super) struct Place {
    shared: Arc<Shared>,
    id: u64,
}

impl Place {
    /// A reader that has collected up to now.
    pub(super) fn take(shared: &Arc<Shared>) -> Self {
        let id = shared.collected.next_id.fetch_add(1, Relaxed);
        let now = shared.clock.now();
        shared.collected.change(|readers| readers.push((id, now)));
        Place { shared: shared.clone(), id }
    }

    /// All that ended before `tenths` was read. *Steady.*
    pub(super) fn advance(&self, tenths: u32) {
        self.shared.collected.change(|readers| {
            let mine = readers.iter_mut().filter(|(id, _)| *id == self.id);
            mine.for_each(|(_, collected)| *collected = tenths);
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.collected.change(|readers| readers.retain(|(id, _)| *id != self.id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_reader_counts() {
        let shared = Arc::new(Shared::default());
        let least = || shared.collected.least();
        assert_eq!(least(), u32::MAX);
        let (one, other) = (Place::take(&shared), Place::take(&shared));
        one.advance(10);
        other.advance(20);
        assert_eq!(least(), 10);
        one.advance(30);
        assert_eq!(least(), 20);
        drop(other);
        assert_eq!(least(), 30);
        drop(one);
        assert_eq!(least(), u32::MAX);
    }
}
