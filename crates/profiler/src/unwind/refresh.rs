//! Keeps the tables up to date with what is loaded.
//!
//! Unsafe: asks to be called when the process forks.
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};

use super::Module;
use super::architecture::Native;
use super::modules::{Changes, Identity, by_address, changes, list};
use super::published::{Published, Retired, Span, Version};
use super::rule::Rules;
use super::table::{Counts, Table};

/// What walks read.
pub(super) static PUBLISHED: Published = Published::new();

/// What [`refresh`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refreshed {
    /// The same modules as before.
    Same,
    /// New ones, and none gone.
    Loaded,
    /// Some are gone: addresses may mean something else now.
    Unloaded,
}

/// How often modules came and went as far as [`refresh`] has seen. Several look at the same time, and each has
/// to learn of what another one found first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sightings {
    /// Times that anything was different.
    pub(crate) changes: u64,
    /// Those of them where something was gone.
    pub(crate) unloads: u64,
}

/// What is prepared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Modules with code.
    pub modules: usize,
    /// Those of them without tables, in which frame pointers are followed.
    pub without_tables: usize,
    /// Rows of all tables.
    pub rows: usize,
    /// Ranges that are searched: neighbours with the same rule are one.
    pub ranges: usize,
    /// Rows that need registers or expressions that a walk does not follow.
    pub unsupported_rows: usize,
    /// Entries that were damaged or not of the module's code.
    pub refused_entries: usize,
    /// Different rules.
    pub rules: usize,
    /// Bytes of memory for all that.
    pub bytes: usize,
}

/// A module whose tables are prepared.
#[derive(Debug)]
struct Prepared {
    identity: Identity,
    modules: Arc<[Module]>,
    /// None where it has no tables.
    table: Option<Arc<Table>>,
}

/// All but what walks read.
#[derive(Debug)]
struct State {
    changes: Option<Changes>,
    rules: Rules,
    prepared: Vec<Prepared>,
    retired: Vec<Retired>,
    version_bytes: usize,
    sightings: Sightings,
}

impl State {
    fn new() -> State {
        State {
            changes: None,
            rules: Rules::new(),
            prepared: Vec::new(),
            retired: Vec::new(),
            version_bytes: 0,
            sightings: Sightings::default(),
        }
    }

    fn refresh(&mut self) -> Refreshed {
        PUBLISHED.free(&mut self.retired);
        if self.changes.is_some_and(|known| known == changes()) {
            return Refreshed::Same;
        }
        if self.rules.is_full() {
            // Rules of modules that are gone take the place of those that are there.
            self.rules = Rules::new();
            self.prepared.clear();
        }
        let known = |identity: &Identity| {
            self.prepared.iter().any(|prepared| prepared.identity == *identity)
        };
        let (changes, listed) = list(&known);
        let first = self.changes.replace(changes).is_none();
        let mut before = std::mem::take(&mut self.prepared);
        let mut new = 0;
        for listed in listed {
            if let Some(at) = before.iter().position(|old| old.identity == listed.identity) {
                self.prepared.push(before.swap_remove(at));
                continue;
            }
            new += 1;
            let table = listed
                .frames
                .map(|frames| Arc::new(Table::read::<Native>(&frames.section(), &mut self.rules)));
            let (identity, modules) = (listed.identity, listed.modules.into());
            self.prepared.push(Prepared { identity, modules, table });
        }
        if new == 0 && before.is_empty() && !first {
            return Refreshed::Same;
        }
        self.publish();
        self.sightings.changes += 1;
        if before.is_empty() {
            return Refreshed::Loaded;
        }
        self.sightings.unloads += 1;
        Refreshed::Unloaded
    }

    fn publish(&mut self) {
        let spans = self.prepared.iter().filter_map(|prepared| {
            let (first, last) = (prepared.modules.first()?, prepared.modules.last()?);
            let table = Arc::clone(prepared.table.as_ref()?);
            Some(Span { start: first.start, end: last.end, table })
        });
        let version = Box::new(Version::new(spans.collect(), self.rules.as_slice()));
        self.version_bytes = version.memory_usage();
        PUBLISHED.replace(version, &mut self.retired);
    }

    fn statistics(&self) -> Statistics {
        let mut sum = Statistics {
            modules: self.prepared.len(),
            rules: self.rules.as_slice().len(),
            bytes: self.version_bytes
                + self.rules.memory_usage()
                + self.retired.iter().map(Retired::memory_usage).sum::<usize>(),
            ..Statistics::default()
        };
        for prepared in &self.prepared {
            let Some(table) = &prepared.table else {
                sum.without_tables += 1;
                continue;
            };
            let Counts { rows, unsupported, refused } = table.counts;
            sum.rows += rows;
            sum.unsupported_rows += unsupported;
            sum.refused_entries += refused;
            sum.ranges += table.len();
            sum.bytes += table.memory_usage();
        }
        sum
    }
}

/// The state of this process; null before it is asked for, and in a new process. One that was forked while
/// another thread held the lock would never get it.
static STATE: AtomicPtr<Mutex<State>> = AtomicPtr::new(std::ptr::null_mut());

fn with_state<T>(f: impl FnOnce(&mut State) -> T) -> T {
    static FORKS: Once = Once::new();
    extern "C" fn forked() {
        STATE.store(std::ptr::null_mut(), Ordering::Release);
        PUBLISHED.forked();
    }
    FORKS.call_once(|| {
        // SAFETY: the function only stores to statics.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
    let mut state = STATE.load(Ordering::Acquire);
    if state.is_null() {
        let new = Box::into_raw(Box::new(Mutex::new(State::new())));
        state = match STATE.compare_exchange(
            std::ptr::null_mut(),
            new,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => new,
            Err(theirs) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
                theirs
            }
        };
    }
    // SAFETY: a state is never freed once it is in place; a fork leaves its parent's behind.
    let state = unsafe { &*state };
    f(&mut state.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Looks for modules that were loaded or unloaded and prepares their tables. About 100 ns where nothing
/// changed; otherwise *growth*, about 0.1 µs for each row of what is new. On normal threads only.
pub fn refresh() -> Refreshed {
    with_state(State::refresh)
}

/// Refreshes, and says how often there was anything to see until now.
pub(crate) fn sight() -> Sightings {
    with_state(|state| {
        state.refresh();
        state.sightings
    })
}

/// The modules as of the last [`refresh`], by address.
pub fn modules() -> Vec<Module> {
    with_state(|state| by_address(state.prepared.iter().map(|prepared| &prepared.modules)))
}

/// What the last [`refresh`] prepared.
pub fn statistics() -> Statistics {
    with_state(|state| state.statistics())
}
