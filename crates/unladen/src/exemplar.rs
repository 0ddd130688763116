//! Exemplars: one observation behind a series or a bucket, with the trace it belongs to.
//!
//! The last one is kept. A place is written by one thread at a time; who finds it taken leaves its
//! exemplar out, since one of two that came at the same time is as good as the other. A reader that finds
//! a place being written reads it again.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use std::time::{SystemTime, UNIX_EPOCH};

/// The span in which something was observed, as W3C Trace Context has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The trace.
    pub trace_id: [u8; 16],
    /// The span within it.
    pub span_id: [u8; 8],
}

/// An observation that was kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exemplar {
    /// Where it happened.
    pub trace: Trace,
    /// What was observed: the value recorded, or the amount added.
    pub value: f64,
    /// Milliseconds since 1970.
    pub time_ms: i64,
}

/// The places of a segment's rows, those of a row allocated when it has its first exemplar.
pub(crate) struct Exemplars {
    each: usize,
    rows: Box<[OnceLock<Box<[Place]>>]>,
}

/// How often a reader looks at a place that is being written.
const TRIES: usize = 100;

#[derive(Default)]
struct Place {
    /// Odd while the others are being written; 0 for none.
    sequence: AtomicU64,
    /// Trace (two), span, value, time.
    words: [AtomicU64; 5],
}

impl Exemplars {
    pub(crate) fn new(rows: usize, each: usize) -> Self {
        Exemplars { each, rows: (0..rows).map(|_| OnceLock::new()).collect() }
    }

    /// Keeps an observation at `place` of `row`. *Growth* the first time.
    pub(crate) fn keep(&self, row: usize, place: usize, trace: &Trace, value: f64) {
        let places = self.rows[row]
            .get_or_init(|| std::iter::repeat_with(Place::default).take(self.each).collect());
        let time_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0));
        let (high, low) = trace.trace_id.split_at(8);
        let word = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("eight bytes"));
        places[place].write([
            word(high),
            word(low),
            word(&trace.span_id),
            value.to_bits(),
            time_ms,
        ]);
    }

    /// What was kept last. *Steady.*
    pub(crate) fn get(&self, row: usize, place: usize) -> Option<Exemplar> {
        let [high, low, span, value, time_ms] = self.rows[row].get()?.get(place)?.read()?;
        let mut trace_id = [0; 16];
        trace_id[..8].copy_from_slice(&high.to_be_bytes());
        trace_id[8..].copy_from_slice(&low.to_be_bytes());
        Some(Exemplar {
            trace: Trace { trace_id, span_id: span.to_be_bytes() },
            value: f64::from_bits(value),
            time_ms: time_ms as i64,
        })
    }

    /// Forgets those of `row`, which nobody uses.
    pub(crate) fn clear(&self, row: usize) {
        for place in self.rows[row].get().into_iter().flatten() {
            place.sequence.store(0, Relaxed);
        }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        let used = self.rows.iter().filter(|row| row.get().is_some()).count();
        size_of_val(&*self.rows) + used * self.each * size_of::<Place>()
    }
}

impl Place {
    fn write(&self, words: [u64; 5]) {
        let sequence = self.sequence.load(Relaxed);
        let is_free = sequence.is_multiple_of(2)
            && self.sequence.compare_exchange(sequence, sequence + 1, Acquire, Relaxed).is_ok();
        if !is_free {
            return;
        }
        // A reader that sees one of the words below sees the odd sequence too.
        fence(Release);
        for (to, word) in self.words.iter().zip(words) {
            to.store(word, Relaxed);
        }
        self.sequence.store(sequence + 2, Release);
    }

    fn read(&self) -> Option<[u64; 5]> {
        for _ in 0..TRIES {
            let before = self.sequence.load(Acquire);
            if before == 0 {
                return None;
            }
            let words = self.words.each_ref().map(|word| word.load(Relaxed));
            fence(Acquire);
            if before.is_multiple_of(2) && self.sequence.load(Relaxed) == before {
                return Some(words);
            }
            std::hint::spin_loop();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_is_kept_whole() {
        let exemplars = Exemplars::new(2, 3);
        assert_eq!(exemplars.get(1, 2), None);
        let trace = |n: u8| Trace { trace_id: [n; 16], span_id: [n; 8] };
        exemplars.keep(1, 2, &trace(1), 1.0);
        exemplars.keep(1, 2, &trace(2), 2.0);
        let kept = exemplars.get(1, 2).unwrap();
        assert_eq!((kept.trace, kept.value), (trace(2), 2.0));
        assert_eq!(exemplars.get(1, 1), None);
        assert_eq!(exemplars.get(0, 2), None);

        std::thread::scope(|scope| {
            for n in 3..6 {
                let exemplars = &exemplars;
                scope.spawn(move || {
                    for _ in 0..2_000 {
                        exemplars.keep(1, 2, &trace(n), f64::from(n));
                    }
                });
            }
            for _ in 0..2_000 {
                if let Some(kept) = exemplars.get(1, 2) {
                    assert_eq!(kept.trace, trace(kept.value as u8), "never of two observations");
                }
            }
        });
        exemplars.clear(1);
        assert_eq!(exemplars.get(1, 2), None);
    }
}
