//! The time at which series begin, and which of them a collection sees.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Tells tenths of a second since the registry began, which fit into 32 bits for thirteen years.
///
/// The time never goes back, whatever is done to the machine's clock, and after the begin of a collection
/// it is later than that begin. So a series that began while a collection runs can be told from those
/// that it has to see. Where there are more than ten collections a second the time is ahead of the
/// machine's.
#[derive(Debug)]
pub(crate) struct Clock {
    began: Instant,
    began_ms: i64,
    at_least: AtomicU32,
}

impl Default for Clock {
    fn default() -> Self {
        Clock { began: Instant::now(), began_ms: now_ms(), at_least: AtomicU32::new(0) }
    }
}

impl Clock {
    fn elapsed(&self) -> u32 {
        u32::try_from(self.began.elapsed().as_millis() / 100).unwrap_or(u32::MAX - 1)
    }

    /// Now.
    pub(crate) fn now(&self) -> u32 {
        self.elapsed().max(self.at_least.load(Relaxed))
    }

    /// Now, and later than that from here on.
    pub(crate) fn begin_collection(&self) -> u32 {
        let elapsed = self.elapsed();
        let later = |at_least: u32| Some(at_least.max(elapsed).saturating_add(1));
        let before = self.at_least.fetch_update(Relaxed, Relaxed, later);
        before.unwrap_or_else(|at_least| at_least).max(elapsed)
    }

    /// Milliseconds since 1970 of what [`now`](Clock::now) told. At most a tenth of a second before what
    /// it was, never after what is now.
    pub(crate) fn to_ms(&self, tenths: u32) -> i64 {
        self.began_ms + i64::from(tenths.min(self.elapsed())) * 100
    }
}

/// Milliseconds since 1970.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_after_a_collection_did_is_later() {
        let clock = Clock::default();
        for _ in 0..50 {
            let before = clock.now();
            let started = clock.begin_collection();
            assert!(before <= started && started < clock.now());
        }
        assert!(clock.to_ms(clock.now()) <= now_ms(), "never in the future");
    }
}
