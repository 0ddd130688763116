//! The label sets of series, each as what differs from a set that it shares with its neighbours.
//!
//! Most pairs of a series are those of its target, and series of a target come one after the other.
//! So each set is kept as a reference to a *base*, a whole set, and the pairs in which it differs:
//!
//! 1. the base is the last one of its shard and of its number of labels;
//! 2. if it differs in too much, or in clearly more than from the set before, another target has begun,
//!    and the set becomes the next base;
//! 3. a base stays as long as a set refers to it. The numbers of its pairs that nobody shares may be
//!    another pair's by then: who compares with them, compares numbers that are in use.

use super::arena::{Arena, Cell};

/// The number of a label pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Pair(pub(crate) u32);

/// A record: the number of the base, and a bit for each place at which a pair of its own stands behind
/// them.
const RECORD: usize = 8;
const PAIR: usize = 4;
/// Bits of a record.
const PLACES: usize = 32;
/// Bases that are remembered for a shard, by their numbers of labels.
const RECENT: usize = 8;
/// No base.
const NONE: u32 = u32::MAX;

#[derive(Default)]
struct Base {
    pairs: Box<[Pair]>,
    references: u32,
}

/// What the next set of a shard is likely to resemble.
struct Recent {
    bases: [u32; RECENT],
    previous: Vec<Pair>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Sets {
    records: Arena,
    bases: Vec<Base>,
    free: Vec<u32>,
    base_bytes: usize,
    /// By shard.
    recent: Vec<Recent>,
    scratch: Vec<u8>,
}

fn differences<'a>(a: &'a [Pair], b: &'a [Pair]) -> impl Iterator<Item = usize> + 'a {
    let differ = a.iter().zip(b).enumerate();
    differ.filter(|(_, (a, b))| a != b).map(|(place, _)| place)
}

impl Sets {
    /// Bytes held.
    pub(crate) fn memory(&self) -> usize {
        self.records.memory() + self.bases.capacity() * size_of::<Base>() + self.base_bytes
    }

    /// The set that was put in last for this shard.
    pub(crate) fn previous(&self, shard: usize) -> &[Pair] {
        self.recent.get(shard).map_or(&[], |recent| &recent.previous)
    }

    /// Puts a set in, for a series of `shard`.
    pub(crate) fn insert(&mut self, shard: usize, pairs: &[Pair]) -> Cell {
        while self.recent.len() <= shard {
            self.recent.push(Recent { bases: [NONE; RECENT], previous: Vec::new() });
        }
        let recent = &mut self.recent[shard];
        let mut base = recent.bases[pairs.len() % RECENT];
        if base == NONE || !resembles(&self.bases[base as usize].pairs, &recent.previous, pairs) {
            let left = std::mem::replace(&mut base, self.free.pop().unwrap_or(NONE));
            if base == NONE {
                base = self.bases.len() as u32;
                self.bases.push(Base::default());
            }
            recent.bases[pairs.len() % RECENT] = base;
            // One reference is that of `recent`.
            self.bases[base as usize] = Base { pairs: Box::from(pairs), references: 1 };
            self.base_bytes += std::mem::size_of_val(pairs);
            if left != NONE {
                self.release(left);
            }
        }
        let previous = &mut self.recent[shard].previous;
        previous.clear();
        previous.extend_from_slice(pairs);
        let shared = &mut self.bases[base as usize];
        shared.references += 1;
        self.scratch.clear();
        self.scratch.extend_from_slice(&base.to_le_bytes());
        self.scratch.extend_from_slice(&[0; PAIR]);
        let mut own = 0u32;
        for place in differences(&shared.pairs, pairs) {
            own |= 1 << place;
            self.scratch.extend_from_slice(&pairs[place].0.to_le_bytes());
        }
        self.scratch[PAIR..RECORD].copy_from_slice(&own.to_le_bytes());
        self.records.put(&self.scratch)
    }

    fn header(&self, set: Cell) -> (u32, u32) {
        let record = self.records.get(set, RECORD);
        (word(record, 0), word(record, 1))
    }

