//! Numbers of variable length: seven bits a byte, the lowest first.

/// Appends `value`.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes `value` at the start of `room`; answers how many bytes it takes.
#[inline]
pub(crate) fn put_at(room: &mut [u8; 16], mut value: u64) -> usize {
    if value < 1 << 28 {
        // Nothing to predict: lengths of values come in no order.
        let short = value as u32;
        let spread = short & 0x7f
            | (short & 0x3f80) << 1
            | (short & 0x001f_c000) << 2
            | (short & 0x0fe0_0000) << 3;
        let length = (32 - (short | 1).leading_zeros()).div_ceil(7);
        let more = 0x0080_8080 & ((1 << (8 * (length - 1))) - 1);
        room[..4].copy_from_slice(&(spread | more).to_le_bytes());
        return length as usize;
    }
    let mut length = 0;
    while value >= 0x80 {
        room[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    room[length] = value as u8;
    length + 1
}

/// Appends a signed number: small magnitudes are short.
#[inline]
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, zigzag(value));
}

/// Signed as unsigned, small magnitudes first.
#[inline]
pub(crate) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// The inverse of [`zigzag`].
#[inline]
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Bytes being read. Every method answers `None` at a premature end and on an overlong number.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    #[inline]
    pub(crate) fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    #[inline]
    pub(crate) fn signed(&mut self) -> Option<i64> {
        self.unsigned().map(unzigzag)
    }

    pub(crate) fn unsigned32(&mut self) -> Option<u32> {
        self.unsigned()?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let mut bytes = Vec::new();
        let mut numbers = vec![i64::MAX, i64::MIN, 1_700_000_000_000];
        for shift in 0..63 {
            numbers.extend([0, 1, -1].map(|by| (1i64 << shift) + by));
        }
        for &number in &numbers {
            put_signed(&mut bytes, number);
            let mut room = [0xff; 16];
            let length = put_at(&mut room, number as u64);
            bytes.extend_from_slice(&room[..length]);
        }
        let mut reader = Reader::new(&bytes);
        for number in numbers {
            assert_eq!(reader.signed(), Some(number));
            assert_eq!(reader.unsigned(), Some(number as u64));
        }
        assert!(reader.is_empty() && reader.byte().is_none());
        assert_eq!(Reader::new(&[0xff; 11]).unsigned(), None, "overlong");
        assert_eq!(Reader::new(&[0x80]).unsigned(), None, "cut");
    }
}
