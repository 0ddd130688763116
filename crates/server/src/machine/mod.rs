//! The machine this process runs on, under the names, labels and texts of node_exporter.
//!
//! One file per source, named as node_exporter names the collector. A source reads a file of `/proc` or
//! `/sys` into memory it uses again, and parses it with functions over text that know no file. What is
//! missing or odd costs that source alone: it is told by `node_scrape_collector_success`.
//!
//! Where node_exporter's releases differ, this follows the newest.

mod cpu;
mod diskstats;
mod filefd;
mod filesystem;
mod loadavg;
mod meminfo;
mod netdev;
mod patience;
mod pressure;
mod room;
mod stat;
mod time;
mod uname;
mod vmstat;

use std::io;
use std::time::Instant;

use parking_lot::Mutex;
use unladen::{Collector, FamilyWriter};

use self::room::Room;

/// Memory kept for the next scrapes.
const KEPT_ROOMS: usize = 4;

/// The collector of this machine. *Steady* once each file was read.
pub fn collector() -> impl Collector + 'static {
    Machine::default()
}

/// A source: its name in `node_scrape_collector_*`, and what writes it.
type Source = (&'static str, fn(&Machine, &mut Room, &mut FamilyWriter<'_, '_>) -> io::Result<()>);

const SOURCES: [Source; 12] = [
    ("cpu", |machine, room, out| machine.cpu.collect(room, out)),
    ("diskstats", |_, room, out| diskstats::collect(room, out)),
    ("filefd", |_, room, out| filefd::collect(room, out)),
    ("filesystem", |machine, room, out| filesystem::collect(&machine.patience, room, out)),
    ("loadavg", |_, room, out| loadavg::collect(room, out)),
    ("meminfo", |_, room, out| meminfo::collect(room, out)),
    ("netdev", |_, room, out| netdev::collect(room, out)),
    ("pressure", |_, room, out| pressure::collect(room, out)),
    ("stat", |_, room, out| stat::collect(room, out)),
    ("time", |_, room, out| time::collect(room, out)),
    ("uname", |_, _, out| uname::collect(out)),
    ("vmstat", |_, room, out| vmstat::collect(room, out)),
];

#[derive(Default)]
struct Machine {
    cpu: cpu::Cpu,
    patience: patience::Patience,
    rooms: Mutex<Vec<Room>>,
}

impl Collector for Machine {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        let mut room = self.rooms.lock().pop().unwrap_or_default();
        let mut told = [("", 0.0, false); SOURCES.len()];
        for (told, (name, collect)) in told.iter_mut().zip(SOURCES) {
            let begin = Instant::now();
            let result = collect(self, &mut room, out);
            if let Err(error) = &result {
                tracing::debug!(source = name, %error, "a part of the machine can't be read");
            }
            *told = (name, begin.elapsed().as_secs_f64(), result.is_ok());
        }
        let mut kept = self.rooms.lock();
        if kept.len() < KEPT_ROOMS {
            kept.push(room);
        }
        drop(kept);
        let mut durations = out.gauge(
            "node_scrape_collector_duration_seconds",
            "node_exporter: Duration of a collector scrape.",
        );
        for (name, seconds, _) in told {
            durations.sample(&[("collector", name)], seconds);
        }
        let mut successes = out.gauge(
            "node_scrape_collector_success",
            "node_exporter: Whether a collector succeeded.",
        );
        for (name, _, success) in told {
            successes.sample(&[("collector", name)], f64::from(u8::from(success)));
        }
    }
}

#[cfg(test)]
mod tests;
