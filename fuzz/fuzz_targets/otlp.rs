//! OTLP: whatever a request's bytes are, reading ends, with an error inside them or with points; what was
//! read and is written again has the length that was measured for it, is read as the same, and is written
//! as the same bytes from then on. Answers and bare fields likewise.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::otlp::reader::{Attributes, Counts, Data, Exemplars, MetricPoints};
use wire::otlp::{
    AttributeValue, Buckets, Buffer, Exemplar, ExponentialHistogramPoint, HistogramPoint,
    NumberPoint, Request, Resource, Response, Scope, Status, SummaryPoint, Writer, measure,
};
use wire::protobuf::{Error, Message, Reader, Sink, Value};

type Read<T> = Result<T, Error>;

fn exemplars<'a>(
    list: Exemplars<'a>,
) -> impl Iterator<Item = Exemplar<impl Iterator<Item = (&'a str, AttributeValue<'a>)> + Clone>> + Clone
{
    list.flatten().map(|it| Exemplar {
        filtered_attributes: it.filtered_attributes.flatten(),
        time_unix_nano: it.time_unix_nano,
        value: it.value,
        trace_id: it.trace_id,
        span_id: it.span_id,
    })
}

fn numbers<'a>(
    points: impl Iterator<Item = Read<NumberPoint<Attributes<'a>, Exemplars<'a>>>>,
) -> impl Iterator<
    Item = NumberPoint<
        impl Iterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
        impl Iterator<Item = Exemplar<impl Iterator<Item = (&'a str, AttributeValue<'a>)> + Clone>>
        + Clone,
    >,
> {
    points.flatten().map(|it| NumberPoint {
        attributes: it.attributes.flatten(),
        start_time_unix_nano: it.start_time_unix_nano,
        time_unix_nano: it.time_unix_nano,
        value: it.value,
        exemplars: exemplars(it.exemplars),
        flags: it.flags,
    })
}

fn buckets<'a>(buckets: Buckets<Counts<'a>>) -> Buckets<impl Iterator<Item = u64> + Clone + 'a> {
    Buckets { offset: buckets.offset, counts: buckets.counts.flatten() }
}

fn tell_metric(out: &mut Writer<'_>, MetricPoints { metric, data }: MetricPoints<'_>) {
    match data {
        Data::Empty => (),
        Data::Gauge { points } => out.gauge(&metric, numbers(points)),
        Data::Sum { temporality, monotonic, points } => {
            out.sum(&metric, temporality, monotonic, numbers(points));
        }
        Data::Histogram { temporality, points } => {
            let points = points.flatten().map(|it| HistogramPoint {
                attributes: it.attributes.flatten(),
                start_time_unix_nano: it.start_time_unix_nano,
                time_unix_nano: it.time_unix_nano,
                count: it.count,
                sum: it.sum,
                min: it.min,
                max: it.max,
                bounds: it.bounds.flatten(),
                counts: it.counts.flatten(),
                exemplars: exemplars(it.exemplars),
                flags: it.flags,
            });
            out.histogram(&metric, temporality, points);
        }
        Data::ExponentialHistogram { temporality, points } => {
            let points = points.flatten().map(|it| ExponentialHistogramPoint {
                attributes: it.attributes.flatten(),
                start_time_unix_nano: it.start_time_unix_nano,
                time_unix_nano: it.time_unix_nano,
                count: it.count,
                sum: it.sum,
                min: it.min,
                max: it.max,
                scale: it.scale,
                zero_count: it.zero_count,
                zero_threshold: it.zero_threshold,
                positive: buckets(it.positive),
                negative: buckets(it.negative),
                exemplars: exemplars(it.exemplars),
                flags: it.flags,
            });
            out.exponential_histogram(&metric, temporality, points);
        }
        Data::Summary { points } => {
            let points = points.flatten().map(|it| SummaryPoint {
                attributes: it.attributes.flatten(),
                start_time_unix_nano: it.start_time_unix_nano,
                time_unix_nano: it.time_unix_nano,
                count: it.count,
                sum: it.sum,
                quantiles: it.quantiles.flatten(),
                flags: it.flags,
            });
            out.summary(&metric, points);
        }
    }
}

/// What `body` says, written by us. It was checked, so that nothing is lost where errors are passed over.
fn rewritten(body: &[u8]) -> Vec<u8> {
    let mut buffer = Buffer::new();
    let measured = measure(&mut buffer, |out| {
        for it in Request::new(body).resources().flatten() {
            let attributes = it.resource.attributes.flatten();
            out.resource(&Resource { attributes, schema_url: it.resource.schema_url });
            for it in it.scopes.flatten() {
                out.scope(&Scope {
                    name: it.scope.name,
                    version: it.scope.version,
                    attributes: it.scope.attributes.flatten(),
                    schema_url: it.scope.schema_url,
                });
                it.metrics.flatten().for_each(|metric| tell_metric(out, metric));
            }
        }
    });
    let length = measured.encoded_len();
    let written = measured.fold(Vec::new(), |so_far, chunk| [&so_far, chunk].concat());
    let written = written.expect("the bytes are the same both times");
    assert_eq!(written.len(), length);
    written
}

fn request(body: &[u8]) {
    match Request::new(body).check() {
        Err(error) => assert!(error.offset <= body.len(), "{error}"),
        Ok(points) => {
            let once = rewritten(body);
            assert_eq!(Request::new(&once).check(), Ok(points));
            assert!(rewritten(&once) == once);
        }
    }
}

fn answers(body: &[u8]) {
    let mut written = Vec::new();
    if let Ok(response) = Response::read(body) {
        response.write(&mut written);
        assert_eq!(Response::read(&written), Ok(response));
    }
    written.clear();
    if let Ok(status) = Status::read(body) {
        status.write(&mut written);
        assert_eq!(Status::read(&written), Ok(status));
    }
}

fn fields(body: &[u8]) {
    let mut written = Vec::new();
    let mut values = Vec::new();
    for field in Reader::new(body) {
        let field = match field {
            Ok(field) => field,
            Err(error) => return assert!(error.offset <= body.len(), "{error}"),
        };
        match field.value {
            Value::Varint(value) => written.uint64(field.number, value),
            Value::Fixed64(value) => written.fixed64(field.number, value),
            Value::Fixed32(value) => written.fixed32(field.number, value),
            Value::Bytes(value) => written.bytes(field.number, value),
        }
        values.push((field.number, field.value));
    }
    let again = Reader::new(&written).map(|field| field.map(|it| (it.number, it.value)));
    assert!(again.eq(values.into_iter().map(Ok)));
}

fuzz_target!(|body: &[u8]| {
    request(body);
    answers(body);
    fields(body);
});
