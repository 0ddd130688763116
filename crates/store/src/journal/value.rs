//! A value in one to nine bytes, told by its difference from a base value of the same series.
//!
//! 1. The lowest two bits of the first byte choose the form.
//! 2. [`INTEGER`]: both values are whole numbers; their difference.
//! 3. [`HUNDREDTH`]: both have at most two decimals; the difference of their hundredfold.
//! 4. [`BITS`]: the XOR of the bits, without zero bytes at either end.
//! 5. [`SAME`]: the value, and that of some of the following samples, is the base.
//!
//! Without a base, zero stands in for it.

use super::varint::{Reader, put_at, unzigzag, zigzag};

const INTEGER: u8 = 0;
const HUNDREDTH: u8 = 1;
const BITS: u8 = 2;
/// The form of a run of values that equal their base; the six bits above count them, less one.
pub(crate) const SAME: u8 = 3;
/// The longest run in one byte.
pub(crate) const SAME_MAX: u8 = 64;

/// Whole numbers up to here, and their differences, are exact.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The 2^50th part.
const NEAR: f64 = 4.0 * f64::EPSILON;

#[inline]
fn whole(bits: u64) -> Option<i64> {
    let value = f64::from_bits(bits);
    let number = value as i64;
    // Negative zero is a whole number in value but not in bits.
    (value.abs() < EXACT && (number as f64).to_bits() == bits).then_some(number)
}

#[inline]
fn hundredfold(bits: u64) -> Option<i64> {
    let value = f64::from_bits(bits);
    let scaled = value * 100.0;
    // To the nearest by an addition, because rounding is a call; a candidate that misses is told so. Most are
    // told without the division: of a true one, both it and the product are rounded once, by a 2^53rd part.
    let number = (scaled + 0.5f64.copysign(scaled)) as i64;
    let is_near = (number as f64 - scaled).abs() <= scaled.abs() * NEAR;
    (is_near && scaled.abs() < EXACT && (number as f64 / 100.0).to_bits() == bits).then_some(number)
}

/// Writes `bits`, which differ from `base`, at the start of `room`; answers how many bytes that takes.
#[inline]
pub(crate) fn encode(room: &mut [u8; 16], bits: u64, base: u64) -> usize {
    if let (Some(value), Some(base)) = (whole(bits), whole(base)) {
        return put_at(room, zigzag(value - base) << 2 | u64::from(INTEGER));
    }
    if let (Some(value), Some(base)) = (hundredfold(bits), hundredfold(base)) {
        return put_at(room, zigzag(value - base) << 2 | u64::from(HUNDREDTH));
    }
    let xor = bits ^ base;
    let leading = (xor.leading_zeros() / 8).min(7);
    let trailing = (xor.trailing_zeros() / 8).min(7 - leading);
    room[0] = BITS | (leading as u8) << 2 | (trailing as u8) << 5;
    room[1..9].copy_from_slice(&(xor >> (8 * trailing)).to_le_bytes());
    (9 - leading - trailing) as usize
}

/// What [`decode`] found.
pub(crate) enum Token {
    /// One value, by its difference.
    Difference(Difference),
    /// This many values equal their bases.
    Same(u8),
}

/// A difference, to be applied to a base.
#[derive(Clone, Copy)]
pub(crate) enum Difference {
    Integer(i64),
    Hundredth(i64),
    Bits(u64),
}

impl Difference {
    /// The value's bits. A base of another form than was written can't come from a whole journal.
    #[inline]
    pub(crate) fn apply(self, base: u64) -> Option<u64> {
        match self {
            Difference::Integer(by) => Some((whole(base)?.checked_add(by)? as f64).to_bits()),
            Difference::Hundredth(by) => {
                Some((hundredfold(base)?.checked_add(by)? as f64 / 100.0).to_bits())
            }
            Difference::Bits(by) => Some(base ^ by),
        }
    }
}

/// Reads one token; `None` if the bytes end or make no sense.
#[inline]
pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Token> {
    let mut ahead = reader.clone();
    let first = ahead.byte()?;
    match first & 3 {
        SAME => {
            *reader = ahead;
            Some(Token::Same((first >> 2) + 1))
        }
        BITS => {
            *reader = ahead;
            let (leading, trailing) = (u32::from(first >> 2 & 7), u32::from(first >> 5));
            let length = 8u32.checked_sub(leading + trailing)?;
            let mut bytes = [0; 8];
            bytes[..length as usize].copy_from_slice(reader.take(length as usize)?);
            let xor = u64::from_le_bytes(bytes).checked_shl(8 * trailing)?;
            Some(Token::Difference(Difference::Bits(xor)))
        }
        form => {
            let by = unzigzag(reader.unsigned()? >> 2);
            Some(Token::Difference(if form == INTEGER {
                Difference::Integer(by)
            } else {
                Difference::Hundredth(by)
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_values_comes_back() {
        let values = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.01,
            -12_345.67,
            12_345.68,
            0.1 + 0.2,
            EXACT,
            EXACT - 1.0,
            -EXACT,
            1e300,
            f64::MIN_POSITIVE,
            f64::MAX,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            f64::from_bits(0x7ff0_0000_0000_0002),
            f64::from_bits(1),
            f64::from_bits(1 << 56),
            90_071_992_547_409.9,
        ];
        for value in values.map(f64::to_bits) {
            for base in values.map(f64::to_bits) {
                if value == base {
                    continue;
                }
                let mut room = [0xff; 16];
                let length = encode(&mut room, value, base);
                let bytes = &room[..length];
                assert!(length <= 9, "{value:x} after {base:x}: {bytes:x?}");
                let mut reader = Reader::new(bytes);
                let Some(Token::Difference(difference)) = decode(&mut reader) else {
                    panic!("{value:x} after {base:x}: {bytes:x?}")
                };
                assert_eq!(difference.apply(base), Some(value), "{bytes:x?}");
                assert!(reader.is_empty());
            }
        }
    }

    #[test]
    fn what_is_usual_is_short() {
        for (value, base, length) in
            [(1_000_007.0, 1_000_000.0, 1), (500_300.0, 500_000.0, 2), (1234.57, 1233.07, 2)]
        {
            let mut room = [0; 16];
            let taken = encode(&mut room, f64::to_bits(value), f64::to_bits(base));
            assert_eq!(taken, length, "{value} after {base}");
        }
    }
}
