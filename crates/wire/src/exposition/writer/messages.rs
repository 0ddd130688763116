//! A metric as a protobuf message.
//!
//! 1. The metric is put together in the scratch memory, so that counts which change meanwhile are read
//!    once. A nested message is written behind a byte for its length; where one does not do, what was
//!    written moves up.
//! 2. If it fits the family's message in the chunk it is appended there; otherwise that message is
//!    finished, the chunk goes to the sink, and the family begins again in the next.
//! 3. A metric that no chunk holds becomes a message of its own, which goes out in pieces.

use std::ops::Range;

use super::chunk::Chunk;
use super::lines::Classic;
use super::metric::{Bucket, Exemplar, Extra, Native, Summary, Value};
use super::spell::{Speller, render};
use crate::exposition::Kind;
use crate::exposition::messages::{field, type_number};
use crate::exposition::name::{Escaping, is_legacy};
use crate::exposition::stored::{LabelSet, LabelsRef};
use crate::protobuf::{Sink, WireType, bytes_len, varint_len};

/// What a message's length takes in front of it: enough for any that a chunk holds.
const LENGTH: usize = 3;

/// Empty buckets between two others that are written as zeros, because a span costs more.
const GAP: i64 = 2;

/// The current family's messages.
#[derive(Default)]
pub(super) struct Messages {
    /// The fields that every message of the family begins with.
    header: Vec<u8>,
    /// Where in the chunk the open message's length stands.
    open: Option<usize>,
    metric: Vec<u8>,
    /// Text without its escapes.
    plain: String,
}

impl Messages {
    /// Forgets what a body that was not finished has left.
    pub(super) fn reset(&mut self) {
        self.open = None;
    }

    /// Begins a family.
    pub(super) fn family(
        &mut self,
        out: &mut Chunk<'_>,
        (name, help, unit): (&str, &str, &str),
        kind: Kind,
    ) {
        self.close(out);
        let header = &mut self.header;
        header.clear();
        header.string(field::FAMILY_NAME, name);
        if !help.is_empty() {
            header.string(field::FAMILY_HELP, help);
        }
        header.uint64(field::FAMILY_TYPE, type_number(kind));
        if !unit.is_empty() {
            header.string(field::FAMILY_UNIT, unit);
        }
    }

    /// What has to stand in front of the next metric.
    pub(super) fn overhead(&self) -> usize {
        match self.open {
            Some(_) => 0,
            None => LENGTH + self.header.len(),
        }
    }

    /// Finishes the open message: its length is known now.
    pub(super) fn close(&mut self, out: &mut Chunk<'_>) {
        let Some(begin) = self.open.take() else { return };
        let written = out.written(begin);
        let length = written.len() - LENGTH;
        let used = put_length(length, written);
        written.copy_within(LENGTH.., used);
        out.retreat(LENGTH - used);
    }

    /// Puts a metric together with `write`, and appends it to the family.
    pub(super) fn metric(
        &mut self,
        out: &mut Chunk<'_>,
        write: impl FnOnce(&mut Vec<u8>, &mut String),
    ) {
        self.metric.clear();
        write(&mut self.metric, &mut self.plain);
        let size = bytes_len(field::FAMILY_METRIC, self.metric.len());
        if self.overhead() + size > out.room() {
            self.close(out);
            out.flush();
            if self.overhead() + size > out.room() {
                return self.alone(out, size);
            }
        }
        if self.open.is_none() {
            self.open = Some(out.length());
            out.put(&[0; LENGTH]);
            out.put(&self.header);
        }
        out.nested(field::FAMILY_METRIC, self.metric.len());
        out.put(&self.metric);
    }

