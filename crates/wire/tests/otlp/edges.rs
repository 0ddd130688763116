//! What no invented request reaches.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use prost::Message as _;
use wire::otlp::attribute::{MAX_DEPTH, Walk, encode_array};
use wire::otlp::writer::Writer;
use wire::otlp::{
    AttributeValue, Buffer, Changed, Exemplar, Metric, NoAttributes, NumberPoint, Request,
    Resource, Scope, SummaryPoint, Temporality, fold, measure,
};
use wire::protobuf::{CHUNK, Error, Message, Reason, Sink};

const METRIC: Metric<'static> = Metric { name: "m", description: "", unit: "" };

fn begin(out: &mut Writer<'_>) {
    out.resource(&Resource { attributes: NoAttributes::default(), schema_url: "" });
    let attributes = NoAttributes::default();
    out.scope(&Scope { name: "s", version: "", attributes, schema_url: "" });
}

fn body(write: impl FnMut(&mut Writer<'_>)) -> Result<Vec<u8>, Changed> {
    fold(&mut Buffer::new(), Vec::new(), |so_far, chunk| [&so_far, chunk].concat(), write)
}

fn metrics(body: &[u8]) -> Vec<Data> {
    let request = ExportMetricsServiceRequest::decode(body).unwrap();
    let scopes = request.resource_metrics.into_iter().flat_map(|it| it.scope_metrics);
    scopes.flat_map(|it| it.metrics).filter_map(|it| it.data).collect()
}

#[test]
fn a_negative_zero_is_no_default() {
    let body = body(|out| {
        begin(out);
        let point = SummaryPoint {
            attributes: NoAttributes::default(),
            start_time_unix_nano: 0,
            time_unix_nano: 0,
            count: 0,
            sum: -0.0,
            quantiles: [(0.5, -0.0)],
            flags: 0,
        };
        out.summary(&METRIC, [point]);
    });
    let [Data::Summary(data)] = &metrics(&body.unwrap())[..] else { panic!("one summary") };
    let point = &data.data_points[0];
    assert!(point.sum.is_sign_negative() && point.quantile_values[0].value.is_sign_negative());
}

#[test]
fn strings_longer_than_a_chunk_are_written() {
    let long = "long".repeat(CHUNK);
    let body = body(|out| {
        begin(out);
        let attributes = [("key", AttributeValue::Str(&long)), (&long, 1.into())];
        out.gauge(&METRIC, [NumberPoint::new(attributes, 1, 2, 3)]);
    })
    .unwrap();
    assert!(body.len() > 8 * CHUNK);
    assert_eq!(Request::new(&body).check(), Ok(1));
    let [Data::Gauge(data)] = &metrics(&body)[..] else { panic!("one gauge") };
    assert_eq!(data.data_points[0].attributes[1].key, long);
}

#[test]
fn no_resource_is_an_empty_body() {
    assert_eq!(body(|_| ()), Ok(Vec::new()));
    assert_eq!(Request::new(&[]).check(), Ok(0));
}

/// Tables that are another the second time: more and fewer points, metrics, scopes, and longer values.
#[test]
fn what_changes_between_the_tellings_is_noticed() {
    type Tell = fn(&mut Writer<'_>, usize);
    let points =
        |count: usize| (0..count).map(|_| NumberPoint::new(NoAttributes::default(), 1, 2, 3));
    let _ = points;
    let tellings: [Tell; 6] = [
        |out, round| {
            begin(out);
            let point = NumberPoint::new(NoAttributes::default(), 1, 2, 3);
            out.gauge(&METRIC, std::iter::repeat_n(point, round));
        },
        |out, round| {
            begin(out);
            let point = NumberPoint::new(NoAttributes::default(), 1, 2, 3);
            out.gauge(&METRIC, std::iter::repeat_n(point, 3 - round));
        },
        |out, round| {
            (0..round).for_each(|_| begin(out));
        },
        |out, round| {
            (0..3 - round).for_each(|_| begin(out));
        },
        |out, round| {
            begin(out);
            let attributes = [("key", AttributeValue::Str(&"xxxx"[..round]))];
            out.gauge(&METRIC, [NumberPoint::new(attributes, 1, 2, 3)]);
        },
        |out, round| {
            begin(out);
            for _ in 0..round {
                let point = NumberPoint::new(NoAttributes::default(), 1, 2, 3);
                out.sum(&METRIC, Temporality::Delta, true, [point]);
            }
        },
    ];
    for (index, tell) in tellings.into_iter().enumerate() {
        let mut round = 0;
        let written = body(|out| {
            round += 1;
            tell(out, round);
        });
        assert_eq!(written, Err(Changed), "telling {index}");
        assert!(body(|out| tell(out, 1)).is_ok(), "telling {index}");
    }
}

#[test]
fn a_measured_request_can_be_let_go_and_its_buffer_used_again() {
    // Two bytes each of resource metrics, resource, scope metrics and scope, three of the scope's name.
    let mut buffer = Buffer::new();
    assert_eq!(measure(&mut buffer, begin).encoded_len(), 11);
    let length = measure(&mut buffer, begin).fold(0, |length, chunk| length + chunk.len());
    assert_eq!(length, Ok(11));
}

#[test]
fn values_nested_too_deeply_are_refused_with_their_place() {
    let mut bytes = Vec::new();
    for depth in 1..=MAX_DEPTH + 1 {
        let walk = Walk::new(AttributeValue::Array(&bytes));
        let steps: Result<Vec<_>, Error> = walk.collect();
        let body = body(|out| {
            begin(out);
            let attributes = [("key", AttributeValue::Array(&bytes))];
            out.gauge(&METRIC, [NumberPoint::new(attributes, 1, 2, 3)]);
        })
        .unwrap();
        let checked = Request::new(&body).check();
        if depth <= MAX_DEPTH {
            assert_eq!(steps.map(|steps| steps.len()), Ok(2 * depth));
            assert_eq!(checked, Ok(1));
        } else {
            assert_eq!(steps, Err(Error { offset: 4 * MAX_DEPTH, reason: Reason::TooDeep }));
            let expected = Error { offset: body.len(), reason: Reason::TooDeep };
            assert_eq!(checked, Err(expected));
        }
        let mut outer = Vec::new();
        encode_array([AttributeValue::Array(&bytes)], &mut outer);
        bytes = outer;
    }
}

#[test]
fn ids_of_another_length_are_refused() {
    for (length, accepted) in [(0, true), (1, false), (15, false), (16, true), (17, false)] {
        let mut exemplar = Vec::new();
        exemplar.bytes(5, &vec![1; length]);
        let mut point = Vec::new();
        point.bytes(5, &exemplar);
        let mut bytes = Vec::new();
        // Request, resource, scope, metric, gauge.
        for field in [1, 5, 2, 2, 1] {
            bytes.clear();
            bytes.bytes(field, &point);
            std::mem::swap(&mut point, &mut bytes);
        }
        let checked = Request::new(&point).check();
        assert_eq!(checked.is_ok(), accepted, "{length}");
        if let Err(error) = checked {
            assert_eq!(error, Error { offset: point.len() - length, reason: Reason::Value });
        }
    }
}

#[test]
fn fields_of_a_later_version_are_passed_over() {
    let exemplar: Exemplar<NoAttributes<'_>> = Exemplar {
        filtered_attributes: NoAttributes::default(),
        time_unix_nano: 7,
        value: None,
        trace_id: None,
        span_id: None,
    };
    let mut bytes = Vec::new();
    bytes.uint64(99, 1);
    exemplar.write(&mut bytes);
    bytes.string(1000, "later");
    bytes.fixed32(17, 1);
    let mut point = Vec::new();
    point.bytes(5, &bytes);
    let mut list = Vec::new();
    for field in [1, 5, 2, 2, 1] {
        list.clear();
        list.string(500, "later");
        list.bytes(field, &point);
        std::mem::swap(&mut point, &mut list);
    }
    assert_eq!(Request::new(&point).check(), Ok(1));
}
