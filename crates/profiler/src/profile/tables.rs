//! What profiles share, behind one lock, and the bounds on it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::entries::{self, Entries, Entry, Shape};
use super::forks;
use super::hash::Hashes;
use super::labels::{self, LabelSets};
use super::locations::Locations;
use super::mappings::MappingId;
use super::stacks::Stacks;
use super::{
    DROPPED, EntryId, Label, LabelsId, Limits, Mapping, OVERFLOW, Stack, TablesStatistics,
    ValueType,
};
use crate::heap::Inside;
use crate::unwind::{self, End, Sightings};

/// How many entries are looked at, at most, to make room for one: some microseconds.
const STEPS: usize = 1024;
/// How many entries of a profile that is gone are given back with the lock held.
const POPPED: usize = 64;

/// What profiles share: stacks, locations, functions, texts, mappings, sets of labels. Cloning gives
/// another reference.
///
/// One lock guards it all. It is a leaf: while it is held, nothing of the program is called, and nobody
/// holds it for longer than it takes to copy one chunk of 64 KiB.
#[derive(Clone)]
pub struct Tables(pub(super) Arc<Shared>);

impl Tables {
    /// With these bounds and nothing else. *Setup.*
    pub fn new(limits: Limits) -> Self {
        let shared = Arc::new(Shared { state: Mutex::new(State::new(limits)) });
        forks::enter(&shared);
        Tables(shared)
    }

    /// Says what addresses belong to from now on: the program's own mapping first, then the others in any
    /// order. With `forget`, addresses may mean something else than before (a library was unloaded): what is
    /// recorded from now on is matched with nothing from before, which keeps its meaning. *Setup*; locks.
    pub fn set_mappings(&self, mappings: Vec<Mapping>, forget: bool) {
        let mut state = self.0.lock();
        state.set_mappings(mappings, forget);
    }

    /// Looks for libraries that were loaded or unloaded, prepares their unwind tables, and sets the mappings
    /// of this process. About 0.2 microseconds where nothing changed; otherwise *growth*. On normal threads
    /// only.
    pub fn follow_modules(&self) {
        let seen = unwind::sight();
        {
            let mut state = self.0.lock();
            // Where somebody does the same, it need not be done twice.
            if state.followed == Some(seen) || state.is_followed {
                return;
            }
            state.is_followed = true;
        }
        let mappings = unwind::modules().into_iter().map(Mapping::from).collect();
        let mut state = self.0.lock();
        let is_gone = |before: Sightings| before.unloads != seen.unloads;
        let forget = state.followed.is_some_and(is_gone);
        state.set_mappings(mappings, forget);
        state.followed = Some(seen);
        state.is_followed = false;
    }

    /// What is in them, and what they had no room for. *Steady*; locks.
    pub fn statistics(&self) -> TablesStatistics {
        self.0.lock().statistics()
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

/// The lock and what it guards.
pub(super) struct Shared {
    state: Mutex<State>,
}

impl Shared {
    pub(super) fn lock(&self) -> Locked<'_> {
        let inside = Inside::enter();
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Locked { state, _inside: inside }
    }
}

/// The tables, locked.
pub(super) struct Locked<'a> {
    state: MutexGuard<'a, State>,
    /// What the thread allocates meanwhile is the tables' own and must not be recorded, since that would
    /// wait for itself. Behind the guard: what was freed meanwhile is recorded once this is dropped.
    _inside: Inside,
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

/// All tables and all profiles.
pub(super) struct State {
    limits: Limits,
    hashes: Hashes,
    pub(super) locations: Locations,
    pub(super) stacks: Stacks,
    pub(super) labels: LabelSets,
    profiles: Vec<Option<Entries>>,
    /// Up to where the mappings are those of this process.
    followed: Option<Sightings>,
    /// Whether a thread is about to set them.
    is_followed: bool,
    /// The profile in which idle entries are looked for next.
    hand: usize,
    readers: u64,
    dropped: u64,
    refused_stacks: u64,
    refused_labels: u64,
    stale_labels: u64,
}

impl State {
    fn new(limits: Limits) -> Self {
        let hashes = Hashes::new();
        State {
            labels: LabelSets::new(&hashes, limits.labels),
            hashes,
            limits,
            locations: Locations::new(),
            stacks: Stacks::default(),
            profiles: Vec::new(),
            followed: None,
            is_followed: false,
            hand: 0,
            readers: 0,
            dropped: 0,
            refused_stacks: 0,
            refused_labels: 0,
            stale_labels: 0,
        }
    }

