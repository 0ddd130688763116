//! From families and their metrics to a body, through one buffer into a sink.
//!
//! ```text
//! wire::exposition::writer::fold(&mut buffer, negotiated, state, |state, chunk| …, |out| {
//!     out.family(&Family::new("requests_total", "…", Kind::Counter));
//!     out.number(LabelSet::Pairs(&[("job", "a")]), Value::Count(1), &Extra::NONE);
//! })
//! ```
//! ```text
//! metric    what a caller hands over: families, numbers, histograms, summaries
//! chunk     the buffer
//! heads     what the lines of a family begin with
//! lines     a metric as lines of text 0.0.4 or OpenMetrics 1.0
//! messages  a metric as a protobuf message
//! native    a native histogram for formats that have none
//! spell     labels whose names have to be respelt
//! ```
//! The sink gets chunks of at most 64 KiB in order, never an empty one. Nothing is held beyond one chunk,
//! however many metrics there are.
//!
//! The writer writes what it is told: that a family comes once and a series once is the concern of
//! whoever has the families. It never writes a name, a text or a value that would end a line or a quote,
//! nor a label twice where two names come out the same.

mod chunk;
mod heads;
mod lines;
mod messages;
mod metric;
mod native;
mod spell;

use std::fmt;
use std::io;

pub use super::stored::{LabelSet, LabelsRef, StoredIter, StoredLabels, escape_into};
pub use metric::{Bucket, Buckets, Exemplar, Extra, Family, Native, Summary, Value, dense};

use super::messages::field::METRIC_LABEL;
use super::name::{Escaping, is_legacy};
use super::negotiate::Negotiated;
use super::stored::needs_escape;
use super::{Format, Kind};
use crate::number::SHORT;
use chunk::{Chunk, copy_text};
use heads::{Heads, SHORT_HEAD};
use lines::{Classic, Lines, write_value};
use messages::{Messages, Spelling};
use native::Fewer;
use spell::{Speller, render};

/// What a chunk holds at most.
pub const CHUNK: usize = 64 * 1024;

/// The memory that writing needs. Make one and use it for every body.
pub struct Buffer {
    bytes: Box<[u8]>,
    scratch: Scratch,
}

/// What is kept beside the chunk: it grows to the longest beginning and the longest labels.
#[derive(Default)]
struct Scratch {
    heads: Heads,
    messages: Messages,
    speller: Speller,
    /// The labels that all series of the family have.
    common: String,
    common_legacy: bool,
    /// The labels of a metric, where they have to be escaped or respelt.
    block: String,
    /// The same of an exemplar.
    second: String,
}

impl Buffer {
    /// Allocates [`CHUNK`] bytes. *Setup.*
    pub fn new() -> Self {
        Buffer { bytes: vec![0; CHUNK].into_boxed_slice(), scratch: Scratch::default() }
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

/// Writes families and their metrics.
///
/// After [`family`](Writer::family) come its metrics, each by the call for its kind; one by another call
/// is a bug of the caller's, asserted in debug builds and left out otherwise.
pub struct Writer<'s> {
    out: Chunk<'s>,
    scratch: &'s mut Scratch,
    negotiated: Negotiated,
    /// What the other side asked for.
    asked: Escaping,
    created_lines: bool,
}

impl fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("negotiated", &self.negotiated).finish_non_exhaustive()
    }
}

impl<'s> Writer<'s> {
    fn new(buffer: &'s mut Buffer, negotiated: Negotiated, sink: &'s mut dyn FnMut(&[u8])) -> Self {
        let Buffer { bytes, scratch } = buffer;
        let out = Chunk::new(bytes, sink);
        scratch.messages.reset();
        Writer { out, scratch, negotiated, asked: negotiated.escaping, created_lines: false }
    }

    /// The format of the body.
    pub fn format(&self) -> Format {
        self.negotiated.format
    }

