//! A batch, or some of its points, as the body of a request.

use std::io::Write;
use std::ops::Range;

use flate2::Compression;
use flate2::write::GzEncoder;
use wire::otlp::{self, Buffer, NoAttributes, Writer};

use crate::exemplar::Exemplar;
use crate::reader::{
    Batch, Bounds, Exemplars, ExponentialHistogramPoint, Head, HistogramPoint, Metric, NumberPoint,
    Points, Quantiles, SummaryPoint, Temporality,
};
use crate::shape::Number;

use super::values::{Decoded, Pairs};

/// Whether a batch tells something that no later one tells again.
pub(super) fn has_differences(batch: &Batch<'_>) -> bool {
    batch.metrics().any(|metric| metric.temporality() == Some(Temporality::Delta))
}

/// Makes bodies; keeps its memory for the next.
pub(super) struct Encoder {
    buffer: Buffer,
    decoded: Decoded,
    is_compressed: bool,
    spare: Vec<u8>,
}

impl Encoder {
    pub(super) fn new(is_compressed: bool) -> Self {
        Encoder {
            buffer: Buffer::new(),
            decoded: Decoded::default(),
            is_compressed,
            spare: Vec::new(),
        }
    }

    /// Takes the memory of a body that was sent.
    pub(super) fn recycle(&mut self, body: Vec<u8>) {
        if body.capacity() > self.spare.capacity() {
            self.spare = body;
        }
    }

    /// The body with these points of a batch, counted through all metrics in the order of
    /// [`Batch::scopes`]. None never comes, as a batch does not change.
    pub(super) fn encode(&mut self, batch: &Batch<'_>, points: Range<usize>) -> Option<Vec<u8>> {
        if points.start == 0 {
            self.decoded.prepare(batch);
        }
        let mut body = std::mem::take(&mut self.spare);
        body.clear();
        let decoded = &self.decoded;
        let write = |out: &mut Writer<'_>| write(decoded, batch, &points, out);
        if !self.is_compressed {
            let append = |mut body: Vec<u8>, chunk: &[u8]| {
                body.extend_from_slice(chunk);
                body
            };
            return otlp::fold(&mut self.buffer, body, append, write).ok();
        }
        // Level 1 is four times as fast as the default and leaves a tenth more.
        let gzip = GzEncoder::new(body, Compression::fast());
        let append = |mut gzip: GzEncoder<Vec<u8>>, chunk: &[u8]| {
            // A vector takes everything.
            let _ = gzip.write_all(chunk);
            gzip
        };
        otlp::fold(&mut self.buffer, gzip, append, write).ok()?.finish().ok()
    }
}

fn write(decoded: &Decoded, batch: &Batch<'_>, wanted: &Range<usize>, out: &mut Writer<'_>) {
    let resource = batch.resource();
    let attributes = resource.attributes().map(|(name, value)| (name, value.into()));
    out.resource(&otlp::Resource { attributes, schema_url: resource.schema_url() });
    let mut at = 0;
    for group in batch.scopes() {
        let mut is_told = false;
        for metric in group.metrics() {
            let from = wanted.start.saturating_sub(at);
            let to = wanted.end.saturating_sub(at).min(metric.point_count());
            at += metric.point_count();
            if from >= to {
                continue;
            }
            if !is_told {
                let scope = group.scope();
                out.scope(&otlp::Scope {
                    name: scope.name(),
                    version: scope.version(),
                    attributes: scope.attributes().map(|(name, value)| (name, value.into())),
                    schema_url: scope.schema_url(),
                });
                is_told = true;
            }
            write_metric(decoded, &metric, from, to - from, out);
        }
    }
}

fn write_metric(
    decoded: &Decoded,
    metric: &Metric<'_>,
    from: usize,
    count: usize,
    out: &mut Writer<'_>,
) {
    let head = otlp::Metric {
        name: metric.name(),
        description: metric.description(),
        unit: metric.unit(),
    };
    let temporality = match metric.temporality() {
        Some(Temporality::Delta) => otlp::Temporality::Delta,
        _ => otlp::Temporality::Cumulative,
    };
    match metric.points() {
        Points::Gauge(points) => {
            let point = |point| number(decoded, point, false);
            out.gauge(&head, points.skip(from).take(count).map(point));
        }
        Points::Sum { is_monotonic, points } => {
            let point = |point| number(decoded, point, true);
            out.sum(&head, temporality, is_monotonic, points.skip(from).take(count).map(point));
        }
        Points::Histogram(points) => {
            let point = |point| histogram(decoded, point);
            out.histogram(&head, temporality, points.skip(from).take(count).map(point));
        }
        Points::ExponentialHistogram(points) => {
            let point = |point| exponential(decoded, point);
            out.exponential_histogram(&head, temporality, points.skip(from).take(count).map(point));
        }
        Points::Summary(points) => {
            let point = |point| summary(decoded, point);
            out.summary(&head, points.skip(from).take(count).map(point));
        }
    }
}

