//! Writing a request of OTLP and reading one is steady work: it allocates nothing and frees nothing.

use testkit::allocations::{Count, count};
use wire::otlp::attribute::{Step, Walk, encode_array};
use wire::otlp::reader::{Attributes, Data};
use wire::otlp::{
    AttributeValue, Buckets, Buffer, Exemplar, ExponentialHistogramPoint, HistogramPoint, Metric,
    Number, NumberPoint, PartialSuccess, Request, Resource, Response, Scope, Status, SummaryPoint,
    Temporality, Writer, measure,
};
use wire::protobuf::{CHUNK, Error, Message};

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

/// What a library has of its series.
struct Rows {
    methods: [&'static str; 3],
    /// An encoded array.
    hosts: Vec<u8>,
    bounds: Vec<f64>,
    counts: Vec<u64>,
}

const ROWS: u64 = 3_000;

impl Rows {
    fn new() -> Self {
        let mut hosts = Vec::new();
        encode_array([AttributeValue::Str("a"), AttributeValue::I64(-1)], &mut hosts);
        let bounds = vec![0.1, 1.0, 10.0];
        Rows { methods: ["GET", "PUT", ""], hosts, bounds, counts: vec![0, 1 << 40, 7, u64::MAX] }
    }

    fn attributes(&self, row: u64) -> impl Iterator<Item = (&str, AttributeValue<'_>)> + Clone {
        let method = self.methods[(row % 3) as usize];
        [
            ("method", AttributeValue::Str(method)),
            ("status", AttributeValue::I64(row as i64)),
            ("hosts", AttributeValue::Array(&self.hosts)),
        ]
        .into_iter()
    }

    fn exemplars(
        &self,
        row: u64,
    ) -> impl Iterator<Item = Exemplar<impl Iterator<Item = (&str, AttributeValue<'_>)> + Clone>> + Clone
    {
        (0..row % 2).map(move |_| Exemplar {
            filtered_attributes: self.attributes(row),
            time_unix_nano: row,
            value: Some(Number::Double(0.5)),
            trace_id: Some([7; 16]),
            span_id: Some([8; 8]),
        })
    }

    fn tell(&self, out: &mut Writer<'_>) {
        let metric = |name| Metric { name, description: "Some words.", unit: "s" };
        out.resource(&Resource { attributes: self.attributes(1), schema_url: "https://a.example" });
        let attributes = self.attributes(2);
        out.scope(&Scope { name: "orders", version: "1", attributes, schema_url: "" });
        let numbers = (0..ROWS).map(|row| NumberPoint {
            attributes: self.attributes(row),
            start_time_unix_nano: 1,
            time_unix_nano: row,
            value: Some(if row % 2 == 0 { Number::Int(-1) } else { Number::Double(1.5) }),
            exemplars: self.exemplars(row),
            flags: 0,
        });
        out.sum(&metric("orders"), Temporality::Delta, true, numbers.clone());
        out.gauge(&metric("open"), numbers);
        let histograms = (0..ROWS).map(|row| HistogramPoint {
            attributes: self.attributes(row),
            start_time_unix_nano: 1,
            time_unix_nano: row,
            count: 9,
            sum: Some(2.5),
            min: Some(0.0),
            max: None,
            bounds: self.bounds.iter().copied(),
            counts: self.counts.iter().copied(),
            exemplars: self.exemplars(row),
            flags: 0,
        });
        out.histogram(&metric("latency"), Temporality::Cumulative, histograms);
        let exponential = (0..ROWS).map(|row| ExponentialHistogramPoint {
            attributes: self.attributes(row),
            start_time_unix_nano: 1,
            time_unix_nano: row,
            count: 9,
            sum: Some(2.5),
            min: None,
            max: None,
            scale: -3,
            zero_count: 1,
            zero_threshold: 1e-9,
            positive: Buckets { offset: -7, counts: self.counts.iter().copied() },
            negative: Buckets { offset: 7, counts: self.counts[..1].iter().copied() },
            exemplars: self.exemplars(row),
            flags: 0,
        });
        out.exponential_histogram(&metric("size"), Temporality::Delta, exponential);
        let summaries = (0..ROWS).map(|row| SummaryPoint {
            attributes: self.attributes(row),
            start_time_unix_nano: 1,
            time_unix_nano: row,
            count: 9,
            sum: 2.5,
            quantiles: [(0.5, 1.0), (0.99, 2.0)],
            flags: 0,
        });
        out.summary(&metric("age"), summaries);
    }
}

fn write<'v>(buffer: &mut Buffer, rows: &Rows, into: &'v mut Vec<u8>) -> &'v mut Vec<u8> {
    let measured = measure(buffer, |out| rows.tell(out));
    let length = measured.encoded_len();
    let into = measured
        .fold(into, |into, chunk| {
            into.extend_from_slice(chunk);
            into
        })
        .unwrap();
    assert_eq!(into.len(), length);
    into
}

