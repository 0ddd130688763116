//! Passes as fast as they can go: no pause between ticks, no budget.
//!
//! A pass is as many samples as a tick takes from 16 threads or more: 16, or one of each thread where there
//! are fewer. CPU time for a pass tells the same on a machine that has other things to do.

use std::thread;
use std::time::Duration;

use bench::Failure;
use bench::clock;
use bench::protocol::Line;
use profiler::{Profiler, Statistics};

use crate::threads::{Threads, Wait};

/// Microseconds between two moments of one thread, for each thread there is: 5,000 moments a second by all
/// threads together.
const AWAKE_US: u64 = 200;

/// Samples of a pass. A round over all threads does not end with a full tick, so that ticks are not alike;
/// what is counted is a pass' worth of samples.
const PER_PASS: usize = 16;

/// How threads may be: interrupted at each sample although they sleep, which is what a pass costs at most;
/// awake for moments; asleep, and known as such.
pub const WAITS: [&str; 3] = ["interrupted", "awake", "asleep"];

/// What a while of passes came to.
pub struct Passes {
    seconds: f64,
    cpu_us: f64,
    passes: f64,
    samples: u64,
    signals: u64,
    asleep: u64,
    frames: u64,
    complete: u64,
    truncated: u64,
    lost: u64,
    handlers_ns: u64,
    walked: u64,
}

/// Starts so many threads and a profiler, and counts for so long.
pub fn measure(wait: &str, count: usize, ms: u64) -> Result<Passes, Failure> {
    let (wait, recognises) = match wait {
        "interrupted" => (Wait::Asleep, false),
        "awake" => (Wait::Awake(AWAKE_US), true),
        "asleep" => (Wait::Asleep, true),
        _ => return Err(format!("{wait}: threads are interrupted, awake or asleep").into()),
    };
    let _threads = Threads::start(count, wait)?;
    // Far more than there are processors: nothing holds it back.
    let builder = Profiler::builder().tick(Duration::ZERO).budget(1000.0);
    let profiler = builder.recognise_sleepers(recognises).start()?;
    // Every stack is new to the tables at first.
    thread::sleep(Duration::from_millis(ms / 2));
    let before = profiler.statistics();
    let ((), elapsed) = clock::measure(|| thread::sleep(Duration::from_millis(ms)));
    let after = profiler.statistics();
    let of = |number: fn(&Statistics) -> u64| number(&after) - number(&before);
    Ok(Passes {
        seconds: elapsed.wall_ns / 1e9,
        cpu_us: elapsed.process_cpu_ns / 1e3,
        passes: of(|s| s.samples) as f64 / count.min(PER_PASS) as f64,
        samples: of(|s| s.samples),
        signals: of(|s| s.signals),
        asleep: of(|s| s.asleep),
        frames: of(|s| s.frames),
        complete: of(|s| s.complete),
        truncated: of(|s| s.truncated),
        lost: of(|s| s.lost),
        handlers_ns: of(|s| s.cost_handlers_ns),
        walked: of(|s| s.complete + s.truncated + s.lost),
    })
}

impl Passes {
    /// As the parent reads it.
    pub fn line(&self, name: &str, wait: &str, count: usize) -> Line {
        let per_second = |number: u64| number as f64 / self.seconds;
        let mut line = Line::new(name);
        for (what, number) in [
            ("passes", self.passes / self.seconds),
            ("cpu_us_per_pass", self.cpu_us / self.passes),
            ("samples", per_second(self.samples)),
            ("signals", per_second(self.signals)),
            ("asleep", per_second(self.asleep)),
            ("handler_ns_per_frame", self.handlers_ns as f64 / self.frames as f64),
            ("depth", self.frames as f64 / self.walked as f64),
            ("complete", self.complete as f64),
            ("truncated", self.truncated as f64),
            ("lost", self.lost as f64),
        ] {
            if number.is_finite() {
                line.set(&format!("{wait}_{what}_{count}"), number);
            }
        }
        line
    }
}
