//! The rows: what an append touches of a series, in the order in which series came.
//!
//! A row is two neighbouring cache lines: what the next sample is told by, and the end of the open chunk
//! to which it goes. What would take more is told by its distance from something that the row or its shard
//! has anyway; the bounds that this rests on stand beside each field. The base of the journal's values
//! stays whole: told by the last value instead, the loss of one record would cost all that come behind it
//! in its segment.
//!
//! Rows are in pages and never move, so that a million of them grow without being copied. A row of a
//! removed series is used again, lowest first, with another generation: an id names a row and a
//! generation, so that it never names another series.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;
use std::ops::Range;

use super::page::{self, Page};
use super::prefetch::prefetch;
use super::slab::{BLOCK, Chain, Slab};
use crate::chunk::xor::{Encoder, HEADER, NO_WINDOW, SAMPLE_BYTES_MAX, STEP_BITS_MAX, step};
use crate::db::SeriesId;

/// Bits of a slot that number the row.
const ROW_BITS: u32 = 26;
/// Rows of a shard at most.
pub(crate) const ROWS_MAX: u32 = 1 << ROW_BITS;
/// Shards at most.
pub(crate) const SHARDS_MAX: usize = 1 << (32 - ROW_BITS);
/// Rows in a page.
const PAGE: usize = page::BYTES / size_of::<Row>();

/// A chunk is closed with so many samples, as Prometheus does.
pub(crate) const CHUNK_SAMPLES: u8 = 120;
/// But one that doesn't follow a full one is closed with up to so many fewer, depending on its row: the
/// chunks of a target, and of all targets after a start or a block's boundary, then don't fill in step.
/// Memory holds them three fifths full when it holds the most, and each scrape writes a few.
const SPREAD: u32 = 97;
/// And one whose samples take much room is closed with so many bytes, or a sample more: of an open chunk,
/// memory holds five blocks and the row's own end at most, whatever the values are. Chunks of less than 2.4
/// bytes a sample don't get there, and most are.
pub(crate) const CHUNK_BYTES: usize = 4 * BLOCK + 48;

/// How much a chunk holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) samples: u16,
    /// With the number of samples in front.
    pub(crate) bytes: usize,
}

/// Rows that a pass over all of them asks for ahead of the one it looks at: it does so little with each that
/// it would do nothing but wait for memory.
const AHEAD: u32 = 32;

/// Bytes for the end of an open chunk: a whole block, and room for what is written too much.
const TAIL: usize = 64;

const _: () = assert!(TAIL >= BLOCK);

/// Where a series lives: its shard and row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u32);

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
        let id = u64::from(generation) << 32 | u64::from(slot.0);
        SeriesId(NonZeroU64::new(id).expect("generations begin at 1"))
    }

    #[inline]
    pub(crate) fn slot(self) -> Slot {
        Slot(self.0.get() as u32)
    }

    #[inline]
    pub(crate) fn generation(self) -> u32 {
        (self.0.get() >> 32) as u32
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

/// A series. The open chunk's whole blocks are in the slab, what comes behind them is here.
#[repr(C, align(128))]
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// Time and value of the last sample, if [`Row::SAMPLED`].
    time: i64,
    value: u64,
    /// First value in the journal's segment `base_segment`.
    pub(crate) base: u64,
    /// The last closed chunk, from which one gets to those before.
    pub(crate) closed: ChunkRef,
    pub(crate) generation: u32,
    pub(crate) base_segment: u32,
    chain: Chain,
    /// Of the last two samples of the open chunk. A chunk is of one block, and that of 31 days.
    delta: u32,
    /// From the first sample of the open chunk to the last one.
    span: u32,
    /// The journal's segment that holds the open chunk's first sample; without an open chunk, the
    /// round of maintenance in which the series was created. The lower half of either: a chunk is closed
    /// before it is half of that many segments old, and empty rows every few rounds.
    since: u16,
    /// The last batch part that had a sample of the series.
    pub(crate) mark: u16,
    /// Number of complete bytes of the open chunk, without its header.
    complete: u16,
    /// Samples of the open chunk, at most [`CHUNK_SAMPLES`].
    count: u8,
    /// The window of the last value that set one: see [`Encoder`].
    leading: u8,
    trailing: u8,
    /// The incomplete byte, and how many bits of it there are.
    partial: u8,
    bits: u8,
    flags: u8,
    /// What is complete and makes no whole block yet: the last `complete % BLOCK` bytes.
    tail: [u8; TAIL],
}