    /// Whether OpenMetrics gets a `_created` line for each metric that has such a time: it makes the body
    /// longer, and Prometheus reads them only when told to. Off at first. Text 0.0.4 has no such lines,
    /// protobuf always has the time.
    pub fn set_created_lines(&mut self, wanted: bool) {
        self.created_lines = wanted;
    }

    /// Whether the families from here on have names in the legacy alphabet only, `_` in place of all
    /// else, even for who can read others. No at first; said before [`name_of`](Writer::name_of) and
    /// [`family`](Writer::family).
    pub fn set_legacy_names(&mut self, wanted: bool) {
        self.negotiated.escaping = match self.asked {
            Escaping::AllowUtf8 if wanted => Escaping::Underscores,
            asked => asked,
        };
    }

    /// The bytes that the current chunk has for metrics. Those whose bounds
    /// ([`number_bound`](Writer::number_bound) and its like) are together at most this much are written
    /// without a call of the sink.
    #[inline]
    pub fn room(&self) -> usize {
        let overhead = match self.negotiated.format {
            Format::Protobuf => self.scratch.messages.overhead(),
            Format::Text | Format::OpenMetrics => 0,
        };
        self.out.room().saturating_sub(overhead)
    }

    /// How many bytes a number of the current family with these labels takes at most, without an
    /// exemplar.
    pub fn number_bound(&self, labels: LabelsRef<'_>) -> usize {
        // The value and a `_created`.
        2 * self.line_bound(labels)
    }

    /// The same of a histogram with so many bounds.
    pub fn histogram_bound(&self, labels: LabelsRef<'_>, bounds: usize) -> usize {
        self.lines_bound(labels, bounds + 4)
    }

    /// The same of a native histogram of which so many buckets hold something, and which has so many
    /// explicit bounds beside.
    pub fn native_bound(&self, labels: LabelsRef<'_>, buckets: usize, bounds: usize) -> usize {
        match self.negotiated.format {
            // A bucket takes a span, three differences and two zeros at most.
            Format::Protobuf => self.histogram_bound(labels, bounds) + 64 * (buckets + 1),
            _ => self.histogram_bound(labels, bounds.max(native::BOUNDS + 1)),
        }
    }

    /// The same of a summary with so many quantiles.
    pub fn summary_bound(&self, labels: LabelsRef<'_>, quantiles: usize) -> usize {
        self.lines_bound(labels, quantiles + 3)
    }

    /// How many bytes an exemplar adds to a metric at most.
    pub fn exemplar_bound(&self, labels: LabelsRef<'_>) -> usize {
        self.labels_bound(labels) + lines::BESIDE
    }

    fn lines_bound(&self, labels: LabelsRef<'_>, lines: usize) -> usize {
        match self.negotiated.format {
            // The labels stand once.
            Format::Protobuf => self.line_bound(labels) + lines * lines::BESIDE,
            _ => lines * self.line_bound(labels),
        }
    }

    /// How many bytes a line takes at most, without an exemplar; a message of so many parts (a number, a
    /// bucket, a quantile, a sum or a count) takes no more than as many lines.
    #[inline]
    pub fn line_bound(&self, labels: LabelsRef<'_>) -> usize {
        let common = LabelsRef::new(&self.scratch.common, self.scratch.common_legacy);
        self.scratch.heads.length()
            + self.labels_bound(common)
            + self.labels_bound(labels)
            + lines::BESIDE
    }

    #[inline]
    fn labels_bound(&self, labels: LabelsRef<'_>) -> usize {
        // A respelt name takes at most four times its bytes, beside three in front, and a label of a
        // message at most as many bytes more as its shortest line has.
        let factor = if labels.is_direct(self.negotiated.escaping) { 2 } else { 5 };
        factor * labels.as_bytes().len()
    }

    /// Hands what is written so far to the sink.
    pub fn flush(&mut self) {
        self.scratch.messages.close(&mut self.out);
        self.out.flush();
    }

