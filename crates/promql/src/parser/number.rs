//! Numbers and durations out of their tokens, as Go reads them.

use std::fmt;

use crate::quote::quoted;

/// Nanoseconds of a unit, in the order in which units must follow each other.
const UNITS: [(&str, u64); 7] = [
    ("y", 365 * 24 * 3600 * NANOSECONDS),
    ("w", 7 * 24 * 3600 * NANOSECONDS),
    ("d", 24 * 3600 * NANOSECONDS),
    ("h", 3600 * NANOSECONDS),
    ("m", 60 * NANOSECONDS),
    ("s", NANOSECONDS),
    ("ms", NANOSECONDS / 1000),
];

const NANOSECONDS: u64 = 1_000_000_000;

/// Why a text is no duration, in the words of Prometheus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationError(String);

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DurationError {}

/// Milliseconds of `1h30m`, `15s`, `500ms`, or the bare `0`: the durations of queries,
/// configuration and command line.
///
/// # Errors
/// In the words of Prometheus.
pub fn parse_duration(text: &str) -> Result<i64, DurationError> {
    duration_nanoseconds(text).map(|nanoseconds| (nanoseconds / 1_000_000) as i64)
}

/// Nanoseconds of `1h30m`, `15s`, `500ms`, or the bare `0`.
pub(crate) fn duration_nanoseconds(text: &str) -> Result<u64, DurationError> {
    if text == "0" {
        return Ok(0);
    }
    if text.is_empty() {
        return Err(DurationError("empty duration string".to_owned()));
    }
    let invalid = || DurationError(format!("not a valid duration string: {}", quoted(text)));
    let out_of_range = || DurationError("duration out of range".to_owned());
    let (mut rest, mut total, mut next_unit) = (text, 0u64, 0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let count: u64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let length = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        if length == 0 {
            return Err(invalid());
        }
        let name = &rest[..length];
        rest = &rest[length..];
        let unit = UNITS.iter().position(|(unit, _)| *unit == name).ok_or_else(|| {
            DurationError(format!("unknown unit {} in duration {}", quoted(name), quoted(text)))
        })?;
        if unit < next_unit {
            return Err(invalid());
        }
        next_unit = unit + 1;
        total = count
            .checked_mul(UNITS[unit].1)
            .and_then(|part| total.checked_add(part))
            .filter(|&total| i64::try_from(total).is_ok())
            .ok_or_else(out_of_range)?;
    }
    Ok(total)
}

/// Seconds, as near as Go comes.
pub(crate) fn seconds(nanoseconds: u64) -> f64 {
    (nanoseconds / NANOSECONDS) as f64 + (nanoseconds % NANOSECONDS) as f64 / 1e9
}

/// A number in any of Go's notations: `0x1f`, `0b1`, `017`, `1_000`, `1.5e3`, `Inf`, `NaN`.
pub(crate) fn parse_number(text: &str) -> Result<f64, String> {
    if let Some(integer) = parse_integer(text) {
        return Ok(integer as f64);
    }
    parse_float(text).map_err(|reason| {
        format!("error parsing number: strconv.ParseFloat: parsing {}: {reason}", quoted(text))
    })
}

/// A whole number that fits into 64 bits with sign; the prefix tells the base, and a leading zero
/// means octal.
fn parse_integer(text: &str) -> Option<i64> {
    if text.contains('_') && !underscores_separate_digits(text) {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match lower.as_bytes() {
        [b'0', b'x', ..] => (&lower[2..], 16),
        [b'0', b'o', ..] => (&lower[2..], 8),
        [b'0', b'b', ..] => (&lower[2..], 2),
        [b'0', _, ..] => (&lower[1..], 8),
        _ => (lower.as_str(), 10),
    };
    if !digits.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()) {
        return None;
    }
    i64::from_str_radix(&digits.replace('_', ""), radix).ok()
}

fn parse_float(text: &str) -> Result<f64, &'static str> {
    const SYNTAX: &str = "invalid syntax";
    match text.to_ascii_lowercase().as_str() {
        "inf" => return Ok(f64::INFINITY),
        "nan" => return Ok(f64::NAN),
        _ => {}
    }
    if text.contains('_') && !underscores_separate_digits(text) {
        return Err(SYNTAX);
    }
    let plain = text.replace('_', "");
    // Rust reads words that Go doesn't, and no hexadecimal floats, which need an exponent `p` that
    // the lexer never takes.
    if !plain.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')) {
        return Err(SYNTAX);
    }
    let value: f64 = plain.parse().map_err(|_| SYNTAX)?;
    if value.is_infinite() { Err("value out of range") } else { Ok(value) }
}

fn underscores_separate_digits(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let bytes = lower.as_bytes();
    let prefixed = matches!(bytes, [b'0', b'b' | b'o' | b'x', ..]);
    let hex = matches!(bytes, [b'0', b'x', ..]);
    let mut last = if prefixed { b'0' } else { b'^' };
    for &byte in &bytes[if prefixed { 2 } else { 0 }..] {
        last = match byte {
            b'0'..=b'9' => b'0',
            b'a'..=b'f' if hex => b'0',
            b'_' if last == b'0' => b'_',
            _ if byte == b'_' || last == b'_' => return false,
            _ => b'!',
        };
    }
    last != b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_go_s() {
        for (text, expected) in [
            ("1", Some(1.0)),
            ("017", Some(15.0)),
            ("08", Some(8.0)),
            ("0x1F", Some(31.0)),
            ("0X_1f", Some(31.0)),
            ("1_000.5_0", Some(1000.5)),
            ("1e3_0", Some(1e30)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("9223372036854775808", Some(9_223_372_036_854_775_808.0)),
            ("iNf", Some(f64::INFINITY)),
            ("1__0", None),
            ("1e400", None),
            ("0x", None),
            ("0xffffffffffffffff", None),
            (".5.5", None),
        ] {
            assert_eq!(parse_number(text).ok(), expected, "{text}");
        }
        assert!(parse_number("NaN").is_ok_and(f64::is_nan));
    }

    #[test]
    fn durations_want_their_units_in_order() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("1y2w3d4h5m6s7ms", Ok(33_019_506_007)),
            ("90m", Ok(5_400_000)),
            ("1s1m", Err("not a valid duration string: \"1s1m\"")),
            ("1hs", Err("unknown unit \"hs\" in duration \"1hs\"")),
            ("300y", Err("duration out of range")),
            ("5", Err("not a valid duration string: \"5\"")),
            ("", Err("empty duration string")),
        ] {
            let found = duration_nanoseconds(text);
            let found = found.map(|n| n / 1_000_000).map_err(|error| error.0);
            assert_eq!(found, expected.map_err(str::to_owned), "{text}");
        }
    }
}
