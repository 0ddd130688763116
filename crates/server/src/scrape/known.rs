//! The lines of a target's last scrapes: what the next scrape is compared with.
//!
//! Everything lies in columns in the order in which the body comes, so that a steady scrape streams
//! through memory: what each line says ([`Lines`]), its series, the line that follows it. A line that
//! follows another one than last time costs a look-up once and none from then on. The index for that is
//! made when it is asked for, and goes when nothing moves any more; lines that the target stopped exposing
//! go too. So memory is bounded by what a target exposes, and for one that always says the same it is
//! hardly more than what distinguishes its lines. A dropped series is its text and nothing more.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use store::db::SeriesId;

use super::bits::Bits;
use super::lines::{Lines, Tail};

/// The place of a line in [`Known`].
pub(super) type Place = u32;

/// No line: never a place.
pub(super) const NOWHERE: Place = Place::MAX;

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum LineKind {
    /// A line that begins with `#`.
    Comment,
    /// A series that relabelling drops.
    Dropped,
    /// A series that is stored.
    Series,
    /// A series that the store has forgotten: its line is never recognised again.
    Forgotten,
}

/// After so many scrapes, lines that were in none of them are thrown out: some series come and go, and
/// metadata is still asked for. Only when very many lines are gone at once do series go at once.
const COLLECT_EVERY: u32 = 16;

/// See the module.
#[derive(Default)]
pub(super) struct Known {
    pub(super) lines: Lines,
    kinds: Vec<LineKind>,
    /// The series in the store. Comments, dropped and not yet stored series have none.
    ids: Vec<Option<SeriesId>>,
    /// For each line the one that followed when it was last seen.
    next: Vec<Place>,
    /// The lines whose series' last sample in the store is one of ours: their absence is to be marked.
    pub(super) live: Bits,
    /// The lines that were seen since lines were last thrown out.
    recent: Bits,
    index: Option<Index>,
    /// Whether the index was asked since then.
    asked: bool,
    /// The line that the last scrape began with.
    first: Place,
    /// The number of the current scrape.
    pub(super) generation: u32,
    /// Series whose lines are forgotten, but whose absence is still to be marked.
    pub(super) orphans: Vec<SeriesId>,
}

impl Known {
    /// The number of lines.
    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// What the line at `place` is; `None` if there is no such place.
    #[inline]
    pub(super) fn kind(&self, place: Place) -> Option<LineKind> {
        self.kinds.get(place as usize).copied()
    }

    /// The series at `place`, if it has one.
    #[inline]
    pub(super) fn id(&self, place: Place) -> Option<SeriesId> {
        self.ids[place as usize]
    }

    /// The series at `place` has been stored.
    pub(super) fn set_id(&mut self, place: Place, id: SeriesId) {
        self.ids[place as usize] = Some(id);
    }

    /// The line that followed the one at `before`, or began the scrape, when that was last seen.
    #[inline]
    pub(super) fn follower(&self, before: Place) -> Place {
        self.next.get(before as usize).copied().unwrap_or(self.first)
    }

    /// From now on `place` follows `before`, or begins the scrape.
    pub(super) fn follow(&mut self, before: Place, place: Place) {
        *self.next.get_mut(before as usize).unwrap_or(&mut self.first) = place;
    }

    /// The line with these bytes. Growth where nobody has asked for long, steady otherwise.
    pub(super) fn find(&mut self, text: &[u8], scratch: &mut Vec<u8>) -> Option<Place> {
        self.asked = true;
        let Known { index, lines, kinds, .. } = self;
        let index = index.get_or_insert_with(|| Index::of(lines, kinds, scratch));
        index.find(text, |place| {
            kinds[place as usize] != LineKind::Forgotten && lines.text(place, scratch) == text
        })
    }

    /// Adds a line that is not there yet; `None` when there is no room for more text. Growth.
    pub(super) fn add(&mut self, text: &[u8], kind: LineKind, tail: &mut Tail) -> Option<Place> {
        let place = Place::try_from(self.len()).ok().filter(|place| *place != NOWHERE)?;
        if !self.lines.push(text, tail) {
            return None;
        }
        self.kinds.push(kind);
        self.ids.push(None);
        self.next.push(NOWHERE);
        self.live.grow(self.len());
        if let Some(index) = &mut self.index {
            index.insert(text, place);
        }
        Some(place)
    }

    /// Takes back the lines that were added since there were `length`.
    pub(super) fn truncate(&mut self, length: usize) {
        if length == self.len() {
            return;
        }
        self.lines.truncate(length);
        self.kinds.truncate(length);
        self.ids.truncate(length);
        self.next.truncate(length);
        self.live.truncate(length);
        if let Some(index) = &mut self.index {
            index.table.retain(|entry| (entry.place as usize) < length);
        }
    }

    /// Makes the store be asked again for the series at `place` when it comes next.
    pub(super) fn forget(&mut self, place: Place) {
        self.kinds[place as usize] = LineKind::Forgotten;
        self.ids[place as usize] = None;
        self.live.unset(place as usize);
    }

    /// Takes back that these lines have ended: their markers could not be stored.
    #[cold]
    pub(super) fn revive(&mut self, ended: &[Place]) {
        self.live.grow(self.len());
        for &place in ended {
            self.live.set(place as usize);
        }
    }

    /// Forgets all lines, but not which series are to be marked stale: for new relabelling rules.
    pub(super) fn reset(&mut self) {
        let mut orphans = std::mem::take(&mut self.orphans);
        orphans.extend(self.live.iter().filter_map(|place| self.ids[place]));
        *self = Known { generation: self.generation, orphans, ..Known::default() };
    }

