//! What was served, second by second, and what came late.
//!
//! Seconds are counted from the start; the last day is kept. A healthy target has *missed* scrapes where
//! one and a half intervals passed without it being asked: as many as would have fitted in between. A
//! target counts from its first scrape on, so that a server may take its time to find the fleet.

use std::collections::VecDeque;
use std::time::Duration;

/// Seconds that are kept.
const KEPT: usize = 86_400;

/// Sums since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Answers of healthy targets, given in full.
    pub scrapes: u64,
    /// Samples in them.
    pub samples: u64,
    /// Bytes of all answers, heads and those of misbehaving targets included.
    pub bytes: u64,
    /// Scrapes of healthy targets that were due and didn't come.
    pub missed: u64,
    /// Answers of healthy targets that the client didn't take to the end.
    pub broken_off: u64,
    /// Requests to misbehaving targets.
    pub misbehaved: u64,
    /// Connections that were taken.
    pub connections: u64,
}

/// What was served in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Answers of healthy targets that were complete in it.
    pub scrapes: u32,
    /// Samples in them.
    pub samples: u64,
    /// Bytes of all answers.
    pub bytes: u64,
}

pub(super) struct Served {
    interval: Duration,
    pub(super) totals: Totals,
    /// The number of the first second that is kept.
    first: u64,
    seconds: VecDeque<Second>,
    /// When each target was last asked, since the start; `None`: never.
    asked: Vec<Option<Duration>>,
    /// Connections that are open.
    pub(super) open: usize,
}

impl Served {
    pub(super) fn new(targets: usize, interval: Duration) -> Self {
        Served {
            interval,
            totals: Totals::default(),
            first: 0,
            // All of a day at once: 2 MiB, of which the system gives what is used.
            seconds: VecDeque::with_capacity(KEPT + 1),
            asked: vec![None; targets],
            open: 0,
        }
    }

    /// A healthy target is asked. *Steady.*
    pub(super) fn asked(&mut self, target: usize, now: Duration) {
        let last = self.asked[target].replace(now);
        self.totals.missed += last.map_or(0, |last| missed(now - last, self.interval));
    }

    /// Bytes went out. *Steady.*
    pub(super) fn sent(&mut self, bytes: usize, now: Duration) {
        self.totals.bytes += bytes as u64;
        self.second(now).bytes += bytes as u64;
    }

    /// A healthy target's answer is complete. *Steady.*
    pub(super) fn completed(&mut self, samples: usize, now: Duration) {
        self.totals.scrapes += 1;
        self.totals.samples += samples as u64;
        let second = self.second(now);
        second.scrapes += 1;
        second.samples += samples as u64;
    }

    fn second(&mut self, now: Duration) -> &mut Second {
        let first = self.first;
        // Who comes late to a second that is forgotten counts for the first that is kept.
        let place = now.as_secs().saturating_sub(first) as usize;
        while self.seconds.len() <= place - (self.first - first) as usize {
            if self.seconds.len() == KEPT {
                self.seconds.pop_front();
                self.first += 1;
            }
            self.seconds.push_back(Second::default());
        }
        &mut self.seconds[place - (self.first - first) as usize]
    }

    /// The sums, with what is late at the moment.
    pub(super) fn totals(&self, now: Duration) -> Totals {
        let late = self.asked.iter().flatten().map(|last| missed(now - *last, self.interval));
        Totals { missed: self.totals.missed + late.sum::<u64>(), ..self.totals }
    }

    /// Healthy targets that were asked at least once.
    pub(super) fn seen(&self) -> usize {
        self.asked.iter().flatten().count()
    }

    /// The last seconds that are over, at most so many, and the number of the first of them.
    pub(super) fn seconds(&self, last: usize, now: Duration) -> (u64, Vec<Second>) {
        let over = now.as_secs().saturating_sub(self.first) as usize;
        let from = over.saturating_sub(last.min(KEPT));
        let at = |place: usize| self.seconds.get(place).copied().unwrap_or_default();
        (self.first + from as u64, (from..over).map(at).collect())
    }
}

/// How many scrapes fell out between two that came so far apart.
fn missed(gap: Duration, interval: Duration) -> u64 {
    if gap * 2 <= interval * 3 {
        return 0;
    }
    (gap.as_secs_f64() / interval.as_secs_f64()).round() as u64 - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_was_missed() {
        let second = Duration::from_secs(1);
        for (gap, expected) in [(0, 0), (10, 0), (15, 0), (16, 1), (24, 1), (26, 2), (100, 9)] {
            assert_eq!(missed(second * gap, second * 10), expected, "{gap}");
        }
        let mut served = Served::new(3, second * 10);
        served.asked(0, second);
        served.asked(1, second * 2);
        served.asked(0, second * 11);
        assert_eq!((served.totals(second * 12).missed, served.seen()), (0, 2));
        assert_eq!(served.totals(second * 23).missed, 1, "target 1 is late");
        served.asked(1, second * 23);
        assert_eq!(served.totals(second * 24).missed, 1, "and stays counted");
    }

    #[test]
    fn seconds_are_kept_for_a_day() {
        let second = Duration::from_secs(1);
        let mut served = Served::new(1, second);
        served.sent(10, second / 2);
        served.completed(5, second / 2);
        served.completed(7, second * 3);
        let (first, seconds) = served.seconds(100, second * 5);
        assert_eq!(first, 0);
        assert_eq!(seconds.iter().map(|it| it.samples).collect::<Vec<_>>(), [5, 0, 0, 7, 0]);
        assert_eq!(seconds[0], Second { scrapes: 1, samples: 5, bytes: 10 });
        let (first, seconds) = served.seconds(2, second * 5);
        assert_eq!((first, seconds[0].samples, seconds.len()), (3, 7, 2));
        let days = second * 86_400 * 2;
        served.completed(9, days);
        let (first, seconds) = served.seconds(usize::MAX, days + second);
        assert_eq!((first, seconds.len()), (86_401, KEPT));
        assert_eq!(seconds.last().map(|it| it.samples), Some(9));
    }
}
