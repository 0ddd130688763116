//! Where in its interval each target is scraped: so that samples per second are flat.
//!
//! A hash spreads targets like rain: of 500 that are scraped every 10 seconds, some seconds get 35 and
//! others 65. Here a new target goes where the least is, and those that have a place keep it:
//!
//! 1. The interval is a circle of arcs of about a second, and each arc is halved three times: an eighth
//!    of a second.
//! 2. A target goes into the arc, then into the halves, that hold the fewest targets of its job: targets
//!    of a job are alike, so that this is even also before anything is known of their sizes.
//! 3. Where these are equal, it goes where the fewest samples of all jobs are; where these are equal, to
//!    the place that is farthest from those that were taken before (the order of van der Corput).
//! 4. Within the eighth, eight targets are scraped at one *moment*, the next eight at another: the thread
//!    that one of them wakes does the others while its code and tables are in the caches. A scrape of 1,000
//!    series took 225 µs of a processor so, all by itself 370 (November 2026).
//!
//! Targets that come together are placed in the order of a hash of what they are and of the server, and
//! the circle begins where the server says: the same targets found in the same steps get the same places
//! after a restart, and two servers ask the same target at different times.

use std::time::Duration;

use hashbrown::HashMap;

const SECOND: u64 = 1_000_000_000;

/// Arcs of longer intervals are longer than a second.
const MOST_ARCS: u64 = 4096;

/// An arc is cut into 2 to this many parts.
const HALVINGS: u32 = 3;

/// Targets that are scraped at one moment: what one more saves gets less, and all their bodies are held at
/// once.
const TOGETHER: u32 = 8;

/// When and where a target is scraped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// From the beginning of the interval; intervals are counted from 1970.
    pub(super) at: Duration,
    /// The number of the worker.
    pub(super) worker: usize,
}

/// A target that has its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) interval: Duration,
    pub(super) place: Place,
    /// What its last scrape brought; 0 before the first.
    pub(super) samples: u64,
}

/// What part of a circle holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Load {
    /// Targets of the job whose targets are being placed.
    own: u32,
    /// Samples of all jobs.
    samples: u64,
}

/// Moments of an eighth of a second at most: some 120 microseconds from one to the next.
const MOMENTS: u32 = 1 << 10;

/// The places of one interval. Setup: at most a megabyte, for as long as targets are placed.
pub(super) struct Circle {
    interval: u64,
    /// Where the first arc begins.
    phase: u64,
    /// For each arc the tree of its halves: the arc at 1, the halves of `n` at `2n` and `2n + 1`.
    loads: Vec<Load>,
    /// Targets at each moment, by where it lies.
    moments: HashMap<u64, u32>,
    /// For each leaf the first of its moments that may have room, in the order in which they are filled.
    open: Vec<u32>,
    /// Arcs in the order in which equal ones are taken.
    order: Vec<u32>,
    /// Targets of which something is known, and their samples.
    known: (u64, u64),
}

impl Circle {
    /// An interval without targets, of the server with this seed.
    pub(super) fn new(interval: Duration, seed: u64) -> Self {
        let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
        let arcs = (interval / SECOND).clamp(1, MOST_ARCS);
        let mut order = Vec::with_capacity(arcs as usize);
        let mut seen = vec![false; arcs as usize];
        // So many points that each arc has one.
        for n in 0..arcs.next_power_of_two() as u32 {
            let arc = (u64::from(n.reverse_bits()) * arcs) >> 32;
            if !std::mem::replace(&mut seen[arc as usize], true) {
                order.push(arc as u32);
            }
        }
        Circle {
            interval,
            phase: mix(seed) % interval,
            loads: vec![Load::default(); (arcs as usize) << (HALVINGS + 1)],
            moments: HashMap::new(),
            open: vec![0; (arcs as usize) << HALVINGS],
            order,
            known: (0, 0),
        }
    }

    /// Enters a target that keeps its place; `own` if it is of the job whose targets are placed next.
    /// One of another interval is passed over.
    pub(super) fn enter(&mut self, placed: &Placed, own: bool) {
        if placed.interval.as_nanos() != u128::from(self.interval) {
            return;
        }
        let at = placed.place.at.as_nanos() as u64 % self.interval;
        let position = (at + self.interval - self.phase) % self.interval;
        // Arcs and leaves are equally long to a nanosecond.
        let leaves = self.open.len() as u128;
        let leaf = (u128::from(position) * leaves / u128::from(self.interval)) as u64;
        *self.moments.entry(position).or_default() += 1;
        if placed.samples > 0 {
            self.known = (self.known.0 + 1, self.known.1 + placed.samples);
        }
        self.add(leaf, Load { own: u32::from(own), samples: placed.samples.max(1) });
    }

