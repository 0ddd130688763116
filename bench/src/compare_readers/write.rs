//! A case, written: straight by the writer, or by a registry's collector.

use unladen::Negotiated;
use unladen::collector::Samples;
use wire::exposition::writer::{
    self, Bucket, Buckets, Buffer, Extra, LabelSet, StoredLabels, Summary, Writer, dense, to_io,
};

use crate::draw::Pairs;
use crate::model::{Case, Exemplar, Family, Native, Series, SeriesValue};

/// Where metrics of a family go.
pub trait Out {
    /// See [`Writer::number`].
    fn number(&mut self, labels: LabelSet<'_>, value: writer::Value, extra: &Extra<'_>);
    /// See [`Writer::histogram`].
    fn histogram(&mut self, labels: LabelSet<'_>, buckets: Buckets<'_, Vec<Bucket<'_>>>);
    /// See [`Writer::native_histogram`].
    fn native<P, N>(&mut self, labels: LabelSet<'_>, native: &writer::Native<'_, P, N>)
    where
        P: Iterator<Item = (i32, u64)> + Clone,
        N: DoubleEndedIterator<Item = (i32, u64)> + Clone;
    /// See [`Writer::native_histogram_beside`].
    fn beside<P, N>(
        &mut self,
        labels: LabelSet<'_>,
        native: &writer::Native<'_, P, N>,
        buckets: Buckets<'_, Vec<Bucket<'_>>>,
    ) where
        P: Iterator<Item = (i32, u64)> + Clone,
        N: DoubleEndedIterator<Item = (i32, u64)> + Clone;
    /// See [`Writer::summary`].
    fn summary(&mut self, labels: LabelSet<'_>, summary: &Summary<'_>);
}

macro_rules! out {
    ($type:ty, |$self:ident, $beside_labels:ident, $native:ident, $buckets:ident| $beside:expr) => {
        impl Out for $type {
            fn number(&mut self, labels: LabelSet<'_>, value: writer::Value, extra: &Extra<'_>) {
                <$type>::number(self, labels, value, extra);
            }
            fn histogram(&mut self, labels: LabelSet<'_>, buckets: Buckets<'_, Vec<Bucket<'_>>>) {
                <$type>::histogram(self, labels, buckets);
            }
            fn native<P, N>(&mut self, labels: LabelSet<'_>, native: &writer::Native<'_, P, N>)
            where
                P: Iterator<Item = (i32, u64)> + Clone,
                N: DoubleEndedIterator<Item = (i32, u64)> + Clone,
            {
                self.native_histogram(labels, native);
            }
            fn beside<P, N>(
                &mut $self,
                $beside_labels: LabelSet<'_>,
                $native: &writer::Native<'_, P, N>,
                $buckets: Buckets<'_, Vec<Bucket<'_>>>,
            ) where
                P: Iterator<Item = (i32, u64)> + Clone,
                N: DoubleEndedIterator<Item = (i32, u64)> + Clone,
            {
                $beside
            }
            fn summary(&mut self, labels: LabelSet<'_>, summary: &Summary<'_>) {
                <$type>::summary(self, labels, summary);
            }
        }
    };
}

out!(Writer<'_>, |self, labels, native, buckets| self
    .native_histogram_beside(labels, native, buckets));
// A collector has no call for both; none is drawn for it.
out!(Samples<'_, '_>, |self, labels, _native, buckets| self.histogram(labels, buckets));

/// The case as the writer writes it.
pub fn body(case: &Case) -> Vec<u8> {
    let negotiated = Negotiated { format: case.format, escaping: case.escaping };
    let mut body = Vec::new();
    let written = to_io(&mut Buffer::new(), negotiated, &mut body, |out| {
        out.set_created_lines(case.created_lines);
        for family in &case.families {
            let common = StoredLabels::new(borrowed(&family.common));
            out.family(&writer::Family { common: common.borrow(), ..head(family) });
            family.series.iter().for_each(|series| write(series, out));
        }
    });
    written.expect("a vector takes everything");
    body
}

/// A family as the writer has it, without its common labels.
pub fn head(family: &Family) -> writer::Family<'_> {
    writer::Family {
        unit: &family.unit,
        ..writer::Family::new(&family.name, &family.help, family.kind)
    }
}

