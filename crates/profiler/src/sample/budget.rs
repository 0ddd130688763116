//! How often there is a tick, so that sampling costs no more than it may.
//!
//! 1. Time that passes earns an allowance: the share of one processor that sampling may take.
//! 2. A tick spends what it cost.
//! 3. The next tick is due after the usual pause, or when what was overspent is earned again; ten seconds
//!    at the latest, since a profile that has stopped is worth nothing.
//! 4. While nobody runs, pauses grow to eight times the usual one: there is nothing to see.

/// The longest pause, in nanoseconds.
pub(crate) const LONGEST: u64 = 10_000_000_000;

/// How much longer a pause may become while nobody runs.
const IDLE: u64 = 8;

/// Times in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    /// Of one processor.
    share: f64,
    /// The pause between ticks that cost nothing to speak of.
    tick: u64,
    /// What may be spent; below zero where more was.
    balance: f64,
    /// How many usual pauses the last one was for want of work.
    idle: u64,
}

impl Budget {
    /// `share` of one processor, above zero; `tick` between ticks at least.
    pub(crate) fn new(share: f64, tick: u64) -> Budget {
        Budget { share, tick, balance: 0.0, idle: 1 }
    }

    /// How long to pause after a tick that cost `cost`, `elapsed` after the one before. `idle`: no thread
    /// has run.
    pub(crate) fn pause(&mut self, elapsed: u64, cost: u64, idle: bool) -> u64 {
        let earned = elapsed as f64 * self.share;
        // What was not spent is not saved for long: a second's worth lets a burst of new threads be seen.
        let most = 1e9 * self.share;
        let least = -(LONGEST as f64) * self.share;
        self.balance = (self.balance + earned - cost as f64).clamp(least, most);
        self.idle = if idle { (self.idle * 2).min(IDLE) } else { 1 };
        let owed = if self.balance < 0.0 { (-self.balance / self.share) as u64 } else { 0 };
        owed.max(self.tick * self.idle).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 10_000_000;

    /// The share that ticks of a cost take in the long run, and the longest pause.
    fn share_of(mut budget: Budget, cost: impl Fn(u64) -> u64) -> (f64, u64) {
        let (mut time, mut spent, mut longest, mut pause) = (0, 0, 0, TICK);
        for tick in 0..10_000 {
            let elapsed = pause + cost(tick);
            time += elapsed;
            spent += cost(tick);
            pause = budget.pause(elapsed, cost(tick), false);
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

    #[test]
    fn pauses_grow_while_nobody_runs() {
        let mut budget = Budget::new(0.02, TICK);
        let pauses: Vec<_> = (0..5).map(|_| budget.pause(TICK, 1000, true) / TICK).collect();
        assert_eq!(pauses, [2, 4, 8, 8, 8]);
        assert_eq!(budget.pause(TICK, 1000, false), TICK);
    }
}
