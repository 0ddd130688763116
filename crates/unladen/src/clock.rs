//! The time at which series begin.

use std::time::{SystemTime, UNIX_EPOCH};

/// Tells tenths of a second since the registry began, which fit into 32 bits for thirteen years.
#[derive(Debug)]
pub(crate) struct Clock {
    began_ms: i64,
}

impl Default for Clock {
    fn default() -> Self {
        Clock { began_ms: now_ms() }
    }
}

impl Clock {
    /// Now.
    pub(crate) fn now(&self) -> u32 {
        ((now_ms() - self.began_ms) / 100).clamp(0, i64::from(u32::MAX) - 1) as u32
    }

    /// Milliseconds since 1970 of what [`now`](Clock::now) told. At most a tenth of a second before what
    /// it was, never after it.
    pub(crate) fn to_ms(&self, tenths: u32) -> i64 {
        self.began_ms + i64::from(tenths) * 100
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
