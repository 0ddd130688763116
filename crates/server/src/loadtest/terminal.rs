//! The report as tables: servers as columns, figures as lines.

use std::fmt::Write as _;

use super::outcome::{Held, Report};
use super::rows::{ROWS, times, written};

/// All loads of a report; a ramp in a table of its own.
pub(super) fn tables(report: &Report) -> String {
    let mut text = format!("{}\n", report.machine.line());
    if !report.ramp.is_empty() {
        ramp(report, &mut text);
    }
    for held in &report.loads {
        text.push('\n');
        load(held, report.side_by_side, &mut text);
    }
    text
}

fn load(held: &Held, side_by_side: bool, text: &mut String) {
    // Writing to a String never fails.
    let _ = writeln!(
        text,
        "{} targets × {} series every {} s, {} s measured after {} s{}{}",
        held.targets,
        held.series_per_target,
        held.interval_seconds,
        held.seconds,
        held.warmup_seconds,
        if side_by_side { ", side by side" } else { "" },
        held.fleet_flags.iter().fold(String::new(), |all, flag| all + " " + flag)
    );
    let mut table = vec![vec![String::new()]];
    table[0].extend(held.servers.iter().map(|server| server.server.clone()));
    for row in ROWS {
        let values: Vec<Option<f64>> = held.servers.iter().map(row.value).collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        let mut line = vec![row.name.to_owned()];
        for (at, value) in values.iter().enumerate() {
            let mut cell = written(*value, row.form);
            if let Some(times) = times(values[0], *value).filter(|_| at > 0 && row.compared) {
                let _ = write!(cell, " ({times})");
            }
            line.push(cell);
        }
        table.push(line);
    }
    aligned(&table, &[true], text);
}

fn ramp(report: &Report, text: &mut String) {
    let mut table = vec![
        ["step", "server", "samples/s", "CPU-s per M", "processors", "memory", "missed", "down"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let by_series = report.ramp.iter().any(|one| one.unit != "targets");
    for held in &report.loads {
        for server in &held.servers {
            let find = |name: &str| {
                let row = ROWS.iter().find(|row| row.name == name);
                row.map_or_else(String::new, |row| written((row.value)(server), row.form))
            };
            let step = if by_series { held.series_per_target } else { held.targets };
            table.push(vec![
                step.to_string(),
                server.server.clone(),
                find("samples per second"),
                find("CPU-seconds per million samples"),
                find("processors used"),
                find("memory (RSS)"),
                find("scrapes missed"),
                find("healthy targets down at the end"),
            ]);
        }
    }
    aligned(&table, &[true], text);
    for one in &report.ramp {
        let _ = match (one.held, one.to_the_end) {
            (Some(held), true) => {
                writeln!(text, "{}: held {held} {}, the end of the ramp", one.server, one.unit)
            }
            (Some(held), false) => writeln!(text, "{}: held {held} {}", one.server, one.unit),
            (None, _) => writeln!(text, "{}: fell behind at the first step", one.server),
        };
    }
}

/// Columns as wide as their widest cell, set to the left where `left` says so.
pub(crate) fn aligned(table: &[Vec<String>], left: &[bool], text: &mut String) {
    let columns = table.iter().map(Vec::len).max().unwrap_or(0);
    let width_of = |cell: &String| cell.chars().count();
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            table.iter().filter_map(|row| row.get(column)).map(width_of).max().unwrap_or(0)
        })
        .collect();
    for row in table {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let gap = if column == 0 { "" } else { "  " };
            let _ = match left.get(column) {
                Some(true) => write!(line, "{gap}{cell:<width$}"),
                _ => write!(line, "{gap}{cell:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// A report of two servers.
#[cfg(test)]
pub(super) fn example() -> Report {
    use super::outcome::{Machine, Outcome};
    let mut ours = Outcome { server: "unladen".to_owned(), ..Outcome::default() };
    ours.cpu.seconds_per_million_samples = 0.2;
    ours.samples_per_second = 50_000.0;
    let mut other = ours.clone();
    other.server = "prometheus <b>".to_owned();
    other.cpu.seconds_per_million_samples = 2.4;
    other.cv = Some(0.1);
    let held = Held {
        targets: 500,
        series_per_target: 1000,
        interval_seconds: 10.0,
        fleet_flags: vec!["--gzip".to_owned()],
        warmup_seconds: 40.0,
        seconds: 300.0,
        servers: vec![ours, other],
    };
    Report {
        unladen: "0",
        date: "2026-11-22T01:00:00Z".to_owned(),
        machine: Machine {
            processors: 2,
            model: "Abacus".to_owned(),
            memory_bytes: 1 << 34,
            kernel: "6".to_owned(),
        },
        loads: vec![held],
        side_by_side: true,
        ramp: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Reached;
    use super::*;

    #[test]
    fn servers_are_columns() {
        let text = tables(&example());
        for expected in [
            "500 targets × 1000 series every 10 s, 300 s measured after 40 s, side by side --gzip",
            "CPU-seconds per million samples       0.200     2.400 (12×)",
            "evenness: cv of samples per second        –           0.100",
        ] {
            assert!(text.contains(expected), "{expected:?} in\n{text}");
        }
        assert!(!text.contains("restart"), "{text}");
    }

    #[test]
    fn a_ramp_says_how_far_it_went() {
        let mut report = example();
        let reached = |server: &str, held, to_the_end| Reached {
            server: server.to_owned(),
            held,
            unit: "targets",
            to_the_end,
        };
        report.ramp = vec![
            reached("a", Some(500.0), true),
            reached("b", Some(400.0), false),
            reached("c", None, false),
        ];
        let text = tables(&report);
        for expected in [
            "a: held 500 targets, the end of the ramp",
            "b: held 400 targets\n",
            "c: fell behind at the first step",
        ] {
            assert!(text.contains(expected), "{expected:?} in\n{text}");
        }
    }
}
