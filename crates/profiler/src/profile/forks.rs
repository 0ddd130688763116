//! Forks: a process is copied when no thread is between two states of any tables, so that the child can
//! use them.
//!
//! 1. All tables there are stand in a list.
//! 2. Before a fork the list is locked, then all of them: leaf locks, which nobody holds for long.
//! 3. Behind it both processes unlock them.
//!
//! A signal handler that forks while its thread has tables locked cannot wait for itself: the child goes on
//! from there.
#![expect(
    unsafe_code,
    reason = "locks that are held across a fork are kept where no lifetime reaches"
)]

use std::cell::{Cell, UnsafeCell};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::tables::{Locked, Shared};
use crate::heap::Inside;

/// All tables.
struct List {
    tables: Vec<Weak<Shared>>,
    has_handlers: bool,
}

static LIST: Mutex<List> = Mutex::new(List { tables: Vec::new(), has_handlers: false });

/// Only for who is inside: what it allocates must not be recorded, since that locks tables.
fn lock(_: &Inside) -> MutexGuard<'static, List> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks to be told of forks, once. Whoever records to tables with a lock held that it takes across forks
/// calls this before it asks to be told as well: the last who asked is told first, and its lock is then
/// taken before those of the tables.
pub(crate) fn watch() -> io::Result<()> {
    let inside = Inside::enter();
    lock(&inside).watch()
}

/// Enters new tables into the list. *Setup.*
pub(super) fn enter(tables: &Arc<Shared>) {
    let inside = Inside::enter();
    let mut list = lock(&inside);
    // It fails where a few bytes are not to be had; the next one tries again.
    let _ = list.watch();
    list.tables.retain(|tables| tables.strong_count() > 0);
    list.tables.push(Arc::downgrade(tables));
}

impl List {
    fn watch(&mut self) -> io::Result<()> {
        if !self.has_handlers {
            // SAFETY: the handlers have the type that is asked for.
            let code =
                unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
            if code != 0 {
                return Err(io::Error::from_raw_os_error(code));
            }
            self.has_handlers = true;
        }
        Ok(())
    }
}

/// What a thread holds while it forks, in the order in which it is given back.
struct Forking {
    tables: Vec<Held>,
    _list: MutexGuard<'static, List>,
    _inside: Inside,
}

/// Tables, locked.
struct Held {
    state: Locked<'static>,
    /// Behind what refers to it.
    _shared: Arc<Shared>,
}

struct ForkingCell(UnsafeCell<Option<Forking>>);

// SAFETY: it is accessed by the thread only that has the list's lock, from before the fork until behind it.
unsafe impl Sync for ForkingCell {}

static FORKING: ForkingCell = ForkingCell(UnsafeCell::new(None));

thread_local! {
    /// Whether what is in `FORKING` is this thread's.
    static IS_FORKING: Cell<bool> = const { Cell::new(false) };
}

extern "C" fn before_fork() {
    let Some(inside) = Inside::enter_for_fork() else { return };
    let list = lock(&inside);
    let hold = |shared: Arc<Shared>| {
        // SAFETY: it is kept as long as the lock, and does not move.
        let lasting: &'static Shared = unsafe { &*Arc::as_ptr(&shared) };
        Held { state: lasting.lock(), _shared: shared }
    };
    let tables = list.tables.iter().filter_map(Weak::upgrade).map(hold).collect();
    let forking = Forking { tables, _list: list, _inside: inside };
    // SAFETY: this thread has the list's lock.
    unsafe { *FORKING.0.get() = Some(forking) };
    IS_FORKING.set(true);
}

extern "C" fn in_parent() {
    drop(held());
}

extern "C" fn in_child() {
    let mut held = held();
    for tables in held.iter_mut().flat_map(|held| &mut held.tables) {
        tables.state.forked();
    }
}

fn held() -> Option<Forking> {
    if !IS_FORKING.replace(false) {
        return None;
    }
    // SAFETY: this thread took the list's lock before the fork, and has it until this is dropped.
    unsafe { (*FORKING.0.get()).take() }
}
