//! Loads that the coefficients were not fitted to, and what `unladen plan` says of them.
//!
//! A figure that is missing, or a load that was not held, ends the bench: nothing was compared then.

use std::process::Command;

use bench::Failure;
use bench::report::{Bar, Bars, ResultLine, Table, number};
use serde_json::Value;

use super::run::{Options, figure, loadtest, program, servers};

/// Targets, series of each, interval in seconds, length of a block in seconds, shape, churn as the fleet has it.
struct Load {
    name: &'static str,
    targets: u64,
    series: u64,
    interval: f64,
    /// Without one, blocks have their two hours: none is cut, and the disk is not compared.
    block: Option<u64>,
    shape: &'static str,
    churn: Option<&'static str>,
}

/// Other counts, intervals and blocks than those of the calibration; each block has several chunks of 120 samples
/// or one, as blocks of two hours do. The last one is as large and as slow as a real one.
const LOADS: [Load; 4] = [
    Load {
        name: "pods",
        targets: 60,
        series: 1000,
        interval: 0.4,
        block: Some(96),
        shape: "kubernetes",
        churn: None,
    },
    Load {
        name: "many",
        targets: 600,
        series: 100,
        interval: 0.8,
        block: Some(96),
        shape: "mixed",
        churn: None,
    },
    Load {
        name: "churn",
        targets: 100,
        series: 700,
        interval: 0.4,
        block: Some(48),
        shape: "node",
        churn: Some("0.05/5m"),
    },
    Load {
        name: "large",
        targets: 400,
        series: 1000,
        interval: 5.0,
        block: None,
        shape: "mixed",
        churn: None,
    },
];

/// Samples of a series in a full chunk.
const CHUNK: f64 = 120.0;

/// How long a load is measured that cuts no blocks, in seconds.
const WITHOUT_BLOCKS: u64 = 120;

/// The share of the scrapes that may be missed.
const MISSED: f64 = 0.02;

impl Load {
    /// Seconds that pass before, and that are measured.
    fn seconds(&self) -> (u64, u64) {
        match self.block {
            // Until a block was cut, at the latest when half of the next one is there and five seconds have
            // passed. One block at least is cut in the measured time.
            Some(block) => (block * 3 / 2 + 8, block.max(96)),
            // Until chunks are full.
            None => ((CHUNK * self.interval) as u64 + 10, WITHOUT_BLOCKS),
        }
    }
}

/// Runs them and compares.
///
/// # Errors
/// A load that can't be run or wasn't held, or a figure that is not there.
pub fn run(options: &Options) -> Result<(), Failure> {
    let mut table = Table::new(["load", "figure", "planned", "measured", "off by"]);
    let mut worst = 0f64;
    let wanted = |load: &&Load| match &options.loads {
        Some(names) => names.iter().any(|name| name == load.name),
        None => true,
    };
    let loads: Vec<&Load> = LOADS.iter().filter(wanted).collect();
    if loads.is_empty() {
        return Err("--loads names none of pods, many, churn, large".into());
    }
    for load in loads {
        let (targets, series) = match options.smoke {
            true => (2, load.series / 10),
            false => (load.targets, load.series),
        };
        let server = measured(options, load, targets, series)?;
        let planned = plan(options, load, targets, series)?;
        for (name, planned, measured) in compared(&planned, &server) {
            if name.starts_with("disk") && (load.block.is_none() || options.smoke) {
                continue;
            }
            let off = off(load.name, name, planned, measured)?;
            worst = worst.max(off);
            table.row([
                load.name.to_owned(),
                name.to_owned(),
                number(planned, 3),
                number(measured, 3),
                number(Some(off * 100.0), 1) + "%",
            ]);
        }
    }
    table.print();
    let mut bars = Bars::default();
    bars.add("the worst error", Some(worst), Bar::AtMost(0.2));
    bars.print();
    ResultLine::new("plan").number("worst", Some(worst), 3).print();
    Ok(())
}

/// Holds a load and gives what is said of the server.
fn measured(options: &Options, load: &Load, targets: u64, series: u64) -> Result<Value, Failure> {
    let (warmup, duration) = if options.smoke { (3, 3) } else { load.seconds() };
    let flags = load.block.map(|block| format!(" --storage.tsdb.min-block-duration={block}s"));
    let mut arguments = vec![
        format!("--targets={targets}"),
        format!("--series={series}"),
        format!("--interval={}ms", load.interval * 1000.0),
        format!("--shape={}", load.shape),
        format!("--duration={}", options.duration.clone().unwrap_or(format!("{duration}s"))),
        format!("--warmup={}", options.warmup.clone().unwrap_or(format!("{warmup}s"))),
        format!("--server=unladen{}", flags.unwrap_or_default()),
    ];
    arguments.extend(load.churn.map(|churn| format!("--churn={churn}")));
    let report = loadtest(&format!("plan-{}", load.name), &arguments)?;
    let server = servers(&report).first().ok_or("the report has no server")?;
    let missed = figure(server, "scrapes_missed");
    let expected = figure(server, "scrapes_expected");
    let held = missed.zip(expected).is_some_and(|(missed, all)| missed <= MISSED * all);
    if !held && !options.smoke {
        return Err(format!(
            "{}: {} of {} scrapes were missed: what such a load takes says nothing of one that is held",
            load.name,
            number(missed, 0),
            number(expected, 0)
        )
        .into());
    }
    Ok(server.clone())
}

