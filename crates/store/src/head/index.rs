//! Which series there are, and which of them have which labels.
//!
//! Touched when a series comes or goes and by queries, never by samples of known series.
//! Queries hold it for a few hundred series at a time, so that a new series doesn't wait for them.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashTable};

use super::arena::Cell;
use super::postings::Postings;
use super::row::Slot;
use super::sets::{Pair, Sets};
use super::symbols::{Symbol, Symbols};
use crate::db::SeriesId;
use crate::labels::{Labels, METRIC_NAME};
use crate::matcher::{MatchOp, Matcher};

/// A label pair: which series have it, and where it stands among the values of its name. A pair that
/// no series has is not there.
struct Entry {
    name: Symbol,
    value: Symbol,
    place: u32,
    postings: Postings,
}

/// A series, by its row. 0 is the generation while there is none.
#[derive(Clone, Copy, Default)]
struct Place {
    generation: u32,
    set: Cell,
}

/// A series in the table, with half the hash of its set: a table that grows doesn't look at the sets.
#[derive(Clone, Copy)]
struct Hashed {
    hash: u32,
    slot: Slot,
}

impl Hashed {
    fn full(self) -> u64 {
        spread(self.hash)
    }
}

/// The table takes its bits from both ends.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The index of the head.
#[derive(Default)]
pub(crate) struct Index {
    symbols: Symbols,
    sets: Sets,
    /// By shard and row.
    places: Vec<Vec<Place>>,
    table: HashTable<Hashed>,
    pairs: Vec<Entry>,
    free_pairs: Vec<Pair>,
    /// What postings hold beside their pairs.
    posting_bytes: usize,
    /// The pairs by name and value.
    by_value: HashTable<Pair>,
    names: HashMap<Symbol, Vec<Pair>>,
    inserted: u64,
    hasher: RandomState,
    scratch: Vec<Pair>,
}

impl Index {
    fn place(&self, slot: Slot) -> Option<Place> {
        let place = *self.places.get(slot.shard())?.get(slot.row() as usize)?;
        (place.generation != 0).then_some(place)
    }

    fn entry(&self, pair: Pair) -> &Entry {
        &self.pairs[pair.0 as usize]
    }

    /// Whether the series is there.
    pub(crate) fn contains(&self, id: SeriesId) -> bool {
        self.place(id.slot()).is_some_and(|place| place.generation == id.generation())
    }

