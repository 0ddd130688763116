//! A metric as lines: text 0.0.4 and OpenMetrics 1.0.

use super::chunk::Chunk;
use super::heads::{Heads, Suffix};
use super::metric::{Bucket, Exemplar, Extra, Summary, Value};
use super::spell::{Speller, render};
use crate::exposition::name::Escaping;
use crate::exposition::stored::{LabelsRef, NUL};
use crate::exposition::{Format, Kind};
use crate::number::{
    SHORT, write_count, write_exposition, write_integer, write_openmetrics, write_signed,
};

/// Room for what a line holds beside its beginning, its labels, and its exemplar: ` ` and a value, `,le="`
/// and a bound, ` ` and a timestamp, braces, and the end of the line.
pub(super) const BESIDE: usize = 3 * SHORT + 32;

/// What a histogram, of either sort, comes down to.
pub(super) struct Classic<'a> {
    pub(super) bounds: &'a [f64],
    pub(super) sum: f64,
    /// At least this is `_count`, if there are observations that no bucket holds.
    pub(super) count: u64,
    pub(super) created_ms: Option<i64>,
    pub(super) timestamp_ms: Option<i64>,
}

/// Writes the lines of one metric.
pub(super) struct Lines<'w, 's> {
    pub(super) out: &'w mut Chunk<'s>,
    pub(super) heads: &'w Heads,
    pub(super) speller: &'w mut Speller,
    /// For the labels of exemplars.
    pub(super) block: &'w mut String,
    pub(super) format: Format,
    pub(super) escaping: Escaping,
    /// `_created` lines are wanted.
    pub(super) created_lines: bool,
    /// The labels as they are written.
    pub(super) labels: &'w str,
    /// The common ones are among them.
    pub(super) has_common: bool,
}

impl Lines<'_, '_> {
    /// A line of one value.
    pub(super) fn number(&mut self, value: Value, extra: &Extra<'_>) {
        if self.is_untellable(extra.timestamp_ms) {
            return;
        }
        self.begin(Suffix::Own, None);
        self.out.put(b" ");
        self.value(value);
        self.timestamp(extra.timestamp_ms);
        if self.heads.kind() == Kind::Counter {
            self.exemplar(extra.exemplar.as_ref());
        }
        self.out.put(b"\n");
        if self.heads.kind() == Kind::Counter {
            self.created(extra.created_ms, extra.timestamp_ms);
        }
    }

    /// Lines of a histogram whose buckets are not cumulative.
    pub(super) fn histogram<'e, B: Into<Bucket<'e>>>(
        &mut self,
        counts: impl IntoIterator<Item = B>,
        of: &Classic<'_>,
    ) {
        if self.is_untellable(of.timestamp_ms) {
            return;
        }
        let bounds = match of.bounds {
            [rest @ .., last] if *last == f64::INFINITY => rest,
            all => all,
        };
        let mut counts = counts.into_iter().map(Into::into);
        let mut total = 0u64;
        for bound in bounds {
            let bucket: Bucket<'_> = counts.next().unwrap_or_default();
            total = total.saturating_add(bucket.count);
            self.bucket(*bound, total, bucket.exemplar.as_ref(), of.timestamp_ms);
        }
        let mut exemplar = None;
        for bucket in counts {
            total = total.saturating_add(bucket.count);
            exemplar = bucket.exemplar.or(exemplar);
        }
        total = total.max(of.count);
        self.bucket(f64::INFINITY, total, exemplar.as_ref(), of.timestamp_ms);
        self.part(Suffix::Sum, Value::Float(of.sum), of.timestamp_ms);
        self.part(Suffix::Count, Value::Count(total), of.timestamp_ms);
        if self.heads.kind() == Kind::Histogram {
            self.created(of.created_ms, of.timestamp_ms);
        }
    }

    /// Lines of a summary.
    pub(super) fn summary(&mut self, summary: &Summary<'_>) {
        if self.is_untellable(summary.timestamp_ms) {
            return;
        }
        for (quantile, value) in summary.quantiles {
            self.begin(Suffix::Own, Some(("quantile", *quantile)));
            self.out.put(b" ");
            self.value(Value::Float(*value));
            self.timestamp(summary.timestamp_ms);
            self.out.put(b"\n");
        }
        self.part(Suffix::Sum, Value::Float(summary.sum), summary.timestamp_ms);
        self.part(Suffix::Count, Value::Count(summary.count), summary.timestamp_ms);
        self.created(summary.created_ms, summary.timestamp_ms);
    }

