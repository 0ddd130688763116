//! A lock that nobody waits for for long: one that a thread held while another forked, without telling us,
//! is never given back in the child.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, TryLockError};

#[derive(Debug)]
pub(super) struct Patient<T> {
    lock: Mutex<T>,
    /// Whether the last who tried gave up: the next ones try once.
    is_given_up: AtomicBool,
}

impl<T> Patient<T> {
    pub(super) const fn new(value: T) -> Patient<T> {
        Patient { lock: Mutex::new(value), is_given_up: AtomicBool::new(false) }
    }

    /// Tries again and again, for some milliseconds at most.
    pub(super) fn lock(&self) -> Option<MutexGuard<'_, T>> {
        const TRIES: u32 = 10_000;
        let was_given_up = self.is_given_up.load(Relaxed);
        for attempt in 0..if was_given_up { 1 } else { TRIES } {
            let guard = match self.lock.try_lock() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    if attempt < 100 {
                        std::hint::spin_loop();
                    } else {
                        std::thread::yield_now();
                    }
                    continue;
                }
            };
            if was_given_up {
                self.is_given_up.store(false, Relaxed);
            }
            return Some(guard);
        }
        self.is_given_up.store(true, Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_once() {
        let lock = Patient::new(1);
        let held = lock.lock().unwrap();
        for _ in 0..100_000 {
            // Each with all its tries would take minutes.
            assert!(lock.lock().is_none());
            assert!(lock.is_given_up.load(Relaxed));
        }
        drop(held);
        assert_eq!(lock.lock().as_deref(), Some(&1));
        assert!(!lock.is_given_up.load(Relaxed), "it was only busy");
    }
}
