//! Sets of labels, kept in the bytes in which a sample carries them.

use std::cell::Cell;

use hashbrown::HashTable;
use wire::protobuf::{Sink as _, int64_len, uint64_len};

use super::hash::Hashes;
use super::names::{NameId, Names};
use super::{Label, LabelValue, LabelsId};

/// The set without labels.
pub(super) const EMPTY: u32 = 0;
/// The set for those that the bound left no room for.
pub(super) const OVERFLOW: u32 = 1;

/// How many sets are looked at, at most, to make room for one.
const STEPS: usize = 256;

struct Kept {
    key: NameId,
    value: KeptValue,
}

#[derive(Clone, Copy)]
enum KeptValue {
    Text(NameId),
    Number(i64),
}

struct Set {
    labels: Box<[Kept]>,
    encoded: Box<[u8]>,
    hash: u64,
    generation: u32,
    /// Entries that have it.
    references: u32,
    /// Whether it was asked for since the hand passed.
    is_recent: bool,
    /// The recording in which it was asked for last.
    asked: Cell<u32>,
    is_live: bool,
}

/// The sets, and the texts in them. Texts have ids of their own, which are their places in the string
/// table of every profile, so that a set's bytes are the same in all of them.
pub(super) struct LabelSets {
    pub(super) names: Names,
    sets: Vec<Set>,
    free: Vec<u32>,
    found: HashTable<u32>,
    limit: usize,
    hand: usize,
    bytes: usize,
    /// One more with each recording: what was asked for in it is not dropped by it.
    recording: u32,
}

impl LabelSets {
    pub(super) fn new(hashes: &Hashes, limit: usize) -> Self {
        let mut sets = LabelSets {
            names: Names::new(),
            sets: Vec::new(),
            free: Vec::new(),
            found: HashTable::new(),
            limit: limit.max(1) + 2,
            hand: 0,
            bytes: 0,
            recording: 0,
        };
        let overflow = [Label { key: "labels", value: LabelValue::Text("[overflow]") }];
        for labels in [&[][..], &overflow] {
            let index = sets.insert(hashes, hash(hashes, labels), labels);
            sets.sets[index as usize].references = 1;
        }
        sets
    }

    /// Finds or adds a set. `None`: there are too many. *Growth.*
    pub(super) fn intern(&mut self, hashes: &Hashes, labels: &[Label<'_>]) -> Option<LabelsId> {
        let hash = hash(hashes, labels);
        let found = self.found.find(hash, |&index| {
            let set = &self.sets[index as usize];
            set.hash == hash && is_same(&self.names, &set.labels, labels)
        });
        let index = match found {
            Some(&index) => index,
            None => {
                if !self.has_room() && !self.make_room(hashes) {
                    return None;
                }
                self.insert(hashes, hash, labels)
            }
        };
        let set = &mut self.sets[index as usize];
        set.is_recent = true;
        set.asked.set(self.recording);
        Some(LabelsId { index, generation: set.generation })
    }

    fn insert(&mut self, hashes: &Hashes, hash: u64, labels: &[Label<'_>]) -> u32 {
        let names = &mut self.names;
        let kept: Box<[Kept]> = labels
            .iter()
            .map(|label| Kept {
                key: names.intern(hashes, label.key),
                value: match label.value {
                    LabelValue::Text(text) => KeptValue::Text(names.intern(hashes, text)),
                    LabelValue::Number(number) => KeptValue::Number(number),
                },
            })
            .collect();
        let encoded = encode(&kept).into_boxed_slice();
        self.bytes += encoded.len() + kept.len() * size_of::<Kept>();
        let mut set = Set {
            labels: kept,
            encoded,
            hash,
            generation: 0,
            references: 0,
            is_recent: true,
            asked: Cell::new(self.recording),
            is_live: true,
        };
        let index = match self.free.pop() {
            Some(index) => {
                let slot = &mut self.sets[index as usize];
                set.generation = slot.generation;
                *slot = set;
                index
            }
            None => {
                self.sets.push(set);
                (self.sets.len() - 1) as u32
            }
        };
        let sets = &self.sets;
        self.found.insert_unique(hash, index, |&index| sets[index as usize].hash);
        index
    }

    /// Whether another one may be added.
    pub(super) fn has_room(&self) -> bool {
        self.found.len() < self.limit
    }

    /// Drops a set that no entry has and that nobody asked for lately.
    fn make_room(&mut self, hashes: &Hashes) -> bool {
        for _ in 0..STEPS.min(self.sets.len() * 2) {
            self.hand = (self.hand + 1) % self.sets.len();
            let set = &mut self.sets[self.hand];
            if !set.is_live || set.references > 0 {
                continue;
            }
            if set.is_recent {
                set.is_recent = false;
                continue;
            }
            self.remove(hashes, self.hand as u32);
            return true;
        }
        false
    }

    fn remove(&mut self, hashes: &Hashes, index: u32) {
        let set = &mut self.sets[index as usize];
        self.bytes -= set.encoded.len() + set.labels.len() * size_of::<Kept>();
        set.is_live = false;
        set.generation = set.generation.wrapping_add(1);
        set.encoded = Box::default();
        for label in std::mem::take(&mut set.labels) {
            self.names.release(hashes, label.key);
            if let KeptValue::Text(text) = label.value {
                self.names.release(hashes, text);
            }
        }
        if let Ok(found) = self.found.find_entry(set.hash, |&known| known == index) {
            found.remove();
        }
        self.free.push(index);
    }

    /// Where the set is, if it still is there.
    #[inline]
    pub(super) fn index(&self, id: LabelsId) -> Option<u32> {
        let set = self.sets.get(id.index as usize)?;
        (set.is_live && set.generation == id.generation).then_some(id.index)
    }

    /// Whether the set is there for who has kept its id; if so it stays until the recording is over. The
    /// one for overflow is not: there may be room by now.
    #[inline]
    pub(super) fn has(&self, id: LabelsId) -> bool {
        let index = self.index(id).filter(|&index| index != OVERFLOW);
        index.is_some_and(|index| {
            self.sets[index as usize].asked.set(self.recording);
            true
        })
    }

    /// Another recording begins.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.recording = self.recording.wrapping_add(1);
    }

    /// Drops a set if no entry has it any more, unless this recording has asked for it.
    pub(super) fn drop_unused(&mut self, hashes: &Hashes, index: u32) {
        let set = &self.sets[index as usize];
        if set.is_live && set.references == 0 && set.asked.get() != self.recording {
            self.remove(hashes, index);
        }
    }

    /// One more entry has it.
    #[inline]
    pub(super) fn retain(&mut self, index: u32) {
        self.sets[index as usize].references += 1;
    }

    /// One less.
    #[inline]
    pub(super) fn release(&mut self, index: u32) {
        self.sets[index as usize].references -= 1;
    }

    /// The fields of a sample.
    #[inline]
    pub(super) fn encoded(&self, index: u32) -> &[u8] {
        &self.sets[index as usize].encoded
    }

    /// The labels of a set.
    pub(super) fn labels(&self, index: u32) -> impl Iterator<Item = Label<'_>> {
        self.sets[index as usize].labels.iter().map(|label| Label {
            key: self.names.text(label.key),
            value: match label.value {
                KeptValue::Text(text) => LabelValue::Text(self.names.text(text)),
                KeptValue::Number(number) => LabelValue::Number(number),
            },
        })
    }

