//! The bytes of a target's lines, each told by its difference from the one before.
//!
//! A line is two numbers and some bytes: how many bytes it has in common with the line before it, how many
//! are its own, and those. The series of a family differ in a label's value, so this is a quarter of the
//! text, to hold as well as to read. Every [`SPACING`]th line is whole, so that one can begin to read near
//! any place.

use wire::exposition::Expected;

use super::known::Place;

/// From one line that is whole to the next.
const SPACING: usize = 16;

/// See the module.
#[derive(Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// Where the whole lines begin.
    starts: Vec<u32>,
    length: usize,
}

/// The text of the line that was added last, as long as only one target's lines are added: without it
/// they are told from the last whole one.
#[derive(Default)]
pub(super) struct Tail {
    /// How many lines there are; 0 is not known.
    length: usize,
    text: Vec<u8>,
}

impl Tail {
    /// Lines of another target follow.
    pub(super) fn forget(&mut self) {
        self.length = 0;
    }
}

impl Lines {
    /// Appends a line; `false` when there is no room for more. Growth.
    pub(super) fn push(&mut self, text: &[u8], tail: &mut Tail) -> bool {
        let whole = self.length.is_multiple_of(SPACING);
        // Two numbers of at most five bytes each stand before it.
        let Ok(start) = u32::try_from(self.bytes.len()) else { return false };
        if u32::try_from(text.len() + 10).is_ok_and(|more| start.checked_add(more).is_some()) {
            if whole {
                self.starts.push(start);
            } else if tail.length != self.length {
                self.text((self.length - 1) as Place, &mut tail.text);
            }
        } else {
            return false;
        }
        let shared = if whole { 0 } else { common(&tail.text, text) };
        put(&mut self.bytes, shared);
        put(&mut self.bytes, text.len() - shared);
        self.bytes.extend_from_slice(&text[shared..]);
        self.length += 1;
        tail.length = self.length;
        tail.text.truncate(shared);
        tail.text.extend_from_slice(&text[shared..]);
        true
    }

    /// The line that begins at `at`, told by the one before, and where the next one begins. *Steady.*
    #[inline]
    pub(super) fn read(&self, at: usize) -> Option<(Expected<'_>, usize)> {
        let bytes = self.bytes.get(at..)?;
        let (shared, length, header) = match *bytes {
            [shared, length, ..] if shared < 0x80 && length < 0x80 => {
                (usize::from(shared), usize::from(length), 2)
            }
            _ => long_header(bytes)?,
        };
        let rest = bytes.get(header..header + length)?;
        Some((Expected { shared, rest }, at + header + length))
    }

    /// The text of the line at `place`. It is put together in `scratch`.
    pub(super) fn text<'a>(&self, place: Place, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        self.locate(place, scratch);
        scratch
    }

    /// The same, and where the line behind it begins.
    pub(super) fn locate(&self, place: Place, scratch: &mut Vec<u8>) -> usize {
        scratch.clear();
        let mut at = self.start(place as usize / SPACING);
        for _ in 0..=place as usize % SPACING {
            let Some((Expected { shared, rest }, next)) = self.read(at) else { break };
            scratch.truncate(shared);
            scratch.extend_from_slice(rest);
            at = next;
        }
        at
    }

    fn start(&self, whole: usize) -> usize {
        self.starts.get(whole).map_or(self.bytes.len(), |start| *start as usize)
    }

    /// Removes the lines from `length` on.
    pub(super) fn truncate(&mut self, length: usize) {
        if length >= self.length {
            return;
        }
        let mut at = self.start(length / SPACING);
        for _ in 0..length % SPACING {
            at = self.read(at).map_or(at, |(_, next)| next);
        }
        self.bytes.truncate(at);
        self.starts.truncate(length.div_ceil(SPACING));
        self.length = length;
    }

    /// Gives back what was reserved for more lines than came. Steady where that is little.
    pub(super) fn trim(&mut self) {
        if self.bytes.capacity() - self.bytes.len() > self.bytes.len() / 8 {
            self.bytes.shrink_to_fit();
            self.starts.shrink_to_fit();
        }
    }

    /// Bytes held.
    pub(super) fn memory_usage(&self) -> usize {
        self.bytes.capacity() + size_of::<u32>() * self.starts.capacity()
    }
}

fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Appends a number, seven bits to a byte, the lowest first.
fn put(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The numbers before a line of which one is 128 or more, and how many bytes they take.
#[cold]
fn long_header(bytes: &[u8]) -> Option<(usize, usize, usize)> {
    let mut at = 0;
    let mut number = || {
        let mut number = 0;
        for shift in (0..usize::BITS).step_by(7) {
            let byte = *bytes.get(at)?;
            at += 1;
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    };
    let (shared, length) = (number()?, number()?);
    Some((shared, length, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_one_by_one_and_in_turn() {
        let mut random = testkit::random::Random::new(5);
        let mut texts: Vec<Vec<u8>> = Vec::new();
        for at in 0..200usize {
            let mut text = texts.last().cloned().unwrap_or_default();
            text.truncate(random.below(text.len() as u64 + 1) as usize);
            let more = if at % 50 == 7 { 300 } else { random.below(20) };
            text.extend((0..more).map(|_| random.below(3) as u8 + b'a'));
            texts.push(text);
        }
        let (mut lines, mut tail, mut scratch) = (Lines::default(), Tail::default(), Vec::new());
        for (at, text) in texts.iter().enumerate() {
            if at % 9 == 4 {
                tail.forget();
            }
            assert!(lines.push(text, &mut tail));
        }
        for length in [200, 161, 160, 159, 17, 16, 1, 0] {
            lines.truncate(length);
            assert_eq!(lines.length, length);
            let (mut at, mut text) = (0, Vec::new());
            for (place, expected) in texts[..length].iter().enumerate() {
                let (Expected { shared, rest }, next) = lines.read(at).expect("a line");
                text.truncate(shared);
                text.extend_from_slice(rest);
                assert_eq!(&text, expected, "{place}");
                at = next;
                assert_eq!(lines.locate(place as Place, &mut scratch), at);
                assert_eq!(&scratch, expected, "{place}");
            }
            assert!(lines.read(at).is_none());
            // What was cut off can be added again.
            let mut again = Tail::default();
            assert!(lines.push(b"again", &mut again));
            assert_eq!(lines.text(length as Place, &mut scratch), b"again");
            lines.truncate(length);
        }
    }
}
