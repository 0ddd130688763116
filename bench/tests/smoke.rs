//! The benches in their tiny size: every engine of this workspace runs, its answers are checked, and the
//! last lines have the keys that are read by programs.
#![cfg(all(
    feature = "broker",
    feature = "encode",
    feature = "head",
    feature = "record",
    feature = "restart",
    feature = "sdk"
))]

use std::process::Command;

/// The bench, and the keys of its last line.
const BENCHES: [(&str, &str, &str); 6] = [
    (
        "broker",
        env!("CARGO_BIN_EXE_bench-broker"),
        "ns_per_series floor_ratio vs_prometheus_client vs_client_golang allocations \
         peak_over_registry_bytes bytes_per_series",
    ),
    (
        "sdk",
        env!("CARGO_BIN_EXE_bench-sdk"),
        "mode temporality bytes_per_op ns_per_point vs_otel_java vs_otel_rust vs_otel_go",
    ),
    (
        "encode",
        env!("CARGO_BIN_EXE_bench-encode"),
        "record_ns_per_sample encode_ms again_allocations vs_libdd vs_pprof_rs vs_go",
    ),
    (
        "head",
        env!("CARGO_BIN_EXE_bench-head"),
        "bytes_per_series vs_prometheus append_ns journal_bytes_per_sample",
    ),
    (
        "record",
        env!("CARGO_BIN_EXE_bench-record"),
        "bound_ns unbound3_ns reordered3_ns histogram_bound_ns contended2_ns allocations",
    ),
    (
        "restart",
        env!("CARGO_BIN_EXE_bench-restart"),
        "seconds vs_prometheus lost_samples peak_ratio",
    ),
];

#[test]
fn every_bench_runs_small_and_ends_with_its_result() {
    for (name, program, keys) in BENCHES {
        let output = Command::new(program).arg("--smoke").output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {printed}{said}");
        let last = printed.lines().next_back().unwrap_or_default();
        let values = last.strip_prefix(&format!("RESULT {name} "));
        let values = values.unwrap_or_else(|| panic!("{name} ends with {last:?}"));
        let found = values.split(' ').filter_map(|word| word.split_once('=')).map(|(key, _)| key);
        assert!(found.eq(keys.split_ascii_whitespace()), "{name} ends with {last:?}");
    }
}
