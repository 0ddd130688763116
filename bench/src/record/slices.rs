//! Many operations in slices, and which of them ran undisturbed.
//!
//! A machine has other things to do. A slice is short; in those during which the thread never waited for
//! a CPU, the time is that of the work, and the median over them that of an operation. Of two threads at
//! once, only those slices count during which the other thread ran all the time: what two threads do to
//! each other is not seen while one of them stands still.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use bench::statistics::median;

use crate::case::Work;

/// Slices of a round; a round's operations are a multiple.
pub const SLICES: u64 = 100;

/// Fewer undisturbed slices than these give no figure.
const FEWEST: usize = 3;

/// A piece of a round.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// When the slice before it ended: a thread is most likely to be held up between two of them.
    from: Instant,
    begin: Instant,
    end: Instant,
    is_undisturbed: bool,
}

impl Slice {
    fn ns(&self) -> f64 {
        self.end.duration_since(self.begin).as_nanos() as f64
    }
}

/// How long this thread has been ready to run without a CPU: `/proc/thread-self/schedstat`. A thread that
/// waits for a lock is not ready, so that this is no part of it.
struct Waited(Option<File>);

impl Waited {
    fn of_this_thread() -> Self {
        // Without the file every slice passes as undisturbed, and the median is left to tell.
        Waited(File::open("/proc/thread-self/schedstat").ok())
    }

    /// The file's second number, in nanoseconds.
    fn ns(&self) -> u64 {
        let mut text = [0; 96];
        let length = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let text = std::str::from_utf8(&text[..length.unwrap_or(0)]).unwrap_or_default();
        text.split_ascii_whitespace().nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0)
    }
}

/// Does the work, and tells its slices through `slices`, which has room for them.
pub fn run(work: &Work, operations: u64, slices: &mut Vec<Slice>) {
    let waited = Waited::of_this_thread();
    let mut before = waited.ns();
    let mut from = Instant::now();
    for _ in 0..SLICES {
        let begin = Instant::now();
        work(operations / SLICES);
        let end = Instant::now();
        let after = waited.ns();
        slices.push(Slice { from, begin, end, is_undisturbed: after == before });
        (before, from) = (after, end);
    }
}

/// Nanoseconds of a slice of one thread.
pub fn alone(slices: &[Slice]) -> Option<f64> {
    middle(slices.iter().filter(|slice| slice.is_undisturbed))
}

/// Nanoseconds of a slice that ran beside slices of the other thread.
pub fn together(one: &[Slice], other: &[Slice]) -> Option<f64> {
    let beside = |slices: &[Slice], slice: &Slice| {
        let meets = |other: &&Slice| other.from < slice.end && slice.begin < other.end;
        let is_covered = slices.first().is_some_and(|first| first.from <= slice.begin)
            && slices.last().is_some_and(|last| slice.end <= last.end);
        is_covered && slices.iter().filter(meets).all(|other| other.is_undisturbed)
    };
    let of_one = one.iter().filter(|slice| slice.is_undisturbed && beside(other, slice));
    let of_other = other.iter().filter(|slice| slice.is_undisturbed && beside(one, slice));
    middle(of_one.chain(of_other))
}

fn middle<'s>(slices: impl Iterator<Item = &'s Slice>) -> Option<f64> {
    let ns: Vec<f64> = slices.map(Slice::ns).collect();
    (ns.len() >= FEWEST).then(|| median(&ns)).flatten()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Slices one after the other, each so many microseconds long; the disturbed ones are negative and
    /// begin when all their time is over.
    fn slices(start: Instant, from: u64, lengths: &[i64]) -> Vec<Slice> {
        let mut from = start + Duration::from_micros(from);
        let slice = |&length: &i64| {
            let end = from + Duration::from_micros(length.unsigned_abs());
            let begin = if length > 0 { from } else { end };
            let slice = Slice { from, begin, end, is_undisturbed: length > 0 };
            from = end;
            slice
        };
        lengths.iter().map(slice).collect()
    }

    #[test]
    fn what_was_disturbed_does_not_count() {
        let start = Instant::now();
        assert_eq!(alone(&slices(start, 0, &[10, 11, 12, -900, -900])), Some(11_000.0));
        assert_eq!(alone(&slices(start, 0, &[10, 11, -12])), None);
    }

    #[test]
    fn two_threads_count_while_both_run() {
        let start = Instant::now();
        let other = slices(start, 0, &[100, -100, 100]);
        // Beside the first slice of the other, in the middle of its pause, beside its last, and after it.
        let one = slices(start, 20, &[30, 50, 60, 50, 40, 40, 40]);
        let counted = together(&one, &other);
        // 30 and 40 and 40 of the one; of the other its last is not covered: it ends before the one does.
        assert_eq!(counted, Some(40_000.0));
        assert_eq!(together(&one, &slices(start, 900, &[10, 10, 10])), None);
    }
}
