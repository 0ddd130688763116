//! `<series> <points>`: numbers, gaps, histograms, and repetitions of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use store::histogram::{CounterResetHint, Span};
use store::{FloatHistogram, Labels, LabelsBuilder};

/// A point of a series.
#[derive(Clone, Debug)]
pub(crate) enum Point {
    Nothing,
    Float(f64),
    Histogram {
        histogram: Arc<FloatHistogram>,
        /// Whether the hint was written, so that it counts.
        hint: bool,
    },
}

const STALE: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

/// Reads a series and its points.
pub(crate) fn line(text: &str) -> Result<(Labels, Vec<Point>), String> {
    let (labels, rest) = labels(text)?;
    Ok((labels, points(rest)?))
}

/// Reads a series; returns what follows it.
pub(crate) fn labels(text: &str) -> Result<(Labels, &str), String> {
    let text = text.trim_start();
    let name_end =
        text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(text.len());
    let (name, mut rest) = text.split_at(name_end);
    let mut builder = LabelsBuilder::new();
    builder.set("__name__", name);
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            if let Some(behind) = rest.strip_prefix('}') {
                rest = behind;
                break;
            }
            let (label, after) = if rest.starts_with(['"', '\'', '`']) {
                quoted(rest)?
            } else {
                let end = rest
                    .find(|c: char| !(c.is_alphanumeric() || c == '_'))
                    .ok_or("a label without value")?;
                (rest[..end].to_owned(), &rest[end..])
            };
            let after = after.trim_start();
            match after.strip_prefix('=') {
                Some(value) => {
                    let (value, behind) = quoted(value.trim_start())?;
                    builder.set(&label, &value);
                    rest = behind;
                }
                None => {
                    builder.set("__name__", &label);
                    rest = after;
                }
            }
        }
    }
    Ok((builder.build(), rest))
}

/// Reads a string literal; returns what follows it.
pub(crate) fn quoted(text: &str) -> Result<(String, &str), String> {
    let quote = text.chars().next().filter(|c| "\"'`".contains(*c)).ok_or("no string")?;
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            c if c == quote => return Ok((value, &text[at + 1..])),
            '\\' if quote != '`' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 't')) => value.push('\t'),
                Some((_, 'x')) => {
                    let digits: String = characters.by_ref().take(2).map(|(_, c)| c).collect();
                    let byte = u8::from_str_radix(&digits, 16).map_err(|e| e.to_string())?;
                    value.push(char::from(byte));
                }
                Some((_, c)) => value.push(c),
                None => break,
            },
            c => value.push(c),
        }
    }
    Err("a string without end".to_owned())
}

/// Reads points up to the end of the line.
pub(crate) fn points(text: &str) -> Result<Vec<Point>, String> {
    let mut rest = text.trim();
    let mut points = Vec::new();
    while !rest.is_empty() {
        rest = item(rest, &mut points)?.trim_start();
    }
    Ok(points)
}

fn item<'a>(text: &'a str, points: &mut Vec<Point>) -> Result<&'a str, String> {
    if let Some(rest) = text.strip_prefix('_') {
        let (times, rest) = times(rest)?;
        points.extend(std::iter::repeat_n(Point::Nothing, times.unwrap_or(1)));
        return Ok(rest);
    }
    if text.starts_with("{{") {
        return histograms(text, points);
    }
    let end = text.find([' ', '\t']).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    if let Some(counted) = word.strip_prefix("stale") {
        let (times, _) = times(counted)?;
        points.extend(std::iter::repeat_n(Point::Float(STALE), times.map_or(1, |n| n + 1)));
        return Ok(rest);
    }
    let (word, count) = match word.rsplit_once('x') {
        Some((before, digits)) if !before.is_empty() => {
            (before, Some(digits.parse::<usize>().map_err(|e| format!("{word}: {e}"))?))
        }
        _ => (word, None),
    };
    let Some(count) = count else {
        points.push(Point::Float(number(word)?));
        return Ok(rest);
    };
    let (mut value, increment) = match operator(word) {
        Some(at) => (number(&word[..at])?, number(&word[at..])?),
        None => (number(word)?, 0.0),
    };
    for _ in 0..=count {
        points.push(Point::Float(value));
        value += increment;
    }
    Ok(rest)
}

