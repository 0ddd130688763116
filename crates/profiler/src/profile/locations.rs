//! Addresses, and the functions that they stand for.

use hashbrown::HashTable;

use super::hash::Hashes;
use super::mappings::{MappingId, Mappings};
use super::names::{NameId, Names};
use super::{Symbol, is_pseudo, pseudo_name};

/// A location, from 1 up, as profiles have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LocationId(pub(super) u32);

/// A function, from 1 up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FunctionId(pub(super) u32);

/// A place in a function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) function: FunctionId,
    pub(super) line: u32,
}

/// What is known of a location's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbols {
    /// There was no answer so often: none was asked for, or a file could not be read just then.
    Open(u8),
    /// They are in its lines; there are none if nobody knows them.
    Known,
    /// A name of ours, for what is no address.
    Pseudo,
}

/// How often a location is asked for until it is taken for one that nobody knows.
const TRIES: u8 = 3;

/// An address in one generation of the mappings.
pub(super) struct Location {
    pub(super) address: u64,
    pub(super) mapping: MappingId,
    /// The mappings in which no mapping was found for it.
    looked_at: u32,
    generation: u32,
    /// Stacks that it is in, counted as often as it is in them.
    references: u32,
    pub(super) symbols: Symbols,
    pub(super) lines: Box<[Line]>,
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Function {
    pub(super) name: NameId,
    pub(super) system_name: NameId,
    pub(super) file: NameId,
    pub(super) start_line: u32,
}

struct FunctionSlot {
    function: Function,
    references: u32,
}

/// Locations, functions, mappings and their texts.
pub(super) struct Locations {
    pub(super) names: Names,
    pub(super) mappings: Mappings,
    slots: Vec<Location>,
    free: Vec<u32>,
    found: HashTable<u32>,
    functions: Vec<FunctionSlot>,
    free_functions: Vec<u32>,
    found_functions: HashTable<u32>,
    /// One more whenever addresses may have got another meaning.
    pub(super) generation: u32,
    lines: usize,
}

impl Locations {
    pub(super) fn new() -> Self {
        Locations {
            names: Names::new(),
            mappings: Mappings::default(),
            slots: Vec::new(),
            free: Vec::new(),
            found: HashTable::new(),
            functions: Vec::new(),
            free_functions: Vec::new(),
            found_functions: HashTable::new(),
            generation: 0,
            lines: 0,
        }
    }

    /// Finds or adds an address and counts one who refers to it. *Growth.*
    #[inline]
    pub(super) fn intern(&mut self, hashes: &Hashes, address: u64) -> LocationId {
        let generation = self.generation;
        let hash = hashes.address(address, generation);
        let slots = &mut self.slots;
        let found = self.found.find(hash, |&index| {
            let slot = &slots[index as usize];
            slot.address == address && slot.generation == generation
        });
        match found {
            Some(&index) => {
                slots[index as usize].references += 1;
                LocationId(index + 1)
            }
            None => self.insert(hashes, hash, address),
        }
    }

