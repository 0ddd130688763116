//! Loaded files, and which of them an address is in.

use std::sync::Arc;

use super::Mapping;
use super::hash::Hashes;
use super::names::{NameId, Names};

/// A mapping, from 1 up, as profiles have it; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MappingId(pub(super) u32);

struct Slot {
    mapping: Option<Arc<Mapping>>,
    file: NameId,
    build_id: NameId,
    /// Locations in it.
    references: u32,
    is_current: bool,
}

/// The mappings that addresses are looked up in now, and those which older locations are in.
#[derive(Default)]
pub(super) struct Mappings {
    slots: Vec<Slot>,
    /// The current ones by address: start, limit, id.
    ranges: Vec<(u64, u64, MappingId)>,
    /// The program's own.
    main: MappingId,
    /// One more with each change.
    version: u32,
}

impl Mappings {
    /// Replaces the current ones; the first is the program's own. One that is equal to a known one keeps
    /// its id. *Setup.*
    pub(super) fn set(&mut self, hashes: &Hashes, names: &mut Names, mappings: Vec<Mapping>) {
        for slot in &mut self.slots {
            slot.is_current = false;
        }
        self.ranges.clear();
        self.main = MappingId::default();
        // Looked up rather than compared one by one: who records waits for this, and there may be thousands.
        let (known, mut free) = self.by_start();
        for mapping in mappings {
            let range = (mapping.start, mapping.limit);
            let id = match self.find_known(&known, &mapping) {
                Some(id) => id,
                None => self.insert(hashes, names, mapping, free.pop()),
            };
            self.slots[id.0 as usize - 1].is_current = true;
            self.ranges.push((range.0, range.1, id));
            if self.main == MappingId::default() {
                self.main = id;
            }
        }
        self.ranges.sort_unstable_by_key(|&(start, limit, _)| (start, limit));
        for slot in &mut self.slots {
            slot.drop_unused(hashes, names);
        }
        self.version = self.version.wrapping_add(1);
    }

    /// All there are by where they start, and the slots that are free.
    fn by_start(&self) -> (Vec<(u64, MappingId)>, Vec<MappingId>) {
        let (mut known, mut free) = (Vec::with_capacity(self.slots.len()), Vec::new());
        for (id, slot) in (1..).map(MappingId).zip(&self.slots) {
            match &slot.mapping {
                Some(mapping) => known.push((mapping.start, id)),
                None => free.push(id),
            }
        }
        known.sort_unstable_by_key(|&(start, id)| (start, id.0));
        free.reverse();
        (known, free)
    }

    fn find_known(&self, known: &[(u64, MappingId)], mapping: &Mapping) -> Option<MappingId> {
        let from = known.partition_point(|&(start, _)| start < mapping.start);
        let here = known[from..].iter().take_while(|&&(start, _)| start == mapping.start);
        here.map(|&(_, id)| id).find(|&id| self.get(id).is_some_and(|known| **known == *mapping))
    }

    fn insert(
        &mut self,
        hashes: &Hashes,
        names: &mut Names,
        mapping: Mapping,
        free: Option<MappingId>,
    ) -> MappingId {
        let slot = Slot {
            file: names.intern(hashes, &mapping.file),
            build_id: names.intern(hashes, &mapping.build_id),
            mapping: Some(Arc::new(mapping)),
            references: 0,
            is_current: true,
        };
        match free {
            Some(id) => {
                self.slots[id.0 as usize - 1] = slot;
                id
            }
            None => {
                self.slots.push(slot);
                MappingId(self.slots.len() as u32)
            }
        }
    }

    /// The current mapping that `address` is in.
    pub(super) fn find(&self, address: u64) -> MappingId {
        let above = self.ranges.partition_point(|&(start, ..)| start <= address);
        match self.ranges[..above].last() {
            Some(&(_, limit, id)) if address < limit => id,
            _ => MappingId::default(),
        }
    }

    /// One more location is in it.
    pub(super) fn retain(&mut self, id: MappingId) {
        if id != MappingId::default() {
            self.slots[id.0 as usize - 1].references += 1;
        }
    }

    /// One less.
    pub(super) fn release(&mut self, hashes: &Hashes, names: &mut Names, id: MappingId) {
        if id != MappingId::default() {
            let slot = &mut self.slots[id.0 as usize - 1];
            slot.references -= 1;
            slot.drop_unused(hashes, names);
        }
    }

    pub(super) fn get(&self, id: MappingId) -> Option<&Arc<Mapping>> {
        self.slots.get((id.0 as usize).wrapping_sub(1))?.mapping.as_ref()
    }

    /// The mapping with its texts.
    pub(super) fn named(&self, id: MappingId) -> Option<(&Mapping, NameId, NameId)> {
        let slot = self.slots.get((id.0 as usize).wrapping_sub(1))?;
        Some((slot.mapping.as_deref()?, slot.file, slot.build_id))
    }

    /// The program's own.
    pub(super) fn main(&self) -> MappingId {
        self.main
    }

    /// Above every id.
    pub(super) fn end(&self) -> usize {
        self.slots.len() + 1
    }

    /// Changes with the current ones.
    pub(super) fn version(&self) -> u32 {
        self.version
    }

    pub(super) fn bytes(&self) -> usize {
        let files = self.slots.iter().filter_map(|slot| slot.mapping.as_ref());
        files.map(|mapping| 160 + mapping.file.len() + mapping.build_id.len()).sum()
    }
}

impl Slot {
    fn drop_unused(&mut self, hashes: &Hashes, names: &mut Names) {
        if self.references == 0 && !self.is_current && self.mapping.take().is_some() {
            names.release(hashes, self.file);
            names.release(hashes, self.build_id);
        }
    }
}
