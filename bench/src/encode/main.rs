//! Recording stacks and writing them as pprof, by us and by every peer.
//!
//! 1. Every engine in a process of its own; round by round each records all samples and encodes them, the
//!    first time (*cold*) and again. A library that keeps nothing is cold every time.
//! 2. What each wrote last is read by our reader, and by Go's, and compared with the workload.
//! 3. Go's own package, which builds and writes the same profile.
//!
//! The last line is `RESULT encode …`; see `bench/README.md`.

mod child;
mod engines;
mod peers;
mod summary;
mod workload;

use std::collections::BTreeMap;
use std::path::Path;

use bench::Failure;
use bench::engine::{Engine, Measured};
use bench::options::Options;
use workload::Size;

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

const FULL: Size = Size { stacks: 4_000, depth: 500, functions: 10_000, files: 1_000 };
const SMOKE: Size = Size { stacks: 50, depth: 40, functions: 100, files: 10 };
const ROUNDS: usize = 3;
const SMOKE_ROUNDS: usize = 1;

/// What was measured, by engine.
pub type All = BTreeMap<String, Measured>;

fn main() -> Result<(), Failure> {
    let options = Options::read(std::env::args().skip(1))?;
    if let Some(name) = &options.engine {
        return child::run(name, &options);
    }
    let (size, rounds) = if options.is_smoke { (SMOKE, SMOKE_ROUNDS) } else { (FULL, ROUNDS) };
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("out");
    std::fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let mut arguments = size.arguments();
    arguments.extend(["--set".to_owned(), format!("out={}", out.display())]);
    let mut all = All::new();
    let mut written = Vec::new();
    let mut running = engines::NAMES
        .into_iter()
        .filter(|name| options.wants(name))
        .map(|name| Engine::start(name, &arguments))
        .collect::<Result<Vec<_>, _>>()?;
    for _ in 0..rounds {
        for engine in &mut running {
            engine.ask("cold")?;
            if engines::keeps(engine.name()) {
                engine.ask("again")?;
            }
        }
    }
    for mut engine in running {
        written.push(engine.ask("check")?);
        engine.ask("more")?;
        all.insert(engine.name().to_owned(), engine.end()?);
    }
    if options.has_peers {
        peers::run(size, rounds, &written, &mut all)?;
    }
    for line in &written {
        if let Some(path) = line.text("path") {
            // Tens of megabytes that nobody looks at.
            let _ = std::fs::remove_file(path);
        }
    }
    summary::print(size, &all);
    Ok(())
}
