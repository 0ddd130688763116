//! Memory of all sizes and alignments, grown, shrunk, zeroed, and freed by other threads.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::ptr::NonNull;
use std::slice;
use std::sync::mpsc::sync_channel;
use std::thread;

use testkit::random::Random;

use super::{Actor, Storm};

/// A block whose bytes all have the same value.
struct Block {
    pointer: NonNull<u8>,
    layout: Layout,
    mark: u8,
}

// SAFETY: the block has one owner, who alone reads and writes it.
unsafe impl Send for Block {}

impl Block {
    fn new(random: &mut Random) -> Result<Block, String> {
        // Mostly small, some beyond what allocators keep in bins.
        let most = match random.below(20) {
            0..10 => 64,
            10..17 => 1024,
            17..19 => 16 * 1024,
            _ => 512 * 1024,
        };
        let size = 1 + random.below(most) as usize;
        let align = 1usize << random.below(13);
        let layout = Layout::from_size_align(size, align).map_err(|error| error.to_string())?;
        let mark = random.next_u64() as u8;
        let is_zeroed = random.below(3) == 0;
        // SAFETY: the size is not zero.
        let pointer = unsafe { if is_zeroed { alloc_zeroed(layout) } else { alloc(layout) } };
        let pointer = NonNull::new(pointer).ok_or(format!("no memory for {layout:?}"))?;
        let mut block = Block { pointer, layout, mark };
        block.check_alignment()?;
        if is_zeroed && let Some(place) = block.bytes().iter().position(|byte| *byte != 0) {
            return Err(format!("{layout:?} asked for zeroed is not zero at {place}"));
        }
        block.fill();
        Ok(block)
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the block is ours and that long; every byte was written or zeroed, or is before it is
        // read.
        unsafe { slice::from_raw_parts_mut(self.pointer.as_ptr(), self.layout.size()) }
    }

    /// Both ends only: writing all of a large block would leave little time for the allocator.
    fn fill(&mut self) {
        let mark = self.mark;
        let bytes = self.bytes();
        let (first, last) = (bytes.len().min(64), bytes.len().saturating_sub(64));
        bytes[..first].fill(mark);
        bytes[last..].fill(mark);
    }

    fn check_alignment(&self) -> Result<(), String> {
        if (self.pointer.as_ptr() as usize).is_multiple_of(self.layout.align()) {
            return Ok(());
        }
        Err(format!("{:?} lies at {:?}", self.layout, self.pointer))
    }

    fn check(&mut self) -> Result<(), String> {
        let (mark, layout) = (self.mark, self.layout);
        let bytes = self.bytes();
        let first = bytes.len().min(64);
        match bytes[..first].iter().position(|byte| *byte != mark) {
            None => Ok(()),
            Some(place) => {
                Err(format!("{layout:?} has {} at {place} instead of {mark}", bytes[place]))
            }
        }
    }

    fn resize(&mut self, random: &mut Random) -> Result<(), String> {
        let most = (2 * self.layout.size() as u64).min(1 << 20);
        let size = 1 + random.below(most) as usize;
        // SAFETY: the block has this layout, and the new size is not zero.
        let pointer = unsafe { realloc(self.pointer.as_ptr(), self.layout, size) };
        self.pointer = NonNull::new(pointer).ok_or(format!("no memory for {size} bytes"))?;
        let kept = self.layout.size().min(size).min(64);
        self.layout = Layout::from_size_align(size, self.layout.align())
            .map_err(|error| error.to_string())?;
        self.check_alignment()?;
        // SAFETY: so many bytes were there before.
        let bytes = unsafe { slice::from_raw_parts(self.pointer.as_ptr(), kept) };
        if bytes.iter().any(|byte| *byte != self.mark) {
            return Err(format!("{:?} was lost when it grew or shrank", self.layout));
        }
        self.fill();
        Ok(())
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, freed once.
        unsafe { dealloc(self.pointer.as_ptr(), self.layout) };
    }
}

/// A table of blocks that come, change and go.
pub(super) fn churn(actor: &Actor, storm: &Storm) -> Result<(), String> {
    let mut random = actor.random(storm);
    let mut blocks: Vec<Block> = Vec::new();
    while storm.goes_on() {
        actor.step("allocating");
        let _stage = profiler::stage("torture-memory");
        for _ in 0..300 {
            let place = random.below(500) as usize;
            match random.below(4) {
                _ if place >= blocks.len() => blocks.push(Block::new(&mut random)?),
                0 => blocks.swap_remove(place).check()?,
                1 => blocks[place].resize(&mut random)?,
                2 => blocks[place].check()?,
                _ => blocks[place] = Block::new(&mut random)?,
            }
        }
    }
    Ok(())
}

/// Blocks that another thread checks and frees.
pub(super) fn pass_on(actor: &Actor, storm: &Storm) -> Result<(), String> {
    let mut random = actor.random(storm);
    while storm.goes_on() {
        actor.step("passing on");
        let (sender, receiver) = sync_channel::<Block>(100);
        let freed = thread::scope(|scope| {
            let frees =
                scope.spawn(move || receiver.iter().try_for_each(|mut block| block.check()));
            for _ in 0..500 {
                if sender.send(Block::new(&mut random)?).is_err() {
                    break;
                }
            }
            drop(sender);
            frees.join().map_err(|_| "the thread that frees panicked".to_owned())?
        });
        freed?;
    }
    Ok(())
}
