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
//! test hands to another thread is counted there.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

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

/// The system's allocator, counted per thread. To be made the `#[global_allocator]` of a test.
pub struct Counting(());

impl Counting {
    /// For the `static`.
    #[expect(clippy::new_without_default, reason = "a static needs a const constructor")]
    pub const fn new() -> Self {
        Counting(())
    }
}

fn change(by: impl FnOnce(&mut Count)) {
    // A thread that is ending has no counters any more and nobody who asks for them.
    let _ = COUNT.try_with(|cell| {
        let mut count = cell.get();
        by(&mut count);
        cell.set(count);
    });
}

fn freed(bytes: usize) {
    let _ = FREED.try_with(|cell| cell.set(cell.get() + bytes as u64));
}

// SAFETY: every call goes to `System` unchanged; counting touches a `Cell` without destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        change(|count| {
            count.allocations += 1;
            count.bytes += layout.size() as u64;
        });
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        change(|count| {
            count.allocations += 1;
            count.bytes += layout.size() as u64;
        });
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        change(|count| {
            count.reallocations += 1;
            count.bytes += size.saturating_sub(layout.size()) as u64;
        });
        freed(layout.size().saturating_sub(size));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        change(|count| count.frees += 1);
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
