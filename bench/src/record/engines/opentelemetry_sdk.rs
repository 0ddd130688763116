//! opentelemetry_sdk 0.33, with bound instruments and without.

use std::hint::black_box;

use ::opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
use ::opentelemetry_sdk::metrics::{
    Aggregation, Instrument, SdkMeterProvider, Stream, Temporality,
};
use bench::Failure;
use bench::otel_reader::Reader;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider};

use crate::case::{ATTRIBUTES, BOUNDS, Built, NATIVE_BUCKETS, value};

fn native(instrument: &Instrument) -> Option<Stream> {
    let aggregation = Aggregation::Base2ExponentialHistogram {
        max_size: NATIVE_BUCKETS as u32,
        max_scale: 20,
        record_min_max: true,
    };
    (instrument.name() == "native")
        .then(|| Stream::builder().with_aggregation(aggregation).build().ok())
        .flatten()
}

/// The set, built at the call; the values are what the optimiser may not know.
#[inline]
fn attributes() -> [KeyValue; 3] {
    ATTRIBUTES.map(|(name, value)| KeyValue::new(name, black_box(value)))
}

pub fn build() -> Result<Built, Failure> {
    let reader = Reader::new(Temporality::Cumulative);
    let provider =
        SdkMeterProvider::builder().with_reader(reader.clone()).with_view(native).build();
    let meter = provider.meter("bench");
    Ok(instrumented(&meter, move || {
        // The provider is kept alive until here, because instruments end with it.
        let _ = &provider;
        recorded(&reader)
    }))
}

/// The cases of a program that uses OpenTelemetry's API, whoever provides the meter.
pub fn instrumented(meter: &Meter, recorded: impl Fn() -> u64 + 'static) -> Built {
    let counter = meter.u64_counter("requests").build();
    let histogram = meter.f64_histogram("latency").with_boundaries(BOUNDS.to_vec()).build();
    let native = meter.f64_histogram("native").build();

    let mut built = Built::new(recorded);
    let bound = counter.bind(&attributes());
    built.contended(["bound", "contended2"], move |_| bound.add(1));
    let unbound = counter.clone();
    built.contended(["unbound3", "contended2_unbound3"], move |_| unbound.add(1, &attributes()));
    built.case("reordered3", move |_| {
        let [method, route, status] = attributes();
        counter.add(1, &[status, route, method]);
    });
    let bound = histogram.bind(&attributes());
    built.case("histogram", move |n| bound.record(value(n)));
    built.case("histogram_unbound3", move |n| histogram.record(value(n), &attributes()));
    let bound = native.bind(&attributes());
    built.case("histogram_native", move |n| bound.record(value(n)));
    built
}

fn recorded(reader: &Reader) -> u64 {
    let mut all = ResourceMetrics::default();
    reader.collect_into(&mut all);
    let metrics = all.scope_metrics().flat_map(|scope| scope.metrics());
    metrics
        .map(|metric| match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                sum.data_points().map(|point| point.value()).sum()
            }
            AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                histogram.data_points().map(|point| point.count()).sum()
            }
            AggregatedMetrics::F64(MetricData::ExponentialHistogram(histogram)) => {
                histogram.data_points().map(|point| point.count() as u64).sum()
            }
            _ => 0,
        })
        .sum()
}