fn lengths(attributes: Attributes<'_>) -> Result<usize, Error> {
    let mut length = 0;
    for entry in attributes {
        let (key, value) = entry?;
        length += key.len();
        for step in Walk::new(value) {
            length += usize::from(matches!(step?, Step::Value(_)));
        }
    }
    Ok(length)
}

/// Reads the values, and the attributes of some.
fn read(body: &[u8]) -> Result<(u64, usize), Error> {
    let (mut sum, mut length) = (0, 0);
    for resource in Request::new(body).resources() {
        for scope in resource?.scopes {
            for metric in scope?.metrics {
                match metric?.data {
                    Data::Empty => (),
                    Data::Gauge { points } | Data::Sum { points, .. } => {
                        for point in points {
                            let point = point?;
                            length += lengths(point.attributes)?;
                            for exemplar in point.exemplars {
                                length += lengths(exemplar?.filtered_attributes)?;
                            }
                        }
                    }
                    Data::Histogram { points, .. } => {
                        for point in points {
                            let point = point?;
                            sum += point.counts.flatten().fold(0, u64::wrapping_add);
                            length += point.bounds.count();
                        }
                    }
                    Data::ExponentialHistogram { points, .. } => {
                        for point in points {
                            sum += point?.negative.counts.flatten().fold(1, u64::wrapping_add);
                        }
                    }
                    Data::Summary { points } => {
                        for point in points {
                            length += point?.quantiles.count();
                        }
                    }
                }
            }
        }
    }
    Ok((sum, length))
}

#[test]
fn requests_allocate_nothing() {
    let rows = Rows::new();
    let mut buffer = Buffer::new();
    let mut body = Vec::new();
    write(&mut buffer, &rows, &mut body);
    assert!(body.len() > 3 * CHUNK, "several chunks");
    let before = body.clone();
    let kept = buffer.memory_usage();
    let during = count(|| {
        body.clear();
        write(&mut buffer, &rows, &mut body);
    });
    assert_eq!(during, Count::ZERO, "writing");
    assert_eq!(body, before);
    assert_eq!(buffer.memory_usage(), kept);
    assert!(kept <= CHUNK + 256, "a number for each metric and none for a point: {kept}");

    let mut read_back = Ok((0, 0));
    let during = count(|| {
        assert_eq!(Request::new(&body).check(), Ok(5 * ROWS as usize));
        read_back = read(&body);
    });
    assert_eq!(during, Count::ZERO, "reading");
    let (sum, length) = read_back.unwrap();
    assert!(sum > 0 && length > 0);
    let during = count(|| {
        for length in (0..body.len()).step_by(body.len() / 100) {
            assert!(Request::new(&body[..length]).check().is_err() || length == 0);
        }
    });
    assert_eq!(during, Count::ZERO, "refusing");
}

#[test]
fn answers_allocate_nothing() {
    let partial = PartialSuccess { rejected_data_points: 3, error_message: "too old" };
    let response = Response { partial_success: Some(partial) };
    let status = Status { code: 3, message: "no such tenant" };
    let mut bytes = Vec::with_capacity(100);
    let during = count(|| {
        response.write(&mut bytes);
        assert_eq!(Response::read(&bytes), Ok(response));
        bytes.clear();
        status.write(&mut bytes);
        assert_eq!(Status::read(&bytes), Ok(status));
    });
    assert_eq!(during, Count::ZERO);
}
