//! A body that is written by changing digits in place.
//!
//! All targets of a shape have the same text but for the digits of their values and the identities of
//! their units, and both have places of fixed width. So there is one text for all targets, and a body is:
//!
//! 1. [`Template::load`]: which generation each unit has at this moment, its seed and its identity
//! 2. [`Template::render`]: the digits and identities that stand in a range of the text are written over
//! 3. the range goes to the socket as it is
//!
//! Where a socket takes less than was offered, the same bytes are made again when it has room: the
//! moment is all that a connection keeps. A target needs no memory for its body, and a body has the same
//! length at each moment.

use std::ops::Range;

use super::identity::{self, Churn, Piece};
use super::value::{Moment, Slot, mix, write_digits};

/// No entry is wider: where a range begins, those that begin so much earlier may reach into it.
const WIDEST: usize = 64;

/// Where a part of an identity stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    pub(super) at: u32,
    pub(super) unit: u32,
    pub(super) piece: Piece,
}

/// The text of a shape, and what changes in it.
pub(super) struct Template {
    pub(super) text: Vec<u8>,
    /// By place.
    pub(super) slots: Vec<Slot>,
    /// By place.
    pub(super) names: Vec<Name>,
    pub(super) series: usize,
    /// Series of units that can be replaced.
    pub(super) replaceable: usize,
    pub(super) churn: Churn,
    /// Unit 0 is the target itself, which is never replaced.
    units: Vec<Unit>,
    loaded: Option<(u64, Moment)>,
}

#[derive(Clone)]
struct Unit {
    seed: u64,
    identity: [u8; identity::WIDTH],
}

impl Template {
    /// *Setup.*
    pub(super) fn new(units: usize) -> Self {
        Template {
            text: Vec::new(),
            slots: Vec::new(),
            names: Vec::new(),
            series: 0,
            replaceable: 0,
            churn: Churn { life_ticks: f64::INFINITY },
            units: vec![Unit { seed: 0, identity: [b'0'; identity::WIDTH] }; units],
            loaded: None,
        }
    }

    /// Bytes of every body.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Bytes that it holds.
    pub(super) fn memory_usage(&self) -> usize {
        self.text.capacity()
            + self.slots.capacity() * size_of::<Slot>()
            + self.names.capacity() * size_of::<Name>()
            + self.units.capacity() * size_of::<Unit>()
    }

    /// From here on, it is the body of the target with this seed at this moment. *Steady.*
    pub(super) fn load(&mut self, target_seed: u64, moment: Moment) {
        if self.loaded == Some((target_seed, moment)) {
            return;
        }
        self.loaded = Some((target_seed, moment));
        for (number, unit) in self.units.iter_mut().enumerate() {
            let generation = match number {
                0 => 0,
                _ => self.churn.generation(number, target_seed, moment.tick),
            };
            let seed = mix(mix(target_seed ^ number as u64) ^ generation);
            // Most often it is the neighbour's turn; the first target has no other.
            if unit.seed != seed {
                unit.seed = seed;
                identity::write(&mut unit.identity, seed);
            }
        }
    }

    /// The bytes of `range`, as they are at the moment that was loaded. *Steady.*
    pub(super) fn render(&mut self, range: Range<usize>) -> &[u8] {
        let moment = self.loaded.map_or(Moment { tick: 0, unix_ms: 0 }, |(_, moment)| moment);
        let begin = range.start.saturating_sub(WIDEST);
        for slot in within(&self.slots, begin, range.end, |slot| slot.at) {
            let seed = self.units[slot.unit as usize].seed;
            let seed = mix(seed ^ (u64::from(slot.group) << 32));
            let value = slot.motion.at(seed, moment);
            write_digits(&mut self.text[slot.at as usize..], value, slot.digits, slot.point);
        }
        for name in within(&self.names, begin, range.end, |name| name.at) {
            let identity = &self.units[name.unit as usize].identity;
            let (at, from) = (name.at as usize, usize::from(name.piece.from));
            let len = usize::from(name.piece.len);
            self.text[at..at + len].copy_from_slice(&identity[from..from + len]);
        }
        &self.text[range]
    }

    /// The whole body.
    #[cfg(test)]
    pub(super) fn body(&mut self, target_seed: u64, moment: Moment) -> &[u8] {
        self.load(target_seed, moment);
        self.render(0..self.text.len())
    }
}

/// The entries that begin within a range of the text.
fn within<T>(all: &[T], begin: usize, end: usize, at: impl Fn(&T) -> u32) -> &[T] {
    let first = all.partition_point(|entry| (at(entry) as usize) < begin);
    let rest = &all[first..];
    &rest[..rest.partition_point(|entry| (at(entry) as usize) < end)]
}
