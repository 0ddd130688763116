//! Whose processor time is in the profile already.
//!
//! 1. A thread that is there has what its clock says, shared among its samples.
//! 2. A thread that is gone has what its samples say: up to the last of them.
//! 3. What the process had beyond that, and beyond what threads that are there wait for, was had by threads
//!    that ended: before their first sample, or after their last.

/// One thread's.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// What its clock showed when it got its time last.
    cpu: u64,
    /// How much of that was behind the last sample.
    ahead: u64,
}

impl Account {
    /// Of a thread whose clock shows `cpu`, which counts from now.
    pub(super) fn at(cpu: u64) -> Account {
        Account { cpu, ahead: 0 }
    }

    /// What its samples of `periods` nanoseconds together, of which the last had `last`, are to be given.
    /// `now` is what its clock shows; none if it is gone.
    pub(super) fn owed(&mut self, now: Option<u64>, periods: u64, last: u64) -> u64 {
        let Some(now) = now else {
            let owed = periods.saturating_sub(self.ahead);
            self.ahead = self.ahead.saturating_sub(periods);
            return owed;
        };
        let owed = now.saturating_sub(self.cpu);
        self.cpu = now;
        // Counters that rested have no samples for a part, so it is less than a period whatever was given.
        self.ahead = (self.ahead + owed).saturating_sub(periods).min(last);
        owed
    }

    /// What it had and has not got, when its clock shows `cpu`.
    pub(super) fn waiting(&self, cpu: u64) -> u64 {
        cpu.saturating_sub(self.cpu)
    }

    /// Whether a thread whose clock shows `cpu` is another one with the same id.
    pub(super) fn is_of_another(&self, cpu: u64) -> bool {
        cpu < self.cpu
    }
}

/// The whole process'.
#[derive(Debug)]
pub(super) struct Balance {
    /// What its clock showed when it began.
    begun: u64,
    /// What is in the profile of what came since.
    given: u64,
}

impl Balance {
    pub(super) fn at(begun: u64) -> Balance {
        Balance { begun, given: 0 }
    }

    /// Some of it went into the profile.
    pub(super) fn give(&mut self, cpu: u64) {
        self.given += cpu;
    }

    /// What nobody is left to get, as given. The process' clock showed `process` before the clocks of the
    /// threads that are there were read, which wait for `waiting`: so it is never too much.
    pub(super) fn left_over(&mut self, process: u64, waiting: u64) -> u64 {
        let had = process.saturating_sub(self.begun);
        let left = had.saturating_sub(self.given + waiting);
        self.give(left);
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_gone_is_given_no_more_than_it_had() {
        // What its clock shows as its samples of 100 are read, how many there are; what they get.
        let cases = [
            (vec![(Some(150), 1), (Some(220), 1)], vec![150, 70]),
            (vec![(Some(150), 1), (None, 1)], vec![150, 50]),
            (vec![(Some(199), 1), (None, 3)], vec![199, 201]),
            (vec![(None, 2), (None, 1)], vec![200, 100]),
            // A rest of 1,000 in between.
            (vec![(Some(150), 1), (Some(1250), 1), (None, 1)], vec![150, 1100, 0]),
        ];
        for (reads, expected) in cases {
            let mut account = Account::at(0);
            let given: Vec<_> =
                reads.iter().map(|&(now, count)| account.owed(now, 100 * count, 100)).collect();
            assert_eq!(given, expected, "{reads:?}");
        }
    }

    #[test]
    fn what_is_left_over_is_given_once() {
        let mut balance = Balance::at(1000);
        balance.give(300);
        assert_eq!(balance.left_over(1500, 200), 0);
        assert_eq!(balance.left_over(1500, 150), 50);
        assert_eq!(balance.left_over(1500, 150), 0);
        // Given since the clock was read.
        balance.give(400);
        assert_eq!(balance.left_over(1600, 0), 0);
        assert_eq!(balance.left_over(1760, 0), 10);
    }
}
