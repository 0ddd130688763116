//! What the heap's profile says about known patterns of allocations, over 100 seeds.
//!
//! One test in a process of its own, so that nobody else's allocations take part in the order in which
//! threads begin: a seed then gives the same samples every time.
//!
//! For each stage and column, the mean of 100 estimates is compared with the truth. Its standard error
//! follows from the sizes: a block of weight `w` adds `w - 1` (times its size squared) to the variance. Of
//! right estimates, 0.27% lie further than three standard errors from the truth; of the 24 here, one would
//! in 6% of all choices of seeds. These seeds do not, and stay.
#![expect(unsafe_code, reason = "allocates by layout, so that the truth is known to the byte")]

use std::alloc::{Layout, System, alloc, alloc_zeroed, dealloc, realloc};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use profiler::heap::{self, Options};
use profiler::profile::{LabelValue, Limits, Tables, Window, WriteOptions};
use testkit::random::Random;

#[global_allocator]
static ALLOCATOR: heap::Allocator<System> = heap::Allocator::new(System);

const SEEDS: u64 = 100;
const MEAN: u64 = 16 << 10;
const THREADS: usize = 3;
/// In the stage of this name, a block grows in steps; in others each is allocated once.
const GROWING: &str = "growing";

/// A block: the sizes that it has in turn, and whether it is kept to the end.
struct Planned {
    sizes: Vec<usize>,
    is_kept: bool,
}

/// What is done in each stage, in this order; the last one's by several threads at a time.
fn plans() -> Vec<(&'static str, Vec<Planned>)> {
    let mut random = Random::new(4);
    let mut blocks = |count: u64, least: u64, most: u64, kept_one_in: u64| -> Vec<Planned> {
        (0..count)
            .map(|block| Planned {
                sizes: vec![(least + random.below(most - least + 1)) as usize],
                is_kept: block % kept_one_in == 0,
            })
            .collect()
    };
    let mut plans = vec![
        ("bytes", blocks(20_000, 1, 1, 40)),
        ("small", blocks(3_000, 16, 400, 2)),
        ("middle", blocks(200, 1 << 10, 64 << 10, 3)),
        ("large", blocks(6, 1 << 20, 64 << 20, 3)),
        (GROWING, Vec::new()),
        ("threads", blocks(1_000, 100, 5_000, 4)),
    ];
    plans[3].1.push(Planned { sizes: vec![64 << 20], is_kept: true });
    plans[4].1.extend((0..40).map(|block| Planned {
        // Doubled to 64 KiB, and shrunk to what is needed in the end.
        sizes: (6..=16).map(|power| 1 << power).chain([50_000]).collect(),
        is_kept: block % 4 == 0,
    }));
    plans
}

/// A block in use.
struct Block(*mut u8, usize);

// SAFETY: who has the block has it alone.
unsafe impl Send for Block {}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the block is in use and has this size.
        unsafe { dealloc(self.0, layout(self.1)) };
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 1).unwrap()
}

/// Does what is planned and puts what is kept into `kept`, which has room. Every third block is zeroed.
fn run(stage: &'static str, plan: &[Planned], kept: &mut Vec<Block>) {
    let _stage = profiler::stage(stage);
    for (at, planned) in plan.iter().enumerate() {
        // SAFETY: no size is zero; what is reallocated is in use and has the size before.
        let block = unsafe {
            let first = planned.sizes[0];
            let block =
                if at % 3 == 0 { alloc_zeroed(layout(first)) } else { alloc(layout(first)) };
            let grow = |block: *mut u8, sizes: &[usize]| realloc(block, layout(sizes[0]), sizes[1]);
            Block(planned.sizes.windows(2).fold(block, grow), *planned.sizes.last().unwrap())
        };
        assert!(!black_box(block.0).is_null());
        if planned.is_kept {
            kept.push(block);
        }
    }
}

