"""The broker's scrape: a registry of the library's own metrics, and a collector over a table."""

import gc
import resource
import statistics
import time
import tracemalloc

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

PREFIX = "rabbitmq_queue_"
COUNTER_SUFFIX = "_total"
FAMILIES = (
    ("messages_ready", "Messages ready for delivery"),
    ("messages_unacked", "Messages delivered and not yet acknowledged"),
    ("messages", "Messages, ready and unacknowledged"),
    ("messages_ram", "Messages held in memory"),
    ("messages_paged", "Messages written out to free memory"),
    ("message_bytes", "Size of the message bodies"),
    ("memory_bytes", "Memory of the queue's process"),
    ("age_seconds", "Age of the oldest message"),
    ("consumers", "Consumers of the queue"),
    ("bindings", "Bindings to the queue"),
    ("reads_total", "Messages read from disk"),
    ("writes_total", "Messages written to disk"),
    ("publish_total", "Messages published"),
    ("confirm_total", "Messages confirmed to their publishers"),
    ("deliver_total", "Messages delivered to consumers"),
    ("noack_total", "Messages delivered without acknowledgement"),
    ("redeliver_total", "Messages delivered again"),
    ("ack_total", "Messages acknowledged"),
    ("get_total", "Messages fetched"),
    ("empty_total", "Fetches from an empty queue"),
    ("dropped_total", "Messages dropped"),
    ("returned_total", "Messages returned as unroutable"),
    ("gc_total", "Garbage collections of the queue's process"),
)
FRACTIONAL_FAMILY = 7
LABELS = ("vhost", "queue")
CASES = ("registry", "table")


def raw_value(queue, family):
    bits = 1 + 7 * family % 30
    return (2654435761 * queue + 40503 * family) % (1 << bits)


def value(queue, family):
    raw = raw_value(queue, family)
    return raw / 1024 if family == FRACTIONAL_FAMILY else raw


def queue_labels(queue):
    return f"/vhost-{queue % 10}", f"queue-{queue:06d}"


def fill_registry(registry, queues):
    metrics = []
    for noun, text in FAMILIES:
        kind = Counter if noun.endswith(COUNTER_SUFFIX) else Gauge
        metrics.append(kind(PREFIX + noun, text, LABELS, registry=registry))
    for queue in range(queues):
        labels = queue_labels(queue)
        for family, metric in enumerate(metrics):
            child = metric.labels(*labels)
            if isinstance(metric, Counter):
                child.inc(value(queue, family))
            else:
                child.set(value(queue, family))


class Table:
    """The program's own rows, with a collector over them: the registry keeps nothing per series."""

    def __init__(self, queues):
        self.rows = [
            (queue_labels(queue), [raw_value(queue, family) for family in range(len(FAMILIES))])
            for queue in range(queues)
        ]

    def describe(self):
        return [self._family(noun, text) for noun, text in FAMILIES]

    def collect(self):
        for number, (noun, text) in enumerate(FAMILIES):
            family = self._family(noun, text)
            for labels, raw in self.rows:
                family.add_metric(labels, raw[number] / 1024 if number == FRACTIONAL_FAMILY else raw[number])
            yield family

    @staticmethod
    def _family(noun, text):
        kind = CounterMetricFamily if noun.endswith(COUNTER_SUFFIX) else GaugeMetricFamily
        return kind(PREFIX + noun, text, labels=LABELS)


def status_bytes(field):
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def forget_peak():
    with open("/proc/self/clear_refs", "w", encoding="ascii") as references:
        references.write("5")


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def run(name, queues, scrapes, out, trace):
    """Prints the line of one case."""
    # Counters would otherwise write a second series each, which no other peer does.
    disable_created_metrics()
    series = queues * len(FAMILIES)
    gc.collect()
    resident_empty = status_bytes("VmRSS")
    registry = CollectorRegistry()
    if name == "table":
        registry.register(Table(queues))
    else:
        fill_registry(registry, queues)
    gc.collect()
    resident_full = status_bytes("VmRSS")
    forget_peak()

    processor, wall, text = [], [], b""
    for _ in range(scrapes):
        text = b""
        processor_before, wall_before = processor_seconds(), time.perf_counter()
        text = generate_latest(registry)
        wall.append(time.perf_counter() - wall_before)
        processor.append(processor_seconds() - processor_before)
    peak = status_bytes("VmHWM") - resident_full
    size, lines = len(text), sum(not line.startswith(b"#") for line in text.splitlines())
    if lines != series:
        raise RuntimeError(f"the scrape holds {lines} samples instead of {series}")
    if out:
        with open(out, "wb") as file:
            file.write(text)

    fields = {
        "queues": queues,
        "series": series,
        "scrapes": scrapes,
        "text_bytes": size,
        "cpu_seconds": f"{statistics.median(processor):.4g}",
        "wall_seconds": f"{statistics.median(wall):.4g}",
        "ns_per_series": f"{statistics.median(processor) / series * 1e9:.4g}",
        "peak_over_registry_bytes": max(peak, 0),
        "kept_resident_bytes_per_series": f"{max(resident_full - resident_empty, 0) / series:.4g}",
    }
    if trace:
        # Python counts no bytes moved, only what is live at once; tracing slows down, hence a scrape apart.
        del text
        tracemalloc.start()
        generate_latest(registry)
        fields["traced_peak_bytes"] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    words = " ".join(f"{key}={field}" for key, field in fields.items())
    print(f"PEER prometheus_client_python workload=broker case={name} {words}", flush=True)
