//! Which series there are, and which of them have which labels.
//!
//! Touched when a series comes or goes and by queries, never by samples of known series.
//! Queries hold it for a few hundred series at a time, so that a new series doesn't wait for them.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashTable};

use super::row::Slot;
use super::symbols::{Symbol, Symbols};
use crate::db::SeriesId;
use crate::labels::{Labels, METRIC_NAME};
use crate::matcher::{MatchOp, Matcher};

/// A name and a value.
type Pair = (Symbol, Symbol);

#[derive(Default)]
struct Entry {
    /// 0 while there is no series.
    generation: u32,
    /// In the order of the names.
    labels: Box<[Pair]>,
}

/// The series that have a label, in no order.
#[derive(Default)]
struct Name {
    values: HashMap<Symbol, Vec<Slot>>,
}

/// The index of the head.
#[derive(Default)]
pub(crate) struct Index {
    symbols: Symbols,
    /// By shard and row.
    entries: Vec<Vec<Entry>>,
    table: HashTable<Slot>,
    names: HashMap<Symbol, Name>,
    pairs: usize,
    postings: usize,
    label_bytes: usize,
    hasher: RandomState,
    scratch: Vec<Pair>,
}

impl Index {
    fn entry(&self, slot: Slot) -> Option<&Entry> {
        let entry = self.entries.get(slot.shard())?.get(slot.row() as usize)?;
        (entry.generation != 0).then_some(entry)
    }

    /// Whether the series is there.
    pub(crate) fn contains(&self, id: SeriesId) -> bool {
        self.entry(id.slot()).is_some_and(|entry| entry.generation == id.generation())
    }

