//! The peers that are not Rust, as `bench/peers/build` leaves them in `bench/bin`.

use std::collections::BTreeMap;

use bench::engine::{Measured, peer_binary, run_peer};
use bench::protocol::Line;

/// Runs each and files what it told by library, its cases under the names of ours.
pub fn run(measured: &mut BTreeMap<String, Measured>) {
    for program in ["peer-go", "peer-java", "peer-python"] {
        println!("running {program}");
        for line in run_peer(&peer_binary(program), &["record"]) {
            let Some(case) = line.text("case") else { continue };
            let mut same = Line::new(&line.name);
            for (theirs, ours) in [
                ("ns_per_op", ""),
                ("allocations_per_op", "_allocations"),
                ("bytes_per_op", "_bytes"),
            ] {
                if let Some(value) = line.number(theirs) {
                    same.set(&format!("{case}{ours}"), value);
                }
            }
            measured.entry(line.name.clone()).or_default().take(&same);
        }
    }
}
