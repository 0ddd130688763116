//! unladen with nothing registered but a collector that writes from the program's own table: 23 raw
//! values in one row per queue. The labels are there in the form in which they are written, or as the
//! program's own strings.

use bench::Failure;
use testkit::allocations::live;
use unladen::{Collector, FamilyWriter, Negotiated, Registry, Samples, StoredLabels};

use super::{Built, Engine, Scraper};
use crate::workload::{FAMILIES, Value, Workload, value_of};

/// How a table has its labels.
trait Labels: Send + Sync + 'static {
    fn new(vhost: &str, queue: &str) -> Self;
    fn sample(&self, samples: &mut Samples<'_, '_>, value: Value);
}

impl Labels for StoredLabels {
    fn new(vhost: &str, queue: &str) -> Self {
        StoredLabels::new([("vhost", vhost), ("queue", queue)])
    }

    fn sample(&self, samples: &mut Samples<'_, '_>, value: Value) {
        match value {
            Value::Integer(value) => samples.stored(self, value),
            Value::Fraction(value) => samples.stored(self, value),
        }
    }
}

struct Names {
    vhost: String,
    queue: String,
}

impl Labels for Names {
    fn new(vhost: &str, queue: &str) -> Self {
        Names { vhost: vhost.to_owned(), queue: queue.to_owned() }
    }

    fn sample(&self, samples: &mut Samples<'_, '_>, value: Value) {
        let labels = [("vhost", &*self.vhost), ("queue", &*self.queue)];
        match value {
            Value::Integer(value) => samples.sample(&labels, value),
            Value::Fraction(value) => samples.sample(&labels, value),
        }
    }
}

struct Queue<L> {
    labels: L,
    values: [u64; FAMILIES.len()],
}

struct Table<L>(Vec<Queue<L>>);

impl<L: Labels> Collector for Table<L> {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        for (number, described) in FAMILIES.iter().enumerate() {
            let mut samples = if described.is_counter {
                out.counter(described.name, described.help)
            } else {
                out.gauge(described.name, described.help)
            };
            for queue in &self.0 {
                queue.labels.sample(&mut samples, value_of(queue.values[number], number));
            }
        }
    }
}

struct Unladen {
    registry: Registry,
}

/// The labels in the form in which they are written.
pub fn build_stored(workload: Workload) -> Result<Built, Failure> {
    Ok(build::<StoredLabels>(workload))
}

/// The labels as strings, which are escaped at each scrape.
pub fn build_pairs(workload: Workload) -> Result<Built, Failure> {
    Ok(build::<Names>(workload))
}

fn build<L: Labels>(workload: Workload) -> Built {
    let before = live();
    let mut table = Table(Vec::with_capacity(workload.queues));
    workload.each_queue(|number, [vhost, queue]| {
        let values = std::array::from_fn(|family| workload.raw(number, family));
        table.0.push(Queue { labels: L::new(vhost, queue), values });
    });
    let program_bytes = live() - before;
    let registry = Registry::new();
    registry.collect(table);
    Built { program_bytes, ..Built::engine(Unladen { registry }) }
}

impl Engine for Unladen {
    fn scraper(&self) -> Box<Scraper<'_>> {
        Box::new(|sink| {
            self.registry.write(Negotiated::default(), (), |(), chunk| sink(chunk));
        })
    }
}