    /// The name under which `family` is written: in OpenMetrics a counter's without `_total`, and spelt
    /// as the other side asked. Two families of one such name may not be in one body.
    pub fn name_of(&mut self, family: &Family<'_>) -> &str {
        self.scratch.heads.spell(family, self.negotiated);
        self.scratch.heads.family_name()
    }

    /// Begins a family: its HELP, TYPE and, in OpenMetrics, UNIT.
    pub fn family(&mut self, family: &Family<'_>) {
        let kind = self.same_family(family);
        let format = self.negotiated.format;
        let Scratch { heads, messages, .. } = &mut *self.scratch;
        let out = &mut self.out;
        if format == Format::Protobuf {
            let texts = (heads.family_name(), family.help, family.unit);
            return messages.family(out, texts, kind);
        }
        if !family.help.is_empty() {
            heads.metadata(b"# HELP ", out);
            out.escaped(family.help, format == Format::OpenMetrics);
            out.put(b"\n");
        }
        heads.metadata(b"# TYPE ", out);
        out.put(kind.word(format).as_bytes());
        out.put(b"\n");
        let is_suffix =
            heads.family_name().strip_suffix(family.unit).is_some_and(|rest| rest.ends_with('_'));
        if format == Format::OpenMetrics && !family.unit.is_empty() && is_suffix {
            heads.metadata(b"# UNIT ", out);
            out.escaped(family.unit, true);
            out.put(b"\n");
        }
    }

    /// Goes on with the family that was begun last, under other common labels; gives the kind as which
    /// it is told.
    pub fn same_family(&mut self, family: &Family<'_>) -> Kind {
        let Scratch { heads, common, common_legacy, .. } = &mut *self.scratch;
        let kind = heads.spell(family, self.negotiated);
        common.clear();
        common.push_str(family.common.as_str());
        *common_legacy = family.common.is_legacy();
        heads.prepare(family.common, self.negotiated);
        kind
    }

    /// Writes a counter, a gauge, an info, a state of a state set or something of an unknown kind.
    /// *Steady.*
    #[inline]
    pub fn number(&mut self, labels: LabelSet<'_>, value: Value, extra: &Extra<'_>) {
        let is_plain =
            extra.timestamp_ms.is_none() && extra.created_ms.is_none() && extra.exemplar.is_none();
        let is_written = is_plain
            && match labels {
                _ if self.negotiated.format == Format::Protobuf => {
                    self.short_message(labels, value)
                }
                LabelSet::Stored(stored) => self.short(stored, value),
                LabelSet::Pairs(pairs) => self.short_pairs(pairs, value),
            };
        if !is_written {
            self.long(labels, value, extra);
        }
    }

    /// The line that nearly all lines are. Says whether it was one.
    #[inline]
    fn short(&mut self, labels: LabelsRef<'_>, value: Value) -> bool {
        let (head, head_length) = self.scratch.heads.short();
        if head_length == 0 || labels.is_empty() || !labels.is_direct(self.negotiated.escaping) {
            return false;
        }
        let text = labels.as_bytes();
        let Some(room) = self.out.free(SHORT_HEAD + text.len() + 3 + SHORT) else { return false };
        room[..SHORT_HEAD].copy_from_slice(head);
        let room = &mut room[head_length..];
        copy_text(text, room);
        let room = &mut room[text.len()..];
        room[..2].copy_from_slice(b"} ");
        let length = 2 + write_value(self.negotiated.format, value, &mut room[2..]);
        room[length] = b'\n';
        self.out.advance(head_length + text.len() + length + 1);
        true
    }

