//! Walks at a depth of 500: nanoseconds per frame, with what was walked before and after it was forgotten.
//! `cargo bench -p profiler --bench unwind`, and once more with `RUSTFLAGS=-Cforce-frame-pointers=yes`;
//! with `--test` it runs small, to see that it works.
#![expect(clippy::print_stdout, reason = "its output is the result")]

use std::hint::black_box;
use std::time::Instant;

use profiler::unwind::{self, End, Registers, Walk};

const DEPTH: usize = 500;

/// Functions that differ, so that a walk meets as many different addresses as real code has.
macro_rules! functions {
    ($($name:ident: $words:literal),*) => {
        /// By number.
        const FUNCTIONS: &[fn(usize, &mut dyn FnMut()) -> u64] = &[$($name),*];
        $(
            #[inline(never)]
            fn $name(depth: usize, f: &mut dyn FnMut()) -> u64 {
                let words = black_box([depth as u64; $words]);
                if depth == 0 {
                    f();
                    return words[0];
                }
                let next = FUNCTIONS[(depth * 7) % FUNCTIONS.len()];
                next(black_box(depth - 1), f).wrapping_add(words[depth % $words])
            }
        )*
    };
}

functions! {
    f00: 2, f01: 3, f02: 4, f03: 5, f04: 6, f05: 7, f06: 8, f07: 9, f08: 10, f09: 11, f10: 12, f11: 13,
    f12: 14, f13: 15, f14: 16, f15: 17, f16: 18, f17: 19, f18: 20, f19: 21, f20: 22, f21: 23, f22: 24
}

/// One function whose only variable is its depth.
#[inline(never)]
fn plain(depth: usize, f: &mut dyn FnMut()) -> u64 {
    if depth == 0 {
        f();
        return 0;
    }
    plain(black_box(depth - 1), f) + black_box(1)
}

/// The median time of a walk of a copied stack, which asks for no page.
fn per_copied_frame(runs: usize) -> f64 {
    let mut frames = [0; DEPTH * 2];
    let mut times = Vec::with_capacity(runs);
    f00(DEPTH, &mut || {
        let registers = Registers::here();
        // SAFETY: less than the calls above occupy.
        let stack = unsafe { std::slice::from_raw_parts(registers.sp as *const u8, DEPTH * 80) };
        for _ in 0..runs {
            let start = Instant::now();
            let walk = black_box(unwind::walk_copy(black_box(&registers), stack, &mut frames));
            let elapsed = start.elapsed().as_nanos() as f64;
            assert!(walk.depth > DEPTH / 4, "{walk:?}");
            times.push(elapsed / walk.depth as f64);
        }
    });
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The median time of a walk, in nanoseconds for each frame.
fn per_frame(
    runs: usize,
    mut before: impl FnMut(),
    descend: fn(usize, &mut dyn FnMut()) -> u64,
) -> f64 {
    let mut frames = [0; DEPTH * 2];
    let mut times = Vec::with_capacity(runs);
    descend(DEPTH, &mut || {
        let registers = Registers::here();
        for _ in 0..runs {
            before();
            let start = Instant::now();
            let walk: Walk = black_box(unwind::walk(black_box(&registers), &mut frames));
            let elapsed = start.elapsed().as_nanos() as f64;
            assert_eq!(walk.end, End::Root, "{walk:?}");
            assert!(walk.depth > DEPTH);
            times.push(elapsed / walk.depth as f64);
        }
    });
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let small = std::env::args().any(|argument| argument == "--test");
    let (runs, cold_runs) = if small { (10, 2) } else { (5_000, 200) };
    let start = Instant::now();
    unwind::refresh();
    let prepared_ms = start.elapsed().as_secs_f64() * 1e3;
    let start = Instant::now();
    for _ in 0..1_000 {
        assert_eq!(unwind::refresh(), unwind::Refreshed::Same);
    }
    let same_ns = start.elapsed().as_nanos() as f64 / 1e3;
    let warm = per_frame(runs, || (), f00);
    let copied = per_copied_frame(runs);
    let plain = per_frame(runs, || (), plain);
    let mut spoil = vec![1_u64; 8 << 20];
    let cold = per_frame(
        cold_runs,
        || {
            // More than the processor's caches hold: tables, rules and the stack itself leave them.
            spoil.iter_mut().step_by(8).for_each(|word| *word = word.wrapping_mul(3));
            black_box(&mut spoil);
        },
        f00,
    );
    let frame_pointers = option_env!("RUSTFLAGS").unwrap_or("").contains("force-frame-pointers");
    let statistics = unwind::statistics();
    println!("{statistics:?}");
    println!(
        "RESULT unwind frame_pointers={frame_pointers} depth={DEPTH} warm_ns={warm:.1} plain_ns={plain:.1} \
         copied_ns={copied:.1} cold_ns={cold:.1} refresh_same_ns={same_ns:.0} prepare_ms={prepared_ms:.1} table_bytes={}",
        statistics.bytes
    );
}
