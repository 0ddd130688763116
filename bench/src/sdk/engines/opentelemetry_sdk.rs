//! opentelemetry_sdk 0.33. It names no memory modes: *reusable* collects into the same
//! `ResourceMetrics` each time, *immutable* into a new one.

use std::sync::Arc;

use ::opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
use ::opentelemetry_sdk::metrics::{Instrument, SdkMeterProvider, Stream, Temporality};
use bench::otel_reader::Reader;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{MeterProvider, ObservableCounter};

use super::{Build, Engine};
use crate::case::{self, Collected, KEY, Mode, Number, Setup, letters, observation};

struct Sdk {
    setup: Setup,
    number: Number,
    reader: Reader,
    metrics: ResourceMetrics,
    _provider: SdkMeterProvider,
    _instruments: Vec<ObservableCounter<u64>>,
}

pub fn prepare(setup: Setup, number: Number) -> Build {
    let sets = (0..setup.sets).map(|set| [KeyValue::new(KEY, letters(set))]);
    let sets: Arc<[[KeyValue; 1]]> = sets.collect();
    Box::new(move || Ok(Box::new(build(setup, number, &sets))))
}

fn build(setup: Setup, number: Number, sets: &Arc<[[KeyValue; 1]]>) -> Sdk {
    let temporality = match setup.temporality {
        case::Temporality::Cumulative => Temporality::Cumulative,
        case::Temporality::Delta => Temporality::Delta,
    };
    let reader = Reader::new(temporality);
    let limit = setup.limit;
    let view = move |_: &Instrument| Stream::builder().with_cardinality_limit(limit).build().ok();
    let provider = SdkMeterProvider::builder().with_reader(reader.clone()).with_view(view).build();
    let meter = provider.meter("bench");
    let instrument = |index: usize| {
        let (sets, number) = (sets.clone(), number.clone());
        meter
            .u64_observable_counter(format!("counter{index}"))
            .with_callback(move |observer| {
                let collection = number.get();
                for (set, attributes) in sets.iter().enumerate() {
                    observer.observe(observation(collection, set as u64), attributes);
                }
            })
            .build()
    };
    let instruments = (0..setup.instruments).map(instrument).collect();
    let metrics = ResourceMetrics::default();
    Sdk { setup, number, reader, metrics, _provider: provider, _instruments: instruments }
}

impl Engine for Sdk {
    fn collect(&mut self) {
        self.number.advance();
        if self.setup.mode == Mode::Immutable {
            self.metrics = ResourceMetrics::default();
        }
        self.reader.collect_into(&mut self.metrics);
    }

    fn read(&mut self) -> Collected {
        let mut collected = Collected::default();
        for metric in self.metrics.scope_metrics().flat_map(|scope| scope.metrics()) {
            if let AggregatedMetrics::U64(MetricData::Sum(sum)) = metric.data() {
                for point in sum.data_points() {
                    collected.points += 1;
                    collected.sum += point.value();
                }
            }
        }
        collected
    }
}
