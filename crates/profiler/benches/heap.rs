//! The allocator's wrapper: nanoseconds for an allocation with its free, idle and sampling, beside the
//! allocator inside alone; a stage; a sample. `cargo bench -p profiler --bench heap`; with `--test` it
//! runs small, to see that it works.
#![expect(clippy::print_stdout, reason = "its output is the result")]
#![expect(unsafe_code, reason = "calls allocators by hand, so that nothing else is measured")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::time::Instant;

use profiler::heap::{self, Options};
use profiler::profile::{Limits, Tables};

#[global_allocator]
static ALLOCATOR: heap::Allocator<System> = heap::Allocator::new(System);

/// The sizes that take turns: 160 bytes on average.
const SIZES: [usize; 8] = [16, 24, 32, 64, 96, 128, 320, 600];
/// Blocks that are in use at a time, so that frees are not of what was allocated just before.
const HELD: usize = 64;

/// An allocation and a free `rounds` times.
#[inline(never)]
fn churn<A: GlobalAlloc>(allocator: &A, rounds: usize) {
    let mut held: [(*mut u8, usize); HELD] = [(std::ptr::null_mut(), 0); HELD];
    let layout = |size| Layout::from_size_align(size, 8).unwrap();
    for round in 0..rounds + HELD {
        let place = &mut held[round % HELD];
        if !place.0.is_null() {
            // SAFETY: the block is in use and was asked for with this size.
            unsafe { allocator.dealloc(place.0, layout(place.1)) };
        }
        *place = (std::ptr::null_mut(), 0);
        if round < rounds {
            let size = SIZES[round % SIZES.len()];
            // SAFETY: the size is not zero.
            *place = (black_box(unsafe { allocator.alloc(layout(size)) }), size);
        }
    }
}

fn nanos(rounds: usize, work: impl FnOnce(usize)) -> f64 {
    let start = Instant::now();
    work(rounds);
    start.elapsed().as_nanos() as f64 / rounds as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Both in turns, so that what else the machine does meets both: nanoseconds inside, and those on top.
fn compare(turns: usize, rounds: usize) -> (f64, f64) {
    let (inside, wrapped): (Vec<f64>, Vec<f64>) = (0..turns)
        .map(|_| {
            let inside = nanos(rounds, |rounds| churn(&System, rounds));
            (inside, nanos(rounds, |rounds| churn(&ALLOCATOR, rounds)))
        })
        .unzip();
    let inside = median(inside);
    (inside, median(wrapped) - inside)
}

#[inline(never)]
fn stages(rounds: usize) {
    for _ in 0..rounds {
        drop(black_box(profiler::stage(black_box("bench"))));
    }
}

/// Allocates at a depth of some 100 frames.
#[inline(never)]
fn deep(depth: usize, rounds: usize) {
    match depth {
        0 => churn(&ALLOCATOR, rounds),
        _ => deep(black_box(depth) - 1, rounds),
    }
    black_box(());
}

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    // Short turns, so that most of them are not interrupted.
    let (turns, rounds) = if is_test { (3, 10_000) } else { (2_001, 10_000) };
    let each = |rounds, work: fn(usize)| median((0..turns).map(|_| nanos(rounds, work)).collect());
    let (system, idle) = compare(turns, rounds);
    let stage = each(rounds, stages);
    let counts = each(rounds / 100, |rounds| {
        (0..rounds).for_each(|_| _ = black_box(heap::thread_counts()));
    });
    let tables = Tables::new(Limits { stacks: 10_000, bytes: 64 << 20, labels: 100 });
    heap::start(Options { seed: Some(1), ..Options::default() }, &tables).unwrap();
    let before = heap::statistics().samples;
    let (_, started) = compare(turns, rounds);
    let samples = heap::statistics().samples - before;
    let expected = (turns * rounds * 160) as f64 / f64::from(512 << 10);
    assert!((samples as f64 - expected).abs() <= 5.0 * expected.sqrt() + 1.0, "{samples}");
    heap::stop();
    // Every block a sample, of a stack that is known by then.
    heap::start(Options { mean_bytes: 1, seed: Some(1) }, &tables).unwrap();
    deep(100, 1_000);
    let sample = each(rounds / 100, |rounds| deep(100, rounds));
    heap::stop();
    assert_eq!(heap::statistics().untracked, 0);
    println!(
        "RESULT heap system_ns={system:.2} idle_added_ns={idle:.2} started_added_ns={started:.2} \
         stage_ns={stage:.2} thread_counts_ns={counts:.0} sample_of_110_frames_ns={sample:.0}"
    );
}
