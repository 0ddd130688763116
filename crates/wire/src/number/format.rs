//! f64 to text, by the rules of Go's `strconv.FormatFloat(value, 'g' | 'e' | 'f', -1, 64)`.
//!
//! 1. Find the shortest digits and the place of the decimal point.
//! 2. Lay them out: with an exponent, or plainly with zeros where digits are missing.

/// Room for any number in exposition, OpenMetrics or exponent form: sign, 17 digits, point, `e-324`.
pub(crate) const SHORT: usize = 32;

/// Room for any number written out: `-0.` and 323 zeros and 17 digits.
const LONG: usize = 352;

/// Every integer below this is a number of its own in floating point.
const EXACT: u64 = 1 << 53;

/// At this decimal exponent Go's `'g'` changes to the exponent form.
const EXPONENT_FORM_FROM: i32 = 6;

/// The caller's room for one number. Make one and use it again.
#[derive(Clone)]
pub struct Buffer {
    bytes: [u8; LONG],
}

impl Default for Buffer {
    fn default() -> Self {
        Buffer::new()
    }
}

impl Buffer {
    /// An empty buffer, on the stack.
    pub fn new() -> Self {
        Buffer { bytes: [0; LONG] }
    }

    /// As a sample's value in text 0.0.4: `1`, `0.5`, `1e+06`, `NaN`, `+Inf`; a negative zero is `0`.
    pub fn exposition(&mut self, value: f64) -> &str {
        let length = write_exposition(value, &mut self.bytes);
        self.text(length)
    }

    /// As a sample's value in OpenMetrics, and as `le` and `quantile`: `1.0`, `0.5`, `1e+06`.
    pub fn openmetrics(&mut self, value: f64) -> &str {
        let length = write_openmetrics(value, &mut self.bytes);
        self.text(length)
    }

    /// As a sample's value in the HTTP API, without the quotes: plain, and with an exponent below 1e-6
    /// and from 1e21 on.
    pub fn json(&mut self, value: f64) -> &str {
        let magnitude = value.abs();
        if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
            return self.exponent(value);
        }
        self.plain(value)
    }

    /// Always with an exponent, as an alert's value: `1e+00`, `1.5e-07`.
    pub fn exponent(&mut self, value: f64) -> &str {
        let length = special(value, &mut self.bytes).unwrap_or_else(|| {
            let sign = sign(value, &mut self.bytes);
            sign + exponent_form(&Decimal::of(value), &mut self.bytes[sign..])
        });
        self.text(length)
    }

    /// Never with an exponent, as `count_values` and PromQL's printer write: `1000000`, `0.00000015`.
    pub fn plain(&mut self, value: f64) -> &str {
        let length = special(value, &mut self.bytes).unwrap_or_else(|| {
            let sign = sign(value, &mut self.bytes);
            sign + plain_form(&Decimal::of(value), &mut self.bytes[sign..])
        });
        self.text(length)
    }

    fn text(&self, length: usize) -> &str {
        std::str::from_utf8(&self.bytes[..length]).expect("digits are ASCII")
    }
}

/// Writes as [`Buffer::exposition`] and gives the length. `out` holds at least [`SHORT`] bytes.
#[inline]
pub(crate) fn write_exposition(value: f64, out: &mut [u8]) -> usize {
    // Most samples are integers. The cast turns a negative zero into a plain one, as Prometheus' own
    // writer does.
    let integer = value as i64;
    if integer as f64 == value && integer.unsigned_abs() < EXACT {
        return write_signed(integer, out);
    }
    if let Some(length) = special(value, out) {
        return length;
    }
    let sign = sign(value, out);
    if (1e-3..1e6).contains(&value.abs()) {
        // The shortest digits come laid out as Go does it.
        let mut buffer = zmij::Buffer::new();
        let digits = buffer.format_finite(value.abs()).as_bytes();
        if !digits.contains(&b'e') && !digits.ends_with(b".0") {
            return sign + put(&mut out[sign..], digits);
        }
    }
    sign + general_form(&Decimal::of(value), &mut out[sign..])
}

/// Writes as [`Buffer::openmetrics`] and gives the length. `out` holds at least [`SHORT`] bytes.
#[inline]
pub(crate) fn write_openmetrics(value: f64, out: &mut [u8]) -> usize {
    let length = write_exposition(value, out);
    if value.is_finite() && !out[..length].iter().any(|&b| b == b'.' || b == b'e') {
        out[length..length + 2].copy_from_slice(b".0");
        return length + 2;
    }
    length
}

