//! An allocator that counts, so that "no allocation" is a number.
//!
//! ```ignore
//! #[global_allocator]
//! static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();
//!
//! let during = testkit::allocations::count(|| work());
//! assert_eq!(during, testkit::allocations::Count::ZERO);
//! ```
//! Counts are kept per thread: tests that run side by side do not disturb each other, and work that a
//! test hands to another thread is counted there. Who needs the work of all threads in one count, and is
//! alone in its process, has them [watched](watch_all_threads).

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Allocations, reallocations and frees, and the bytes asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Count {
    /// Calls of `alloc` and `alloc_zeroed`.
    pub allocations: u64,
    /// Calls of `realloc`.
    pub reallocations: u64,
    /// Calls of `dealloc`.
    pub frees: u64,
    /// Bytes requested by allocations, and by reallocations beyond the old size.
    pub bytes: u64,
}

impl Count {
    /// Nothing at all.
    pub const ZERO: Count = Count { allocations: 0, reallocations: 0, frees: 0, bytes: 0 };
}

thread_local! {
    static COUNT: Cell<Count> = const { Cell::new(Count::ZERO) };
    /// Bytes freed: apart from [`Count`], because a count tells what work asked for, not what it left.
    static FREED: Cell<u64> = const { Cell::new(0) };
}

/// Whether what all threads do is counted as well: not always, because threads would wait for each other.
static IS_WATCHING: AtomicBool = AtomicBool::new(false);

/// What all threads did while they were watched.
static ALL: AllThreads = AllThreads {
    allocations: AtomicU64::new(0),
    reallocations: AtomicU64::new(0),
    frees: AtomicU64::new(0),
    bytes: AtomicU64::new(0),
    freed: AtomicU64::new(0),
};

struct AllThreads {
    allocations: AtomicU64,
    reallocations: AtomicU64,
    frees: AtomicU64,
    bytes: AtomicU64,
    freed: AtomicU64,
}

impl AllThreads {
    #[cold]
    fn add(&self, by: Count) {
        self.allocations.fetch_add(by.allocations, Relaxed);
        self.reallocations.fetch_add(by.reallocations, Relaxed);
        self.frees.fetch_add(by.frees, Relaxed);
        self.bytes.fetch_add(by.bytes, Relaxed);
    }
}

/// The system's allocator, counted per thread. To be made the `#[global_allocator]` of a test.
pub struct Counting(());

impl Counting {
    /// For the `static`.
    #[expect(clippy::new_without_default, reason = "a static needs a const constructor")]
    pub const fn new() -> Self {
        Counting(())
    }
}

/// Counts one call of the allocator.
fn change(by: Count) {
    // A thread that is ending has no counters any more and nobody who asks for them.
    let _ = COUNT.try_with(|cell| {
        let mut count = cell.get();
        count.allocations += by.allocations;
        count.reallocations += by.reallocations;
        count.frees += by.frees;
        count.bytes += by.bytes;
        cell.set(count);
    });
    if IS_WATCHING.load(Relaxed) {
        ALL.add(by);
    }
}

fn freed(bytes: usize) {
    let _ = FREED.try_with(|cell| cell.set(cell.get() + bytes as u64));
    if IS_WATCHING.load(Relaxed) {
        ALL.freed.fetch_add(bytes as u64, Relaxed);
    }
}

// SAFETY: every call goes to `System` unchanged; counting touches a `Cell` without destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        change(Count { allocations: 1, bytes: layout.size() as u64, ..Count::ZERO });
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        change(Count { allocations: 1, bytes: layout.size() as u64, ..Count::ZERO });
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let bytes = size.saturating_sub(layout.size()) as u64;
        change(Count { reallocations: 1, bytes, ..Count::ZERO });
        freed(layout.size().saturating_sub(size));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        change(Count { frees: 1, ..Count::ZERO });
        freed(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What this thread allocated and freed so far: for work that cannot be put into a closure.
pub fn total() -> Count {
    COUNT.get()
}

/// Bytes that this thread has asked for and not freed; below zero where it frees what others asked for.
pub fn live() -> i64 {
    COUNT.get().bytes.cast_signed() - FREED.get().cast_signed()
}

/// What `work` allocated and freed on this thread.
pub fn count(work: impl FnOnce()) -> Count {
    let before = COUNT.get();
    work();
    let after = COUNT.get();
    Count {
        allocations: after.allocations - before.allocations,
        reallocations: after.reallocations - before.reallocations,
        frees: after.frees - before.frees,
        bytes: after.bytes - before.bytes,
    }
}

/// From now on, or no more, what all threads do is counted together.
pub fn watch_all_threads(wanted: bool) {
    IS_WATCHING.store(wanted, Relaxed);
}

/// What all threads did while they were watched, and the bytes that this left.
pub fn of_all_threads() -> (Count, i64) {
    let count = Count {
        allocations: ALL.allocations.load(Relaxed),
        reallocations: ALL.reallocations.load(Relaxed),
        frees: ALL.frees.load(Relaxed),
        bytes: ALL.bytes.load(Relaxed),
    };
    (count, count.bytes.cast_signed() - ALL.freed.load(Relaxed).cast_signed())
}

/// What `work` and all other threads allocate and free meanwhile.
pub fn count_all_threads(work: impl FnOnce()) -> Count {
    watch_all_threads(true);
    let (before, _) = of_all_threads();
    work();
    let (after, _) = of_all_threads();
    watch_all_threads(false);
    Count {
        allocations: after.allocations - before.allocations,
        reallocations: after.reallocations - before.reallocations,
        frees: after.frees - before.frees,
        bytes: after.bytes - before.bytes,
    }
}
