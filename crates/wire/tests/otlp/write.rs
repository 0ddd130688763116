//! Writes with our writer what the generated types hold.

use std::cell::{Cell, OnceCell};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1 as proto;
use proto::exponential_histogram_data_point::Buckets as ProtoBuckets;
use wire::otlp::attribute::{encode_array, encode_map};
use wire::otlp::{
    AttributeValue, Buckets, Buffer, Exemplar, ExponentialHistogramPoint, HistogramPoint, Metric,
    Number, NumberPoint, Resource, Scope, SummaryPoint, Temporality, Writer, measure,
};

type Attributes<'a> = Vec<(&'a str, AttributeValue<'a>)>;

/// Room for arrays that are encoded on the way.
pub(crate) struct Arena {
    places: Vec<OnceCell<Vec<u8>>>,
    next: Cell<usize>,
}

impl Arena {
    pub(crate) fn new() -> Self {
        Arena { places: (0..1 << 16).map(|_| OnceCell::new()).collect(), next: Cell::new(0) }
    }

    fn keep(&self, bytes: Vec<u8>) -> &[u8] {
        let place = self.next.replace(self.next.get() + 1);
        self.places[place].get_or_init(|| bytes)
    }

    fn value<'a>(&'a self, value: &'a Option<AnyValue>) -> AttributeValue<'a> {
        match value.as_ref().and_then(|value| value.value.as_ref()) {
            None | Some(Value::StringValueStrindex(_)) => AttributeValue::Empty,
            Some(Value::StringValue(value)) => AttributeValue::Str(value),
            Some(Value::BoolValue(value)) => AttributeValue::Bool(*value),
            Some(Value::IntValue(value)) => AttributeValue::I64(*value),
            Some(Value::DoubleValue(value)) => AttributeValue::F64(*value),
            Some(Value::BytesValue(value)) => AttributeValue::Bytes(value),
            Some(Value::ArrayValue(array)) => {
                let mut bytes = Vec::new();
                for value in &array.values {
                    let value = Some(value.clone());
                    let inner = Arena::new_small();
                    encode_array([inner.value(&value)], &mut bytes);
                }
                AttributeValue::Array(self.keep(bytes))
            }
            Some(Value::KvlistValue(map)) => {
                let mut bytes = Vec::new();
                encode_map(self.attributes(&map.values), &mut bytes);
                AttributeValue::Map(self.keep(bytes))
            }
        }
    }

    fn new_small() -> Self {
        Arena { places: (0..64).map(|_| OnceCell::new()).collect(), next: Cell::new(0) }
    }

    fn attributes<'a>(&'a self, list: &'a [KeyValue]) -> Attributes<'a> {
        list.iter().map(|entry| (entry.key.as_str(), self.value(&entry.value))).collect()
    }

    fn exemplars<'a>(&'a self, list: &'a [proto::Exemplar]) -> Vec<Exemplar<Attributes<'a>>> {
        list.iter()
            .map(|exemplar| Exemplar {
                filtered_attributes: self.attributes(&exemplar.filtered_attributes),
                time_unix_nano: exemplar.time_unix_nano,
                value: exemplar.value.as_ref().map(|value| match value {
                    proto::exemplar::Value::AsInt(value) => Number::Int(*value),
                    proto::exemplar::Value::AsDouble(value) => Number::Double(*value),
                }),
                trace_id: exemplar.trace_id.as_slice().try_into().ok(),
                span_id: exemplar.span_id.as_slice().try_into().ok(),
            })
            .collect()
    }

    fn number<'a>(
        &'a self,
        point: &'a proto::NumberDataPoint,
    ) -> NumberPoint<Attributes<'a>, Vec<Exemplar<Attributes<'a>>>> {
        NumberPoint {
            attributes: self.attributes(&point.attributes),
            start_time_unix_nano: point.start_time_unix_nano,
            time_unix_nano: point.time_unix_nano,
            value: point.value.as_ref().map(|value| match value {
                proto::number_data_point::Value::AsInt(value) => Number::Int(*value),
                proto::number_data_point::Value::AsDouble(value) => Number::Double(*value),
            }),
            exemplars: self.exemplars(&point.exemplars),
            flags: point.flags,
        }
    }
}

