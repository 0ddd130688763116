//! What the kernel writes into a ring: samples, news of threads, and how much was lost.
//!
//! ```text
//! header   kind u32, flags u16, length u16
//! sample   pid u32, tid u32, counter u64, period u64, abi u64, registers u64 each (none if abi is 0),
//!          size u64, stack bytes, valid u64 (not if size is 0)
//! start    pid u32, parent's pid u32, tid u32, parent's tid u32, time u64; an end is the same
//! lost     counter u64, count u64
//! ```

use super::kernel::REGISTERS;
use crate::sample::Tid;
use crate::unwind::Registers;

const LOST: u32 = 2;
const END: u32 = 4;
const THROTTLED: u32 = 5;
const START: u32 = 7;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;

/// A record.
#[derive(Debug, PartialEq)]
pub(super) enum Record<'a> {
    Sample(Sample<'a>),
    /// A thread was started.
    Start {
        pid: u32,
        tid: Tid,
    },
    /// A thread ended.
    End {
        pid: u32,
        tid: Tid,
    },
    /// Records for which there was no room.
    Lost(u64),
    /// The kernel took fewer samples than it was asked for.
    Throttled,
}

/// A thread at a moment.
#[derive(Debug, PartialEq)]
pub(super) struct Sample<'a> {
    pub(super) pid: u32,
    pub(super) tid: Tid,
    /// The counter that took it.
    pub(super) counter: u64,
    /// Nanoseconds since the sample before.
    pub(super) period: u64,
    /// None in threads without any, of the kernel.
    pub(super) registers: Option<Registers>,
    /// What stood at the stack pointer.
    pub(super) stack: &'a [u8],
    /// Whether there was more.
    pub(super) is_cut: bool,
}

impl<'a> Record<'a> {
    /// Reads one; none for those that say nothing to us, and for damaged ones.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Record<'a>> {
        let mut from = Bytes(bytes);
        let kind = from.u32()?;
        from.u32()?;
        match kind {
            SAMPLE => from.sample().map(Record::Sample),
            START | END => {
                let (pid, _, tid) = (from.u32()?, from.u32()?, from.u32()?);
                let tid = Tid(tid.cast_signed());
                Some(if kind == START {
                    Record::Start { pid, tid }
                } else {
                    Record::End { pid, tid }
                })
            }
            LOST => {
                from.u64()?;
                from.u64().map(Record::Lost)
            }
            LOST_SAMPLES => from.u64().map(Record::Lost),
            THROTTLED => Some(Record::Throttled),
            _ => None,
        }
    }
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn u32(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*first))
    }

    fn u64(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*first))
    }

    fn sample(&mut self) -> Option<Sample<'a>> {
        let (pid, tid) = (self.u32()?, Tid(self.u32()?.cast_signed()));
        let (counter, period) = (self.u64()?, self.u64()?);
        let registers = if self.u64()? == 0 { None } else { Some(self.registers()?) };
        let size = usize::try_from(self.u64()?).ok()?;
        let mut stack: &[u8] = &[];
        let mut is_cut = false;
        if size > 0 {
            let (copy, rest) = self.0.split_at_checked(size)?;
            self.0 = rest;
            let valid = usize::try_from(self.u64()?).ok()?;
            stack = copy.get(..valid)?;
            is_cut = valid == size;
        }
        Some(Sample { pid, tid, counter, period, registers, stack, is_cut })
    }

    fn registers(&mut self) -> Option<Registers> {
        let mut values = [0; REGISTERS.len()];
        for value in &mut values {
            *value = self.u64()?;
        }
        #[cfg(target_arch = "x86_64")]
        let [fp, sp, pc] = values;
        #[cfg(target_arch = "x86_64")]
        let lr = 0;
        #[cfg(target_arch = "aarch64")]
        let [fp, lr, sp, pc] = values;
        Some(Registers::new(pc, sp, fp, lr))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let length = 8 + words.len() * 8;
        let header = u64::from(kind) | (length as u64) << 48;
        std::iter::once(header).chain(words.iter().copied()).flat_map(u64::to_ne_bytes).collect()
    }

    fn of_thread(pid: u32, tid: u32) -> u64 {
        u64::from(pid) | u64::from(tid) << 32
    }

    #[test]
    fn records_are_read_as_the_kernel_writes_them() {
        let registers: Vec<u64> = (1..=REGISTERS.len() as u64).collect();
        let words = [&[of_thread(7, 8), 9, 10, 2], &registers[..], &[16, 11, 12, 8]].concat();
        let bytes = record(SAMPLE, &words);
        let Some(Record::Sample(sample)) = Record::read(&bytes) else { panic!("{bytes:?}") };
        assert_eq!((sample.pid, sample.tid, sample.counter, sample.period), (7, Tid(8), 9, 10));
        assert_eq!(sample.registers.unwrap().pc, *registers.last().unwrap());
        assert_eq!((sample.stack, sample.is_cut), (&11_u64.to_ne_bytes()[..], false));

        let cases = [
            (record(SAMPLE, &[of_thread(7, 8), 9, 10, 0, 0]), true),
            (record(SAMPLE, &[of_thread(7, 8), 9, 10, 2, 1]), false),
            (record(SAMPLE, &words[..words.len() - 1]), false),
            (record(START, &[of_thread(7, 7), of_thread(9, 7), 0]), true),
            (record(END, &[of_thread(7, 7), of_thread(9, 7), 0]), true),
            (record(LOST, &[1, 5]), true),
            (record(LOST, &[1]), false),
            (record(99, &[]), false),
            (vec![], false),
        ];
        for (bytes, is_read) in cases {
            assert_eq!(Record::read(&bytes).is_some(), is_read, "{bytes:?}");
        }
        let started = record(START, &[of_thread(7, 7), of_thread(9, 7), 0]);
        assert_eq!(Record::read(&started), Some(Record::Start { pid: 7, tid: Tid(9) }));
        assert_eq!(Record::read(&record(LOST, &[1, 5])), Some(Record::Lost(5)));
    }
}
