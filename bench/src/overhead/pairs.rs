//! Slices with and without, side by side.
//!
//! A machine becomes slower and faster for reasons of its own, more than a profiler costs. Two slices that
//! follow each other meet the same machine, most of the time; of many such pairs the middle one tells. Every
//! second pair begins with the other slice, so that a machine that only becomes slower tells nothing.

use std::thread;
use std::time::{Duration, Instant};

use bench::Failure;
use bench::clock;
use bench::protocol::Line;

/// What was done in a slice.
#[derive(Clone, Copy, Debug)]
struct Slice {
    /// Units of work in a second.
    per_second: f64,
    /// CPU nanoseconds of the process for a unit, the profiler's own threads included.
    cpu_ns: f64,
    /// Processors that the process had.
    processors: f64,
}

/// What can be switched on and off, and how far the work has come.
pub struct Subject<'s> {
    pub on: &'s mut dyn FnMut() -> Result<(), Failure>,
    pub off: &'s mut dyn FnMut(),
    pub units: &'s dyn Fn() -> u64,
}

/// How a slice is begun: part of it is left out, because what is new to a profiler once is not what it
/// costs all the time.
const LEFT_OUT: f64 = 0.25;

/// So many pairs; each is a figure of its own in the line: what a slice with costs more than one without,
/// as shares of wall and of CPU time, and how many processors the slice without had.
pub fn measure(
    subject: &mut Subject<'_>,
    pairs: usize,
    slice: Duration,
) -> Result<Vec<[f64; 3]>, Failure> {
    let mut found = Vec::new();
    for pair in 0..pairs {
        let mut slices = [None, None];
        for place in 0..2 {
            let is_on = (pair + place) % 2 == 0;
            if is_on {
                (subject.on)()?;
            }
            slices[usize::from(is_on)] = Some(run(subject.units, slice)?);
            if is_on {
                (subject.off)();
            }
        }
        if let [Some(without), Some(with)] = slices {
            found.push([
                without.per_second / with.per_second - 1.0,
                with.cpu_ns / without.cpu_ns - 1.0,
                without.processors,
            ]);
        }
    }
    Ok(found)
}

fn run(units: &dyn Fn() -> u64, slice: Duration) -> Result<Slice, Failure> {
    thread::sleep(slice.mul_f64(LEFT_OUT));
    let (before, began) = (units(), Instant::now());
    let ((), elapsed) = clock::measure(|| thread::sleep(slice));
    let (done, seconds) = ((units() - before) as f64, began.elapsed().as_secs_f64());
    if done == 0.0 {
        return Err("nothing was done in a slice".into());
    }
    let processors = elapsed.process_cpu_ns / elapsed.wall_ns;
    Ok(Slice { per_second: done / seconds, cpu_ns: elapsed.process_cpu_ns / done, processors })
}

/// As the parent reads them: one value for each pair, under keys of their own.
pub fn line(name: &str, what: &str, pairs: &[[f64; 3]]) -> Line {
    let mut line = Line::new(name);
    for (column, unit) in ["wall", "cpu", "processors"].into_iter().enumerate() {
        for (number, pair) in pairs.iter().enumerate() {
            line.set(&format!("{what}_{unit}_{number}"), pair[column]);
        }
    }
    line
}
