//! The wrapper around the program's allocator.
#![expect(unsafe_code, reason = "an allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout};

use super::record;
use super::threads::with_local;

/// The program's allocator, observed.
///
/// ```
/// use std::alloc::System;
///
/// #[global_allocator]
/// static ALLOCATOR: profiler::heap::Allocator<System> = profiler::heap::Allocator::new(System);
/// ```
/// Counts every allocation and free by [stage](crate::stage), and samples them once
/// [`start`](super::start) was called. *Steady*: an allocation costs a subtraction and two additions more
/// than that of the allocator inside, a free a look at one byte and two additions. It never allocates
/// itself but for a sample of a new stack, and it changes nothing of what the allocator inside does.
///
/// A reallocation is a free of the old block and an allocation of the new one, whether it moved or
/// not, as in jemalloc: a vector that grows in place has allocated all the sizes that it had.
///
/// A signal handler must not allocate, as with every allocator; one that merely interrupts an allocation
/// does no harm.
#[derive(Debug, Default)]
pub struct Allocator<A>(A);

impl<A> Allocator<A> {
    /// Around `inner`.
    pub const fn new(inner: A) -> Self {
        Allocator(inner)
    }

    /// The allocator inside.
    pub const fn inner(&self) -> &A {
        &self.0
    }
}

/// Each of the wrapper's calls has this in one place only: where it is, is how a sample's stack is cut.
#[inline(always)]
fn allocated(block: *mut u8, bytes: usize) {
    if !block.is_null() && with_local(|local| local.allocated(bytes)) {
        record::passed(block.addr(), bytes);
    }
}

/// Before the block is freed, because another thread may have its address right behind that.
#[inline(always)]
fn freed(block: *mut u8, bytes: usize) {
    if record::LIVE.may_have(block.addr()) {
        record::freed(block.addr());
    }
    with_local(|local| local.freed(bytes));
}

// SAFETY: every call goes to the allocator inside unchanged, and what it returns is returned. What is
// around it does not unwind: `record`'s functions abort if they panic.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Allocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let block = unsafe { self.0.alloc(layout) };
        allocated(block, layout.size());
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let block = unsafe { self.0.alloc_zeroed(layout) };
        allocated(block, layout.size());
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        freed(block, layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { self.0.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Taken out before the call, as with a free, and put back if nothing came of it.
        let address = block.addr();
        let sampled = match record::LIVE.may_have(address) {
            true => record::LIVE.take(address),
            false => None,
        };
        // SAFETY: the caller's promises are passed on.
        let new = unsafe { self.0.realloc(block, layout, size) };
        if let Some(place) = sampled {
            record::reallocated(place, address, !new.is_null());
        }
        if !new.is_null() {
            with_local(|local| local.freed(layout.size()));
            allocated(new, size);
        }
        new
    }
}
