//! A request, written.

use wire::otlp::writer::Writer;
use wire::otlp::{
    Buckets, Buffer, ExponentialHistogramPoint, HistogramPoint, NumberPoint, Resource, Scope,
    SummaryPoint, fold,
};

use super::model::{Example, Kind, Metric, Request};

/// The request as a body.
///
/// # Errors
/// The writer found that it was told something else the second time.
pub fn body(request: &Request) -> Result<Vec<u8>, String> {
    let append = |mut body: Vec<u8>, chunk: &[u8]| {
        body.extend_from_slice(chunk);
        body
    };
    fold(&mut Buffer::new(), Vec::new(), append, |out| {
        for resource in request {
            let attributes = resource.attributes.lend();
            out.resource(&Resource { attributes, schema_url: &resource.schema_url });
            for scope in &resource.members {
                out.scope(&Scope {
                    name: &scope.name,
                    version: &scope.version,
                    attributes: scope.attributes.lend(),
                    schema_url: &scope.schema_url,
                });
                scope.members.iter().for_each(|metric| write(metric, out));
            }
        }
    })
    .map_err(|error| error.to_string())
}

fn write(metric: &Metric, out: &mut Writer<'_>) {
    let (head, since) = (metric.head(), metric.temporality);
    let numbers = metric.points.iter().map(|point| NumberPoint {
        attributes: point.attributes.lend(),
        start_time_unix_nano: point.start,
        time_unix_nano: point.time,
        value: point.value,
        exemplars: point.exemplars.iter().map(Example::lend),
        flags: point.flags,
    });
    match metric.kind {
        Kind::Gauge => out.gauge(&head, numbers),
        Kind::Sum { is_monotonic } => out.sum(&head, since, is_monotonic, numbers),
        Kind::Histogram => {
            let points = metric.points.iter().map(|point| HistogramPoint {
                attributes: point.attributes.lend(),
                start_time_unix_nano: point.start,
                time_unix_nano: point.time,
                count: point.count,
                sum: point.totals[0],
                min: point.totals[1],
                max: point.totals[2],
                bounds: point.doubles.iter().copied(),
                counts: point.counts.iter().copied(),
                exemplars: point.exemplars.iter().map(Example::lend),
                flags: point.flags,
            });
            out.histogram(&head, since, points);
        }
        Kind::Exponential => {
            let points = metric.points.iter().map(|point| ExponentialHistogramPoint {
                attributes: point.attributes.lend(),
                start_time_unix_nano: point.start,
                time_unix_nano: point.time,
                count: point.count,
                sum: point.totals[0],
                min: point.totals[1],
                max: point.totals[2],
                scale: point.integers[0],
                zero_count: point.zero_count,
                zero_threshold: point.zero_threshold,
                positive: Buckets {
                    offset: point.integers[1],
                    counts: point.counts.iter().copied(),
                },
                negative: Buckets {
                    offset: point.integers[2],
                    counts: point.below.iter().copied(),
                },
                exemplars: point.exemplars.iter().map(Example::lend),
                flags: point.flags,
            });
            out.exponential_histogram(&head, since, points);
        }
        Kind::Summary => {
            let points = metric.points.iter().map(|point| SummaryPoint {
                attributes: point.attributes.lend(),
                start_time_unix_nano: point.start,
                time_unix_nano: point.time,
                count: point.count,
                sum: point.totals[0].unwrap_or_default(),
                quantiles: point.quantiles(),
                flags: point.flags,
            });
            out.summary(&head, points);
        }
    }
}
