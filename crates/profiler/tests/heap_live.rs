//! Every way to allocate, counted and sampled block by block. One test in a process of its own: whatever
//! another thread allocated meanwhile would be a sampled block, too.
#![expect(unsafe_code, reason = "allocates by layout, so that not one allocation more is in it")]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::hint::black_box;

use profiler::heap::{self, Counts, Options};
use profiler::profile::{Limits, Tables};
use testkit::allocations::{Count, Counting, count};

#[global_allocator]
static ALLOCATOR: heap::Allocator<Counting> = heap::Allocator::new(Counting::new());

fn tables() -> Tables {
    Tables::new(Limits { stacks: 10_000, bytes: 64 << 20, labels: 1_000 })
}

const EVERY_BLOCK: Options = Options { mean_bytes: 1, seed: Some(1) };

fn minus(after: Counts, before: Counts) -> Counts {
    Counts {
        allocations: after.allocations - before.allocations,
        allocated_bytes: after.allocated_bytes - before.allocated_bytes,
        frees: after.frees - before.frees,
        freed_bytes: after.freed_bytes - before.freed_bytes,
    }
}

#[test]
fn every_block_is_right() {
    all_ways_to_allocate_are_right();
    it_stops_and_starts_again();
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

/// More than there are addresses.
const TOO_MUCH: usize = 1 << 56;

/// A way to allocate, what it counts as, and the calls that the allocator inside refuses.
struct Way {
    name: &'static str,
    work: unsafe fn(),
    counts: Counts,
    refused: u64,
}

/// Each frees every block once, with the layout that it has by then.
const WAYS: [Way; 6] = [
    Way {
        name: "plain",
        // SAFETY: see above, here and below.
        work: || unsafe { dealloc(black_box(alloc(layout(100))), layout(100)) },
        counts: Counts { allocations: 1, allocated_bytes: 100, frees: 1, freed_bytes: 100 },
        refused: 0,
    },
    Way {
        name: "zeroed",
        // SAFETY: as above.
        work: || unsafe {
            let block = alloc_zeroed(layout(5_000));
            assert!((0..5_000).all(|at| *block.add(at) == 0));
            dealloc(block, layout(5_000));
        },
        counts: Counts { allocations: 1, allocated_bytes: 5_000, frees: 1, freed_bytes: 5_000 },
        refused: 0,
    },
    Way {
        name: "aligned",
        // SAFETY: as above.
        work: || unsafe {
            let layout = Layout::from_size_align(48, 4_096).unwrap();
            let block = black_box(alloc(layout));
            assert_eq!(block.addr() % 4_096, 0);
            dealloc(block, layout);
        },
        counts: Counts { allocations: 1, allocated_bytes: 48, frees: 1, freed_bytes: 48 },
        refused: 0,
    },
    Way {
        name: "grown and shrunk",
        // SAFETY: as above.
        work: || unsafe {
            let block = alloc(layout(10));
            block.write_bytes(7, 10);
            let block = realloc(block, layout(10), 1 << 20);
            let block = realloc(block, layout(1 << 20), 20);
            assert!((0..10).all(|at| *block.add(at) == 7));
            dealloc(block, layout(20));
        },
        counts: Counts {
            allocations: 3,
            allocated_bytes: 10 + (1 << 20) + 20,
            frees: 3,
            freed_bytes: 10 + (1 << 20) + 20,
        },
        refused: 0,
    },
    Way {
        name: "refused",
        // SAFETY: as above.
        work: || unsafe { assert!(black_box(alloc(layout(TOO_MUCH))).is_null()) },
        counts: Counts { allocations: 0, allocated_bytes: 0, frees: 0, freed_bytes: 0 },
        refused: 1,
    },
    Way {
        name: "grown in vain",
        // SAFETY: as above.
        work: || unsafe {
            let block = alloc(layout(64));
            *block = 9;
            assert!(black_box(realloc(block, layout(64), TOO_MUCH)).is_null());
            assert_eq!(*block, 9);
            dealloc(block, layout(64));
        },
        counts: Counts { allocations: 1, allocated_bytes: 64, frees: 1, freed_bytes: 64 },
        refused: 1,
    },
];

/// Counted as they are, nothing added to what the allocator inside is asked for, nothing left in use.
fn all_ways_to_allocate_are_right() {
    for is_sampled in [false, true] {
        if is_sampled {
            heap::start(EVERY_BLOCK, &tables()).unwrap();
        }
        for way in &WAYS {
            let name = way.name;
            let mut during = Counts::default();
            // SAFETY: see the ways. Once before, for what is new: stacks, and this thread's block.
            let mut inside = Count::ZERO;
            for _ in 0..2 {
                let live = heap::statistics().live;
                let before = heap::thread_counts();
                // SAFETY: see the ways.
                inside = count(|| unsafe { (way.work)() });
                during = minus(heap::thread_counts(), before);
                assert_eq!(heap::statistics().live, live, "{name}, sampled: {is_sampled}");
            }
            assert_eq!(during, way.counts, "{name}, sampled: {is_sampled}");
            let calls = inside.allocations + inside.reallocations;
            assert_eq!(calls, way.counts.allocations + way.refused, "{name}: {inside:?}");
            assert_eq!(inside.frees, way.counts.frees.min(1), "{name}: {inside:?}");
        }
        heap::stop();
    }
}

fn it_stops_and_starts_again() {
    let block = || black_box(Vec::<u8>::with_capacity(1_000));
    let live = || heap::statistics().live;
    let before_start = block();
    assert!(!heap::is_running());
    let one = tables();
    heap::start(EVERY_BLOCK, &one).unwrap();
    assert!(heap::is_running());
    let error = heap::start(EVERY_BLOCK, &one).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("already"), "{error}");
    let base = live();
    let first = block();
    assert_eq!(live(), base + 1);
    drop(before_start);
    assert_eq!(live(), base + 1, "unknown blocks are nobody's");
    heap::stop();
    let unseen = block();
    assert_eq!(live(), base + 1);
    // A run with tables of its own does not disturb what the first one knows.
    let another = tables();
    heap::start(EVERY_BLOCK, &another).unwrap();
    let base = live();
    let second = block();
    drop(unseen);
    drop(first);
    assert_eq!(live(), base);
    heap::stop();
    heap::start(EVERY_BLOCK, &one).unwrap();
    let base = live();
    drop(second);
    assert_eq!(live(), base - 1);
    heap::stop();
    // Profiles that nothing in use belongs to make room for others.
    for _ in 0..20 {
        let tables = tables();
        heap::start(EVERY_BLOCK, &tables).unwrap();
        drop(block());
        heap::stop();
    }
    assert_eq!(heap::statistics().forgotten, 0);
}