    fn bucket(
        &mut self,
        bound: f64,
        count: u64,
        exemplar: Option<&Exemplar<'_>>,
        timestamp_ms: Option<i64>,
    ) {
        self.begin(Suffix::Bucket, Some(("le", bound)));
        self.out.put(b" ");
        self.value(Value::Count(count));
        self.timestamp(timestamp_ms);
        self.exemplar(exemplar);
        self.out.put(b"\n");
    }

    fn part(&mut self, suffix: Suffix, value: Value, timestamp_ms: Option<i64>) {
        self.begin(suffix, None);
        self.out.put(b" ");
        self.value(value);
        self.timestamp(timestamp_ms);
        self.out.put(b"\n");
    }

    /// Text 0.0.4 has digits only for a timestamp, OpenMetrics what [`seconds`] gives.
    fn is_untellable(&self, timestamp_ms: Option<i64>) -> bool {
        timestamp_ms.is_some_and(|ms| match self.format {
            Format::Text => ms < 0,
            _ => seconds(ms).is_none(),
        })
    }

    /// Name and labels, in one piece where a chunk holds the line.
    fn begin(&mut self, suffix: Suffix, bound: Option<(&str, f64)>) {
        let head = self.heads.labelled(suffix, self.has_common);
        self.out.reserve(head.len() + self.labels.len() + BESIDE);
        let Some((name, bound)) = bound else {
            if self.labels.is_empty() {
                return self.out.put(self.heads.bare(suffix));
            }
            self.out.put(head);
            self.out.put(self.labels.as_bytes());
            return self.out.put(b"}");
        };
        self.out.put(head);
        self.out.put(self.labels.as_bytes());
        self.out.put(if self.labels.is_empty() { b"" } else { b"," });
        self.out.put(name.as_bytes());
        self.out.put(b"=\"");
        self.value(Value::Float(bound));
        self.out.put(b"\"}");
    }

    fn value(&mut self, value: Value) {
        let format = self.format;
        self.out.number(SHORT, |room| write_value(format, value, room));
    }

    /// Milliseconds in text, seconds in OpenMetrics.
    fn timestamp(&mut self, timestamp_ms: Option<i64>) {
        let Some(timestamp_ms) = timestamp_ms else { return };
        if self.format == Format::OpenMetrics {
            let Some(seconds) = seconds(timestamp_ms) else { return };
            self.out.put(b" ");
            return self.value(Value::Float(seconds));
        }
        self.out.put(b" ");
        self.out.number(SHORT, |room| write_integer(timestamp_ms, room));
    }

    fn exemplar(&mut self, exemplar: Option<&Exemplar<'_>>) {
        let (Some(exemplar), Format::OpenMetrics) = (exemplar, self.format) else { return };
        let none = LabelsRef::EMPTY;
        let (labels, _) = render(self.escaping, none, exemplar.labels, self.speller, self.block);
        self.out.put(b" # {");
        for (index, part) in labels.split('\0').enumerate() {
            self.out.put(if index > 0 { NUL.as_bytes() } else { b"" });
            self.out.put(part.as_bytes());
        }
        self.out.put(b"} ");
        self.value(Value::Float(exemplar.value));
        self.timestamp(exemplar.timestamp_ms);
    }

    fn created(&mut self, created_ms: Option<i64>, timestamp_ms: Option<i64>) {
        let is_wanted = self.created_lines && self.format == Format::OpenMetrics;
        let Some(created) = created_ms.filter(|_| is_wanted).and_then(seconds) else { return };
        self.part(Suffix::Created, Value::Float(created), timestamp_ms);
    }
}

/// Seconds as OpenMetrics tells a time. None for the outermost of `i64`, which floating point rounds to
/// more milliseconds than a reader can hold: it would refuse the whole body.
fn seconds(milliseconds: i64) -> Option<f64> {
    let seconds = milliseconds as f64 / 1000.0;
    ((seconds * 1000.0).abs() < i64::MAX as f64).then_some(seconds)
}

/// Writes `value` as a sample of `format` has it; `out` holds at least [`SHORT`] bytes.
#[inline]
pub(super) fn write_value(format: Format, value: Value, out: &mut [u8]) -> usize {
    if format == Format::OpenMetrics {
        return match value {
            Value::Float(value) => write_openmetrics(value, out),
            Value::Integer(integer) => write_integer(integer, out),
            Value::Count(count) => {
                let mut digits = itoa::Buffer::new();
                let digits = digits.format(count).as_bytes();
                out[..digits.len()].copy_from_slice(digits);
                digits.len()
            }
        };
    }
    match value {
        Value::Float(value) => write_exposition(value, out),
        Value::Count(count) => write_count(count, out),
        Value::Integer(integer) => write_signed(integer, out),
    }
}
