//! Stacks, kept as the list of location ids that a sample carries.

use hashbrown::HashTable;
use wire::protobuf::Sink as _;

use super::hash::{Hashes, StackHash};
use super::locations::{LocationId, Locations};
use super::{LOST, Stack, TRUNCATED};
use crate::unwind::End;

struct Slot {
    hash: StackHash,
    /// Location ids, innermost first, as varints: the content of `Sample.location_id`.
    packed: Box<[u8]>,
    /// Entries that have it.
    references: u32,
}

/// The stacks.
#[derive(Default)]
pub(super) struct Stacks {
    slots: Vec<Slot>,
    free: Vec<u32>,
    found: HashTable<u32>,
    /// Where a stack is put together.
    scratch: Vec<u8>,
    bytes: usize,
}

impl Stacks {
    /// A known stack.
    #[inline]
    pub(super) fn find(&self, hash: StackHash) -> Option<u32> {
        self.found.find(hash.short(), |&index| self.slots[index as usize].hash == hash).copied()
    }

    /// Adds a stack that is not there yet. *Growth.*
    pub(super) fn insert(
        &mut self,
        hashes: &Hashes,
        locations: &mut Locations,
        hash: StackHash,
        stack: Stack<'_>,
    ) -> u32 {
        self.scratch.clear();
        let missing = match stack.end {
            End::Root => None,
            End::Truncated => Some(TRUNCATED),
            End::Lost => Some(LOST),
        };
        for &address in stack.addresses.iter().chain(missing.as_ref()) {
            self.scratch.varint(u64::from(locations.intern(hashes, address).0));
        }
        let slot = Slot { hash, packed: Box::from(&*self.scratch), references: 0 };
        self.bytes += slot.packed.len();
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        let slots = &self.slots;
        self.found.insert_unique(hash.short(), index, |&index| slots[index as usize].hash.short());
        index
    }

    /// One more entry has it.
    #[inline]
    pub(super) fn retain(&mut self, index: u32) {
        self.slots[index as usize].references += 1;
    }

    /// One less; the last one frees it and the locations that only it had.
    pub(super) fn release(&mut self, hashes: &Hashes, locations: &mut Locations, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.references -= 1;
        if slot.references > 0 {
            return;
        }
        let packed = std::mem::take(&mut slot.packed);
        let short = slot.hash.short();
        self.bytes -= packed.len();
        for id in ids(&packed) {
            locations.release(hashes, id);
        }
        if let Ok(found) = self.found.find_entry(short, |&known| known == index) {
            found.remove();
        }
        self.free.push(index);
    }

    /// The location ids as varints, innermost first.
    #[inline]
    pub(super) fn packed(&self, index: u32) -> &[u8] {
        &self.slots[index as usize].packed
    }

    /// Above every index.
    pub(super) fn end(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// About what they take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.found.len() * (size_of::<Slot>() + 8)
    }
}

/// The ids in a packed list of ours: each below 2^32 and whole.
#[inline]
pub(super) fn ids(packed: &[u8]) -> impl Iterator<Item = LocationId> {
    let mut rest = packed.iter();
    std::iter::from_fn(move || {
        let first = *rest.next()?;
        if first < 0x80 {
            return Some(LocationId(u32::from(first)));
        }
        let mut id = u32::from(first & 0x7f);
        let mut shift = 7;
        for &byte in rest.by_ref() {
            id |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
            shift += 7;
        }
        Some(LocationId(id))
    })
}
