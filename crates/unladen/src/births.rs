//! Since when the series of an observable family are there.
//!
//! Every scrape and every reader asks into columns of its own, of which each may have missed something: a
//! callback that panicked or came late, or what others asked meanwhile. So what has to be the same for
//! all of them is kept here, once for the family, and only the collection that began last changes it.
//!
//! - A series began when the family was asked for the last time before it was first there; in the first
//!   collection, when the family was registered.
//! - A counter's series for all beyond the limit is a sum over series that come and go. When one of them
//!   gets a place of its own the sum falls, though nothing began again. So it grows by what the sum grows,
//!   and stays where the sum falls.

use std::sync::Arc;

use hashbrown::HashTable;

use crate::attributes::Attributes;
use crate::observed::{Column, sum};
use crate::shape::Number;

/// What all columns of one observable family share.
pub(crate) struct Births {
    sets: Vec<Attributes>,
    /// Beside them: when each began, in tenths of a second since the registry did.
    created: Arc<Vec<u32>>,
    /// Another one for each change of the sets; columns that have them all know it.
    version: u64,
    /// When the family was last asked, before that when it was registered.
    asked: u32,
    newest: u64,
    /// What the series beyond the limit added up to, and what was told of it.
    overflow: Option<(Number, Number)>,
}

impl Births {
    /// Of a family that was registered at `since`.
    pub(crate) fn new(since: u32) -> Self {
        Births {
            sets: Vec::new(),
            created: Arc::default(),
            version: 1,
            asked: since,
            newest: 0,
            overflow: None,
        }
    }

    /// Tells a column that was filled since when its series are there. `asked` is when its callbacks were
    /// asked, and `number` says how many times before. *Steady* for the same series as the last time.
    pub(crate) fn settle(&mut self, column: &mut Column, is_sum: bool, asked: u32, number: u64) {
        let is_newest = number >= self.newest;
        if column.settled != self.version {
            let is_same = self.sets.len() == column.len()
                && self.sets.iter().zip(column.sets()).all(|(one, other)| one.is(other));
            if !is_same {
                self.rearrange(column, asked, is_newest);
            } else {
                column.set_created(self.created.clone());
            }
            if is_same || is_newest {
                column.settled = self.version;
            }
        }
        if is_sum {
            self.grow(column, is_newest);
        }
        if is_newest {
            self.newest = number;
            self.asked = self.asked.max(asked);
        }
    }

    #[cold]
    fn rearrange(&mut self, column: &mut Column, asked: u32, is_newest: bool) {
        let mut by_set = HashTable::with_capacity(self.sets.len());
        for (at, set) in self.sets.iter().enumerate() {
            by_set.insert_unique(set.hash(), at, |&at: &usize| self.sets[at].hash());
        }
        let start = self.asked.min(asked);
        let created = column.sets().iter().map(|set| {
            let known = by_set.find(set.hash(), |&at| self.sets[at].is(set));
            known.map_or(start, |&at| self.created[at])
        });
        let created: Arc<Vec<u32>> = Arc::new(created.collect());
        column.set_created(created.clone());
        if is_newest {
            self.sets = column.sets().to_vec();
            self.created = created;
            self.version += 1;
        }
    }

    /// The bytes on the heap, without those of the sets.
    pub(crate) fn memory_usage(&self) -> usize {
        self.sets.capacity() * size_of::<Attributes>() + self.created.capacity() * 4
    }

    fn grow(&mut self, column: &mut Column, is_newest: bool) {
        let Some(now) = column.overflow_value() else {
            if is_newest {
                self.overflow = None;
            }
            return;
        };
        let told = match self.overflow {
            None => now,
            Some((_, told)) if !is_newest => told,
            Some((last, told)) => sum(told, growth(now, last)),
        };
        if is_newest {
            self.overflow = Some((now, told));
        }
        column.set_overflow_value(told);
    }
}