    #[cold]
    fn insert(&mut self, hashes: &Hashes, hash: u64, address: u64) -> LocationId {
        let mut location = Location {
            address,
            mapping: MappingId::default(),
            looked_at: self.mappings.version(),
            generation: self.generation,
            references: 1,
            symbols: Symbols::Open(0),
            lines: Box::default(),
        };
        if let Some(name) = pseudo_name(address) {
            let function = self.function(hashes, Symbol { name, ..Symbol::default() });
            location.lines = Box::new([Line { function, line: 0 }]);
            location.symbols = Symbols::Pseudo;
            self.lines += 1;
        } else {
            location.mapping = self.mappings.find(address);
            self.mappings.retain(location.mapping);
        }
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = location;
                index
            }
            None => {
                self.slots.push(location);
                (self.slots.len() - 1) as u32
            }
        };
        let slots = &self.slots;
        self.found.insert_unique(hash, index, |&index| {
            let slot = &slots[index as usize];
            hashes.address(slot.address, slot.generation)
        });
        LocationId(index + 1)
    }

    /// One less refers to it; the last one frees it and what only it had.
    pub(super) fn release(&mut self, hashes: &Hashes, id: LocationId) {
        let index = id.0 - 1;
        let slot = &mut self.slots[index as usize];
        slot.references -= 1;
        if slot.references > 0 {
            return;
        }
        let hash = hashes.address(slot.address, slot.generation);
        let lines = std::mem::take(&mut slot.lines);
        let mapping = slot.mapping;
        self.mappings.release(hashes, &mut self.names, mapping);
        self.lines -= lines.len();
        for line in lines {
            self.release_function(hashes, line.function);
        }
        if let Ok(found) = self.found.find_entry(hash, |&known| known == index) {
            found.remove();
        }
        self.free.push(index);
    }

    /// Keeps what was found out about a location: nothing, if `symbols` is empty; it is then asked for a few
    /// times more. *Growth.*
    pub(super) fn set_symbols<'a>(
        &mut self,
        hashes: &Hashes,
        id: LocationId,
        symbols: impl Iterator<Item = Symbol<'a>>,
    ) {
        // Another window may have asked at the same time, with the same answer.
        let Symbols::Open(tries) = self.get(id).symbols else { return };
        let lines: Box<[Line]> = symbols
            .map(|symbol| Line { function: self.function(hashes, symbol), line: symbol.line })
            .collect();
        self.lines += lines.len();
        let slot = &mut self.slots[id.0 as usize - 1];
        let is_open = lines.is_empty() && tries + 1 < TRIES;
        slot.symbols = if is_open { Symbols::Open(tries + 1) } else { Symbols::Known };
        slot.lines = lines;
    }

    /// Looks again for the mapping of a location that was recorded before its mapping was known.
    pub(super) fn look_again(&mut self, id: LocationId) {
        let slot = &mut self.slots[id.0 as usize - 1];
        let is_open = slot.mapping == MappingId::default()
            && slot.generation == self.generation
            && slot.looked_at != self.mappings.version()
            && !is_pseudo(slot.address);
        if is_open {
            slot.mapping = self.mappings.find(slot.address);
            slot.looked_at = self.mappings.version();
            self.mappings.retain(slot.mapping);
            if slot.mapping != MappingId::default() && slot.lines.is_empty() {
                // What was asked without the file says nothing.
                slot.symbols = Symbols::Open(0);
            }
        }
    }

    fn function(&mut self, hashes: &Hashes, symbol: Symbol<'_>) -> FunctionId {
        let function = Function {
            name: self.names.intern(hashes, symbol.name),
            system_name: self.names.intern(hashes, symbol.system_name),
            file: self.names.intern(hashes, symbol.file),
            start_line: symbol.start_line,
        };
        let hash = hashes.of(&function);
        let slots = &mut self.functions;
        let found =
            self.found_functions.find(hash, |&index| slots[index as usize].function == function);
        if let Some(&index) = found {
            slots[index as usize].references += 1;
            // The function has counted its texts when it was new.
            for name in [function.name, function.system_name, function.file] {
                self.names.release(hashes, name);
            }
            return FunctionId(index + 1);
        }
        let slot = FunctionSlot { function, references: 1 };
        let index = match self.free_functions.pop() {
            Some(index) => {
                slots[index as usize] = slot;
                index
            }
            None => {
                slots.push(slot);
                (slots.len() - 1) as u32
            }
        };
        self.found_functions
            .insert_unique(hash, index, |&index| hashes.of(&slots[index as usize].function));
        FunctionId(index + 1)
    }

    fn release_function(&mut self, hashes: &Hashes, id: FunctionId) {
        let index = id.0 - 1;
        let slot = &mut self.functions[index as usize];
        slot.references -= 1;
        if slot.references > 0 {
            return;
        }
        let function = slot.function;
        let found = self.found_functions.find_entry(hashes.of(&function), |&known| known == index);
        if let Ok(found) = found {
            found.remove();
        }
        for name in [function.name, function.system_name, function.file] {
            self.names.release(hashes, name);
        }
        self.free_functions.push(index);
    }

    #[inline]
    pub(super) fn get(&self, id: LocationId) -> &Location {
        &self.slots[id.0 as usize - 1]
    }

    #[inline]
    pub(super) fn function_of(&self, id: FunctionId) -> &Function {
        &self.functions[id.0 as usize - 1].function
    }

    /// Above every id.
    pub(super) fn end(&self) -> usize {
        self.slots.len() + 1
    }

    /// Above every function's id.
    pub(super) fn functions_end(&self) -> usize {
        self.functions.len() + 1
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    pub(super) fn functions_len(&self) -> usize {
        self.found_functions.len()
    }

    /// About what they take.
    pub(super) fn bytes(&self) -> usize {
        self.found.len() * (size_of::<Location>() + 8)
            + self.lines * size_of::<Line>()
            + self.found_functions.len() * (size_of::<FunctionSlot>() + 8)
            + self.names.bytes()
    }
}
