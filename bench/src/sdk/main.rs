//! Collections of an SDK: observable counters with many attribute sets, in both memory modes and both
//! temporalities, by us and by every peer.
//!
//! 1. For each case, every engine in a process of its own; round by round each does one operation, which
//!    is a hundred collections; at the end its last collection is compared with what was observed.
//! 2. The peak: an engine after the other, with many more sets.
//! 3. The peers that are not Rust, one after the other.
//!
//! The last lines, one per case, are `RESULT sdk mode=… temporality=… …`; see `bench/README.md`.

mod case;
mod child;
mod engines;
mod peers;
mod summary;

use bench::Failure;
use bench::engine::Engine;
use bench::options::Options;
use case::{CASES, Setup};
use engines::{ENGINES, Entry};
use summary::{All, Key};

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

/// How much of each is done.
struct Size {
    /// Instruments and attribute sets of an operation.
    operation: [usize; 2],
    /// The same of the peak.
    peak: [usize; 2],
    rounds: usize,
}

const FULL: Size = Size { operation: [10, 1_000], peak: [50, 100_000], rounds: 9 };
const SMOKE: Size = Size { operation: [2, 20], peak: [2, 500], rounds: 3 };

/// Operations before those that count.
const WARM_ROUNDS: usize = 2;

/// The cardinality limit of an operation.
const LIMIT: usize = 2_000;

fn main() -> Result<(), Failure> {
    let options = Options::read(std::env::args().skip(1))?;
    if let Some(name) = &options.engine {
        return child::run(name, &options);
    }
    let size = if options.is_smoke { SMOKE } else { FULL };
    let (mut operations, mut peaks) = (All::new(), All::new());
    for (mode, temporality) in CASES {
        println!("{mode} {temporality}");
        let [instruments, sets] = size.operation;
        let setup = Setup { mode, temporality, instruments, sets, limit: LIMIT };
        run_operations(setup, size.rounds, &options, &mut operations)?;
        let [instruments, sets] = size.peak;
        run_peak(Setup { instruments, sets, limit: sets + 1, ..setup }, &options, &mut peaks)?;
    }
    if options.has_peers {
        peers::run(&mut operations, &mut peaks);
    }
    summary::print(&operations, &peaks);
    Ok(())
}

/// The engines that have this case and are asked for.
fn wanted(setup: Setup, options: &Options) -> impl Iterator<Item = &'static str> {
    let has = move |entry: &&Entry| entry.has(setup.mode) && options.wants(entry.name);
    ENGINES.iter().filter(has).map(|entry| entry.name)
}

fn run_operations(
    setup: Setup,
    rounds: usize,
    options: &Options,
    measured: &mut All,
) -> Result<(), Failure> {
    let mut running = wanted(setup, options)
        .map(|name| Engine::start(name, &setup.arguments()))
        .collect::<Result<Vec<_>, _>>()?;
    for (command, times) in [("warm", WARM_ROUNDS), ("op", rounds), ("count", 1), ("check", 1)] {
        for _ in 0..times {
            for engine in &mut running {
                engine.ask(command)?;
            }
        }
    }
    for engine in running {
        let key = Key::new(engine.name(), setup.mode, setup.temporality);
        measured.insert(key, engine.end()?);
    }
    Ok(())
}

/// One engine after the other, because each takes gigabytes.
fn run_peak(setup: Setup, options: &Options, measured: &mut All) -> Result<(), Failure> {
    for name in wanted(setup, options) {
        let mut engine = Engine::start(name, &setup.arguments())?;
        engine.ask("peak")?;
        measured.insert(Key::new(name, setup.mode, setup.temporality), engine.end()?);
    }
    Ok(())
}
