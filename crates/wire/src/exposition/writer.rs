//! From families to a body, through one buffer into a sink.
//!
//! ```text
//! wire::exposition::fold(&mut buffer, negotiated, state, |state, chunk| …, |out| {
//!     out.family(&Family { name: "up", help: "…", kind: Kind::Gauge, unit: "" });
//!     out.sample(&Point::new(LabelSet::Pairs(&[("job", "a")]), 1.0));
//! })
//! ```
//! The sink gets chunks of at most 64 KiB in order, the last one shorter, never an empty one. Nothing is
//! held beyond one chunk, however many samples there are.
//!
//! The writer writes what it is told: that a family comes once and a series once is the concern of
//! whoever has the families. It never writes a name, a text or a value that would end a line or a quote.

use std::fmt;
use std::io;

use super::labels::Labels;
use super::name::{Escaping, is_legacy, is_legacy_metric};
use super::negotiate::Negotiated;
use super::{Format, Kind};
use crate::number::{SHORT, write_exposition, write_integer, write_openmetrics};

/// What a chunk holds at most.
pub const CHUNK: usize = 64 * 1024;

/// The memory that writing needs. Make one and use it for every body.
pub struct Buffer {
    bytes: Box<[u8]>,
    /// The current family's name in the spelling it is written in.
    name: String,
    /// For names of labels that have to be respelt: as they are, and as they are written.
    label: String,
    scratch: String,
}

impl Buffer {
    /// Allocates [`CHUNK`] bytes. *Setup.*
    pub fn new() -> Self {
        Buffer {
            bytes: vec![0; CHUNK].into_boxed_slice(),
            name: String::new(),
            label: String::new(),
            scratch: String::new(),
        }
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Buffer::new()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").finish_non_exhaustive()
    }
}

/// Writes a body: `write` says what, `fold` takes each chunk with the state so far and gives the next.
/// *Steady* once `buffer` has seen the longest name.
pub fn fold<S>(
    buffer: &mut Buffer,
    negotiated: Negotiated,
    state: S,
    mut fold: impl FnMut(S, &[u8]) -> S,
    write: impl FnOnce(&mut Writer<'_>),
) -> S {
    // Absent only while the fold has it.
    let mut slot = Some(state);
    let mut sink = |chunk: &[u8]| slot = slot.take().map(|state| fold(state, chunk));
    let mut writer = Writer::new(buffer, negotiated, &mut sink);
    write(&mut writer);
    writer.finish();
    slot.expect("the fold gives its state back")
}

/// Writes a body to `out`; after its first error nothing more is written.
///
/// # Errors
/// The first error of `out`.
pub fn to_io(
    buffer: &mut Buffer,
    negotiated: Negotiated,
    out: &mut impl io::Write,
    write: impl FnOnce(&mut Writer<'_>),
) -> io::Result<()> {
    fold(
        buffer,
        negotiated,
        Ok(()),
        |state, chunk| state.and_then(|()| out.write_all(chunk)),
        write,
    )
}

/// What the samples that follow have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family<'a> {
    /// The name; a counter's with `_total`, an info's with `_info`.
    pub name: &'a str,
    /// What it is about; empty for no HELP line.
    pub help: &'a str,
    /// What it measures.
    pub kind: Kind,
    /// The unit, a suffix of the name (before `_total`); empty for none.
    pub unit: &'a str,
}

/// Which of a family's series a sample belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suffix {
    /// The value itself.
    None,
    /// `_bucket`
    Bucket,
    /// `_sum`
    Sum,
    /// `_count`
    Count,
    /// `_created`: a time in seconds. OpenMetrics only; text has no line for it.
    Created,
}

impl Suffix {
    const fn text(self) -> &'static str {
        match self {
            Suffix::None => "",
            Suffix::Bucket => "_bucket",
            Suffix::Sum => "_sum",
            Suffix::Count => "_count",
            Suffix::Created => "_created",
        }
    }
}

/// A value; counts are written as integers where the format tells them apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Any number.
    Float(f64),
    /// How many.
    Count(u64),
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Value::Float(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Value::Count(value)
    }
}

