"""One operation on a metric, in a loop. Python's prometheus_client has no exponential histogram."""

import statistics
import threading
import time

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

LABELS = ("http_request_method", "http_route", "http_response_status_code")
METHOD, ROUTE, STATUS = "GET", "/api/queues/:vhost/:name", "200"
BOUNDS = (5, 10, 25, 50, 75, 100, 250, 500, 750, 1000)
WARM_UP_ROUNDS = 2


class Loops:
    """The loops stand here in full: a call through a shared loop would be timed with the operation."""

    def __init__(self):
        disable_created_metrics()
        self.registry = CollectorRegistry()
        self.requests = Counter("requests", "Requests", LABELS, registry=self.registry)
        self.latency = Histogram("latency", "Latency", LABELS, buckets=BOUNDS, registry=self.registry)

    def bound(self, operations):
        child = self.requests.labels(METHOD, ROUTE, STATUS)
        for _ in range(operations):
            child.inc()

    def unbound3(self, operations):
        requests = self.requests
        for _ in range(operations):
            requests.labels(METHOD, ROUTE, STATUS).inc()

    def unbound3_map(self, operations):
        requests = self.requests
        for _ in range(operations):
            requests.labels(http_request_method=METHOD, http_route=ROUTE, http_response_status_code=STATUS).inc()

    def reordered3(self, operations):
        requests = self.requests
        for _ in range(operations):
            requests.labels(http_response_status_code=STATUS, http_route=ROUTE, http_request_method=METHOD).inc()

    def histogram(self, operations):
        child = self.latency.labels(METHOD, ROUTE, STATUS)
        for number in range(operations):
            child.observe(number * 7919 % 1009)

    def histogram_unbound3(self, operations):
        latency = self.latency
        for number in range(operations):
            latency.labels(METHOD, ROUTE, STATUS).observe(number * 7919 % 1009)

    contended2 = bound
    contended2_unbound3 = unbound3

    def recorded(self):
        """What arrived, which must be in one series of each metric."""
        samples = [sample for family in self.registry.collect() for sample in family.samples]
        counts = [sample.value for sample in samples if sample.name in ("requests_total", "latency_count")]
        if len(counts) > 2:
            raise RuntimeError(f"{len(counts)} series instead of one of each metric")
        return sum(counts)


CASES = (
    "bound",
    "unbound3",
    "unbound3_map",
    "reordered3",
    "histogram",
    "histogram_unbound3",
    "contended2",
    "contended2_unbound3",
)


def alone(loop, operations):
    before = time.perf_counter()
    loop(operations)
    return time.perf_counter() - before


def together(loop, operations, threads):
    """From the signal at which all threads start to the end of the last."""
    barrier = threading.Barrier(threads + 1)

    def work():
        barrier.wait()
        loop(operations)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    barrier.wait()
    before = time.perf_counter()
    for worker in workers:
        worker.join()
    return time.perf_counter() - before


def run(name, operations, rounds):
    """Prints the line of one case."""
    loops = Loops()
    loop = getattr(loops, name)
    threads = 2 if name.startswith("contended2") else 1
    taken = [
        alone(loop, operations) if threads == 1 else together(loop, operations, threads)
        for _ in range(WARM_UP_ROUNDS + rounds)
    ]
    expected = (WARM_UP_ROUNDS + rounds) * operations * threads
    if loops.recorded() != expected:
        raise RuntimeError(f"{expected} operations left {loops.recorded()}")
    nanoseconds = statistics.median(taken[WARM_UP_ROUNDS:]) / operations * 1e9
    print(
        f"PEER prometheus_client_python workload=record case={name} "
        f"operations={operations} threads={threads} ns_per_op={nanoseconds:.4g}",
        flush=True,
    )
