//! What a window uses of the tables while it is written: reused from one writing to the next.

/// A set of small numbers.
#[derive(Default)]
pub(super) struct Marks {
    words: Vec<u64>,
}

impl Marks {
    /// Empties it, with room for numbers below `end`. *Growth* where there were fewer.
    pub(super) fn reset(&mut self, end: usize) {
        self.words.clear();
        self.words.resize(end.div_ceil(64), 0);
    }

    /// Adds a number and says whether it was new. *Steady.*
    #[inline]
    pub(super) fn add(&mut self, number: u32) -> bool {
        let (place, bit) = (number as usize / 64, 1 << (number % 64));
        if place >= self.words.len() {
            // Made by others while the window is written.
            self.words.resize(place + 1, 0);
        }
        let word = &mut self.words[place];
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    #[inline]
    pub(super) fn has(&self, number: u32) -> bool {
        self.words.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// The first number from `from` up.
    #[inline]
    pub(super) fn next(&self, from: u32) -> Option<u32> {
        let first = from as usize / 64;
        let mut word = self.words.get(first)? & (u64::MAX << (from % 64));
        let mut place = first;
        while word == 0 {
            place += 1;
            word = *self.words.get(place)?;
        }
        Some((place * 64) as u32 + word.trailing_zeros())
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.words.capacity() * 8
    }
}

/// Numbers names, or functions, in the order in which they are first used: only these are written, without
/// gaps. A string is known by its place in the table; and Go's tool gives functions that it adds the number
/// behind how many there are.
#[derive(Default)]
pub(super) struct Places {
    /// By id; 0 for one that was not used.
    places: Vec<u32>,
    order: Vec<u32>,
    /// The place of the first.
    begin: u32,
}

impl Places {
    /// Begins anew at that place, with room for ids below `end`. *Growth* where there were fewer.
    pub(super) fn reset(&mut self, begin: u32, end: usize) {
        for id in self.order.drain(..) {
            self.places[id as usize] = 0;
        }
        if self.places.len() < end {
            self.places.resize(end, 0);
        }
        self.begin = begin;
    }

    /// Where what has this id stands. What is empty or none, which has the id 0, stands at 0.
    #[inline]
    pub(super) fn of(&mut self, id: u32) -> u32 {
        if id == 0 {
            return 0;
        }
        let index = id as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, 0);
        }
        let place = &mut self.places[index];
        if *place == 0 {
            *place = self.begin + self.order.len() as u32;
            self.order.push(id);
        }
        *place
    }

    /// The same for what was asked for before. *Steady.*
    #[inline]
    pub(super) fn known(&self, id: u32) -> u32 {
        self.places.get(id as usize).copied().unwrap_or(0)
    }

    /// The used ones in the order of their places.
    pub(super) fn order(&self) -> &[u32] {
        &self.order
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.places.capacity() * 4 + self.order.capacity() * 4
    }
}
