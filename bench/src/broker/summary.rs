//! The table, the bars and the last line.

use std::collections::BTreeMap;

use bench::engine::Measured;
use bench::report::{Bar, Bars, ResultLine, Table, number, scaled};
use bench::statistics::{least, ratio};

use crate::engines::ENGINES;
use crate::workload::FAMILIES;

/// Prints everything that was measured.
pub fn print(queues: usize, measured: &BTreeMap<String, Measured>) {
    let series = (queues * FAMILIES.len()) as f64;
    print_table(series, measured);
    print_bars(series, measured);
    let of = |name: &str, key| measured.get(name).and_then(|measured| measured.median(key));
    let cpu = |name: &str| of(name, "cpu_ns");
    let ours = cpu("unladen");
    ResultLine::new("broker")
        .number("ns_per_series", ours.map(|cpu| cpu / series), 2)
        .number("floor_ratio", ratio(ours, cpu("floor")), 2)
        .number("vs_prometheus_client", ratio(cpu("prometheus-client"), ours), 1)
        .number("vs_client_golang", ratio(fastest(measured, "client_golang/"), ours), 1)
        .number("allocations", of("unladen", "allocations"), 0)
        .number("peak_over_registry_bytes", of("unladen", "peak_bytes"), 0)
        .number("bytes_per_series", of("unladen", "kept_bytes_per_series"), 1)
        .print();
}

/// CPU time of the fastest case of a library.
fn fastest(measured: &BTreeMap<String, Measured>, prefix: &str) -> Option<f64> {
    let cases = measured.iter().filter(|(name, _)| name.starts_with(prefix));
    least(cases.map(|(_, measured)| measured.median("cpu_ns")))
}

fn print_table(series: f64, measured: &BTreeMap<String, Measured>) {
    println!();
    let mut table = Table::new([
        "engine",
        "cpu s",
        "ns/series",
        "vs ours",
        "wall s",
        "text MB",
        "allocations",
        "MB",
        "peak KiB",
        "kept B",
        "RSS B",
        "1st byte ms",
        "pair cpu s",
        "pair wall s",
        "pair 1st ms",
    ]);
    let ours = measured.get("unladen").and_then(|measured| measured.median("cpu_ns"));
    let known = ENGINES.iter().map(|entry| entry.name);
    let others = measured.keys().map(String::as_str);
    let others = others.filter(|name| !ENGINES.iter().any(|entry| entry.name == *name));
    for name in known.chain(others) {
        let Some(engine) = measured.get(name) else { continue };
        let median = |key| engine.median(key);
        table.row([
            name.to_owned(),
            scaled(median("cpu_ns"), 1e9, 4),
            scaled(median("cpu_ns"), series, 1),
            number(ratio(median("cpu_ns"), ours), 2),
            scaled(median("wall_ns"), 1e9, 4),
            scaled(median("text_bytes"), 1e6, 1),
            number(median("allocations"), 0),
            scaled(median("allocated_bytes"), 1e6, 1),
            scaled(median("peak_bytes"), 1024.0, 0),
            number(median("kept_bytes_per_series"), 1),
            number(median("resident_per_series"), 1),
            scaled(median("first_byte_ns"), 1e6, 3),
            scaled(median("pair_cpu_ns"), 1e9, 4),
            scaled(median("pair_wall_ns"), 1e9, 4),
            scaled(median("pair_first_byte_ns"), 1e6, 3),
        ]);
    }
    table.print();
}

fn print_bars(series: f64, measured: &BTreeMap<String, Measured>) {
    println!();
    let of = |name: &str, key: &str| measured.get(name).and_then(|measured| measured.median(key));
    let cpu = |name: &str| of(name, "cpu_ns");
    let is_ours = |name: &str| name.starts_with("unladen") || name == "floor";
    let peers = measured.iter().filter(|(name, _)| !is_ours(name));
    let fastest_peer = least(peers.map(|(_, measured)| measured.median("cpu_ns")));
    let mut bars = Bars::default();
    bars.add("ours / floor", ratio(cpu("unladen"), cpu("floor")), Bar::AtMost(2.0));
    bars.add("fastest peer / ours", ratio(fastest_peer, cpu("unladen")), Bar::AtLeast(6.0));
    let calls = |name: &str, prefix: &str| {
        let of = |key: &str| of(name, &format!("{prefix}{key}"));
        Some(of("allocations")? + of("frees")?)
    };
    bars.add("allocations and frees", calls("unladen", ""), Bar::AtMost(0.0));
    let kib = |bytes: Option<f64>| bytes.map(|bytes| bytes / 1024.0);
    bars.add("peak over registry, KiB", kib(of("unladen", "peak_bytes")), Bar::AtMost(256.0));
    let kept = of("unladen", "kept_bytes_per_series");
    bars.add("bytes kept per series", kept, Bar::AtMost(64.0));
    let first_byte = of("unladen", "first_byte_ns").map(|ns| ns / 1e6);
    bars.add("first byte, ms", first_byte, Bar::AtMost(1.0));
    let pair = ratio(of("unladen", "pair_cpu_ns"), cpu("floor"));
    bars.add("beside a second scrape / floor", pair, Bar::AtMost(2.0));
    let both = calls("unladen", "pair_");
    bars.add("beside a second scrape, allocations and frees", both, Bar::AtMost(0.0));
    let first_byte = of("unladen", "pair_first_byte_ns").map(|ns| ns / 1e6);
    bars.add("beside a second scrape, first byte, ms", first_byte, Bar::AtMost(1.0));
    for collector in ["unladen-collector", "unladen-collector-pairs"] {
        let over = ratio(cpu(collector), cpu("floor"));
        bars.add(&format!("{collector} / floor"), over, Bar::AtMost(3.0));
        let calls = calls(collector, "");
        bars.add(&format!("{collector}, allocations and frees"), calls, Bar::AtMost(0.0));
    }
    bars.print();
    println!("\n{series} series");
}
