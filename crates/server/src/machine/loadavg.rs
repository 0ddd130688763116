//! `/proc/loadavg`: how many processes want to run.

use std::io;

use unladen::FamilyWriter;

use super::room::{Room, number, odd, read_text};

const FAMILIES: [(&str, &str); 3] = [
    ("node_load1", "1m load average."),
    ("node_load5", "5m load average."),
    ("node_load15", "15m load average."),
];

pub(super) fn collect(room: &mut Room, out: &mut FamilyWriter<'_, '_>) -> io::Result<()> {
    let text = read_text("/proc/loadavg", &mut room.bytes)?;
    let loads = parse(text).ok_or_else(|| odd("no three loads in /proc/loadavg"))?;
    for ((name, help), load) in FAMILIES.iter().zip(loads) {
        out.gauge(name, help).sample(&[], load);
    }
    Ok(())
}

fn parse(text: &str) -> Option<[f64; 3]> {
    Some([number(text, 0)?, number(text, 1)?, number(text, 2)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_three_loads() {
        assert_eq!(parse("7.16 5.29 3.47 2/300 1234\n"), Some([7.16, 5.29, 3.47]));
        assert_eq!(parse("7.16 5.29"), None);
        assert_eq!(parse(""), None);
    }
}
