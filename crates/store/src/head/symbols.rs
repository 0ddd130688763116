//! The strings of all labels, each once.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::arena::{Arena, Cell};

/// A string of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Symbol(pub(crate) u32);

struct Slot {
    text: Cell,
    length: u32,
    references: u32,
}

/// Strings with the number of their uses; who is used no more, goes.
#[derive(Default)]
pub(crate) struct Symbols {
    slots: Vec<Slot>,
    texts: Arena,
    table: HashTable<u32>,
    free: Vec<u32>,
    hasher: RandomState,
}

impl Symbols {
    /// The symbol of a string that is in use.
    pub(crate) fn get(&self, text: &str) -> Option<Symbol> {
        self.find(self.hasher.hash_one(text.as_bytes()), text)
    }

    fn find(&self, hash: u64, text: &str) -> Option<Symbol> {
        let found = self.table.find(hash, |&number| self.is(Symbol(number), text));
        found.copied().map(Symbol)
    }

    /// Whether this is the symbol's string.
    #[inline]
    pub(crate) fn is(&self, symbol: Symbol, text: &str) -> bool {
        self.slots[symbol.0 as usize].length as usize == text.len()
            && self.bytes(symbol) == text.as_bytes()
    }

    /// The string's bytes, in whose order strings are compared.
    #[inline]
    pub(crate) fn bytes(&self, symbol: Symbol) -> &[u8] {
        let slot = &self.slots[symbol.0 as usize];
        self.texts.get(slot.text, slot.length as usize)
    }

    /// Adds a use of a string.
    pub(crate) fn acquire(&mut self, text: &str) -> Symbol {
        let hash = self.hasher.hash_one(text.as_bytes());
        if let Some(symbol) = self.find(hash, text) {
            self.slots[symbol.0 as usize].references += 1;
            return symbol;
        }
        let length = u32::try_from(text.len()).expect("a label is shorter than 4 GiB");
        let slot = Slot { text: self.texts.put(text.as_bytes()), length, references: 1 };
        let number = if let Some(number) = self.free.pop() {
            self.slots[number as usize] = slot;
            number
        } else {
            self.slots.push(slot);
            u32::try_from(self.slots.len() - 1).expect("four thousand million strings don't fit")
        };
        let (hasher, slots, texts) = (&self.hasher, &self.slots, &self.texts);
        self.table.insert_unique(hash, number, |&other| {
            let slot = &slots[other as usize];
            hasher.hash_one(texts.get(slot.text, slot.length as usize))
        });
        Symbol(number)
    }

    /// Removes a use.
    pub(crate) fn release(&mut self, symbol: Symbol) {
        let slot = &mut self.slots[symbol.0 as usize];
        slot.references -= 1;
        if slot.references > 0 {
            return;
        }
        let (text, length) = (slot.text, slot.length as usize);
        let hash = self.hasher.hash_one(self.texts.get(text, length));
        if let Ok(entry) = self.table.find_entry(hash, |&number| number == symbol.0) {
            entry.remove();
        }
        self.texts.release(text, length);
        self.free.push(symbol.0);
    }

    /// The string.
    pub(crate) fn text(&self, symbol: Symbol) -> &str {
        std::str::from_utf8(self.bytes(symbol)).expect("it was a string when it was put in")
    }

    /// Strings in use.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> usize {
        self.texts.memory()
            + self.slots.capacity() * size_of::<Slot>()
            + self.table.allocation_size()
            + self.free.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_stay_as_long_as_they_are_used() {
        let mut symbols = Symbols::default();
        let a = symbols.acquire("a");
        assert_eq!(symbols.acquire("a"), a);
        let b = symbols.acquire("b");
        symbols.release(a);
        assert_eq!(symbols.get("a"), Some(a));
        symbols.release(a);
        assert_eq!((symbols.get("a"), symbols.get("b"), symbols.len()), (None, Some(b), 1));
        let c = symbols.acquire("c");
        assert_eq!((c, symbols.text(c), symbols.text(b)), (a, "c", "b"));
    }
}
