//! `/proc/stat`: what each processor spent its time with.

use std::io;

use parking_lot::Mutex;
use unladen::FamilyWriter;

use super::room::{Room, odd, read_text};

/// The kernel's unit of time towards programs.
const TICKS_PER_SECOND: f64 = 100.0;

const MODES: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
const GUEST_MODES: [&str; 2] = ["user", "nice"];

/// Seconds by mode, guests last.
type Times = [f64; MODES.len() + GUEST_MODES.len()];

/// The most time that idle may go back by without being taken for a processor that came anew.
const JUMP_BACK_SECONDS: f64 = 3.0;

/// Remembers the processors, because the kernel lets a counter go back now and then, iowait above all,
/// and a counter that goes back would count as started again.
#[derive(Default)]
pub(super) struct Cpu {
    seen: Mutex<Vec<Option<Times>>>,
}

impl Cpu {
    pub(super) fn collect(
        &self,
        room: &mut Room,
        out: &mut FamilyWriter<'_, '_>,
    ) -> io::Result<()> {
        let text = read_text("/proc/stat", &mut room.bytes)?;
        if self.update(text) == 0 {
            return Err(odd("no processor in /proc/stat"));
        }
        let mut samples =
            out.counter("node_cpu_seconds_total", "Seconds the CPUs spent in each mode.");
        self.each(text, |cpu, times| {
            for (mode, seconds) in MODES.iter().zip(times) {
                samples.sample(&[("cpu", cpu), ("mode", mode)], *seconds);
            }
        });
        let mut samples = out.counter(
            "node_cpu_guest_seconds_total",
            "Seconds the CPUs spent in guests (VMs) for each mode.",
        );
        self.each(text, |cpu, times| {
            for (mode, seconds) in GUEST_MODES.iter().zip(&times[MODES.len()..]) {
                samples.sample(&[("cpu", cpu), ("mode", mode)], *seconds);
            }
        });
        Ok(())
    }

    /// How many processors there are.
    fn update(&self, text: &str) -> usize {
        let mut seen = self.seen.lock();
        let mut count = 0;
        for (_, index, times) in processors(text) {
            if seen.len() <= index {
                seen.resize(index + 1, None);
            }
            seen[index] = Some(match seen[index] {
                Some(before) => onward(before, times),
                None => times,
            });
            count += 1;
        }
        count
    }

    /// Holds no lock while samples are written.
    fn each(&self, text: &str, mut write: impl FnMut(&str, &Times)) {
        for (cpu, index, _) in processors(text) {
            let times = self.seen.lock().get(index).copied().flatten();
            if let Some(times) = times {
                write(cpu, &times);
            }
        }
    }
}

/// The lines `cpu<N> <ticks>…`, with the number as text and as a number.
fn processors(text: &str) -> impl Iterator<Item = (&str, usize, Times)> {
    text.lines().filter_map(|line| {
        let (cpu, ticks) = line.strip_prefix("cpu")?.split_once(' ')?;
        // More processors than Linux can have; also keeps a broken file from filling the memory.
        let index = cpu.parse().ok().filter(|index| *index < 65_536)?;
        let mut times = Times::default();
        // Old kernels have fewer columns.
        for (time, ticks) in times.iter_mut().zip(ticks.split_ascii_whitespace()) {
            *time = ticks.parse::<u64>().ok()? as f64 / TICKS_PER_SECOND;
        }
        Some((cpu, index, times))
    })
}

/// Each counter as it is now, or as it was if it went back; all as now if the processor came anew.
fn onward(before: Times, now: Times) -> Times {
    const IDLE: usize = 3;
    if now[IDLE] + JUMP_BACK_SECONDS <= before[IDLE] {
        return now;
    }
    std::array::from_fn(|mode| now[mode].max(before[mode]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_each_processor_and_not_their_sum() {
        let text = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 2 3 4 5 6 7 8 9 10\ncpu17 1 2 3 4\n\
            cpux 1\ncpu3 1 x\ncpu99999999 1\nintr 5 cpu1\n";
        let read: Vec<_> = processors(text).collect();
        let first = [1.0, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1];
        let last = [0.01, 0.02, 0.03, 0.04, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(read, [("0", 0, first), ("17", 17, last)]);
    }

    #[test]
    fn counters_go_on_unless_the_processor_is_new() {
        let cpu = Cpu::default();
        for (text, expected) in [
            ("cpu0 100 0 0 1000 50", [1.0, 10.0, 0.5]),
            ("cpu0 120 0 0 1100 40", [1.2, 11.0, 0.5]),
            ("cpu0 130 0 0 1000 60", [1.3, 11.0, 0.6]),
            ("cpu0 5 0 0 10 1", [0.05, 0.1, 0.01]),
        ] {
            assert_eq!(cpu.update(text), 1);
            let mut read = Vec::new();
            cpu.each(text, |_, times| read.push([times[0], times[3], times[4]]));
            assert_eq!(read, [expected], "{text}");
        }
    }
}
