//! The heap's profile as its readers see it: who allocated what, and that `go tool pprof` agrees.
#![expect(
    unsafe_code,
    reason = "allocates by layout, so that nothing but the caller is in the stack"
)]
#![expect(clippy::print_stdout, reason = "a test that can't run says why")]

use std::alloc::{Layout, System, alloc, alloc_zeroed, dealloc, realloc};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use profiler::heap::{self, Options};
use profiler::profile::{LabelValue, Limits, Profile, Tables, Window, WriteOptions};
use profiler::symbols::Resolver;

#[global_allocator]
static ALLOCATOR: heap::Allocator<System> = heap::Allocator::new(System);

/// What is tested belongs to the process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tables() -> Tables {
    Tables::new(Limits { stacks: 10_000, bytes: 64 << 20, labels: 1_000 })
}

const EVERY_BLOCK: Options = Options { mean_bytes: 1, seed: Some(1) };

/// Blocks that their holder frees.
struct Blocks(Vec<(*mut u8, Layout)>);

impl Drop for Blocks {
    fn drop(&mut self) {
        for (block, layout) in self.0.drain(..) {
            // SAFETY: the block is in use and has this layout.
            unsafe { dealloc(block, layout) };
        }
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

#[inline(never)]
fn plain(size: usize) -> (*mut u8, Layout) {
    // SAFETY: the size is not zero.
    black_box((unsafe { alloc(layout(size)) }, layout(size)))
}

#[inline(never)]
fn zeroed(size: usize) -> (*mut u8, Layout) {
    // SAFETY: the size is not zero.
    black_box((unsafe { alloc_zeroed(layout(size)) }, layout(size)))
}

#[inline(never)]
fn grown(size: usize) -> (*mut u8, Layout) {
    let (block, layout) = plain(size);
    // SAFETY: the block is in use and has this layout.
    black_box((unsafe { realloc(block, layout, size * 2) }, self::layout(size * 2)))
}

#[inline(never)]
fn caller(size: usize, count: usize, how: fn(usize) -> (*mut u8, Layout)) -> Blocks {
    Blocks(black_box((0..count).map(|_| how(size)).collect()))
}

/// What a window has by the innermost function of this file, of what `caller` called.
fn by_leaf(window: &mut Window) -> BTreeMap<String, [i64; 4]> {
    let mut resolver = Resolver::of_process();
    let options = WriteOptions { symbolizer: Some(&mut resolver), ..WriteOptions::default() };
    let mut found = BTreeMap::<String, [i64; 4]>::new();
    window.for_each(options, |sample| {
        let names: Vec<&str> = sample.frames().map(|frame| frame.symbol.name).collect();
        for own in ["heap::record", "heap::allocator", "__rust_alloc", "__rust_realloc", "__rg_"] {
            assert!(!names.iter().any(|name| name.contains(own)), "{own} is in {names:#?}");
        }
        if names.iter().any(|name| name.ends_with("heap_profile::caller")) {
            assert!(names.last().is_some_and(|root| root.contains("clone")), "{names:#?}");
            // Inlined into the caller, if anything of the standard library is.
            let leaf = names.iter().find(|name| name.starts_with("heap_profile::")).unwrap();
            let sums = found.entry((*leaf).to_owned()).or_default();
            sums.iter_mut().zip(sample.values()).for_each(|(sum, value)| *sum += value);
        }
    });
    found
}

fn leaf(name: &str) -> String {
    format!("heap_profile::{name}")
}

#[test]
fn the_caller_is_the_leaf_and_every_block_is_right() {
    let _alone = alone();
    let profile = heap::start(EVERY_BLOCK, &tables()).unwrap();
    let mut window = profile.window();
    let kept = [caller(100, 7, plain), caller(5_000, 3, zeroed), caller(64, 5, grown)];
    let more = caller(1_000, 4, plain);
    let found = by_leaf(&mut window);
    assert_eq!(found[&leaf("plain")], [16, 4_000 + 700 + 320, 11, 4_700]);
    assert_eq!(found[&leaf("zeroed")], [3, 15_000, 3, 15_000]);
    assert_eq!(found[&leaf("grown")], [5, 640, 5, 640]);
    drop(more);
    // What is freed after the end is taken back all the same.
    heap::stop();
    drop(kept);
    let found = by_leaf(&mut window);
    assert_eq!(found[&leaf("plain")], [0, 0, -11, -4_700]);
    assert_eq!(found[&leaf("zeroed")], [0, 0, -3, -15_000]);
    assert_eq!(found[&leaf("grown")], [0, 0, -5, -640]);
    let total = by_leaf(&mut profile.total());
    assert_eq!(total[&leaf("plain")], [16, 5_020, 0, 0]);
    assert_eq!(total.values().map(|values| values[2].abs() + values[3].abs()).sum::<i64>(), 0);
}

#[test]
fn stages_and_scopes_are_labels() {
    let _alone = alone();
    let profile = heap::start(EVERY_BLOCK, &tables()).unwrap();
    let mut window = profile.window();
    {
        let _stage = profiler::stage("labelled");
        let _scope = profiler::scope("endpoint", "checkout");
        drop(caller(10, 2, plain));
    }
    heap::stop();
    let mut objects = 0;
    window.for_each(WriteOptions::default(), |sample| {
        let labels: Vec<_> = sample.labels().map(|label| (label.key, label.value)).collect();
        let (stage, scope) = (LabelValue::Text("labelled"), LabelValue::Text("checkout"));
        if labels == [("stage", stage), ("endpoint", scope)] {
            objects += sample.values()[0];
        }
    });
    // And the list that they are in.
    assert_eq!(objects, 3);
}

fn write(profile: &Profile) -> Vec<u8> {
    let mut resolver = Resolver::of_process();
    let options = WriteOptions { symbolizer: Some(&mut resolver), ..WriteOptions::default() };
    profile.total().write(options, Vec::new(), |mut bytes, chunk| {
        bytes.extend_from_slice(chunk);
        bytes
    })
}

/// The functions of the table that `go tool pprof -top` prints, with their bytes.
fn top(file: &std::path::Path, index: &str) -> Option<Vec<(String, String)>> {
    let output = Command::new("go")
        .args([
            "tool",
            "pprof",
            &format!("-sample_index={index}"),
            "-unit=B",
            "-top",
            "-cum",
            "-nodefraction=0",
        ])
        .arg(file)
        .env("PPROF_TMPDIR", std::env::temp_dir())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains(&format!("Type: {index}")), "{text}");
    let rows = text.lines().skip_while(|line| !line.contains("flat%")).skip(1);
    let rows = rows.filter_map(|row| {
        let words = row.split_whitespace();
        Some((words.clone().nth(5)?.to_owned(), words.clone().nth(3)?.to_owned()))
    });
    Some(rows.collect())
}

#[test]
fn go_shows_the_known_order() {
    let _alone = alone();
    let profile = heap::start(Options { mean_bytes: 10_000, seed: Some(7) }, &tables()).unwrap();
    // 64 MiB that are freed; 16 and 8 that are kept, the latter grown from blocks of half the size.
    drop(caller(1 << 20, 64, zeroed));
    let kept = [caller(1 << 20, 16, plain), caller(1 << 20, 4, grown)];
    heap::stop();
    let file = std::env::temp_dir().join(format!("heap-{}.pb", std::process::id()));
    std::fs::write(&file, write(&profile)).unwrap();
    let order = |index: &str| {
        let known = |name: &String| ["plain", "zeroed", "grown"].map(leaf).contains(name);
        Some(top(&file, index)?.into_iter().filter(|(name, _)| known(name)).collect::<Vec<_>>())
    };
    let Some(allocated) = order("alloc_space") else {
        println!("skipped: there is no `go` to read a profile with");
        return std::fs::remove_file(&file).unwrap();
    };
    let in_use = order("inuse_space").unwrap();
    std::fs::remove_file(&file).unwrap();
    drop(kept);
    // Blocks of a hundred times the mean are all sampled, each with a weight of one.
    let bytes = |name, size: u64| (leaf(name), format!("{}B", size << 20));
    assert_eq!(allocated, [bytes("zeroed", 64), bytes("plain", 20), bytes("grown", 12)]);
    assert_eq!(in_use, [bytes("plain", 16), bytes("grown", 8)]);
}
