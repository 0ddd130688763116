//! Threads are found doing what they do, for as long as they do it.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use profiler::Profiler;

static STOP: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn busy() -> u64 {
    let mut sum = 0;
    while !STOP.load(Relaxed) {
        for i in 0..1000u64 {
            sum = black_box(sum + i * i);
        }
    }
    sum
}

#[test]
fn totals() {
    let profiler = Profiler::builder().start().unwrap();
    let begun = Instant::now();
    let thread = std::thread::Builder::new().name("busy".into()).spawn(busy).unwrap();
    let (say, hear) = std::sync::mpsc::channel::<()>();
    let idle = std::thread::Builder::new().name("idle".into()).spawn(move || hear.recv()).unwrap();
    while begun.elapsed() < Duration::from_secs(2) {
        std::thread::park_timeout(Duration::from_millis(100));
    }
    profiler.settle();
    println!("{:?} {:#?}", begun.elapsed(), profiler.statistics());
    for thread in profiler.threads() {
        println!(
            "{} {} {} {:?} {}",
            thread.tid.0,
            thread.name,
            thread.state,
            thread.end,
            thread.addresses.len()
        );
    }
    STOP.store(true, Relaxed);
    drop(say);
    let _ = idle.join().unwrap();
    thread.join().unwrap();
    profiler.stop();
}
