//! Requests as the generated types have them, invented.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::metrics::v1 as proto;
use opentelemetry_proto::tonic::resource::v1::Resource;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proto::exponential_histogram_data_point::Buckets;
use proto::summary_data_point::ValueAtQuantile;

/// Any double, the odd ones often. Bits, because what is not a number equals nothing.
fn double() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::MIN_POSITIVE / 2.0),
        any::<u64>().prop_map(f64::from_bits),
    ]
}

/// For fields that are left out at 0: prost leaves out -0 too, where others write it, and so do we.
fn implicit_double() -> impl Strategy<Value = f64> {
    double().prop_map(|value| if value == 0.0 { 0.0 } else { value })
}

fn int() -> impl Strategy<Value = i64> {
    prop_oneof![Just(0), Just(-1), Just(i64::MIN), Just(i64::MAX), -300..300i64, any::<i64>()]
}

fn unsigned() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), 0..300u64, any::<u64>()]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z.]{1,12}", ".{0,40}", Just("long".repeat(50))]
}

pub(crate) fn value() -> impl Strategy<Value = AnyValue> {
    let leaf = prop_oneof![
        text().prop_map(Value::StringValue),
        any::<bool>().prop_map(Value::BoolValue),
        int().prop_map(Value::IntValue),
        double().prop_map(Value::DoubleValue),
        vec(any::<u8>(), 0..20).prop_map(Value::BytesValue),
    ];
    let leaf = option::weighted(0.95, leaf).prop_map(|value| AnyValue { value });
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(|values| AnyValue {
                value: Some(Value::ArrayValue(ArrayValue { values }))
            }),
            vec((text(), inner), 0..3).prop_map(|entries| AnyValue {
                value: Some(Value::KvlistValue(KeyValueList {
                    values: entries.into_iter().map(|(key, value)| entry(key, value)).collect()
                }))
            }),
        ]
    })
}

fn entry(key: String, value: AnyValue) -> KeyValue {
    KeyValue { key, value: Some(value), key_strindex: 0 }
}

fn attributes() -> impl Strategy<Value = Vec<KeyValue>> {
    vec((text(), value()).prop_map(|(key, value)| entry(key, value)), 0..4)
}

fn exemplars() -> impl Strategy<Value = Vec<proto::Exemplar>> {
    use proto::exemplar::Value;
    let value = prop_oneof![int().prop_map(Value::AsInt), double().prop_map(Value::AsDouble)];
    let id = |length: usize| prop_oneof![Just(Vec::new()), vec(any::<u8>(), length)];
    let exemplar = (attributes(), unsigned(), id(8), id(16), option::weighted(0.9, value))
        .prop_map(|(filtered_attributes, time_unix_nano, span_id, trace_id, value)| {
            proto::Exemplar { filtered_attributes, time_unix_nano, span_id, trace_id, value }
        });
    prop_oneof![3 => Just(Vec::new()), 1 => vec(exemplar, 1..3)]
}

fn number_points() -> impl Strategy<Value = Vec<proto::NumberDataPoint>> {
    use proto::number_data_point::Value;
    let value = prop_oneof![int().prop_map(Value::AsInt), double().prop_map(Value::AsDouble)];
    let point =
        (attributes(), unsigned(), unsigned(), exemplars(), 0..3u32, option::weighted(0.9, value))
            .prop_map(|(attributes, start, time, exemplars, flags, value)| {
                proto::NumberDataPoint {
                    attributes,
                    start_time_unix_nano: start,
                    time_unix_nano: time,
                    exemplars,
                    flags,
                    value,
                }
            });
    vec(point, 0..4)
}

/// Count, sum, min and max.
type Totals = (u64, Option<f64>, Option<f64>, Option<f64>);

fn totals() -> impl Strategy<Value = Totals> {
    let optional = || option::of(double());
    (unsigned(), optional(), optional(), optional())
}

fn histogram_points() -> impl Strategy<Value = Vec<proto::HistogramDataPoint>> {
    let lists = (vec(unsigned(), 0..6), vec(double(), 0..6));
    let point = (attributes(), unsigned(), unsigned(), totals(), lists, exemplars(), 0..3u32)
        .prop_map(|(attributes, start, time, totals, lists, exemplars, flags)| {
            proto::HistogramDataPoint {
                attributes,
                start_time_unix_nano: start,
                time_unix_nano: time,
                count: totals.0,
                sum: totals.1,
                bucket_counts: lists.0,
                explicit_bounds: lists.1,
                exemplars,
                flags,
                min: totals.2,
                max: totals.3,
            }
        });
    vec(point, 0..3)
}

