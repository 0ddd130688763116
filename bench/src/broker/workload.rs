//! The broker's data, by formula: `bench/peers/WORKLOADS.md`, "broker".

use std::fmt::Write as _;

/// One of the 23 families.
#[derive(Debug)]
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub is_counter: bool,
    /// How many bits its values have.
    bits: u32,
}

const fn gauge(bits: u32, name: &'static str, help: &'static str) -> Family {
    Family { name, help, is_counter: false, bits }
}

const fn counter(bits: u32, name: &'static str, help: &'static str) -> Family {
    Family { name, help, is_counter: true, bits }
}

/// The family whose values have fractions.
const FRACTIONAL: usize = 7;

/// All families, in the order of WORKLOADS.md.
pub static FAMILIES: [Family; 23] = [
    gauge(1, "rabbitmq_queue_messages_ready", "Messages ready for delivery"),
    gauge(8, "rabbitmq_queue_messages_unacked", "Messages delivered and not yet acknowledged"),
    gauge(15, "rabbitmq_queue_messages", "Messages, ready and unacknowledged"),
    gauge(22, "rabbitmq_queue_messages_ram", "Messages held in memory"),
    gauge(29, "rabbitmq_queue_messages_paged", "Messages written out to free memory"),
    gauge(6, "rabbitmq_queue_message_bytes", "Size of the message bodies"),
    gauge(13, "rabbitmq_queue_memory_bytes", "Memory of the queue's process"),
    gauge(20, "rabbitmq_queue_age_seconds", "Age of the oldest message"),
    gauge(27, "rabbitmq_queue_consumers", "Consumers of the queue"),
    gauge(4, "rabbitmq_queue_bindings", "Bindings to the queue"),
    counter(11, "rabbitmq_queue_reads_total", "Messages read from disk"),
    counter(18, "rabbitmq_queue_writes_total", "Messages written to disk"),
    counter(25, "rabbitmq_queue_publish_total", "Messages published"),
    counter(2, "rabbitmq_queue_confirm_total", "Messages confirmed to their publishers"),
    counter(9, "rabbitmq_queue_deliver_total", "Messages delivered to consumers"),
    counter(16, "rabbitmq_queue_noack_total", "Messages delivered without acknowledgement"),
    counter(23, "rabbitmq_queue_redeliver_total", "Messages delivered again"),
    counter(30, "rabbitmq_queue_ack_total", "Messages acknowledged"),
    counter(7, "rabbitmq_queue_get_total", "Messages fetched"),
    counter(14, "rabbitmq_queue_empty_total", "Fetches from an empty queue"),
    counter(21, "rabbitmq_queue_dropped_total", "Messages dropped"),
    counter(28, "rabbitmq_queue_returned_total", "Messages returned as unroutable"),
    counter(5, "rabbitmq_queue_gc_total", "Garbage collections of the queue's process"),
];

/// So many queues, each with a series in all families.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub queues: usize,
}

/// A value as the workload has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Integer(u64),
    Fraction(f64),
}

impl Workload {
    /// All series.
    pub fn series(self) -> usize {
        self.queues * FAMILIES.len()
    }

    /// The value without its fraction: what is stored in a table.
    pub fn raw(self, queue: usize, family: usize) -> u64 {
        let mixed = (queue as u64 * 2_654_435_761).wrapping_add(family as u64 * 40_503);
        mixed & ((1 << FAMILIES[family].bits) - 1)
    }

    /// The value of a series.
    pub fn value(self, queue: usize, family: usize) -> Value {
        value_of(self.raw(queue, family), family)
    }

    /// Calls `each` with every queue's number and labels, `vhost` and `queue`.
    pub fn each_queue(self, mut each: impl FnMut(usize, [&str; 2])) {
        let (mut vhost, mut queue) = (String::new(), String::new());
        for number in 0..self.queues {
            vhost.clear();
            queue.clear();
            // Writing into a String cannot fail.
            let _ = write!(vhost, "/vhost-{}", number % 10);
            let _ = write!(queue, "queue-{number:06}");
            each(number, [&vhost, &queue]);
        }
    }
}

/// What a raw value means in a family.
pub fn value_of(raw: u64, family: usize) -> Value {
    if family == FRACTIONAL { Value::Fraction(raw as f64 / 1024.0) } else { Value::Integer(raw) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formulas_of_the_page() {
        for (family, described) in FAMILIES.iter().enumerate() {
            assert_eq!(described.bits as usize, 1 + 7 * family % 30, "{}", described.name);
            assert_eq!(described.is_counter, described.name.ends_with("_total"));
        }
        let workload = Workload { queues: 128 };
        let mut last = Vec::new();
        workload.each_queue(|_, labels| last = labels.map(str::to_owned).to_vec());
        assert_eq!(last, ["/vhost-7", "queue-000127"]);
        assert_eq!(
            workload.value(1, 7),
            Value::Fraction(((2_654_435_761_u64 + 283_521) % (1 << 20)) as f64 / 1024.0)
        );
    }
}
