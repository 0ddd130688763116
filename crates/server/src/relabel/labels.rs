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
    pub(super) captures: Captures,
}

type Entry<'a> = (Text<'a>, Text<'a>);

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
        LabelSet { entries, home: self, changed: false }
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
        let place = self.find(name);
        if let Ok(at) = place
            && self.entries[at].1.get(&self.home.arena) == value
        {
            return;
        }
        if value.is_empty() {
            if let Ok(at) = place {
                self.entries.remove(at);
                self.changed = true;
            }
            return;
        }
        self.changed = true;
        let value = self.keep(value);
        match place {
            Ok(at) => self.entries[at].1 = value,
            Err(at) => {
                let name = self.keep(name);
                self.entries.insert(at, (name, value));
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
        self.entries.retain(|(name, value)| keep(name.get(arena), value.get(arena)));
        self.changed |= self.entries.len() != before;
    }

    /// The value of a label; `None` is the same as empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.find(name).ok()?;
        Some(self.entries[at].1.get(&self.home.arena))
    }

    /// The labels in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let arena = &self.home.arena;
        self.entries.iter().map(move |(name, value)| (name.get(arena), value.get(arena)))
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
            Some((last, _)) if last.get(arena) < name => return Err(self.entries.len()),
            Some(_) => {}
        }
        self.entries.binary_search_by(|(candidate, _)| candidate.get(arena).cmp(name))
    }

    fn place(&mut self, place: Result<usize, usize>, name: Text<'a>, value: Text<'a>) {
        let empty = value.get(&self.home.arena).is_empty();
        match place {
            Ok(at) if empty => drop(self.entries.remove(at)),
            Ok(at) => self.entries[at].1 = value,
            Err(_) if empty => {}
            Err(at) => self.entries.insert(at, (name, value)),
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