    /// The place of a new target, which is entered as one of the job's.
    pub(super) fn place(&mut self) -> Duration {
        let arc = self.order.iter().copied().min_by_key(|arc| self.loads[self.node(*arc, 1)]);
        let arc = arc.unwrap_or(0);
        let mut place = 1;
        for _ in 0..HALVINGS {
            let (left, right) = (self.node(arc, 2 * place), self.node(arc, 2 * place + 1));
            place = 2 * place + u64::from(self.loads[right] < self.loads[left]);
        }
        let leaf = (u64::from(arc) << HALVINGS) + place - (1 << HALVINGS);
        let position = self.moment(leaf);
        // As much as others bring, or as little.
        let samples = self.known.1.checked_div(self.known.0).unwrap_or(1).max(1);
        self.add(leaf, Load { own: 1, samples });
        Duration::from_nanos(
            ((u128::from(position) + u128::from(self.phase)) % u128::from(self.interval)) as u64,
        )
    }

    /// Takes a place at the first moment of a leaf that has room: where in the circle it lies.
    fn moment(&mut self, leaf: u64) -> u64 {
        let leaves = (self.open.len() as u128) << 32;
        loop {
            let open = &mut self.open[leaf as usize];
            let within = (*open % MOMENTS).reverse_bits();
            let parts = (u128::from(leaf) << 32) + u128::from(within);
            let position = (u128::from(self.interval) * parts).div_ceil(leaves) as u64;
            let targets = self.moments.entry(position).or_default();
            // Where all are full, each takes as many again.
            if *targets < TOGETHER * (1 + *open / MOMENTS) {
                *targets += 1;
                return position;
            }
            *open += 1;
        }
    }

    fn node(&self, arc: u32, place: u64) -> usize {
        ((arc as usize) << (HALVINGS + 1)) + place as usize
    }

    fn add(&mut self, leaf: u64, load: Load) {
        let arc = (leaf >> HALVINGS) as u32;
        let mut place = (leaf & ((1 << HALVINGS) - 1)) | (1 << HALVINGS);
        while place > 0 {
            let node = self.node(arc, place);
            self.loads[node].own += load.own;
            self.loads[node].samples += load.samples;
            place >>= 1;
        }
    }
}

/// The place of a target that is in no circle.
pub(super) fn by_hash(interval: Duration, hash: u64, seed: u64) -> Duration {
    let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
    Duration::from_nanos(turn(hash, seed) % interval)
}

/// The order in which targets that come together are placed, by their hashes.
pub(super) fn turn(hash: u64, seed: u64) -> u64 {
    mix(hash ^ mix(seed))
}

