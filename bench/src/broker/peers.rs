//! The peers that are not Rust, as `bench/peers/build` leaves them in `bench/bin`.

use std::collections::BTreeMap;

use bench::engine::{Measured, peer_binary, run_peer};

/// Their seconds under the names and in the units of our own engines.
const SAME: [(&str, &str, f64); 6] = [
    ("cpu_seconds", "cpu_ns", 1e9),
    ("wall_seconds", "wall_ns", 1e9),
    ("first_byte_seconds", "first_byte_ns", 1e9),
    ("peak_over_registry_bytes", "peak_bytes", 1.0),
    ("kept_heap_bytes_per_series", "kept_bytes_per_series", 1.0),
    ("kept_resident_bytes_per_series", "resident_per_series", 1.0),
];

/// Runs each and files what it told under `library/case`.
pub fn run(queues: usize, measured: &mut BTreeMap<String, Measured>) {
    let queues = queues.to_string();
    // Python takes half a minute for a scrape.
    for (program, scrapes) in [("peer-go", "3"), ("peer-python", "1")] {
        println!("running {program}");
        let arguments = ["broker", "--queues", &queues, "--scrapes", scrapes];
        for mut line in run_peer(&peer_binary(program), &arguments) {
            for (theirs, ours, unit) in SAME {
                if let Some(value) = line.number(theirs) {
                    line.set(ours, value * unit);
                }
            }
            let name = format!("{}/{}", line.name, line.text("case").unwrap_or("registry"));
            measured.entry(name).or_default().take(&line);
        }
    }
}