    /// The number of series.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Series that were ever put in: what wasn't there isn't, as long as this stays.
    pub(crate) fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Distinct label pairs and strings.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.by_value.len(), self.symbols.len())
    }

    /// Bytes held, nearly.
    pub(crate) fn memory(&self) -> usize {
        let places: usize = self.places.iter().map(Vec::capacity).sum();
        self.symbols.memory()
            + self.sets.memory()
            + places * size_of::<Place>()
            + self.table.allocation_size()
            + self.pairs.capacity() * size_of::<Entry>()
            + self.posting_bytes
            + self.by_value.allocation_size()
            + self.by_value.len() * size_of::<Pair>()
    }

    /// The part of them that the strings take.
    pub(crate) fn symbols_memory(&self) -> usize {
        self.symbols.memory()
    }

    /// The series with exactly these labels (names and values in turn), if there is one.
    #[cfg(test)]
    pub(crate) fn find<'a>(
        &self,
        labels: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Option<SeriesId> {
        self.find_near(labels, 0)
    }

    /// The series with exactly these labels (names and values in turn), if there is one; faster for
    /// labels that resemble those of the series that came last in `shard`.
    pub(crate) fn find_near<'a>(
        &self,
        labels: impl Iterator<Item = (&'a str, &'a str)>,
        shard: usize,
    ) -> Option<SeriesId> {
        let mut pairs = Vec::with_capacity(16);
        let mut likely = self.sets.previous(shard).iter();
        for (name, value) in labels {
            let found = match self.likely(&mut likely, name, value) {
                Likely::Pair(pair) => Some(pair),
                Likely::Name(name) => self.pair(name, self.symbols.get(value)?),
                Likely::Nothing => self.pair(self.symbols.get(name)?, self.symbols.get(value)?),
            };
            pairs.push(found?);
        }
        let slot = self.find_pairs(&pairs, self.hash(&pairs))?;
        Some(SeriesId::new(slot, self.place(slot)?.generation))
    }

    fn find_pairs(&self, pairs: &[Pair], hash: u32) -> Option<Slot> {
        let same = |other: &Hashed| {
            other.hash == hash
                && self
                    .place(other.slot)
                    .is_some_and(|place| self.sets.pairs(place.set).eq(pairs.iter().copied()))
        };
        Some(self.table.find(spread(hash), same)?.slot)
    }

    fn hash(&self, pairs: &[Pair]) -> u32 {
        self.hasher.hash_one(pairs) as u32
    }

    fn pair(&self, name: Symbol, value: Symbol) -> Option<Pair> {
        let hash = self.hasher.hash_one((name, value));
        let same = |&pair: &Pair| {
            let entry = self.entry(pair);
            (entry.name, entry.value) == (name, value)
        };
        self.by_value.find(hash, same).copied()
    }

    /// Looks a label up among the pairs of a set that it may be in, from where the label before was.
    #[inline]
    fn likely(&self, pairs: &mut std::slice::Iter<'_, Pair>, name: &str, value: &str) -> Likely {
        while let Some(&pair) = pairs.as_slice().first() {
            let entry = self.entry(pair);
            // The set may be of a series that is gone, and its pairs with it.
            if entry.postings.len() > 0 {
                if self.symbols.is(entry.name, name) {
                    pairs.next();
                    let same = self.symbols.is(entry.value, value);
                    return if same { Likely::Pair(pair) } else { Likely::Name(entry.name) };
                }
                if self.symbols.bytes(entry.name) > name.as_bytes() {
                    break;
                }
            }
            pairs.next();
        }
        Likely::Nothing
    }

    /// Adds a series, which isn't there yet; `labels` are in the order of the names.
    pub(crate) fn insert<'a>(
        &mut self,
        id: SeriesId,
        labels: impl Iterator<Item = (&'a str, &'a str)>,
    ) {
        let slot = id.slot();
        let mut pairs = std::mem::take(&mut self.scratch);
        pairs.clear();
        let mut likely = 0;
        for (name, value) in labels {
            let mut rest = self.sets.previous(slot.shard())[likely..].iter();
            let before = rest.len();
            let found = self.likely(&mut rest, name, value);
            likely += before - rest.len();
            let pair = match found {
                Likely::Pair(pair) => pair,
                _ => self.pair_of(name, value),
            };
            pairs.push(pair);
        }
        let hash = self.hash(&pairs);
        self.add(id, &pairs, hash);
        self.scratch = pairs;
    }

    /// As [`Index::insert`], of pairs that [`Index::pair_of`] gave since anything was removed; `false`,
    /// and nothing happens, where another series has them.
    pub(crate) fn insert_pairs(&mut self, id: SeriesId, pairs: &[Pair]) -> bool {
        let hash = self.hash(pairs);
        if self.find_pairs(pairs, hash).is_some() {
            return false;
        }
        self.add(id, pairs, hash);
        true
    }

    /// Makes room for so many more series, of which `shard` gets up to so many rows.
    pub(crate) fn reserve(&mut self, series: usize, shard: usize, rows: usize) {
        self.table.reserve(series, |other| other.full());
        let shard = self.shard_places(shard);
        shard.reserve_exact(rows.saturating_sub(shard.len()));
    }

    fn shard_places(&mut self, shard: usize) -> &mut Vec<Place> {
        while self.places.len() <= shard {
            self.places.push(Vec::new());
        }
        &mut self.places[shard]
    }

    fn add(&mut self, id: SeriesId, pairs: &[Pair], hash: u32) {
        let slot = id.slot();
        for &pair in pairs {
            let postings = &mut self.pairs[pair.0 as usize].postings;
            self.posting_bytes -= postings.memory();
            postings.insert(slot);
            self.posting_bytes += postings.memory();
        }
        let set = self.sets.insert(slot.shard(), pairs);
        self.inserted += 1;
        let shard = self.shard_places(slot.shard());
        if shard.len() <= slot.row() as usize {
            shard.resize(slot.row() as usize + 1, Place::default());
        }
        shard[slot.row() as usize] = Place { generation: id.generation(), set };
        let hashed = Hashed { hash, slot };
        self.table.insert_unique(hashed.full(), hashed, |other| other.full());
    }

    /// The pair of a name and a value, which is made where it isn't there.
    pub(crate) fn pair_of(&mut self, name: &str, value: &str) -> Pair {
        let symbols = (self.symbols.get(name), self.symbols.get(value));
        if let (Some(name), Some(value)) = symbols
            && let Some(pair) = self.pair(name, value)
        {
            return pair;
        }
        let (name, value) = (self.symbols.acquire(name), self.symbols.acquire(value));
        let values = self.names.entry(name).or_default();
        let place = values.len() as u32;
        let entry = Entry { name, value, place, postings: Postings::EMPTY };
        let pair = if let Some(free) = self.free_pairs.pop() {
            self.pairs[free.0 as usize] = entry;
            free
        } else {
            self.pairs.push(entry);
            Pair(u32::try_from(self.pairs.len() - 1).expect("there is not memory for so many"))
        };
        values.push(pair);
        let (pairs, hasher) = (&self.pairs, &self.hasher);
        self.by_value.insert_unique(hasher.hash_one((name, value)), pair, |other| {
            let entry = &pairs[other.0 as usize];
            hasher.hash_one((entry.name, entry.value))
        });
        pair
    }

    /// Removes series.
    pub(crate) fn remove(&mut self, ids: &[SeriesId]) {
        let mut pairs = Vec::new();
        for id in ids {
            let slot = id.slot();
            let place = self.place(slot).filter(|place| place.generation == id.generation());
            let Some(place) = place else { continue };
            pairs.clear();
            pairs.extend(self.sets.pairs(place.set));
            let hash = self.hash(&pairs);
            if let Ok(found) = self.table.find_entry(spread(hash), |other| other.slot == slot) {
                found.remove();
            }
            self.sets.remove(place.set);
            self.places[slot.shard()][slot.row() as usize] = Place::default();
            for &pair in &pairs {
                let postings = &mut self.pairs[pair.0 as usize].postings;
                self.posting_bytes -= postings.memory();
                postings.remove(slot);
                self.posting_bytes += postings.memory();
                if postings.len() == 0 {
                    self.remove_pair(pair);
                }
            }
        }
    }

    fn remove_pair(&mut self, pair: Pair) {
        let Entry { name, value, place, .. } = *self.entry(pair);
        let hash = self.hasher.hash_one((name, value));
        if let Ok(found) = self.by_value.find_entry(hash, |&other| other == pair) {
            found.remove();
        }
        if let Some(values) = self.names.get_mut(&name) {
            values.swap_remove(place as usize);
            if let Some(moved) = values.get(place as usize) {
                self.pairs[moved.0 as usize].place = place;
            }
            if values.is_empty() {
                self.names.remove(&name);
            } else if values.len() < values.capacity() / 4 {
                values.shrink_to_fit();
            }
        }
        self.symbols.release(name);
        self.symbols.release(value);
        self.free_pairs.push(pair);
    }

    /// The labels of a series.
    pub(crate) fn labels(&self, slot: Slot, scratch: &mut Vec<u8>) -> Option<(SeriesId, Labels)> {
        let place = self.place(slot)?;
        let pairs = self.sets.pairs(place.set).map(|pair| self.texts(pair));
        Some((SeriesId::new(slot, place.generation), Labels::from_sorted_with(pairs, scratch)))
    }

    fn texts(&self, pair: Pair) -> (&str, &str) {
        let entry = self.entry(pair);
        (self.symbols.text(entry.name), self.symbols.text(entry.value))
    }

    /// Series among which are all that match: the shortest list that one matcher gives.
    pub(crate) fn candidates(&self, matchers: &[Matcher]) -> Vec<Slot> {
        let mut best: Option<&Postings> = None;
        for matcher in matchers {
            if matcher.op() == MatchOp::Equal && !matcher.value().is_empty() {
                let name = self.symbols.get(matcher.name());
                let value = self.symbols.get(matcher.value());
                let pair = name.zip(value).and_then(|(name, value)| self.pair(name, value));
                let Some(pair) = pair else { return Vec::new() };
                let found = &self.entry(pair).postings;
                if best.is_none_or(|best| found.len() < best.len()) {
                    best = Some(found);
                }
            }
        }
        let mut found = Vec::new();
        if let Some(best) = best {
            found.reserve_exact(best.len());
            best.each(|slot| found.push(slot));
            return found;
        }
        let selective = matchers.iter().find(|matcher| !matcher.matches_empty());
        let Some(matcher) = selective else {
            return self.table.iter().map(|hashed| hashed.slot).collect();
        };
        for &pair in self.values(matcher.name()) {
            let entry = self.entry(pair);
            if matcher.matches(self.symbols.text(entry.value)) {
                entry.postings.each(|slot| found.push(slot));
            }
        }
        found
    }

    /// The pairs with this name.
    fn values(&self, name: &str) -> &[Pair] {
        let name = self.symbols.get(name);
        name.and_then(|name| self.names.get(&name)).map_or(&[], Vec::as_slice)
    }

    /// All label names, in no order.
    pub(crate) fn each_name<'a>(&'a self, mut each: impl FnMut(&'a str)) {
        for &name in self.names.keys() {
            each(self.symbols.text(name));
        }
    }

    /// All values of a label, in no order.
    pub(crate) fn each_value<'a>(&'a self, name: &str, mut each: impl FnMut(&'a str)) {
        for &pair in self.values(name) {
            each(self.texts(pair).1);
        }
    }

    /// The largest of each kind.
    pub(crate) fn cardinality(&self, limit: usize) -> crate::db::Cardinality {
        let mut values = Vec::new();
        let mut bytes = Vec::new();
        let mut pairs = Top::new(limit);
        for (&name, of_name) in &self.names {
            let text = self.symbols.text(name);
            values.push((text.to_owned(), of_name.len() as u64));
            let mut size = 0;
            for &pair in of_name {
                let (count, value) = (self.entry(pair).postings.len(), self.texts(pair).1);
                size += (value.len() * count) as u64;
                pairs.push(count as u64, (text, value));
            }
            bytes.push((text.to_owned(), size));
        }
        let mut metrics = Top::new(limit);
        for &pair in self.values(METRIC_NAME) {
            metrics.push(self.entry(pair).postings.len() as u64, self.texts(pair).1);
        }
        for list in [&mut values, &mut bytes] {
            list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            list.truncate(limit);
        }
        let named =
            |(count, (name, value)): (u64, (&str, &str))| (format!("{name}={value}"), count);
        crate::db::Cardinality {
            series_by_metric: metrics.sorted().map(|(n, name)| (name.to_owned(), n)).collect(),
            values_by_label: values,
            bytes_by_label: bytes,
            series_by_pair: pairs.sorted().map(named).collect(),
        }
    }
}