    fn set_mappings(&mut self, mappings: Vec<Mapping>, forget: bool) {
        let Locations { mappings: known, names, generation, .. } = &mut self.locations;
        known.set(&self.hashes, names, mappings);
        if forget {
            *generation = generation.wrapping_add(1);
        }
    }

    /// In a new process, which has no other threads.
    pub(super) fn forked(&mut self) {
        self.is_followed = false;
    }

    /// The program's own mapping is not needed any more by who had it kept.
    pub(super) fn release_main(&mut self, main: MappingId) {
        let Locations { mappings, names, .. } = &mut self.locations;
        mappings.release(&self.hashes, names, main);
    }

    /// A new profile's place. *Setup.*
    pub(super) fn open_profile(
        &mut self,
        columns: &[ValueType],
        default: usize,
        period_type: ValueType,
        period: i64,
    ) -> u32 {
        let names = &mut self.labels.names;
        let name = |text: &str| names.intern(&self.hashes, text);
        let shape = Shape::new(columns, default, period_type, period, name);
        let mut entries = Entries::new(shape);
        for (index, address) in [(entries::OVERFLOW, OVERFLOW), (entries::DROPPED, DROPPED)] {
            let made =
                self.new_entry(&mut entries, pseudo(&[address]), labels::EMPTY, labels::EMPTY);
            debug_assert_eq!(made, index);
        }
        let place = self.profiles.iter().position(Option::is_none).unwrap_or_else(|| {
            self.profiles.push(None);
            self.profiles.len() - 1
        });
        self.profiles[place] = Some(entries);
        place as u32
    }

    /// Gives back a part of a profile that nobody has any more; `false` when it is gone.
    pub(super) fn close_profile(&mut self, profile: u32) -> bool {
        let Some(mut entries) = self.profiles[profile as usize].take() else { return false };
        let more = entries.pop(POPPED, |entry| self.release(&entry));
        if more {
            self.profiles[profile as usize] = Some(entries);
        }
        more
    }

    pub(super) fn profile(&self, profile: u32) -> &Entries {
        self.profiles[profile as usize].as_ref().expect("it is there as long as somebody has it")
    }

    pub(super) fn profile_mut(&mut self, profile: u32) -> &mut Entries {
        self.profiles[profile as usize].as_mut().expect("it is there as long as somebody has it")
    }

    pub(super) fn new_reader(&mut self) -> u64 {
        self.readers += 1;
        self.readers
    }

