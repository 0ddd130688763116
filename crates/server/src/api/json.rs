//! JSON by hand, because answers are large and streamed.

use promql::value::Sample;
use store::{FloatHistogram, Labels};
use wire::number::Buffer;

use super::reply::Out;

/// Something that bytes can be appended to.
pub(crate) trait Sink {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Sink for Out {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes(bytes);
    }
}

/// A string with its quotes.
pub(crate) fn string(out: &mut impl Sink, text: &str) {
    out.put(b"\"");
    let bytes = text.as_bytes();
    let mut from = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            ..0x20 => b"",
            _ => continue,
        };
        out.put(&bytes[from..at]);
        from = at + 1;
        if escape.is_empty() {
            out.put(format!("\\u{byte:04x}").as_bytes());
        } else {
            out.put(escape);
        }
    }
    out.put(&bytes[from..]);
    out.put(b"\"");
}

/// A whole number.
pub(crate) fn integer(out: &mut impl Sink, value: i64) {
    let mut buffer = [0u8; 20];
    let mut at = buffer.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        buffer[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.put(b"-");
    }
    out.put(&buffer[at..]);
}

/// A number as JSON has it; what JSON has no word for becomes null.
pub(crate) fn number(out: &mut impl Sink, value: f64) {
    if value.is_finite() {
        out.put(Buffer::new().json(value).as_bytes());
    } else {
        out.put(b"null");
    }
}

/// A sample's value, as a string: JSON has no infinity.
pub(crate) fn value(out: &mut impl Sink, value: f64) {
    out.put(b"\"");
    out.put(Buffer::new().json(value).as_bytes());
    out.put(b"\"");
}

/// Milliseconds as seconds: `1700000000.123`.
pub(crate) fn seconds(out: &mut impl Sink, milliseconds: i64) {
    if milliseconds < 0 {
        out.put(b"-");
    }
    let absolute = milliseconds.unsigned_abs();
    integer(out, (absolute / 1000) as i64);
    let rest = (absolute % 1000) as u16;
    if rest != 0 {
        let digits = [rest / 100, rest / 10 % 10, rest % 10].map(|digit| b'0' + digit as u8);
        out.put(b".");
        // Prometheus writes the digits of the rest, so 0.1 is `.100`.
        out.put(&digits);
    }
}

/// `{"name":"value",…}`
pub(crate) fn labels(out: &mut impl Sink, labels: &Labels) {
    out.put(b"{");
    for (index, (name, value)) in labels.iter().enumerate() {
        if index > 0 {
            out.put(b",");
        }
        string(out, name);
        out.put(b":");
        string(out, value);
    }
    out.put(b"}");
}

/// `["a","b"]`
pub(crate) fn strings<T: AsRef<str>>(out: &mut impl Sink, texts: impl IntoIterator<Item = T>) {
    list(out, texts, |out, text| string(out, text.as_ref()));
}

/// `[…,…]`, each element written by `write`.
pub(crate) fn list<S: Sink, T>(
    out: &mut S,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut S, T),
) {
    out.put(b"[");
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.put(b",");
        }
        write(out, item);
    }
    out.put(b"]");
}

/// `[time,"value"]`
pub(crate) fn point(out: &mut impl Sink, time: i64, number: f64) {
    out.put(b"[");
    seconds(out, time);
    out.put(b",");
    value(out, number);
    out.put(b"]");
}

/// `[time,{"count":…,"sum":…,"buckets":…}]`
pub(crate) fn histogram_point(out: &mut impl Sink, time: i64, histogram: &FloatHistogram) {
    out.put(b"[");
    seconds(out, time);
    out.put(b",");
    self::histogram(out, histogram);
    out.put(b"]");
}

/// `"value":[…]` or `"histogram":[…]`
pub(crate) fn sample(out: &mut impl Sink, time: i64, sample: &Sample) {
    match sample {
        Sample::Float(number) => {
            out.put(b"\"value\":");
            point(out, time, *number);
        }
        Sample::Histogram(histogram) => {
            out.put(b"\"histogram\":");
            histogram_point(out, time, histogram);
        }
    }
}

/// Count, sum, and the buckets that aren't empty: `[boundaries,"lower","upper","count"]`, where
/// boundaries are 0 for an open lower one, 1 for an open upper one, 3 for two closed ones.
fn histogram(out: &mut impl Sink, histogram: &FloatHistogram) {
    out.put(b"{\"count\":");
    value(out, histogram.count);
    out.put(b",\"sum\":");
    value(out, histogram.sum);
    let mut first = true;
    for_each_bucket(histogram, |boundaries, lower, upper, count| {
        out.put(if first { b",\"buckets\":[[" } else { b",[" });
        first = false;
        integer(out, boundaries);
        for number in [lower, upper, count] {
            out.put(b",");
            value(out, number);
        }
        out.put(b"]");
    });
    if !first {
        out.put(b"]");
    }
    out.put(b"}");
}