    /// The same, of labels that are not escaped yet and don't have to be.
    fn short_pairs(&mut self, pairs: &[(&str, &str)], value: Value) -> bool {
        let (head, head_length) = self.scratch.heads.short();
        let common = LabelsRef::new(&self.scratch.common, self.scratch.common_legacy);
        if head_length == 0 || pairs.is_empty() || !common.is_direct(self.negotiated.escaping) {
            return false;
        }
        let text: usize = pairs.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let Some(room) = self.out.free(SHORT_HEAD + text + 3 + SHORT) else { return false };
        room[..SHORT_HEAD].copy_from_slice(head);
        let mut at = head_length;
        for (name, value) in pairs {
            if !is_legacy(name) || needs_escape(value) {
                return false;
            }
            let (name, value) = (name.as_bytes(), value.as_bytes());
            copy_text(name, &mut room[at..]);
            at += name.len();
            room[at..at + 2].copy_from_slice(b"=\"");
            copy_text(value, &mut room[at + 2..]);
            at += 2 + value.len();
            room[at..at + 2].copy_from_slice(b"\",");
            at += 2;
        }
        // The last comma is the brace's place.
        room[at - 1..=at].copy_from_slice(b"} ");
        at += 1;
        at += write_value(self.negotiated.format, value, &mut room[at..]);
        room[at] = b'\n';
        self.out.advance(at + 1);
        true
    }

    /// The message that nearly all messages are.
    fn short_message(&mut self, labels: LabelSet<'_>, value: Value) -> bool {
        let Scratch { heads, messages, common, common_legacy, .. } = &mut *self.scratch;
        let common = LabelsRef::new(common, *common_legacy);
        let escaping = self.negotiated.escaping;
        let is_direct = match labels {
            LabelSet::Stored(stored) => stored.is_direct(escaping),
            LabelSet::Pairs(pairs) => {
                escaping == Escaping::AllowUtf8 || pairs.iter().all(|(name, _)| is_legacy(name))
            }
        };
        is_direct
            && common.is_direct(escaping)
            && !heads.has_parts()
            && messages.short(&mut self.out, (common, labels), heads.kind(), value)
    }

    #[inline(never)]
    fn long(&mut self, labels: LabelSet<'_>, value: Value, extra: &Extra<'_>) {
        if !self.fits(false) {
            return;
        }
        if self.negotiated.format == Format::Protobuf {
            let kind = self.scratch.heads.kind();
            return self.message(labels, |spelling, out, plain| {
                messages::number(kind, value, extra, spelling, out, plain);
            });
        }
        self.lines(labels, |lines| lines.number(value, extra));
    }

    /// Writes a histogram with explicit bounds; in a family of the kind gauge histogram, one of those.
    /// *Steady.*
    pub fn histogram<'e, C, B>(&mut self, labels: LabelSet<'_>, buckets: Buckets<'_, C>)
    where
        C: IntoIterator<Item = B>,
        B: Into<Bucket<'e>>,
    {
        let Buckets { bounds, counts, sum, created_ms, timestamp_ms } = buckets;
        if !self.fits(true) {
            return;
        }
        let classic = Classic { bounds, sum, count: 0, created_ms, timestamp_ms };
        if self.negotiated.format == Format::Protobuf {
            return self.message(labels, |spelling, out, plain| {
                messages::histogram(&classic, out, |out| {
                    messages::buckets(bounds, counts, spelling, out, plain)
                });
            });
        }
        self.lines(labels, |lines| lines.histogram(counts, &classic));
    }

    /// Writes a native histogram. Text and OpenMetrics can't carry one and get a classic histogram of at
    /// most 21 bounds and `+Inf`, from the native ones taken together two by two until they are few
    /// enough; they follow what was observed. *Steady.*
    ///
    /// Of a family all histograms are native or none is: Prometheus takes the others for what it found
    /// before, and loses what they have.
    pub fn native_histogram<P, N>(&mut self, labels: LabelSet<'_>, native: &Native<'_, P, N>)
    where
        P: Iterator<Item = (i32, u64)> + Clone,
        N: DoubleEndedIterator<Item = (i32, u64)> + Clone,
    {
        if !self.fits(true) {
            return;
        }
        let Native { schema, sum, created_ms, timestamp_ms, .. } = *native;
        let count = native.count_at_least();
        if self.negotiated.format == Format::Protobuf {
            let classic = Classic { bounds: &[], sum, count, created_ms, timestamp_ms };
            return self.message(labels, |spelling, out, plain| {
                messages::histogram(&classic, out, |out| {
                    messages::native(native, spelling, out, plain)
                });
            });
        }
        let zero = (native.zero_threshold, native.zero_count);
        let fewer = Fewer::new(schema, zero, native.positive.clone(), native.negative.clone());
        let bounds = fewer.bounds();
        let classic = Classic { bounds, sum, count, created_ms, timestamp_ms };
        self.lines(labels, |lines| lines.histogram(fewer.counts(), &classic));
    }