/// Writes `value` as [`Buffer::exposition`] writes the number nearest to it, and gives the length. `out`
/// holds at least [`SHORT`] bytes.
#[inline]
pub(crate) fn write_count(value: u64, out: &mut [u8]) -> usize {
    if value >= EXACT {
        return write_exposition(value as f64, out);
    }
    let Some(out) = out.first_chunk_mut::<SHORT>() else { return 0 };
    if value < 1_000_000 {
        return write_digits(value, out, 0);
    }
    // Below 2^53 the digits of an integer are the shortest that read back as the same number, but for
    // zeros at the end: they leave a place free for the point.
    let count = write_digits(value, out, 1);
    out[0] = out[1];
    out[1] = b'.';
    let mut length = count + 1;
    while out[length - 1] == b'0' {
        length -= 1;
    }
    if out[length - 1] == b'.' {
        length -= 1;
    }
    let exponent = count as u8 - 1;
    out[length..length + 4].copy_from_slice(&[
        b'e',
        b'+',
        b'0' + exponent / 10,
        b'0' + exponent % 10,
    ]);
    length + 4
}

/// The same of a number that may be negative.
#[inline]
pub(crate) fn write_signed(value: i64, out: &mut [u8]) -> usize {
    if value >= 0 {
        return write_count(value as u64, out);
    }
    if value.unsigned_abs() >= EXACT {
        return write_exposition(value as f64, out);
    }
    // One byte less is still enough: these have 16 digits at most.
    let mut digits = [0; SHORT];
    let length = write_count(value.unsigned_abs(), &mut digits);
    out[0] = b'-';
    1 + put(&mut out[1..], &digits[..length])
}

