//! When a target is scraped, and what time its samples get.
//!
//! Each target has its place within the interval (see `spread`). Ticks come at that place plus whole
//! intervals, counted from the first, so that nothing drifts. A scrape that overruns its interval is followed at
//! once by the one that was due, and then by the next tick; further missed ticks are skipped.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Ticks that come this little late get the time at which they were due: equal distances compress
/// better.
const TOLERANCE: Duration = Duration::from_millis(2);

/// What time it is. Tests have one that follows tokio's paused clock.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    fixed: Option<(Duration, Instant)>,
}

impl Clock {
    /// A clock that shows `start` (since 1970) now and then runs with tokio's.
    pub fn following_tokio(start: Duration) -> Self {
        Clock { fixed: Some((start, Instant::now())) }
    }

    /// The time since 1970.
    pub fn now(&self) -> Duration {
        match self.fixed {
            Some((start, since)) => start + since.elapsed(),
            None => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }

    /// The same in milliseconds.
    pub fn now_ms(&self) -> i64 {
        milliseconds(self.now())
    }
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// How long after `now` the target whose place is `at` is first due.
pub(super) fn wait(at: Duration, interval: Duration, now: Duration) -> Duration {
    let interval = interval.as_nanos().max(1);
    let since = now.as_nanos() % interval;
    let wait = (at.as_nanos() % interval + interval - since) % interval;
    Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
}

/// The ticks of one target.
#[derive(Debug)]
pub(super) struct Schedule {
    interval: Duration,
    /// When the next tick is due.
    next: Instant,
    /// The wall clock's time of the last tick, as it should have been; `None` before the first.
    aligned: Option<Duration>,
}

impl Schedule {
    pub(super) fn starting(at: Instant, interval: Duration) -> Self {
        Schedule { interval, next: at, aligned: None }
    }

    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Takes the tick that is due: the timestamp of its samples in milliseconds.
    pub(super) fn tick(&mut self, now: Instant, wall: Duration) -> i64 {
        // A tick that was missed during the last scrape comes at once; of several, only one.
        self.next += self.interval;
        if self.next <= now {
            let missed = (now - self.next).as_nanos() / self.interval.as_nanos().max(1) + 1;
            self.next += self.interval * u32::try_from(missed).unwrap_or(u32::MAX);
        }
        let Some(mut aligned) = self.aligned else {
            self.aligned = Some(wall);
            return milliseconds(wall);
        };
        if wall >= aligned + self.interval {
            let steps = (wall - aligned).as_nanos() / self.interval.as_nanos().max(1);
            aligned += self.interval * u32::try_from(steps).unwrap_or(u32::MAX);
            self.aligned = Some(aligned);
        }
        let tolerance = TOLERANCE.min(self.interval / 100);
        match wall.checked_sub(aligned) {
            Some(late) if late > tolerance => milliseconds(wall),
            // A clock that was set back shows less than the last tick, as long as it takes to catch
            // up; then its own time is the better one.
            None => {
                self.aligned = Some(wall);
                milliseconds(wall)
            }
            Some(_) => milliseconds(aligned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn places_are_pinned_to_absolute_time() {
        let interval = 15 * SECOND;
        for at in [0, 1, 14_999_999_999, 7_123_456_789] {
            let at = Duration::from_nanos(at);
            for now in [0u64, 1, 7, 14, 15, 1_700_000_003] {
                let now = Duration::from_secs(now);
                let wait = wait(at, interval, now);
                assert!(wait < interval);
                assert_eq!((now + wait).as_nanos() % interval.as_nanos(), at.as_nanos());
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn ticks_do_not_drift_and_late_ones_are_aligned() {
        let start = Instant::now();
        let wall = Duration::from_millis(1_700_000_000_123);
        let mut schedule = Schedule::starting(start, SECOND);
        // Offset of the tick from its due time in microseconds, the time its samples get relative to
        // the first, and when the next is due, both in milliseconds.
        let cases = [
            (0u64, 0i64, 1000u64),
            (1_000_100, 1000, 2000),
            (2_001_900, 2000, 3000),
            (3_002_100, 3002, 4000),
            (4_000_000, 4000, 5000),
            // Two ticks were missed: one comes late, then it goes on where it would have.
            (7_300_000, 7300, 8000),
            (8_000_000, 8000, 9000),
        ];
        for (index, (at, stamp, due)) in cases.into_iter().enumerate() {
            let at = Duration::from_micros(at);
            let given = schedule.tick(start + at, wall + at);
            assert_eq!(given - 1_700_000_000_123, stamp, "tick {index}");
            assert_eq!(schedule.next() - start, Duration::from_millis(due), "tick {index}");
        }
    }
}