    /// Writes a native histogram that keeps explicit bounds beside: protobuf carries both, under the count
    /// of the native ones, text and OpenMetrics the explicit ones. *Steady.*
    pub fn native_histogram_beside<'e, P, N, C, B>(
        &mut self,
        labels: LabelSet<'_>,
        native: &Native<'_, P, N>,
        buckets: Buckets<'_, C>,
    ) where
        P: Iterator<Item = (i32, u64)> + Clone,
        N: DoubleEndedIterator<Item = (i32, u64)> + Clone,
        C: IntoIterator<Item = B>,
        B: Into<Bucket<'e>>,
    {
        if self.negotiated.format != Format::Protobuf {
            return self.histogram(labels, buckets);
        }
        if !self.fits(true) {
            return;
        }
        let Native { sum, created_ms, timestamp_ms, .. } = *native;
        let count = native.count_at_least();
        let Buckets { bounds, counts, .. } = buckets;
        let classic = Classic { bounds, sum, count, created_ms, timestamp_ms };
        self.message(labels, |spelling, out, plain| {
            messages::histogram(&classic, out, |out| {
                messages::buckets(bounds, counts, spelling, out, plain);
                messages::native(native, spelling, out, plain)
            });
        });
    }

    /// Writes a summary. *Steady.*
    pub fn summary(&mut self, labels: LabelSet<'_>, summary: &Summary<'_>) {
        let is_summary = self.scratch.heads.kind() == Kind::Summary;
        debug_assert!(is_summary, "a summary in a family of another kind");
        if !is_summary {
            return;
        }
        if self.negotiated.format == Format::Protobuf {
            return self.message(labels, |_, out, _| messages::summary(summary, out));
        }
        self.lines(labels, |lines| lines.summary(summary));
    }

    /// Whether the current family is of histograms, or of numbers.
    fn fits(&self, histogram: bool) -> bool {
        let fits = match self.scratch.heads.kind() {
            Kind::Histogram | Kind::GaugeHistogram => histogram,
            Kind::Summary => false,
            _ => !histogram,
        };
        debug_assert!(fits, "a metric in a family of another kind");
        fits
    }

    fn lines(&mut self, labels: LabelSet<'_>, write: impl FnOnce(&mut Lines<'_, '_>)) {
        let Negotiated { format, escaping } = self.negotiated;
        let Scratch { heads, speller, common, common_legacy, block, second, .. } =
            &mut *self.scratch;
        let common = LabelsRef::new(common, *common_legacy);
        let (labels, has_common) = render(escaping, common, labels, speller, block);
        write(&mut Lines {
            out: &mut self.out,
            heads,
            speller,
            block: second,
            format,
            escaping,
            created_lines: self.created_lines,
            labels,
            has_common,
        });
    }

    fn message(
        &mut self,
        labels: LabelSet<'_>,
        write: impl FnOnce(&mut Spelling<'_>, &mut Vec<u8>, &mut String),
    ) {
        let escaping = self.negotiated.escaping;
        let Scratch { messages, speller, common, common_legacy, block, .. } = &mut *self.scratch;
        let common = LabelsRef::new(common, *common_legacy);
        let mut spelling = Spelling { escaping, speller, block };
        messages.metric(&mut self.out, |out, plain| {
            spelling.labels(METRIC_LABEL, common, labels, out, plain);
            write(&mut spelling, out, plain);
        });
    }

    fn finish(mut self) {
        if self.negotiated.format == Format::OpenMetrics {
            self.out.put(b"# EOF\n");
        }
        self.flush();
    }
}