/// What [`Index::likely`] found.
enum Likely {
    Pair(Pair),
    /// The name, with another value.
    Name(Symbol),
    Nothing,
}

/// The largest of many, without keeping them all.
struct Top<T> {
    limit: usize,
    kept: Vec<(u64, T)>,
}

impl<T: Ord + Copy> Top<T> {
    fn new(limit: usize) -> Self {
        Top { limit, kept: Vec::new() }
    }

    fn push(&mut self, count: u64, what: T) {
        self.kept.push((count, what));
        if self.kept.len() >= 2 * self.limit + 64 {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        self.kept.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        self.kept.truncate(self.limit);
    }

    fn sorted(mut self) -> impl Iterator<Item = (u64, T)> {
        self.shrink();
        self.kept.into_iter()
    }
}

/// Tests many series against the same matchers; each pair is matched once.
///
/// Remembers pairs, which don't outlive a lock of the index: [`Filter::resume`] after each.
pub(crate) struct Filter<'m> {
    matchers: Vec<(&'m Matcher, Option<Symbol>, HashMap<Pair, bool>)>,
}

impl<'m> Filter<'m> {
    pub(crate) fn new(matchers: &'m [Matcher]) -> Self {
        let matchers = matchers.iter().map(|m| (m, None, HashMap::new())).collect();
        Filter { matchers }
    }

