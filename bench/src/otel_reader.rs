//! A reader of opentelemetry_sdk that collects when it is asked: its own manual reader, shared between
//! the provider, which takes one away, and us.

use std::sync::{Arc, Weak};
use std::time::Duration;

use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{InstrumentKind, ManualReader, Pipeline, Temporality};

/// The reader; a clone is the same reader.
#[derive(Clone, Debug)]
pub struct Reader(Arc<ManualReader>);

impl Reader {
    /// A reader that wants this temporality.
    pub fn new(temporality: Temporality) -> Self {
        Reader(Arc::new(ManualReader::builder().with_temporality(temporality).build()))
    }

    /// Collects, reusing what `metrics` has of memory. The provider must be alive.
    pub fn collect_into(&self, metrics: &mut ResourceMetrics) {
        self.0.collect(metrics).expect("the provider is alive");
    }
}

impl MetricReader for Reader {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, metrics: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(metrics)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn temporality(&self, kind: InstrumentKind) -> Temporality {
        self.0.temporality(kind)
    }
}