    /// Throws out lines that are gone, if there are many, or some for long. To be called after each
    /// successful scrape, with the lines that it saw; says whether it did anything. Steady while the same
    /// lines come.
    pub(super) fn collect(&mut self, seen: &Bits) -> bool {
        self.recent.unite(seen);
        let present = seen.count();
        let gone = self.len() - present;
        let many = gone > present / 4 + 16;
        let due = self.generation.is_multiple_of(COLLECT_EVERY);
        if !many && !due {
            return false;
        }
        let keep = |place: usize| {
            let spared = match self.kinds[place] {
                LineKind::Comment => true,
                LineKind::Dropped | LineKind::Series => !many,
                LineKind::Forgotten => false,
            };
            seen.get(place) || self.live.get(place) || spared && self.recent.get(place)
        };
        let thrown = gone > 0 && !(0..self.len()).all(keep);
        if thrown {
            let kept = (0..self.len()).filter(|place| keep(*place)).count();
            let mut order = Vec::with_capacity(kept);
            // In the order of the last scrape as far as it is known, so that the walk goes straight again.
            let mut placed = Bits::default();
            placed.reset(self.len());
            let mut place = self.first;
            while seen.get(place as usize) && !placed.set(place as usize) {
                order.push(place);
                place = self.next[place as usize];
            }
            order.extend(
                (0..self.len()).filter(|at| keep(*at) && !placed.get(*at)).map(|at| at as Place),
            );
            self.reorder(&order);
        }
        if due {
            self.recent.clear();
            if !std::mem::take(&mut self.asked) {
                self.index = None;
            }
            self.trim();
        }
        thrown
    }

    /// Gives back room that a growing target left. Steady where there is little of it.
    fn trim(&mut self) {
        if self.kinds.capacity() - self.len() > self.len() / 8 {
            self.kinds.shrink_to_fit();
            self.ids.shrink_to_fit();
            self.next.shrink_to_fit();
        }
        self.lines.trim();
    }

    /// Makes `order` all lines that there are. Growth.
    fn reorder(&mut self, order: &[Place]) {
        let old = std::mem::take(self);
        let mut moved = vec![NOWHERE; old.len()];
        for (place, before) in order.iter().enumerate() {
            moved[*before as usize] = place as Place;
        }
        let renamed = |place: Place| moved.get(place as usize).copied().unwrap_or(NOWHERE);
        self.kinds = order.iter().map(|place| old.kinds[*place as usize]).collect();
        self.ids = order.iter().map(|place| old.ids[*place as usize]).collect();
        self.next = order.iter().map(|place| renamed(old.next[*place as usize])).collect();
        self.first = renamed(old.first);
        self.live.reset(order.len());
        self.recent.reset(order.len());
        let (mut tail, mut scratch) = (Tail::default(), Vec::new());
        for (place, before) in order.iter().enumerate() {
            let told = self.lines.push(old.lines.text(*before, &mut scratch), &mut tail);
            assert!(told, "fewer lines than there were have room where those had it");
            if old.live.get(*before as usize) {
                self.live.set(place);
            }
            if old.recent.get(*before as usize) {
                self.recent.set(place);
            }
        }
        self.lines.trim();
        self.index = old.index.map(|_| Index::of(&self.lines, &self.kinds, &mut scratch));
        self.asked = old.asked;
        self.generation = old.generation;
        self.orphans = old.orphans;
    }

    /// The text of each comment, with the end of its line.
    pub(super) fn comments(&self, mut each: impl FnMut(&[u8])) {
        let mut scratch = Vec::new();
        for (place, kind) in self.kinds.iter().enumerate() {
            if *kind == LineKind::Comment {
                self.lines.locate(place as Place, &mut scratch);
                scratch.push(b'\n');
                each(&scratch);
            }
        }
    }

    /// Bytes that the lines hold on to.
    pub(super) fn memory_usage(&self) -> usize {
        let index = self.index.as_ref().map_or(0, |index| index.table.allocation_size());
        self.lines.memory_usage()
            + self.kinds.capacity()
            + self.ids.capacity() * size_of::<Option<SeriesId>>()
            + self.next.capacity() * size_of::<Place>()
            + self.live.memory_usage()
            + self.recent.memory_usage()
            + index
            + self.orphans.capacity() * size_of::<SeriesId>()
    }
}

/// Lines by their bytes.
#[derive(Default)]
struct Index {
    table: HashTable<Entry>,
    hasher: RandomState,
}

/// A line and its hash, so that a table that grows does not need the text.
#[derive(Clone, Copy)]
struct Entry {
    hash: u32,
    place: Place,
}

impl Entry {
    /// What the table goes by: it looks at both ends.
    fn spread(&self) -> u64 {
        u64::from(self.hash) << 32 | u64::from(self.hash)
    }
}

impl Index {
    /// The index of all lines.
    fn of(lines: &Lines, kinds: &[LineKind], scratch: &mut Vec<u8>) -> Self {
        let table = HashTable::with_capacity(kinds.len());
        let mut index = Index { table, hasher: RandomState::default() };
        for (place, kind) in kinds.iter().enumerate() {
            if *kind != LineKind::Forgotten {
                index.insert(lines.text(place as Place, scratch), place as Place);
            }
        }
        index
    }

    fn find(&self, text: &[u8], mut same: impl FnMut(Place) -> bool) -> Option<Place> {
        let wanted = self.entry(text, NOWHERE);
        let found = self
            .table
            .find(wanted.spread(), |entry| entry.hash == wanted.hash && same(entry.place));
        found.map(|entry| entry.place)
    }

    fn insert(&mut self, text: &[u8], place: Place) {
        let entry = self.entry(text, place);
        self.table.insert_unique(entry.spread(), entry, Entry::spread);
    }

    fn entry(&self, text: &[u8], place: Place) -> Entry {
        Entry { hash: self.hasher.hash_one(text) as u32, place }
    }
}
