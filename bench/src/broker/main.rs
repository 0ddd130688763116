//! A broker's scrape: 100,000 queues × 23 families rendered as text, by us and by every peer.
//!
//! 1. Each engine is built in a process of its own, in turn, and tells what it keeps.
//! 2. Rounds: every engine renders once, then the next round; each round tells time, allocations, the
//!    peak above what the engine keeps, and the time to the first byte.
//! 3. Two scrapes at once, both bodies compared; then the body's samples against the workload.
//! 4. The peers that are not Rust, one after the other.
//!
//! The last line is `RESULT broker ns_per_series=… …`; see `bench/README.md`.

mod child;
mod digest;
mod engines;
mod peers;
mod summary;
mod workload;

use std::collections::BTreeMap;

use bench::Failure;
use bench::engine::{Engine, Measured};
use bench::options::Options;
use engines::ENGINES;

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

/// Queues, and queues of the smoke size.
const QUEUES: usize = 100_000;
const SMOKE_QUEUES: usize = 300;

/// Rounds of two scrapes at once.
const PAIRS: usize = 3;

fn main() -> Result<(), Failure> {
    let options = Options::read(std::env::args().skip(1))?;
    if let Some(name) = &options.engine {
        return child::run(name, &options);
    }
    let queues = if options.is_smoke { SMOKE_QUEUES } else { QUEUES };
    let mut measured = run_engines(queues, &options)?;
    if options.has_peers {
        peers::run(queues, &mut measured);
    }
    summary::print(queues, &measured);
    Ok(())
}

/// All engines of this binary, round by round.
fn run_engines(queues: usize, options: &Options) -> Result<BTreeMap<String, Measured>, Failure> {
    let arguments = ["--set".to_owned(), format!("queues={queues}")];
    let mut running = Vec::new();
    for entry in ENGINES.iter().filter(|entry| options.wants(entry.name)) {
        println!("building {}", entry.name);
        running.push((Engine::start(entry.name, &arguments)?, entry.rounds));
    }
    let rounds = running.iter().map(|(_, rounds)| *rounds).max().unwrap_or(0);
    for (command, times) in [("scrape", rounds), ("pair", PAIRS), ("check", 1)] {
        println!("{command}");
        for round in 0..times {
            for (engine, rounds) in &mut running {
                // What takes seconds is asked less often.
                if round < *rounds && (command == "scrape" || round < *rounds / 3) {
                    engine.ask(command)?;
                }
            }
        }
    }
    running.into_iter().map(|(engine, _)| Ok((engine.name().to_owned(), engine.end()?))).collect()
}
