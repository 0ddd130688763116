//! Passes over deep stacks on 4 to 1,024 threads: how many a second, what a frame costs, whether stacks
//! are complete; and whether each thread's time is right after a minute.
//!
//! 1. Each build, with frame pointers and without, is a process of its own.
//! 2. Round by round, each number of threads is started anew; a profiler makes passes as fast as it can.
//! 3. A handler of the bench's own times the walk alone.
//! 4. Once, 65 threads for a minute under a profiler as it comes: what each of them is said to have spent.
//!
//! The last lines are `RESULT totals …` and `RESULT stacks …`; see `bench/README.md`.

mod passes;
mod summary;
mod threads;
mod totals;
mod walks;

use std::collections::BTreeMap;

use bench::Failure;
use bench::engine::{Engine, Measured};
use bench::options::Options;
use bench::protocol::Line;

/// Threads at a time.
const COUNTS: [usize; 6] = [4, 16, 32, 64, 256, 1024];
const SMOKE_COUNTS: [usize; 3] = [4, 16, 32];

const ROUNDS: usize = 5;
const PASS_MS: usize = 1000;
const SMOKE_PASS_MS: usize = 50;
const WALKS: usize = 5000;
const SMOKE_WALKS: usize = 100;
const TOTALS_SECONDS: usize = 60;
const SMOKE_TOTALS_SECONDS: usize = 2;

/// The same program, built otherwise: the Makefile leaves it there.
const BUILDS: [(&str, Option<&str>); 2] =
    [("without", None), ("frame-pointers", Some("frame-pointers"))];

fn main() -> Result<(), Failure> {
    let options = Options::read(std::env::args().skip(1))?;
    if let Some(name) = &options.engine {
        return child(name, &options);
    }
    let measured = run_builds(&options)?;
    summary::print(&measured);
    Ok(())
}

fn run_builds(options: &Options) -> Result<BTreeMap<String, Measured>, Failure> {
    let (counts, ms, walks): (&[usize], _, _) = match options.is_smoke {
        true => (&SMOKE_COUNTS, SMOKE_PASS_MS, SMOKE_WALKS),
        false => (&COUNTS, PASS_MS, WALKS),
    };
    let arguments =
        ["--set".to_owned(), format!("ms={ms}"), "--set".to_owned(), format!("walks={walks}")];
    let mut running = Vec::new();
    for (name, directory) in BUILDS {
        if !options.wants(name) {
            continue;
        }
        let program = bench::engine::other_build("bench-stacks", directory)?;
        if program.exists() {
            running.push(Engine::start_program(&program, name, &arguments)?);
        } else {
            println!("missing: {}: the build with frame pointers is left out", program.display());
        }
    }
    for _ in 0..if options.is_smoke { 1 } else { ROUNDS } {
        for count in counts {
            for wait in passes::WAITS {
                for engine in &mut running {
                    engine.ask(&format!("passes {wait} {count}"))?;
                }
            }
        }
        for engine in &mut running {
            engine.ask("walks 64")?;
            engine.ask("walks 1")?;
        }
    }
    if let Some(engine) = running.first_mut() {
        let seconds = if options.is_smoke { SMOKE_TOTALS_SECONDS } else { TOTALS_SECONDS };
        engine.ask(&format!("totals {seconds}"))?;
    }
    running.into_iter().map(|engine| Ok((engine.name().to_owned(), engine.end()?))).collect()
}

fn child(name: &str, options: &Options) -> Result<(), Failure> {
    let (ms, walks) = (options.count("ms")?, options.count("walks")?);
    bench::engine::answer(&Line::new(name), |command| {
        let words: Vec<&str> = command.split(' ').collect();
        match words[..] {
            ["passes", wait, count] => {
                let count = count.parse()?;
                let passes = passes::measure(wait, count, ms as u64)?;
                Ok(passes.line(name, wait, count))
            }
            ["walks", count] => {
                let threads = threads::Threads::start(count.parse()?, threads::Wait::Asleep)?;
                let found = walks::measure(&threads, walks)?;
                Ok(Line::new(name)
                    .with(&format!("ns_per_frame_{count}"), found.ns_per_frame)
                    .with("depth", found.depth)
                    .with("walks_complete", found.complete))
            }
            ["totals", seconds] => totals::measure(seconds.parse()?, name),
            _ => Err(format!("{command}: the commands are passes, walks, totals").into()),
        }
    })
}
