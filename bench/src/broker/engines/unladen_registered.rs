//! unladen with every series registered and every handle kept.

use bench::Failure;
use unladen::{Counter, Gauge, Negotiated, Registry, Spec};

use super::{Built, Engine, Scraper};
use crate::workload::{FAMILIES, Value, Workload};

struct Unladen {
    registry: Registry,
    _counters: Vec<Counter>,
    _gauges: Vec<Gauge>,
}

pub fn build(workload: Workload) -> Result<Built, Failure> {
    let registry = Registry::new();
    let (mut counters, mut gauges) = (Vec::new(), Vec::new());
    for (number, described) in FAMILIES.iter().enumerate() {
        let spec = Spec::new(described.name, described.help).limit(workload.queues);
        let labels = ["vhost", "queue"];
        if described.is_counter {
            let family = registry.counter(spec, labels)?;
            workload.each_queue(|queue, values| {
                let counter = family.with(values);
                counter.add(workload.raw(queue, number));
                counters.push(counter);
            });
        } else {
            let family = registry.gauge(spec, labels)?;
            workload.each_queue(|queue, values| {
                let gauge = family.with(values);
                gauge.set(match workload.value(queue, number) {
                    Value::Integer(value) => value as f64,
                    Value::Fraction(value) => value,
                });
                gauges.push(gauge);
            });
        }
    }
    Ok(Built::engine(Unladen { registry, _counters: counters, _gauges: gauges }))
}

impl Engine for Unladen {
    fn scraper(&self) -> Box<Scraper<'_>> {
        Box::new(|sink| {
            self.registry.write(Negotiated::default(), (), |(), chunk| sink(chunk));
        })
    }
}
