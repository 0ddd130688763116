//! Reads with our reader what the generated types then hold.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::metrics::v1 as proto;
use proto::exponential_histogram_data_point::Buckets as ProtoBuckets;
use proto::summary_data_point::ValueAtQuantile;
use wire::otlp::attribute::{Step, Walk, elements, entries};
use wire::otlp::reader::{Attributes, Counts, Data, Exemplars, MetricPoints};
use wire::otlp::{AttributeValue, Buckets, Number, NumberPoint, Request, Temporality};
use wire::protobuf::Error;

fn any_value(value: AttributeValue<'_>) -> Result<AnyValue, Error> {
    let value = match value {
        AttributeValue::Empty => return Ok(AnyValue { value: None }),
        AttributeValue::Str(value) => Value::StringValue(value.to_owned()),
        AttributeValue::Bool(value) => Value::BoolValue(value),
        AttributeValue::I64(value) => Value::IntValue(value),
        AttributeValue::F64(value) => Value::DoubleValue(value),
        AttributeValue::Bytes(value) => Value::BytesValue(value.to_owned()),
        AttributeValue::Array(bytes) => Value::ArrayValue(ArrayValue {
            values: elements(bytes).map(|it| any_value(it?)).collect::<Result<_, _>>()?,
        }),
        AttributeValue::Map(bytes) => {
            Value::KvlistValue(KeyValueList { values: attributes(entries(bytes))? })
        }
    };
    Ok(AnyValue { value: Some(value) })
}

/// The same from the steps of a walk.
pub(crate) fn walked(root: AttributeValue<'_>) -> Result<AnyValue, Error> {
    enum Open {
        Array(Vec<AnyValue>),
        Map(Vec<KeyValue>),
    }
    let mut open = Vec::new();
    for step in Walk::new(root) {
        let complete = match step? {
            Step::Value(leaf) => any_value(leaf)?,
            Step::BeginArray => {
                open.push(Open::Array(Vec::new()));
                continue;
            }
            Step::BeginMap => {
                open.push(Open::Map(Vec::new()));
                continue;
            }
            Step::Key(key) => {
                let Some(Open::Map(values)) = open.last_mut() else { panic!("a key in no map") };
                values.push(KeyValue { key: key.to_owned(), value: None, key_strindex: 0 });
                continue;
            }
            Step::End => {
                let value = match open.pop().expect("an end of what began") {
                    Open::Array(values) => Value::ArrayValue(ArrayValue { values }),
                    Open::Map(values) => Value::KvlistValue(KeyValueList { values }),
                };
                AnyValue { value: Some(value) }
            }
        };
        match open.last_mut() {
            None => return Ok(complete),
            Some(Open::Array(values)) => values.push(complete),
            Some(Open::Map(values)) => values.last_mut().unwrap().value = Some(complete),
        }
    }
    panic!("a walk ends with its root")
}

pub(crate) fn attributes(list: Attributes<'_>) -> Result<Vec<KeyValue>, Error> {
    list.map(|entry| {
        let (key, of_key) = entry?;
        let of_key = any_value(of_key)?;
        Ok(KeyValue { key: key.to_owned(), value: Some(of_key), key_strindex: 0 })
    })
    .collect()
}

fn exemplars(list: Exemplars<'_>) -> Result<Vec<proto::Exemplar>, Error> {
    list.map(|exemplar| {
        let exemplar = exemplar?;
        Ok(proto::Exemplar {
            filtered_attributes: attributes(exemplar.filtered_attributes)?,
            time_unix_nano: exemplar.time_unix_nano,
            span_id: exemplar.span_id.map_or_else(Vec::new, Vec::from),
            trace_id: exemplar.trace_id.map_or_else(Vec::new, Vec::from),
            value: exemplar.value.map(|value| match value {
                Number::Int(value) => proto::exemplar::Value::AsInt(value),
                Number::Double(value) => proto::exemplar::Value::AsDouble(value),
            }),
        })
    })
    .collect()
}

fn number(
    point: NumberPoint<Attributes<'_>, Exemplars<'_>>,
) -> Result<proto::NumberDataPoint, Error> {
    Ok(proto::NumberDataPoint {
        attributes: attributes(point.attributes)?,
        start_time_unix_nano: point.start_time_unix_nano,
        time_unix_nano: point.time_unix_nano,
        exemplars: exemplars(point.exemplars)?,
        flags: point.flags,
        value: point.value.map(|value| match value {
            Number::Int(value) => proto::number_data_point::Value::AsInt(value),
            Number::Double(value) => proto::number_data_point::Value::AsDouble(value),
        }),
    })
}

fn buckets(buckets: Buckets<Counts<'_>>) -> Result<Option<ProtoBuckets>, Error> {
    let bucket_counts = buckets.counts.collect::<Result<Vec<_>, _>>()?;
    let empty = buckets.offset == 0 && bucket_counts.is_empty();
    Ok((!empty).then_some(ProtoBuckets { offset: buckets.offset, bucket_counts }))
}

