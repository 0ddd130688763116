//! The series that have a label pair, ascending.
//!
//! Series of a target have consecutive rows, so most pairs are of one run, which is told in place: that
//! of one series, that of all series of a target, that of all there are. What is left is kept by the
//! upper half of the slots, as runs, or as bits where runs would take more.

use super::row::Slot;

/// Slots with the same upper half.
const PART: u32 = 1 << 16;
const WORDS: usize = PART as usize / 64;
/// With more runs than these, bits take less memory.
const RUNS_MAX: usize = WORDS * 8 / size_of::<Span>();
/// With fewer slots than these, runs do.
const BITS_MIN: u32 = RUNS_MAX as u32 / 4;

/// First and last of consecutive slots.
type Span = (u16, u16);

/// See the module.
pub(crate) struct Postings(Kind);

enum Kind {
    Run { start: u32, length: u32 },
    Many(Box<Many>),
}

const _: () = assert!(size_of::<Postings>() == 16, "there is one for each label pair");

struct Many {
    length: u32,
    /// What the parts hold.
    bytes: usize,
    /// Ascending by key.
    parts: Vec<Part>,
}

struct Part {
    key: u16,
    slots: Slots,
}

enum Slots {
    Runs(Vec<Span>),
    Bits { words: Box<[u64; WORDS]>, count: u32 },
}

impl Postings {
    /// Without series.
    pub(crate) const EMPTY: Postings = Postings(Kind::Run { start: 0, length: 0 });

    /// The number of series.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Kind::Run { length, .. } => *length as usize,
            Kind::Many(many) => many.length as usize,
        }
    }

    /// Bytes held beside the value itself.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        let Kind::Many(many) = &self.0 else { return 0 };
        size_of::<Many>() + many.parts.capacity() * size_of::<Part>() + many.bytes
    }

    /// Adds a series.
    pub(crate) fn insert(&mut self, slot: Slot) {
        let number = slot.0;
        match &mut self.0 {
            Kind::Run { start, length: length @ 0 } => (*start, *length) = (number, 1),
            Kind::Run { start, length } if number == start.wrapping_add(*length) => *length += 1,
            Kind::Run { start, length } if number.wrapping_add(1) == *start => {
                (*start, *length) = (number, *length + 1);
            }
            Kind::Run { start, length } if (*start..*start + *length).contains(&number) => {}
            Kind::Run { start, length } => {
                let mut many = Many::of_run(*start, *length);
                many.insert(number);
                self.0 = Kind::Many(Box::new(many));
            }
            Kind::Many(many) => many.insert(number),
        }
    }

    /// Removes a series.
    pub(crate) fn remove(&mut self, slot: Slot) {
        let number = slot.0;
        match &mut self.0 {
            Kind::Run { start, length } => {
                if !(*start..*start + *length).contains(&number) {
                } else if number + 1 == *start + *length {
                    *length -= 1;
                } else if number == *start {
                    (*start, *length) = (number + 1, *length - 1);
                } else {
                    let mut many = Many::of_run(*start, *length);
                    many.remove(number);
                    self.0 = Kind::Many(Box::new(many));
                }
            }
            Kind::Many(many) => {
                many.remove(number);
                if let Some((start, length)) = many.single_run() {
                    self.0 = Kind::Run { start, length };
                }
            }
        }
    }

    /// Hands each series to `each`, ascending.
    pub(crate) fn each(&self, mut each: impl FnMut(Slot)) {
        match &self.0 {
            Kind::Run { start, length } => (*start..*start + *length).map(Slot).for_each(each),
            Kind::Many(many) => {
                for part in &many.parts {
                    let base = u32::from(part.key) * PART;
                    part.slots.each(|low| each(Slot(base + u32::from(low))));
                }
            }
        }
    }
}

fn split(number: u32) -> (u16, u16) {
    ((number / PART) as u16, number as u16)
}

/// Growth by half: a list is one of thousands.
fn insert_tight<T>(list: &mut Vec<T>, at: usize, item: T) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() / 2).max(1));
    }
    list.insert(at, item);
}

