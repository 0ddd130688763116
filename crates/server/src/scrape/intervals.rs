//! How regularly targets are scraped: the distances between scrapes, per configured interval.
//!
//! What matters is how far a distance is from the interval, from microseconds to the interval itself:
//! the classes of deviation grow by a quarter. Two halves of ten minutes are kept, so that what is
//! shown is of the last five to ten minutes, as with Prometheus' summary.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::duration;

/// The quantiles that Prometheus shows.
pub(super) const QUANTILES: [f64; 5] = [0.01, 0.05, 0.5, 0.9, 0.99];

/// Classes on each side of the interval: from 10 µs to about an hour.
const SIDE: usize = 90;
const SMALLEST_NS: f64 = 10_000.0;
const GROWTH: f64 = 1.25;

const HALF: Duration = Duration::from_secs(5 * 60);

/// All intervals in use.
#[derive(Default)]
pub(super) struct Intervals {
    known: Mutex<Vec<Arc<Distances>>>,
}

impl Intervals {
    /// The distances of targets with this interval. Growth.
    pub(super) fn of(&self, interval: Duration) -> Arc<Distances> {
        let mut known = self.known.lock();
        if let Some(distances) = known.iter().find(|distances| distances.interval == interval) {
            return distances.clone();
        }
        let distances = Arc::new(Distances::new(interval));
        known.push(distances.clone());
        distances
    }

    pub(super) fn all(&self) -> Vec<Arc<Distances>> {
        self.known.lock().clone()
    }
}

/// The distances between scrapes of the targets with one interval.
pub(super) struct Distances {
    interval: Duration,
    /// The interval as Prometheus writes it.
    pub(super) shown: String,
    halves: [Half; 2],
    born: Instant,
    /// How many halves have begun: the last one is being filled.
    turn: AtomicU64,
    count: AtomicU64,
    nanoseconds: AtomicU64,
}

struct Half {
    classes: [AtomicU32; 2 * SIDE + 1],
}

impl Half {
    #[cold]
    fn clear(&self) {
        for class in &self.classes {
            class.store(0, Ordering::Relaxed);
        }
    }
}

impl Distances {
    fn new(interval: Duration) -> Self {
        let half = || Half { classes: std::array::from_fn(|_| AtomicU32::new(0)) };
        Distances {
            interval,
            shown: duration::format(interval),
            halves: [half(), half()],
            born: Instant::now(),
            turn: AtomicU64::new(0),
            count: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
        }
    }

    /// Takes in the distance to a scrape that begins `now`. Steady: takes no lock.
    pub(super) fn observe(&self, distance: Duration, now: Instant) {
        let nanoseconds = u64::try_from(distance.as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        let turn = now.saturating_duration_since(self.born).as_secs() / HALF.as_secs();
        let half = &self.halves[(turn % 2) as usize];
        let before = self.turn.fetch_max(turn, Ordering::Relaxed);
        if before < turn {
            // Whoever comes first empties it; what others enter meanwhile may get lost.
            half.clear();
            if before + 1 < turn {
                self.halves[((turn + 1) % 2) as usize].clear();
            }
        }
        half.classes[self.class_of(distance)].fetch_add(1, Ordering::Relaxed);
    }

    /// How many distances there were, and their sum in seconds.
    pub(super) fn totals(&self) -> (u64, f64) {
        let seconds = self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9;
        (self.count.load(Ordering::Relaxed), seconds)
    }

    /// The quantiles of the last minutes in seconds; NaN when there were no distances.
    pub(super) fn quantiles(&self) -> [f64; QUANTILES.len()] {
        let counts: Vec<u64> = (0..=2 * SIDE)
            .map(|class| {
                self.halves
                    .iter()
                    .map(|half| u64::from(half.classes[class].load(Ordering::Relaxed)))
                    .sum()
            })
            .collect();
        let total: u64 = counts.iter().sum();
        QUANTILES.map(|quantile| {
            let rank = (quantile * total as f64).ceil().max(1.0) as u64;
            let mut below = 0;
            let class = counts.iter().position(|count| {
                below += count;
                below >= rank
            });
            class.filter(|_| total > 0).map_or(f64::NAN, |class| self.middle_of(class))
        })
    }

    fn class_of(&self, distance: Duration) -> usize {
        let deviation = distance.abs_diff(self.interval).as_nanos() as f64;
        let steps = (deviation / SMALLEST_NS).max(1.0).ln() / GROWTH.ln();
        let steps = (steps.ceil() as usize).min(SIDE);
        if distance < self.interval { SIDE - steps } else { SIDE + steps }
    }

    fn middle_of(&self, class: usize) -> f64 {
        let steps = class.abs_diff(SIDE);
        let deviation = match steps {
            0 => 0.0,
            steps => SMALLEST_NS * GROWTH.powi(steps as i32) / GROWTH.sqrt() / 1e9,
        };
        let interval = self.interval.as_secs_f64();
        if class < SIDE { (interval - deviation).max(0.0) } else { interval + deviation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn quantiles_of_the_last_minutes() {
        let intervals = Intervals::default();
        let distances = intervals.of(Duration::from_secs(15));
        assert!(distances.quantiles().iter().all(|quantile| quantile.is_nan()));
        for n in 0..100u64 {
            // 90 on time, 5 early by a second, 5 late by two.
            let milliseconds = match n {
                0..5 => 14_000,
                5..95 => 15_000,
                _ => 17_000,
            };
            distances.observe(Duration::from_millis(milliseconds), Instant::now());
        }
        let expected = [14.0, 14.0, 15.0, 15.0, 17.0];
        for (got, expected) in distances.quantiles().into_iter().zip(expected) {
            assert!((got - expected).abs() < 0.25, "{:?}", distances.quantiles());
        }
        assert_eq!(distances.totals(), (100, 5.0 * 14.0 + 90.0 * 15.0 + 5.0 * 17.0));
        for _ in 0..2 {
            tokio::time::advance(HALF * 2).await;
            distances.observe(Duration::from_secs(15), Instant::now());
        }
        assert_eq!(distances.quantiles(), [15.0; 5]);
    }
}
