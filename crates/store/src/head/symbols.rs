//! The strings of all labels, each once.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// A string of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Symbol(pub(crate) u32);

#[derive(Default)]
struct Slot {
    text: Box<str>,
    references: u32,
}

/// Strings with the number of their uses; who is used no more, goes.
#[derive(Default)]
pub(crate) struct Symbols {
    slots: Vec<Slot>,
    table: HashTable<u32>,
    free: Vec<u32>,
    bytes: usize,
    hasher: RandomState,
}

impl Symbols {
    /// The symbol of a string that is in use.
    pub(crate) fn get(&self, text: &str) -> Option<Symbol> {
        let hash = self.hasher.hash_one(text);
        let found = self.table.find(hash, |&number| &*self.slots[number as usize].text == text);
        found.copied().map(Symbol)
    }

    /// Adds a use of a string.
    pub(crate) fn acquire(&mut self, text: &str) -> Symbol {
        if let Some(symbol) = self.get(text) {
            self.slots[symbol.0 as usize].references += 1;
            return symbol;
        }
        let slot = Slot { text: Box::from(text), references: 1 };
        let number = if let Some(number) = self.free.pop() {
            self.slots[number as usize] = slot;
            number
        } else {
            self.slots.push(slot);
            u32::try_from(self.slots.len() - 1).expect("four thousand million strings don't fit")
        };
        self.bytes += text.len();
        let hash = self.hasher.hash_one(text);
        let (hasher, slots) = (&self.hasher, &self.slots);
        self.table
            .insert_unique(hash, number, |&other| hasher.hash_one(&*slots[other as usize].text));
        Symbol(number)
    }

    /// Removes a use.
    pub(crate) fn release(&mut self, symbol: Symbol) {
        let slot = &mut self.slots[symbol.0 as usize];
        slot.references -= 1;
        if slot.references > 0 {
            return;
        }
        let text = std::mem::take(&mut slot.text);
        self.bytes -= text.len();
        let hash = self.hasher.hash_one(&*text);
        if let Ok(entry) = self.table.find_entry(hash, |&number| number == symbol.0) {
            entry.remove();
        }
        self.free.push(symbol.0);
    }

    /// The string.
    pub(crate) fn text(&self, symbol: Symbol) -> &str {
        &self.slots[symbol.0 as usize].text
    }

    /// Strings in use.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> usize {
        // The allocator's overhead per string is about 16 bytes.
        self.bytes
            + self.len() * 16
            + self.slots.capacity() * size_of::<Slot>()
            + self.table.capacity() * 5
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