fn temporality(temporality: Temporality) -> i32 {
    match temporality {
        Temporality::Unspecified => 0,
        Temporality::Delta => 1,
        Temporality::Cumulative => 2,
    }
}

fn data(data: Data<'_>) -> Result<Option<proto::metric::Data>, Error> {
    Ok(Some(match data {
        Data::Empty => return Ok(None),
        Data::Gauge { points } => proto::metric::Data::Gauge(proto::Gauge {
            data_points: points.map(|point| number(point?)).collect::<Result<_, _>>()?,
        }),
        Data::Sum { temporality: since, monotonic, points } => {
            proto::metric::Data::Sum(proto::Sum {
                data_points: points.map(|point| number(point?)).collect::<Result<_, _>>()?,
                aggregation_temporality: temporality(since),
                is_monotonic: monotonic,
            })
        }
        Data::Histogram { temporality: since, points } => {
            let read = |point: Result<wire::otlp::HistogramPoint<_, _, Counts<'_>, _>, Error>| {
                let point = point?;
                let bounds: wire::otlp::reader::Bounds<'_> = point.bounds;
                Ok(proto::HistogramDataPoint {
                    attributes: attributes(point.attributes)?,
                    start_time_unix_nano: point.start_time_unix_nano,
                    time_unix_nano: point.time_unix_nano,
                    count: point.count,
                    sum: point.sum,
                    bucket_counts: point.counts.collect::<Result<_, _>>()?,
                    explicit_bounds: bounds.collect::<Result<_, _>>()?,
                    exemplars: exemplars(point.exemplars)?,
                    flags: point.flags,
                    min: point.min,
                    max: point.max,
                })
            };
            proto::metric::Data::Histogram(proto::Histogram {
                data_points: points.map(read).collect::<Result<_, Error>>()?,
                aggregation_temporality: temporality(since),
            })
        }
        Data::ExponentialHistogram { temporality: since, points } => {
            let mut data_points = Vec::new();
            for point in points {
                let point = point?;
                data_points.push(proto::ExponentialHistogramDataPoint {
                    attributes: attributes(point.attributes)?,
                    start_time_unix_nano: point.start_time_unix_nano,
                    time_unix_nano: point.time_unix_nano,
                    count: point.count,
                    sum: point.sum,
                    scale: point.scale,
                    zero_count: point.zero_count,
                    positive: buckets(point.positive)?,
                    negative: buckets(point.negative)?,
                    flags: point.flags,
                    exemplars: exemplars(point.exemplars)?,
                    min: point.min,
                    max: point.max,
                    zero_threshold: point.zero_threshold,
                });
            }
            proto::metric::Data::ExponentialHistogram(proto::ExponentialHistogram {
                data_points,
                aggregation_temporality: temporality(since),
            })
        }
        Data::Summary { points } => {
            let mut data_points = Vec::new();
            for point in points {
                let point = point?;
                let quantile_values = point
                    .quantiles
                    .map(|pair| pair.map(|(quantile, value)| ValueAtQuantile { quantile, value }));
                data_points.push(proto::SummaryDataPoint {
                    attributes: attributes(point.attributes)?,
                    start_time_unix_nano: point.start_time_unix_nano,
                    time_unix_nano: point.time_unix_nano,
                    count: point.count,
                    sum: point.sum,
                    quantile_values: quantile_values.collect::<Result<_, _>>()?,
                    flags: point.flags,
                });
            }
            proto::metric::Data::Summary(proto::Summary { data_points })
        }
    }))
}

fn metric(read: MetricPoints<'_>) -> Result<proto::Metric, Error> {
    Ok(proto::Metric {
        name: read.metric.name.to_owned(),
        description: read.metric.description.to_owned(),
        unit: read.metric.unit.to_owned(),
        metadata: Vec::new(),
        data: data(read.data)?,
    })
}

/// All that `body` holds.
pub(crate) fn decode(body: &[u8]) -> Result<ExportMetricsServiceRequest, Error> {
    let mut request = ExportMetricsServiceRequest::default();
    for resource in Request::new(body).resources() {
        let resource = resource?;
        let mut scope_metrics = Vec::new();
        for scope in resource.scopes {
            let scope = scope?;
            scope_metrics.push(proto::ScopeMetrics {
                scope: Some(InstrumentationScope {
                    name: scope.scope.name.to_owned(),
                    version: scope.scope.version.to_owned(),
                    attributes: attributes(scope.scope.attributes)?,
                    dropped_attributes_count: 0,
                }),
                metrics: scope.metrics.map(|it| metric(it?)).collect::<Result<_, _>>()?,
                schema_url: scope.scope.schema_url.to_owned(),
            });
        }
        request.resource_metrics.push(proto::ResourceMetrics {
            resource: Some(opentelemetry_proto::tonic::resource::v1::Resource {
                attributes: attributes(resource.resource.attributes)?,
                dropped_attributes_count: 0,
                entity_refs: Vec::new(),
            }),
            scope_metrics,
            schema_url: resource.resource.schema_url.to_owned(),
        });
    }
    Ok(request)
}