/// Where the sign of an increment stands.
fn operator(word: &str) -> Option<usize> {
    let bytes = word.as_bytes();
    (1..bytes.len()).find(|at| {
        matches!(bytes[*at], b'+' | b'-') && !matches!(bytes[at - 1], b'e' | b'E' | b'+' | b'-')
    })
}

/// `xN`
fn times(text: &str) -> Result<(Option<usize>, &str), String> {
    let Some(rest) = text.strip_prefix('x') else { return Ok((None, text)) };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let count = rest[..end].parse().map_err(|e| format!("{text}: {e}"))?;
    Ok((Some(count), &rest[end..]))
}

/// Reads a number as Go does.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    let text = text.trim();
    if let Some(double) = text.strip_prefix("--") {
        return number(double);
    }
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if let Some(hexadecimal) = digits.strip_prefix("0x") {
        let value = u64::from_str_radix(hexadecimal, 16).map_err(|e| format!("{text}: {e}"))?;
        return Ok(sign * value as f64);
    }
    Ok(sign * digits.parse::<f64>().map_err(|e| format!("{text:?}: {e}"))?)
}

fn histograms<'a>(text: &'a str, points: &mut Vec<Point>) -> Result<&'a str, String> {
    let (first, hint, rest) = histogram(text)?;
    let plain =
        |histogram: FloatHistogram| Point::Histogram { histogram: Arc::new(histogram), hint };
    if let (Some(count), rest) = times(rest)? {
        points.extend(std::iter::repeat_n(plain(first), count + 1));
        return Ok(rest);
    }
    let sign = match rest.as_bytes().first() {
        Some(b'+') => 1.0,
        Some(b'-') => -1.0,
        _ => {
            points.push(plain(first));
            return Ok(rest);
        }
    };
    let (increment, hint, rest) = histogram(&rest[1..])?;
    let (count, rest) = times(rest)?;
    let mut current = first;
    for _ in 0..=count.ok_or("an increment without a count")? {
        points.push(Point::Histogram { histogram: Arc::new(current.clone()), hint });
        current = plus(&current, &increment, sign);
    }
    Ok(rest)
}

fn histogram(text: &str) -> Result<(FloatHistogram, bool, &str), String> {
    let inside = text.strip_prefix("{{").ok_or("no histogram")?;
    let (inside, rest) = inside.split_once("}}").ok_or("a histogram without end")?;
    let mut histogram = FloatHistogram::default();
    let (mut offset, mut negative_offset, mut hint) = (0, 0, false);
    let mut fields = inside.trim();
    while !fields.is_empty() {
        let (key, after) = fields.split_once(':').ok_or_else(|| format!("{fields}: no value"))?;
        let (value, behind) = match after.strip_prefix('[') {
            Some(list) => list.split_once(']').ok_or("a list without end")?,
            None => after.split_at(after.find(' ').unwrap_or(after.len())),
        };
        let list = || value.split_whitespace().map(number).collect::<Result<Vec<f64>, String>>();
        match key.trim() {
            "schema" => histogram.schema = number(value)? as i32,
            "sum" => histogram.sum = number(value)?,
            "count" => histogram.count = number(value)?,
            "z_bucket" => histogram.zero_count = number(value)?,
            "z_bucket_w" => histogram.zero_threshold = number(value)?,
            "custom_values" => histogram.custom_values = list()?,
            "buckets" => histogram.positive_buckets = list()?,
            "n_buckets" => histogram.negative_buckets = list()?,
            "offset" => offset = number(value)? as i32,
            "n_offset" => negative_offset = number(value)? as i32,
            "counter_reset_hint" => {
                hint = true;
                histogram.counter_reset_hint = match value {
                    "unknown" => CounterResetHint::Unknown,
                    "reset" => CounterResetHint::Reset,
                    "not_reset" => CounterResetHint::NoReset,
                    "gauge" => CounterResetHint::Gauge,
                    other => return Err(format!("no hint: {other}")),
                };
            }
            other => return Err(format!("no field of a histogram: {other}")),
        }
        fields = behind.trim();
    }
    let spans = |offset, counts: &[f64]| match counts.len() {
        0 => Vec::new(),
        length => vec![Span { offset, length: length as u32 }],
    };
    histogram.positive_spans = spans(offset, &histogram.positive_buckets);
    histogram.negative_spans = spans(negative_offset, &histogram.negative_buckets);
    Ok((histogram, hint, rest))
}

