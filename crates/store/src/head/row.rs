//! The rows: what an append touches of a series, in the order in which series came.
//!
//! Rows are in pages and never move, so that a million of them grow without being copied. A row of a
//! removed series is used again, lowest first, with another generation: an id names a row and a
//! generation, so that it never names another series.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::slab::{Chain, Slab};
use crate::chunk::xor::{Encoder, HEADER, SAMPLE_BYTES_MAX};
use crate::db::SeriesId;

/// Bits of a slot that number the row.
const ROW_BITS: u32 = 26;
/// Rows of a shard at most.
pub(crate) const ROWS_MAX: u32 = 1 << ROW_BITS;
/// Shards at most.
pub(crate) const SHARDS_MAX: usize = 1 << (32 - ROW_BITS);
const PAGE: usize = 256;

/// Where a series lives: its shard and row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot(u32);

impl Slot {
    pub(crate) fn new(shard: usize, row: u32) -> Self {
        Slot((shard as u32) << ROW_BITS | row)
    }

    #[inline]
    pub(crate) fn shard(self) -> usize {
        (self.0 >> ROW_BITS) as usize
    }

    #[inline]
    pub(crate) fn row(self) -> u32 {
        self.0 & (ROWS_MAX - 1)
    }
}

impl SeriesId {
    pub(crate) fn new(slot: Slot, generation: u32) -> Self {
        SeriesId(u64::from(generation) << 32 | u64::from(slot.0))
    }

    #[inline]
    pub(crate) fn slot(self) -> Slot {
        Slot(self.0 as u32)
    }

    #[inline]
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Where a closed chunk stands: the number of its file and the offset there; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ChunkRef(u64);

impl ChunkRef {
    pub(crate) const NONE: ChunkRef = ChunkRef(0);

    pub(crate) fn new(file: u32, offset: u32) -> Self {
        ChunkRef(u64::from(file) << 32 | u64::from(offset))
    }

    pub(crate) fn file(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(crate) fn offset(self) -> u32 {
        self.0 as u32
    }
}

/// A series.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// State of the open chunk; without one, its time and value are those of the last sample.
    pub(crate) encoder: Encoder,
    /// First value in the journal's segment `base_segment`.
    pub(crate) base: u64,
    /// The last closed chunk, from which one gets to those before.
    pub(crate) closed: ChunkRef,
    /// First timestamp of the open chunk.
    pub(crate) min_time: i64,
    /// Complete bytes of the open chunk, in the slab.
    pub(crate) chain: Chain,
    pub(crate) base_segment: u32,
    /// The journal's segment that holds the open chunk's first sample; without an open chunk, the
    /// round of maintenance in which the series was created.
    pub(crate) since: u32,
    pub(crate) generation: u32,
    /// The last batch part that had a sample of the series.
    pub(crate) mark: u32,
    /// Number of complete bytes.
    pub(crate) complete: u16,
    /// The incomplete byte behind them.
    pub(crate) partial: u8,
    /// Whether the row is a series'.
    pub(crate) alive: bool,
    /// Whether there is an open chunk.
    pub(crate) open: bool,
}

const _: () = assert!(size_of::<Row>() == 88, "rows are most of what an append reads");

impl Row {
    const VACANT: Row = Row {
        encoder: Encoder::new(),
        base: 0,
        closed: ChunkRef::NONE,
        min_time: 0,
        chain: Chain::EMPTY,
        base_segment: 0,
        since: 0,
        generation: 0,
        mark: 0,
        complete: 0,
        partial: 0,
        alive: false,
        open: false,
    };

    /// The last sample, if there was one.
    #[inline]
    pub(crate) fn last(&self) -> Option<(i64, u64)> {
        (!self.encoder.is_empty())
            .then(|| (self.encoder.timestamp(), self.encoder.value().to_bits()))
    }

    /// Bytes of the open chunk.
    pub(crate) fn chunk_bytes(&self) -> usize {
        HEADER + usize::from(self.complete) + usize::from(self.encoder.len() > HEADER)
    }