impl Many {
    fn of_run(start: u32, length: u32) -> Self {
        let last = start + length - 1;
        let parts = split(start).0..=split(last).0;
        let parts = parts.map(|key| {
            let first = if key == split(start).0 { split(start).1 } else { 0 };
            let last = if key == split(last).0 { split(last).1 } else { u16::MAX };
            Part { key, slots: Slots::Runs(vec![(first, last)]) }
        });
        let parts: Vec<Part> = parts.collect();
        Many { length, bytes: parts.iter().map(|part| part.slots.memory()).sum(), parts }
    }

    fn insert(&mut self, number: u32) {
        let (key, low) = split(number);
        let at = self.parts.partition_point(|part| part.key < key);
        if self.parts.get(at).is_none_or(|part| part.key != key) {
            let part = Part { key, slots: Slots::Runs(vec![(low, low)]) };
            self.bytes += part.slots.memory();
            insert_tight(&mut self.parts, at, part);
            self.length += 1;
        } else {
            let slots = &mut self.parts[at].slots;
            self.bytes -= slots.memory();
            self.length += u32::from(slots.insert(low));
            self.bytes += slots.memory();
        }
    }

    fn remove(&mut self, number: u32) {
        let (key, low) = split(number);
        let at = self.parts.partition_point(|part| part.key < key);
        let Some(part) = self.parts.get_mut(at).filter(|part| part.key == key) else { return };
        self.bytes -= part.slots.memory();
        self.length -= u32::from(part.slots.remove(low));
        if part.slots.is_empty() {
            self.parts.remove(at);
        } else {
            self.bytes += part.slots.memory();
        }
    }

    /// The run, if there is one only, or nothing.
    fn single_run(&self) -> Option<(u32, u32)> {
        match self.parts.as_slice() {
            [] => Some((0, 0)),
            [Part { key, slots: Slots::Runs(runs) }] if runs.len() == 1 => {
                Some((u32::from(*key) * PART + u32::from(runs[0].0), self.length))
            }
            _ => None,
        }
    }
}

impl Slots {
    fn memory(&self) -> usize {
        match self {
            Slots::Runs(runs) => runs.capacity() * size_of::<Span>(),
            Slots::Bits { .. } => WORDS * 8,
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Slots::Runs(runs) => runs.is_empty(),
            Slots::Bits { count, .. } => *count == 0,
        }
    }

    /// Adds a slot; whether it wasn't there.
    fn insert(&mut self, low: u16) -> bool {
        match self {
            Slots::Bits { words, count } => {
                let (word, bit) = (&mut words[usize::from(low) / 64], 1 << (low % 64));
                let is_new = *word & bit == 0;
                *word |= bit;
                *count += u32::from(is_new);
                is_new
            }
            Slots::Runs(runs) => {
                let at = runs.partition_point(|run| run.0 <= low);
                if at > 0 && low <= runs[at - 1].1 {
                    return false;
                }
                let follows = at > 0 && runs[at - 1].1 + 1 == low;
                let leads = runs.get(at).is_some_and(|next| low + 1 == next.0);
                match (follows, leads) {
                    (true, true) => runs[at - 1].1 = runs.remove(at).1,
                    (true, false) => runs[at - 1].1 = low,
                    (false, true) => runs[at].0 = low,
                    (false, false) => insert_tight(runs, at, (low, low)),
                }
                self.settle();
                true
            }
        }
    }

