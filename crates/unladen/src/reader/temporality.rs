//! What values count from.

use crate::described::Role;

/// What the value of a sum or a histogram counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Temporality {
    /// The begin of the series: a value that was not received is made up for by the next.
    #[default]
    Cumulative,
    /// The last collection: values have to be added up by who gets them.
    Delta,
}

/// A temporality for each role; gauges have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Temporalities {
    /// Of counters.
    pub counter: Temporality,
    /// Of counters whose values are asked for, and of those that collectors write.
    pub observable_counter: Temporality,
    /// Of up-down counters.
    pub up_down_counter: Temporality,
    /// Of up-down counters whose values are asked for.
    pub observable_up_down_counter: Temporality,
    /// Of histograms.
    pub histogram: Temporality,
}

impl Temporalities {
    /// Everything cumulative: what most backends want.
    pub const CUMULATIVE: Temporalities = Temporalities {
        counter: Temporality::Cumulative,
        observable_counter: Temporality::Cumulative,
        up_down_counter: Temporality::Cumulative,
        observable_up_down_counter: Temporality::Cumulative,
        histogram: Temporality::Cumulative,
    };

    /// Counters and histograms as differences; what goes up and down stays cumulative, because its sum
    /// is what is looked at.
    pub const DELTA: Temporalities = Temporalities {
        counter: Temporality::Delta,
        observable_counter: Temporality::Delta,
        histogram: Temporality::Delta,
        ..Temporalities::CUMULATIVE
    };

    /// Differences where they spare whoever collects the last values: not for counters that are asked
    /// for, which are cumulative where they come from.
    pub const LOW_MEMORY: Temporalities =
        Temporalities { observable_counter: Temporality::Cumulative, ..Temporalities::DELTA };

    /// What holds for a family.
    pub(super) fn of(&self, role: Role, is_observable: bool) -> Option<Temporality> {
        match (role, is_observable) {
            (Role::Counter, false) => Some(self.counter),
            (Role::Counter, true) => Some(self.observable_counter),
            (Role::UpDownCounter, false) => Some(self.up_down_counter),
            (Role::UpDownCounter, true) => Some(self.observable_up_down_counter),
            (Role::Histogram, _) => Some(self.histogram),
            (Role::Gauge, _) => None,
        }
    }

    /// Whether a series with handles that ended has something left to tell.
    pub(super) fn has_delta_of_handles(&self) -> bool {
        [self.counter, self.up_down_counter, self.histogram].contains(&Temporality::Delta)
    }
}
