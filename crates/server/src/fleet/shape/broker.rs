//! A message broker's queues, as RabbitMQ's detailed metrics have them: many queues, few metrics each,
//! numbers in full, most queues at rest.

use super::{Dimension, Family, Kind, ONCE, Shape, Value, each, family};
use Kind::{Counter, Gauge};
use Value::{Idle, Pages, Text};

const BROKER: usize = 0;
const QUEUE: usize = 1;

const LABELS: &str = "vhost=\"{vhost}\",queue=\"{service}.{n}.amq.gen-{hash}{suffix}\"";

pub(super) const SHAPE: Shape = Shape {
    dimensions: &[ONCE, Dimension { weight: 1.0, churns: true }],
    lists: &[
        ("vhost", &["/", "orders", "telemetry"]),
        ("service", &["orders.created", "invoices", "mail.outbox", "devices.events", "rpc.reply"]),
    ],
    families: FAMILIES,
    filler: family(
        "rabbitmq_detailed_connection_channels",
        Gauge,
        "Channels on a connection",
        QUEUE,
        "connection=\"10.0.{n}:41234 -> 10.0.0.5:5672\",user=\"app-{hash}\"",
        Value::Gauge(1, 0),
    ),
    plain: true,
};

#[rustfmt::skip]
const FAMILIES: &[Family] = &[
    family("rabbitmq_build_info", Gauge, "RabbitMQ & Erlang/OTP version info", BROKER, "rabbitmq_version=\"4.1.0\",prometheus_plugin_version=\"4.1.0\",prometheus_client_version=\"4.11.0\",erlang_version=\"27.3.2\",product_name=\"RabbitMQ\",product_version=\"4.1.0\"", Text("1")),
    each("rabbitmq_alarms_memory_used_watermark", Gauge, "is 1 if VM memory watermark alarm is in effect", BROKER, "node=\"rabbit@{each}\"", &["broker-0"], Text("0")),
    family("rabbitmq_process_resident_memory_bytes", Gauge, "Memory used in bytes", BROKER, "", Pages(10)),
    family("rabbitmq_erlang_gc_runs_total", Counter, "Total number of Erlang garbage collector runs", BROKER, "", Value::Counter(11, 0, 20_000)),
    family("rabbitmq_detailed_queue_messages_ready", Gauge, "Messages ready to be delivered to consumers", QUEUE, LABELS, Value::Gauge(3, 0)),
    family("rabbitmq_detailed_queue_messages_unacked", Gauge, "Messages delivered to consumers but not yet acknowledged", QUEUE, LABELS, Text("0")),
    family("rabbitmq_detailed_queue_messages", Gauge, "Sum of ready and unacknowledged messages - total queue depth", QUEUE, LABELS, Value::Gauge(3, 0)),
    family("rabbitmq_detailed_queue_messages_bytes", Gauge, "Size in bytes of ready and unacknowledged messages", QUEUE, LABELS, Value::Gauge(6, 0)),
    family("rabbitmq_detailed_queue_messages_ram", Gauge, "Ready and unacknowledged messages stored in memory", QUEUE, LABELS, Text("0")),
    family("rabbitmq_detailed_queue_messages_persistent", Gauge, "Persistent messages", QUEUE, LABELS, Text("0")),
    family("rabbitmq_detailed_queue_process_memory_bytes", Gauge, "Memory in bytes used by the Erlang queue process", QUEUE, LABELS, Value::Gauge(5, 0)),
    family("rabbitmq_detailed_queue_process_reductions_total", Counter, "Total number of queue process reductions", QUEUE, LABELS, Value::Counter(10, 0, 9_000)),
    family("rabbitmq_detailed_queue_consumers", Gauge, "Consumers on a queue", QUEUE, LABELS, Text("2")),
    family("rabbitmq_detailed_queue_consumer_utilisation", Gauge, "Consumer utilisation", QUEUE, LABELS, Text("1")),
    family("rabbitmq_detailed_queue_messages_published_total", Counter, "Total number of messages published to queues", QUEUE, LABELS, Value::Counter(9, 0, 60)),
    family("rabbitmq_detailed_queue_get_ack_total", Counter, "Total number of messages fetched with basic.get in manual acknowledgement mode", QUEUE, LABELS, Text("0")),
    family("rabbitmq_detailed_queue_get_empty_total", Counter, "Total number of times basic.get operations fetched no message", QUEUE, LABELS, Text("0")),
    family("rabbitmq_detailed_queue_messages_delivered_total", Counter, "Total number of messages delivered to consumers in automatic acknowledgement mode", QUEUE, LABELS, Value::Counter(9, 0, 60)),
    family("rabbitmq_detailed_queue_messages_redelivered_total", Counter, "Total number of messages redelivered to consumers", QUEUE, LABELS, Idle(5, 4)),
    family("rabbitmq_detailed_queue_messages_acked_total", Counter, "Total number of messages acknowledged by consumers", QUEUE, LABELS, Value::Counter(9, 0, 60)),
    family("rabbitmq_detailed_queue_disk_reads_total", Counter, "Total number of times queue read messages from disk", QUEUE, LABELS, Idle(6, 4)),
    family("rabbitmq_detailed_queue_disk_writes_total", Counter, "Total number of times queue wrote messages to disk", QUEUE, LABELS, Idle(7, 1)),
    family("rabbitmq_detailed_queue_exclusive_consumer_count", Gauge, "Exclusive consumers", QUEUE, LABELS, Text("0")),
    family("rabbitmq_detailed_queue_head_message_timestamp", Gauge, "Timestamp of the first message in the queue", QUEUE, LABELS, Value::Now),
];
