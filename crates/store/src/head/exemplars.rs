//! The latest exemplars, in a ring of fixed size.

use hashbrown::HashMap;

use crate::db::SeriesId;

/// No slot.
const NONE: u32 = u32::MAX;

/// An exemplar as it is kept: its labels are names and values, each behind its length.
pub(crate) struct Slot {
    pub(crate) id: SeriesId,
    pub(crate) timestamp: i64,
    pub(crate) value: f64,
    labels: Vec<u8>,
    /// The one before of the same series.
    previous: u32,
}

/// See the module.
pub(crate) struct Ring {
    slots: Vec<Slot>,
    size: usize,
    next: usize,
    /// The last one of each series that has any.
    last: HashMap<SeriesId, u32>,
    /// Bytes that the slots hold for labels.
    label_bytes: usize,
}

impl Ring {
    /// For at most `size` exemplars, which are claimed as they come.
    pub(crate) fn new(size: usize) -> Self {
        Ring {
            slots: Vec::new(),
            size: size.min(NONE as usize),
            next: 0,
            last: HashMap::new(),
            label_bytes: 0,
        }
    }

    /// Exemplars kept.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.last.capacity() * (size_of::<(SeriesId, u32)>() + 1)
            + self.label_bytes
    }

    /// Adds an exemplar in place of the oldest one; not if it repeats the last one of its series, as
    /// every scrape does, or is older. Steady once the ring is full and labels don't get longer.
    pub(crate) fn push(&mut self, id: SeriesId, labels: &[u8], value: f64, timestamp: i64) -> bool {
        if self.size == 0 {
            return false;
        }
        let last = self.last.get(&id).copied();
        if let Some(last) = last.map(|last| &self.slots[last as usize]) {
            let repeats = last.timestamp == timestamp
                && last.value.to_bits() == value.to_bits()
                && last.labels == labels;
            if repeats || timestamp < last.timestamp {
                return false;
            }
        }
        let number = self.next;
        if number == self.slots.len() {
            let labels = labels.to_vec();
            self.label_bytes += labels.capacity();
            self.slots.push(Slot { id, timestamp, value, labels, previous: NONE });
        } else {
            let old = self.slots[number].id;
            // The oldest of the ring is the last of its series only if it is the only one.
            if self.last.get(&old) == Some(&(number as u32)) {
                self.last.remove(&old);
            }
            let slot = &mut self.slots[number];
            (slot.id, slot.timestamp, slot.value) = (id, timestamp, value);
            self.label_bytes -= slot.labels.capacity();
            slot.labels.clear();
            slot.labels.extend_from_slice(labels);
            self.label_bytes += slot.labels.capacity();
        }
        self.slots[number].previous = self.last.get(&id).copied().unwrap_or(NONE);
        self.last.insert(id, number as u32);
        self.next = (number + 1) % self.size;
        true
    }

    /// Whether the series has exemplars.
    pub(crate) fn has(&self, id: SeriesId) -> bool {
        self.last.contains_key(&id)
    }

    /// The series that have exemplars.
    pub(crate) fn series(&self) -> impl Iterator<Item = SeriesId> + '_ {
        self.last.keys().copied()
    }

    /// Exemplars of a series, latest first.
    pub(crate) fn of(&self, id: SeriesId) -> impl Iterator<Item = &Slot> + '_ {
        let mut at = self.last.get(&id).copied().unwrap_or(NONE);
        let mut before = i64::MAX;
        std::iter::from_fn(move || {
            let slot = self.slots.get(at as usize)?;
            // A slot that was used again ends the list: it is another series', or later.
            if slot.id != id || slot.timestamp > before || at == NONE {
                return None;
            }
            before = slot.timestamp;
            let here = at;
            at = slot.previous;
            if at == here || self.age(at) <= self.age(here) {
                at = NONE;
            }
            Some(slot)
        })
    }

    /// How many slots were written since this one.
    fn age(&self, number: u32) -> usize {
        if number == NONE {
            return usize::MAX;
        }
        (self.next + self.size - 1 - number as usize) % self.size
    }
}

impl Slot {
    /// Its labels, in the order in which they came.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (&str, &str)> + '_ {
        let mut reader = crate::journal::varint::Reader::new(&self.labels);
        let mut text = move || {
            let length = reader.unsigned()? as usize;
            std::str::from_utf8(reader.take(length)?).ok()
        };
        std::iter::from_fn(move || Some((text()?, text()?)))
    }
}

/// Appends a label in the form that [`Ring::push`] takes.
pub(crate) fn put_label(out: &mut Vec<u8>, name: &str, value: &str) {
    for text in [name, value] {
        crate::journal::varint::put(out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::row::Slot;

    fn series(number: u64) -> SeriesId {
        SeriesId::new(Slot::new(0, number as u32), 1)
    }

    #[test]
    fn keeps_the_latest_in_order_without_repetitions() {
        let mut ring = Ring::new(8);
        let mut model: Vec<(u64, i64, f64)> = Vec::new();
        let mut random = testkit::random::Random::new(3);
        for time in 0..500 {
            let (id, value) = (random.below(5), random.below(3) as f64);
            assert!(ring.push(series(id), b"\x01a\x01b", value, time));
            assert!(!ring.push(series(id), b"\x01a\x01b", value, time), "repeated");
            assert!(!ring.push(series(id), b"", value, time - 1), "older");
            model.push((id, time, value));
            let kept = &model[model.len().saturating_sub(8)..];
            for id in 0..5 {
                let expected: Vec<_> =
                    kept.iter().rev().filter(|e| e.0 == id).map(|e| (e.1, e.2)).collect();
                let found: Vec<_> =
                    ring.of(series(id)).map(|slot| (slot.timestamp, slot.value)).collect();
                assert_eq!(found, expected, "series {id} at {time}");
            }
            assert_eq!(ring.len(), kept.len());
        }
        assert_eq!(ring.of(series(model[499].0)).next().unwrap().labels().next(), Some(("a", "b")));
    }
}