const _: () = assert!(size_of::<Row>() == 128, "a row is two cache lines, the tail is the second");

impl Row {
    /// The row is a series'.
    const ALIVE: u8 = 1;
    /// There is an open chunk.
    const OPEN: u8 = 2;
    /// There was a sample.
    const SAMPLED: u8 = 4;
    /// The last chunk was closed because it was full.
    const FOLLOWS: u8 = 8;

    const VACANT: Row = Row {
        time: 0,
        value: 0,
        base: 0,
        closed: ChunkRef::NONE,
        generation: 0,
        base_segment: 0,
        chain: Chain::EMPTY,
        delta: 0,
        span: 0,
        since: 0,
        mark: 0,
        complete: 0,
        count: 0,
        leading: NO_WINDOW,
        trailing: 0,
        partial: 0,
        bits: 0,
        flags: 0,
        tail: [0; TAIL],
    };

    /// Whether the row is a series'.
    #[inline]
    pub(crate) fn is_alive(&self) -> bool {
        self.flags & Row::ALIVE != 0
    }

    /// Whether there is an open chunk.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.flags & Row::OPEN != 0
    }

    /// The last sample, if there was one.
    #[inline]
    pub(crate) fn last(&self) -> Option<(i64, u64)> {
        (self.flags & Row::SAMPLED != 0).then_some((self.time, self.value))
    }

    /// Whether it is the row of a series of this generation, which had a sample before this time.
    #[inline]
    pub(crate) fn precedes(&self, generation: u32, time: i64) -> bool {
        let both = Row::ALIVE | Row::SAMPLED;
        self.flags & both == both && self.generation == generation && self.time < time
    }

    /// Has both cache lines brought to the cache, in the background.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(self);
        prefetch(&self.tail);
    }

    /// What the last sample of the last closed chunk is, for a row that doesn't know it.
    pub(crate) fn set_last(&mut self, time: i64, value: u64) {
        (self.time, self.value) = (time, value);
        self.flags |= Row::SAMPLED;
    }

    /// First timestamp of the open chunk.
    #[inline]
    pub(crate) fn min_time(&self) -> i64 {
        self.time - i64::from(self.span)
    }

    /// Whether the open chunk has all the samples that it gets; the row has this number.
    #[inline]
    pub(crate) fn is_full(&self, number: u32) -> bool {
        let size = Size { samples: u16::from(self.count), bytes: self.chunk_bytes() };
        self.is_full_at(number, size)
    }

    /// Whether a chunk of this size gets no more.
    #[inline]
    fn is_full_at(&self, number: u32, size: Size) -> bool {
        let fewer = if self.flags & Row::FOLLOWS == 0 { (number % SPREAD) as u16 } else { 0 };
        size.samples >= u16::from(CHUNK_SAMPLES) - fewer
            || size.bytes >= CHUNK_BYTES - 2 * usize::from(fewer)
    }

    /// The journal's segment that holds the open chunk's first sample; `newest` is the number of the
    /// shard's newest one.
    pub(crate) fn since(&self, newest: u32) -> u32 {
        newest.wrapping_sub(u32::from((newest as u16).wrapping_sub(self.since)))
    }

    /// Rounds of maintenance since a series that never had a sample was created.
    pub(crate) fn rounds(&self, round: u32) -> u16 {
        (round as u16).wrapping_sub(self.since)
    }

    /// Bytes of the open chunk.
    pub(crate) fn chunk_bytes(&self) -> usize {
        HEADER + usize::from(self.complete) + usize::from(self.bits > 0)
    }

    /// Appends a sample, which is later than the last one; opens a chunk if there is none.
    #[inline]
    pub(crate) fn append(&mut self, slab: &mut Slab, segment: u32, timestamp: i64, value: u64) {
        let mut window = (self.leading, self.trailing);
        let delta = timestamp.wrapping_sub(self.time);
        let dod = delta.wrapping_sub(i64::from(self.delta));
        if self.is_open()
            && self.count >= 2
            && let Some((bits, length)) = step(dod, value ^ self.value, &mut window)
        {
            const { assert!(STEP_BITS_MAX + 7 <= 120, "a byte more than the complete ones") };
            let end = u32::from(self.bits) + length;
            let word = u128::from(self.partial) << 120 | bits << (128 - end);
            let complete = end / 8;
            if complete > 0 {
                self.push_few(slab, [(word >> 64) as u64, word as u64], complete as usize);
            }
            self.partial = (word >> (120 - 8 * complete)) as u8;
            self.bits = (end % 8) as u8;
            (self.leading, self.trailing) = window;
            self.delta = delta as u32;
            self.span += delta as u32;
            self.count += 1;
            (self.time, self.value) = (timestamp, value);
        } else {
            self.append_slowly(slab, segment, timestamp, value);
        }
    }

    /// The first two samples of a chunk, and those that come unusually early or late.
    #[inline(never)]
    fn append_slowly(&mut self, slab: &mut Slab, segment: u32, timestamp: i64, value: u64) {
        if !self.is_open() {
            self.open_chunk(segment, timestamp);
        }
        let mut encoder = Encoder {
            timestamp: self.time,
            value: self.value,
            delta: u64::from(self.delta),
            bit: (8 * HEADER) as u32 + u32::from(self.bits),
            count: u16::from(self.count),
            leading: self.leading,
            trailing: self.trailing,
        };
        // The encoder moves 16 bytes at once where they fit.
        let mut window = [0; HEADER + SAMPLE_BYTES_MAX + 26];
        window[HEADER] = self.partial;
        encoder
            .append(&mut window, timestamp, f64::from_bits(value))
            .expect("the window holds any sample, and chunks are closed long before they are full");
        let complete = encoder.detach();
        self.push(slab, &window[HEADER..HEADER + complete]);
        self.span += (timestamp - self.time) as u32;
        self.partial = window[HEADER + complete];
        self.bits = (encoder.bit % 8) as u8;
        self.delta = encoder.delta as u32;
        self.count = encoder.count as u8;
        (self.leading, self.trailing) = (encoder.leading, encoder.trailing);
        (self.time, self.value) = (timestamp, value);
    }

    /// The whole blocks of the open chunk.
    pub(crate) fn chain(&self) -> Chain {
        self.chain
    }

    /// Has the last whole block brought to the cache, in the background, if the next samples will make
    /// another one.
    #[inline]
    pub(crate) fn prefetch_chain(&self, slab: &Slab) {
        const SOON: usize = BLOCK - 12;
        if self.tail_length() >= SOON {
            slab.prefetch_end(self.chain);
        }
    }

    /// Where the tail ends.
    #[inline]
    fn tail_length(&self) -> usize {
        usize::from(self.complete) % BLOCK
    }

    /// Appends complete bytes: the first `count` ones of `words`, whose highest comes first.
    #[inline]
    fn push_few(&mut self, slab: &mut Slab, words: [u64; 2], count: usize) {
        let at = self.tail_length();
        let [first, second] = words.map(u64::to_be_bytes);
        // A copy of fixed size is a move; what is written too much is written again. Two moves, because one
        // of 16 bytes would have to wait until both words are where it can read them.
        if at + count < BLOCK && at + 16 <= TAIL {
            self.tail[at..at + 8].copy_from_slice(&first);
            self.tail[at + 8..at + 16].copy_from_slice(&second);
            self.complete += count as u16;
        } else {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&first);
            bytes[8..].copy_from_slice(&second);
            self.push(slab, &bytes[..count]);
        }
    }

    /// Appends complete bytes. A tail that is a whole block goes to the slab.
    fn push(&mut self, slab: &mut Slab, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let at = self.tail_length();
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - at));
            self.tail[at..at + now.len()].copy_from_slice(now);
            self.complete += now.len() as u16;
            bytes = later;
            if let (0, Some(block)) = (self.tail_length(), self.tail.first_chunk()) {
                slab.push(&mut self.chain, block);
            }
        }
    }

    fn open_chunk(&mut self, segment: u32, timestamp: i64) {
        *self = Row {
            time: timestamp,
            since: segment as u16,
            delta: 0,
            span: 0,
            complete: 0,
            count: 0,
            leading: NO_WINDOW,
            trailing: 0,
            partial: 0,
            bits: 0,
            flags: self.flags | Row::OPEN | Row::SAMPLED,
            ..*self
        };
    }

    /// Appends the bytes of the open chunk to `out`.
    pub(crate) fn copy_chunk(&self, slab: &Slab, out: &mut Vec<u8>) {
        out.extend_from_slice(&u16::from(self.count).to_be_bytes());
        slab.copy(self.chain, out);
        out.extend_from_slice(&self.tail[..self.tail_length()]);
        if self.bits > 0 {
            out.push(self.partial);
        }
    }

    /// Ends the open chunk, which was written to `closed`; the row has this number.
    pub(crate) fn close_chunk(&mut self, number: u32, slab: &mut Slab, closed: ChunkRef) {
        slab.release(&mut self.chain);
        self.link(closed, self.is_full(number));
        self.flags &= !Row::OPEN;
    }

    /// The next closed chunk of the row of this number, without an open one, as a file has it. A start that
    /// took every chunk for a full or for none would close others than before it, and write them, at each
    /// start.
    pub(crate) fn restore_closed(&mut self, number: u32, closed: ChunkRef, size: Size) {
        self.link(closed, self.is_full_at(number, size));
    }

    fn link(&mut self, closed: ChunkRef, was_full: bool) {
        self.closed = closed;
        self.flags = self.flags & !Row::FOLLOWS | if was_full { Row::FOLLOWS } else { 0 };
    }
}

