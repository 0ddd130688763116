//! One bit for each line of a target.

/// See the module. Reused: clearing and growing back to an earlier length is steady.
#[derive(Default)]
pub(super) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// Makes room for `length` bits; new ones are not set. Growth.
    #[inline]
    pub(super) fn grow(&mut self, length: usize) {
        if length > 64 * self.words.len() {
            self.words.resize(length.div_ceil(64), 0);
        }
    }

    /// No bit is set, and there is room for `length`.
    pub(super) fn reset(&mut self, length: usize) {
        self.words.clear();
        self.words.resize(length.div_ceil(64), 0);
    }

    /// Unsets all bits.
    pub(super) fn clear(&mut self) {
        self.words.clear();
    }

    /// Unsets the bits from `length` on.
    pub(super) fn truncate(&mut self, length: usize) {
        self.words.truncate(length.div_ceil(64));
        if let Some(last) = self.words.get_mut(length / 64) {
            *last &= (1 << (length % 64)) - 1;
        }
    }

    /// Whether a bit is set. Where there is no room, none is.
    pub(super) fn get(&self, at: usize) -> bool {
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 != 0)
    }

    /// Sets a bit for which there is room; says whether it was set.
    #[inline]
    pub(super) fn set(&mut self, at: usize) -> bool {
        let word = &mut self.words[at / 64];
        let before = *word >> (at % 64) & 1 != 0;
        *word |= 1 << (at % 64);
        before
    }

    /// Unsets a bit; says whether it was set.
    pub(super) fn unset(&mut self, at: usize) -> bool {
        let Some(word) = self.words.get_mut(at / 64) else { return false };
        let before = *word >> (at % 64) & 1 != 0;
        *word &= !(1 << (at % 64));
        before
    }

    /// Sets the bits of `other` too.
    pub(super) fn unite(&mut self, other: &Bits) {
        self.grow(64 * other.words.len());
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    /// Sets the bits of `other` and no others.
    pub(super) fn copy(&mut self, other: &Bits) {
        self.words.clone_from(&other.words);
    }

    /// Whether the same bits are set.
    pub(super) fn same(&self, other: &Bits) -> bool {
        let common = self.words.len().min(other.words.len());
        let (here, there) = (&self.words[..], &other.words[..]);
        let unset = |words: &[u64]| words.iter().all(|word| *word == 0);
        here[..common] == there[..common] && unset(&here[common..]) && unset(&there[common..])
    }

    /// Bits that are set.
    pub(super) fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The set bits, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(at, word)| places(at, *word))
    }

    /// The bits that are set here and not in `other`, ascending.
    pub(super) fn without<'a>(&'a self, other: &'a Bits) -> impl Iterator<Item = usize> + 'a {
        self.words
            .iter()
            .enumerate()
            .flat_map(|(at, word)| places(at, word & !other.words.get(at).copied().unwrap_or(0)))
    }

    /// Bytes held.
    pub(super) fn memory_usage(&self) -> usize {
        8 * self.words.capacity()
    }
}

/// The set bits of the word at `at`.
fn places(at: usize, mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros() as usize;
        word &= word.wrapping_sub(1);
        (bit < 64).then_some(64 * at + bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_as_a_set_of_numbers() {
        let mut random = testkit::random::Random::new(3);
        let (mut bits, mut other) = (Bits::default(), Bits::default());
        bits.grow(300);
        other.grow(200);
        let (mut model, mut model_other) = ([false; 300], [false; 300]);
        for _ in 0..150 {
            let at = random.below(300) as usize;
            assert_eq!(bits.set(at), std::mem::replace(&mut model[at], true));
            let at = random.below(300) as usize;
            assert_eq!(bits.unset(at), std::mem::take(&mut model[at]));
            let at = random.below(200) as usize;
            other.set(at);
            model_other[at] = true;
        }
        let places = |which: &dyn Fn(usize) -> bool| (0..300).filter(|at| which(*at)).collect();
        let set: Vec<usize> = places(&|at| model[at]);
        assert_eq!(bits.iter().collect::<Vec<_>>(), set);
        assert_eq!(bits.count(), set.len());
        assert!(set.iter().all(|at| bits.get(*at)) && !bits.get(1000));
        let rest: Vec<usize> = places(&|at| model[at] && !model_other[at]);
        assert_eq!(bits.without(&other).collect::<Vec<_>>(), rest);
        assert!(!bits.same(&other));
        other.copy(&bits);
        other.grow(1000);
        assert!(bits.same(&other) && other.same(&bits));
        bits.truncate(70);
        assert_eq!(bits.count(), set.iter().filter(|at| **at < 70).count());
        other.unite(&bits);
        assert_eq!(other.count(), set.len());
        other.reset(300);
        assert_eq!(other.count(), 0);
    }
}
