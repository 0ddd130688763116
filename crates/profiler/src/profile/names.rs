//! Texts, each held once, counted by those who refer to it.

use hashbrown::HashTable;

use super::hash::Hashes;

/// A text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct NameId(pub(super) u32);

struct Slot {
    text: Box<str>,
    references: u32,
}

/// The texts. The empty one is always there and has id 0, as in a profile's string table.
pub(super) struct Names {
    slots: Vec<Slot>,
    free: Vec<u32>,
    found: HashTable<u32>,
    bytes: usize,
}

impl Names {
    /// With the empty text only.
    pub(super) fn new() -> Self {
        let empty = Slot { text: Box::from(""), references: 1 };
        Names { slots: vec![empty], free: Vec::new(), found: HashTable::new(), bytes: 0 }
    }

    /// Finds or adds `text` and counts one who refers to it. *Growth.*
    pub(super) fn intern(&mut self, hashes: &Hashes, text: &str) -> NameId {
        if text.is_empty() {
            return NameId::default();
        }
        let hash = hashes.of(text);
        let slots = &mut self.slots;
        if let Some(&id) = self.found.find(hash, |&id| *slots[id as usize].text == *text) {
            slots[id as usize].references += 1;
            return NameId(id);
        }
        self.bytes += text.len();
        let slot = Slot { text: Box::from(text), references: 1 };
        let id = match self.free.pop() {
            Some(id) => {
                slots[id as usize] = slot;
                id
            }
            None => {
                slots.push(slot);
                (slots.len() - 1) as u32
            }
        };
        self.found.insert_unique(hash, id, |&id| hashes.of(&*slots[id as usize].text));
        NameId(id)
    }

    /// One less refers to it; the last one frees it.
    pub(super) fn release(&mut self, hashes: &Hashes, id: NameId) {
        if id == NameId::default() {
            return;
        }
        let slot = &mut self.slots[id.0 as usize];
        slot.references -= 1;
        if slot.references > 0 {
            return;
        }
        let hash = hashes.of(&*slot.text);
        self.bytes -= slot.text.len();
        slot.text = Box::default();
        if let Ok(found) = self.found.find_entry(hash, |&known| known == id.0) {
            found.remove();
        }
        self.free.push(id.0);
    }

    /// The text.
    #[inline]
    pub(super) fn text(&self, id: NameId) -> &str {
        &self.slots[id.0 as usize].text
    }

    /// Above every id.
    pub(super) fn end(&self) -> usize {
        self.slots.len()
    }

    /// The texts there are, without the empty one.
    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// About what it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.len() * (size_of::<Slot>() + 24)
    }
}