    /// What was remembered of pairs is void after the index was unlocked.
    pub(crate) fn resume(&mut self, index: &Index) {
        for (matcher, name, results) in &mut self.matchers {
            *name = index.symbols.get(matcher.name());
            results.clear();
        }
    }

    /// Whether the series at `slot` passes all matchers.
    pub(crate) fn matches(&mut self, index: &Index, slot: Slot) -> bool {
        let Some(place) = index.place(slot) else { return false };
        self.matchers.iter_mut().all(|(matcher, name, results)| {
            let mut pairs = index.sets.pairs(place.set);
            match name.and_then(|name| pairs.find(|&pair| index.entry(pair).name == name)) {
                None => matcher.matches_empty(),
                Some(pair) => {
                    *results.entry(pair).or_insert_with(|| matcher.matches(index.texts(pair).1))
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A set of a target's series, of which some have no `le`.
    fn labels(target: u64, series: u64) -> Labels {
        let mut pairs = vec![
            ("__name__", format!("metric_{}", series / 3)),
            ("cluster", "one".to_owned()),
            ("instance", format!("10.0.0.{target}:9100")),
            ("pod", format!("pod-{target}")),
        ];
        if !series.is_multiple_of(4) {
            pairs.push(("le", format!("{series}")));
        }
        Labels::from_pairs(pairs)
    }

    #[test]
    fn series_that_replace_each_other_take_the_memory_of_those_before() {
        let (mut index, mut generation) = (Index::default(), 0);
        let mut memory = Vec::new();
        let mut living: Vec<(SeriesId, Labels)> = Vec::new();
        let mut free = Vec::new();
        for round in 0..40u64 {
            generation += 1;
            for target in 0..10 {
                for series in 0..50 {
                    let row = free.pop().unwrap_or(living.len() as u32);
                    let shard = (target % 3) as usize;
                    let id = SeriesId::new(Slot::new(shard, row), generation);
                    let labels = labels(10 * round + target, series);
                    assert_eq!(index.find_near(labels.iter(), shard), None);
                    index.insert(id, labels.iter());
                    living.push((id, labels));
                }
            }
            let mut scratch = Vec::new();
            for (id, labels) in &living {
                assert_eq!(index.find(labels.iter()), Some(*id));
                let found = index.labels(id.slot(), &mut scratch);
                assert_eq!(found.as_ref(), Some(&(*id, labels.clone())));
            }
            for (name, value) in [("cluster", "one"), ("le", "7"), ("__name__", "metric_3")] {
                let matcher = Matcher::new(MatchOp::Equal, name, value).unwrap();
                let mut found = index.candidates(std::slice::from_ref(&matcher));
                let with = living.iter().filter(|(_, labels)| labels.get(name) == Some(value));
                let mut expected: Vec<Slot> = with.map(|(id, _)| id.slot()).collect();
                found.sort_unstable();
                expected.sort_unstable();
                assert_eq!(found, expected, "{name} {value}");
            }
            memory.push(index.memory());
            // The older half goes; the last round's stay.
            if round > 0 {
                let gone: Vec<SeriesId> = living.drain(..500).map(|(id, _)| id).collect();
                free.extend(gone.iter().rev().map(|id| id.slot().row()));
                index.remove(&gone);
            }
        }
        assert!(memory[39] <= memory[2] / 4 * 5, "{memory:?}");
        let all: Vec<SeriesId> = living.iter().map(|(id, _)| *id).collect();
        index.remove(&all);
        assert_eq!((index.len(), index.counts(), index.posting_bytes), (0, (0, 0), 0));
        assert!(index.candidates(&[]).is_empty() && index.names.is_empty());
    }
}
