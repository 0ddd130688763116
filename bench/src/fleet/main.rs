//! `make bench-fleet` and `make bench-plan`: `unladen loadtest`, driven several times, and what is asked of it.
//!
//! Everything is measured by the program itself; here are the loads, the bars and the last line.

mod against;
mod plan;
mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = run::Options::read(std::env::args().skip(1)).and_then(|options| {
        if options.plan { plan::run(&options) } else { against::run(&options) }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("bench-fleet: {reason}");
            ExitCode::FAILURE
        }
    }
}