/// Counts by index.
pub(crate) fn sparse(spans: &[Span], counts: &[f64]) -> BTreeMap<i32, f64> {
    let mut list = BTreeMap::new();
    let (mut index, mut place) = (0, 0);
    for span in spans {
        index += span.offset;
        for _ in 0..span.length {
            list.insert(index, counts[place]);
            index += 1;
            place += 1;
        }
    }
    list
}

fn dense(list: &BTreeMap<i32, f64>) -> (Vec<Span>, Vec<f64>) {
    let (mut spans, mut counts, mut next) = (Vec::<Span>::new(), Vec::new(), 0);
    for (index, count) in list.iter().filter(|(_, count)| **count != 0.0) {
        match spans.last_mut() {
            Some(span) if *index == next => span.length += 1,
            _ => spans.push(Span { offset: index - next, length: 1 }),
        }
        counts.push(*count);
        next = index + 1;
    }
    (spans, counts)
}

/// The same histogram without empty buckets.
pub(crate) fn compact(mut histogram: FloatHistogram) -> FloatHistogram {
    let (spans, counts) = dense(&sparse(&histogram.positive_spans, &histogram.positive_buckets));
    (histogram.positive_spans, histogram.positive_buckets) = (spans, counts);
    let (spans, counts) = dense(&sparse(&histogram.negative_spans, &histogram.negative_buckets));
    (histogram.negative_spans, histogram.negative_buckets) = (spans, counts);
    histogram
}

/// The same histogram with fewer buckets.
fn coarser(histogram: &FloatHistogram, schema: i32) -> FloatHistogram {
    let mut copy = histogram.clone();
    let shift = histogram.schema - schema;
    if shift <= 0 || histogram.schema == store::histogram::CUSTOM_BUCKETS_SCHEMA {
        return copy;
    }
    let side = |spans: &[Span], counts: &[f64]| {
        let mut list = BTreeMap::new();
        for (index, count) in sparse(spans, counts) {
            *list.entry(((index - 1) >> shift) + 1).or_insert(0.0) += count;
        }
        dense(&list)
    };
    (copy.positive_spans, copy.positive_buckets) =
        side(&histogram.positive_spans, &histogram.positive_buckets);
    (copy.negative_spans, copy.negative_buckets) =
        side(&histogram.negative_spans, &histogram.negative_buckets);
    copy.schema = schema;
    copy
}

/// `a + sign * b`
fn plus(a: &FloatHistogram, b: &FloatHistogram, sign: f64) -> FloatHistogram {
    let side = |spans_a: &[Span], counts_a: &[f64], spans_b: &[Span], counts_b: &[f64]| {
        let mut list = sparse(spans_a, counts_a);
        for (index, count) in sparse(spans_b, counts_b) {
            *list.entry(index).or_insert(0.0) += sign * count;
        }
        dense(&list)
    };
    let schema = a.schema.min(b.schema);
    let (a, b) = (&coarser(a, schema), &coarser(b, schema));
    let mut sum = a.clone();
    sum.count += sign * b.count;
    sum.sum += sign * b.sum;
    sum.zero_count += sign * b.zero_count;
    sum.zero_threshold = a.zero_threshold.max(b.zero_threshold);
    (sum.positive_spans, sum.positive_buckets) =
        side(&a.positive_spans, &a.positive_buckets, &b.positive_spans, &b.positive_buckets);
    (sum.negative_spans, sum.negative_buckets) =
        side(&a.negative_spans, &a.negative_buckets, &b.negative_spans, &b.negative_buckets);
    sum
}
