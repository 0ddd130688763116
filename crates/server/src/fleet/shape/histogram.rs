//! A gateway of a service mesh: latencies and sizes by route and code, little else than buckets.

use super::{Dimension, Family, Kind, ONCE, Shape, Value, each, family};
use Kind::{Counter, Gauge, Histogram};
use Value::Text;

const GATEWAY: usize = 0;
const ROUTE: usize = 1;

const MILLISECONDS: &[&str] = &[
    "0.5", "1", "5", "10", "25", "50", "100", "250", "500", "1000", "2500", "5000", "10000",
    "30000", "60000", "300000", "600000", "1800000", "3600000",
];
const BYTES: &[&str] = &[
    "64", "128", "256", "512", "1024", "2048", "4096", "8192", "16384", "65536", "262144",
    "1048576",
];
const SECONDS: &[&str] =
    &["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10"];

const LABELS: &str = "reporter=\"destination\",source_workload=\"{caller}-{n}\",source_workload_namespace=\"{team}\",destination_workload=\"{app}\",destination_version=\"{hash}\",request_protocol=\"http\",response_code=\"{each}\",pod=\"{app}-{hash}-{suffix}\"";

pub(super) const SHAPE: Shape = Shape {
    dimensions: &[ONCE, Dimension { weight: 1.0, churns: true }],
    lists: &[
        (
            "app",
            &["checkout", "cart", "payment", "recommendation", "frontend", "catalog", "shipping"],
        ),
        ("caller", &["gateway", "frontend", "mobile-api", "batch", "partner-api"]),
        ("team", &["shop", "payments", "platform"]),
    ],
    families: FAMILIES,
    filler: family(
        "istio_tcp_connections_opened_total",
        Counter,
        "TCP connections opened.",
        ROUTE,
        "destination_workload=\"{app}-{n}\",pod=\"{app}-{hash}-{suffix}\"",
        Value::Counter(8, 0, 30),
    ),
    plain: false,
};

#[rustfmt::skip]
const FAMILIES: &[Family] = &[
    family("istio_build", Gauge, "Istio component build info", GATEWAY, "component=\"proxy\",tag=\"1.25.1\"", Text("1")),
    each("istio_request_bytes", Histogram(BYTES), "Request sizes.", ROUTE, LABELS, &["200"], Value::Micros(3_000)),
    each("istio_request_duration_milliseconds", Histogram(MILLISECONDS), "Request durations.", ROUTE, LABELS, &["200", "404", "503"], Value::Micros(90_000)),
    each("istio_requests_total", Counter, "Requests.", ROUTE, LABELS, &["200", "404", "503"], Value::Counter(9, 0, 80)),
    each("istio_response_bytes", Histogram(BYTES), "Response sizes.", ROUTE, LABELS, &["200"], Value::Micros(60_000)),
    each("upstream_connect_duration_seconds", Histogram(SECONDS), "Time to connect to the upstream.", ROUTE, "upstream=\"{app}-{n}\",pod=\"{app}-{hash}-{suffix}\",zone=\"{each}\"", &["a", "b"], Value::Micros(20_000)),
];
