//! How often there is a tick, so that sampling costs no more than it may.
//!
//! 1. Time that passes earns an allowance: the share of one processor that sampling may take.
//! 2. A tick spends what it cost.
//! 3. The next tick is due after the usual pause, or when what was overspent is earned again; ten seconds
//!    at the latest, since a profile that has stopped is worth nothing.
//! 4. The usual pause is for a program that has a fifth of a processor or more. One that has less is asked
//!    more rarely, so that as much of its work lies between two ticks, up to 25 usual pauses: there is less
//!    to see, and what it costs to look should not be a large part of a program that does little.
//! 5. For the same reason the share holds of what such a program has, too, within that longest pause: a tick
//!    that cost 100 µs, of which 2% may be spent, waits for 5 ms of the program's work.
//!
//! No time is lost by a longer pause: each thread's clock says what it had since it was asked last. What
//! there is less of is stacks: how a thread's time is spread over what it did is known from as many of them
//! as it had ticks while it ran. With twice the pause it takes twice as long to be as sure.

/// The longest pause, in nanoseconds.
pub(crate) const LONGEST: u64 = 10_000_000_000;

/// The program's processor time between ticks, as a part of the usual pause: where it has more, the pause
/// does not grow.
const WORK: u64 = 5;

/// How many usual pauses one may become for want of work.
const SELDOM: u64 = 25;

/// Ticks over which what one costs is averaged: each list of threads, and each new stack, makes one dearer.
const RECENT: f64 = 8.0;

/// Times in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    /// Of one processor.
    share: f64,
    /// The pause between ticks that cost nothing to speak of.
    tick: u64,
    /// What may be spent; below zero where more was.
    balance: f64,
    /// The pause that what the program does asks for.
    wanted: u64,
    /// What a tick costs.
    cost: f64,
}

impl Budget {
    /// `share` of one processor, above zero; `tick` between ticks at least.
    pub(crate) fn new(share: f64, tick: u64) -> Budget {
        Budget { share, tick, balance: 0.0, wanted: tick, cost: 0.0 }
    }

