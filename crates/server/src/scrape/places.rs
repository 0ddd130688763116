//! The places of targets that come together: their times, and the workers that scrape them.
//!
//! For each of their intervals there is a circle, in which those that keep their places are entered first.
//! A discovery may give each target an interval of its own, and a circle may have a megabyte: there are at
//! most [`MOST_CIRCLES`]. A target of a further interval goes where its hash says.
//!
//! A worker is a thread with timers and connections of its own, which no other helps: what is scraped at one
//! moment is scraped by one thread, and the others sleep on. A moment that is new goes to the worker that
//! has the fewest samples a second; after a start, when nothing is known of sizes, the fewest targets. It stays
//! there.

use std::time::Duration;

use hashbrown::HashMap;

use super::spread::{self, Circle, Place, Placed};

/// Circles at a time: 5 MB where intervals are below a minute.
const MOST_CIRCLES: usize = 16;

/// Places for new targets of one job. Setup: for as long as they are placed.
pub(super) struct Places {
    own: Vec<Placed>,
    others: Vec<Placed>,
    seed: u64,
    circles: HashMap<Duration, Circle>,
    workers: Workers,
}

impl Places {
    /// Among those that keep their places: `own` of the job, also where a successor keeps one, and `others`.
    pub(super) fn new(own: Vec<Placed>, others: Vec<Placed>, seed: u64, workers: usize) -> Self {
        let workers = Workers::new(workers, own.iter().chain(&others));
        Places { own, others, seed, circles: HashMap::new(), workers }
    }

    /// The place of a new target with this hash.
    pub(super) fn place(&mut self, interval: Duration, hash: u64) -> Place {
        let at = self.moment(interval, hash);
        Place { at, worker: self.workers.of_moment(interval, at) }
    }

    fn moment(&mut self, interval: Duration, hash: u64) -> Duration {
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

/// Which worker has what.
struct Workers {
    /// Samples a second of each, as far as they are known.
    loads: Vec<f64>,
    moments: HashMap<(Duration, Duration), usize>,
    /// Of those of which something is known: what a new one is taken for.
    samples_of_one: f64,
}

impl Workers {
    fn new<'a>(count: usize, placed: impl Iterator<Item = &'a Placed> + Clone) -> Self {
        let known = placed.clone().map(|placed| placed.samples).filter(|samples| *samples > 0);
        let (targets, samples) =
            known.fold((0u64, 0u64), |(count, sum), samples| (count + 1, sum + samples));
        let mut workers = Workers {
            loads: vec![0.0; count.max(1)],
            moments: HashMap::new(),
            samples_of_one: if targets == 0 { 1.0 } else { samples as f64 / targets as f64 },
        };
        for Placed { interval, place, samples } in placed {
            // The configuration may have had more workers than there are now.
            let worker = place.worker % workers.loads.len();
            workers.moments.entry((*interval, place.at)).or_insert(worker);
            let samples = if *samples == 0 { workers.samples_of_one } else { *samples as f64 };
            workers.loads[worker] += samples / seconds(*interval);
        }
        workers
    }

    fn of_moment(&mut self, interval: Duration, at: Duration) -> usize {
        let loads = &self.loads;
        let least = || (0..loads.len()).min_by(|a, b| loads[*a].total_cmp(&loads[*b]));
        let worker = *self.moments.entry((interval, at)).or_insert_with(|| least().unwrap_or(0));
        self.loads[worker] += self.samples_of_one / seconds(interval);
        worker
    }
}

fn seconds(interval: Duration) -> f64 {
    interval.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_intervals_have_few_circles_and_a_place_all_the_same() {
        let mut places = Places::new(Vec::new(), Vec::new(), 7, 2);
        let interval = |n: u64| Duration::from_millis(1000 + n);
        let mut halves = [0, 0];
        for n in 0..1000 {
            let at = places.place(interval(n), n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).at;
            assert!(at < interval(n), "{at:?}");
            halves[usize::from(at < interval(n) / 2)] += 1;
            assert_eq!(places.circles.len(), MOST_CIRCLES.min(n as usize + 1));
        }
        assert!(halves[0] > 400 && halves[1] > 400, "{halves:?}");
        // Those of the first intervals still go where the least is.
        let (first, second) = (places.place(interval(0), 1), places.place(interval(0), 1));
        assert_ne!(first.at, second.at);
    }

    /// Samples a second of each worker, and targets of each moment with their workers.
    fn shared_out(placed: &[Placed], workers: usize) -> (Vec<f64>, Vec<Vec<usize>>) {
        let mut loads = vec![0.0; workers];
        let mut moments: HashMap<(Duration, Duration), Vec<usize>> = HashMap::new();
        for Placed { interval, place, samples } in placed {
            loads[place.worker] += *samples as f64 / interval.as_secs_f64();
            moments.entry((*interval, place.at)).or_default().push(place.worker);
        }
        (loads, moments.into_values().collect())
    }

    #[test]
    fn a_moment_has_one_worker_and_workers_have_equal_parts() {
        // Targets, samples of each, interval; found one after the other.
        let jobs = [(40, 50_000, 10), (500, 1000, 10), (3, 200_000, 60), (1000, 200, 5)];
        for workers in [1, 2, 3, 8, 64] {
            let mut all: Vec<Placed> = Vec::new();
            for (targets, samples, interval) in jobs {
                let interval = Duration::from_secs(interval);
                let mut places = Places::new(Vec::new(), all.clone(), 5, workers);
                let place =
                    |hash| Placed { interval, place: places.place(interval, hash), samples };
                let new: Vec<_> = (0..targets).map(place).collect();
                all.extend(new);
            }
            let (loads, moments) = shared_out(&all, workers);
            let mean = loads.iter().sum::<f64>() / workers as f64;
            // A target is not divided: with more workers than heavy ones, some have one more.
            let most = loads.iter().copied().fold(0.0, f64::max);
            assert!(most <= 1.1 * mean + 10_000.0, "{workers}: {loads:?}");
            assert!(moments.iter().all(|moment| moment.iter().all(|one| *one == moment[0])));
            assert!(moments.iter().all(|moment| moment.len() <= 8), "{workers}");
        }
    }

    #[test]
    fn who_comes_later_goes_to_the_worker_that_has_less() {
        let interval = Duration::from_secs(10);
        let at = |n: u64| Duration::from_millis(700 * n);
        let heavy = |n| Placed { interval, place: Place { at: at(n), worker: 0 }, samples: 1000 };
        let own: Vec<_> = (0..5).map(heavy).collect();
        let mut places = Places::new(own, Vec::new(), 9, 2);
        let workers: Vec<_> = (0..5).map(|hash| places.place(interval, hash).worker).collect();
        assert_eq!(workers, [1; 5]);
    }
}