    /// Appends a sample, which is later than the last one; opens a chunk if there is none.
    #[inline]
    pub(crate) fn append(&mut self, slab: &mut Slab, segment: u32, timestamp: i64, value: u64) {
        if !self.open {
            self.encoder = Encoder::new();
            self.open = true;
            self.complete = 0;
            self.min_time = timestamp;
            self.since = segment;
        }
        // The encoder moves 16 bytes at once where they fit.
        let mut window = [0; HEADER + SAMPLE_BYTES_MAX + 26];
        window[HEADER] = self.partial;
        self.encoder
            .append(&mut window, timestamp, f64::from_bits(value))
            .expect("the window holds any sample, and chunks are closed long before they are full");
        let complete = self.encoder.detach();
        slab.extend(
            &mut self.chain,
            usize::from(self.complete),
            &window[HEADER..HEADER + complete],
        );
        self.complete += complete as u16;
        self.partial = window[HEADER + complete];
    }

    /// Appends the bytes of the open chunk to `out`.
    pub(crate) fn copy_chunk(&self, slab: &Slab, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.encoder.count().to_be_bytes());
        slab.copy(self.chain, usize::from(self.complete), out);
        if self.encoder.len() > HEADER {
            out.push(self.partial);
        }
    }

    /// Ends the open chunk, which was written to `closed`.
    pub(crate) fn close_chunk(&mut self, slab: &mut Slab, closed: ChunkRef) {
        slab.release(&mut self.chain);
        self.open = false;
        self.complete = 0;
        self.partial = 0;
        self.closed = closed;
    }
}

/// The rows of a shard.
#[derive(Default)]
pub(crate) struct Rows {
    pages: Vec<Box<[Row]>>,
    length: u32,
    alive: u32,
    free: BinaryHeap<Reverse<u32>>,
}

impl Rows {
    /// Rows in use and vacant.
    pub(crate) fn len(&self) -> u32 {
        self.length
    }

    /// Rows in use.
    pub(crate) fn alive(&self) -> u32 {
        self.alive
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> usize {
        self.pages.len() * PAGE * size_of::<Row>() + self.free.capacity() * 4
    }

    /// A row by its number.
    #[inline]
    pub(crate) fn get(&self, row: u32) -> Option<&Row> {
        self.pages.get(row as usize / PAGE).map(|page| &page[row as usize % PAGE])
    }

    /// A row by its number.
    #[inline]
    pub(crate) fn get_mut(&mut self, row: u32) -> Option<&mut Row> {
        self.pages.get_mut(row as usize / PAGE).map(|page| &mut page[row as usize % PAGE])
    }

    /// The row of a series, if it is still there.
    #[inline]
    pub(crate) fn series(&self, id: SeriesId) -> Option<&Row> {
        self.get(id.slot().row()).filter(|row| row.alive && row.generation == id.generation())
    }

    /// Takes the lowest vacant row; `None` when the shard is full.
    pub(crate) fn insert(&mut self, generation: u32, round: u32) -> Option<(u32, u32)> {
        let number = match self.free.pop() {
            Some(Reverse(number)) => number,
            None if self.length < ROWS_MAX => {
                self.reach(self.length);
                self.length - 1
            }
            None => return None,
        };
        let row = self.get_mut(number).expect("free rows and the next one have pages");
        let generation = generation.max(row.generation + 1);
        *row = Row { generation, since: round, alive: true, ..Row::VACANT };
        self.alive += 1;
        Some((number, generation))
    }

    /// Puts a series at a row, as the journal says. An older one there gives way; `false` if the one
    /// there is younger.
    pub(crate) fn restore(&mut self, number: u32, generation: u32) -> bool {
        if number >= ROWS_MAX {
            return false;
        }
        self.reach(number);
        let row = self.get_mut(number).expect("the page was made");
        if row.alive && row.generation >= generation {
            return false;
        }
        let before = row.alive;
        *row = Row { generation, alive: true, ..Row::VACANT };
        self.alive += u32::from(!before);
        true
    }

    fn reach(&mut self, number: u32) {
        while self.pages.len() * PAGE <= number as usize {
            self.pages.push(vec![Row::VACANT; PAGE].into_boxed_slice());
        }
        self.length = self.length.max(number + 1);
    }

    /// Finds the vacant rows, once all that the journal holds was restored.
    pub(crate) fn find_free(&mut self) {
        let vacant = (0..self.length).filter(|&row| !self.get(row).is_some_and(|row| row.alive));
        self.free = vacant.map(Reverse).collect();
    }

    /// Makes the row of a removed series vacant.
    pub(crate) fn remove(&mut self, number: u32, slab: &mut Slab) {
        let row = self.get_mut(number).expect("a series has a row");
        slab.release(&mut row.chain);
        *row = Row { generation: row.generation, ..Row::VACANT };
        self.alive -= 1;
        self.free.push(Reverse(number));
    }
}
