//! The child's side: builds one engine and answers `round` and `check`.

use std::sync::Barrier;
use std::time::Instant;

use bench::options::Options;
use bench::protocol::Line;
use bench::{Failure, clock, engine};
use testkit::allocations;

use crate::case::{Built, Case};
use crate::engines;

/// Builds the engine and serves the parent until its input ends.
pub fn run(name: &str, options: &Options) -> Result<(), Failure> {
    let operations = options.count("operations")? as u64;
    let built = engines::build(name)?;
    let mut expected = 0;
    clock::pin(0);
    engine::answer(&Line::new(name), |command| match command {
        "warm" => {
            expected += round(&built, operations, &mut Line::new(name));
            Ok(Line::new(name))
        }
        "round" => {
            let mut line = Line::new(name);
            expected += round(&built, operations, &mut line);
            Ok(line)
        }
        "check" => match (built.recorded)() {
            recorded if recorded == expected => Ok(Line::new(name)),
            recorded => Err(format!("{name}: {expected} operations left {recorded}").into()),
        },
        _ => Err(format!("{command}: the commands are warm, round, check").into()),
    })
}

/// Every case once; gives the number of operations.
fn round(built: &Built, operations: u64, line: &mut Line) -> u64 {
    let mut done = 0;
    for case in &built.cases {
        let Cost { wall_ns, allocations, bytes } = measure(case, operations);
        let all = operations * case.threads as u64;
        line.set(case.name, wall_ns / operations as f64);
        line.set(&format!("{}_allocations", case.name), allocations as f64 / all as f64);
        line.set(&format!("{}_bytes", case.name), bytes as f64 / all as f64);
        done += all;
    }
    (built.upkeep)();
    done
}

struct Cost {
    wall_ns: f64,
    /// Calls of the allocator, frees included, on all threads.
    allocations: u64,
    bytes: u64,
}

fn measure(case: &Case, operations: u64) -> Cost {
    if case.threads == 1 {
        return alone(case, operations);
    }
    let barrier = Barrier::new(case.threads);
    let thread = |cpu| {
        clock::pin(cpu);
        barrier.wait();
        alone(case, operations)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..case.threads)
            .map(|cpu| {
                let thread = &thread;
                scope.spawn(move || thread(cpu))
            })
            .collect();
        let costs = threads.into_iter().map(|thread| thread.join().expect("the case panicked"));
        // What each of the threads saw per operation, in the mean.
        let count = case.threads as f64;
        costs.fold(Cost { wall_ns: 0.0, allocations: 0, bytes: 0 }, |all, one| Cost {
            wall_ns: all.wall_ns + one.wall_ns / count,
            allocations: all.allocations + one.allocations,
            bytes: all.bytes + one.bytes,
        })
    })
}

fn alone(case: &Case, operations: u64) -> Cost {
    let mut wall_ns = 0.0;
    let count = allocations::count(|| {
        let started = Instant::now();
        (case.work)(operations);
        wall_ns = started.elapsed().as_nanos() as f64;
    });
    Cost {
        wall_ns,
        allocations: count.allocations + count.reallocations + count.frees,
        bytes: count.bytes,
    }
}