    /// The pairs of a set, in the order of the names.
    #[inline]
    pub(crate) fn pairs(&self, set: Cell) -> Pairs<'_> {
        let (base, own) = self.header(set);
        let length = RECORD + PAIR * own.count_ones() as usize;
        let own_pairs = &self.records.get(set, length)[RECORD..];
        Pairs { base: &self.bases[base as usize].pairs, place: 0, own, own_pairs }
    }

    /// Takes a set out.
    pub(crate) fn remove(&mut self, set: Cell) {
        let (base, own) = self.header(set);
        self.records.release(set, RECORD + PAIR * own.count_ones() as usize);
        self.release(base);
    }

    fn release(&mut self, number: u32) {
        let base = &mut self.bases[number as usize];
        base.references -= 1;
        if base.references == 0 {
            self.base_bytes -= std::mem::size_of_val(&*base.pairs);
            *base = Base::default();
            self.free.push(number);
        }
    }
}

/// Whether a set is better told by its differences from `base` than by a base of its own.
fn resembles(base: &[Pair], previous: &[Pair], pairs: &[Pair]) -> bool {
    if base.len() != pairs.len() {
        return false;
    }
    let own = differences(base, pairs).count();
    if pairs.len() > PLACES {
        return own == 0;
    }
    let since = differences(previous, pairs).count();
    let drifted = previous.len() == pairs.len() && since + 2 < own;
    own <= 2 + pairs.len() / 3 && !drifted
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let (word, _) = bytes[PAIR * at..].split_first_chunk().expect("a record has whole words");
    u32::from_le_bytes(*word)
}

/// See [`Sets::pairs`].
#[derive(Clone)]
pub(crate) struct Pairs<'a> {
    base: &'a [Pair],
    place: usize,
    own: u32,
    own_pairs: &'a [u8],
}

impl Iterator for Pairs<'_> {
    type Item = Pair;

    #[inline]
    fn next(&mut self) -> Option<Pair> {
        let shared = *self.base.get(self.place)?;
        self.place += 1;
        let is_own = self.own & 1 == 1;
        self.own >>= 1;
        if !is_own {
            return Some(shared);
        }
        let (pair, rest) = self.own_pairs.split_first_chunk()?;
        self.own_pairs = rest;
        Some(Pair(u32::from_le_bytes(*pair)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_come_back_and_share_what_they_have_in_common() {
        let mut sets = Sets::default();
        let mut kept: Vec<(Cell, Vec<Pair>)> = Vec::new();
        for round in 0..3u32 {
            for target in 0..50u32 {
                for series in 0..100u32 {
                    // One in seven has a label more, one in eleven has very many.
                    let length = match series {
                        _ if series % 11 == 10 => 40,
                        _ => 10 + series / 7 % 2,
                    };
                    let pairs = (0..length).map(|place| match place {
                        0..4 => Pair(place),
                        4..8 => Pair(1000 * place + target),
                        _ => Pair(100_000 * place + series),
                    });
                    let pairs: Vec<Pair> = pairs.collect();
                    kept.push((sets.insert(target as usize % 3, &pairs), pairs));
                }
            }
            for (set, pairs) in &kept {
                assert!(sets.pairs(*set).eq(pairs.iter().copied()), "round {round}");
            }
            if round == 0 {
                let small = kept.iter().filter(|(_, pairs)| pairs.len() < 40);
                let bytes: usize = small
                    .map(|(set, _)| RECORD + PAIR * sets.header(*set).1.count_ones() as usize)
                    .sum();
                assert!(bytes <= 22 * kept.len(), "{} a set", bytes / kept.len());
            }
            let before = sets.memory();
            for (set, _) in kept.drain(..) {
                sets.remove(set);
            }
            let left = sets.bases.iter().filter(|base| base.references > 0).count();
            assert!(left <= 3 * RECENT, "round {round}: {left} bases are left");
            assert!(round == 0 || sets.memory() <= before);
        }
    }
}
