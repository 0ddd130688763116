//! The child's side: builds one engine and answers `scrape`, `pair` and `check`.

use std::sync::Barrier;
use std::time::Instant;

use bench::clock::{self, Elapsed};
use bench::options::Options;
use bench::protocol::Line;
use bench::{Failure, engine, memory};
use testkit::allocations::{self, live};

use crate::digest::{Digest, LineSum};
use crate::engines::{self, Built, Engine, Scraper};
use crate::workload::Workload;

/// Builds the engine and serves the parent until its input ends.
pub fn run(name: &str, options: &Options) -> Result<(), Failure> {
    let workload = Workload { queues: options.count("queues")? };
    let (resident, kept) = (memory::resident()?, live());
    let started = Instant::now();
    let Built { engine, program_bytes, is_floor } = engines::build(name, workload)?;
    let series = workload.series() as f64;
    let ready = Line::new(name)
        .with("build_ns", started.elapsed().as_nanos())
        .with("kept_bytes_per_series", (live() - kept - program_bytes) as f64 / series)
        .with("resident_per_series", (memory::resident()? - resident) / series)
        .with("program_bytes_per_series", program_bytes as f64 / series);

    // Every peak is told above what is resident now: what a scrape leaves in the allocator's hands for
    // the next one is no part of the registry.
    memory::reset_peak()?;
    let base = memory::peak()?;
    let mut scraper = engine.scraper();
    timed(&mut *scraper);
    engine::answer(&ready, |command| match command {
        "scrape" => scrape(name, &mut *scraper, base),
        "pair" => pair(name, &*engine),
        "check" => check(name, &mut *scraper, Digest::of_workload(workload, is_floor)),
        _ => Err(format!("{command}: the commands are scrape, pair, check").into()),
    })
}

/// One scrape and what it cost.
struct Scrape {
    elapsed: Elapsed,
    first_byte_ns: f64,
    text_bytes: u64,
    /// Calls of `alloc` and `realloc`.
    allocations: u64,
    frees: u64,
    allocated_bytes: u64,
}

/// Renders a body into nothing.
fn timed(scraper: &mut Scraper<'_>) -> Scrape {
    let (mut text_bytes, mut first_byte_ns) = (0, None);
    let mut elapsed = None;
    let started = Instant::now();
    let count = allocations::count(|| {
        let ((), measured) = clock::measure(|| {
            scraper(&mut |chunk| {
                first_byte_ns.get_or_insert_with(|| started.elapsed().as_nanos() as f64);
                text_bytes += std::hint::black_box(chunk).len() as u64;
            });
        });
        elapsed = Some(measured);
    });
    Scrape {
        elapsed: elapsed.expect("the work has run"),
        first_byte_ns: first_byte_ns.unwrap_or(f64::INFINITY),
        text_bytes,
        allocations: count.allocations + count.reallocations,
        frees: count.frees,
        allocated_bytes: count.bytes,
    }
}

fn scrape(name: &str, scraper: &mut Scraper<'_>, base: f64) -> Result<Line, Failure> {
    let scrape = timed(scraper);
    Ok(Line::new(name)
        .with("cpu_ns", scrape.elapsed.cpu_ns)
        .with("wall_ns", scrape.elapsed.wall_ns)
        .with("first_byte_ns", scrape.first_byte_ns)
        .with("text_bytes", scrape.text_bytes)
        .with("allocations", scrape.allocations)
        .with("frees", scrape.frees)
        .with("allocated_bytes", scrape.allocated_bytes)
        .with("peak_bytes", memory::peak()? - base))
}

/// Two scrapes at once. First both are hashed, which also lets the second one take what it needs while
/// it runs; then both are measured.
fn pair(name: &str, engine: &dyn Engine) -> Result<Line, Failure> {
    let barrier = Barrier::new(2);
    let thread = || {
        let mut scraper = engine.scraper();
        let mut lines = LineSum::default();
        barrier.wait();
        scraper(&mut |chunk| lines.write(chunk));
        barrier.wait();
        (lines, timed(&mut *scraper))
    };
    let both = std::thread::scope(|scope| {
        let second = scope.spawn(thread);
        let first = thread();
        second.join().map(|second| [first, second])
    });
    let both = both.map_err(|_| format!("engine {name}: a scrape beside another one panicked"))?;
    let [(first_lines, first), (second_lines, second)] = both;
    if first_lines != second_lines || first.text_bytes != second.text_bytes {
        return Err(format!("engine {name}: two scrapes at once gave different bodies").into());
    }
    let most = |of: fn(&Scrape) -> f64| of(&first).max(of(&second));
    Ok(Line::new(name)
        .with("pair_cpu_ns", most(|scrape| scrape.elapsed.cpu_ns))
        .with("pair_wall_ns", most(|scrape| scrape.elapsed.wall_ns))
        .with("pair_first_byte_ns", most(|scrape| scrape.first_byte_ns))
        .with("pair_allocations", first.allocations + second.allocations)
        .with("pair_frees", first.frees + second.frees))
}

fn check(name: &str, scraper: &mut Scraper<'_>, expected: Digest) -> Result<Line, Failure> {
    let mut body = Vec::new();
    scraper(&mut |chunk| body.extend_from_slice(chunk));
    let found = Digest::of_body(&body).map_err(|error| format!("engine {name}: {error}"))?;
    if found != expected {
        return Err(format!(
            "engine {name}: the body holds {} samples, and they are not the {} of the workload",
            found.samples, expected.samples
        )
        .into());
    }
    Ok(Line::new(name).with("samples", found.samples))
}
