//! `/proc/pressure`: how long processes waited for processor, memory and disk.

use std::io;

use unladen::FamilyWriter;

use super::room::{Room, join, odd, read_text};

/// Resource, line, family, help. Linux 6.1 added irq, and a machine may be without.
#[rustfmt::skip]
const FAMILIES: [(&str, &str, &str, &str); 6] = [
    ("cpu", "some", "node_pressure_cpu_waiting_seconds_total", "Total time in seconds that processes have waited for CPU time"),
    ("io", "some", "node_pressure_io_waiting_seconds_total", "Total time in seconds that processes have waited due to IO congestion"),
    ("io", "full", "node_pressure_io_stalled_seconds_total", "Total time in seconds no process could make progress due to IO congestion"),
    ("memory", "some", "node_pressure_memory_waiting_seconds_total", "Total time in seconds that processes have waited for memory"),
    ("memory", "full", "node_pressure_memory_stalled_seconds_total", "Total time in seconds no process could make progress due to memory congestion"),
    ("irq", "full", "node_pressure_irq_stalled_seconds_total", "Total time in seconds no process could make progress due to IRQ congestion"),
];

pub(super) fn collect(room: &mut Room, out: &mut FamilyWriter<'_, '_>) -> io::Result<()> {
    for (resource, line, name, help) in FAMILIES {
        let path = join(&mut room.name, &["/proc/pressure/", resource]);
        let text = match read_text(path, &mut room.bytes) {
            Err(error) if resource == "irq" && error.kind() == io::ErrorKind::NotFound => continue,
            text => text?,
        };
        let seconds = seconds(text, line).ok_or_else(|| odd("no total in /proc/pressure"))?;
        out.counter(name, help).sample(&[], seconds);
    }
    Ok(())
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=17`, in microseconds.
fn seconds(text: &str, line: &str) -> Option<f64> {
    let line = text.lines().find(|l| l.split(' ').next() == Some(line))?;
    let total = line.split(' ').find_map(|word| word.strip_prefix("total="))?;
    // Two divisions, as node_exporter has them: the last digit is the same.
    Some(total.parse::<u64>().ok()? as f64 / 1000.0 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_total_of_a_line() {
        let text =
            "some avg10=64.63 avg60=76.95 avg300=65.77 total=17442717\nfull avg10=0.00 total=0\n";
        assert_eq!(seconds(text, "some"), Some(17.442_717_000_000_002));
        assert_eq!(seconds(text, "full"), Some(0.0));
        assert_eq!(seconds("some avg10=1\n", "some"), None);
        assert_eq!(seconds("", "full"), None);
    }
}
