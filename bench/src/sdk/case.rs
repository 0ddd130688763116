//! What is collected: `bench/peers/WORKLOADS.md`, "sdk".

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bench::Failure;
use bench::options::Options;

/// Collections of one operation.
pub const COLLECTIONS: u64 = 100;

/// The key of every attribute.
pub const KEY: &str = "key";

const LETTERS: usize = 26;

/// Whether what a collection gives may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The next collection reuses it.
    Reusable,
    /// It is anew each time.
    Immutable,
}

/// Since when a sum counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temporality {
    /// Since the start.
    Cumulative,
    /// Since the last collection.
    Delta,
}

/// All cases, in the order of the RESULT lines.
pub const CASES: [(Mode, Temporality); 4] = [
    (Mode::Reusable, Temporality::Cumulative),
    (Mode::Reusable, Temporality::Delta),
    (Mode::Immutable, Temporality::Cumulative),
    (Mode::Immutable, Temporality::Delta),
];

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Reusable => "reusable",
            Mode::Immutable => "immutable",
        })
    }
}

impl fmt::Display for Temporality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Temporality::Cumulative => "cumulative",
            Temporality::Delta => "delta",
        })
    }
}

/// The size and the kind of a collection.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub mode: Mode,
    pub temporality: Temporality,
    pub instruments: usize,
    pub sets: usize,
    /// The cardinality limit of each instrument.
    pub limit: usize,
}

impl Setup {
    /// As the parent hands it to the child.
    pub fn arguments(self) -> Vec<String> {
        let Setup { mode, temporality, instruments, sets, limit } = self;
        let settings = [
            format!("mode={mode}"),
            format!("temporality={temporality}"),
            format!("instruments={instruments}"),
            format!("sets={sets}"),
            format!("limit={limit}"),
        ];
        settings.into_iter().flat_map(|setting| ["--set".to_owned(), setting]).collect()
    }

    /// Reads what [`Setup::arguments`] gave.
    pub fn read(options: &Options) -> Result<Setup, Failure> {
        let (mode, temporality) = (options.setting("mode")?, options.setting("temporality")?);
        let is_case =
            |(m, t): &&(Mode, Temporality)| m.to_string() == mode && t.to_string() == temporality;
        let case = CASES.iter().find(is_case);
        let &(mode, temporality) = case.ok_or_else(|| format!("no case: {mode} {temporality}"))?;
        Ok(Setup {
            mode,
            temporality,
            instruments: options.count("instruments")?,
            sets: options.count("sets")?,
            limit: options.count("limit")?,
        })
    }

    /// Points of one collection.
    pub fn points(self) -> usize {
        self.instruments * self.sets
    }

    /// The sum of all points of collection number `collection`.
    pub fn sum(self, collection: u64) -> u64 {
        let of =
            |collection| (0..self.sets as u64).map(|set| observation(collection, set)).sum::<u64>();
        let before = match self.temporality {
            Temporality::Delta if collection > 1 => of(collection - 1),
            _ => 0,
        };
        (of(collection) - before) * self.instruments as u64
    }
}

/// What is observed of set `set` at that collection.
#[inline]
pub fn observation(collection: u64, set: u64) -> u64 {
    100 * collection + set % 100
}

/// The attribute's value in set `set`.
pub fn letters(set: usize) -> String {
    let mut state = set as u64 + 1;
    let letter = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + ((state >> 33) % 26) as u8)
    };
    (0..LETTERS).map(letter).collect()
}

/// The number of the collection that runs, which every callback reads.
#[derive(Clone, Debug, Default)]
pub struct Number(Arc<AtomicU64>);

impl Number {
    /// One collection more.
    pub fn advance(&self) -> u64 {
        self.0.fetch_add(1, Relaxed) + 1
    }

    /// The collection that runs.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What one collection gave: how many points, and their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    pub points: usize,
    pub sum: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formulas_of_the_page() {
        assert_eq!(letters(0).len(), LETTERS);
        assert_ne!(letters(0), letters(1));
        let setup = |temporality| Setup {
            mode: Mode::Reusable,
            temporality,
            instruments: 2,
            sets: 3,
            limit: 9,
        };
        assert_eq!(setup(Temporality::Cumulative).sum(2), 2 * (200 + 201 + 202));
        assert_eq!(setup(Temporality::Delta).sum(1), 2 * (100 + 101 + 102));
        assert_eq!(setup(Temporality::Delta).sum(2), 2 * 300);
    }

    #[test]
    fn a_setup_reaches_the_child() {
        for (mode, temporality) in CASES {
            let setup = Setup { mode, temporality, instruments: 2, sets: 3, limit: 9 };
            let read = Setup::read(&Options::read(setup.arguments()).unwrap()).unwrap();
            assert_eq!(format!("{read:?}"), format!("{setup:?}"));
        }
    }
}
