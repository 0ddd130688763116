//! unladen behind the doors for existing code: OpenTelemetry's API and the `metrics` facade. The programs
//! are those of the peers, to the letter; the line that names the provider is another.

use ::unladen::reader::{Points, Reader, Temporalities};
use ::unladen::{Number, Registry, View};
use bench::Failure;
use opentelemetry::metrics::MeterProvider;

use super::unladen::native;
use super::{metrics_exporter, opentelemetry_sdk};
use crate::case::{BOUNDS, Built};

/// OpenTelemetry's API.
pub fn build_opentelemetry() -> Result<Built, Failure> {
    let registry = Registry::builder().view(View::of("native").buckets(native())).build();
    let meter = registry.meter_provider().meter("bench");
    Ok(opentelemetry_sdk::instrumented(&meter, move || recorded(&registry)))
}

/// The `metrics` facade.
pub fn build_metrics() -> Result<Built, Failure> {
    let registry = Registry::new();
    registry.recorder().buckets(BOUNDS).install()?;
    Ok(metrics_exporter::instrumented(move || recorded(&registry)))
}

/// All that was added to counters and recorded in histograms.
fn recorded(registry: &Registry) -> u64 {
    Reader::new(registry, Temporalities::CUMULATIVE).collect(|batch| {
        let of = |points: Points<'_>| -> u64 {
            match points {
                Points::Sum { points, .. } => points
                    .map(|point| match point.value {
                        Number::Unsigned(value) => value,
                        other => other.as_f64() as u64,
                    })
                    .sum(),
                Points::Histogram(points) => points.map(|point| point.count()).sum(),
                Points::ExponentialHistogram(points) => points.map(|point| point.count()).sum(),
                _ => 0,
            }
        };
        batch.metrics().map(|metric| of(metric.points())).sum()
    })
}
