//! Short runs of bytes, packed: strings and label sets of the head.
//!
//! A cell has the bytes and nothing else; its owner knows how many they are. What is given back is
//! used again by what has nearly the same length, which is what comes when series replace each other.
//! Long ones have memory of their own.

/// Cells begin and end at a multiple of these bytes.
const UNIT: usize = 4;
const PAGE: usize = 1 << 20;
const UNITS: usize = PAGE / UNIT;
/// The longest cell in a page: less than half a percent of a page is lost at its end.
const SHORT: usize = 4096;
/// No cell.
const NONE: u32 = u32::MAX;

/// A place in the arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell(u32);

/// See the module.
#[derive(Default)]
pub(crate) struct Arena {
    /// Each with room for [`PAGE`] from the start, so that nothing moves when it grows.
    pages: Vec<Vec<u8>>,
    /// The last cell that was given back, by length; it holds the one before.
    free: Vec<u32>,
    long: Vec<Box<[u8]>>,
    free_long: Vec<u32>,
    long_bytes: usize,
}

impl Arena {
    /// Bytes held.
    pub(crate) fn memory(&self) -> usize {
        let last = self.pages.last().map_or(0, Vec::len);
        self.pages.len().saturating_sub(1) * PAGE + last + self.long_bytes
    }

    /// Copies `bytes` in.
    ///
    /// # Panics
    /// 16 GiB of them are in.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Cell {
        if bytes.len() > SHORT {
            return self.put_long(bytes);
        }
        let units = units(bytes.len());
        if let Some(free) = self.free.get_mut(units).filter(|free| **free != NONE) {
            let number = *free;
            let page = &mut self.pages[number as usize / UNITS];
            let at = number as usize % UNITS * UNIT;
            let (link, _) = page[at..].split_first_chunk::<UNIT>().expect("a cell has a unit");
            *free = u32::from_le_bytes(*link);
            page[at..at + bytes.len()].copy_from_slice(bytes);
            return Cell(number);
        }
        if self.pages.last().is_none_or(|page| page.len() + units * UNIT > PAGE) {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        let number = self.pages.len() - 1;
        let page = &mut self.pages[number];
        let at = page.len();
        page.extend_from_slice(bytes);
        page.resize(at + units * UNIT, 0);
        let cell = u32::try_from(number * UNITS + at / UNIT);
        Cell(cell.expect("16 GiB of labels don't fit"))
    }

    #[cold]
    fn put_long(&mut self, bytes: &[u8]) -> Cell {
        self.long_bytes += bytes.len();
        let bytes = Box::from(bytes);
        if let Some(number) = self.free_long.pop() {
            self.long[number as usize] = bytes;
            return Cell(number);
        }
        self.long.push(bytes);
        Cell((self.long.len() - 1) as u32)
    }

    /// The first `length` bytes of a cell; those that were put in are not fewer.
    #[inline]
    pub(crate) fn get(&self, cell: Cell, length: usize) -> &[u8] {
        if length > SHORT {
            return &self.long[cell.0 as usize];
        }
        let at = cell.0 as usize % UNITS * UNIT;
        &self.pages[cell.0 as usize / UNITS][at..at + length]
    }

    /// Takes a cell back into which `length` bytes were put.
    pub(crate) fn release(&mut self, cell: Cell, length: usize) {
        if length > SHORT {
            self.long_bytes -= length;
            self.long[cell.0 as usize] = Box::default();
            self.free_long.push(cell.0);
            return;
        }
        let units = units(length);
        if self.free.len() <= units {
            self.free.resize(units + 1, NONE);
        }
        let before = std::mem::replace(&mut self.free[units], cell.0);
        let at = cell.0 as usize % UNITS * UNIT;
        let page = &mut self.pages[cell.0 as usize / UNITS];
        page[at..at + UNIT].copy_from_slice(&before.to_le_bytes());
    }
}

/// Units of a cell: exact up to 16, then with at most an eighth to spare, so that few lengths differ.
fn units(length: usize) -> usize {
    let units = length.div_ceil(UNIT).max(1);
    if units <= 16 { units } else { units.next_multiple_of(units.next_power_of_two() / 16) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_keep_their_bytes_apart_and_are_used_again() {
        let mut arena = Arena::default();
        let mut random = testkit::random::Random::new(5);
        let mut cells: Vec<(Cell, Vec<u8>)> = Vec::new();
        let mut most = 0;
        for round in 0..30_000 {
            if cells.len() > 500 || round > 29_000 && !cells.is_empty() {
                let (cell, bytes) = cells.swap_remove(random.below(cells.len() as u64) as usize);
                assert_eq!(arena.get(cell, bytes.len()), bytes);
                arena.release(cell, bytes.len());
            } else {
                let longest = if random.below(100) == 0 { 3 * SHORT } else { 40 };
                let length = random.below(longest as u64) as usize;
                let bytes: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
                cells.push((arena.put(&bytes), bytes));
            }
            if round == 15_000 {
                most = arena.memory() - arena.long_bytes;
            }
        }
        assert_eq!(arena.long_bytes, 0, "all was given back");
        assert!(arena.memory() < most / 2 * 3, "{} bytes, then {most}", arena.memory());
    }
}
