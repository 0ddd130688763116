//! Memory for rows and open chunks: pages of 2 MiB that are never copied.
//!
//! A scrape streams through the rows of its target, which nobody has touched since the scrape before.
//! Where memory comes in pieces of 4 KiB, the processor has to find out anew for every 32 rows where they
//! lie, and does not read ahead beyond. So all pages but the first two of each kind are advised to be one
//! piece: the same scrape took a seventh less (500 targets of 1,000 series, November 2026). The first two
//! stay what the system gives by itself, as far as they are touched: a small head stays small, and a
//! large one holds a page more than it needs at most.

use std::alloc::Layout;
use std::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator, Global};
use allocator_api2::vec::Vec;

/// Bytes of a page, and what it is aligned to.
pub(crate) const BYTES: usize = 2 << 20;

/// Pages of each kind that are not advised.
const SMALL: usize = 2;

/// Bytes of the pieces in which the others come, as they are touched.
const PIECE: usize = 4 << 10;

/// Things that never move, with room for as many as fit a page from the start.
pub(crate) type Page<T> = Vec<T, Source>;

/// The page that comes behind `before` others of its kind. *Growth.*
pub(crate) fn page<T>(before: usize) -> Page<T> {
    const { assert!(BYTES.is_multiple_of(size_of::<T>())) };
    Vec::with_capacity_in(BYTES / size_of::<T>(), Source::behind(before))
}

/// Bytes that these pages hold of the machine's memory, and their list. A page that was advised is there as
/// a whole from its first thing on; of one that was not, what things lie in is. Where the system has no
/// large piece to give, it is up to a page less for now; where it gives large ones to everybody, asked or
/// not, up to [`SMALL`] pages more.
pub(crate) fn memory<T>(pages: &std::vec::Vec<Page<T>>) -> usize {
    let held = pages.iter().map(|page| {
        let touched = (page.len() * size_of::<T>()).next_multiple_of(PIECE);
        if page.allocator().advised { BYTES } else { touched }
    });
    held.sum::<usize>() + pages.capacity() * size_of::<Page<T>>()
}

/// Where pages come from: the program's allocator, on the boundaries that the processor's large pages have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    advised: bool,
}

impl Source {
    /// Of the page behind so many.
    const fn behind(before: usize) -> Self {
        Source { advised: cfg!(target_os = "linux") && before >= SMALL }
    }

    fn aligned(layout: Layout) -> Result<Layout, AllocError> {
        layout.align_to(BYTES).map_err(|_| AllocError)
    }
}

// SAFETY: all memory is `Global`'s, asked for and given back with the same larger alignment; copies of a
// source are equal, and advice does not change what memory holds.
#[allow(unsafe_code)]
unsafe impl Allocator for Source {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let memory = Global.allocate(Source::aligned(layout)?)?;
        if self.advised {
            advise(memory);
        }
        Ok(memory)
    }

    unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
        if let Ok(layout) = Source::aligned(layout) {
            // SAFETY: as the caller promises, it came from `allocate`, with this layout.
            unsafe { Global.deallocate(memory, layout) }
        }
    }
}

/// A hint: where the system has no large pages, or wants none, nothing changes. Miri has no such call.
#[cfg(all(target_os = "linux", not(miri)))]
#[allow(unsafe_code)]
fn advise(memory: NonNull<[u8]>) {
    use rustix::mm::{Advice, madvise};
    // SAFETY: the memory is ours, and this advice leaves what it holds.
    let _ = unsafe { madvise(memory.as_ptr().cast(), memory.len(), Advice::LinuxHugepage) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn advise(_: NonNull<[u8]>) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Things of which a page is filled: Miri, which has nothing to say about a thing more, takes minutes for
    /// all.
    const FILLED: usize = if cfg!(miri) { 2000 } else { BYTES / size_of::<Line>() };

    /// As large as a block of a chunk.
    type Line = [u64; 8];

    #[test]
    fn pages_are_aligned_and_hold_what_they_say() {
        for before in [0, 1, 2, 3] {
            let mut pages: std::vec::Vec<Page<Line>> = (0..3).map(|_| page(before)).collect();
            for page in &mut pages {
                assert_eq!((page.as_ptr() as usize) % BYTES, 0);
                assert!(page.capacity() * size_of::<Line>() >= BYTES);
                let first = page.as_ptr();
                (0..FILLED as u64).for_each(|number| page.push([number; 8]));
                assert_eq!(page.as_ptr(), first, "it moved");
            }
            for page in pages {
                assert!((0u64..).zip(&page).all(|(at, found)| [at; 8] == *found));
            }
        }
    }

    #[test]
    fn memory_is_what_was_touched_and_later_pages_as_a_whole() {
        const LINES: usize = PIECE / size_of::<Line>();
        let mut pages: std::vec::Vec<Page<Line>> = std::vec::Vec::with_capacity(4);
        let list = pages.capacity() * size_of::<Page<Line>>();
        assert_eq!(memory(&pages), list);
        let whole = if cfg!(target_os = "linux") { BYTES } else { PIECE };
        let mut before = 0;
        for (first, number) in [PIECE, PIECE, whole, whole].into_iter().zip(0..) {
            pages.push(page(number));
            for (lines, most) in [(1, first), (LINES, first), (LINES + 1, first.max(2 * PIECE))] {
                pages[number].resize(lines, [0; 8]);
                assert_eq!(memory(&pages), list + before + most, "page {number}, {lines} lines");
            }
            pages[number].resize(BYTES / size_of::<Line>(), [0; 8]);
            before += BYTES;
            assert_eq!(memory(&pages), list + before, "page {number}");
        }
    }
}
