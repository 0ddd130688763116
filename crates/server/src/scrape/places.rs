//! The places of targets that come together: for each of their intervals a circle, in which those that keep
//! their places are entered first.
//!
//! A discovery may give each target an interval of its own, and a circle has some hundred kilobytes: there
//! are at most [`MOST_CIRCLES`]. A target of a further interval goes where its hash says.

use std::time::Duration;

use hashbrown::HashMap;

use super::spread::{self, Circle, Placed};

/// Circles at a time: 5 MB.
const MOST_CIRCLES: usize = 16;

/// Places for new targets of one job. Setup: for as long as they are placed.
pub(super) struct Places {
    own: Vec<Placed>,
    others: Vec<Placed>,
    seed: u64,
    circles: HashMap<Duration, Circle>,
}

impl Places {
    /// Among those that keep their places: `own` of the job, also where a successor keeps one, and `others`.
    pub(super) fn new(own: Vec<Placed>, others: Vec<Placed>, seed: u64) -> Self {
        Places { own, others, seed, circles: HashMap::new() }
    }

    /// The place of a new target with this hash.
    pub(super) fn place(&mut self, interval: Duration, hash: u64) -> Duration {
        if self.circles.len() == MOST_CIRCLES && !self.circles.contains_key(&interval) {
            return spread::by_hash(interval, hash, self.seed);
        }
        let circle = self.circles.entry(interval).or_insert_with(|| {
            let mut circle = Circle::new(interval, self.seed);
            self.own.iter().for_each(|placed| circle.enter(placed, true));
            self.others.iter().for_each(|placed| circle.enter(placed, false));
            circle
        });
        circle.place()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_intervals_have_few_circles_and_a_place_all_the_same() {
        let mut places = Places::new(Vec::new(), Vec::new(), 7);
        let interval = |n: u64| Duration::from_millis(1000 + n);
        let mut halves = [0, 0];
        for n in 0..1000 {
            let at = places.place(interval(n), n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            assert!(at < interval(n), "{at:?}");
            halves[usize::from(at < interval(n) / 2)] += 1;
            assert_eq!(places.circles.len(), MOST_CIRCLES.min(n as usize + 1));
        }
        assert!(halves[0] > 400 && halves[1] > 400, "{halves:?}");
        // Those of the first intervals still go where the least is.
        let (first, second) = (places.place(interval(0), 1), places.place(interval(0), 1));
        assert_ne!(first, second);
    }
}