/// The buckets that aren't empty, from the lowest to the highest.
fn for_each_bucket(histogram: &FloatHistogram, mut give: impl FnMut(i64, f64, f64, f64)) {
    use store::histogram::{CUSTOM_BUCKETS_SCHEMA, Span};
    fn indices(spans: &[Span]) -> impl Iterator<Item = i32> {
        let mut next = 0i32;
        spans.iter().flat_map(move |span| {
            let begin = next.wrapping_add(span.offset);
            next = begin.wrapping_add(span.length as i32);
            begin..next
        })
    }
    let custom = histogram.schema == CUSTOM_BUCKETS_SCHEMA;
    let bound = |index: i32| -> f64 {
        if !custom {
            return exponential_bound(index, histogram.schema);
        }
        match usize::try_from(index) {
            Ok(at) => histogram.custom_values.get(at).copied().unwrap_or(f64::INFINITY),
            Err(_) => f64::NEG_INFINITY,
        }
    };
    let negative: Vec<(i32, f64)> = indices(&histogram.negative_spans)
        .zip(histogram.negative_buckets.iter().copied())
        .filter(|(_, count)| *count != 0.0)
        .collect();
    for &(index, count) in negative.iter().rev() {
        give(1, -bound(index), -bound(index - 1), count);
    }
    if histogram.zero_count != 0.0 {
        give(3, -histogram.zero_threshold, histogram.zero_threshold, histogram.zero_count);
    }
    for (index, &count) in indices(&histogram.positive_spans).zip(&histogram.positive_buckets) {
        if count != 0.0 {
            // The lowest bucket of custom bounds has no lower one, which counts as closed.
            let boundaries = if custom && index == 0 { 3 } else { 0 };
            give(boundaries, bound(index - 1), bound(index), count);
        }
    }
}

/// The upper bound of a bucket: 2^(index · 2^-schema), the largest finite number for the bucket that
/// would reach beyond it.
fn exponential_bound(index: i32, schema: i32) -> f64 {
    if schema < 0 {
        let exponent = i64::from(index) << -schema.max(-10);
        return if exponent == 1024 { f64::MAX } else { exp2_whole(exponent) };
    }
    let steps = 1i64 << schema.min(20);
    let (whole, part) = (i64::from(index).div_euclid(steps), i64::from(index).rem_euclid(steps));
    if part == 0 && whole == 1024 {
        return f64::MAX;
    }
    (part as f64 / steps as f64).exp2() * exp2_whole(whole)
}

fn exp2_whole(exponent: i64) -> f64 {
    (exponent.clamp(-1100, 1100) as f64).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::histogram::Span;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_are_escaped() {
        assert_eq!(text(|out| string(out, "a\"b\\c\n\u{1}ü")), r#""a\"b\\c\n\u0001ü""#);
    }

    #[test]
    fn times_are_seconds() {
        for (milliseconds, expected) in [
            (0, "0"),
            (1, "0.001"),
            (120, "0.120"),
            (-1500, "-1.500"),
            (1_700_000_000_123, "1700000000.123"),
            (i64::MIN, "-9223372036854775.808"),
        ] {
            assert_eq!(text(|out| seconds(out, milliseconds)), expected);
        }
    }

    #[test]
    fn histograms_list_their_buckets() {
        let histogram = FloatHistogram {
            schema: 1,
            count: 10.0,
            sum: 2.5,
            zero_threshold: 0.001,
            zero_count: 2.0,
            positive_spans: vec![Span { offset: 0, length: 2 }, Span { offset: 1, length: 1 }],
            positive_buckets: vec![1.0, 0.0, 3.0],
            negative_spans: vec![Span { offset: 0, length: 1 }],
            negative_buckets: vec![4.0],
            ..FloatHistogram::default()
        };
        assert_eq!(
            text(|out| super::histogram(out, &histogram)),
            "{\"count\":\"10\",\"sum\":\"2.5\",\"buckets\":[\
             [1,\"-1\",\"-0.7071067811865476\",\"4\"],[3,\"-0.001\",\"0.001\",\"2\"],\
             [0,\"0.7071067811865476\",\"1\",\"1\"],\
             [0,\"2\",\"2.8284271247461903\",\"3\"]]}"
        );
    }
}
