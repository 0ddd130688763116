//! The peers that are not Rust, as `bench/peers/build` leaves them in `bench/bin`.

use bench::engine::{Measured, peer_binary, run_peer};

use crate::case::CASES;
use crate::summary::{All, Key};

/// Runs each and files what it told by library and case.
pub fn run(operations: &mut All, peaks: &mut All) {
    for program in ["peer-go", "peer-java"] {
        for (workload, into) in [("sdk", &mut *operations), ("sdk-peak", &mut *peaks)] {
            println!("running {program} {workload}");
            for line in run_peer(&peer_binary(program), &[workload]) {
                let is_case = |(mode, temporality): &&_| {
                    line.text("case") == Some(&*Key::case(*mode, *temporality))
                };
                if let Some(&(mode, temporality)) = CASES.iter().find(is_case) {
                    let key = Key::new(&line.name, mode, temporality);
                    into.entry(key).or_insert_with(Measured::default).take(&line);
                }
            }
        }
    }
}
