//! Memory for the open chunks: blocks of a cache line, in rings.
//!
//! The end of a chunk that is no whole block yet is in its series' row, where samples are appended; here
//! comes what is whole, once in some thirty samples, so that the steady path goes over the rows and
//! nowhere else. (The choice before had the end here too: a cache line somewhere for every sample. The
//! one before that, buffers in classes of doubling size, holds up to twice as much, because the series of
//! a scrape grow in step and leave each class together.)
//! The last block leads back to the first one: a row keeps one number, and a whole ring is given back
//! at once. Blocks of a closed chunk are used again; memory goes back only with the slab.

use super::page::{self, Page};
use super::prefetch::prefetch;

/// Bytes of a chunk in one block.
pub(crate) const BLOCK: usize = 60;
/// Blocks in a page.
const PAGE: usize = page::BYTES / size_of::<Block>();

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
    pages: Vec<Page<Block>>,
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

    /// Bytes held, with free blocks: see [`page::memory`].
    pub(crate) fn memory(&self) -> usize {
        page::memory(&self.pages)
    }

    #[inline]
    fn block(&self, number: u32) -> &Block {
        &self.pages[number as usize / PAGE][number as usize % PAGE]
    }

    #[inline]
    fn block_mut(&mut self, number: u32) -> &mut Block {
        &mut self.pages[number as usize / PAGE][number as usize % PAGE]
    }

    fn take(&mut self) -> u32 {
        let taken = self.free;
        if taken != NONE {
            self.free = self.block(taken).next;
            if self.free != NONE {
                // Where the next one leads is not known before it has come from memory.
                prefetch(self.block(self.free));
            }
            return taken;
        }
        if self.pages.last().is_none_or(|last| last.len() == PAGE) {
            self.pages.push(page::page(self.pages.len()));
        }
        let number = self.len() as u32;
        if let Some(page) = self.pages.last_mut() {
            page.push(Block { next: NONE, bytes: [0; BLOCK] });
        }
        number
    }

    /// Puts another block at the end of the ring. Allocates a page when there is no free block.
    pub(crate) fn push(&mut self, chain: &mut Chain, bytes: &[u8; BLOCK]) {
        let number = self.take();
        let first = match chain.0 {
            NONE => number,
            last => std::mem::replace(&mut self.block_mut(last).next, number),
        };
        *self.block_mut(number) = Block { next: first, bytes: *bytes };
        chain.0 = number;
    }

    /// Appends the bytes of the chain to `out`.
    pub(crate) fn copy(&self, chain: Chain, out: &mut Vec<u8>) {
        if chain.0 == NONE {
            return;
        }
        let mut number = chain.0;
        loop {
            number = self.block(number).next;
            out.extend_from_slice(&self.block(number).bytes);
            if number == chain.0 {
                break;
            }
        }
    }

    /// Has the block to which the next one is tied brought to the cache, in the background.
    #[inline]
    pub(crate) fn prefetch_end(&self, chain: Chain) {
        if chain.0 != NONE {
            prefetch(self.block(chain.0));
        }
    }

    /// The same with all blocks of several chains, of which none has more than `most`. Each block leads to
    /// the next one: those of one chain come one after the other, those of different chains at once.
    pub(crate) fn prefetch_all(&self, chains: &mut [Chain], most: usize) {
        chains.iter().for_each(|&chain| self.prefetch_end(chain));
        for _ in 1..most {
            for Chain(number) in chains.iter_mut().filter(|chain| chain.0 != NONE) {
                *number = self.block(*number).next;
                prefetch(self.block(*number));
            }
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
                let bytes = std::array::from_fn(|_| random.next_u64() as u8);
                slab.push(chain, &bytes);
                model.extend_from_slice(&bytes);
            }
            for (chain, model) in &mut chains {
                let mut out = Vec::new();
                slab.copy(*chain, &mut out);
                assert_eq!(out, *model);
                slab.release(chain);
            }
            assert_eq!(slab.len(), 3000, "blocks were used again");
        }
        let mut none = Vec::new();
        slab.copy(Chain::EMPTY, &mut none);
        assert!(none.is_empty());
    }
}
