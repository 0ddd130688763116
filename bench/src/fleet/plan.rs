//! Three loads that the coefficients were not fitted to, and what `unladen plan` says of them.

use std::process::Command;

use bench::Failure;
use bench::report::{Bar, Bars, ResultLine, Table, number};
use serde_json::Value;

use super::run::{Options, figure, loadtest, program, servers};

/// A load: targets, series of each, interval in seconds, length of a block in seconds, shape, churn as the fleet
/// has it.
struct Load {
    name: &'static str,
    targets: u64,
    series: u64,
    interval: f64,
    block: u64,
    shape: &'static str,
    churn: Option<&'static str>,
}

/// Other counts, intervals and blocks than those of the calibration; each block has several chunks of 120 samples
/// or one, as blocks of two hours do.
const LOADS: [Load; 3] = [
    Load {
        name: "pods",
        targets: 60,
        series: 1500,
        interval: 0.4,
        block: 96,
        shape: "kubernetes",
        churn: None,
    },
    Load {
        name: "many",
        targets: 600,
        series: 100,
        interval: 0.8,
        block: 96,
        shape: "mixed",
        churn: None,
    },
    Load {
        name: "churn",
        targets: 150,
        series: 700,
        interval: 0.4,
        block: 48,
        shape: "node",
        churn: Some("0.05/5m"),
    },
];

/// Runs them and compares.
pub fn run(options: &Options) -> Result<(), Failure> {
    let mut table = Table::new(["load", "figure", "planned", "measured", "off by"]);
    let mut bars = Bars::default();
    let mut worst = 0f64;
    for load in &LOADS {
        let seconds = if options.smoke { 3 } else { load.block };
        let duration = options.duration.clone().unwrap_or(format!("{seconds}s"));
        // Until a block was cut, at the latest when half of the next one is there and five seconds have passed.
        let warmup = if options.smoke { 3 } else { load.block * 3 / 2 + 8 };
        let (targets, series) = match options.smoke {
            true => (2, load.series / 10),
            false => (load.targets, load.series),
        };
        let mut arguments = vec![
            format!("--targets={targets}"),
            format!("--series={series}"),
            format!("--interval={}ms", load.interval * 1000.0),
            format!("--shape={}", load.shape),
            format!("--duration={duration}"),
            format!("--warmup={}", options.warmup.clone().unwrap_or(format!("{warmup}s"))),
            format!("--server=unladen --storage.tsdb.min-block-duration={}s", load.block),
        ];
        arguments.extend(load.churn.map(|churn| format!("--churn={churn}")));
        let report = loadtest(&format!("plan-{}", load.name), &arguments)?;
        let server = servers(&report).first().ok_or("the report has no server")?;
        let planned = plan(options, load, targets, series)?;
        for (name, planned, measured) in compared(&planned, server) {
            let off = measured.map(|measured| (planned / measured - 1.0).abs());
            worst = worst.max(off.unwrap_or(0.0));
            table.row([
                load.name.to_owned(),
                name.to_owned(),
                format!("{planned:.3}"),
                number(measured, 3),
                number(off.map(|off| off * 100.0), 1) + "%",
            ]);
        }
    }
    table.print();
    bars.add("the worst error", Some(worst), Bar::AtMost(0.2));
    bars.print();
    ResultLine::new("plan").number("worst", Some(worst), 3).print();
    Ok(())
}

/// What `unladen plan` says.
fn plan(options: &Options, load: &Load, targets: u64, series: u64) -> Result<Value, Failure> {
    let mut command = Command::new(program()?);
    command
        .arg("plan")
        .arg("--json")
        .arg(format!("--series={}", targets * series))
        .arg(format!("--targets={targets}"))
        .arg(format!("--retention={}s", load.block * 10))
        .arg(format!("--interval={}ms", load.interval * 1000.0))
        .arg(format!("--block={}s", load.block))
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
fn compared(planned: &Value, server: &Value) -> [(&'static str, f64, Option<f64>); 3] {
    let said = |name: &str| figure(&planned["estimate"], name).unwrap_or(f64::NAN);
    let blocks = |name: &str| figure(server, &format!("disk/blocks/{name}"));
    let measured_rate = figure(server, "samples_per_second");
    let a_day = || {
        let bytes = blocks("chunk_bytes")? + blocks("index_bytes")?;
        let samples = blocks("samples").filter(|samples| *samples > 0.0)?;
        Some(bytes / samples * measured_rate? * 86_400.0 / 1e9)
    };
    [
        (
            "memory, MB",
            said("memory_bytes") / 1e6,
            figure(server, "memory/rss_average_bytes").map(|b| b / 1e6),
        ),
        ("processors", said("cores"), figure(server, "cpu/cores")),
        ("disk per day, GB", said("disk_bytes_per_day") / 1e9, a_day()),
    ]
}
