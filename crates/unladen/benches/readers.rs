//! Collecting: nanoseconds and bytes for each point, in both memory modes and both temporalities.
//! `cargo bench -p unladen --bench readers`; with `--test` it runs small, to see that it works. With
//! `--peak reusable` or `--peak immutable` it holds five million points and tells what that takes; with
//! `delta` behind that, as differences.
#![expect(clippy::print_stdout, reason = "its output is the result")]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use testkit::allocations::{Counting, count_all_threads, of_all_threads, watch_all_threads};
use unladen::reader::{Batch, Points, Reader, Temporalities};
use unladen::{Attributes, Registry, Role, Spec};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// What callbacks know.
struct Known {
    texts: Vec<[String; 3]>,
    stored: Vec<Attributes>,
    /// The value of the first set; each that follows is one more.
    base: AtomicU64,
}

fn observables(
    registry: &Registry,
    instruments: usize,
    sets: usize,
    is_stored: bool,
) -> Arc<Known> {
    let texts: Vec<_> = (0..sets)
        .map(|set| {
            [format!("/path/{set}"), format!("{}", 200 + set % 5), format!("host-{}", set % 97)]
        })
        .collect();
    let given = |[path, code, host]: &[String; 3]| {
        registry.attributes(&[("code", code), ("host", host), ("path", path)])
    };
    let stored = texts.iter().map(given).collect();
    let known = Arc::new(Known { texts, stored, base: AtomicU64::new(1) });
    for instrument in 0..instruments {
        let known = known.clone();
        let name = format!("requests_{instrument}_total");
        let spec = Spec::new(&name, "Requests.").limit(sets + 1);
        let observe = move |observer: &mut unladen::OpenObserver<'_>| {
            let base = known.base.load(Relaxed);
            if is_stored {
                for (set, value) in known.stored.iter().zip(base..) {
                    observer.observe_stored(value, set);
                }
            } else {
                for ([path, code, host], value) in known.texts.iter().zip(base..) {
                    observer.observe(value, &[("code", code), ("host", host), ("path", path)]);
                }
            }
        };
        registry.observe_open(spec, Role::Counter, observe).unwrap();
    }
    known
}

fn sum(batch: &Batch<'_>) -> u64 {
    let mut sum = 0;
    for metric in batch.metrics() {
        let Points::Sum { points, .. } = metric.points() else { continue };
        sum += points.map(|point| point.value.as_f64() as u64).sum::<u64>();
    }
    sum
}

/// Which way is collected.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Reusable,
    Immutable,
}

fn collect(reader: &mut Reader, mode: Mode) -> u64 {
    match mode {
        Mode::Reusable => reader.collect(|batch| batch.point_count() as u64),
        Mode::Immutable => black_box(reader.snapshot()).batch().point_count() as u64,
    }
}

const CASES: [(&str, Temporalities); 2] =
    [("cumulative", Temporalities::CUMULATIVE), ("delta", Temporalities::DELTA)];

fn operations(instruments: usize, sets: usize, rounds: usize) {
    let points = (instruments * sets) as u64;
    for is_stored in [false, true] {
        for (name, temporalities) in CASES {
            for mode in [Mode::Reusable, Mode::Immutable] {
                let registry = Registry::new();
                let known = observables(&registry, instruments, sets, is_stored);
                let mut reader = Reader::new(&registry, temporalities);
                let mut round = || {
                    known.base.fetch_add(1, Relaxed);
                    assert_eq!(collect(&mut reader, mode), points);
                };
                (0..3).for_each(|_| round());
                let mut times: Vec<f64> = Vec::with_capacity(rounds);
                let during = count_all_threads(|| {
                    for _ in 0..rounds {
                        let begin = Instant::now();
                        round();
                        times.push(begin.elapsed().as_nanos() as f64 / points as f64);
                    }
                });
                times.sort_by(f64::total_cmp);
                let last = reader.collect(sum);
                let expected = match name {
                    "delta" => 0,
                    _ => {
                        let base = known.base.load(Relaxed);
                        instruments as u64 * (0..sets as u64).map(|set| base + set).sum::<u64>()
                    }
                };
                assert_eq!(last, expected);
                println!(
                    "RESULT readers given={} temporality={name} mode={mode:?} ns_per_point={:.2} \
                     bytes_per_collection={}",
                    if is_stored { "stored" } else { "pairs" },
                    times[times.len() / 2],
                    during.bytes / rounds as u64,
                );
            }
        }
    }
    handles(instruments, sets, rounds);
}

/// The same of counters with handles.
fn handles(instruments: usize, sets: usize, rounds: usize) {
    for (name, temporalities) in CASES {
        let registry = Registry::new();
        let mut counters = Vec::new();
        for instrument in 0..instruments {
            let name = format!("requests_{instrument}_total");
            let spec = Spec::new(&name, "Requests.").limit(sets + 1);
            let family = registry.counter(spec, ["path"]).unwrap();
            counters.extend((0..sets).map(|set| family.with([&format!("/path/{set}")])));
        }
        let mut reader = Reader::new(&registry, temporalities);
        let mut times: Vec<f64> = (0..rounds + 3)
            .map(|_| {
                counters.iter().for_each(unladen::Counter::increment);
                let begin = Instant::now();
                assert_eq!(collect(&mut reader, Mode::Reusable), counters.len() as u64);
                begin.elapsed().as_nanos() as f64 / counters.len() as f64
            })
            .skip(3)
            .collect();
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        println!("RESULT readers handles temporality={name} ns_per_point={median:.2}");
    }
}

fn peak(mode: Mode, temporalities: Temporalities, instruments: usize, sets: usize) {
    let points = (instruments * sets) as f64;
    watch_all_threads(true);
    let registry = Registry::new();
    let known = observables(&registry, instruments, sets, false);
    let (_, before) = of_all_threads();
    let mut reader = Reader::new(&registry, temporalities);
    let mut kept = None;
    for _ in 0..5 {
        known.base.fetch_add(1, Relaxed);
        match mode {
            Mode::Reusable => {
                assert_eq!(reader.collect(|batch| batch.point_count()), points as usize);
            }
            // The one before is there until the next one is.
            Mode::Immutable => kept = Some(reader.snapshot()),
        }
    }
    let (_, after) = of_all_threads();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let high = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!(
        "RESULT readers peak mode={mode:?} live_bytes_per_point={:.1} high_water={}",
        (after - before) as f64 / points,
        high.unwrap_or("unknown").trim(),
    );
    drop(kept);
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    let temporalities = if has("delta") { Temporalities::DELTA } else { Temporalities::CUMULATIVE };
    match (has("--peak"), has("--test")) {
        (true, _) => {
            let mode = if has("immutable") { Mode::Immutable } else { Mode::Reusable };
            peak(mode, temporalities, 50, 100_000);
        }
        (false, true) => {
            operations(2, 20, 3);
            peak(Mode::Reusable, temporalities, 2, 50);
        }
        (false, false) => operations(10, 1_000, 200),
    }
}
