//! Memory for the open chunks: blocks of a cache line, chained.
//!
//! A chunk that grows takes one block after the other, so that all of them together hold what was
//! written and half a block more. (The choice before, buffers in classes of doubling size, holds up
//! to twice that, because the series of a scrape grow in step and leave each class together.)
//! Blocks of a closed chunk are used again; memory goes back only with the slab.

/// Bytes of a chunk in one block.
pub(crate) const BLOCK: usize = 60;
const PAGE: usize = 1024;

/// No block.
pub(crate) const NONE: u32 = u32::MAX;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Block {
    next: u32,
    bytes: [u8; BLOCK],
}

const _: () = assert!(size_of::<Block>() == 64, "a block is a cache line");

/// A chain of blocks. What it holds is known to its owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    first: u32,
    last: u32,
}

impl Chain {
    /// A chain without blocks.
    pub(crate) const EMPTY: Chain = Chain { first: NONE, last: NONE };
}

/// The blocks of a shard.
pub(crate) struct Slab {
    pages: Vec<Box<[Block]>>,
    free: u32,
    used: usize,
}

impl Slab {
    /// Without blocks.
    pub(crate) fn new() -> Self {
        Slab { pages: Vec::new(), free: NONE, used: 0 }
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> usize {
        self.pages.len() * PAGE * size_of::<Block>()
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
        if self.free == NONE {
            let first = (self.pages.len() * PAGE) as u32;
            let page: Box<[Block]> = (1..=PAGE as u32)
                .map(|i| Block {
                    next: if i == PAGE as u32 { NONE } else { first + i },
                    bytes: [0; BLOCK],
                })
                .collect();
            self.pages.push(page);
            self.free = first;
        }
        let taken = self.free;
        self.free = self.block(taken).next;
        self.block_mut(taken).next = NONE;
        self.used += 1;
        taken
    }

    /// Writes `bytes` behind the first `length` ones of the chain. Allocates a page when there is no
    /// free block.
    #[inline]
    pub(crate) fn extend(&mut self, chain: &mut Chain, length: usize, mut bytes: &[u8]) {
        let mut at = length % BLOCK;
        while !bytes.is_empty() {
            if at == 0 {
                let block = self.take();
                if chain.last == NONE {
                    chain.first = block;
                } else {
                    self.block_mut(chain.last).next = block;
                }
                chain.last = block;
            }
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - at));
            self.block_mut(chain.last).bytes[at..at + now.len()].copy_from_slice(now);
            bytes = later;
            at = (at + now.len()) % BLOCK;
        }
    }

    /// Appends the first `length` bytes of the chain to `out`.
    pub(crate) fn copy(&self, chain: Chain, mut length: usize, out: &mut Vec<u8>) {
        let mut number = chain.first;
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
        let mut number = chain.first;
        while number != NONE {
            let next = self.block(number).next;
            self.block_mut(number).next = self.free;
            self.free = number;
            self.used -= 1;
            number = next;
        }
        *chain = Chain::EMPTY;
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
            assert_eq!(slab.used, 0);
        }
        let pages = slab.pages.len();
        assert!(pages * PAGE * BLOCK < 2 * 3000 * 65, "blocks were used again: {pages} pages");
    }
}
