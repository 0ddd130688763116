//! Text to f64, by the rules of Go's `strconv.ParseFloat(text, 64)`.
//!
//! 1. Up to 15 digits, with at most one point and a small exponent, are exact by one multiplication or
//!    division (Clinger 1990).
//! 2. `Inf`, `Infinity` and `NaN` in any case; only the first two may carry a sign.
//! 3. Everything else goes to fast-float2; a finite text that becomes infinite is out of range.

use std::fmt;

/// Why a text is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// It is not spelled like one.
    Syntax,
    /// It is one, but larger than any f64.
    Range,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ParseError::Syntax => "not a number",
            ParseError::Range => "number out of the range of a 64-bit float",
        })
    }
}

impl std::error::Error for ParseError {}

/// Those that an f64 has exactly.
const POWERS_OF_TEN: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// As integers; up to here two of eight digits are joined.
const WHOLE_POWERS_OF_TEN: [u64; 16] = {
    let mut powers = [1; 16];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = 10 * powers[at - 1];
        at += 1;
    }
    powers
};

/// Digits that always fit the 53 bits of an f64's mantissa.
const EXACT_DIGITS: usize = 15;

/// Reads a number as an exposition has it: decimal, without `_` and without hexadecimal.
///
/// Any NaN becomes [`NORMAL_NAN`](super::NORMAL_NAN). *Steady.*
#[inline]
pub fn parse(text: &[u8]) -> Result<f64, ParseError> {
    match short_decimal(text) {
        Some(value) => Ok(value),
        None => decimal(text),
    }
}

/// A number of 1 to 15 digits; anything else is left to [`decimal`].
#[inline]
fn short_decimal(text: &[u8]) -> Option<f64> {
    leading_short(text).filter(|&(_, length)| length == text.len()).map(|(value, _)| value)
}

/// The number that `text` begins with, and its length. What follows may belong to it (`12e`): the caller
/// looks. `None` for those that are spelled by letters, have a plus, or are out of range, and where there is
/// none. *Steady.*
#[inline]
pub(crate) fn leading(text: &[u8]) -> Option<(f64, usize)> {
    leading_short(text).or_else(|| leading_long(text))
}

#[inline(never)]
fn leading_long(text: &[u8]) -> Option<(f64, usize)> {
    // fast-float2 has its own idea of the special values, so none of them reaches it.
    let first = if text.first()? == &b'-' { text.get(1)? } else { &text[0] };
    if !(first.is_ascii_digit() || *first == b'.') {
        return None;
    }
    fast_float2::parse_partial(text).ok().filter(|(value, _): &(f64, usize)| value.is_finite())
}

/// As [`leading`], for `-?[0-9]*(\.[0-9]*)?([eE][+-]?[0-9]+)?` with 1 to 15 digits.
#[inline]
fn leading_short(text: &[u8]) -> Option<(f64, usize)> {
    let negative = text.first() == Some(&b'-');
    let begin = usize::from(negative);
    let (mut mantissa, mut count) = digits(text.get(begin..)?);
    let mut end = begin + count;
    let mut power = 0;
    if text.get(end) == Some(&b'.') {
        let (fraction, digits) = digits(&text[end + 1..]);
        count += digits;
        if count > EXACT_DIGITS {
            return None;
        }
        mantissa = mantissa * WHOLE_POWERS_OF_TEN[digits] + fraction;
        power = -(digits as i32);
        end += 1 + digits;
    }
    if count == 0 || count > EXACT_DIGITS {
        return None;
    }
    // Go spells numbers from a million on so.
    if let Some(b'e' | b'E') = text.get(end) {
        let (exponent, length) = exponent(&text[end + 1..])?;
        power += exponent;
        end += 1 + length;
    }
    let scale = *POWERS_OF_TEN.get(power.unsigned_abs() as usize)?;
    let mantissa = float(mantissa);
    let value = if power < 0 { mantissa / scale } else { mantissa * scale };
    Some((if negative { -value } else { value }, end))
}

