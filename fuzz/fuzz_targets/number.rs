//! Numbers: reading any text ends; what is read and written in any notation reads back as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::number::{Buffer, parse, parse_literal};

fn round_trip(value: f64) {
    let mut buffer = Buffer::new();
    let bits = |text: &str| parse(text.as_bytes()).expect(text).to_bits();
    assert_eq!(bits(buffer.json(value)), value.to_bits());
    assert_eq!(bits(buffer.exponent(value)), value.to_bits());
    assert_eq!(bits(buffer.plain(value)), value.to_bits());
    // An exposition has no negative zero.
    let expected = if value == 0.0 { 0 } else { value.to_bits() };
    assert_eq!(bits(buffer.exposition(value)), expected);
    assert_eq!(bits(buffer.openmetrics(value)), expected);
}

fuzz_target!(|input: &[u8]| {
    if let Some(bits) = input.first_chunk() {
        let value = f64::from_bits(u64::from_le_bytes(*bits));
        if !value.is_nan() {
            round_trip(value);
        }
    }
    let read = parse(input);
    if let Ok(value) = read {
        round_trip(value);
        assert_eq!(parse_literal(input).map(f64::to_bits), Ok(value.to_bits()));
        // Rust's own parser takes all that Go's takes here.
        let text = std::str::from_utf8(input).expect("digits are ASCII");
        let std: f64 = text.parse().expect("the standard library reads it too");
        assert!(value.to_bits() == std.to_bits() || (value.is_nan() && std.is_nan()));
    }
    if let Ok(value) = parse_literal(input) {
        round_trip(value);
    }
});
