//! Integers in base 128, least significant group first, as protobuf and Prometheus' files have them.
//!
//! Refuses what Go's `binary.Uvarint` refuses: an end in the middle and more than 64 bits.

/// The most bytes a 64-bit integer takes.
pub const MAX: usize = 10;

/// Appends `value`. *Growth* of `out`, otherwise steady.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `value` with its sign in the lowest bit.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, (value << 1 ^ value >> 63) as u64);
}

/// Takes an integer off the front of `input`; `None` where there is no whole one of 64 bits.
pub fn take(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (index, &byte) in input.iter().take(MAX).enumerate() {
        // The tenth byte has room for one bit.
        if index == MAX - 1 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *input = &input[index + 1..];
            return Some(value);
        }
    }
    None
}

/// Takes an integer that [`put_signed`] wrote.
pub fn take_signed(input: &mut &[u8]) -> Option<i64> {
    take(input).map(|value| (value >> 1) as i64 ^ -((value & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_refuses_the_unfinished_and_the_too_long() {
        for value in [0, 1, 127, 128, 300, u64::MAX >> 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            assert!(bytes.len() <= MAX);
            assert_eq!(take(&mut bytes.as_slice()), Some(value));
            assert_eq!(take(&mut &bytes[..bytes.len() - 1]), None);
        }
        for value in [0, -1, 1, i64::MIN, i64::MAX] {
            let mut bytes = Vec::new();
            put_signed(&mut bytes, value);
            assert_eq!(take_signed(&mut bytes.as_slice()), Some(value));
        }
        assert_eq!(take(&mut [0x80u8; 12].as_slice()), None);
        assert_eq!(take(&mut [255, 255, 255, 255, 255, 255, 255, 255, 255, 2].as_slice()), None);
    }
}