/// Writes the digits of `value`, below 10^17, from `at`, at most 1, and gives their number.
#[inline]
fn write_digits(value: u64, out: &mut [u8; SHORT], at: usize) -> usize {
    let count = value.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut rest = value;
    let mut end = at + count;
    while end >= at + 2 {
        let pair = (rest % 100) as usize * 2;
        rest /= 100;
        end -= 2;
        out[end..end + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if end > at {
        out[at] = b'0' + rest as u8;
    }
    count
}

/// `00` to `99`.
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut number = 0;
    while number < 100 {
        pairs[2 * number] = b'0' + (number / 10) as u8;
        pairs[2 * number + 1] = b'0' + (number % 10) as u8;
        number += 1;
    }
    pairs
};

pub(crate) fn write_integer(value: i64, out: &mut [u8]) -> usize {
    put(out, itoa::Buffer::new().format(value).as_bytes())
}

fn put(out: &mut [u8], bytes: &[u8]) -> usize {
    out[..bytes.len()].copy_from_slice(bytes);
    bytes.len()
}

fn special(value: f64, out: &mut [u8]) -> Option<usize> {
    if value.is_finite() {
        return None;
    }
    let text: &[u8] = match value {
        _ if value.is_nan() => b"NaN",
        f64::INFINITY => b"+Inf",
        _ => b"-Inf",
    };
    Some(put(out, text))
}

fn sign(value: f64, out: &mut [u8]) -> usize {
    if value.is_sign_negative() { put(out, b"-") } else { 0 }
}

/// The digits of a finite number without sign: `0.d1 d2 d3 … × 10^point`. Zero has one digit, a 0.
struct Decimal {
    digits: [u8; 24],
    length: usize,
    point: i32,
}

impl Decimal {
    fn of(value: f64) -> Decimal {
        let magnitude = value.abs();
        let mut decimal = Decimal { digits: [0; 24], length: 0, point: 0 };
        if magnitude < EXACT as f64 && magnitude.trunc() == magnitude {
            let mut buffer = itoa::Buffer::new();
            decimal.read(buffer.format(magnitude as u64).as_bytes());
        } else {
            let mut buffer = zmij::Buffer::new();
            decimal.read(buffer.format_finite(magnitude).as_bytes());
        }
        decimal
    }

    /// Takes the digits out of `123.0`, `0.00012` or `1.2e-7`.
    fn read(&mut self, text: &[u8]) {
        let mut point = None;
        let mut exponent = 0i32;
        for (at, &byte) in text.iter().enumerate() {
            match byte {
                b'.' => point = Some(self.length as i32 + self.point),
                b'e' => {
                    exponent = exponent_of(&text[at + 1..]);
                    break;
                }
                // Zeros in front carry no digit; behind the point they move it.
                b'0' if self.length == 0 => self.point += -i32::from(point.is_some()),
                _ => {
                    self.digits[self.length] = byte;
                    self.length += 1;
                }
            }
        }
        let before_point = self.point;
        self.point = match point {
            // With no digit before the point, what was counted are the zeros behind it.
            Some(0) => before_point,
            Some(at) => at,
            None => self.length as i32,
        } + exponent;
        while self.length > 0 && self.digits[self.length - 1] == b'0' {
            self.length -= 1;
        }
        if self.length == 0 {
            self.digits[0] = b'0';
            self.length = 1;
            self.point = 1;
        }
    }

    fn digits(&self) -> &[u8] {
        &self.digits[..self.length]
    }
}

fn exponent_of(text: &[u8]) -> i32 {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let magnitude = digits.iter().fold(0i32, |sum, &digit| sum * 10 + i32::from(digit - b'0'));
    if negative { -magnitude } else { magnitude }
}

fn general_form(decimal: &Decimal, out: &mut [u8]) -> usize {
    let exponent = decimal.point - 1;
    // For the shortest digits Go takes 21 as the limit only where there are that many digits before
    // the point; otherwise six decide, however many digits the number has.
    if (-4..EXPONENT_FORM_FROM).contains(&exponent) {
        plain_form(decimal, out)
    } else {
        exponent_form(decimal, out)
    }
}

fn exponent_form(decimal: &Decimal, out: &mut [u8]) -> usize {
    let digits = decimal.digits();
    out[0] = digits[0];
    let mut length = 1;
    if digits.len() > 1 {
        out[1] = b'.';
        length = 2 + put(&mut out[2..], &digits[1..]);
    }
    let exponent = decimal.point - 1;
    out[length] = b'e';
    out[length + 1] = if exponent < 0 { b'-' } else { b'+' };
    length += 2;
    if exponent.abs() < 10 {
        out[length] = b'0';
        length += 1;
    }
    length + write_integer(i64::from(exponent.abs()), &mut out[length..])
}

fn plain_form(decimal: &Decimal, out: &mut [u8]) -> usize {
    let digits = decimal.digits();
    if decimal.point <= 0 {
        let zeros = decimal.point.unsigned_abs() as usize;
        out[..2].copy_from_slice(b"0.");
        out[2..2 + zeros].fill(b'0');
        return 2 + zeros + put(&mut out[2 + zeros..], digits);
    }
    let whole = decimal.point as usize;
    if digits.len() <= whole {
        put(out, digits);
        out[digits.len()..whole].fill(b'0');
        return whole;
    }
    put(out, &digits[..whole]);
    out[whole] = b'.';
    whole + 1 + put(&mut out[whole + 1..], &digits[whole..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shortcuts write what the rules say.
    #[test]
    fn shortcuts_agree_with_the_rules() {
        let by_the_rules = |value: f64| {
            let mut out = [0; LONG];
            let sign = if value < 0.0 { put(&mut out, b"-") } else { 0 };
            let length = sign + general_form(&Decimal::of(value), &mut out[sign..]);
            String::from_utf8(out[..length].to_vec()).unwrap()
        };
        let check = |value: f64| {
            let mut buffer = Buffer::new();
            let expected = by_the_rules(value);
            assert_eq!(buffer.exposition(value), expected);
            if value == value.trunc() && value.abs() < 1e18 {
                let mut out = [0; SHORT];
                let length = write_signed(value as i64, &mut out);
                assert_eq!(&out[..length], expected.as_bytes());
                if value >= 0.0 {
                    let length = write_count(value as u64, &mut out);
                    assert_eq!(&out[..length], expected.as_bytes());
                }
            }
        };
        let mut random = 1u64;
        for round in 0..200_000u32 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let integer = (random >> (round % 61)) as i64 as f64;
            check(integer.min(9e17));
            check(-integer.min(9e17));
            let fraction = f64::from_bits(random);
            if fraction.is_finite() {
                check(fraction);
            }
            check((random >> 40) as f64 / f64::from(1 << (round % 30)));
        }
        for exponent in 0..18 {
            for near in [-1.0, 0.0, 1.0] {
                check(10f64.powi(exponent) + near);
                check(-(10f64.powi(exponent) + near));
            }
        }
    }
}