fn temporality(number: i32) -> Temporality {
    match number {
        0 => Temporality::Unspecified,
        1 => Temporality::Delta,
        _ => Temporality::Cumulative,
    }
}

fn buckets(buckets: &Option<ProtoBuckets>) -> Buckets<Vec<u64>> {
    buckets.as_ref().map_or_else(Buckets::default, |buckets| Buckets {
        offset: buckets.offset,
        counts: buckets.bucket_counts.clone(),
    })
}

fn metric(out: &mut Writer<'_>, arena: &Arena, metric: &proto::Metric) {
    let name = Metric { name: &metric.name, description: &metric.description, unit: &metric.unit };
    match metric.data.as_ref().unwrap() {
        proto::metric::Data::Gauge(data) => {
            out.gauge(&name, data.data_points.iter().map(|point| arena.number(point)));
        }
        proto::metric::Data::Sum(data) => out.sum(
            &name,
            temporality(data.aggregation_temporality),
            data.is_monotonic,
            data.data_points.iter().map(|point| arena.number(point)),
        ),
        proto::metric::Data::Histogram(data) => out.histogram(
            &name,
            temporality(data.aggregation_temporality),
            data.data_points.iter().map(|point| HistogramPoint {
                attributes: arena.attributes(&point.attributes),
                start_time_unix_nano: point.start_time_unix_nano,
                time_unix_nano: point.time_unix_nano,
                count: point.count,
                sum: point.sum,
                min: point.min,
                max: point.max,
                bounds: point.explicit_bounds.iter().copied(),
                counts: point.bucket_counts.iter().copied(),
                exemplars: arena.exemplars(&point.exemplars),
                flags: point.flags,
            }),
        ),
        proto::metric::Data::ExponentialHistogram(data) => out.exponential_histogram(
            &name,
            temporality(data.aggregation_temporality),
            data.data_points.iter().map(|point| ExponentialHistogramPoint {
                attributes: arena.attributes(&point.attributes),
                start_time_unix_nano: point.start_time_unix_nano,
                time_unix_nano: point.time_unix_nano,
                count: point.count,
                sum: point.sum,
                min: point.min,
                max: point.max,
                scale: point.scale,
                zero_count: point.zero_count,
                zero_threshold: point.zero_threshold,
                positive: buckets(&point.positive),
                negative: buckets(&point.negative),
                exemplars: arena.exemplars(&point.exemplars),
                flags: point.flags,
            }),
        ),
        proto::metric::Data::Summary(data) => out.summary(
            &name,
            data.data_points.iter().map(|point| SummaryPoint {
                attributes: arena.attributes(&point.attributes),
                start_time_unix_nano: point.start_time_unix_nano,
                time_unix_nano: point.time_unix_nano,
                count: point.count,
                sum: point.sum,
                quantiles: point.quantile_values.iter().map(|at| (at.quantile, at.value)),
                flags: point.flags,
            }),
        ),
    }
}

/// The body of `request`, checked against the length that was measured for it.
pub(crate) fn encode(request: &ExportMetricsServiceRequest) -> Vec<u8> {
    let mut buffer = Buffer::new();
    let arena = Arena::new();
    let measured = measure(&mut buffer, |out| {
        for of_resource in &request.resource_metrics {
            let attributes = of_resource.resource.as_ref().map_or(&[][..], |it| &it.attributes);
            out.resource(&Resource {
                attributes: arena.attributes(attributes),
                schema_url: &of_resource.schema_url,
            });
            for of_scope in &of_resource.scope_metrics {
                let scope = of_scope.scope.clone().unwrap_or_default();
                out.scope(&Scope {
                    name: &scope.name,
                    version: &scope.version,
                    attributes: arena.attributes(&scope.attributes),
                    schema_url: &of_scope.schema_url,
                });
                of_scope.metrics.iter().for_each(|it| metric(out, &arena, it));
            }
        }
    });
    let length = measured.encoded_len();
    let body = measured
        .fold(Vec::new(), |mut body, chunk| {
            body.extend_from_slice(chunk);
            body
        })
        .unwrap();
    assert_eq!(body.len(), length);
    body
}