/// Labels, escaped beforehand or now.
#[derive(Clone, Copy, Debug)]
pub enum LabelSet<'a> {
    /// Stored in the form in which they are written: one copy.
    Stored(&'a StoredLabels),
    /// Names and values as they are.
    Pairs(&'a [(&'a str, &'a str)]),
}

/// Labels in the form in which they are written: `a="b",c="d"`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct StoredLabels {
    text: Box<str>,
    /// Whether every name is in the legacy alphabet, so that no scheme respells it.
    legacy: bool,
}

impl StoredLabels {
    /// Escapes `pairs` once. *Setup.*
    pub fn new<'p>(pairs: impl IntoIterator<Item = (&'p str, &'p str)>) -> Self {
        let mut text = String::new();
        let mut legacy = true;
        for (name, value) in pairs {
            if !text.is_empty() {
                text.push(',');
            }
            if is_legacy(name) {
                text.push_str(name);
            } else {
                legacy = false;
                text.push('"');
                escape_into(name, &mut text);
                text.push('"');
            }
            text.push_str("=\"");
            escape_into(value, &mut text);
            text.push('"');
        }
        StoredLabels { text: text.into_boxed_str(), legacy }
    }

    /// `a="b",c="d"`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The bytes on the heap.
    pub fn memory_usage(&self) -> usize {
        self.text.len()
    }
}

fn escape_into(text: &str, out: &mut String) {
    for part in text.split_inclusive(['\\', '"', '\n']) {
        let (before, escape) = match part.as_bytes().last() {
            Some(b'\\') => (&part[..part.len() - 1], "\\\\"),
            Some(b'"') => (&part[..part.len() - 1], "\\\""),
            Some(b'\n') => (&part[..part.len() - 1], "\\n"),
            _ => (part, ""),
        };
        out.push_str(before);
        out.push_str(escape);
    }
}

/// A sample, with what may stand in its line.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// Which series of the family.
    pub suffix: Suffix,
    /// The labels.
    pub labels: LabelSet<'a>,
    /// One label more whose value is a number: `le` or `quantile`.
    pub bound: Option<(&'a str, f64)>,
    /// The value.
    pub value: Value,
    /// Milliseconds since 1970; none for "now".
    pub timestamp_ms: Option<i64>,
    /// One observation behind it; text has no place for it.
    pub exemplar: Option<PointExemplar<'a>>,
}

/// One observation behind a sample.
#[derive(Clone, Copy, Debug)]
pub struct PointExemplar<'a> {
    /// Its labels.
    pub labels: LabelSet<'a>,
    /// Its value.
    pub value: f64,
    /// Milliseconds since 1970.
    pub timestamp_ms: Option<i64>,
}

impl<'a> Point<'a> {
    /// A sample of the family's own name.
    pub fn new(labels: LabelSet<'a>, value: impl Into<Value>) -> Self {
        Point {
            suffix: Suffix::None,
            labels,
            bound: None,
            value: value.into(),
            timestamp_ms: None,
            exemplar: None,
        }
    }

    /// A sample of the family's name with `suffix`.
    #[must_use]
    pub fn suffix(self, suffix: Suffix) -> Self {
        Point { suffix, ..self }
    }

    /// With `name` (`le` or `quantile`) at `bound`.
    #[must_use]
    pub fn bound(self, name: &'a str, bound: f64) -> Self {
        Point { bound: Some((name, bound)), ..self }
    }
}

/// Writes families and their samples.
pub struct Writer<'s> {
    buffer: &'s mut Buffer,
    length: usize,
    negotiated: Negotiated,
    sink: &'s mut dyn FnMut(&[u8]),
    /// How much of the name belongs to the family; the rest is its samples' suffix (`_total`).
    family_length: usize,
    quoted: bool,
}

impl fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("negotiated", &self.negotiated).finish_non_exhaustive()
    }
}

impl<'s> Writer<'s> {
    fn new(buffer: &'s mut Buffer, negotiated: Negotiated, sink: &'s mut dyn FnMut(&[u8])) -> Self {
        Writer { buffer, length: 0, negotiated, sink, family_length: 0, quoted: false }
    }

    /// The format of the body.
    pub fn format(&self) -> Format {
        self.negotiated.format
    }

    /// The name under which `family` is written: in OpenMetrics a counter's without `_total`, and spelt
    /// as the other side asked. Two families of one such name may not be in one body.
    pub fn name_of(&mut self, family: &Family<'_>) -> &str {
        self.spell(family);
        &self.buffer.name[..self.family_length]
    }