    /// How long to pause after a tick that cost `cost`, `elapsed` after the one before, in which the
    /// program had `ran` of its processors.
    pub(crate) fn pause(&mut self, elapsed: u64, cost: u64, ran: u64) -> u64 {
        let earned = elapsed as f64 * self.share;
        // What was not spent is not saved for long: a second's worth lets a burst of new threads be seen.
        let most = 1e9 * self.share;
        let least = -(LONGEST as f64) * self.share;
        self.balance = (self.balance + earned - cost as f64).clamp(least, most);
        self.cost += (cost as f64 - self.cost) / RECENT;
        let work = (self.tick as f64 / WORK as f64).max(self.cost / self.share);
        let enough = elapsed as f64 / ran.max(1) as f64 * work;
        // Twice as long at most, since one quiet moment says little of the next; shorter at once.
        let longest = self.wanted.saturating_mul(2).min(self.tick.saturating_mul(SELDOM));
        self.wanted = (enough as u64).min(longest).max(self.tick);
        let owed = if self.balance < 0.0 { (-self.balance / self.share) as u64 } else { 0 };
        owed.max(self.wanted).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 20_000_000;

    /// The share that ticks of a cost take in the long run, and the longest pause.
    fn share_of(mut budget: Budget, cost: impl Fn(u64) -> u64) -> (f64, u64) {
        let (mut time, mut spent, mut longest, mut pause) = (0, 0, 0, TICK);
        for tick in 0..10_000 {
            let elapsed = pause + cost(tick);
            time += elapsed;
            spent += cost(tick);
            pause = budget.pause(elapsed, cost(tick), elapsed);
            longest = longest.max(pause);
        }
        (spent as f64 / time as f64, longest)
    }

    #[test]
    fn cheap_ticks_come_at_the_usual_pause() {
        let (share, longest) = share_of(Budget::new(0.02, TICK), |_| 50_000);
        assert!(share < 0.006, "{share}");
        assert_eq!(longest, TICK);
    }

    #[test]
    fn dear_ticks_keep_to_the_share() {
        for cost in [400_000, 1_000_000, 20_000_000] {
            let (share, _) = share_of(Budget::new(0.02, TICK), |_| cost);
            assert!((0.018..0.0202).contains(&share), "{cost}: {share}");
        }
        let (share, _) = share_of(Budget::new(0.02, TICK), |tick| 50_000 + tick % 7 * 300_000);
        assert!(share < 0.0202, "{share}");
    }

    #[test]
    fn no_pause_is_longer_than_ten_seconds() {
        let (_, longest) = share_of(Budget::new(0.001, TICK), |_| 1_000_000_000);
        assert_eq!(longest, LONGEST);
    }

    /// The pause that a program comes to which has this share of a processor, in milliseconds.
    fn pause_at(share: f64, cost: u64, budget: &mut Budget) -> u64 {
        let mut pause = TICK;
        for _ in 0..100 {
            pause = budget.pause(pause, cost, (pause as f64 * share) as u64);
        }
        (pause + 500_000) / 1_000_000
    }

    #[test]
    fn a_pause_has_as_much_work_in_it_within_bounds() {
        for (share, milliseconds) in [
            (0.0, 500),
            (0.000_1, 500),
            (0.008, 500),
            (0.02, 200),
            (0.04, 100),
            (0.08, 50),
            (0.2, 20),
            (0.5, 20),
            (1.0, 20),
            (64.0, 20),
        ] {
            let mut budget = Budget::new(0.02, TICK);
            assert_eq!(
                pause_at(share, 1000, &mut budget),
                milliseconds,
                "at {share} of a processor"
            );
        }
    }

    #[test]
    fn a_tick_takes_its_share_of_what_the_program_has_within_bounds() {
        for (share, cost, milliseconds) in [
            // Up to 80 µs cost no more than 2% of 4 ms.
            (0.04, 80_000, 100),
            (0.04, 160_000, 200),
            (0.08, 160_000, 100),
            (0.3, 160_000, 27),
            (1.0, 160_000, 20),
            (0.04, 800_000, 500),
            (0.001, 160_000, 500),
        ] {
            let mut budget = Budget::new(0.02, TICK);
            let pause = pause_at(share, cost, &mut budget);
            assert_eq!(pause, milliseconds, "at {share} of a processor, {cost} ns");
        }
        let mut budget = Budget::new(0.5, TICK);
        assert_eq!(pause_at(0.2, 800_000, &mut budget), 20, "more may be spent");
    }

    #[test]
    fn one_dear_tick_among_many_changes_little() {
        let mut budget = Budget::new(0.02, TICK);
        assert_eq!(pause_at(0.04, 160_000, &mut budget), 200);
        let pause = budget.pause(10 * TICK, 320_000, 8_000_000);
        assert_eq!((pause + 500_000) / 1_000_000, 225);
    }

    #[test]
    fn pauses_grow_step_by_step_and_shrink_at_once() {
        let mut budget = Budget::new(0.02, TICK);
        let pauses: Vec<_> = (0..6).map(|_| budget.pause(TICK, 1000, 0) / TICK).collect();
        assert_eq!(pauses, [2, 4, 8, 16, 25, 25]);
        assert_eq!(budget.pause(25 * TICK, 1000, 25 * TICK), TICK);
    }

    #[test]
    fn usual_pauses_of_any_length_are_allowed() {
        let pause = |tick| {
            let mut budget = Budget::new(0.02, tick);
            (0..9).map(|_| budget.pause(TICK, 1000, 0)).max()
        };
        assert_eq!(pause(1), Some(25));
        assert_eq!(pause(LONGEST / 2), Some(LONGEST));
        assert_eq!(pause(i64::MAX as u64), Some(LONGEST));
        // One tick follows the other: what is overspent alone makes them wait.
        assert_eq!(Budget::new(1.0, 0).pause(TICK, 1000, 0), 0);
    }
}
