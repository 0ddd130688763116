//! `/proc/stat`: the counts of the whole machine.

use std::io;

use unladen::{FamilyWriter, Kind};
use wire::exposition::writer::Family;

use super::room::{Room, odd, read_text};

#[rustfmt::skip]
const FAMILIES: [(&str, Kind, &str, &str); 6] = [
    ("intr", Kind::Counter, "node_intr_total", "Total number of interrupts serviced."),
    ("ctxt", Kind::Counter, "node_context_switches_total", "Total number of context switches."),
    ("processes", Kind::Counter, "node_forks_total", "Total number of forks."),
    ("btime", Kind::Gauge, "node_boot_time_seconds", "Node boot time, in unixtime."),
    ("procs_running", Kind::Gauge, "node_procs_running", "Number of processes in runnable state."),
    ("procs_blocked", Kind::Gauge, "node_procs_blocked", "Number of processes blocked waiting for I/O to complete."),
];

pub(super) fn collect(room: &mut Room, out: &mut FamilyWriter<'_, '_>) -> io::Result<()> {
    let text = read_text("/proc/stat", &mut room.bytes)?;
    for (field, kind, name, help) in FAMILIES {
        let value = value(text, field).ok_or_else(|| odd("a count is missing in /proc/stat"))?;
        out.family(&Family::new(name, help, kind)).sample(&[], value as f64);
    }
    Ok(())
}

/// The first number of the line that begins with `field`.
fn value(text: &str, field: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(' '))?
        .split(' ')
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_first_number_of_a_line() {
        let text = "cpu  1 2\nintr 17 0 3\nctxt 5\nprocs_running 2\n";
        assert_eq!(value(text, "intr"), Some(17));
        assert_eq!(value(text, "ctxt"), Some(5));
        assert_eq!(value(text, "procs"), None);
        assert_eq!(value(text, "btime"), None);
    }
}