    fn spell(&mut self, family: &Family<'_>) -> Kind {
        self.buffer.name.clear();
        self.negotiated.escaping.metric_into(family.name, &mut self.buffer.name);
        self.quoted = !is_legacy_metric(&self.buffer.name);
        let (suffix, kind) = self.suffix_and_kind(family.kind);
        self.family_length = self.buffer.name.len() - suffix.len();
        kind
    }

    /// Begins a family: its HELP, TYPE and, in OpenMetrics, UNIT.
    pub fn family(&mut self, family: &Family<'_>) {
        let format = self.negotiated.format;
        let kind = self.spell(family);
        if !family.help.is_empty() {
            self.metadata(b"# HELP ");
            self.escaped(family.help, format == Format::OpenMetrics);
            self.put(b"\n");
        }
        self.metadata(b"# TYPE ");
        self.put(kind.word(format).as_bytes());
        self.put(b"\n");
        let is_suffix = self.buffer.name[..self.family_length]
            .strip_suffix(family.unit)
            .is_some_and(|rest| rest.ends_with('_'));
        if format == Format::OpenMetrics && !family.unit.is_empty() && is_suffix {
            self.metadata(b"# UNIT ");
            self.escaped(family.unit, true);
            self.put(b"\n");
        }
    }

    /// The part of the name that OpenMetrics takes for the samples' suffix, and the kind as it can be
    /// told: a counter that does not end in `_total` is none in OpenMetrics.
    fn suffix_and_kind(&self, kind: Kind) -> (&'static str, Kind) {
        let suffix = match kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            _ => return ("", kind),
        };
        if self.negotiated.format == Format::Text {
            return ("", kind);
        }
        match self.buffer.name.strip_suffix(suffix) {
            Some(rest) if !rest.is_empty() => (suffix, kind),
            _ => ("", Kind::Unknown),
        }
    }

    /// Writes one sample of the current family.
    pub fn sample(&mut self, point: &Point<'_>) {
        let format = self.negotiated.format;
        if point.suffix == Suffix::Created && format == Format::Text {
            return;
        }
        self.series(point);
        self.put(b" ");
        self.value(point.value);
        if let Some(timestamp_ms) = point.timestamp_ms {
            self.put(b" ");
            self.timestamp(timestamp_ms);
        }
        if let (Some(exemplar), Format::OpenMetrics) = (&point.exemplar, format) {
            self.put(b" # {");
            self.labels(exemplar.labels, b"");
            self.put(b"} ");
            self.value(Value::Float(exemplar.value));
            if let Some(timestamp_ms) = exemplar.timestamp_ms {
                self.put(b" ");
                self.timestamp(timestamp_ms);
            }
        }
        self.put(b"\n");
    }

    fn series(&mut self, point: &Point<'_>) {
        // `_created` belongs to the family and not to its `_total`.
        let length = match point.suffix {
            Suffix::None => self.buffer.name.len(),
            _ => self.family_length,
        };
        let mut separator: &[u8] = b"{";
        if self.quoted {
            self.put(b"{\"");
            self.family_name(length);
            self.put(point.suffix.text().as_bytes());
            self.put(b"\"");
            separator = b",";
        } else {
            self.family_name(length);
            self.put(point.suffix.text().as_bytes());
        }
        if self.labels(point.labels, separator) {
            separator = b",";
        }
        if let Some((name, bound)) = point.bound {
            self.put(separator);
            self.put(name.as_bytes());
            self.put(b"=\"");
            self.value(Value::Float(bound));
            self.put(b"\"");
            separator = b",";
        }
        if separator == b"," {
            self.put(b"}");
        }
    }

    fn metadata(&mut self, keyword: &[u8]) {
        self.put(keyword);
        let quote: &[u8] = if self.quoted { b"\"" } else { b"" };
        self.put(quote);
        self.family_name(self.family_length);
        self.put(quote);
        self.put(b" ");
    }

    /// The first bytes of the family's name, escaped if it stands in quotes.
    fn family_name(&mut self, length: usize) {
        let name = std::mem::take(&mut self.buffer.name);
        if self.quoted {
            self.escaped(&name[..length], true);
        } else {
            self.put(&name.as_bytes()[..length]);
        }
        self.buffer.name = name;
    }

    /// Whether there were any; `separator` goes before the first.
    fn labels(&mut self, labels: LabelSet<'_>, separator: &[u8]) -> bool {
        match labels {
            LabelSet::Stored(stored) if stored.text.is_empty() => false,
            LabelSet::Stored(stored)
                if stored.legacy || self.negotiated.escaping == Escaping::AllowUtf8 =>
            {
                self.put(separator);
                self.put(stored.text.as_bytes());
                true
            }
            LabelSet::Stored(stored) => {
                let mut separator = separator;
                let mut name = std::mem::take(&mut self.buffer.label);
                for label in Labels::new(&stored.text, Kind::Unknown) {
                    name.clear();
                    label.name.unescape_into(&mut name);
                    self.put(separator);
                    self.label_name(&name);
                    self.put(b"=\"");
                    self.put(label.value.raw().as_bytes());
                    self.put(b"\"");
                    separator = b",";
                }
                self.buffer.label = name;
                true
            }
            LabelSet::Pairs(pairs) => {
                let mut separator = separator;
                for (name, value) in pairs {
                    self.put(separator);
                    self.label_name(name);
                    self.put(b"=\"");
                    self.escaped(value, true);
                    self.put(b"\"");
                    separator = b",";
                }
                !pairs.is_empty()
            }
        }
    }

    fn label_name(&mut self, name: &str) {
        if is_legacy(name) {
            return self.put(name.as_bytes());
        }
        let mut spelt = std::mem::take(&mut self.buffer.scratch);
        spelt.clear();
        self.negotiated.escaping.label_into(name, &mut spelt);
        if is_legacy(&spelt) {
            self.put(spelt.as_bytes());
        } else {
            self.put(b"\"");
            self.escaped(&spelt, true);
            self.put(b"\"");
        }
        self.buffer.scratch = spelt;
    }

    fn value(&mut self, value: Value) {
        let format = self.negotiated.format;
        let room = self.room(SHORT);
        let length = match (format, value) {
            (Format::Text, Value::Float(value)) => write_exposition(value, room),
            (Format::Text, Value::Count(count)) => write_exposition(count as f64, room),
            (Format::OpenMetrics, Value::Float(value)) => write_openmetrics(value, room),
            (Format::OpenMetrics, Value::Count(count)) => {
                let mut digits = itoa::Buffer::new();
                let digits = digits.format(count).as_bytes();
                room[..digits.len()].copy_from_slice(digits);
                digits.len()
            }
        };
        self.length += length;
    }

    /// Milliseconds in text, seconds in OpenMetrics.
    fn timestamp(&mut self, timestamp_ms: i64) {
        let format = self.negotiated.format;
        let room = self.room(SHORT);
        let length = match format {
            Format::Text => write_integer(timestamp_ms, room),
            Format::OpenMetrics => write_openmetrics(timestamp_ms as f64 / 1000.0, room),
        };
        self.length += length;
    }

    /// Writes `text` so that it ends neither the line nor, with `quote`, the quoted token it stands in.
    fn escaped(&mut self, text: &str, quote: bool) {
        let bytes = text.as_bytes();
        let mut begin = 0;
        for (at, byte) in bytes.iter().enumerate() {
            let escape: &[u8] = match byte {
                b'\\' => b"\\\\",
                b'\n' => b"\\n",
                b'"' if quote => b"\\\"",
                _ => continue,
            };
            self.put(&bytes[begin..at]);
            self.put(escape);
            begin = at + 1;
        }
        self.put(&bytes[begin..]);
    }

    /// At least `size` bytes behind what was written, `size` being far below a chunk.
    #[inline]
    fn room(&mut self, size: usize) -> &mut [u8] {
        if CHUNK - self.length < size {
            self.flush();
        }
        &mut self.buffer.bytes[self.length..]
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        match self.buffer.bytes.get_mut(self.length..self.length + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.length += bytes.len();
            }
            None => self.put_across(bytes),
        }
    }

    /// What does not fit goes out in whole chunks.
    #[cold]
    fn put_across(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.length == CHUNK {
                self.flush();
            }
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - self.length));
            self.buffer.bytes[self.length..self.length + now.len()].copy_from_slice(now);
            self.length += now.len();
            bytes = later;
        }
    }

    fn flush(&mut self) {
        if self.length > 0 {
            (self.sink)(&self.buffer.bytes[..self.length]);
            self.length = 0;
        }
    }

    fn finish(mut self) {
        if self.negotiated.format == Format::OpenMetrics {
            self.put(b"# EOF\n");
        }
        self.flush();
    }
}
