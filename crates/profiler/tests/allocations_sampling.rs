//! Sampling threads that are known, at stacks that are known, allocates nothing: not in the sampler's thread
//! and not in theirs.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use profiler::Profiler;
use testkit::allocations::{Count, Counting, count_all_threads};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

fn pass(time: Duration) {
    let until = Instant::now() + time;
    while let Some(rest) = until.checked_duration_since(Instant::now()).filter(|d| !d.is_zero()) {
        std::thread::park_timeout(rest);
    }
}

#[test]
fn sampling_known_stacks_allocates_nothing() {
    let stop = Arc::new(AtomicBool::new(false));
    let work = |stop: Arc<AtomicBool>| {
        let _scope = profiler::scope("work", "spinning");
        while !stop.load(Relaxed) {
            black_box(0);
        }
    };
    let spin = |_| {
        let stop = stop.clone();
        std::thread::spawn(move || work(stop))
    };
    let threads: Vec<_> = (0..4).map(spin).collect();
    let tick = Duration::from_millis(1);
    let profiler = Profiler::builder().tick(tick).budget(1.0).start().unwrap();

    // The same few instructions, until all of their addresses were seen.
    let mut counted = Count::default();
    for _ in 0..40 {
        let before = profiler.statistics();
        counted = count_all_threads(|| pass(Duration::from_millis(250)));
        let after = profiler.statistics();
        assert!(after.samples > before.samples);
        if counted == Count::ZERO && after.signals > before.signals + 10 {
            break;
        }
    }
    assert_eq!(counted, Count::ZERO);
    // The first time, the profiler's own thread gets its entry; and this thread may be found where it was
    // not seen before.
    let settle = |_| count_all_threads(|| profiler.settle());
    assert!((0..50).map(settle).any(|counted| counted == Count::ZERO));

    // Entering scopes that are known.
    let enter = || {
        let _outer = profiler::scope("endpoint", "checkout");
        let _inner = profiler::scope("customer", "a");
    };
    enter();
    assert_eq!(count_all_threads(|| (0..100).for_each(|_| enter())), Count::ZERO);
    stop.store(true, Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
}
