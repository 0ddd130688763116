//! The label set that rules work on: borrowed names and values, and an arena for what rules write.
//!
//! [`Scratch`] belongs to the caller and is reused; [`Scratch::start`] lends it as a [`LabelSet`] whose
//! entries borrow the text of the scrape or of the discovery. Only a rule that changes a value copies
//! it, into the arena.

use std::ops::Range;

use store::Labels;
use store::pattern::Captures;

/// Buffers for relabelling, kept from one label set to the next.
#[derive(Default)]
pub struct Scratch {
    /// The emptied list of the last label set; its capacity is what counts.
    entries: Vec<Entry<'static>>,
    /// Every name and value that a rule wrote, one after the other.
    arena: String,
    pub(super) buffers: Buffers,
}

/// What rules need besides the labels.
#[derive(Default)]
pub(super) struct Buffers {
    /// The joined source labels of the current rule.
    pub(super) joined: String,
    /// The names that a rule has put together.
    pub(super) name: String,
    /// The values that a rule has put together.
    pub(super) value: String,
    /// Where each of the names and values that `labelmap` writes ends.
    pub(super) copies: Vec<(usize, usize)>,
    /// Where each rule's pattern matched, by the rule's place in its list: what matched one pattern can't
    /// hold another's groups without being allocated anew.
    pub(super) captures: Vec<Captures>,
}

struct Entry<'a> {
    name: Text<'a>,
    value: Text<'a>,
    /// 0 for what was lent, else the turn in which a rule first wrote the label.
    turn: u32,
}

/// A text of the input, or a piece of the arena.
#[derive(Clone)]
enum Text<'a> {
    Lent(&'a str),
    Own(Range<usize>),
}

impl<'a> Text<'a> {
    fn get<'t>(&'t self, arena: &'t str) -> &'t str
    where
        'a: 't,
    {
        match self {
            Text::Lent(text) => text,
            Text::Own(range) => &arena[range.clone()],
        }
    }
}

impl Scratch {
    /// New buffers. They grow to the largest label set and stay.
    pub fn new() -> Self {
        Scratch::default()
    }

    /// An empty label set that works on these buffers. Steady: does not allocate.
    pub fn start<'a>(&mut self) -> LabelSet<'a, '_> {
        self.arena.clear();
        // An empty list of one lifetime becomes one of another: nothing is in it, so nothing is
        // converted, and collecting a list's own iterator keeps its memory.
        let entries = std::mem::take(&mut self.entries)
            .into_iter()
            .map(|_| unreachable!("the list is empty"))
            .collect();
        LabelSet { entries, home: self, changed: false, turns: 0 }
    }

    /// Bytes that the buffers hold on to.
    pub fn memory_usage(&self) -> usize {
        self.entries.capacity() * size_of::<Entry<'_>>()
            + self.arena.capacity()
            + self.buffers.joined.capacity()
            + self.buffers.name.capacity()
            + self.buffers.value.capacity()
    }
}

/// A label set on its way through the rules: sorted by name, no duplicates, no empty values.
pub struct LabelSet<'a, 's> {
    entries: Vec<Entry<'a>>,
    pub(super) home: &'s mut Scratch,
    changed: bool,
    /// How many labels [`LabelSet::set`] has been the first to write.
    turns: u32,
}

impl<'a> LabelSet<'a, '_> {
    /// Adds or replaces a label without copying it; an empty value removes it.
    pub fn lend(&mut self, name: &'a str, value: &'a str) {
        let place = self.find(name);
        self.place(place, Text::Lent(name), Text::Lent(value));
    }

    /// Adds or replaces all labels of a set, without copying them.
    pub fn lend_all(&mut self, labels: &'a Labels) {
        for (name, value) in labels {
            self.lend(name, value);
        }
    }

    /// Adds or replaces a label by a copy; an empty value removes it.
    pub fn set(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return self.remove(name);
        }
        match self.find(name) {
            Ok(at) => {
                if self.entries[at].turn == 0 {
                    self.turns += 1;
                    self.entries[at].turn = self.turns;
                }
                if self.entries[at].value.get(&self.home.arena) != value {
                    self.changed = true;
                    self.entries[at].value = self.keep(value);
                }
            }
            Err(at) => {
                self.changed = true;
                self.turns += 1;
                let (name, value) = (self.keep(name), self.keep(value));
                self.entries.insert(at, Entry { name, value, turn: self.turns });
            }
        }
    }

    /// Removes a label, if it is there.
    pub fn remove(&mut self, name: &str) {
        if let Ok(at) = self.find(name) {
            self.entries.remove(at);
            self.changed = true;
        }
    }

    /// Keeps the labels for which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &str) -> bool) {
        let arena = &self.home.arena;
        let before = self.entries.len();
        self.entries.retain(|entry| keep(entry.name.get(arena), entry.value.get(arena)));
        self.changed |= self.entries.len() != before;
    }

    /// The value of a label; `None` is the same as empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.find(name).ok()?;
        Some(self.entries[at].value.get(&self.home.arena))
    }

    /// The labels in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let arena = &self.home.arena;
        self.entries.iter().map(move |entry| (entry.name.get(arena), entry.value.get(arena)))
    }

    /// The labels in the order in which Prometheus visits them: what was lent, by name, and then what
    /// rules wrote, in the order in which they first did.
    pub(super) fn visit(&self, mut look: impl FnMut(&str, &str)) {
        let arena = &self.home.arena;
        let mut turn = 0;
        loop {
            for entry in self.entries.iter().filter(|entry| entry.turn == turn) {
                look(entry.name.get(arena), entry.value.get(arena));
            }
            match self.entries.iter().map(|entry| entry.turn).filter(|next| *next > turn).min() {
                Some(next) => turn = next,
                None => return,
            }
        }
    }

    /// How many labels there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no label.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether anything but [`LabelSet::lend`] has changed the set.
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// The set for keeping. Allocates.
    pub fn to_labels(&self) -> Labels {
        Labels::from_pairs(self.iter())
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        let arena = &self.home.arena;
        // Labels arrive sorted from most sources, so the end is tried first.
        match self.entries.last() {
            None => return Err(0),
            Some(last) if last.name.get(arena) < name => return Err(self.entries.len()),
            Some(_) => {}
        }
        self.entries.binary_search_by(|entry| entry.name.get(arena).cmp(name))
    }

    fn place(&mut self, place: Result<usize, usize>, name: Text<'a>, value: Text<'a>) {
        let empty = value.get(&self.home.arena).is_empty();
        match place {
            Ok(at) if empty => drop(self.entries.remove(at)),
            Ok(at) => self.entries[at].value = value,
            Err(_) if empty => {}
            Err(at) => self.entries.insert(at, Entry { name, value, turn: 0 }),
        }
    }

    fn keep(&mut self, text: &str) -> Text<'a> {
        let arena = &mut self.home.arena;
        let start = arena.len();
        arena.push_str(text);
        Text::Own(start..arena.len())
    }
}

impl Drop for LabelSet<'_, '_> {
    fn drop(&mut self) {
        self.entries.clear();
        self.home.entries = std::mem::take(&mut self.entries)
            .into_iter()
            .map(|_| unreachable!("the list is empty"))
            .collect();
    }
}
