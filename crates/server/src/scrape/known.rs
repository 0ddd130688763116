//! The lines of a target's last scrape, in their order: what the next scrape is compared with.
//!
//! A steady scrape walks `lines` and `text` from front to back, in the order in which the body comes,
//! and compares each line where it stands; nothing is hashed. Each line remembers which line followed
//! it, so that lines that come or go cost a look-up in the index once and none from then on. Lines
//! that the target stopped exposing are thrown out, so the memory is bounded by what it exposes. A
//! dropped series is its text and nothing more.

use hashbrown::HashTable;
use store::db::SeriesId;

/// The place of a line in [`Known`].
pub(super) type Place = u32;

/// No line: never a place.
pub(super) const NOWHERE: Place = Place::MAX;

/// What there is to know about one line, next to its text.
pub(super) struct Line {
    /// The series in the store; `None` for comments, dropped and not yet stored series.
    pub(super) id: Option<SeriesId>,
    start: u32,
    length: u32,
    /// The line that followed when this one was last seen.
    pub(super) next: Place,
    /// The last scrape that had this line.
    pub(super) seen: u32,
    /// The last scrape that had it in a way that makes its absence a staleness marker.
    pub(super) tracked: u32,
    pub(super) kind: LineKind,
    /// Whether the store's last sample is one of ours and the next absence is to be marked.
    pub(super) live: bool,
}

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// A line that begins with `#`.
    Comment,
    /// A series that is stored.
    Series,
    /// A series that relabelling drops.
    Dropped,
}

/// Lines stay so many scrapes after they were last seen: some series come and go, and metadata is
/// still asked for. Only when very many lines are gone at once do series go at once.
const KEEP: u32 = 10;

/// At the latest after so many scrapes, lines that are gone are thrown out.
const COLLECT_EVERY: u32 = 16;

/// See the module.
#[derive(Default)]
pub(super) struct Known {
    text: Vec<u8>,
    pub(super) lines: Vec<Line>,
    index: HashTable<Place>,
    hasher: foldhash::fast::RandomState,
    /// The line that the last scrape began with.
    pub(super) first: Place,
    /// The number of the current scrape.
    pub(super) generation: u32,
    /// Lines that are live.
    pub(super) live: u32,
    /// Series whose lines are forgotten, but whose absence is still to be marked.
    pub(super) orphans: Vec<SeriesId>,
}

impl Known {
    /// The bytes of the line at `place`.
    #[inline]
    pub(super) fn text_of(&self, line: &Line) -> &[u8] {
        &self.text[line.start as usize..(line.start + line.length) as usize]
    }

    /// The line with these bytes.
    pub(super) fn find(&self, text: &[u8]) -> Option<Place> {
        let hash = self.hash(text);
        let same = |place: &Place| self.text_of(&self.lines[*place as usize]) == text;
        self.index.find(hash, same).copied()
    }

    /// Adds a line that is not there yet; `None` when there is no room for more text. Growth.
    pub(super) fn add(&mut self, text: &[u8], kind: LineKind) -> Option<Place> {
        let start = u32::try_from(self.text.len()).ok()?;
        let length = u32::try_from(text.len()).ok()?;
        start.checked_add(length)?;
        let place = Place::try_from(self.lines.len()).ok().filter(|place| *place != NOWHERE)?;
        let hash = self.hash(text);
        self.text.extend_from_slice(text);
        self.lines.push(Line {
            id: None,
            start,
            length,
            next: NOWHERE,
            seen: 0,
            tracked: 0,
            kind,
            live: false,
        });
        self.insert(hash, place);
        Some(place)
    }

    /// Takes back the lines that were added since there were `lines`.
    pub(super) fn truncate(&mut self, lines: usize) {
        for place in lines..self.lines.len() {
            let hash = self.hash(self.text_of(&self.lines[place]));
            if let Ok(entry) = self.index.find_entry(hash, |other| *other as usize == place) {
                entry.remove();
            }
        }
        if let Some(line) = self.lines.get(lines) {
            self.text.truncate(line.start as usize);
        }
        self.lines.truncate(lines);
    }

