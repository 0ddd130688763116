//! The machine's clock, and what it is driven by.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use unladen::FamilyWriter;

use super::room::{Room, join, read_text};

const CLOCK_SOURCES: &str = "/sys/devices/system/clocksource/clocksource";

/// More than any machine has; Linux counts them from 0 without gaps.
const DEVICES: [&str; 4] = ["0", "1", "2", "3"];

#[rustfmt::skip]
const FAMILIES: [(&str, &str, &str); 2] = [
    ("/available_clocksource", "node_time_clocksource_available_info", "Available clocksources read from '/sys/devices/system/clocksource'."),
    ("/current_clocksource", "node_time_clocksource_current_info", "Current clocksource read from '/sys/devices/system/clocksource'."),
];

pub(super) fn collect(room: &mut Room, out: &mut FamilyWriter<'_, '_>) -> io::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    out.gauge("node_time_seconds", "System time in seconds since epoch (1970).")
        .sample(&[], now.as_nanos() as f64 / 1e9);
    for (file, name, help) in FAMILIES {
        let mut samples = out.gauge(name, help);
        for device in DEVICES {
            let path = join(&mut room.name, &[CLOCK_SOURCES, device, file]);
            let text = match read_text(path, &mut room.bytes) {
                Err(error) if device != DEVICES[0] && error.kind() == io::ErrorKind::NotFound => {
                    break;
                }
                text => text?,
            };
            for source in text.split_ascii_whitespace() {
                samples.sample(&[("clocksource", source), ("device", device)], 1.0);
            }
        }
    }
    Ok(())
}
