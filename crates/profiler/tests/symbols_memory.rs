//! What names cost in memory: while they are looked up, and afterwards. Programs have been seen to grow by
//! 400 MB.
#![cfg(feature = "symbols")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::env;
use std::fs;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

use object::{Object, ObjectSymbol};
use profiler::profile::Symbolize;
use profiler::symbols::Resolver;

/// Counts bytes, and remembers the most there were.
struct Peak;

static LIVE: AtomicIsize = AtomicIsize::new(0);
static MOST: AtomicIsize = AtomicIsize::new(0);

fn count(bytes: isize) {
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    MOST.fetch_max(live, Relaxed);
}

// SAFETY: everything is the system's allocator's; counting touches no memory of it.
unsafe impl GlobalAlloc for Peak {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Peak = Peak;

/// Every address that a profile could have: some of each function.
fn addresses() -> Vec<u64> {
    let bytes = fs::read(env::current_exe().unwrap()).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let mut all: Vec<u64> = elf
        .symbols()
        .filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.size() > 0)
        .flat_map(|symbol| [symbol.address(), symbol.address() + symbol.size() / 2])
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn names_take_memory_by_the_batch_and_not_by_the_file() {
    let all = addresses();
    let size = fs::metadata(env::current_exe().unwrap()).unwrap().len();
    assert!(all.len() > 5_000 && size > 4 << 20, "{} addresses, {size} bytes", all.len());
    let mut resolver = Resolver::of_file(env::current_exe().unwrap()).unwrap();
    let named = std::cell::Cell::new(0);
    let batch = |resolver: &mut Resolver, addresses: &[u64]| {
        let before = LIVE.load(Relaxed);
        MOST.store(before, Relaxed);
        resolver.prepare(addresses, &[]);
        for &address in addresses {
            resolver.symbolize(address, None, &mut |symbol| {
                named.set(named.get() + usize::from(!symbol.name.is_empty()));
            });
        }
        (MOST.load(Relaxed) - before, LIVE.load(Relaxed) - before)
    };

    let few: Vec<u64> = all.iter().copied().step_by(all.len() / 100).collect();
    let (most, kept) = batch(&mut resolver, &few);
    assert!(most < 8 << 20 && kept < 1 << 20, "100 addresses: {most} bytes, {kept} kept");

    let (most, kept) = batch(&mut resolver, &all);
    let each = kept / all.len() as isize;
    assert!(most < 24 << 20 && each < 512, "{} addresses: {most} bytes, {kept} kept", all.len());
    assert!(named.get() > all.len(), "{}", named.get());
    assert!(resolver.memory_usage() as isize >= kept / 2, "{kept}");

    // What the last batch kept goes with it.
    let (_, kept) = batch(&mut resolver, &few[..1]);
    assert!(kept < 0, "{kept}");
    let before = LIVE.load(Relaxed);
    drop(resolver);
    assert!(LIVE.load(Relaxed) <= before);
}