/// The rows of a shard.
#[derive(Default)]
pub(crate) struct Rows {
    pages: Vec<Page<Row>>,
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

    /// Bytes held: see [`page::memory`].
    pub(crate) fn memory(&self) -> usize {
        page::memory(&self.pages) + self.free.capacity() * size_of::<u32>()
    }

    /// A row by its number.
    #[inline]
    pub(crate) fn get(&self, row: u32) -> Option<&Row> {
        self.pages.get(row as usize / PAGE)?.get(row as usize % PAGE)
    }

    /// A row by its number.
    #[inline]
    pub(crate) fn get_mut(&mut self, row: u32) -> Option<&mut Row> {
        self.pages.get_mut(row as usize / PAGE)?.get_mut(row as usize % PAGE)
    }

    /// These rows, of which the first cache line is asked for ahead.
    #[inline]
    pub(crate) fn each(&self, rows: Range<u32>) -> impl Iterator<Item = (u32, &Row)> {
        rows.filter_map(|number| {
            if let Some(ahead) = self.get(number + AHEAD) {
                prefetch(ahead);
            }
            self.get(number).map(|row| (number, row))
        })
    }

    /// Consecutive rows from `first` on: `length` of them, or those of them that lie together.
    #[inline]
    pub(crate) fn run_mut(&mut self, first: u32, length: usize) -> &mut [Row] {
        let at = first as usize % PAGE;
        let page =
            self.pages.get_mut(first as usize / PAGE).map_or(&mut [][..], Page::as_mut_slice);
        let end = page.len().min(at + length);
        page.get_mut(at..end).unwrap_or_default()
    }

    /// The row of a series, if it is still there.
    #[inline]
    pub(crate) fn series(&self, id: SeriesId) -> Option<&Row> {
        self.get(id.slot().row()).filter(|row| row.is_alive() && row.generation == id.generation())
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
        *row = Row { generation, since: round as u16, flags: Row::ALIVE, ..Row::VACANT };
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
        let before = row.is_alive();
        if before && row.generation >= generation {
            return false;
        }
        *row = Row { generation, flags: Row::ALIVE, ..Row::VACANT };
        self.alive += u32::from(!before);
        true
    }

    fn reach(&mut self, number: u32) {
        while self.length <= number {
            let page = self.length as usize / PAGE;
            if page == self.pages.len() {
                self.pages.push(page::page(self.pages.len()));
            }
            let more = (number - self.length) as usize + 1;
            let page = &mut self.pages[page];
            let length = PAGE.min(page.len() + more);
            self.length += (length - page.len()) as u32;
            page.resize(length, Row::VACANT);
        }
    }

    /// Finds the vacant rows, once all that the journal holds was restored.
    pub(crate) fn find_free(&mut self) {
        let vacant = (0..self.length).filter(|&row| !self.get(row).is_some_and(Row::is_alive));
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