/// By how much the plan is wrong, of what was measured.
///
/// # Errors
/// One of the two is not there, or nothing was measured.
fn off(
    load: &str,
    name: &str,
    planned: Option<f64>,
    measured: Option<f64>,
) -> Result<f64, Failure> {
    let off = planned.zip(measured).map(|(planned, measured)| (planned / measured - 1.0).abs());
    off.filter(|off| off.is_finite()).ok_or_else(|| {
        let (planned, measured) = (number(planned, 3), number(measured, 3));
        format!("{load}: {name}: planned {planned}, measured {measured}: nothing to compare").into()
    })
}

/// What `unladen plan` says.
fn plan(options: &Options, load: &Load, targets: u64, series: u64) -> Result<Value, Failure> {
    let block = load.block.unwrap_or(7200);
    let mut command = Command::new(program()?);
    command
        .arg("plan")
        .arg("--json")
        .arg(format!("--series={}", targets * series))
        .arg(format!("--targets={targets}"))
        .arg(format!("--retention={}s", block * 10))
        .arg(format!("--interval={}ms", load.interval * 1000.0))
        .arg(format!("--block={block}s"))
        .arg(format!("--shape={}", load.shape));
    if let Some(churn) = load.churn {
        command.arg(format!("--churn={churn}"));
    }
    if let Some(file) = &options.coefficients {
        command.arg(format!("--coefficients={}", file.display()));
    }
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("plan: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Name, planned and measured: memory, processors, gigabytes a day.
fn compared(planned: &Value, server: &Value) -> [(&'static str, Option<f64>, Option<f64>); 3] {
    let said = |name: &str| figure(&planned["estimate"], name);
    let blocks = |name: &str| figure(server, &format!("disk/blocks/{name}"));
    let a_day = || {
        let bytes = blocks("chunk_bytes")? + blocks("index_bytes")?;
        let samples = blocks("samples").filter(|samples| *samples > 0.0)?;
        Some(bytes / samples * figure(server, "samples_per_second")? * 86_400.0 / 1e9)
    };
    [
        (
            "memory, MB",
            said("memory_bytes").map(|bytes| bytes / 1e6),
            figure(server, "memory/rss_average_bytes").map(|bytes| bytes / 1e6),
        ),
        ("processors", said("cores"), figure(server, "cpu/cores")),
        ("disk per day, GB", said("disk_bytes_per_day").map(|bytes| bytes / 1e9), a_day()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_compared_is_no_success() {
        for (planned, measured, expected) in [
            (Some(90.0), Some(100.0), Some(0.1)),
            (Some(250.0), Some(100.0), Some(1.5)),
            (Some(0.0), Some(100.0), Some(1.0)),
            (None, Some(100.0), None),
            (Some(90.0), None, None),
            (Some(f64::NAN), Some(100.0), None),
            (Some(90.0), Some(0.0), None),
            (Some(0.0), Some(0.0), None),
        ] {
            let found = off("load", "figure", planned, measured).ok();
            let is_expected = match (found, expected) {
                (Some(found), Some(expected)) => f64::abs(found - expected) < 1e-9,
                (found, expected) => found.is_none() && expected.is_none(),
            };
            assert!(is_expected, "{planned:?} {measured:?}: {found:?}");
        }
    }

    #[test]
    fn figures_are_found_or_missing() {
        let planned = serde_json::json!({"estimate": {"memory_bytes": 2e6, "cores": 0.5}});
        let server = serde_json::json!({
            "samples_per_second": 10.0,
            "memory": {"rss_average_bytes": 3e6},
            "disk": {"blocks": {"chunk_bytes": 0, "index_bytes": 0, "samples": 0}},
        });
        let [memory, cores, disk] = compared(&planned, &server);
        assert_eq!((memory.1, memory.2), (Some(2.0), Some(3.0)));
        assert_eq!((cores.1, cores.2), (Some(0.5), None));
        assert_eq!((disk.1, disk.2), (None, None), "no block was cut");
    }
}