    /// Appends a number without more to the open message, if it is as short as nearly all are; says
    /// whether it was. The labels' names are written as they are.
    #[inline]
    pub(super) fn short(
        &self,
        out: &mut Chunk<'_>,
        (common, labels): (LabelsRef<'_>, LabelSet<'_>),
        kind: Kind,
        value: Value,
    ) -> bool {
        if self.open.is_none() {
            return false;
        }
        let Some(room) = out.free(2 + SHORTEST + VALUE + WIDE) else { return false };
        let mut short = Short { room, at: 2 };
        let fits = short.stored(common)
            && match labels {
                LabelSet::Stored(stored) => short.stored(stored),
                LabelSet::Pairs(pairs) => pairs.iter().all(|(n, v)| short.label(n, v)),
            };
        if !fits {
            return false;
        }
        let Short { room, at } = short;
        room[at] = (place_of(kind) << 3) as u8 | WireType::Bytes as u8;
        room[at + 1] = 9;
        room[at + 2] = (field::NUMBER_VALUE << 3) as u8 | WireType::Fixed64 as u8;
        room[at + 3..at + VALUE].copy_from_slice(&value.as_f64().to_le_bytes());
        room[0] = (field::FAMILY_METRIC << 3) as u8 | WireType::Bytes as u8;
        room[1] = (at - 2 + VALUE) as u8;
        out.advance(at + VALUE);
        true
    }

    #[cold]
    fn alone(&mut self, out: &mut Chunk<'_>, size: usize) {
        out.varint((self.header.len() + size) as u64);
        out.put(&self.header);
        out.nested(field::FAMILY_METRIC, self.metric.len());
        out.put(&self.metric);
    }
}

/// The most bytes of labels whose metric has one byte of length, and the bytes of the value behind them.
const SHORTEST: usize = 0x7f - VALUE;
const VALUE: usize = 11;

/// A copy of this size takes no call; what is copied beyond a text's end is written over.
const WIDE: usize = 16;

/// Labels of a metric that may turn out too long.
struct Short<'r> {
    room: &'r mut [u8],
    at: usize,
}

impl Short<'_> {
    /// Writes labels that hold no escapes. Says whether there is room for them and there are none.
    #[inline]
    fn stored(&mut self, labels: LabelsRef<'_>) -> bool {
        let mut rest = labels.as_bytes();
        while let Some(name) = find(rest, b'=') {
            let value = &rest[(name + 2).min(rest.len())..];
            let Some(length) = find(value, b'"') else { return false };
            let end = name + 2 + length;
            let is_plain = rest[0] != b'"' && !value[..length].contains(&b'\\');
            if !is_plain || !self.pair(rest, 0..name, name + 2..end) {
                return false;
            }
            rest = &rest[(end + 2).min(rest.len())..];
        }
        rest.is_empty()
    }

    #[inline]
    fn label(&mut self, name: &str, value: &str) -> bool {
        let length = 4 + name.len() + value.len();
        if self.at + length > SHORTEST {
            return false;
        }
        self.head(length, name.len());
        self.copy(name.as_bytes(), 0..name.len());
        self.middle(value.len());
        self.copy(value.as_bytes(), 0..value.len());
        true
    }

    /// A label whose name and value stand in `text`.
    #[inline]
    fn pair(&mut self, text: &[u8], name: Range<usize>, value: Range<usize>) -> bool {
        let length = 4 + name.len() + value.len();
        if self.at + length > SHORTEST {
            return false;
        }
        self.head(length, name.len());
        self.copy(text, name);
        self.middle(value.len());
        self.copy(text, value);
        true
    }

    #[inline]
    fn head(&mut self, length: usize, name: usize) {
        const PAIR: u8 = (field::METRIC_LABEL << 3) as u8 | WireType::Bytes as u8;
        const NAME: u8 = (field::LABEL_NAME << 3) as u8 | WireType::Bytes as u8;
        let head = [PAIR, length as u8, NAME, name as u8];
        self.room[self.at..self.at + 4].copy_from_slice(&head);
        self.at += 4;
    }

    #[inline]
    fn middle(&mut self, value: usize) {
        const VALUE: u8 = (field::LABEL_VALUE << 3) as u8 | WireType::Bytes as u8;
        self.room[self.at..self.at + 2].copy_from_slice(&[VALUE, value as u8]);
        self.at += 2;
    }

    #[inline]
    fn copy(&mut self, text: &[u8], range: Range<usize>) {
        let length = range.len();
        match text.get(range.start..range.start + WIDE) {
            Some(wide) if length <= WIDE => {
                self.room[self.at..self.at + WIDE].copy_from_slice(wide);
            }
            _ => self.room[self.at..self.at + length].copy_from_slice(&text[range]),
        }
        self.at += length;
    }
}

