//! The child's side: builds one engine and answers `warm`, `op`, `count`, `check` and `peak`.

use bench::options::Options;
use bench::protocol::Line;
use bench::{Failure, clock, engine, memory};
use testkit::allocations;

use crate::case::{COLLECTIONS, Number, Setup};
use crate::engines::{self, Engine};

/// Collections of the peak, as the peers do them.
const PEAK_COLLECTIONS: usize = 4;

/// Prepares the engine and serves the parent until its input ends.
pub fn run(name: &str, options: &Options) -> Result<(), Failure> {
    let setup = Setup::read(options)?;
    let number = Number::default();
    // The attributes are the program's: they are there before what is measured begins.
    let build = engines::prepare(name, setup, number.clone())?;
    // A callback may run on another thread: bytes are those of all.
    allocations::watch_all_threads(true);
    let resident = memory::resident()?;
    memory::reset_peak()?;
    let mut engine = build()?;
    engine::answer(&Line::new(name), |command| {
        let line = match command {
            "op" => operation(name, setup, &mut *engine),
            // The same work, its times left out.
            "warm" => {
                operation(name, setup, &mut *engine);
                Line::new(name)
            }
            "count" => count(name, &mut *engine),
            "peak" => peak(name, setup, &mut *engine, resident)?,
            "check" => Line::new(name),
            _ => {
                return Err(
                    format!("{command}: the commands are warm, op, count, peak, check").into()
                );
            }
        };
        if matches!(command, "check" | "peak") {
            check(name, setup, &mut *engine, &number)?;
        }
        Ok(line)
    })
}

/// A hundred collections. Allocations are counted apart from it, because counting those of all threads
/// would slow down whoever allocates.
fn operation(name: &str, setup: Setup, engine: &mut dyn Engine) -> Line {
    allocations::watch_all_threads(false);
    let ((), elapsed) = clock::measure(|| collect_all(engine));
    let points = setup.points() as f64 * COLLECTIONS as f64;
    Line::new(name)
        .with("ns_per_point", elapsed.wall_ns / points)
        .with("cpu_ns_per_point", elapsed.process_cpu_ns / points)
}

/// What a hundred collections allocate.
fn count(name: &str, engine: &mut dyn Engine) -> Line {
    let count = allocations::count_all_threads(|| collect_all(engine));
    Line::new(name)
        .with("bytes_per_op", count.bytes)
        .with("allocations_per_op", count.allocations + count.reallocations)
        .with("frees_per_op", count.frees)
}

fn collect_all(engine: &mut dyn Engine) {
    for _ in 0..COLLECTIONS {
        engine.collect();
    }
}

/// A few collections of many sets, then what they leave: instruments, reader and the last result.
fn peak(name: &str, setup: Setup, engine: &mut dyn Engine, resident: f64) -> Result<Line, Failure> {
    let points = setup.points() as f64;
    let mut last = 0.0;
    for _ in 0..PEAK_COLLECTIONS {
        let ((), elapsed) = clock::measure(|| engine.collect());
        last = elapsed.wall_ns;
    }
    let (_, kept) = allocations::of_all_threads();
    Ok(Line::new(name)
        .with("bytes_per_point", kept as f64 / points)
        .with("resident_per_point", (memory::resident()? - resident) / points)
        .with("peak_per_point", (memory::peak()? - resident) / points)
        .with("last_collection_ns_per_point", last / points))
}

/// Whether the last collection gave what was observed.
fn check(
    name: &str,
    setup: Setup,
    engine: &mut dyn Engine,
    number: &Number,
) -> Result<(), Failure> {
    let collected = engine.read();
    let (points, sum) = (setup.points(), setup.sum(number.get()));
    if (collected.points, collected.sum) == (points, sum) {
        return Ok(());
    }
    let expected = format!("{points} points with the sum {sum}");
    Err(format!("engine {name}: {collected:?}, expected {expected}: {setup:?}").into())
}