/// Exemplars as OTLP has them.
#[derive(Clone)]
struct Examples<'b>(Exemplars<'b>);

impl<'b> Iterator for Examples<'b> {
    type Item = otlp::Exemplar<NoAttributes<'b>>;

    fn next(&mut self) -> Option<Self::Item> {
        let Exemplar { trace, value, time_ms } = self.0.next()?;
        Some(otlp::Exemplar {
            filtered_attributes: NoAttributes::default(),
            time_unix_nano: time_ms.max(&0).unsigned_abs().saturating_mul(1_000_000),
            value: Some(otlp::Number::Double(*value)),
            trace_id: Some(trace.trace_id),
            span_id: Some(trace.span_id),
        })
    }
}

fn examples<'b>(head: &Head<'b>) -> Examples<'b> {
    Examples(head.exemplars.clone())
}

fn number<'a>(
    decoded: &'a Decoded,
    point: NumberPoint<'a>,
    has_start: bool,
) -> otlp::NumberPoint<Pairs<'a>, Examples<'a>> {
    let NumberPoint { head, value } = point;
    let value = match value {
        Number::Signed(value) => otlp::Number::Int(value),
        // OTLP's whole numbers have a sign; beyond that they are as near as can be.
        Number::Unsigned(value) => i64::try_from(value)
            .map_or_else(|_| otlp::Number::Double(value as f64), otlp::Number::Int),
        Number::Float(value) => otlp::Number::Double(value),
    };
    otlp::NumberPoint {
        attributes: decoded.pairs(head.attributes),
        start_time_unix_nano: if has_start { head.start_unix_nano } else { 0 },
        time_unix_nano: head.time_unix_nano,
        value: Some(value),
        exemplars: examples(&head),
        flags: 0,
    }
}

type Counts<'a> = std::iter::Copied<std::slice::Iter<'a, u64>>;

fn histogram<'a>(
    decoded: &'a Decoded,
    point: HistogramPoint<'a>,
) -> otlp::HistogramPoint<Pairs<'a>, Bounds<'a>, Counts<'a>, Examples<'a>> {
    let HistogramPoint { head, bounds, counts, sum } = point;
    otlp::HistogramPoint {
        attributes: decoded.pairs(head.attributes),
        start_time_unix_nano: head.start_unix_nano,
        time_unix_nano: head.time_unix_nano,
        count: counts.iter().sum(),
        // One that an observation made infinite or no number is none.
        sum: sum.is_finite().then_some(sum),
        min: None,
        max: None,
        exemplars: examples(&head),
        bounds,
        counts: counts.iter().copied(),
        flags: 0,
    }
}

fn exponential<'a>(
    decoded: &'a Decoded,
    point: ExponentialHistogramPoint<'a>,
) -> otlp::ExponentialHistogramPoint<Pairs<'a>, Counts<'a>, Examples<'a>> {
    let count = point.count();
    let ExponentialHistogramPoint {
        head,
        scale,
        zero_threshold,
        zero_count,
        sum,
        positive,
        negative,
    } = point;
    let [positive, negative] = [positive, negative]
        .map(|side| otlp::Buckets { offset: side.offset, counts: side.counts.iter().copied() });
    otlp::ExponentialHistogramPoint {
        attributes: decoded.pairs(head.attributes),
        start_time_unix_nano: head.start_unix_nano,
        time_unix_nano: head.time_unix_nano,
        count,
        sum: Some(sum),
        min: None,
        max: None,
        scale,
        zero_count,
        zero_threshold,
        positive,
        negative,
        exemplars: examples(&head),
        flags: 0,
    }
}

fn summary<'a>(
    decoded: &'a Decoded,
    point: SummaryPoint<'a>,
) -> otlp::SummaryPoint<Pairs<'a>, Quantiles<'a>> {
    let SummaryPoint { head, count, sum, quantiles } = point;
    otlp::SummaryPoint {
        attributes: decoded.pairs(head.attributes),
        start_time_unix_nano: head.start_unix_nano,
        time_unix_nano: head.time_unix_nano,
        count,
        sum,
        quantiles,
        flags: 0,
    }
}