/// Where the first `byte` stands: eight bytes at a time.
#[inline]
fn find(text: &[u8], byte: u8) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    let mut at = 0;
    while let Some(eight) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let differences = u64::from_le_bytes(*eight) ^ (ONES * u64::from(byte));
        let zeros = differences.wrapping_sub(ONES) & !differences & (ONES << 7);
        if zeros != 0 {
            return Some(at + zeros.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    text[at..].iter().position(|other| *other == byte).map(|more| at + more)
}

/// The field of a metric that holds the value of one of `kind`.
fn place_of(kind: Kind) -> u32 {
    match kind {
        Kind::Counter => field::METRIC_COUNTER,
        Kind::Unknown => field::METRIC_UNTYPED,
        _ => field::METRIC_GAUGE,
    }
}

impl Sink for Chunk<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        Chunk::put(self, bytes);
    }
}

/// Writes `length` at the front of `to` in as few bytes as it takes, and says how many.
fn put_length(length: usize, to: &mut [u8]) -> usize {
    let used = varint_len(length as u64);
    for (at, byte) in to.iter_mut().enumerate().take(used) {
        let more = if at + 1 < used { 0x80 } else { 0 };
        *byte = (length >> (7 * at)) as u8 & 0x7f | more;
    }
    used
}

/// Writes a nested message whose length nobody knows before.
#[inline]
fn message(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    out.tag(number, WireType::Bytes);
    let begin = out.len();
    out.push(0);
    write(out);
    let length = out.len() - begin - 1;
    if length < 0x80 {
        out[begin] = length as u8;
    } else {
        let more = varint_len(length as u64) - 1;
        let end = out.len();
        out.resize(end + more, 0);
        out.copy_within(begin + 1..end, begin + 1 + more);
        put_length(length, &mut out[begin..]);
    }
}

/// How labels are written here.
pub(super) struct Spelling<'w> {
    pub(super) escaping: Escaping,
    pub(super) speller: &'w mut Speller,
    pub(super) block: &'w mut String,
}

impl Spelling<'_> {
    /// Writes the labels as fields of `number`.
    pub(super) fn labels(
        &mut self,
        number: u32,
        common: LabelsRef<'_>,
        labels: LabelSet<'_>,
        out: &mut Vec<u8>,
        plain: &mut String,
    ) {
        let Spelling { escaping, speller, block } = self;
        let has_direct_names = match labels {
            LabelSet::Stored(stored) => stored.is_direct(*escaping),
            LabelSet::Pairs(pairs) => {
                *escaping == Escaping::AllowUtf8 || pairs.iter().all(|(name, _)| is_legacy(name))
            }
        };
        if !has_direct_names || !common.is_direct(*escaping) {
            let (text, _) = render(*escaping, common, labels, speller, block);
            return stored(number, LabelsRef::new(text, false), out, plain);
        }
        stored(number, common, out, plain);
        match labels {
            LabelSet::Stored(labels) => stored(number, labels, out, plain),
            LabelSet::Pairs(pairs) => {
                for (name, value) in pairs {
                    label(number, name, value, out);
                }
            }
        }
    }

    /// Writes an exemplar as a field of `number`.
    pub(super) fn exemplar(
        &mut self,
        number: u32,
        exemplar: &Exemplar<'_>,
        out: &mut Vec<u8>,
        plain: &mut String,
    ) {
        message(out, number, |out| {
            self.labels(field::EXEMPLAR_LABEL, LabelsRef::EMPTY, exemplar.labels, out, plain);
            out.double(field::EXEMPLAR_VALUE, exemplar.value);
            if let Some(timestamp_ms) = exemplar.timestamp_ms {
                time(field::EXEMPLAR_TIMESTAMP, timestamp_ms, out);
            }
        });
    }
}

fn stored(number: u32, labels: LabelsRef<'_>, out: &mut Vec<u8>, plain: &mut String) {
    for stored in labels.iter() {
        if let (Some(name), Some(value)) = (stored.name.as_plain(), stored.value.as_plain()) {
            label(number, name, value, out);
            continue;
        }
        plain.clear();
        stored.name.unescape_into(plain);
        let split = plain.len();
        stored.value.unescape_into(plain);
        let (name, value) = plain.split_at(split);
        label(number, name, value, out);
    }
}

