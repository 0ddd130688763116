//! A broker with 100,000 queues whose collector reads the queues' own table: 2.3 million series that were
//! never registered, written straight from where the broker has them.
//!
//! ```text
//! cargo run --release --example broker --features listener -- [ADDRESS] [QUEUES]
//! curl -s http://127.0.0.1:9100/metrics | wc
//! curl -sG http://127.0.0.1:9100/metrics --data-urlencode 'match[]={queue="queue-000017"}'
//! ```

use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::RwLock;
use unladen::collector::{Collector, FamilyWriter};
use unladen::endpoint::Listener;
use unladen::process::Process;
use unladen::{Registry, StoredLabels};

/// What a queue counts and shows: noun, help, and whether it counts.
const FIGURES: [(&str, &str, bool); 23] = [
    ("messages_ready", "Messages ready for delivery", false),
    ("messages_unacked", "Messages delivered and not yet acknowledged", false),
    ("messages", "Messages, ready and unacknowledged", false),
    ("messages_ram", "Messages held in memory", false),
    ("messages_paged", "Messages written out to free memory", false),
    ("message_bytes", "Size of the message bodies", false),
    ("memory_bytes", "Memory of the queue's process", false),
    ("age_seconds", "Age of the oldest message", false),
    ("consumers", "Consumers of the queue", false),
    ("bindings", "Bindings to the queue", false),
    ("reads_total", "Messages read from disk", true),
    ("writes_total", "Messages written to disk", true),
    ("publish_total", "Messages published", true),
    ("confirm_total", "Messages confirmed to their publishers", true),
    ("deliver_total", "Messages delivered to consumers", true),
    ("noack_total", "Messages delivered without acknowledgement", true),
    ("redeliver_total", "Messages delivered again", true),
    ("ack_total", "Messages acknowledged", true),
    ("get_total", "Messages fetched", true),
    ("empty_total", "Fetches from an empty queue", true),
    ("dropped_total", "Messages dropped", true),
    ("returned_total", "Messages returned as unroutable", true),
    ("gc_total", "Garbage collections of the queue's process", true),
];

/// The figure that is kept in 1024ths of a second.
const AGE: usize = 7;

const PUBLISHED: usize = 12;

/// A queue of the broker. Its labels are stored when it is declared, in the form in which they are
/// written.
struct Queue {
    labels: StoredLabels,
    figures: [AtomicU64; FIGURES.len()],
}

impl Queue {
    fn declare(number: u64) -> Arc<Self> {
        let (vhost, queue) = (format!("/vhost-{}", number % 10), format!("queue-{number:06}"));
        let figure = |index: usize| {
            let bits = 1 + 7 * index as u64 % 30;
            let mixed = 2_654_435_761 * number + 40_503 * index as u64;
            AtomicU64::new(mixed % (1 << bits))
        };
        Arc::new(Queue {
            labels: StoredLabels::new([("vhost", vhost.as_str()), ("queue", &queue)]),
            figures: std::array::from_fn(figure),
        })
    }
}

/// The broker's own table.
#[derive(Default)]
struct Broker {
    queues: RwLock<Vec<Arc<Queue>>>,
}

impl Broker {
    fn declare(&self, number: u64) {
        self.queues.write().push(Queue::declare(number));
    }

    fn publish(&self, queue: usize) {
        if let Some(queue) = self.queues.read().get(queue) {
            queue.figures[PUBLISHED].fetch_add(1, Relaxed);
        }
    }
}

/// Queues that are looked at under one lock: a scrape holds up whoever declares a queue for as long as it
/// takes to write so many lines, and not for as long as its reader takes.
const AT_ONCE: usize = 512;

impl Collector for Broker {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        let mut batch: Vec<Arc<Queue>> = Vec::with_capacity(AT_ONCE);
        let mut name = String::new();
        for (index, (noun, help, counts)) in FIGURES.into_iter().enumerate() {
            name.clear();
            name.push_str("rabbitmq_queue_");
            name.push_str(noun);
            let mut samples =
                if counts { out.counter(&name, help) } else { out.gauge(&name, help) };
            let mut from = 0;
            // A family that the request leaves out is not walked, nor is the rest for a reader who left.
            while samples.is_open() {
                batch.clear();
                batch.extend(self.queues.read().iter().skip(from).take(AT_ONCE).cloned());
                if batch.is_empty() {
                    break;
                }
                from += batch.len();
                for queue in &batch {
                    let figure = queue.figures[index].load(Relaxed);
                    if index == AGE {
                        samples.stored(&queue.labels, figure as f64 / 1024.0);
                    } else {
                        samples.stored(&queue.labels, figure);
                    }
                }
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:9100".to_owned());
    let queues: usize = arguments.next().map_or(Ok(100_000), |count| count.parse())?;

    let broker = Arc::new(Broker::default());
    for number in 0..queues as u64 {
        broker.declare(number);
    }
    let registry = Registry::new();
    registry.collect(broker.clone());
    registry.collect(Process::new());
    let listener = Listener::bind(address.as_str(), &registry)?;
    let mut out = std::io::stdout();
    writeln!(out, "{queues} queues at http://{}/metrics; Enter stops", listener.local_address())?;

    // The broker at work, until somebody has seen enough.
    let stop = Arc::new(AtomicU64::new(0));
    let told = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        told.store(1, Relaxed);
    });
    let mut queue = 0;
    while stop.load(Relaxed) == 0 {
        broker.publish(queue);
        queue = (queue + 1) % queues.max(1);
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
    Ok(())
}