    /// Makes the store be asked again for the series at `place` when it comes next.
    pub(super) fn forget(&mut self, place: Place) {
        let hash = self.hash(self.text_of(&self.lines[place as usize]));
        if let Ok(entry) = self.index.find_entry(hash, |other| *other == place) {
            entry.remove();
        }
        let line = &mut self.lines[place as usize];
        self.live -= u32::from(line.live);
        line.live = false;
        line.id = None;
        line.seen = 0;
        // An empty text never matches where a line is expected.
        line.length = 0;
    }

    /// Takes back that these lines have ended: their markers could not be stored.
    #[cold]
    pub(super) fn revive(&mut self, ended: &[Place]) {
        for &place in ended {
            let line = &mut self.lines[place as usize];
            self.live += u32::from(!line.live);
            line.live = true;
        }
    }

    /// Forgets all lines, but not which series are to be marked stale: for new relabelling rules.
    pub(super) fn reset(&mut self) {
        let live = self.lines.iter().filter(|line| line.live);
        self.orphans.extend(live.filter_map(|line| line.id));
        self.text = Vec::new();
        self.lines = Vec::new();
        self.index = HashTable::new();
        self.first = 0;
        self.live = 0;
    }

    /// Throws out lines that are gone, if there are many, or some for long. To be called after a
    /// successful scrape that saw `seen` different lines; says whether it did anything.
    pub(super) fn collect(&mut self, seen: usize) -> bool {
        let gone = self.lines.len() - seen;
        let many = gone > seen / 4 + 16;
        if gone == 0 || !(many || self.generation.is_multiple_of(COLLECT_EVERY)) {
            return false;
        }
        let generation = self.generation;
        let keep = |line: &Line| {
            let recent = line.length > 0 && generation - line.seen <= KEEP;
            let spared = recent && (!many || line.kind == LineKind::Comment);
            line.seen == generation || line.live || spared
        };
        if self.lines.iter().all(keep) {
            return false;
        }
        let lines = std::mem::take(&mut self.lines);
        let text = std::mem::take(&mut self.text);
        let mut moved = vec![NOWHERE; lines.len()];
        self.text.reserve_exact(
            lines.iter().filter(|line| keep(line)).map(|line| line.length as usize).sum(),
        );
        // In the order of the last scrape as far as it is known, so that the walk goes straight again.
        let mut place = self.first;
        while let Some(line) = lines.get(place as usize)
            && moved[place as usize] == NOWHERE
            && line.seen == generation
        {
            self.adopt(line, &text, &mut moved[place as usize]);
            place = line.next;
        }
        for (place, line) in lines.iter().enumerate() {
            if moved[place] == NOWHERE && keep(line) {
                self.adopt(line, &text, &mut moved[place]);
            }
        }
        let renamed = |place: Place| moved.get(place as usize).copied().unwrap_or(NOWHERE);
        self.first = renamed(self.first);
        for line in &mut self.lines {
            line.next = renamed(line.next);
        }
        self.index = HashTable::with_capacity(self.lines.len());
        for place in 0..self.lines.len() {
            let hash = self.hash(self.text_of(&self.lines[place]));
            self.insert(hash, place as Place);
        }
        true
    }

    /// Bytes that the lines hold on to.
    pub(super) fn memory_usage(&self) -> usize {
        self.text.capacity()
            + self.lines.capacity() * size_of::<Line>()
            + self.index.capacity() * (size_of::<Place>() + 1)
            + self.orphans.capacity() * size_of::<SeriesId>()
    }

    fn adopt(&mut self, line: &Line, text: &[u8], place: &mut Place) {
        *place = self.lines.len() as Place;
        let start = self.text.len() as u32;
        self.text
            .extend_from_slice(&text[line.start as usize..(line.start + line.length) as usize]);
        self.lines.push(Line { start, ..*line });
    }

    fn insert(&mut self, hash: u64, place: Place) {
        let (text, lines, hasher) = (&self.text, &self.lines, &self.hasher);
        self.index.insert_unique(hash, place, |place| {
            let line = &lines[*place as usize];
            hash_of(hasher, &text[line.start as usize..(line.start + line.length) as usize])
        });
    }

    fn hash(&self, text: &[u8]) -> u64 {
        hash_of(&self.hasher, text)
    }
}

fn hash_of(hasher: &foldhash::fast::RandomState, text: &[u8]) -> u64 {
    use std::hash::BuildHasher;
    hasher.hash_one(text)
}