    /// Finds or adds a set of labels.
    pub(super) fn intern_labels(&mut self, labels: &[Label<'_>]) -> LabelsId {
        if let Some(id) = self.labels.intern(&self.hashes, labels) {
            return id;
        }
        if self.make_room_for_labels()
            && let Some(id) = self.labels.intern(&self.hashes, labels)
        {
            return id;
        }
        self.refused_labels += 1;
        LabelsId { index: labels::OVERFLOW, generation: 0 }
    }

    /// Adds `values` to the entry of a stack with labels.
    #[inline]
    pub(super) fn record(
        &mut self,
        profile: u32,
        stack: Stack<'_>,
        thread: LabelsId,
        scope: LabelsId,
        values: &[i64],
    ) -> EntryId {
        let (thread, scope) = (self.labels_index(thread), self.labels_index(scope));
        let hash = self.hashes.stack(stack, self.locations.generation);
        match self.profile(profile).find(hash, thread, scope) {
            Some(index) => self.profile_mut(profile).add(index, values),
            None => {
                let index = self.grow(profile, stack, thread, scope);
                self.profile_mut(profile).add_first(index, values)
            }
        }
    }

    #[inline]
    fn labels_index(&mut self, id: LabelsId) -> u32 {
        self.labels.index(id).unwrap_or_else(|| {
            self.stale_labels += 1;
            labels::EMPTY
        })
    }

    /// Makes an entry, or room for it, or gives the one for what there is no room for.
    #[cold]
    fn grow(&mut self, profile: u32, stack: Stack<'_>, thread: u32, scope: u32) -> u32 {
        // While room is made, nothing else refers to these sets.
        self.labels.retain(thread);
        self.labels.retain(scope);
        let hash = self.hashes.stack(stack, self.locations.generation);
        let has_room = self.make_room(self.stacks.find(hash).is_some());
        let mut entries = self.profiles[profile as usize].take().expect("somebody records to it");
        let index = if has_room {
            self.new_entry(&mut entries, stack, thread, scope)
        } else {
            self.refused_stacks += 1;
            self.overflow(&mut entries, thread, scope)
        };
        self.profiles[profile as usize] = Some(entries);
        self.labels.release(thread);
        self.labels.release(scope);
        index
    }

    /// The stack is not kept, its labels are, so that totals per thread stay true, as long as bytes allow.
    fn overflow(&mut self, entries: &mut Entries, thread: u32, scope: u32) -> u32 {
        let stack = pseudo(&[OVERFLOW]);
        let hash = self.hashes.stack(stack, self.locations.generation);
        if let Some(index) = entries.find(hash, thread, scope) {
            return index;
        }
        if self.bytes() + entries.bytes() >= self.limits.bytes {
            return entries::OVERFLOW;
        }
        self.new_entry(entries, stack, thread, scope)
    }

    fn new_entry(
        &mut self,
        entries: &mut Entries,
        stack: Stack<'_>,
        thread: u32,
        scope: u32,
    ) -> u32 {
        let hash = self.hashes.stack(stack, self.locations.generation);
        let known = self.stacks.find(hash);
        let index = known
            .unwrap_or_else(|| self.stacks.insert(&self.hashes, &mut self.locations, hash, stack));
        self.stacks.retain(index);
        self.labels.retain(thread);
        self.labels.retain(scope);
        entries.insert(hash, index, thread, scope)
    }

    fn release(&mut self, entry: &Entry) {
        self.stacks.release(&self.hashes, &mut self.locations, entry.stack);
        self.labels.release(entry.thread);
        self.labels.release(entry.scope);
    }

    /// Drops idle entries until there is room for another one, with a stack that is known or a new one.
    fn make_room(&mut self, is_known: bool) -> bool {
        let is_full = |state: &State| {
            !is_known && state.stacks.len() >= state.limits.stacks
                || state.bytes() >= state.limits.bytes
        };
        let mut walk = self.walk();
        while is_full(self) {
            let Some(entry) = self.drop_next(&mut walk, |_| true) else { return false };
            self.release(&entry);
        }
        true
    }

    /// Drops idle entries that have labels until a set of labels is free.
    #[cold]
    fn make_room_for_labels(&mut self) -> bool {
        let mut walk = self.walk();
        while !self.labels.has_room() {
            let has_labels = |entry: &Entry| {
                [entry.thread, entry.scope].iter().any(|&set| set > labels::OVERFLOW)
            };
            let Some(entry) = self.drop_next(&mut walk, has_labels) else { return false };
            self.release(&entry);
            for set in [entry.thread, entry.scope] {
                self.labels.drop_unused(&self.hashes, set);
            }
        }
        true
    }

    fn walk(&self) -> Walk {
        Walk { steps: STEPS, profiles: self.profiles.len() }
    }

    /// Drops the next idle entry that is wanted; its references are left to be released.
    fn drop_next(&mut self, walk: &mut Walk, is_wanted: fn(&Entry) -> bool) -> Option<Entry> {
        while walk.steps > 0 && walk.profiles > 0 {
            let place = self.hand % self.profiles.len();
            if let Some(entries) = &mut self.profiles[place] {
                let (dropped, left) = entries.drop_idle(walk.steps, is_wanted);
                if dropped.is_some() {
                    walk.steps = left;
                    self.dropped += 1;
                    return dropped;
                }
                // A profile without idle ones costs its share; the next one is looked at.
                walk.steps /= 2;
            }
            self.hand = place + 1;
            walk.profiles -= 1;
        }
        None
    }

    /// About what everything takes.
    fn bytes(&self) -> usize {
        let entries: usize = self.profiles.iter().flatten().map(Entries::bytes).sum();
        self.locations.bytes() + self.stacks.bytes() + self.labels.bytes() + entries
    }

    fn statistics(&self) -> TablesStatistics {
        TablesStatistics {
            entries: self.profiles.iter().flatten().map(Entries::len).sum(),
            stacks: self.stacks.len(),
            locations: self.locations.len(),
            functions: self.locations.functions_len(),
            strings: self.locations.names.len() + self.labels.names.len(),
            labels: self.labels.len(),
            bytes: self.bytes() + self.locations.mappings.bytes(),
            dropped: self.dropped,
            refused_stacks: self.refused_stacks,
            refused_labels: self.refused_labels,
            stale_labels: self.stale_labels,
        }
    }

    /// Keeps what a symbolizer said.
    pub(super) fn set_symbols<'a>(
        &mut self,
        id: super::locations::LocationId,
        symbols: impl Iterator<Item = super::Symbol<'a>>,
    ) {
        self.locations.set_symbols(&self.hashes, id, symbols);
    }
}

/// How far the hand goes to make room for one.
struct Walk {
    steps: usize,
    /// That were not looked through.
    profiles: usize,
}

fn pseudo(addresses: &[u64]) -> Stack<'_> {
    Stack { addresses, end: End::Root }
}
