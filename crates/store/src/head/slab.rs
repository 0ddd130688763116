//! Memory for the open chunks: blocks of a cache line, in rings.
//!
//! A chunk that grows takes one block after the other, so that all of them together hold what was
//! written and half a block more. (The choice before, buffers in classes of doubling size, holds up
//! to twice that, because the series of a scrape grow in step and leave each class together. Blocks
//! of 32 bytes would waste less of the last one, and what they save would go to their links.)
//! The last block leads back to the first one: a row keeps one number, and a whole ring is given back
//! at once. Blocks of a closed chunk are used again; memory goes back only with the slab.

/// Bytes of a chunk in one block.
pub(crate) const BLOCK: usize = 60;
/// Blocks in a page: 2 MiB, of which the system gives what is touched.
const PAGE: usize = 1 << 15;

/// No block.
pub(crate) const NONE: u32 = u32::MAX;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Block {
    next: u32,
    bytes: [u8; BLOCK],
}

const _: () = assert!(size_of::<Block>() == 64, "a block is a cache line");

/// A ring of blocks, by its last one. What it holds is known to its owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain(u32);

impl Chain {
    /// A chain without blocks.
    pub(crate) const EMPTY: Chain = Chain(NONE);
}

/// The blocks of a shard.
pub(crate) struct Slab {
    /// Each with room for [`PAGE`] from the start, so that nothing moves when it grows.
    pages: Vec<Vec<Block>>,
    free: u32,
}

impl Slab {
    /// Without blocks.
    pub(crate) fn new() -> Self {
        Slab { pages: Vec::new(), free: NONE }
    }

    fn len(&self) -> usize {
        self.pages.last().map_or(0, |last| (self.pages.len() - 1) * PAGE + last.len())
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> usize {
        self.len() * size_of::<Block>()
    }

    #[inline]
    fn block(&self, number: u32) -> &Block {
        &self.pages[number as usize / PAGE][number as usize % PAGE]
    }

    #[inline]
    fn block_mut(&mut self, number: u32) -> &mut Block {
        &mut self.pages[number as usize / PAGE][number as usize % PAGE]
    }

    /// Has the last block of the chain brought to the cache, in the background.
    #[inline]
    pub(crate) fn prefetch(&self, chain: Chain) {
        let page = self.pages.get(chain.0 as usize / PAGE);
        if let Some(block) = page.and_then(|page| page.get(chain.0 as usize % PAGE)) {
            prefetch(block);
        }
    }

    fn take(&mut self) -> u32 {
        let taken = self.free;
        if taken != NONE {
            self.free = self.block(taken).next;
            return taken;
        }
        if self.pages.last().is_none_or(|last| last.len() == PAGE) {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        let number = self.len() as u32;
        if let Some(page) = self.pages.last_mut() {
            page.push(Block { next: NONE, bytes: [0; BLOCK] });
        }
        number
    }

    /// Puts another block at the end of the ring.
    fn grow(&mut self, chain: &mut Chain) {
        let block = self.take();
        let first = match chain.0 {
            NONE => block,
            last => std::mem::replace(&mut self.block_mut(last).next, block),
        };
        self.block_mut(block).next = first;
        chain.0 = block;
    }

    /// Writes `bytes` behind the first `length` ones of the chain. Allocates a page when there is no
    /// free block.
    pub(crate) fn extend(&mut self, chain: &mut Chain, length: usize, mut bytes: &[u8]) {
        let mut at = length % BLOCK;
        while !bytes.is_empty() {
            if at == 0 {
                self.grow(chain);
            }
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - at));
            self.block_mut(chain.0).bytes[at..at + now.len()].copy_from_slice(now);
            bytes = later;
            at = (at + now.len()) % BLOCK;
        }
    }

    /// As [`Slab::extend`], the first `count` ones of `bytes`.
    #[inline]
    pub(crate) fn extend_few(
        &mut self,
        chain: &mut Chain,
        length: usize,
        bytes: &[u8; 16],
        count: usize,
    ) {
        let at = length % BLOCK;
        // A copy of fixed size is a move; what is written too much is written again.
        if at > 0 && at + 16 <= BLOCK {
            self.block_mut(chain.0).bytes[at..at + 16].copy_from_slice(bytes);
        } else {
            self.extend(chain, length, &bytes[..count]);
        }
    }

    /// Appends the first `length` bytes of the chain to `out`.
    pub(crate) fn copy(&self, chain: Chain, mut length: usize, out: &mut Vec<u8>) {
        if length == 0 {
            return;
        }
        let mut number = self.block(chain.0).next;
        while length > 0 {
            let block = self.block(number);
            let now = length.min(BLOCK);
            out.extend_from_slice(&block.bytes[..now]);
            length -= now;
            number = block.next;
        }
    }

    /// Takes the chain's blocks back.
    pub(crate) fn release(&mut self, chain: &mut Chain) {
        if chain.0 != NONE {
            let free = self.free;
            self.free = std::mem::replace(&mut self.block_mut(chain.0).next, free);
            *chain = Chain::EMPTY;
        }
    }
}

/// Asks for a cache line without waiting for it.
#[inline]
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
fn prefetch(block: &Block) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint to the processor: it reads nothing that the program sees, and can't fail; SSE is
    // part of x86_64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(block).cast()) }
}

/// Elsewhere the second pass waits for itself.
#[inline]
#[cfg(not(target_arch = "x86_64"))]
fn prefetch(_: &Block) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_keep_their_bytes_apart_and_blocks_come_back() {
        let mut slab = Slab::new();
        let mut random = testkit::random::Random::new(7);
        for _ in 0..3 {
            let mut chains: Vec<(Chain, Vec<u8>)> = vec![(Chain::EMPTY, Vec::new()); 50];
            for _ in 0..3000 {
                let (chain, model) = &mut chains[random.below(50) as usize];
                let bytes: Vec<u8> =
                    (0..random.below(130)).map(|_| random.next_u64() as u8).collect();
                slab.extend(chain, model.len(), &bytes);
                model.extend_from_slice(&bytes);
            }
            for (chain, model) in &mut chains {
                let mut out = Vec::new();
                slab.copy(*chain, model.len(), &mut out);
                assert_eq!(out, *model);
                slab.release(chain);
            }
            let (mut free, mut number) = (0, slab.free);
            while number != NONE {
                free += 1;
                number = slab.block(number).next;
            }
            assert_eq!(free, slab.len(), "all came back");
        }
        assert!(slab.len() * BLOCK < 2 * 3000 * 65, "blocks were used again: {}", slab.len());
    }
}
