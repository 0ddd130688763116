//! unladen with every series registered and every handle kept.

use bench::Failure;
use unladen::{Counter, Gauge, Negotiated, Registry, Spec};

use super::{Built, Engine, Scraper};
use crate::workload::{FAMILIES, Value, Workload};

struct Unladen {
    registry: Registry,
    _handles: Handles,
}

#[derive(Default)]
struct Handles {
    counters: Vec<Counter>,
    gauges: Vec<Gauge<i64>>,
    fractions: Vec<Gauge>,
}

pub fn build(workload: Workload) -> Result<Built, Failure> {
    let registry = Registry::new();
    let mut handles = Handles::default();
    for (number, described) in FAMILIES.iter().enumerate() {
        let spec = Spec::new(described.name, described.help).limit(workload.queues);
        let labels = ["vhost", "queue"];
        match workload.value(0, number) {
            Value::Integer(_) if described.is_counter => {
                let family = registry.counter(spec, labels)?;
                workload.each_queue(|queue, values| {
                    let counter = family.with(values);
                    counter.add(workload.raw(queue, number));
                    handles.counters.push(counter);
                });
            }
            Value::Integer(_) => {
                let family = registry.integer_gauge(spec, labels)?;
                workload.each_queue(|queue, values| {
                    let gauge = family.with(values);
                    gauge.set(workload.raw(queue, number).cast_signed());
                    handles.gauges.push(gauge);
                });
            }
            Value::Fraction(_) => {
                let family = registry.gauge(spec, labels)?;
                workload.each_queue(|queue, values| {
                    let gauge = family.with(values);
                    if let Value::Fraction(value) = workload.value(queue, number) {
                        gauge.set(value);
                    }
                    handles.fractions.push(gauge);
                });
            }
        }
    }
    Ok(Built::engine(Unladen { registry, _handles: handles }))
}

impl Engine for Unladen {
    fn scraper(&self) -> Box<Scraper<'_>> {
        Box::new(|sink| {
            self.registry.write(Negotiated::default(), (), |(), chunk| sink(chunk));
        })
    }
}
