//! `/proc/net/dev`: what went through each network device.

use std::io;

use unladen::FamilyWriter;

use super::room::{Room, join, number, odd, read_text};

/// The columns behind the device's name, as families without `node_network_` and `_total`.
const COLUMNS: [&str; 16] = [
    "receive_bytes",
    "receive_packets",
    "receive_errs",
    "receive_drop",
    "receive_fifo",
    "receive_frame",
    "receive_compressed",
    "receive_multicast",
    "transmit_bytes",
    "transmit_packets",
    "transmit_errs",
    "transmit_drop",
    "transmit_fifo",
    "transmit_colls",
    "transmit_carrier",
    "transmit_compressed",
];

pub(super) fn collect(room: &mut Room, out: &mut FamilyWriter<'_, '_>) -> io::Result<()> {
    let Room { bytes, more, name, help, .. } = room;
    let text = read_text("/proc/net/dev", bytes)?;
    if devices(text).next().is_none() {
        return Err(odd("no device in /proc/net/dev"));
    }
    for (index, column) in COLUMNS.iter().enumerate() {
        let name = join(name, &["node_network_", column, "_total"]);
        let help = join(help, &["Network device statistic ", column, "."]);
        let mut samples = out.counter(name, help);
        for (device, counts) in devices(text) {
            if let Some(count) = number::<u64>(counts, index) {
                samples.sample(&[("device", device)], count);
            }
        }
    }
    // The one count that has no column there.
    let mut samples = out.counter(
        "node_network_receive_nohandler_total",
        "Network device statistic receive_nohandler.",
    );
    for (device, _) in devices(text) {
        let path = join(name, &["/sys/class/net/", device, "/statistics/rx_nohandler"]);
        let count = read_text(path, more).ok().and_then(|text| text.trim().parse::<u64>().ok());
        if let Some(count) = count {
            samples.sample(&[("device", device)], count);
        }
    }
    Ok(())
}

/// `<device>: <counts>`; names may hold colons. The two lines of heading hold none.
fn devices(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let (device, counts) = line.rsplit_once(':')?;
        Some((device.trim_start(), counts))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_and_counts() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes    packets\n    lo: 17  2 0\n\
            eth0:1:5 6\n";
        let read: Vec<_> = devices(text)
            .map(|(device, counts)| (device, number::<u64>(counts, 0), number::<u64>(counts, 2)))
            .collect();
        assert_eq!(read, [("lo", Some(17), Some(0)), ("eth0:1", Some(5), None)]);
    }
}