#[inline]
fn label(number: u32, name: &str, value: &str, out: &mut Vec<u8>) {
    let length =
        bytes_len(field::LABEL_NAME, name.len()) + bytes_len(field::LABEL_VALUE, value.len());
    out.nested(number, length);
    out.string(field::LABEL_NAME, name);
    out.string(field::LABEL_VALUE, value);
}

fn time(number: u32, milliseconds: i64, out: &mut Vec<u8>) {
    message(out, number, |out| {
        let seconds = milliseconds.div_euclid(1000);
        let nanoseconds = milliseconds.rem_euclid(1000) * 1_000_000;
        if seconds != 0 {
            out.int64(field::TIME_SECONDS, seconds);
        }
        if nanoseconds != 0 {
            out.int64(field::TIME_NANOSECONDS, nanoseconds);
        }
    });
}

/// Writes the value of a counter, gauge or something of an unknown kind.
pub(super) fn number(
    kind: Kind,
    value: Value,
    extra: &Extra<'_>,
    spelling: &mut Spelling<'_>,
    out: &mut Vec<u8>,
    plain: &mut String,
) {
    message(out, place_of(kind), |out| {
        out.double(field::NUMBER_VALUE, value.as_f64());
        if kind == Kind::Counter {
            if let Some(exemplar) = &extra.exemplar {
                spelling.exemplar(field::COUNTER_EXEMPLAR, exemplar, out, plain);
            }
            created(field::COUNTER_CREATED, extra.created_ms, out);
        }
    });
    timestamp(extra.timestamp_ms, out);
}

/// Writes a summary.
pub(super) fn summary(summary: &Summary<'_>, out: &mut Vec<u8>) {
    message(out, field::METRIC_SUMMARY, |out| {
        out.uint64(field::SUMMARY_COUNT, summary.count);
        out.double(field::SUMMARY_SUM, summary.sum);
        for (quantile, value) in summary.quantiles {
            message(out, field::SUMMARY_QUANTILE, |out| {
                out.double(field::QUANTILE_QUANTILE, *quantile);
                out.double(field::QUANTILE_VALUE, *value);
            });
        }
        created(field::SUMMARY_CREATED, summary.created_ms, out);
    });
    timestamp(summary.timestamp_ms, out);
}

/// Writes a histogram: `parts` writes its buckets and gives how many observations they hold.
pub(super) fn histogram(
    of: &Classic<'_>,
    out: &mut Vec<u8>,
    parts: impl FnOnce(&mut Vec<u8>) -> u64,
) {
    message(out, field::METRIC_HISTOGRAM, |out| {
        let total = parts(out).max(of.count);
        out.uint64(field::HISTOGRAM_COUNT, total);
        out.double(field::HISTOGRAM_SUM, of.sum);
        created(field::HISTOGRAM_CREATED, of.created_ms, out);
    });
    timestamp(of.timestamp_ms, out);
}

/// Writes explicit buckets; that of `+Inf` only where it has an exemplar, because the histogram's count
/// says the rest. Gives the count.
pub(super) fn buckets<'e, B: Into<Bucket<'e>>>(
    bounds: &[f64],
    counts: impl IntoIterator<Item = B>,
    spelling: &mut Spelling<'_>,
    out: &mut Vec<u8>,
    plain: &mut String,
) -> u64 {
    let bounds = match bounds {
        [rest @ .., last] if *last == f64::INFINITY => rest,
        all => all,
    };
    let mut counts = counts.into_iter().map(Into::into);
    let mut total = 0u64;
    let mut bucket =
        |bound: f64, total: u64, exemplar: Option<&Exemplar<'_>>, out: &mut Vec<u8>| {
            message(out, field::HISTOGRAM_BUCKET, |out| {
                out.uint64(field::BUCKET_COUNT, total);
                out.double(field::BUCKET_BOUND, bound);
                if let Some(exemplar) = exemplar {
                    spelling.exemplar(field::BUCKET_EXEMPLAR, exemplar, out, plain);
                }
            });
        };
    for bound in bounds {
        let next: Bucket<'_> = counts.next().unwrap_or_default();
        total = total.saturating_add(next.count);
        bucket(*bound, total, next.exemplar.as_ref(), out);
    }
    let mut exemplar = None;
    for above in counts {
        total = total.saturating_add(above.count);
        exemplar = above.exemplar.or(exemplar);
    }
    if exemplar.is_some() {
        bucket(f64::INFINITY, total, exemplar.as_ref(), out);
    }
    total
}