/// Each bit of the result depends on all bits (the end of SplitMix64).
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use testkit::random::Random;

    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Places for new targets of a job, among those that are there.
    fn place(own: &mut Vec<Placed>, others: &[Placed], count: usize, interval: u64, seed: u64) {
        let mut circle = Circle::new(seconds(interval), seed);
        own.iter().for_each(|placed| circle.enter(placed, true));
        others.iter().for_each(|placed| circle.enter(placed, false));
        for _ in 0..count {
            let place = Place { at: circle.place(), worker: 0 };
            own.push(Placed { interval: seconds(interval), place, samples: 1000 });
        }
    }

    /// How much the samples of whole seconds differ, wherever seconds begin: the worst coefficient of
    /// variation.
    fn variation(placed: &[Placed]) -> f64 {
        let interval = placed[0].interval.as_secs() as usize;
        let of = |begin: u64| {
            let mut sums = vec![0.0; interval];
            for placed in placed {
                let at =
                    placed.place.at.as_nanos() as u64 + placed.interval.as_nanos() as u64 - begin;
                sums[(at / SECOND) as usize % interval] += placed.samples as f64;
            }
            let mean = sums.iter().sum::<f64>() / interval as f64;
            let square = sums.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>();
            (square / interval as f64).sqrt() / mean
        };
        (0..20).map(|part| of(part * SECOND / 20)).fold(0.0, f64::max)
    }

    /// As much as whole targets can be shared out evenly, and one more or less.
    fn bound(targets: usize, interval: u64) -> f64 {
        let per_second = targets as f64 / interval as f64;
        if (targets as u64).is_multiple_of(interval) { 0.5 / per_second } else { 1.0 / per_second }
    }

    #[test]
    fn samples_per_second_are_flat() {
        for (targets, interval) in [
            (500, 10),
            (500, 2),
            (5000, 5),
            (5000, 10),
            (10_000, 15),
            (50, 10),
            (333, 7),
            (1000, 60),
            (3000, 30),
            (100, 1),
            (4000, 3600),
        ] {
            for seed in [0, 1, 0x1234_5678_9abc_def0] {
                let mut placed = Vec::new();
                place(&mut placed, &[], targets, interval, seed);
                let (cv, most) = (variation(&placed), bound(targets, interval));
                assert!(cv <= most, "{targets} every {interval} s, seed {seed}: {cv} > {most}");
            }
        }
        // The bar: 500 targets of 1,000 series every 10 seconds.
        let mut placed = Vec::new();
        place(&mut placed, &[], 500, 10, 42);
        assert!(variation(&placed) <= 0.01, "{}", variation(&placed));
    }

    /// Jobs of many sizes and sample counts, found one after the other: each is flat, and so is the sum.
    #[test]
    fn jobs_are_flat_each_and_together() {
        let mut random = Random::new(5);
        let mut all = Vec::new();
        for (targets, samples) in [(40, 50_000), (500, 1000), (1, 300), (7, 20_000), (1200, 200)] {
            let mut own = Vec::new();
            place(&mut own, &all, targets, 10, 77);
            own.iter_mut().for_each(|placed| placed.samples = samples);
            let (cv, most) = (variation(&own), 1.0 / (targets as f64 / 10.0));
            assert!(cv <= most, "{targets}: {cv} > {most}");
            all.extend(own);
        }
        // Jobs of one target each are shared out by their samples.
        for _ in 0..400 {
            let mut own = Vec::new();
            place(&mut own, &all, 1, 10, 77);
            own[0].samples = 800 + random.next_u64() % 400;
            all.extend(own);
        }
        assert!(variation(&all) <= 0.03, "{}", variation(&all));
    }

    #[test]
    fn targets_that_come_and_go_leave_the_rest_flat_and_where_it_is() {
        let mut random = Random::new(9);
        let mut placed = Vec::new();
        place(&mut placed, &[], 2000, 10, 3);
        for round in 0..50 {
            // A tenth leaves, at random; somewhat more or fewer come.
            placed.retain(|_| !random.next_u64().is_multiple_of(10));
            let stay: Vec<_> = placed.iter().map(|placed| placed.place.at).collect();
            let come = 150 + (random.next_u64() % 100) as usize;
            place(&mut placed, &[], come, 10, 3);
            let before = placed.iter().map(|placed| placed.place.at).take(stay.len());
            assert!(before.eq(stay.iter().copied()), "round {round}");
            let cv = variation(&placed);
            assert!(cv <= 0.03, "round {round}: {cv} with {} targets", placed.len());
            let mut moments: HashMap<Duration, u32> = HashMap::new();
            placed.iter().for_each(|placed| *moments.entry(placed.place.at).or_default() += 1);
            assert!(moments.values().all(|targets| *targets <= TOGETHER), "round {round}");
        }
    }

    #[test]
    fn a_restart_changes_nothing_and_another_server_asks_at_other_times() {
        // In which place the targets stand after they were sorted by their turns.
        let places = |seed: u64| {
            let mut hashes: Vec<u64> = (0..1000u64).map(|n| n.wrapping_mul(0x9e37_79b9)).collect();
            hashes.sort_unstable_by_key(|hash| turn(*hash, seed));
            let mut placed = Vec::new();
            place(&mut placed, &[], hashes.len(), 10, seed);
            let mut of: Vec<_> =
                hashes.into_iter().zip(placed.iter().map(|p| p.place.at)).collect();
            of.sort_unstable();
            of
        };
        assert_eq!(places(1), places(1));
        let (one, other) = (places(1), places(2));
        let near =
            one.iter().zip(&other).filter(|((_, a), (_, b))| a.abs_diff(*b) < seconds(1) / 2);
        // By chance a tenth of them are within half a second.
        assert!((50..200).contains(&near.count()));
    }

    #[test]
    fn few_targets_are_far_apart_and_odd_intervals_have_places() {
        for (targets, interval) in [(2, 60), (4, 60), (8, 60), (2, 10), (4, 1), (16, 3600)] {
            let mut placed = Vec::new();
            place(&mut placed, &[], targets, interval, 11);
            placed.sort_unstable_by_key(|placed| placed.place.at);
            let next = placed.iter().cycle().skip(1);
            let gaps = placed.iter().zip(next).map(|(a, b)| {
                let gap = b.place.at + seconds(interval) - a.place.at;
                gap.as_nanos() % (u128::from(interval) * u128::from(SECOND))
            });
            let even = u128::from(interval) * u128::from(SECOND) / targets as u128;
            assert!(gaps.min().is_some_and(|gap| gap * 2 >= even), "{targets} in {interval} s");
        }
        for interval in [1, 7, 999_999, 1_000_000, 1_500_000_000, 2_999_999_999, u64::MAX / 2] {
            let interval = Duration::from_nanos(interval);
            let mut circle = Circle::new(interval, 99);
            for _ in 0..2000 {
                assert!(circle.place() < interval, "{interval:?}");
            }
        }
        // Those of other intervals are not in the way.
        let mut circle = Circle::new(seconds(10), 1);
        let first = Circle::new(seconds(10), 1).place();
        let place = Place { at: first, worker: 0 };
        circle.enter(&Placed { interval: seconds(5), place, samples: 1 }, true);
        assert_eq!(circle.place(), first);
    }
}
