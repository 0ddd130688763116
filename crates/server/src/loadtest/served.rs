//! What a fleet says that it served: `/status`, sums since its start and counts of each second.

use serde::Deserialize;

/// The parts of `/status` that are needed.
#[derive(Debug, Deserialize)]
pub(super) struct Served {
    pub(super) totals: Totals,
    seconds: Seconds,
    targets: Targets,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Targets {
    /// That do as they should.
    healthy: u64,
    /// Of those, that were ever asked.
    asked: u64,
}

/// Sums since the start, of healthy targets.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) scrapes: u64,
    pub(super) samples: u64,
    /// Of all answers.
    pub(super) bytes: u64,
    /// Scrapes that were due and didn't come.
    pub(super) missed: u64,
}

/// Counts of each second that is over.
#[derive(Debug, Deserialize)]
struct Seconds {
    /// The number of the first one, counted from the start.
    first: u64,
    samples: Vec<u64>,
}

impl Served {
    pub(super) fn read(body: &str) -> Result<Self, String> {
        serde_json::from_str(body)
            .map_err(|error| format!("the fleet's /status is not understood: {error}"))
    }

    /// Targets that do as they should.
    pub(super) fn healthy(&self) -> u64 {
        self.targets.healthy
    }

    /// Of those, how many the server never came to: the fleet misses no scrapes of them.
    pub(super) fn never_asked(&self) -> u64 {
        self.targets.healthy.saturating_sub(self.targets.asked)
    }

    /// The number of the second that isn't over yet.
    pub(super) fn now(&self) -> u64 {
        self.seconds.first + self.seconds.samples.len() as u64
    }

    /// Samples of the seconds from `from` on that are over before `to`; 0 where nothing is known.
    pub(super) fn samples(&self, from: u64, to: u64) -> Vec<u64> {
        let at = |second: u64| {
            let place = second.checked_sub(self.seconds.first)?;
            self.seconds.samples.get(usize::try_from(place).ok()?).copied()
        };
        (from..to).map(|second| at(second).unwrap_or(0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_found_by_their_number() {
        let body = "{\"since\":\"x\",\"targets\":{\"all\":9,\"healthy\":8,\"misbehaving\":1,\"asked\":7},\
                    \"totals\":{\"scrapes\":4,\"samples\":40,\"bytes\":400,\"missed\":1,\"broken_off\":0},\
                    \"seconds\":{\"first\":10,\"scrapes\":[1,1,2],\"samples\":[10,10,20],\"bytes\":[1,2,3]}}";
        let served = Served::read(body).unwrap();
        assert_eq!((served.healthy(), served.never_asked(), served.now()), (8, 1, 13));
        assert_eq!(served.totals, Totals { scrapes: 4, samples: 40, bytes: 400, missed: 1 });
        assert_eq!(served.samples(9, 13), [0, 10, 10, 20]);
        assert_eq!(served.samples(12, 15), [20, 0, 0]);
        assert!(
            Served::read("{}").unwrap_err().contains("/status is not understood: missing field")
        );
    }
}
