//! The values of one profile: per entry, that is per stack with labels, a row of numbers that only add up.
//!
//! A row is never set back. When an entry is dropped and its place taken by another, the row goes on from
//! where it was, and `base` says where the new one began: whoever remembers a row from before finds nothing
//! added by the drop, and needs not know of it.

use hashbrown::HashTable;

use super::hash::StackHash;
use super::names::NameId;
use super::{EntryId, ValueType};

/// The entry of what the bounds left no room for.
pub(super) const OVERFLOW: u32 = 0;
/// The entry of what dropped entries had, so that totals stay true.
pub(super) const DROPPED: u32 = 1;

/// A stack with labels.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    hash: StackHash,
    pub(super) stack: u32,
    pub(super) thread: u32,
    pub(super) scope: u32,
    generation: u32,
    /// The profile's clock when it was last added to.
    touched: u32,
    is_live: bool,
    /// Whether it was added to since the hand passed.
    is_recent: bool,
}

/// What a profile is made of.
pub(super) struct Shape {
    pub(super) columns: Box<[ValueType]>,
    /// Kind and unit of each column, among the names of labels.
    pub(super) column_names: Box<[(NameId, NameId)]>,
    pub(super) default: usize,
    pub(super) period_names: (NameId, NameId),
    pub(super) period: i64,
    /// For each column, whether it is a balance, which may go down again.
    balances: Box<[bool]>,
}

impl Shape {
    pub(super) fn new(
        columns: &[ValueType],
        default: usize,
        period_type: ValueType,
        period: i64,
        mut name: impl FnMut(&str) -> NameId,
    ) -> Self {
        let mut names = |value_type: &ValueType| (name(value_type.kind), name(value_type.unit));
        let column_names = columns.iter().map(&mut names).collect();
        let period_names = names(&period_type);
        let balances = columns.iter().map(|column| column.kind.starts_with("inuse")).collect();
        Shape { columns: Box::from(columns), column_names, default, period_names, period, balances }
    }
}

/// A reader that is owed everything after `seen`.
struct Reader {
    id: u64,
    seen: u32,
}

/// The entries of a profile and their values.
pub(super) struct Entries {
    pub(super) shape: Shape,
    slots: Vec<Entry>,
    values: Vec<i64>,
    /// Where the values of each row's entry began.
    base: Vec<i64>,
    free: Vec<u32>,
    found: HashTable<u32>,
    /// One more with each look of a reader.
    clock: u32,
    readers: Vec<Reader>,
    hand: usize,
}

impl Entries {
    pub(super) fn new(shape: Shape) -> Self {
        Entries {
            shape,
            slots: Vec::new(),
            values: Vec::new(),
            base: Vec::new(),
            free: Vec::new(),
            found: HashTable::new(),
            clock: 1,
            readers: Vec::new(),
            // Behind the two that stay.
            hand: DROPPED as usize,
        }
    }

    /// The entry of a stack with labels. *Steady.*
    #[inline]
    pub(super) fn find(&self, hash: StackHash, thread: u32, scope: u32) -> Option<u32> {
        let is_it = |&index: &u32| {
            let entry = &self.slots[index as usize];
            entry.hash == hash && entry.thread == thread && entry.scope == scope
        };
        self.found.find(hash.with_labels(thread, scope), is_it).copied()
    }

    /// Adds an entry that is not there yet. Who calls counts the references to stack and labels. *Growth.*
    pub(super) fn insert(&mut self, hash: StackHash, stack: u32, thread: u32, scope: u32) -> u32 {
        let mut entry = Entry {
            hash,
            stack,
            thread,
            scope,
            generation: 0,
            touched: self.clock,
            is_live: true,
            // Whether it comes again is not known: were all new ones kept for a lap, the first lap would
            // find none that may go.
            is_recent: false,
        };
        let width = self.width();
        let index = match self.free.pop() {
            Some(index) => {
                let slot = &mut self.slots[index as usize];
                entry.generation = slot.generation;
                *slot = entry;
                index
            }
            None => {
                self.slots.push(entry);
                self.values.resize(self.values.len() + width, 0);
                self.base.resize(self.base.len() + width, 0);
                (self.slots.len() - 1) as u32
            }
        };
        let slots = &self.slots;
        self.found.insert_unique(hash.with_labels(thread, scope), index, |&index| {
            let entry = &slots[index as usize];
            entry.hash.with_labels(entry.thread, entry.scope)
        });
        index
    }

    /// Adds to a row that was there before. *Steady.*
    #[inline]
    pub(super) fn add(&mut self, index: u32, values: &[i64]) -> EntryId {
        self.slots[index as usize].is_recent = true;
        self.add_first(index, values)
    }

