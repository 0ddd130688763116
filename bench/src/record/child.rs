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
        let Cost { cpu_ns, wall_ns, allocations, bytes } = measure(case, pair, operations);
        let all = operations * case.threads as u64;
        // What another program takes from this one is nobody's cost, as long as no second thread waits.
        let ns = if case.threads == 1 { cpu_ns } else { wall_ns };
        line.set(case.name, ns / operations as f64);
        line.set(&format!("{}_allocations", case.name), allocations as f64 / all as f64);
        line.set(&format!("{}_bytes", case.name), bytes as f64 / all as f64);
        done += all;
    }
    (built.upkeep)();
    done
}

struct Cost {
    cpu_ns: f64,
    wall_ns: f64,
    /// Calls of the allocator, frees included, on all threads.
    allocations: u64,
    bytes: u64,
}

fn measure(case: &Case, pair: &Pair, operations: u64) -> Cost {
    match case.threads {
        1 => alone(&case.work, operations),
        _ => pair.together(&case.work, operations),
    }
}

/// This thread and a second one, which lives as long as the bench: what a thread needs when it first
/// meets a series is not what recording costs.
struct Pair {
    barrier: Arc<Barrier>,
    works: SyncSender<(Work, u64)>,
    costs: Receiver<Cost>,
}

impl Pair {
    fn start() -> Self {
        let barrier = Arc::new(Barrier::new(2));
        let (works, to_do) = sync_channel::<(Work, u64)>(1);
        let (done, costs) = sync_channel(1);
        let pair = Pair { barrier: barrier.clone(), works, costs };
        thread::spawn(move || {
            clock::pin(1);
            for (work, operations) in to_do {
                barrier.wait();
                // Nobody waits for the answer where the first thread is gone.
                let _ = done.send(alone(&work, operations));
            }
        });
        pair
    }

    /// The work on both at once: the time that each saw, in the mean, and the allocations of both.
    fn together(&self, work: &Work, operations: u64) -> Cost {
        self.works.send((work.clone(), operations)).expect("the thread waits for work");
        self.barrier.wait();
        let one = alone(work, operations);
        let other = self.costs.recv().expect("the case panicked");
        Cost {
            cpu_ns: (one.cpu_ns + other.cpu_ns) / 2.0,
            wall_ns: (one.wall_ns + other.wall_ns) / 2.0,
            allocations: one.allocations + other.allocations,
            bytes: one.bytes + other.bytes,
        }
    }
}

fn alone(work: &Work, operations: u64) -> Cost {
    let mut elapsed = None;
    let count = allocations::count(|| elapsed = Some(clock::measure(|| work(operations)).1));
    let elapsed = elapsed.expect("the work has run");
    Cost {
        cpu_ns: elapsed.cpu_ns,
        wall_ns: elapsed.wall_ns,
        allocations: count.allocations + count.reallocations + count.frees,
        bytes: count.bytes,
    }
}
