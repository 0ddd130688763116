//! Forks: the locks of scopes are taken before one and given back behind it, in both processes, so that none
//! is held in the child by a thread that is not there.
//!
//! Nobody who has one of them waits for anything else, so it does not matter which handlers come first.
#![expect(unsafe_code, reason = "asks to be told of forks")]

use std::cell::Cell as PlainCell;
use std::mem::ManuallyDrop;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::cells::{CELLS, Cell};
use super::sets::{ADDING, Room};

/// What a thread holds while it forks.
struct Held {
    _cells: Option<MutexGuard<'static, Vec<&'static Cell>>>,
    _adding: Option<MutexGuard<'static, Room>>,
}

thread_local! {
    /// Each thread has its own, since several may fork at once. Without destructor, so that a thread that
    /// ends may fork, too.
    static HELD: PlainCell<Option<ManuallyDrop<Held>>> = const { PlainCell::new(None) };
}

/// Asks to be told of forks, once. If that fails, a child may have a lock that is never given back.
pub(super) fn watch() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if !IS_WATCHED.load(Relaxed) && !IS_WATCHED.swap(true, Relaxed) {
        // SAFETY: the handlers have the type that is asked for.
        unsafe { libc::pthread_atfork(Some(before), Some(behind), Some(behind)) };
    }
}

extern "C" fn before() {
    let held = Held { _cells: CELLS.lock(), _adding: ADDING.lock() };
    HELD.set(Some(ManuallyDrop::new(held)));
}

extern "C" fn behind() {
    if let Some(held) = HELD.take() {
        drop(ManuallyDrop::into_inner(held));
    }
}
