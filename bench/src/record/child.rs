//! The child's side: builds one engine and answers `round` and `check`.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Barrier};
use std::thread;

use bench::options::Options;
use bench::protocol::Line;
use bench::{Failure, clock, engine};
use testkit::allocations;

use crate::case::{Built, Case, Work};
use crate::engines;
use crate::slices::{self, SLICES, Slice};

/// Builds the engine and serves the parent until its input ends.
pub fn run(name: &str, options: &Options) -> Result<(), Failure> {
    let operations = options.count("operations")? as u64;
    let built = engines::build(name)?;
    let mut expected = 0;
    let pair = Pair::start();
    clock::pin(0);
    engine::answer(&Line::new(name), |command| match command {
        "warm" => {
            expected += round(&built, &pair, operations, &mut Line::new(name));
            Ok(Line::new(name))
        }
        "round" => {
            let mut line = Line::new(name);
            expected += round(&built, &pair, operations, &mut line);
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
fn round(built: &Built, pair: &Pair, operations: u64, line: &mut Line) -> u64 {
    let mut done = 0;
    for case in &built.cases {
        let Cost { slice_ns, allocations, bytes } = measure(case, pair, operations);
        let all = operations * case.threads as u64;
        if let Some(ns) = slice_ns {
            line.set(case.name, ns / (operations / SLICES) as f64);
        }
        line.set(&format!("{}_allocations", case.name), allocations as f64 / all as f64);
        line.set(&format!("{}_bytes", case.name), bytes as f64 / all as f64);
        done += all;
    }
    (built.upkeep)();
    done
}

struct Cost {
    /// Of the middle slice; none where the machine was too busy to tell.
    slice_ns: Option<f64>,
    /// Calls of the allocator, frees included, on all threads.
    allocations: u64,
    bytes: u64,
}

fn measure(case: &Case, pair: &Pair, operations: u64) -> Cost {
    match case.threads {
        1 => {
            let Run { slices, allocations, bytes } = record(&case.work, operations);
            Cost { slice_ns: slices::alone(&slices), allocations, bytes }
        }
        _ => pair.together(&case.work, operations),
    }
}

/// This thread and a second one, which lives as long as the bench: what a thread needs when it first
/// meets a series is not what recording costs.
struct Pair {
    barrier: Arc<Barrier>,
    works: SyncSender<(Work, u64)>,
    runs: Receiver<Run>,
}

impl Pair {
    fn start() -> Self {
        let barrier = Arc::new(Barrier::new(2));
        let (works, to_do) = sync_channel::<(Work, u64)>(1);
        let (done, runs) = sync_channel(1);
        let pair = Pair { barrier: barrier.clone(), works, runs };
        thread::spawn(move || {
            clock::pin(1);
            for (work, operations) in to_do {
                barrier.wait();
                // Nobody waits for the answer where the first thread is gone.
                let _ = done.send(record(&work, operations));
            }
        });
        pair
    }

    /// The work on both at once: the time that each saw, and the allocations of both.
    fn together(&self, work: &Work, operations: u64) -> Cost {
        self.works.send((work.clone(), operations)).expect("the thread waits for work");
        self.barrier.wait();
        let one = record(work, operations);
        let other = self.runs.recv().expect("the case panicked");
        Cost {
            slice_ns: slices::together(&one.slices, &other.slices),
            allocations: one.allocations + other.allocations,
            bytes: one.bytes + other.bytes,
        }
    }
}

/// A round of one thread.
struct Run {
    slices: Vec<Slice>,
    /// Calls of the allocator, frees included.
    allocations: u64,
    bytes: u64,
}

fn record(work: &Work, operations: u64) -> Run {
    let mut slices = Vec::with_capacity(SLICES as usize);
    let count = allocations::count(|| slices::run(work, operations, &mut slices));
    Run {
        slices,
        allocations: count.allocations + count.reallocations + count.frees,
        bytes: count.bytes,
    }
}