/// Writes native buckets and gives how many observations they hold.
pub(super) fn native<P, N>(
    native: &Native<'_, P, N>,
    spelling: &mut Spelling<'_>,
    out: &mut Vec<u8>,
    plain: &mut String,
) -> u64
where
    P: Iterator<Item = (i32, u64)> + Clone,
    N: Iterator<Item = (i32, u64)> + Clone,
{
    out.sint64(field::HISTOGRAM_SCHEMA, native.schema.into());
    out.double(field::HISTOGRAM_ZERO_THRESHOLD, native.zero_threshold);
    out.uint64(field::HISTOGRAM_ZERO_COUNT, native.zero_count);
    let below = side(
        (field::HISTOGRAM_NEGATIVE_SPAN, field::HISTOGRAM_NEGATIVE_DELTA),
        native.negative.clone(),
        out,
    );
    let above = side(
        (field::HISTOGRAM_POSITIVE_SPAN, field::HISTOGRAM_POSITIVE_DELTA),
        native.positive.clone(),
        out,
    );
    if below.is_none() && above.is_none() && native.zero_threshold == 0.0 && native.zero_count == 0
    {
        // Otherwise nobody could tell it from one without native buckets.
        span(field::HISTOGRAM_POSITIVE_SPAN, 0, 0, out);
    }
    for exemplar in native.exemplars {
        spelling.exemplar(field::HISTOGRAM_EXEMPLAR, exemplar, out, plain);
    }
    native.zero_count.saturating_add(below.unwrap_or(0)).saturating_add(above.unwrap_or(0))
}

/// Writes the buckets of one side: runs of neighbours as spans, counts as differences to the one before.
/// Gives what they hold, if there are any.
fn side(
    (span_field, delta_field): (u32, u32),
    buckets: impl Iterator<Item = (i32, u64)>,
    out: &mut Vec<u8>,
) -> Option<u64> {
    let mut total = None;
    // The open span, the index behind it, and the count before.
    let (mut offset, mut length, mut next, mut before) = (0i64, 0u64, 0i64, 0u64);
    let mut delta = |count: u64, out: &mut Vec<u8>| {
        out.sint64(delta_field, count.wrapping_sub(before) as i64);
        before = count;
    };
    for (index, count) in buckets.filter(|(_, count)| *count > 0) {
        let index = i64::from(index);
        let gap = index - next;
        if total.is_none() {
            offset = index;
        } else if gap < 0 {
            debug_assert!(false, "the buckets of a native histogram don't rise");
            continue;
        } else if gap <= GAP {
            for _ in 0..gap {
                delta(0, out);
            }
            length += gap as u64;
        } else {
            span(span_field, offset, length, out);
            (offset, length) = (gap, 0);
        }
        delta(count, out);
        length += 1;
        next = index + 1;
        total = Some(total.unwrap_or(0u64).saturating_add(count));
    }
    if total.is_some() {
        span(span_field, offset, length, out);
    }
    total
}

fn span(number: u32, offset: i64, length: u64, out: &mut Vec<u8>) {
    message(out, number, |out| {
        out.sint64(field::SPAN_OFFSET, offset);
        out.uint64(field::SPAN_LENGTH, length);
    });
}

fn created(number: u32, created_ms: Option<i64>, out: &mut Vec<u8>) {
    if let Some(created_ms) = created_ms {
        time(number, created_ms, out);
    }
}

fn timestamp(timestamp_ms: Option<i64>, out: &mut Vec<u8>) {
    if let Some(timestamp_ms) = timestamp_ms {
        out.int64(field::METRIC_TIMESTAMP, timestamp_ms);
    }
}