    /// The texts that a set's bytes refer to.
    pub(super) fn texts(&self, index: u32) -> impl Iterator<Item = NameId> {
        self.sets[index as usize].labels.iter().flat_map(|label| {
            let text = match label.value {
                KeptValue::Text(text) => Some(text),
                KeptValue::Number(_) => None,
            };
            [Some(label.key), text].into_iter().flatten()
        })
    }

    /// Above every index.
    pub(super) fn end(&self) -> usize {
        self.sets.len()
    }

    /// The sets there are, without the two that always are.
    pub(super) fn len(&self) -> usize {
        self.found.len() - 2
    }

    /// About what they take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.found.len() * (size_of::<Set>() + 8) + self.names.bytes()
    }
}

fn hash(hashes: &Hashes, labels: &[Label<'_>]) -> u64 {
    struct Content<'a>(&'a [Label<'a>]);
    impl std::hash::Hash for Content<'_> {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            for label in self.0 {
                label.key.hash(state);
                match label.value {
                    LabelValue::Text(text) => text.hash(state),
                    LabelValue::Number(number) => state.write_i64(number),
                }
            }
        }
    }
    hashes.of(&Content(labels))
}

fn is_same(names: &Names, kept: &[Kept], labels: &[Label<'_>]) -> bool {
    kept.len() == labels.len()
        && kept.iter().zip(labels).all(|(kept, label)| {
            let is_value = match (kept.value, label.value) {
                (KeptValue::Text(text), LabelValue::Text(wanted)) => names.text(text) == wanted,
                (KeptValue::Number(number), LabelValue::Number(wanted)) => number == wanted,
                _ => false,
            };
            is_value && names.text(kept.key) == label.key
        })
}

/// Fields 3 of a `Sample`: each a `Label` of key (1), and str (2) or num (3).
fn encode(labels: &[Kept]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(labels.len() * 8);
    for label in labels {
        let key = u64::from(label.key.0);
        match label.value {
            KeptValue::Text(text) => {
                let text = u64::from(text.0);
                bytes.nested(3, uint64_len(1, key) + uint64_len(2, text));
                bytes.uint64(1, key);
                bytes.uint64(2, text);
            }
            KeptValue::Number(number) => {
                bytes.nested(3, uint64_len(1, key) + int64_len(3, number));
                bytes.uint64(1, key);
                bytes.int64(3, number);
            }
        }
    }
    bytes
}
