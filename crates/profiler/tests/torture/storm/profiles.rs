//! Profilers that start and stop, and what is read of them meanwhile.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use profiler::heap;
use profiler::profile::{Limits, Profile, Tables, Window, WriteOptions};
use profiler::symbols::Resolver;
use profiler::{Profiler, Statistics};

use super::{Actor, Counts, Storm, pause};

/// A sample each millisecond; hardly a budget, because the storm is what has to be borne, not its price.
const TICK: Duration = Duration::from_millis(1);
const BUDGET: f64 = 10.0;

/// A block in so many bytes is sampled: thirty times more than usual.
const HEAP_MEAN_BYTES: u64 = 16 << 10;

/// Small ones, so that what happens at the bounds happens here.
const LIMITS: Limits = Limits { stacks: 5000, bytes: 6 << 20, labels: 2000 };

/// The profiler that runs now, and the heap's profile, which never stops.
pub(crate) struct Current {
    wall: Mutex<Option<Profiler>>,
    heap: Profile,
    tables: Tables,
}

impl Current {
    pub(super) fn start() -> Result<Current, String> {
        let tables = Tables::new(LIMITS);
        let options = heap::Options { mean_bytes: HEAP_MEAN_BYTES, ..heap::Options::default() };
        let heap = heap::start(options, &tables).map_err(|error| error.to_string())?;
        Ok(Current { wall: Mutex::new(None), heap, tables })
    }

    fn profiler(&self) -> Option<Profiler> {
        self.wall.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, profiler: Option<Profiler>) {
        // The old one is dropped without the lock.
        drop(std::mem::replace(
            &mut *self.wall.lock().unwrap_or_else(PoisonError::into_inner),
            profiler,
        ));
    }

    /// The bytes of the heap profile's tables.
    pub(super) fn tables(&self) -> i64 {
        self.tables.statistics().bytes as i64
    }

    /// When all is over.
    pub(super) fn stop(&self) {
        self.set(None);
        heap::stop();
    }
}

/// One profiler after the other, each for some ten milliseconds or some hundred.
pub(super) fn restart(actor: &Actor, storm: &Storm) -> Result<(), String> {
    let mut random = actor.random(storm);
    while storm.goes_on() {
        actor.step("starting a profiler");
        let threads = 1 + random.below(40) as usize;
        let depth = [16, 512, 2000][random.below(3) as usize];
        let mut builder = Profiler::builder().tick(TICK).budget(BUDGET);
        builder = builder.threads_per_tick(threads).max_depth(depth);
        if random.below(2) == 0 {
            builder = builder.tables(&storm.current.tables);
        }
        if random.below(4) == 0 {
            builder = builder.recognise_sleepers(false);
        }
        let profiler = start(builder)?;
        storm.current.set(Some(profiler.clone()));
        let life = Duration::from_millis(if random.below(4) == 0 { 1500 } else { 100 });
        let until = Instant::now() + life.mul_f64(random.unit());
        while storm.goes_on() && Instant::now() < until {
            actor.step("leaving a profiler at work");
            pause(Duration::from_millis(5));
        }
        actor.step("stopping a profiler");
        if random.below(2) == 0 {
            storm.current.set(None);
        }
        profiler.stop();
        let after = profiler.statistics();
        add(&storm.counts, &after);
        pause(Duration::from_millis(random.below(3)));
        let late = profiler.statistics();
        if late != after {
            return Err(format!("a profiler that was stopped went on: {after:?}, then {late:?}"));
        }
        storm.counts.restarts.fetch_add(1, Relaxed);
    }
    Ok(())
}

/// One that is refused as long as the last one has not quite stopped.
fn start(builder: profiler::Builder) -> Result<Profiler, String> {
    let profiler = builder.clone().start().map_err(|error| error.to_string())?;
    match builder.start() {
        Err(_) => Ok(profiler),
        Ok(_) => Err("two profilers were started at once".to_owned()),
    }
}

fn add(counts: &Counts, statistics: &Statistics) {
    for (count, more) in [
        (&counts.samples, statistics.complete + statistics.truncated + statistics.lost),
        (&counts.complete, statistics.complete),
        (&counts.truncated, statistics.truncated),
        (&counts.lost, statistics.lost),
    ] {
        count.fetch_add(more, Relaxed);
    }
}

/// Windows opened, written and dropped while what they look at goes on.
pub(super) fn write(actor: &Actor, storm: &Storm) -> Result<(), String> {
    let mut random = actor.random(storm);
    let mut heap = storm.current.heap.window();
    let mut buffer = Vec::new();
    while storm.goes_on() {
        let profiler = storm.current.profiler();
        let window = profiler.as_ref().map(|profiler| profiler.wall().window());
        actor.step("letting time pass before writing");
        pause(Duration::from_micros(random.below(30_000)));
        if let (Some(profiler), Some(mut window)) = (profiler, window) {
            actor.step("settling");
            profiler.settle();
            let tables =
                profiler.tables().statistics().bytes + storm.current.tables.statistics().bytes;
            storm.counts.tables.store(tables as u64, Relaxed);
            actor.step("writing a window");
            check(&mut window, &mut buffer, random.below(20) == 0)?;
            if random.below(3) == 0 {
                check(&mut window, &mut buffer, false)?;
            }
        }
        actor.step("writing the heap's window");
        check(&mut heap, &mut buffer, false)?;
        if random.below(5) == 0 {
            heap = storm.current.heap.total();
        }
        storm.counts.windows.fetch_add(1, Relaxed);
    }
    Ok(())
}

/// Writes a window and reads it again.
fn check(window: &mut Window, buffer: &mut Vec<u8>, has_symbols: bool) -> Result<(), String> {
    buffer.clear();
    let mut resolver = has_symbols.then(Resolver::of_process);
    let options = WriteOptions {
        symbolizer: resolver.as_mut().map(|resolver| resolver as _),
        ..WriteOptions::default()
    };
    let buffer = window.write(options, buffer, |buffer, chunk| {
        buffer.extend_from_slice(chunk);
        buffer
    });
    match wire::pprof::Document::read(buffer) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("a profile of {} bytes is refused: {error}", buffer.len())),
    }
}

/// Asks all threads what they do, again and again.
pub(super) fn threads(actor: &Actor, storm: &Storm) -> Result<(), String> {
    let mut random = actor.random(storm);
    while storm.goes_on() {
        actor.step("asking all threads");
        if let Some(profiler) = storm.current.profiler() {
            let found = profiler.threads();
            if let Some(thread) = found.iter().find(|thread| thread.addresses.len() > 8192) {
                return Err(format!("{} is {} deep", thread.name, thread.addresses.len()));
            }
        }
        pause(Duration::from_millis(random.below(100)));
    }
    Ok(())
}
