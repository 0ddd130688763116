//! Sets of labels, and their numbers.
//!
//! 1. Sets, and steps from one to another, are in lists that only grow, and are read without a lock. A table
//!    of numbers, open for linear probing and never more than half full, finds a step by its hash.
//! 2. Who adds has a lock, and writes a step's number into the table last.
//! 3. Texts have [`MOST_TEXT`] bytes at most, and there are [`MOST_SETS`] sets, eight times as many steps,
//!    and [`MOST_BYTES`] bytes of them at most. Once there is no room nothing is added any more, and a
//!    scope that would need it looks at a flag.

use std::hash::BuildHasher as _;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use foldhash::fast::FixedState;

use super::fork;
use super::patience::Patient;
use crate::heap::Inside;

/// How many different sets of labels there may be; the empty one is one of them.
pub const MOST_SETS: usize = 4096;
/// How many bytes a label's name and its value may have, each.
pub const MOST_TEXT: usize = 256;
/// How many bytes all sets and steps may have: 256 for a step, which is far more than usual.
const MOST_BYTES: usize = 8 << 20;
/// A set may be reached by several steps, since the order of labels does not matter.
const MOST_STEPS: usize = 8 * MOST_SETS;

/// A label's name and its value.
pub(super) type Pair = (Box<str>, Box<str>);

/// How one set came from another.
struct Step {
    from: u32,
    key: Box<str>,
    value: Box<str>,
    to: u32,
}

const CHUNK: usize = 256;

/// A list that only grows. Memory for it is made by the chunk.
struct Grown<T, const CHUNKS: usize> {
    chunks: [OnceLock<Box<[OnceLock<T>]>>; CHUNKS],
}

impl<T, const CHUNKS: usize> Grown<T, CHUNKS> {
    const fn new() -> Self {
        Grown { chunks: [const { OnceLock::new() }; CHUNKS] }
    }

    /// *Steady*, without waiting.
    #[inline]
    fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / CHUNK)?.get()?.get(index % CHUNK)?.get()
    }

    /// Puts something behind the last. Whoever does it has [`ADDING`], so that no other has begun it.
    fn put(&self, index: usize, value: T) {
        let fresh = || (0..CHUNK).map(|_| OnceLock::new()).collect();
        let _ = self.chunks[index / CHUNK].get_or_init(fresh)[index % CHUNK].set(value);
    }
}

/// By number less one; the empty set is not there.
static SETS: Grown<Box<[Pair]>, { MOST_SETS / CHUNK }> = Grown::new();
static STEPS: Grown<Step, { MOST_STEPS / CHUNK }> = Grown::new();
/// Places in [`STEPS`], and one more, by hash.
static FOUND: [AtomicU32; 2 * MOST_STEPS] = [const { AtomicU32::new(0) }; 2 * MOST_STEPS];
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// What there is.
#[derive(Debug)]
pub(super) struct Room {
    sets: usize,
    steps: usize,
    bytes: usize,
}

/// Held while something is added.
pub(super) static ADDING: Patient<Room> = Patient::new(Room { sets: 0, steps: 0, bytes: 0 });

/// Spreads well enough for names that the program chooses.
const HASHER: FixedState = FixedState::with_seed(0x5ca1_ab1e);

/// The number of `from` with a label more; none where there is no room for it. *Steady* for one that was
/// seen before, and without waiting.
pub(super) fn step(from: u32, key: &str, value: &str) -> Option<u32> {
    let hash = HASHER.hash_one((from, key, value)) as usize;
    match find(hash, from, key, value) {
        Ok(to) => Some(to),
        Err(_) if IS_FULL.load(Relaxed) || key.len().max(value.len()) > MOST_TEXT => None,
        Err(_) => add(hash, from, key, value),
    }
}

/// The step's set, or where in the table it is to be found once it is there.
fn find(hash: usize, from: u32, key: &str, value: &str) -> Result<u32, &'static AtomicU32> {
    let mut at = hash;
    loop {
        let found = &FOUND[at % FOUND.len()];
        let number = found.load(Acquire) as usize;
        if number == 0 {
            return Err(found);
        }
        if let Some(step) = STEPS.get(number - 1)
            && step.from == from
            && *step.key == *key
            && *step.value == *value
        {
            return Ok(step.to);
        }
        at = at.wrapping_add(1);
    }
}

#[cold]
fn add(hash: usize, from: u32, key: &str, value: &str) -> Option<u32> {
    fork::watch();
    // What this allocates is no sample, which might ask for a lock that waits for a fork.
    let _inside = Inside::enter();
    let mut room = ADDING.lock()?;
    let found = match find(hash, from, key, value) {
        Ok(to) => return Some(to),
        Err(found) => found,
    };
    let mut pairs = pairs(from)?.to_vec();
    match pairs.binary_search_by(|(name, _)| (**name).cmp(key)) {
        Ok(at) => pairs[at].1 = value.into(),
        Err(at) => pairs.insert(at, (key.into(), value.into())),
    }
    // The same set may have been reached by other steps.
    let known = (0..room.sets).find(|&at| SETS.get(at).is_some_and(|set| **set == *pairs));
    let of_pair = |(key, value): &Pair| size_of::<Pair>() + key.len() + value.len();
    let of_set = if known.is_none() { pairs.iter().map(of_pair).sum() } else { 0 };
    let bytes = room.bytes + of_set + size_of::<Step>() + key.len() + value.len();
    let sets = room.sets + usize::from(known.is_none());
    if sets >= MOST_SETS || room.steps == MOST_STEPS || bytes > MOST_BYTES {
        IS_FULL.store(true, Relaxed);
        return None;
    }
    let at = known.unwrap_or_else(|| {
        SETS.put(room.sets, pairs.into());
        room.sets
    });
    let to = at as u32 + 1;
    STEPS.put(room.steps, Step { from, key: key.into(), value: value.into(), to });
    (room.sets, room.steps, room.bytes) = (sets, room.steps + 1, bytes);
    found.store(room.steps as u32, Release);
    Some(to)
}

/// The labels of a set, by name; none for a number that was not given. *Steady*, without waiting.
pub(super) fn pairs(set: u32) -> Option<&'static [Pair]> {
    match set {
        0 => Some(&[]),
        set => SETS.get(set as usize - 1).map(|pairs| &**pairs),
    }
}