    /// Adds to a row that is new. *Steady.*
    #[inline]
    pub(super) fn add_first(&mut self, index: u32, values: &[i64]) -> EntryId {
        let entry = &mut self.slots[index as usize];
        entry.touched = self.clock;
        let generation = entry.generation;
        let row = self.row(index);
        for (sum, value) in self.values[row].iter_mut().zip(values) {
            *sum = sum.wrapping_add(*value);
        }
        EntryId { index, generation }
    }

    /// Where the entry is, if it still is there. *Steady.*
    #[inline]
    pub(super) fn index(&self, id: EntryId) -> Option<u32> {
        let entry = self.slots.get(id.index as usize)?;
        (entry.is_live && entry.generation == id.generation).then_some(id.index)
    }

    /// Looks at up to `steps` entries, from where the last look ended, and drops the first that is wanted
    /// and idle: not added to since the last look, seen by every reader, with nothing in use. Gives it, for
    /// its references, and the steps that are left.
    pub(super) fn drop_idle(
        &mut self,
        mut steps: usize,
        is_wanted: fn(&Entry) -> bool,
    ) -> (Option<Entry>, usize) {
        steps = steps.min(self.slots.len() * 2);
        while steps > 0 {
            steps -= 1;
            self.hand += 1;
            if self.hand >= self.slots.len() {
                // The first two are for overflow and for what was dropped.
                self.hand = DROPPED as usize + 1;
                if self.hand >= self.slots.len() {
                    return (None, 0);
                }
            }
            let entry = &mut self.slots[self.hand];
            if !entry.is_live || !is_wanted(entry) {
                continue;
            }
            if std::mem::take(&mut entry.is_recent) {
                continue;
            }
            let touched = entry.touched;
            if self.readers.iter().any(|reader| reader.seen < touched) || self.is_in_use(self.hand)
            {
                continue;
            }
            return (Some(self.remove(self.hand as u32)), steps);
        }
        (None, 0)
    }

    fn is_in_use(&self, index: usize) -> bool {
        let row = self.row(index as u32);
        let columns = self.values[row.clone()].iter().zip(&self.base[row]);
        columns.zip(&self.shape.balances).any(|((now, base), balance)| *balance && now != base)
    }

    fn remove(&mut self, index: u32) -> Entry {
        let entry = &mut self.slots[index as usize];
        entry.is_live = false;
        entry.generation = entry.generation.wrapping_add(1);
        let entry = *entry;
        let hash = entry.hash.with_labels(entry.thread, entry.scope);
        if let Ok(found) = self.found.find_entry(hash, |&known| known == index) {
            found.remove();
        }
        let width = self.width();
        let (row, dropped) = (self.row(index), self.row(DROPPED));
        for column in 0..width {
            let (now, base) = (self.values[row.start + column], &mut self.base[row.start + column]);
            let had = now.wrapping_sub(*base);
            *base = now;
            let dropped = &mut self.base[dropped.start + column];
            *dropped = dropped.wrapping_sub(had);
        }
        self.free.push(index);
        entry
    }

    /// Takes up to `count` entries off the end, for a profile that nobody has any more.
    pub(super) fn pop(&mut self, count: usize, mut taken: impl FnMut(Entry)) -> bool {
        for _ in 0..count {
            match self.slots.pop() {
                Some(entry) if entry.is_live => taken(entry),
                Some(_) => {}
                None => return false,
            }
        }
        true
    }

    /// Begins to owe a reader what is added from now on, or, from `zero`, everything.
    pub(super) fn open(&mut self, id: u64, from_zero: bool) {
        let seen = if from_zero { 0 } else { self.clock };
        self.clock += 1;
        self.readers.push(Reader { id, seen });
    }

    /// A reader has begun to look: gives what to say to [`seen`](Self::seen) when it is done.
    pub(super) fn look(&mut self) -> u32 {
        self.clock += 1;
        self.clock - 1
    }

    /// A reader has what was added up to that look.
    pub(super) fn seen(&mut self, id: u64, look: u32) {
        if let Some(reader) = self.readers.iter_mut().find(|reader| reader.id == id) {
            reader.seen = look;
        }
    }

    /// A reader is gone.
    pub(super) fn close(&mut self, id: u64) {
        self.readers.retain(|reader| reader.id != id);
    }

    #[inline]
    pub(super) fn entry(&self, index: u32) -> &Entry {
        &self.slots[index as usize]
    }

    #[inline]
    pub(super) fn width(&self) -> usize {
        self.shape.columns.len()
    }

    #[inline]
    fn row(&self, index: u32) -> std::ops::Range<usize> {
        let width = self.width();
        index as usize * width..(index as usize + 1) * width
    }

    /// All rows, one behind the other.
    pub(super) fn values(&self) -> &[i64] {
        &self.values
    }

    /// Where all rows began.
    pub(super) fn base(&self) -> &[i64] {
        &self.base
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// About what they take.
    pub(super) fn bytes(&self) -> usize {
        self.found.len() * (size_of::<Entry>() + 8 + 16 * self.width())
    }
}
