//! OTLP: nanoseconds per point of a sum with three string attributes, measured and written, and read,
//! beside the types that prost generates. `cargo bench -p wire --bench otlp`; with `--test` it runs small,
//! to see that it works.
//!
//! `ns_per_point` is both steps of the writer, measuring and writing into a sink that adds up the
//! lengths. `prost_ready` encodes a tree of messages that is there already into a buffer that is kept;
//! `prost_built` makes the tree first, as who has columns and not messages must. `read` is a check of all
//! and then every value and attribute once; `prost_read` makes the tree.
#![expect(clippy::print_stdout, reason = "its output is the result")]

use std::hint::black_box;
use std::time::Instant;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1 as proto;
use prost::Message as _;
use testkit::allocations::{Count, count};
use wire::otlp::reader::Data;
use wire::otlp::{
    AttributeValue, Buffer, Metric, NoAttributes, Number, NumberPoint, Request, Resource, Scope,
    Temporality, Writer, measure,
};

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

const KEYS: [&str; 3] = ["vhost", "queue", "node"];
const START: u64 = 1_700_000_000_000_000_000;
const TIME: u64 = START + 15_000_000_000;

/// The columns of a sum.
struct Columns {
    attributes: Vec<[String; 3]>,
    values: Vec<i64>,
}

impl Columns {
    fn new(points: usize) -> Self {
        let attributes = (0..points).map(|point| {
            ["/".to_owned(), format!("queue-{point:06}"), format!("rabbit@host-{}", point % 7)]
        });
        let values = (0..points as i64).map(|point| point * 1_000_003).collect();
        Columns { attributes: attributes.collect(), values }
    }

    fn tell(&self, out: &mut Writer<'_>) {
        let attributes = NoAttributes::default();
        out.resource(&Resource { attributes: attributes.clone(), schema_url: "" });
        out.scope(&Scope { name: "bench", version: "", attributes, schema_url: "" });
        let metric = Metric { name: "messages", description: "", unit: "1" };
        let points = self.attributes.iter().zip(&self.values).map(|(values, value)| {
            let attributes =
                KEYS.into_iter().zip(values.iter().map(|value| AttributeValue::Str(value)));
            NumberPoint::new(attributes, START, TIME, *value)
        });
        out.sum(&metric, Temporality::Cumulative, true, points);
    }

    fn tree(&self) -> ExportMetricsServiceRequest {
        let data_points = self.attributes.iter().zip(&self.values).map(|(values, value)| {
            let attributes = KEYS.iter().zip(values).map(|(key, value)| KeyValue {
                key: (*key).to_owned(),
                value: Some(AnyValue { value: Some(Value::StringValue(value.clone())) }),
                key_strindex: 0,
            });
            proto::NumberDataPoint {
                attributes: attributes.collect(),
                start_time_unix_nano: START,
                time_unix_nano: TIME,
                exemplars: Vec::new(),
                flags: 0,
                value: Some(proto::number_data_point::Value::AsInt(*value)),
            }
        });
        let sum = proto::Sum {
            data_points: data_points.collect(),
            aggregation_temporality: 2,
            is_monotonic: true,
        };
        let metric = proto::Metric {
            name: "messages".to_owned(),
            unit: "1".to_owned(),
            data: Some(proto::metric::Data::Sum(sum)),
            ..Default::default()
        };
        let scope = InstrumentationScope { name: "bench".to_owned(), ..Default::default() };
        let scope_metrics = vec![proto::ScopeMetrics {
            scope: Some(scope),
            metrics: vec![metric],
            schema_url: String::new(),
        }];
        let resource = Some(opentelemetry_proto::tonic::resource::v1::Resource::default());
        let resource_metrics =
            vec![proto::ResourceMetrics { resource, scope_metrics, schema_url: String::new() }];
        ExportMetricsServiceRequest { resource_metrics }
    }
}

/// Every value and the bytes of every attribute.
fn read(body: &[u8]) -> (i64, usize) {
    let (mut sum, mut bytes) = (0i64, 0);
    for resource in Request::new(body).resources().flatten() {
        for metric in resource.scopes.flatten().flat_map(|scope| scope.metrics).flatten() {
            let Data::Sum { points, .. } = metric.data else { continue };
            for point in points.flatten() {
                if let Some(Number::Int(value)) = point.value {
                    sum = sum.wrapping_add(value);
                }
                for (key, value) in point.attributes.flatten() {
                    let AttributeValue::Str(value) = value else { continue };
                    bytes += key.len() + value.len();
                }
            }
        }
    }
    (sum, bytes)
}

/// The median of the runs, in nanoseconds for each point.
fn median(runs: usize, points: usize, run: impl FnMut()) -> f64 {
    quantile(runs, 0.5, points, run)
}

/// The fast end of the runs: what the work takes between the interruptions by others.
fn undisturbed(runs: usize, points: usize, run: impl FnMut()) -> f64 {
    quantile(4 * runs, 0.05, points, run)
}

fn quantile(runs: usize, at: f64, points: usize, mut run: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_nanos() as f64 / points as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[(runs as f64 * at) as usize]
}

fn main() {
    let small = std::env::args().any(|argument| argument == "--test");
    let (points, runs) = if small { (1_000, 3) } else { (10_000, 201) };
    let columns = Columns::new(points);
    let mut buffer = Buffer::new();
    let mut body = Vec::new();
    let mut into_body = |_: (), chunk: &[u8]| body.extend_from_slice(chunk);
    measure(&mut buffer, |out| columns.tell(out)).fold((), &mut into_body).expect("it is stable");
    let tree = columns.tree();
    assert!(body == tree.encode_to_vec(), "the same bytes as the generated encoder's");

    let mut length = 0;
    let mut write = || {
        let measured = measure(&mut buffer, |out| columns.tell(out));
        let written = measured.fold(0, |so_far, chunk| so_far + black_box(chunk).len());
        length = written.expect("it is stable");
    };
    let allocated = count(&mut write);
    let ns = median(runs, points, &mut write);
    let fast_ns = undisturbed(runs, points, &mut write);
    assert_eq!(length, body.len());
    assert_eq!(allocated, Count::ZERO);
    let measuring = median(runs, points, || {
        black_box(measure(&mut buffer, |out| columns.tell(out)).encoded_len());
    });
    let mut kept = Vec::with_capacity(body.len());
    let ready = median(runs, points, || {
        kept.clear();
        tree.encode(&mut kept).expect("a Vec takes it");
        black_box(&kept);
    });
    let built = median(runs / 4 + 1, points, || {
        kept.clear();
        columns.tree().encode(&mut kept).expect("a Vec takes it");
        black_box(&kept);
    });
    let reading = median(runs, points, || {
        assert_eq!(Request::new(&body).check(), Ok(points));
        assert_eq!(read(black_box(&body)).0, columns.values.iter().sum::<i64>());
    });
    let prost_reading = median(runs / 4 + 1, points, || {
        black_box(ExportMetricsServiceRequest::decode(black_box(body.as_slice())).is_ok());
    });
    println!("{points} points, {} bytes", body.len());
    println!(
        "RESULT otlp ns_per_point={ns:.1} undisturbed_ns={fast_ns:.1} measure_ns={measuring:.1} prost_ready_ns={ready:.1} \
         prost_built_ns={built:.1} read_ns={reading:.1} prost_read_ns={prost_reading:.1} \
         vs_prost_ready={:.2} vs_prost_built={:.1} allocations={}",
        ready / ns,
        built / ns,
        allocated.allocations,
    );
}
