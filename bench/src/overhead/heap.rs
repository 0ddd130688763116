//! An allocator that can be switched from the system's to ours and back, and a program that allocates.
//!
//! Both ways go through the same branch of the same program, so that neither the build nor where its code
//! lies makes a difference. What one way allocates the other may free: both have the system's blocks.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use profiler::heap::Allocator;

static IS_WRAPPED: AtomicBool = AtomicBool::new(false);

/// The program's allocator.
pub struct Switched(Allocator<System>);

impl Switched {
    /// The system's alone.
    pub const fn new() -> Self {
        Switched(Allocator::new(System))
    }
}

/// Chooses the way of all calls from now on.
pub fn wrap(is_wrapped: bool) {
    IS_WRAPPED.store(is_wrapped, Relaxed);
}

// SAFETY: both allocators give blocks of the system's, which either may free; the caller's promises are
// passed on.
unsafe impl GlobalAlloc for Switched {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe {
            if IS_WRAPPED.load(Relaxed) { self.0.alloc(layout) } else { System.alloc(layout) }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe {
            if IS_WRAPPED.load(Relaxed) {
                self.0.alloc_zeroed(layout)
            } else {
                System.alloc_zeroed(layout)
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe {
            if IS_WRAPPED.load(Relaxed) {
                self.0.realloc(pointer, layout, size)
            } else {
                System.realloc(pointer, layout, size)
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe {
            if IS_WRAPPED.load(Relaxed) {
                self.0.dealloc(pointer, layout);
            } else {
                System.dealloc(pointer, layout);
            }
        }
    }
}

/// What a service does with a request of a dozen parameters: takes it apart into a map, and writes an answer.
/// About 30 calls of the allocator and 2 KiB.
pub fn request(unit: u64) {
    let mut text = String::new();
    for number in 0..12 {
        let _ = write!(text, "name{number}=value{};", unit.wrapping_mul(number + 1) % 1_000_003);
    }
    let mut parameters = BTreeMap::new();
    for pair in text.split_terminator(';') {
        if let Some((name, value)) = pair.split_once('=') {
            parameters.insert(name.to_owned(), value.to_owned());
        }
    }
    let mut answer = Vec::with_capacity(1024);
    for (name, value) in &parameters {
        answer.extend_from_slice(name.as_bytes());
        answer.extend_from_slice(value.as_bytes());
    }
    std::hint::black_box(answer);
}

/// A program that also does something with what it allocates: a request, and some ten microseconds of
/// arithmetic. It allocates a quarter of a gigabyte for each second of a processor, as busy services do.
pub fn service(unit: u64) {
    request(unit);
    crate::busy::compute(unit);
}