/// Names and values, lent.
pub fn borrowed(pairs: &Pairs) -> Vec<(&str, &str)> {
    pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// Writes one series.
pub fn write(series: &Series, out: &mut impl Out) {
    let pairs = borrowed(&series.labels);
    let stored = StoredLabels::new(pairs.iter().copied());
    let labels = if series.is_stored { LabelSet::from(&stored) } else { LabelSet::Pairs(&pairs) };
    let (timestamp_ms, created_ms) = (series.timestamp_ms, series.created_ms);
    match &series.value {
        SeriesValue::Number(value, exemplar) => {
            let lent =
                exemplar.as_ref().map(|exemplar| borrowed(&exemplar.labels)).unwrap_or_default();
            let exemplar = exemplar.as_ref().map(|exemplar| lend(exemplar, &lent));
            out.number(labels, *value, &Extra { timestamp_ms, created_ms, exemplar });
        }
        SeriesValue::Buckets(bounds, counts, sum) => {
            let lent: Vec<_> = counts
                .iter()
                .map(|(_, of)| of.as_ref().map(|of| borrowed(&of.labels)).unwrap_or_default())
                .collect();
            let counts = counts
                .iter()
                .zip(&lent)
                .map(|((count, of), lent)| Bucket {
                    count: *count,
                    exemplar: of.as_ref().map(|of| lend(of, lent)),
                })
                .collect();
            out.histogram(labels, Buckets { bounds, counts, sum: *sum, created_ms, timestamp_ms });
        }
        SeriesValue::Native(native, beside) => {
            self::native(series, native, beside.as_deref(), labels, out)
        }
        SeriesValue::Summary(quantiles, sum, count) => {
            let (sum, count) = (*sum, *count);
            out.summary(labels, &Summary { quantiles, sum, count, created_ms, timestamp_ms });
        }
        SeriesValue::Observed(..) => {}
    }
}

fn native(
    series: &Series,
    native: &Native,
    beside: Option<&[f64]>,
    labels: LabelSet<'_>,
    out: &mut impl Out,
) {
    let lent: Vec<_> = native.exemplars.iter().map(|exemplar| borrowed(&exemplar.labels)).collect();
    let exemplars: Vec<_> =
        native.exemplars.iter().zip(&lent).map(|(exemplar, lent)| lend(exemplar, lent)).collect();
    let (timestamp_ms, created_ms) = (series.timestamp_ms, series.created_ms);
    let written = writer::Native {
        schema: native.schema,
        zero_threshold: native.zero_threshold,
        zero_count: native.zero_count,
        positive: dense(native.positive.0, &native.positive.1),
        negative: dense(native.negative.0, &native.negative.1),
        sum: native.sum,
        count: native.count(),
        exemplars: &exemplars,
        created_ms,
        timestamp_ms,
    };
    let Some(bounds) = beside else { return out.native(labels, &written) };
    let counts = beside_counts(native, bounds).into_iter().map(Bucket::from).collect();
    let buckets = Buckets { bounds, counts, sum: native.sum, created_ms, timestamp_ms };
    out.beside(labels, &written, buckets);
}

/// All observations in the last bucket: where the explicit ones lie is not the native ones' concern, how
/// many there are is.
pub fn beside_counts(native: &Native, bounds: &[f64]) -> Vec<u64> {
    let mut counts = vec![0; bounds.len() + 1];
    counts[bounds.len() / 2] = native.count();
    counts
}

fn lend<'a>(exemplar: &Exemplar, labels: &'a [(&'a str, &'a str)]) -> writer::Exemplar<'a> {
    writer::Exemplar {
        labels: LabelSet::Pairs(labels),
        value: exemplar.value,
        timestamp_ms: exemplar.timestamp_ms,
    }
}
