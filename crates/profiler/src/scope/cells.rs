//! The cells that threads keep the numbers of their sets in.

use std::cell::{Cell as PlainCell, OnceCell};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::fork;
use super::patience::Patient;
use crate::heap::Inside;
use crate::sample::Tid;

/// Where a thread keeps the number of its set.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(super) current: AtomicU32,
    /// The thread; 0 for none.
    tid: AtomicI32,
}

impl Cell {
    /// The set's number. In a signal handler, too.
    #[inline]
    pub(crate) fn current(&self) -> u32 {
        self.current.load(Relaxed)
    }
}

/// All cells there ever were: as many as threads with scopes at the same time.
pub(super) static CELLS: Patient<Vec<&'static Cell>> = Patient::new(Vec::new());

/// Moves when a cell got or lost its thread.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// A thread's right to its cell.
struct Owned(&'static Cell);

impl Owned {
    fn claim() -> Option<Owned> {
        let tid = Tid::own().0;
        fork::watch();
        // A sample of what this allocates would wait for others with the lock held.
        let _inside = Inside::enter();
        let mut cells = CELLS.lock()?;
        let free = cells.iter().copied().find(|cell| cell.tid.load(Relaxed) == 0);
        let cell = free.unwrap_or_else(|| {
            let fresh = Cell { current: AtomicU32::new(0), tid: AtomicI32::new(0) };
            let fresh: &'static Cell = Box::leak(Box::new(fresh));
            cells.push(fresh);
            fresh
        });
        cell.tid.store(tid, Relaxed);
        CHANGES.fetch_add(1, Relaxed);
        Some(Owned(cell))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let _ = CELL.try_with(|cell| cell.set(None));
        self.0.current.store(0, Relaxed);
        self.0.tid.store(0, Relaxed);
        CHANGES.fetch_add(1, Relaxed);
    }
}

thread_local! {
    /// The cell, as a word that is read without asking whether it is still there.
    static CELL: PlainCell<Option<&'static Cell>> = const { PlainCell::new(None) };
    /// Empty until there is one: the list may be busy for once.
    static OWNED: OnceCell<Owned> = const { OnceCell::new() };
}

/// The calling thread's cell; none while it ends, or where nobody gives back the list.
pub(super) fn own_cell() -> Option<&'static Cell> {
    if let Some(cell) = CELL.get() {
        return Some(cell);
    }
    let claimed = |owned: &OnceCell<Owned>| match owned.get() {
        Some(owned) => Some(owned.0),
        None => Owned::claim().map(|fresh| owned.get_or_init(|| fresh).0),
    };
    let cell = OWNED.try_with(claimed).ok()??;
    CELL.set(Some(cell));
    Some(cell)
}

/// The cell that the calling thread has already.
pub(super) fn held_cell() -> Option<&'static Cell> {
    CELL.get()
}

/// The number of the calling thread's set. *Steady*, one load; asks for no cell.
pub(crate) fn current() -> u32 {
    CELL.get().map_or(0, Cell::current)
}

/// Moves when [`cells`] would say something else.
pub(crate) fn changes() -> u64 {
    CHANGES.load(Relaxed)
}

/// Calls `found` with each thread that has a cell.
pub(crate) fn cells(mut found: impl FnMut(Tid, &'static Cell)) {
    let Some(cells) = CELLS.lock() else { return };
    for cell in cells.iter() {
        match cell.tid.load(Relaxed) {
            0 => {}
            tid => found(Tid(tid), cell),
        }
    }
}

/// In a process that was forked: the cells of its parent's other threads belong to nobody, and the calling
/// thread, which is the one that forked, has another id.
pub(crate) fn adopt() {
    let own = CELL.get();
    let Some(cells) = CELLS.lock() else { return };
    for &cell in cells.iter() {
        if own.is_some_and(|own| ptr::eq(own, cell)) {
            cell.tid.store(Tid::own().0, Relaxed);
        } else if cell.tid.swap(0, Relaxed) != 0 {
            cell.current.store(0, Relaxed);
        }
    }
    CHANGES.fetch_add(1, Relaxed);
}
