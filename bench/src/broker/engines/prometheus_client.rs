//! prometheus-client 0.25: a family per name with a label set of its own type, encoded into a string
//! that is kept (the fastest way) or made anew for each scrape (the way of its examples).

use std::sync::atomic::AtomicU64;

use bench::Failure;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Built, Engine, Scraper};
use crate::workload::{FAMILIES, Value, Workload};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    vhost: String,
    queue: String,
}

struct PrometheusClient {
    registry: Registry,
    is_reusing: bool,
    _handles: Handles,
}

#[derive(Default)]
struct Handles {
    counters: Vec<Counter>,
    gauges: Vec<Gauge>,
    fractions: Vec<Gauge<f64, AtomicU64>>,
}

pub fn build_reusing(workload: Workload) -> Result<Built, Failure> {
    Ok(build(workload, true))
}

pub fn build_fresh(workload: Workload) -> Result<Built, Failure> {
    Ok(build(workload, false))
}

fn build(workload: Workload, is_reusing: bool) -> Built {
    let mut registry = Registry::default();
    let mut handles = Handles::default();
    for (number, described) in FAMILIES.iter().enumerate() {
        let counters = Family::<Labels, Counter>::default();
        let gauges = Family::<Labels, Gauge>::default();
        let fractions = Family::<Labels, Gauge<f64, AtomicU64>>::default();
        workload.each_queue(|queue_number, [vhost, queue]| {
            let labels = Labels { vhost: vhost.to_owned(), queue: queue.to_owned() };
            match workload.value(queue_number, number) {
                Value::Integer(value) if described.is_counter => {
                    let counter = counters.get_or_create_owned(&labels);
                    counter.inc_by(value);
                    handles.counters.push(counter);
                }
                Value::Integer(value) => {
                    let gauge = gauges.get_or_create_owned(&labels);
                    gauge.set(value.cast_signed());
                    handles.gauges.push(gauge);
                }
                Value::Fraction(value) => {
                    let gauge = fractions.get_or_create_owned(&labels);
                    gauge.set(value);
                    handles.fractions.push(gauge);
                }
            }
        });
        // The library appends `_total` to the names of counters.
        let name = described.name.strip_suffix("_total").unwrap_or(described.name);
        match workload.value(0, number) {
            Value::Integer(_) if described.is_counter => {
                registry.register(name, described.help, counters);
            }
            Value::Integer(_) => registry.register(name, described.help, gauges),
            Value::Fraction(_) => registry.register(name, described.help, fractions),
        }
    }
    Built::engine(PrometheusClient { registry, is_reusing, _handles: handles })
}

impl Engine for PrometheusClient {
    fn scraper(&self) -> Box<Scraper<'_>> {
        let mut body = String::new();
        Box::new(move |sink| {
            if self.is_reusing {
                body.clear();
            } else {
                body = String::new();
            }
            encode(&mut body, &self.registry).expect("a String takes everything");
            sink(body.as_bytes());
        })
    }
}
