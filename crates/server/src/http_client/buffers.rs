//! Buffers for bodies: lent to whoever is reading one, bounded together.
//!
//! A target that is idle holds no buffer. As many buffers exist as answers are on their way at once;
//! they keep their memory between answers, and give it back when it was unusually much. Beyond a small
//! share, one body gets at most half of the room that all others leave: however many bodies without
//! end there are, the small ones find room.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Error;
use super::inflate::Inflater;
use crate::shelf::Shelves;

/// A returned buffer that has grown beyond this gives its memory back.
const KEEP_BYTES: usize = 16 << 20;

/// Returned buffers beyond about this number are freed.
const KEEP_COUNT: usize = 64;

/// A body may hold so much (or a sixteenth of the budget) as long as there is any room.
const FREE_SHARE: usize = 4 << 20;

/// All bodies being read together, unless said otherwise.
pub const DEFAULT_BUDGET: usize = 2 << 30;

/// The buffers that wait for the next answer, and the bytes that all of them may hold.
pub struct Buffers {
    waiting: Shelves<Buffer>,
    held: AtomicUsize,
    budget: usize,
}

/// Room for one answer: as it came, and inflated.
#[derive(Default)]
pub(super) struct Buffer {
    /// Head and body as they came from the wire.
    pub(super) raw: Vec<u8>,
    /// The inflated body.
    pub(super) inflated: Vec<u8>,
    pub(super) inflater: Inflater,
}

impl Buffers {
    /// Buffers that hold at most `budget` bytes together.
    pub fn new(budget: usize) -> Arc<Self> {
        Arc::new(Buffers { waiting: Shelves::new(KEEP_COUNT), held: AtomicUsize::new(0), budget })
    }

    /// Bytes that all buffers hold, lent and waiting.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Frees the buffers that wait: they grow again when they are needed.
    #[cold]
    fn drop_waiting(&self) {
        let waiting = self.waiting.take_all();
        let bytes = waiting.iter().map(Buffer::bytes).sum();
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Takes a buffer. Steady: allocates only when all are lent.
    pub(super) fn take(self: &Arc<Self>) -> Lent {
        let buffer = self.waiting.take().unwrap_or_default();
        Lent { accounted: buffer.bytes(), set_aside: 0, buffer, home: self.clone() }
    }
}

impl Buffer {
    fn bytes(&self) -> usize {
        self.raw.capacity() + self.inflated.capacity()
    }
}

/// A buffer on loan; comes back when dropped, also when the scrape that had it is cancelled.
pub(super) struct Lent {
    pub(super) buffer: Buffer,
    accounted: usize,
    /// The capacity of the raw buffer while it is taken out.
    set_aside: usize,
    home: Arc<Buffers>,
}

impl Lent {
    /// Takes the raw buffer out, to be read while the other one is written.
    pub(super) fn take_raw(&mut self) -> Vec<u8> {
        self.set_aside = self.buffer.raw.capacity();
        std::mem::take(&mut self.buffer.raw)
    }

    /// Puts it back.
    pub(super) fn put_raw(&mut self, raw: Vec<u8>) {
        self.buffer.raw = raw;
        self.set_aside = 0;
    }

    /// Makes room for `more` bytes in the raw buffer, doubling it, within the budget.
    pub(super) fn reserve_raw(&mut self, more: usize) -> Result<(), Error> {
        let room = self.buffer.raw.capacity() - self.buffer.raw.len();
        if room >= more {
            return Ok(());
        }
        let grow = more.max(self.buffer.raw.capacity());
        self.account(grow)?;
        self.buffer.raw.reserve_exact(grow.max(more));
        self.settle();
        Ok(())
    }

    /// Makes the buffer for inflated bytes `size` bytes long, within the budget.
    pub(super) fn resize_inflated(&mut self, size: usize) -> Result<(), Error> {
        let missing = size.saturating_sub(self.buffer.inflated.capacity());
        if missing > 0 {
            self.account(missing)?;
        }
        self.buffer.inflated.resize(size, 0);
        self.settle();
        Ok(())
    }

    fn account(&mut self, more: usize) -> Result<(), Error> {
        if !self.try_account(more) {
            self.home.drop_waiting();
            if !self.try_account(more) {
                return Err(Error::budget(self.home.budget));
            }
        }
        self.accounted += more;
        Ok(())
    }

    fn try_account(&self, more: usize) -> bool {
        let budget = self.home.budget;
        let before = self.home.held.fetch_add(more, Ordering::Relaxed);
        let left = budget.saturating_sub(before.saturating_sub(self.accounted));
        let free = FREE_SHARE.min(budget / 16);
        let most = left.min(free + left.saturating_sub(free) / 2);
        let fits = self.accounted.saturating_add(more) <= most;
        if !fits {
            self.home.held.fetch_sub(more, Ordering::Relaxed);
        }
        fits
    }

    /// Corrects the account by what the allocator really gave.
    fn settle(&mut self) {
        let bytes = self.buffer.bytes() + self.set_aside;
        if bytes > self.accounted {
            self.home.held.fetch_add(bytes - self.accounted, Ordering::Relaxed);
        } else {
            self.home.held.fetch_sub(self.accounted - bytes, Ordering::Relaxed);
        }
        self.accounted = bytes;
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.settle();
        let mut buffer = std::mem::take(&mut self.buffer);
        if buffer.raw.capacity() > KEEP_BYTES {
            buffer.raw = Vec::new();
        }
        if buffer.inflated.capacity() > KEEP_BYTES {
            buffer.inflated = Vec::new();
        }
        buffer.raw.clear();
        let kept = buffer.bytes();
        let freed = match self.home.waiting.put(buffer) {
            None => self.accounted - kept,
            Some(_) => self.accounted,
        };
        self.home.held.fetch_sub(freed, Ordering::Relaxed);
    }
}