/// By how much a number is more, in its type; zero if it is not.
fn growth(now: Number, last: Number) -> Number {
    match (now, last) {
        (Number::Unsigned(now), Number::Unsigned(last)) => {
            Number::Unsigned(now.saturating_sub(last))
        }
        (Number::Signed(now), Number::Signed(last)) => {
            Number::Signed(now.saturating_sub(last).max(0))
        }
        // No number is not more either.
        (now, last) => Number::Float((now.as_f64() - last.as_f64()).max(0.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::described::{Described, Role, Spec};
    use crate::observed::OpenObserver;
    use crate::table::Shared;
    use wire::exposition::Kind;

    /// A counter with room for three series, asked into several columns.
    struct Family {
        described: Described,
        shared: Shared,
        births: Births,
    }

    impl Family {
        fn new() -> Self {
            let spec = Spec::new("a_total", "").limit(3);
            let scope = Arc::default();
            let described = Described::new(&spec, Kind::Counter, Role::Counter, &[], &scope);
            let described = described.unwrap();
            Family { described, shared: Shared::default(), births: Births::new(7) }
        }

        fn ask(&self, column: &mut Column, given: &[(&str, u64)]) {
            column.begin();
            let mut observer = OpenObserver::new(column, &self.described, &self.shared.sets);
            for (x, value) in given {
                observer.observe(*value, &[("x", x)]);
            }
            observer.finish();
        }

        /// Each series' label, since when it is there, and its value.
        fn settle(&mut self, column: &mut Column, asked: u32, number: u64) -> Vec<String> {
            self.births.settle(column, true, asked, number);
            (0..column.len())
                .map(|at| {
                    let observed = column.get(at);
                    let label = observed.set.iter().next().map(|(_, value, _)| value.into_owned());
                    let value = observed.value.as_f64();
                    format!("{} {} {value}", label.unwrap_or_default(), observed.created)
                })
                .collect()
        }
    }

    #[test]
    fn all_columns_tell_the_same_begin() {
        let mut family = Family::new();
        let (mut one, mut other) = (Column::default(), Column::default());
        family.ask(&mut one, &[("a", 1)]);
        assert_eq!(family.settle(&mut one, 10, 0), ["a 7 1"], "since it was registered");
        // Two at the same time, and the one that began last ends first.
        family.ask(&mut one, &[("a", 2)]);
        family.ask(&mut other, &[("a", 2), ("b", 1)]);
        assert_eq!(family.settle(&mut other, 21, 2), ["a 7 2", "b 10 1"]);
        assert_eq!(family.settle(&mut one, 20, 1), ["a 7 2"]);
        for (number, column) in [(3, &mut one), (4, &mut other)] {
            family.ask(column, &[("b", 2), ("a", 3)]);
            let lines = family.settle(column, 30, number);
            assert!(lines.contains(&"b 10 2".to_owned()), "{lines:?}");
        }
        // Whatever spoilt a column, the series are as old as they are.
        one.spoil();
        family.ask(&mut one, &[("b", 9)]);
        assert_eq!(family.settle(&mut one, 40, 5), ["b 10 9"]);
        family.ask(&mut one, &[("b", 9), ("a", 1)]);
        assert_eq!(family.settle(&mut one, 50, 6), ["b 10 9", "a 40 1"], "it was gone");
    }

    #[test]
    fn what_leaves_the_overflow_does_not_make_it_fall() {
        let mut family = Family::new();
        let mut column = Column::default();
        let overflow = |lines: Vec<String>| lines.into_iter().find(|line| line.contains("true"));
        for (number, (given, expected)) in [
            (&[("a", 1), ("b", 1), ("c", 1), ("d", 5), ("e", 7)][..], Some("true 7 12")),
            // d has a place now.
            (&[("a", 1), ("b", 1), ("d", 5), ("e", 8)], Some("true 7 12")),
            (&[("a", 1), ("b", 1), ("d", 5), ("e", 9)], Some("true 7 13")),
            (&[("a", 1), ("b", 1), ("d", 5)], None),
        ]
        .into_iter()
        .enumerate()
        {
            family.ask(&mut column, given);
            let lines = family.settle(&mut column, 10, number as u64);
            assert_eq!(overflow(lines).as_deref(), expected, "collection {number}");
        }
    }
}