    /// The number of series.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Distinct label pairs and strings.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.pairs, self.symbols.len())
    }

    /// Bytes held, nearly.
    pub(crate) fn memory(&self) -> usize {
        let entries: usize = self.entries.iter().map(Vec::capacity).sum();
        self.symbols.memory()
            + entries * size_of::<Entry>()
            + self.label_bytes
            + self.table.capacity() * 5
            + self.pairs * 56
            + self.postings * 6
    }

    /// The series with exactly these labels (names and values in turn), if there is one.
    pub(crate) fn find<'a>(
        &self,
        labels: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Option<SeriesId> {
        let mut pairs = Vec::with_capacity(16);
        for (name, value) in labels {
            pairs.push((self.symbols.get(name)?, self.symbols.get(value)?));
        }
        let slot = self.find_pairs(&pairs)?;
        let entry = self.entry(slot).expect("the table holds what is there");
        Some(SeriesId::new(slot, entry.generation))
    }

    fn find_pairs(&self, pairs: &[Pair]) -> Option<Slot> {
        let hash = self.hasher.hash_one(pairs);
        let same = |slot: &Slot| self.entry(*slot).is_some_and(|entry| *entry.labels == *pairs);
        self.table.find(hash, same).copied()
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
        for (name, value) in labels {
            pairs.push((self.symbols.acquire(name), self.symbols.acquire(value)));
        }
        for &(name, value) in &pairs {
            let postings =
                self.names.entry(name).or_default().values.entry(value).or_insert_with(|| {
                    self.pairs += 1;
                    Vec::new()
                });
            if postings.capacity() == 0 {
                // Most pairs are either of one series or of very many.
                postings.reserve_exact(1);
            }
            postings.push(slot);
            self.postings += 1;
        }
        while self.entries.len() <= slot.shard() {
            self.entries.push(Vec::new());
        }
        let shard = &mut self.entries[slot.shard()];
        if shard.len() <= slot.row() as usize {
            shard.resize_with(slot.row() as usize + 1, Entry::default);
        }
        self.label_bytes += pairs.len() * size_of::<Pair>() + 16;
        shard[slot.row() as usize] =
            Entry { generation: id.generation(), labels: Box::from(&pairs[..]) };
        let hash = self.hasher.hash_one(&pairs[..]);
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.table.insert_unique(hash, slot, |slot| {
            hasher.hash_one(&*entries[slot.shard()][slot.row() as usize].labels)
        });
        self.scratch = pairs;
    }

    /// Removes series, as many as possible at once: each label pair they have is gone through.
    pub(crate) fn remove(&mut self, ids: &[SeriesId]) {
        let mut affected = hashbrown::HashSet::<Pair>::new();
        let mut released = Vec::new();
        for id in ids {
            let slot = id.slot();
            let Some(entry) = self.entry(slot).filter(|e| e.generation == id.generation()) else {
                continue;
            };
            let hash = self.hasher.hash_one(&*entry.labels);
            if let Ok(found) = self.table.find_entry(hash, |other| *other == slot) {
                found.remove();
            }
            let entry = std::mem::take(&mut self.entries[slot.shard()][slot.row() as usize]);
            self.label_bytes -= entry.labels.len() * size_of::<Pair>() + 16;
            affected.extend(entry.labels.iter().copied());
            released.extend_from_slice(&entry.labels);
        }
        for (name, value) in affected {
            let Some(values) = self.names.get_mut(&name) else { continue };
            let Some(postings) = values.values.get_mut(&value) else { continue };
            let before = postings.len();
            let entries = &self.entries;
            postings.retain(|slot| entries[slot.shard()][slot.row() as usize].generation != 0);
            self.postings -= before - postings.len();
            if postings.is_empty() {
                values.values.remove(&value);
                self.pairs -= 1;
                if values.values.is_empty() {
                    self.names.remove(&name);
                }
            } else if postings.len() < postings.capacity() / 4 {
                postings.shrink_to_fit();
            }
        }
        for (name, value) in released {
            self.symbols.release(name);
            self.symbols.release(value);
        }
    }

    /// The labels of a series.
    pub(crate) fn labels(&self, slot: Slot, scratch: &mut Vec<u8>) -> Option<(SeriesId, Labels)> {
        let entry = self.entry(slot)?;
        let pairs = entry
            .labels
            .iter()
            .map(|&(name, value)| (self.symbols.text(name), self.symbols.text(value)));
        Some((SeriesId::new(slot, entry.generation), Labels::from_sorted_with(pairs, scratch)))
    }

    /// Series among which are all that match: the shortest list that one matcher gives.
    pub(crate) fn candidates(&self, matchers: &[Matcher]) -> Vec<Slot> {
        let mut best: Option<&[Slot]> = None;
        for matcher in matchers {
            if matcher.op() == MatchOp::Equal && !matcher.value().is_empty() {
                let found = self.postings(matcher.name(), matcher.value());
                if best.is_none_or(|best| found.len() < best.len()) {
                    best = Some(found);
                }
            }
        }
        if let Some(best) = best {
            return best.to_vec();
        }
        let selective = matchers.iter().find(|matcher| !matcher.matches_empty());
        let Some(matcher) = selective else {
            return self.table.iter().copied().collect();
        };
        let mut union = Vec::new();
        if let Some(name) = self.name(matcher.name()) {
            for (&value, postings) in &name.values {
                if matcher.matches(self.symbols.text(value)) {
                    union.extend_from_slice(postings);
                }
            }
        }
        union
    }

    fn name(&self, name: &str) -> Option<&Name> {
        self.names.get(&self.symbols.get(name)?)
    }

    fn postings(&self, name: &str, value: &str) -> &[Slot] {
        let found = self.name(name).and_then(|name| name.values.get(&self.symbols.get(value)?));
        found.map_or(&[], Vec::as_slice)
    }

    /// All label names, in no order.
    pub(crate) fn each_name<'a>(&'a self, mut each: impl FnMut(&'a str)) {
        for &name in self.names.keys() {
            each(self.symbols.text(name));
        }
    }

    /// All values of a label, in no order.
    pub(crate) fn each_value<'a>(&'a self, name: &str, mut each: impl FnMut(&'a str)) {
        for &value in self.name(name).iter().flat_map(|name| name.values.keys()) {
            each(self.symbols.text(value));
        }
    }

    /// The largest of each kind.
    pub(crate) fn cardinality(&self, limit: usize) -> crate::db::Cardinality {
        let mut values = Vec::new();
        let mut bytes = Vec::new();
        let mut pairs = Top::new(limit);
        for (&name, entry) in &self.names {
            let text = self.symbols.text(name);
            values.push((text.to_owned(), entry.values.len() as u64));
            let size = |(&value, postings): (&Symbol, &Vec<Slot>)| {
                (self.symbols.text(value).len() * postings.len()) as u64
            };
            bytes.push((text.to_owned(), entry.values.iter().map(size).sum()));
            for (&value, postings) in &entry.values {
                pairs.push(postings.len() as u64, (text, self.symbols.text(value)));
            }
        }
        let mut metrics = Top::new(limit);
        if let Some(name) = self.name(METRIC_NAME) {
            for (&value, postings) in &name.values {
                metrics.push(postings.len() as u64, self.symbols.text(value));
            }
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

/// Tests many series against the same matchers; each value is matched once.
///
/// Remembers symbols, which don't outlive a lock of the index: [`Filter::resume`] after each.
pub(crate) struct Filter<'m> {
    matchers: Vec<(&'m Matcher, Option<Symbol>, HashMap<Symbol, bool>)>,
}

impl<'m> Filter<'m> {
    pub(crate) fn new(matchers: &'m [Matcher]) -> Self {
        let matchers = matchers.iter().map(|m| (m, None, HashMap::new())).collect();
        Filter { matchers }
    }

    /// What was remembered of symbols is void after the index was unlocked.
    pub(crate) fn resume(&mut self, index: &Index) {
        for (matcher, name, results) in &mut self.matchers {
            *name = index.symbols.get(matcher.name());
            results.clear();
        }
    }

    /// Whether the series at `slot` passes all matchers.
    pub(crate) fn matches(&mut self, index: &Index, slot: Slot) -> bool {
        let Some(entry) = index.entry(slot) else { return false };
        self.matchers.iter_mut().all(|(matcher, name, results)| {
            let found = name.and_then(|name| entry.labels.iter().find(|(other, _)| *other == name));
            match found {
                None => matcher.matches_empty(),
                Some(&(_, value)) => *results
                    .entry(value)
                    .or_insert_with(|| matcher.matches(index.symbols.text(value))),
            }
        })
    }
}