/// A sign and one or two digits, and how long they are; `None` for more.
#[inline]
fn exponent(text: &[u8]) -> Option<(i32, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let digit =
        |at: usize| text.get(at).filter(|byte| byte.is_ascii_digit()).map(|b| i32::from(b - b'0'));
    let (mut exponent, mut length) = (digit(sign)?, sign + 1);
    if let Some(second) = digit(length) {
        exponent = 10 * exponent + second;
        length += 1;
    }
    if digit(length).is_some() {
        return None;
    }
    Some((if text[0] == b'-' { -exponent } else { exponent }, length))
}

/// A number of 16 digits at most. Of a signed number that is one instruction, of an unsigned one five.
#[inline]
fn float(number: u64) -> f64 {
    number as i64 as f64
}

/// The decimal digits at the beginning, 16 at most, and how many they are.
#[inline(always)]
fn digits(text: &[u8]) -> (u64, usize) {
    let (high, count) = eight_digits(text);
    if count < 8 {
        return (high, count);
    }
    let (low, more) = eight_digits(&text[8..]);
    (high * WHOLE_POWERS_OF_TEN[more] + low, 8 + more)
}

/// The decimal digits at the beginning, eight at most, in a few steps for all of them together.
#[inline(always)]
fn eight_digits(text: &[u8]) -> (u64, usize) {
    let Some(bytes) = text.first_chunk::<8>() else { return few_digits(text) };
    // Digits become 0 to 9. Adding 0x76 carries out of the seven bits of all else; what carries on from
    // there only disturbs bytes behind the first that is no digit.
    let bytes = u64::from_le_bytes(*bytes) ^ 0x3030_3030_3030_3030;
    let others = (bytes.wrapping_add(0x7676_7676_7676_7676) | bytes) & 0x8080_8080_8080_8080;
    let count = (others.trailing_zeros() / 8) as usize;
    if count == 0 {
        return (0, 0);
    }
    // The first digit stands lowest: zeros go in front. Then pairs, fours and eights are joined.
    let digits = bytes << (64 - 8 * count);
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let eight = (fours * 10_000 + (fours >> 32)) & 0xffff_ffff;
    (eight, count)
}

/// As [`eight_digits`], where a body ends.
#[cold]
fn few_digits(text: &[u8]) -> (u64, usize) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold((0, 0), |(value, count), digit| (value * 10 + u64::from(digit - b'0'), count + 1))
}

#[cold]
fn special(text: &[u8]) -> Option<f64> {
    let (sign, word) = match text {
        [b'-', rest @ ..] => (Some(-1.0), rest),
        [b'+', rest @ ..] => (Some(1.0), rest),
        rest => (None, rest),
    };
    if word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"infinity") {
        return Some(f64::INFINITY * sign.unwrap_or(1.0));
    }
    (sign.is_none() && word.eq_ignore_ascii_case(b"nan")).then_some(super::NORMAL_NAN)
}

fn decimal(text: &[u8]) -> Result<f64, ParseError> {
    let first = match text {
        [b'-' | b'+', first, ..] | [first, ..] => *first,
        [] => return Err(ParseError::Syntax),
    };
    // fast-float2 has its own idea of the special values, so none of them reaches it.
    if !(first.is_ascii_digit() || first == b'.') {
        return special(text).ok_or(ParseError::Syntax);
    }
    match fast_float2::parse::<f64, _>(text) {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err(ParseError::Range),
        Err(_) => Err(ParseError::Syntax),
    }
}

/// Reads a number as Go reads a floating-point literal: as [`parse`], and hexadecimal with a binary
/// exponent (`0x1.8p3`), and `_` between digits.
///
/// This is how Prometheus reads the value of `le` and `quantile`. *Steady.*
pub fn parse_literal(text: &[u8]) -> Result<f64, ParseError> {
    if text.contains(&b'_') {
        return without_underscores(text);
    }
    let unsigned = match text {
        [b'-' | b'+', rest @ ..] => rest,
        rest => rest,
    };
    match unsigned {
        [b'0', b'x' | b'X', rest @ ..] => {
            let value = hexadecimal(rest)?;
            Ok(if text[0] == b'-' { -value } else { value })
        }
        _ => parse(text),
    }
}

