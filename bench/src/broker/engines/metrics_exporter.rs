//! metrics-exporter-prometheus 0.18: the `metrics` facade's recorder, rendered incrementally.

use bench::Failure;
use metrics::{Counter, Gauge, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::{Built, Engine, Scraper, Sink};
use crate::workload::{FAMILIES, Value, Workload};

struct MetricsExporter {
    handle: PrometheusHandle,
    _counters: Vec<Counter>,
    _gauges: Vec<Gauge>,
}

pub fn build(workload: Workload) -> Result<Built, Failure> {
    let recorder = PrometheusBuilder::new().build_recorder();
    let metadata = Metadata::new("bench", Level::INFO, None);
    let (mut counters, mut gauges) = (Vec::new(), Vec::new());
    for (number, described) in FAMILIES.iter().enumerate() {
        if described.is_counter {
            recorder.describe_counter(described.name.into(), None, described.help.into());
        } else {
            recorder.describe_gauge(described.name.into(), None, described.help.into());
        }
        workload.each_queue(|queue_number, [vhost, queue]| {
            let labels =
                vec![Label::new("vhost", vhost.to_owned()), Label::new("queue", queue.to_owned())];
            let key = Key::from_parts(described.name, labels);
            match workload.value(queue_number, number) {
                Value::Integer(value) if described.is_counter => {
                    let counter = recorder.register_counter(&key, &metadata);
                    counter.absolute(value);
                    counters.push(counter);
                }
                value => {
                    let gauge = recorder.register_gauge(&key, &metadata);
                    gauge.set(match value {
                        Value::Integer(value) => value as f64,
                        Value::Fraction(value) => value,
                    });
                    gauges.push(gauge);
                }
            }
        });
    }
    let handle = recorder.handle();
    Ok(Built::engine(MetricsExporter { handle, _counters: counters, _gauges: gauges }))
}

impl Engine for MetricsExporter {
    fn scraper(&self) -> Box<Scraper<'_>> {
        Box::new(|sink| {
            self.handle.render_to_write(&mut Chunks(sink)).expect("the sink takes everything");
        })
    }
}

/// The sink as what the library writes to.
struct Chunks<'c, 's>(&'c mut Sink<'s>);

impl std::io::Write for Chunks<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        (self.0)(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
