//! Native histograms: nanoseconds to find a bucket, to count a value, and to read a cell.
//! `cargo bench -p unladen --bench native`; with `--test` it runs small, to see that it works.
#![expect(clippy::print_stdout, reason = "its output is the result")]

use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use testkit::allocations::{Count, Counting, count};
use testkit::random::Random;

#[allow(dead_code, unused_imports, reason = "the library uses the rest")]
#[path = "../src/native/mod.rs"]
mod native;

use native::{DEFAULT_LIMIT, DEFAULT_ZERO_THRESHOLD, Shape, Snapshot, bucket, index_of, record};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

const VALUES: usize = 4_096;

/// Latencies in seconds: three quarters of them between 1 and 16 ms, a tail up to some seconds.
fn latencies() -> Vec<f64> {
    let mut random = Random::new(1);
    (0..VALUES)
        .map(|_| {
            let spread = random.unit() + random.unit() + random.unit() - 1.5;
            0.004 * (spread * 5.0).exp2()
        })
        .collect()
}

/// The median of eleven runs of `rounds`, in nanoseconds for each call.
fn median(rounds: usize, per_round: usize, mut run: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..11)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..rounds {
                run();
            }
            start.elapsed().as_nanos() as f64 / (rounds * per_round) as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let rounds = if std::env::args().any(|argument| argument == "--test") { 1 } else { 1_000 };
    let values = latencies();
    let shape = Shape::new(3, DEFAULT_ZERO_THRESHOLD, DEFAULT_LIMIT).unwrap();
    let cell: Vec<AtomicU64> = (0..shape.width()).map(|_| AtomicU64::new(0)).collect();
    let mut snapshot = Snapshot::new();
    let mut bounds = [0.0; 15];
    for (power, bound) in (0i32..).zip(&mut bounds) {
        *bound = 0.0005 * f64::from(power).exp2();
    }
    // To have seen everything once.
    values.iter().for_each(|value| record(&shape, &cell, *value));
    snapshot.read(&shape, &cell).unwrap();
    let before = snapshot.count();

    let mut figures = [0.0; 4];
    let during = count(|| {
        let fill = || values.iter().for_each(|value| record(&shape, &cell, black_box(*value)));
        figures[0] = median(rounds, VALUES, fill);
        figures[1] = median(rounds, VALUES, || {
            black_box(values.iter().fold(0, |sum, value| sum ^ index_of(black_box(*value))));
        });
        figures[2] = median(rounds, VALUES, || {
            black_box(values.iter().fold(0, |sum, value| sum ^ bucket(&bounds, black_box(*value))));
        });
        figures[3] = median(rounds, 1, || snapshot.read(&shape, &cell).unwrap());
    });
    // The lists of times, and nothing else.
    assert_eq!((during.allocations, during.reallocations), (4, 0), "{:?}", Count { ..during });
    assert_eq!(snapshot.count() - before, (11 * rounds * VALUES) as u64);
    let [record_ns, index_ns, explicit_ns, read_ns] = figures;
    println!(
        "RESULT native record_ns={record_ns:.2} index_ns={index_ns:.2} \
         explicit15_ns={explicit_ns:.2} read_ns={read_ns:.0} buckets={} schema={}",
        snapshot.positive().counts().len(),
        snapshot.schema(),
    );
}
