//! What a program pays for being profiled: its throughput with and without, its allocations with and
//! without, a service's latency while profiles are fetched; beside pprof-rs.
//!
//! 1. Each engine is a process; those of pprof-rs are builds of their own, one for each of its unwinders.
//! 2. A process works all the time; its profiler is started and stopped in short slices. What counts is the
//!    pair of a slice with and one without, side by side, in turn the one and the other first.
//! 3. The example service is asked at a fixed rate, with a profile fetched every ten seconds and without.
//!
//! The last line is `RESULT overhead …`; see `bench/README.md`.

mod busy;
mod engines;
mod heap;
mod latency;
mod pairs;
mod summary;

use std::collections::BTreeMap;

use bench::Failure;
use bench::engine::{self, Engine, Measured};
use bench::options::Options;

#[global_allocator]
static ALLOCATOR: heap::Switched = heap::Switched::new();

/// The engines, the build that has them, and what they are asked.
const ENGINES: [(&str, Option<&str>, &[&str]); 4] = [
    ("unladen", None, &["busy 4", "busy 64"]),
    ("heap", None, &["idle", "sampled", "idle pure", "sampled pure"]),
    ("pprof_rs", Some("pprof-rs"), &["busy 4", "busy 64"]),
    ("pprof_rs_fp", Some("pprof-rs-frame-pointer"), &["busy 4", "busy 64"]),
];

/// How much is measured.
pub struct Size {
    rounds: usize,
    /// Pairs of slices in a round of one command.
    pairs: usize,
    slice_ms: usize,
    latency_slices: usize,
    latency_seconds: usize,
}

const FULL: Size =
    Size { rounds: 6, pairs: 8, slice_ms: 750, latency_slices: 12, latency_seconds: 10 };
const SMOKE: Size =
    Size { rounds: 1, pairs: 2, slice_ms: 60, latency_slices: 2, latency_seconds: 1 };

fn main() -> Result<(), Failure> {
    let options = Options::read(std::env::args().skip(1))?;
    if let Some(name) = &options.engine {
        return engines::child(name, &options);
    }
    let size = if options.is_smoke { SMOKE } else { FULL };
    let mut measured = run_engines(&options, &size)?;
    if options.wants("service") {
        measured.insert("service".to_owned(), latency::measure(&size)?);
    }
    summary::print(&measured);
    Ok(())
}

fn run_engines(options: &Options, size: &Size) -> Result<BTreeMap<String, Measured>, Failure> {
    let set = |key: &str, value: usize| ["--set".to_owned(), format!("{key}={value}")];
    let arguments = [set("pairs", size.pairs), set("slice_ms", size.slice_ms)].concat();
    let mut running = Vec::new();
    for (name, directory, commands) in ENGINES {
        if !options.wants(name) {
            continue;
        }
        let program = engine::other_build("bench-overhead", directory)?;
        if program.exists() {
            running.push((Engine::start_program(&program, name, &arguments)?, commands));
        } else {
            println!("missing: {}: {name} is left out", program.display());
        }
    }
    for round in 0..size.rounds {
        for (engine, commands) in &mut running {
            for command in commands.iter() {
                let line = engine.ask(command)?;
                println!("round {} of {}: {line}", round + 1, size.rounds);
            }
        }
    }
    running.into_iter().map(|(engine, _)| Ok((engine.name().to_owned(), engine.end()?))).collect()
}
