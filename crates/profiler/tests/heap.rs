//! The allocator's wrapper: what it counts by stage, and that it works wherever a program can allocate.
#![expect(
    unsafe_code,
    reason = "allocates before main and in destructors of pthreads, and has signals"
)]

use std::alloc::System;
use std::collections::HashMap;
use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use profiler::heap::{self, Counts, Options};
use profiler::profile::{Limits, Tables};

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

fn minus(after: Counts, before: Counts) -> Counts {
    Counts {
        allocations: after.allocations - before.allocations,
        allocated_bytes: after.allocated_bytes - before.allocated_bytes,
        frees: after.frees - before.frees,
        freed_bytes: after.freed_bytes - before.freed_bytes,
    }
}

fn counts(allocations: u64, allocated_bytes: u64, frees: u64, freed_bytes: u64) -> Counts {
    Counts { allocations, allocated_bytes, frees, freed_bytes }
}

/// By stage, so far.
fn by_stage() -> HashMap<&'static str, Counts> {
    let mut found = HashMap::new();
    heap::stages(|name, counts| assert_eq!(found.insert(name, counts), None, "{name} twice"));
    found
}

/// What `work` is counted as on this thread.
fn counted(work: impl FnOnce()) -> Counts {
    let before = heap::thread_counts();
    work();
    minus(heap::thread_counts(), before)
}

fn allocate(bytes: usize) {
    drop(black_box(Vec::<u8>::with_capacity(bytes)));
}

#[test]
fn stages_nest_and_end() {
    let _alone = alone();
    let before = by_stage();
    {
        let _outer = profiler::stage("outer");
        allocate(100);
        {
            let inner = profiler::stage("inner");
            allocate(10);
            let kept = Vec::<u8>::with_capacity(1);
            drop(inner);
            drop(black_box(kept));
        }
        allocate(1_000);
        let name = String::leak("inner".to_owned());
        thread::scope(|scope| {
            scope.spawn(|| {
                let _inner = profiler::stage(name);
                allocate(500);
            });
        });
        let _none = profiler::stage("none");
        allocate(77);
    }
    allocate(7);
    let after = by_stage();
    let during = |name| minus(after[name], before.get(name).copied().unwrap_or_default());
    let inner = during("inner");
    assert_eq!(inner, counts(3, 511, 2, 510));
    // What the scope allocates is in it as well.
    let outer = during("outer");
    assert!(outer.allocated_bytes >= 1_100 && outer.freed_bytes >= 1_101, "{outer:?}");
    let none = during("none");
    assert!(none.allocated_bytes >= 84 && none.frees >= 2, "{none:?}");
}

#[test]
fn stages_beyond_the_bound_are_one() {
    let _alone = alone();
    let more: Vec<&'static str> =
        (0..heap::MOST_STAGES + 10).map(|stage| &*format!("stage {stage}").leak()).collect();
    let known = by_stage().len() - 1;
    for name in &more {
        for _ in 0..2 {
            let _stage = profiler::stage(name);
            allocate(1_000);
        }
    }
    let after = by_stage();
    // Those that there were, those that found room, and the two that are always there.
    assert_eq!(after.len(), heap::MOST_STAGES + 2);
    let room = heap::MOST_STAGES - known;
    for name in &more[..room] {
        assert_eq!(after[name], counts(2, 2_000, 2, 2_000), "{name}");
    }
    let others = (more.len() - room) as u64 * 2;
    let other = after["other"];
    assert!(other.allocations >= others && other.allocated_bytes >= others * 1_000, "{other:?}");
}

/// Allocates at each poll, and asks to be polled again.
struct Polls(u32);

impl Future for Polls {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        allocate(100);
        self.0 -= 1;
        if self.0 == 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Names of stages that are used before [`stages_beyond_the_bound_are_one`] takes all that are left; the
/// others' may come behind it.
fn reserve_names() {
    for name in ["outer", "inner", "future", "brief", "before main"] {
        drop(profiler::stage(name));
    }
}

#[test]
fn a_future_has_its_stage_while_it_is_polled() {
    let _alone = alone();
    let before = by_stage().get("future").copied().unwrap_or_default();
    let mut future = pin!(profiler::in_stage("future", Polls(3)));
    let mut context = Context::from_waker(Waker::noop());
    while future.as_mut().poll(&mut context).is_pending() {
        allocate(5_000);
    }
    assert_eq!(minus(by_stage()["future"], before), counts(3, 300, 3, 300));
}

/// Blocks of counters go from thread to thread: sums never fall and nothing is lost.
#[test]
fn threads_come_and_go() {
    let _alone = alone();
    let before = by_stage().get("brief").copied().unwrap_or_default();
    for round in 1..=50u64 {
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let brief = profiler::stage("brief");
                    let counted = counted(|| allocate(64));
                    drop(brief);
                    assert_eq!(counted, counts(1, 64, 1, 64));
                    // A thread's own counts begin with it, whoever had its counters before.
                    assert!(heap::thread_counts().allocations < 50);
                });
            }
        });
        let all = round * 8;
        assert_eq!(minus(by_stage()["brief"], before), counts(all, all * 64, all, all * 64));
    }
}

static BEFORE_MAIN: AtomicU64 = AtomicU64::new(0);

/// The loader calls it before Rust's runtime is there.
extern "C" fn before_main() {
    reserve_names();
    let _stage = profiler::stage("before main");
    let block = black_box(Vec::<u8>::with_capacity(300));
    BEFORE_MAIN.store(heap::thread_counts().allocated_bytes, Relaxed);
    drop(block);
}

