//! From the bytes of a body to journal and head: one warm target, and 500 in turn.
//!
//! `cargo bench -p server --bench ingest` measures (with `-- --only-warm` for a profiler); without `--bench`
//! (as `cargo test --benches` runs it) it does little and only checks its answers. The last line is
//! `RESULT ingest warm_ns=… fleet_ns=… allocations=… memory_bytes_per_series=…`: nanoseconds of processor
//! time per sample, the median of the rounds; allocations of all measured rounds but the one in which
//! chunks end for the first time; bytes that the targets' lines hold.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use server::config::{self, ScrapeConfig};
use server::scrape::ingest::{Body, Counts, Ingester, Report, TargetSeries};
use store::Labels;
use store::db::{Db, Options};
use store::disk::Directory;
use testkit::allocations::{Counting, count};
use wire::exposition::Format;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

const SERIES: usize = 1000;
/// Rounds in which series are made, and buffers and memory for chunks grow to their size: until all chunks
/// have ended once.
const UNCOUNTED: usize = 260;
/// So many different bodies follow one another.
const BODIES: usize = 16;
const START: i64 = 1_700_000_000_000;

/// A target, and what it says.
struct Target {
    labels: Labels,
    series: TargetSeries,
    bodies: Vec<String>,
}

fn body(target: usize, round: usize) -> String {
    let mut body = String::new();
    for family in 0..SERIES / 10 {
        let name = format!("node_network_thing_{family}_bytes_total");
        let _ = writeln!(body, "# HELP {name} Something that is counted, number {family}.");
        let _ = writeln!(body, "# TYPE {name} counter");
        for device in 0..10 {
            let value =
                (family * 7919 + device * 104_729 + target) as u64 * 1000 + (round * 37) as u64;
            // Counters, integers for the most part; every fifth is a fraction; some do not move.
            let value = match (family + device) % 10 {
                0 | 1 => (value as f64 / 7.0).to_string(),
                2 | 3 => (value / 1000).to_string(),
                _ => value.to_string(),
            };
            let _ =
                writeln!(body, "{name}{{device=\"eth{device}\",direction=\"receive\"}} {value}");
        }
    }
    body
}

fn target(index: usize, bodies: usize) -> Target {
    let instance = format!("machine-{index}.example:9100");
    Target {
        labels: Labels::from_pairs([("instance", instance.as_str()), ("job", "node")]),
        series: TargetSeries::default(),
        bodies: (0..bodies).map(|round| body(index, round)).collect(),
    }
}

fn job() -> ScrapeConfig {
    let text = "scrape_configs: [{job_name: node}]";
    let loaded =
        config::load_text(text, Path::new("t.yml"), Path::new(""), &config::Options::default());
    loaded.expect("the configuration is valid").config.scrape_configs.remove(0)
}

fn scrape(
    ingester: &mut Ingester,
    target: &mut Target,
    config: &ScrapeConfig,
    bytes: &[u8],
    round: usize,
) -> Counts {
    let now_ms = START + round as i64 * 15_000;
    let body = Body { bytes, format: Format::Text, now_ms, labels: &target.labels, config };
    let mut counts = ingester.read(&mut target.series, body).expect("the body is good");
    let report = Report::Scraped { up: true, seconds: 0.01, counts, extra: None };
    ingester.report(&mut target.series, &target.labels, now_ms, &report).expect("there is room");
    let again = ingester.commit(&mut target.series, &mut counts).expect("the journal is written");
    assert!(!again && counts.scraped == SERIES as u64 && counts.duplicates == 0);
    counts
}

/// What the thread has had of a processor: the machine may be busy with other things.
fn processor_nanoseconds() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

struct Measured {
    ns_per_sample: f64,
    allocations: u64,
    bytes_per_series: f64,
}

fn measure(targets: usize, rounds: usize) -> Measured {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let disk = Arc::new(Directory::open(folder.path()).expect("a folder"));
    let (db, _) = Db::open(disk, Options::default(), START).expect("an empty store");
    let config = job();
    let mut ingester = Ingester::new(&db);
    // The bodies of a whole fleet would be all that is measured: few suffice there.
    let bodies = if targets == 1 { BODIES } else { 2 };
    let mut targets: Vec<_> = (0..targets).map(|index| target(index, bodies)).collect();
    let samples = (targets.len() * SERIES) as f64;
    let mut times = Vec::with_capacity(rounds);
    let mut allocations = 0;
    // As a body comes from the network: to the worker's own buffer.
    let mut buffer = Vec::new();
    for round in 0..rounds + UNCOUNTED {
        let mut time = 0;
        for target in &mut targets {
            buffer.clear();
            buffer.extend_from_slice(target.bodies[round % target.bodies.len()].as_bytes());
            let started = processor_nanoseconds();
            let here = count(|| {
                scrape(&mut ingester, target, &config, &buffer, round);
            });
            time += processor_nanoseconds() - started;
            if round >= UNCOUNTED {
                allocations += here.allocations + here.reallocations;
            }
        }
        if round >= UNCOUNTED {
            times.push(time as f64 / samples);
        }
    }
    assert_eq!(db.stats().series, (targets.len() * (SERIES + 5)) as u64);
    times.sort_by(f64::total_cmp);
    let held: usize = targets.iter().map(|target| target.series.memory_usage()).sum();
    Measured {
        ns_per_sample: times[times.len() / 2],
        allocations,
        bytes_per_series: held as f64 / samples,
    }
}

#[expect(clippy::print_stdout, reason = "a bench is a program of its own")]
fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let (fleet, warm_rounds, fleet_rounds) = if full { (500, 2000, 60) } else { (3, 5, 2) };
    if std::env::args().any(|argument| argument == "--only-warm") {
        println!("warm_ns={:.1}", measure(1, 20 * warm_rounds).ns_per_sample);
        return;
    }
    let warm = measure(1, warm_rounds);
    let turn = measure(fleet, fleet_rounds);
    println!(
        "RESULT ingest warm_ns={:.1} fleet_ns={:.1} allocations={} memory_bytes_per_series={:.0}",
        warm.ns_per_sample,
        turn.ns_per_sample,
        warm.allocations + turn.allocations,
        warm.bytes_per_series
    );
}
