//! One recording: a counter and a histogram through a handle and with attributes at the call, alone and
//! by two threads at once, by us and by every peer.
//!
//! 1. Each engine is a process of its own; each round every engine runs every case once.
//! 2. At the end every engine is asked how much it has: it must be what was recorded.
//! 3. The peers that are not Rust, one after the other.
//!
//! The last line is `RESULT record bound_ns=… …`; see `bench/README.md`.

mod case;
mod child;
mod engines;
mod peers;
mod slices;
mod summary;

use std::collections::BTreeMap;

use bench::Failure;
use bench::engine::{Engine, Measured};
use bench::options::Options;
use engines::ENGINES;

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

/// Operations of a case in one round.
const OPERATIONS: usize = 1_000_000;
const SMOKE_OPERATIONS: usize = 1_000;

/// Rounds before those that count, and those.
const WARM_ROUNDS: usize = 2;
const ROUNDS: usize = 11;

fn main() -> Result<(), Failure> {
    let options = Options::read(std::env::args().skip(1))?;
    if let Some(name) = &options.engine {
        return child::run(name, &options);
    }
    let operations = if options.is_smoke { SMOKE_OPERATIONS } else { OPERATIONS };
    let mut measured = run_engines(operations, &options)?;
    if options.has_peers {
        peers::run(&mut measured);
    }
    summary::print(&measured);
    Ok(())
}

/// All engines of this binary, round by round.
fn run_engines(
    operations: usize,
    options: &Options,
) -> Result<BTreeMap<String, Measured>, Failure> {
    let arguments = ["--set".to_owned(), format!("operations={operations}")];
    let wanted = ENGINES.iter().filter(|(name, _)| options.wants(name));
    let mut running =
        wanted.map(|(name, _)| Engine::start(name, &arguments)).collect::<Result<Vec<_>, _>>()?;
    for (command, times) in [("warm", WARM_ROUNDS), ("round", ROUNDS), ("check", 1)] {
        for _ in 0..times {
            for engine in &mut running {
                engine.ask(command)?;
            }
        }
    }
    running.into_iter().map(|engine| Ok((engine.name().to_owned(), engine.end()?))).collect()
}