    /// Removes a slot; whether it was there.
    fn remove(&mut self, low: u16) -> bool {
        let was_there = match self {
            Slots::Bits { words, count } => {
                let (word, bit) = (&mut words[usize::from(low) / 64], 1 << (low % 64));
                let was_there = *word & bit != 0;
                *word &= !bit;
                *count -= u32::from(was_there);
                was_there
            }
            Slots::Runs(runs) => {
                let at = runs.partition_point(|run| run.0 <= low).wrapping_sub(1);
                let Some(run) = runs.get_mut(at).filter(|run| low <= run.1) else { return false };
                match (run.0 == low, run.1 == low) {
                    (true, true) => drop(runs.remove(at)),
                    (true, false) => run.0 += 1,
                    (false, true) => run.1 -= 1,
                    (false, false) => {
                        let last = std::mem::replace(&mut run.1, low - 1);
                        insert_tight(runs, at + 1, (low + 1, last));
                    }
                }
                if runs.len() < runs.capacity() / 4 {
                    runs.shrink_to_fit();
                }
                true
            }
        };
        self.settle();
        was_there
    }

    /// Takes the form that takes less.
    fn settle(&mut self) {
        match self {
            Slots::Runs(runs) if runs.len() > RUNS_MAX => {
                let mut words = Box::new([0u64; WORDS]);
                let mut count = 0;
                for &(first, last) in &*runs {
                    for low in first..=last {
                        words[usize::from(low) / 64] |= 1 << (low % 64);
                        count += 1;
                    }
                }
                *self = Slots::Bits { words, count };
            }
            Slots::Bits { count, .. } if *count < BITS_MIN => {
                let mut runs: Vec<Span> = Vec::new();
                self.each(|low| match runs.last_mut() {
                    Some(last) if last.1 + 1 == low => last.1 = low,
                    _ => runs.push((low, low)),
                });
                runs.shrink_to_fit();
                *self = Slots::Runs(runs);
            }
            _ => {}
        }
    }

    fn each(&self, mut each: impl FnMut(u16)) {
        match self {
            Slots::Runs(runs) => runs.iter().flat_map(|run| run.0..=run.1).for_each(each),
            Slots::Bits { words, .. } => {
                for (at, &word) in words.iter().enumerate() {
                    let mut left = word;
                    while left != 0 {
                        each((at * 64) as u16 + left.trailing_zeros() as u16);
                        left &= left - 1;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn check(postings: &Postings, model: &BTreeSet<u32>, what: &str) {
        let mut found = Vec::new();
        postings.each(|slot| found.push(slot.0));
        assert!(found.iter().eq(model), "{what}: {} of {}", found.len(), model.len());
        assert_eq!(postings.len(), model.len(), "{what}");
    }

    /// How slots are drawn: a multiple of `step` below `bound`, in the shards 0 to `shards`.
    #[test]
    fn they_are_a_set() {
        let mut random = testkit::random::Random::new(9);
        for (step, bound, shards, count) in [
            (1, 300, 1, 2_000),
            (1, 200_000, 1, 30_000),
            (2, 65_536, 1, 90_000),
            (10, 400_000, 3, 90_000),
            (1000, 4_000_000, 2, 9_000),
        ] {
            let what = format!("{step} {bound} {shards}");
            let mut postings = Postings::EMPTY;
            let mut model = BTreeSet::new();
            let mut draw = || {
                let row = random.below(bound / step) * step;
                let slot = Slot::new(random.below(shards) as usize, row as u32);
                (slot, random.below(10))
            };
            for growing in [true, false] {
                for _ in 0..count {
                    let (slot, chance) = draw();
                    if growing == (chance > 1) {
                        postings.insert(slot);
                        model.insert(slot.0);
                    } else {
                        postings.remove(slot);
                        model.remove(&slot.0);
                    }
                }
                check(&postings, &model, &what);
            }
            for number in std::mem::take(&mut model) {
                postings.remove(Slot(number));
            }
            check(&postings, &model, &what);
            assert_eq!(postings.memory(), 0, "{what}");
        }
    }

    #[test]
    fn what_is_usual_is_small() {
        for (step, bytes) in [(1, 0), (10, 150_000), (1000, 12_000)] {
            let mut postings = Postings::EMPTY;
            (0..1_000_000).step_by(step).for_each(|row| postings.insert(Slot(row)));
            assert!(postings.memory() <= bytes, "{step}: {}", postings.memory());
        }
    }
}
