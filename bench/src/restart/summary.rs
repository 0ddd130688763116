//! The table, the bars and the last line.

use bench::engine::Measured;
use bench::report::{Bar, Bars, ResultLine, Table, number, scaled};
use bench::statistics::ratio;

use crate::workload::Workload;

const MIB: f64 = (1 << 20) as f64;

/// Prints everything that was measured.
pub fn print(workload: &Workload, measured: &[(&str, Measured)]) {
    println!("\n{} series, {} samples", workload.all_series(), workload.samples());
    let headings = ["", "seconds", "CPU s", "peak MiB", "ran MiB", "lost", "s after a stop"];
    let mut table = Table::new(headings);
    for (name, figures) in measured {
        table.row([
            (*name).to_owned(),
            number(figures.median("seconds"), 2),
            number(figures.median("cpu_seconds"), 2),
            scaled(figures.most("peak"), MIB, 0),
            scaled(figures.median("ran"), MIB, 0),
            number(figures.most("lost"), 0),
            number(figures.median("after_a_stop"), 2),
        ]);
    }
    table.print();
    let of = |name: &str| measured.iter().find(|(known, _)| *known == name).map(|(_, m)| m);
    let (ours, peer) = (of("unladen"), of("prometheus"));
    let seconds = ours.and_then(|ours| ours.median("seconds"));
    let against = ratio(peer.and_then(|peer| peer.median("seconds")), seconds);
    let lost = ours.and_then(|ours| ours.most("lost"));
    let peak = ours.and_then(|ours| ratio(ours.most("peak"), ours.median("ran")));
    println!();
    let mut bars = Bars::default();
    bars.add("seconds until ready", seconds, Bar::AtMost(1.5));
    bars.add("Prometheus / ours", against, Bar::AtLeast(15.0));
    bars.add("samples lost", lost, Bar::AtMost(0.0));
    bars.add("peak / when it ran", peak, Bar::AtMost(1.0));
    bars.print();
    println!();
    ResultLine::new("restart")
        .number("seconds", seconds, 2)
        .number("vs_prometheus", against, 1)
        .number("lost_samples", lost, 0)
        .number("peak_ratio", peak, 2)
        .print();
}
