//! The child's side: builds one engine and answers `warm`, `op`, `check` and `peak`.

use bench::options::Options;
use bench::protocol::Line;
use bench::{Failure, clock, engine, memory};
use testkit::allocations::{self, live};

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
    let (kept, resident) = (live(), memory::resident()?);
    memory::reset_peak()?;
    let mut engine = build()?;
    engine::answer(&Line::new(name), |command| {
        let line = match command {
            "op" => operation(name, setup, &mut *engine),
            // The same work, its figures left out.
            "warm" => {
                operation(name, setup, &mut *engine);
                Line::new(name)
            }
            "peak" => peak(name, setup, &mut *engine, kept, resident)?,
            "check" => Line::new(name),
            _ => return Err(format!("{command}: the commands are warm, op, peak, check").into()),
        };
        if matches!(command, "check" | "peak") {
            check(name, setup, &*engine, &number)?;
        }
        Ok(line)
    })
}

/// A hundred collections.
fn operation(name: &str, setup: Setup, engine: &mut dyn Engine) -> Line {
    let mut elapsed = None;
    let count = allocations::count(|| {
        let ((), measured) = clock::measure(|| {
            for _ in 0..COLLECTIONS {
                engine.collect();
            }
        });
        elapsed = Some(measured);
    });
    let elapsed = elapsed.expect("the work has run");
    let points = setup.points() as f64 * COLLECTIONS as f64;
    Line::new(name)
        .with("ns_per_point", elapsed.wall_ns / points)
        .with("cpu_ns_per_point", elapsed.cpu_ns / points)
        .with("bytes_per_op", count.bytes)
        .with("allocations_per_op", count.allocations + count.reallocations)
        .with("frees_per_op", count.frees)
}

/// A few collections of many sets, then what they leave: instruments, reader and the last result.
fn peak(
    name: &str,
    setup: Setup,
    engine: &mut dyn Engine,
    kept: i64,
    resident: f64,
) -> Result<Line, Failure> {
    let points = setup.points() as f64;
    let mut last = 0.0;
    for _ in 0..PEAK_COLLECTIONS {
        let ((), elapsed) = clock::measure(|| engine.collect());
        last = elapsed.wall_ns;
    }
    Ok(Line::new(name)
        .with("bytes_per_point", (live() - kept) as f64 / points)
        .with("resident_per_point", (memory::resident()? - resident) / points)
        .with("peak_per_point", (memory::peak()? - resident) / points)
        .with("last_collection_ns_per_point", last / points))
}

/// Whether the last collection gave what was observed.
fn check(name: &str, setup: Setup, engine: &dyn Engine, number: &Number) -> Result<(), Failure> {
    let collected = engine.read();
    let (points, sum) = (setup.points(), setup.sum(number.get()));
    if (collected.points, collected.sum) == (points, sum) {
        return Ok(());
    }
    let expected = format!("{points} points with the sum {sum}");
    Err(format!("engine {name}: {collected:?}, expected {expected}: {setup:?}").into())
}