/// None where all would be default: the writer leaves that out.
fn buckets() -> impl Strategy<Value = Option<Buckets>> {
    let offset = prop_oneof![Just(0), Just(i32::MIN), Just(i32::MAX), any::<i32>()];
    (offset, vec(unsigned(), 0..6)).prop_map(|(offset, bucket_counts)| {
        let empty = offset == 0 && bucket_counts.is_empty();
        (!empty).then_some(Buckets { offset, bucket_counts })
    })
}

fn exponential_points() -> impl Strategy<Value = Vec<proto::ExponentialHistogramDataPoint>> {
    let shape = (prop_oneof![Just(0), Just(i32::MIN), -10..20i32], unsigned(), implicit_double());
    let lists = (buckets(), buckets());
    let tail = (exemplars(), 0..3u32);
    let point = (attributes(), unsigned(), unsigned(), totals(), shape, lists, tail).prop_map(
        |(attributes, start, time, totals, shape, (positive, negative), (exemplars, flags))| {
            proto::ExponentialHistogramDataPoint {
                attributes,
                start_time_unix_nano: start,
                time_unix_nano: time,
                count: totals.0,
                sum: totals.1,
                scale: shape.0,
                zero_count: shape.1,
                positive,
                negative,
                flags,
                exemplars,
                min: totals.2,
                max: totals.3,
                zero_threshold: shape.2,
            }
        },
    );
    vec(point, 0..3)
}

fn summary_points() -> impl Strategy<Value = Vec<proto::SummaryDataPoint>> {
    let quantile = (implicit_double(), implicit_double())
        .prop_map(|(quantile, value)| ValueAtQuantile { quantile, value });
    let point = (
        attributes(),
        unsigned(),
        unsigned(),
        unsigned(),
        implicit_double(),
        vec(quantile, 0..4),
        0..3u32,
    )
        .prop_map(|(attributes, start, time, count, sum, quantile_values, flags)| {
            proto::SummaryDataPoint {
                attributes,
                start_time_unix_nano: start,
                time_unix_nano: time,
                count,
                sum,
                quantile_values,
                flags,
            }
        });
    vec(point, 0..3)
}

fn metric() -> impl Strategy<Value = proto::Metric> {
    use proto::metric::Data;
    let data = prop_oneof![
        number_points().prop_map(|data_points| Data::Gauge(proto::Gauge { data_points })),
        (number_points(), 0..3i32, any::<bool>()).prop_map(
            |(data_points, aggregation_temporality, is_monotonic)| Data::Sum(proto::Sum {
                data_points,
                aggregation_temporality,
                is_monotonic
            })
        ),
        (histogram_points(), 0..3i32).prop_map(|(data_points, aggregation_temporality)| {
            Data::Histogram(proto::Histogram { data_points, aggregation_temporality })
        }),
        (exponential_points(), 0..3i32).prop_map(|(data_points, aggregation_temporality)| {
            Data::ExponentialHistogram(proto::ExponentialHistogram {
                data_points,
                aggregation_temporality,
            })
        }),
        summary_points().prop_map(|data_points| Data::Summary(proto::Summary { data_points })),
    ];
    (text(), text(), text(), data).prop_map(|(name, description, unit, data)| proto::Metric {
        name,
        description,
        unit,
        metadata: Vec::new(),
        data: Some(data),
    })
}

fn scope(urls: bool) -> impl Strategy<Value = proto::ScopeMetrics> {
    (text(), text(), attributes(), text(), vec(metric(), 0..4)).prop_map(
        move |(name, version, attributes, schema_url, metrics)| proto::ScopeMetrics {
            scope: Some(InstrumentationScope {
                name,
                version,
                attributes,
                dropped_attributes_count: 0,
            }),
            metrics,
            schema_url: if urls { schema_url } else { String::new() },
        },
    )
}

/// Any request; `urls`: with schema URLs, whose place differs between encoders.
pub(crate) fn request(urls: bool) -> impl Strategy<Value = ExportMetricsServiceRequest> {
    let resource = (attributes(), text(), vec(scope(urls), 0..3)).prop_map(
        move |(attributes, schema_url, scope_metrics)| proto::ResourceMetrics {
            resource: Some(Resource {
                attributes,
                dropped_attributes_count: 0,
                entity_refs: Vec::new(),
            }),
            scope_metrics,
            schema_url: if urls { schema_url } else { String::new() },
        },
    );
    vec(resource, 0..3)
        .prop_map(|resource_metrics| ExportMetricsServiceRequest { resource_metrics })
}