/// Several threads at a time, begun one after the other.
fn run_threads(stage: &'static str, plan: &[Planned], kept: &mut Vec<Block>) {
    let begun = AtomicUsize::new(0);
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let (begun, barrier) = (&begun, &barrier);
                let thread = scope.spawn(move || {
                    let mut kept = Vec::with_capacity(plan.len());
                    begun.fetch_add(1, SeqCst);
                    barrier.wait();
                    run(stage, plan, &mut kept);
                    kept
                });
                while begun.load(SeqCst) <= number {
                    thread::yield_now();
                }
                thread
            })
            .collect();
        threads.into_iter().for_each(|thread| kept.extend(thread.join().unwrap()));
    });
}

/// What was added since the window was read last, by stage.
fn read(window: &mut Window) -> BTreeMap<String, [i64; 4]> {
    let mut found = BTreeMap::<String, [i64; 4]>::new();
    window.for_each(WriteOptions::default(), |sample| {
        for label in sample.labels() {
            if let ("stage", LabelValue::Text(stage)) = (label.key, label.value) {
                let sums = found.entry(stage.to_owned()).or_default();
                sums.iter_mut().zip(sample.values()).for_each(|(sum, value)| *sum += value);
            }
        }
    });
    found
}

/// The truth in the profile's four columns, and the variance of one estimate.
fn expected(plan: &[Planned], threads: usize) -> [(f64, f64); 4] {
    let mut sums = [(0.0, 0.0); 4];
    for planned in plan {
        let last = planned.sizes.len() - 1;
        for (step, size) in planned.sizes.iter().map(|size| *size as f64).enumerate() {
            let weight = 1.0 / (1.0 - (-size / MEAN as f64).exp());
            let columns = if planned.is_kept && step == last { 4 } else { 2 };
            for (column, sum) in sums[..columns].iter_mut().enumerate() {
                let value = if column % 2 == 0 { 1.0 } else { size };
                sum.0 += value * threads as f64;
                // Weights are rounded to whole numbers, which adds a quarter at most for each sample.
                sum.1 += (value * value * (weight - 1.0) + 0.25 / weight) * threads as f64;
            }
        }
    }
    sums
}

#[test]
fn estimates_are_within_three_standard_errors() {
    let plans = plans();
    let tables = Tables::new(Limits { stacks: 10_000, bytes: 64 << 20, labels: 100 });
    let mut sums = BTreeMap::<&str, [i64; 4]>::new();
    let mut window = None;
    for seed in 0..SEEDS {
        let mut kept = Vec::with_capacity(10_000);
        let options = Options { mean_bytes: MEAN, seed: Some(seed) };
        let profile = heap::start(options, &tables).unwrap();
        let window = window.get_or_insert_with(|| profile.window());
        for (stage, plan) in &plans {
            match *stage {
                "threads" => run_threads(stage, plan, &mut kept),
                _ => run(stage, plan, &mut kept),
            }
        }
        heap::stop();
        let found = read(window);
        for (stage, _) in &plans {
            let values = found.get(*stage).copied().unwrap_or_default();
            let sums = sums.entry(stage).or_default();
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        // What is freed behind the end takes back exactly what it added.
        drop(kept);
        let freed = read(window);
        for (stage, [_, _, objects, bytes]) in found {
            let [allocated, _, back, bytes_back] = freed.get(&stage).copied().unwrap_or_default();
            assert_eq!((allocated, back, bytes_back), (0, -objects, -bytes), "{stage}");
        }
    }
    let columns = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"];
    for (stage, plan) in &plans {
        let expected = expected(plan, if *stage == "threads" { THREADS } else { 1 });
        for ((column, sum), (truth, variance)) in columns.iter().zip(sums[stage]).zip(expected) {
            let mean = sum as f64 / SEEDS as f64;
            let errors = (mean - truth) / (variance / SEEDS as f64).sqrt();
            assert!(
                errors.abs() <= 3.0,
                "{stage} {column}: {mean} for {truth}, {errors:.2} errors"
            );
        }
    }
    let statistics = heap::statistics();
    assert_eq!((statistics.untracked, statistics.forgotten), (0, 0));
}
