//! prometheus 0.14: vectors of integer metrics, gathered and encoded as text into a kept buffer.

use ::prometheus::{Encoder, GaugeVec, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};
use ::prometheus::{Gauge, IntCounter, IntGauge};
use bench::Failure;

use super::{Built, Engine, Scraper};
use crate::workload::{FAMILIES, Value, Workload};

struct Prometheus {
    registry: Registry,
    _handles: Handles,
}

#[derive(Default)]
struct Handles {
    counters: Vec<IntCounter>,
    gauges: Vec<IntGauge>,
    fractions: Vec<Gauge>,
}

pub fn build(workload: Workload) -> Result<Built, Failure> {
    let registry = Registry::new();
    let mut handles = Handles::default();
    let labels = ["vhost", "queue"];
    for (number, described) in FAMILIES.iter().enumerate() {
        let options = Opts::new(described.name, described.help);
        match workload.value(0, number) {
            Value::Integer(_) if described.is_counter => {
                let counters = IntCounterVec::new(options, &labels)?;
                workload.each_queue(|queue, values| {
                    let counter = counters.with_label_values(&values);
                    counter.inc_by(workload.raw(queue, number));
                    handles.counters.push(counter);
                });
                registry.register(Box::new(counters))?;
            }
            Value::Integer(_) => {
                let gauges = IntGaugeVec::new(options, &labels)?;
                workload.each_queue(|queue, values| {
                    let gauge = gauges.with_label_values(&values);
                    gauge.set(workload.raw(queue, number).cast_signed());
                    handles.gauges.push(gauge);
                });
                registry.register(Box::new(gauges))?;
            }
            Value::Fraction(_) => {
                let gauges = GaugeVec::new(options, &labels)?;
                workload.each_queue(|queue, values| {
                    let gauge = gauges.with_label_values(&values);
                    if let Value::Fraction(value) = workload.value(queue, number) {
                        gauge.set(value);
                    }
                    handles.fractions.push(gauge);
                });
                registry.register(Box::new(gauges))?;
            }
        }
    }
    Ok(Built::engine(Prometheus { registry, _handles: handles }))
}

impl Engine for Prometheus {
    fn scraper(&self) -> Box<Scraper<'_>> {
        let mut body = Vec::new();
        Box::new(move |sink| {
            body.clear();
            let families = self.registry.gather();
            TextEncoder::new().encode(&families, &mut body).expect("a Vec takes everything");
            sink(&body);
        })
    }
}
