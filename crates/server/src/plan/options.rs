//! The command line of `unladen plan`.

use std::path::PathBuf;
use std::time::Duration;

use super::estimate::Load;
use crate::cli::Mistake;
use crate::cli::words::{Known, Words};
use crate::duration;

/// What was asked for.
#[derive(Debug)]
pub enum Wanted {
    /// This estimate.
    Run(Box<Request>),
    /// A text that explains.
    Help(String),
}

/// An estimate.
#[derive(Debug)]
pub struct Request {
    pub(super) load: Load,
    /// None: those that are built in.
    pub(super) coefficients: Option<PathBuf>,
    /// As JSON.
    pub(super) json: bool,
}

const fn known(
    name: &'static str,
    shown: &'static str,
    default: &'static str,
    help: &'static str,
) -> Known {
    Known { name, shown, default, help }
}

const FLAGS: &[Known] = &[
    known("series", "--series=COUNT", "", "Series of all targets together, such as 1M"),
    known("interval", "--interval=15s", "15s", "From one scrape of a target to the next"),
    known("retention", "--retention=15d", "15d", "How long samples are kept"),
    known("churn", "--churn=SHARE/TIME", "0", "Series that are replaced: 10%/1h, or 0.1/1h"),
    known("targets", "--targets=COUNT", "", "Targets (without it, one for every thousand series)"),
    known(
        "shape",
        "--shape=mixed",
        "mixed",
        "What targets look like: one of those of unladen fleet",
    ),
    known("queries", "--queries=0", "0", "Samples per second that queries read, such as 2M"),
    known("block", "--block=2h", "2h", "Length of a block (--storage.tsdb.min-block-duration)"),
    known(
        "coefficients",
        "--coefficients=FILE",
        "",
        "Take those of this file, which loadtest --calibrate wrote,\nnot those that are built in",
    ),
    known("json", "--json", "", "Answer in JSON"),
];

const HELP: &str = "\
usage: unladen plan --series=COUNT [<flags>]

Says what a server will need: memory, processors, disk, network, file descriptors, and which flags to give it.
The estimate is a sum of parts that were measured (for each process, target, series, scrape, sample, ...); it
says by how much it was wrong where it was checked.

  unladen plan --series=1M --interval=15s --retention=15d --churn=10%/1h
  unladen loadtest --calibrate=mine.json && unladen plan --series=1M --coefficients=mine.json

Flags:
";

/// The most series: more than any machine has memory for.
const MOST_SERIES: u64 = 1_000_000_000_000;

/// Reads the command line behind `unladen plan`.
///
/// # Errors
/// The first mistake.
pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Wanted, Mistake> {
    let Some(words) = Words::read("plan", FLAGS, arguments)? else {
        return Ok(Wanted::Help(format!("{HELP}{}", Words::help(FLAGS))));
    };
    if !words.has("series") {
        return Err(Mistake::new(
            "how many series? unladen plan --series=1M, see unladen plan --help",
        ));
    }
    let series = words.count("series", 1, MOST_SERIES)?;
    let targets = match words.has("targets") {
        true => words.count("targets", 1, series)?,
        false => series.div_ceil(1000),
    };
    let (churn_share, churn_time) = churn(words.text("churn"))?;
    let block = words.duration("block")?;
    let retention = words.duration("retention")?;
    if retention < block {
        return Err(Mistake::new(format!(
            "--retention is at least the length of a block ({}), not {}",
            duration::format(block),
            duration::format(retention)
        )));
    }
    Ok(Wanted::Run(Box::new(Request {
        load: Load {
            series: series as f64,
            targets: targets as f64,
            interval: words.duration("interval")?.as_secs_f64(),
            retention: retention.as_secs_f64(),
            block: block.as_secs_f64(),
            new_series_per_second: series as f64 * churn_share / churn_time.as_secs_f64(),
            query_samples_per_second: words.count("queries", 0, MOST_SERIES)? as f64,
            shape: words.text("shape").to_owned(),
        },
        coefficients: words.has("coefficients").then(|| PathBuf::from(words.text("coefficients"))),
        json: words.is_on("json"),
    })))
}

/// `10%/1h` or `0.1/1h`; `0` for none.
fn churn(text: &str) -> Result<(f64, Duration), Mistake> {
    let refused = || {
        Mistake::new(format!(
            "--churn is a share of the series and a time, such as 10%/1h or 0.1/1h, not {text:?}"
        ))
    };
    if text == "0" {
        return Ok((0.0, Duration::from_secs(1)));
    }
    let (share, time) = text.split_once('/').ok_or_else(refused)?;
    let (digits, unit) = match share.strip_suffix('%') {
        Some(digits) => (digits, 0.01),
        None => (share, 1.0),
    };
    let share = digits.parse::<f64>().ok().map(|share| share * unit);
    let share = share.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(refused)?;
    let time = duration::parse(time).ok().filter(|time| !time.is_zero()).ok_or_else(refused)?;
    Ok((share, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Wanted, Mistake> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn loads_are_read() {
        let load = |line: &str| match run(line) {
            Ok(Wanted::Run(request)) => request.load,
            other => panic!("{line}: {other:?}"),
        };
        let it = load("--series=1M --interval=15s --retention=15d --churn=10%/1h");
        assert_eq!((it.series, it.targets, it.interval), (1e6, 1000.0, 15.0));
        assert_eq!((it.retention, it.block), (15.0 * 86_400.0, 7200.0));
        assert!((it.new_series_per_second - 1e5 / 3600.0).abs() < 1e-6);
        assert_eq!(
            load("--series=1M --churn=0.1/1h").new_series_per_second,
            it.new_series_per_second
        );
        let it = load("--series=500 --targets=7 --shape=node --queries=2M");
        assert_eq!(
            (it.targets, it.query_samples_per_second, it.shape.as_str()),
            (7.0, 2e6, "node")
        );
        assert!(matches!(run("--help"), Ok(Wanted::Help(text)) if text.contains("--churn")));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, expected) in [
            ("", "how many series?"),
            ("--series=0", "--series is a whole number from 1"),
            ("--series=5 --targets=6", "--targets is a whole number from 1 to 5"),
            ("--series=5 --churn=10", "--churn is a share of the series and a time"),
            ("--series=5 --churn=200%/1h", "--churn is a share"),
            ("--series=5 --churn=1%/0s", "--churn is a share"),
            ("--series=5 --interval=0s", "--interval is longer than nothing"),
            (
                "--series=5 --retention=1h",
                "--retention is at least the length of a block (2h), not 1h",
            ),
            ("--series=5 --wat", "unladen plan has no flag --wat"),
            ("5", "unladen plan takes flags only"),
        ] {
            let mistake = run(line).expect_err(line);
            assert!(mistake.message.contains(expected), "{line}: {}", mistake.message);
        }
    }
}