/// A `_` stands between two digits; the `0x` counts as one.
fn without_underscores(text: &[u8]) -> Result<f64, ParseError> {
    // Longer literals with separators don't occur; refusing them keeps this free of allocation.
    let mut kept = [0u8; 128];
    let mut length = 0;
    let unsigned_at = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let hexadecimal = matches!(text[unsigned_at..], [b'0', b'x' | b'X', ..]);
    let is_digit = |at: usize| {
        let byte = text[at];
        byte.is_ascii_digit()
            || (hexadecimal && byte.is_ascii_hexdigit())
            || (hexadecimal && at == unsigned_at + 1)
    };
    for (at, &byte) in text.iter().enumerate() {
        if byte == b'_' {
            let between = at > 0 && is_digit(at - 1) && at + 1 < text.len() && is_digit(at + 1);
            if !between {
                return Err(ParseError::Syntax);
            }
            continue;
        }
        *kept.get_mut(length).ok_or(ParseError::Syntax)? = byte;
        length += 1;
    }
    parse_literal(&kept[..length])
}

/// `h*[.h*]p[+-]d+` with at least one hexadecimal digit, rounded to even.
fn hexadecimal(text: &[u8]) -> Result<f64, ParseError> {
    let at = text.iter().position(|b| matches!(b, b'p' | b'P')).ok_or(ParseError::Syntax)?;
    let (digits, power) = (&text[..at], &text[at + 1..]);
    let mut mantissa = 0u64;
    let mut exponent = 0i64;
    let (mut seen, mut point) = (false, false);
    for &byte in digits {
        if byte == b'.' && !point {
            point = true;
            continue;
        }
        let digit = char::from(byte).to_digit(16).ok_or(ParseError::Syntax)?;
        seen = true;
        if mantissa >> 60 == 0 {
            mantissa = mantissa << 4 | u64::from(digit);
            exponent -= 4 * i64::from(point);
        } else {
            // The lowest bit stays set once anything below it was: that is all rounding asks.
            mantissa |= u64::from(digit != 0);
            exponent += 4 * i64::from(!point);
        }
    }
    let (sign, power) = match power {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        rest => (1, rest),
    };
    if !seen || power.is_empty() || !power.iter().all(u8::is_ascii_digit) {
        return Err(ParseError::Syntax);
    }
    // Beyond 10,000 the result is zero or out of range whatever the digits are.
    let power = power.iter().fold(0i64, |sum, b| (sum * 10 + i64::from(b - b'0')).min(10_000));
    scale(mantissa, exponent.saturating_add(sign * power))
}

/// `mantissa × 2^exponent`, rounded once.
fn scale(mantissa: u64, exponent: i64) -> Result<f64, ParseError> {
    if mantissa == 0 {
        return Ok(0.0);
    }
    let shift = i64::from(mantissa.leading_zeros());
    let (mantissa, exponent) = (mantissa << shift, exponent - shift);
    // The value is 1.xxx × 2^top, its mantissa the upper 53 bits, fewer for a subnormal.
    let top = exponent + 63;
    if top > 1023 {
        return Err(ParseError::Range);
    }
    let kept = if top >= -1022 { 53 } else { 53 - (-1022 - top) };
    if kept < 0 {
        return Ok(0.0);
    }
    let dropped = (64 - kept) as u32;
    let (quotient, rest) = if dropped == 64 {
        (0, mantissa)
    } else {
        (mantissa >> dropped, mantissa & ((1 << dropped) - 1))
    };
    let half = 1u64 << (dropped - 1);
    let rounded = quotient + u64::from(rest > half || (rest == half && quotient & 1 == 1));
    // A carry into the exponent field is just what rounding up to the next binade means.
    let bits = if top >= -1022 { (((top + 1022) as u64) << 52) + rounded } else { rounded };
    let value = f64::from_bits(bits);
    if value.is_finite() { Ok(value) } else { Err(ParseError::Range) }
}