#[used]
#[unsafe(link_section = ".init_array")]
static INIT: extern "C" fn() = before_main;

#[test]
fn allocations_before_main_are_counted() {
    let _alone = alone();
    assert!(BEFORE_MAIN.load(Relaxed) >= 300);
    assert_eq!(by_stage()["before main"], counts(1, 300, 1, 300));
}

static KEY_TURNS: AtomicU64 = AtomicU64::new(0);

/// Another library's destructor, which comes back as often as it may.
extern "C" fn at_thread_end(value: *mut libc::c_void) {
    drop(black_box(vec![1u8; 3_000]));
    KEY_TURNS.fetch_add(1, Relaxed);
    let key = value.addr() as libc::pthread_key_t - 1;
    // SAFETY: the key was made before the thread.
    unsafe { libc::pthread_setspecific(key, value) };
}

/// Allocates when its thread is over.
struct Late;

impl Drop for Late {
    fn drop(&mut self) {
        drop(black_box(vec![1u8; 2_000]));
    }
}

thread_local!(static LATE: Late = const { Late });

#[test]
fn a_thread_allocates_to_its_very_end() {
    let _alone = alone();
    let mut key = 0;
    // SAFETY: the key is written to; the destructor has the type that is asked for.
    assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(at_thread_end)) }, 0);
    let sum = || by_stage().values().map(|counts| counts.allocated_bytes).sum::<u64>();
    for is_sampled in [false, true] {
        if is_sampled {
            heap::start(EVERY_BLOCK, &tables()).unwrap();
        }
        let before = sum();
        for _ in 0..20 {
            thread::spawn(move || {
                LATE.with(|_| {});
                let value = ptr::without_provenance(key as usize + 1);
                // SAFETY: the key was made.
                unsafe { libc::pthread_setspecific(key, value) };
            })
            .join()
            .unwrap();
        }
        let least = 20 * (2_000 + 4 * 3_000);
        assert!(sum() - before >= least, "{} of {least}", sum() - before);
        heap::stop();
    }
    assert_eq!(KEY_TURNS.load(Relaxed), 2 * 20 * 4);
}

/// A signal that only looks at things interrupts allocations, samples and frees at every point.
#[test]
fn interruptions_do_no_harm() {
    extern "C" fn look(_: libc::c_int) {
        let registers = profiler::unwind::Registers::here();
        black_box(profiler::unwind::walk(&registers, &mut [0; 32]));
    }
    let _alone = alone();
    let handler = look as extern "C" fn(libc::c_int);
    // SAFETY: the handler allocates nothing; the timer is stopped below.
    unsafe {
        libc::signal(libc::SIGPROF, handler as *const () as libc::sighandler_t);
        let every = libc::timeval { tv_sec: 0, tv_usec: 200 };
        let timer = libc::itimerval { it_interval: every, it_value: every };
        assert_eq!(libc::setitimer(libc::ITIMER_PROF, &raw const timer, ptr::null_mut()), 0);
    }
    let tables = tables();
    heap::start(Options { mean_bytes: 2_000, seed: Some(1) }, &tables).unwrap();
    let before = heap::statistics();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for size in 0..20_000 {
                    black_box(vec![1u8; 1 + size % 900]);
                }
            });
        }
    });
    heap::stop();
    // SAFETY: as above.
    unsafe {
        let timer: libc::itimerval = std::mem::zeroed();
        libc::setitimer(libc::ITIMER_PROF, &raw const timer, ptr::null_mut());
        libc::signal(libc::SIGPROF, libc::SIG_IGN);
    }
    let after = heap::statistics();
    assert!(after.samples > before.samples + 1_000, "{after:?} after {before:?}");
    assert!(after.live <= before.live + 16, "{after:?} after {before:?}");
}

/// Sampling takes little of a thread's stack, which may be small.
#[test]
fn small_stacks_are_enough() {
    let _alone = alone();
    let tables = tables();
    heap::start(EVERY_BLOCK, &tables).unwrap();
    let before = heap::statistics().samples;
    thread::Builder::new()
        .stack_size(32 << 10)
        .spawn(|| (0..100).for_each(|size| drop(black_box(vec![1u8; 1 + size]))))
        .unwrap()
        .join()
        .unwrap();
    heap::stop();
    assert!(heap::statistics().samples >= before + 100);
}

#[cfg(feature = "metrics")]
#[test]
fn metrics_have_the_stages() {
    let _alone = alone();
    {
        let _stage = profiler::stage("inner");
        allocate(123);
    }
    let registry = unladen::Registry::new();
    registry.collect(heap::Metrics);
    let body = registry.write(unladen::Negotiated::default(), Vec::new(), |mut body, chunk| {
        body.extend_from_slice(chunk);
        body
    });
    let body = String::from_utf8(body).unwrap();
    let inner = by_stage()["inner"];
    for (name, value) in [
        ("heap_allocations_total{stage=\"inner\"}", inner.allocations),
        ("heap_allocated_bytes_total{stage=\"inner\"}", inner.allocated_bytes),
        ("heap_frees_total{stage=\"inner\"}", inner.frees),
        ("heap_freed_bytes_total{stage=\"inner\"}", inner.freed_bytes),
        ("heap_profile_samples_total", heap::statistics().samples),
        ("heap_profile_blocks_limit", heap::statistics().capacity as u64),
    ] {
        assert!(body.lines().any(|line| line == format!("{name} {value}")), "{name} in\n{body}");
    }
    assert!(body.contains("heap_allocations_total{stage=\"none\"}"), "{body}");
    assert_eq!(registry.check(), Vec::<String>::new());
}
