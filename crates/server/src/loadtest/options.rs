//! The command line of `unladen loadtest`.

use std::path::PathBuf;
use std::time::Duration;

use super::contender::Wanted as WantedServer;
use crate::cli::Mistake;
use crate::cli::words::{Known, Words, count};
use crate::duration;

/// What was asked for.
#[derive(Debug)]
pub enum Wanted {
    /// This work.
    Run(Box<Request>),
    /// A text that explains.
    Help(String),
}

/// A load test.
#[derive(Debug)]
pub struct Request {
    /// What the fleet serves.
    pub load: Load,
    /// How long it is held, and before that, until the servers know their targets.
    pub phases: Phases,
    /// Raised step by step until a server falls behind.
    pub ramp: Option<Ramp>,
    pub(super) servers: Vec<WantedServer>,
    /// Not side by side.
    pub one_after_another: bool,
    /// `kill -9` at the end, and a start.
    pub restart: bool,
    /// Where servers keep their data; a temporary directory without it.
    pub directory: Option<PathBuf>,
    /// Measure the coefficients of `unladen plan` and write them there; an empty path for the terminal.
    pub calibrate: Option<PathBuf>,
    /// Where the report goes, besides the terminal.
    pub json: Option<PathBuf>,
    /// Where the report goes as a page.
    pub html: Option<PathBuf>,
    /// Nothing is said while it runs.
    pub quiet: bool,
}

/// What a fleet serves.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Targets, each with a connection of its own.
    pub targets: u64,
    /// Series of each.
    pub series: u64,
    /// From one scrape of a target to the next.
    pub interval: Duration,
    /// Further flags of `unladen fleet`, as they are given to it.
    pub fleet: Vec<String>,
}

impl Load {
    /// Samples per second that come if none is missed.
    pub fn samples_per_second(&self) -> f64 {
        (self.targets * self.series) as f64 / self.interval.as_secs_f64()
    }
}

/// How long each part takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    /// Not measured: series are new, buffers grow.
    pub warmup: Duration,
    /// Measured.
    pub hold: Duration,
}

/// What is raised, and how far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ramp {
    /// Series per target are raised, not targets.
    pub by_series: bool,
    /// The first step.
    pub from: u64,
    /// The last one, if no server falls behind.
    pub to: u64,
    /// From one to the next.
    pub step: u64,
}

const FLAGS: &[Known] = &[
    known("targets", "--targets=500", "500", "Targets, each an address of its own"),
    known("series", "--series=1000", "1000", "Series of each target"),
    known("interval", "--interval=10s", "10s", "From one scrape of a target to the next"),
    known("shape", "--shape=SHAPE", "", "What targets look like: see unladen fleet --help"),
    known(
        "churn",
        "--churn=SHARE/TIME",
        "",
        "Series that are replaced: 0.1/10m for a tenth every ten minutes",
    ),
    known("values", "--values=VALUES", "", "How values move: see unladen fleet --help"),
    known("gzip", "--gzip", "", "Targets compress what they answer"),
    known(
        "misbehaving",
        "--misbehaving=SHARE",
        "",
        "The share of targets that misbehave, from 0 to 1",
    ),
    known("seed", "--seed=1", "", "The same seed gives the same series and values"),
    known("duration", "--duration=5m", "5m", "How long is measured"),
    known("hold", "--hold=5m", "", "The same"),
    known(
        "warmup",
        "--warmup=TIME",
        "",
        "How long is not measured before that\n(without it, three intervals and ten seconds)",
    ),
    known(
        "ramp",
        "--ramp=FROM:TO:STEP",
        "",
        "Raise the number of targets until a server falls behind,\neach step with fresh servers for --warmup and --duration (1m)",
    ),
    known(
        "ramp-by",
        "--ramp-by=targets",
        "targets",
        "What --ramp raises: targets, or series (of each target)",
    ),
    known(
        "server",
        "--server=PROGRAM ...",
        "",
        "What is loaded: unladen (this program), or a program of Prometheus,\nVictoriaMetrics or vmagent, with further flags behind it;\ncan be repeated: 'unladen --profile.budget=0'",
    ),
    known(
        "one-after-another",
        "--one-after-another",
        "",
        "Load the servers in turn, not side by side",
    ),
    known(
        "restart",
        "--restart",
        "",
        "At the end kill each server and start it again: how long it is away,\nand which samples are gone",
    ),
    known(
        "directory",
        "--directory=DIR",
        "",
        "Where the servers keep their data, which stays there\n(without it, a temporary directory that is deleted)",
    ),
    known("json", "--json=FILE", "", "Write the report as JSON; - for standard output"),
    known("html", "--html=FILE", "", "Write the report as a page with charts"),
    known(
        "calibrate",
        "--calibrate[=FILE]",
        "",
        "Measure the coefficients of unladen plan with a series of short loads\n(about eight minutes), write them to FILE",
    ),
    known("quiet", "--quiet", "", "Say nothing while it runs"),
];

const fn known(
    name: &'static str,
    shown: &'static str,
    default: &'static str,
    help: &'static str,
) -> Known {
    Known { name, shown, default, help }
}

const HELP: &str = "\
usage: unladen loadtest [<flags>]

Starts a fleet of simulated targets (unladen fleet) and a server that scrapes it, both on this machine, holds the
load, and reports what it took: CPU, memory, bytes allocated and written, how evenly samples came, which scrapes
were missed. Linux only: figures are those of the kernel, read in /proc.

  unladen loadtest --targets=500 --series=1000 --interval=10s --html=report.html
  unladen loadtest --server=unladen --server=/usr/bin/prometheus --one-after-another --restart
  unladen loadtest --ramp=500:10000:500 --series=200 --interval=5s

Flags:
";

/// The most targets: addresses of 127.0.0.0/8 that are left for them.
const MOST_TARGETS: u64 = 1_000_000;

/// The most series of a target: a body of a gigabyte.
const MOST_SERIES: u64 = 10_000_000;

/// Reads the command line behind `unladen loadtest`.
///
/// # Errors
/// The first mistake.
pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Wanted, Mistake> {
    let Some(words) = Words::read("loadtest", FLAGS, arguments)? else {
        return Ok(Wanted::Help(format!("{HELP}{}", Words::help(FLAGS))));
    };
    let load = Load {
        targets: words.count("targets", 1, MOST_TARGETS)?,
        series: words.count("series", 1, MOST_SERIES)?,
        interval: words.duration("interval")?,
        fleet: fleet_flags(&words),
    };
    let ramp = ramp(&words)?;
    let calibrate = words.has("calibrate").then(|| PathBuf::from(words.text("calibrate")));
    if calibrate.is_some() {
        // What is loaded then is what the calibration needs, nothing else.
        let allowed = ["calibrate", "quiet", "directory"];
        if let Some(flag) =
            FLAGS.iter().find(|flag| words.has(flag.name) && !allowed.contains(&flag.name))
        {
            return Err(Mistake::new(format!(
                "--calibrate runs loads of its own, with this program: leave out --{}",
                flag.name
            )));
        }
    }
    if ramp.is_some() && words.is_on("restart") {
        return Err(Mistake::new(
            "--restart is measured after a load that was held, not with --ramp",
        ));
    }
    let file = |name: &str| {
        let text = words.text(name);
        match words.has(name) && text.is_empty() {
            true => Err(Mistake::new(format!("--{name} wants the name of a file"))),
            false => Ok((!text.is_empty()).then(|| PathBuf::from(text))),
        }
    };
    let mut servers = Vec::new();
    for text in words.all("server") {
        servers.push(WantedServer::parse(text)?);
    }
    if servers.is_empty() {
        servers.push(WantedServer::ours());
    }
    Ok(Wanted::Run(Box::new(Request {
        phases: phases(&words, &load, ramp.is_some())?,
        load,
        ramp,
        servers,
        one_after_another: words.is_on("one-after-another"),
        restart: words.is_on("restart"),
        directory: file("directory")?,
        calibrate,
        json: file("json")?,
        html: file("html")?,
        quiet: words.is_on("quiet"),
    })))
}

/// What goes to the fleet as it was given; the fleet says what is wrong with it.
fn fleet_flags(words: &Words) -> Vec<String> {
    let mut flags = Vec::new();
    for name in ["shape", "churn", "values", "misbehaving", "seed"] {
        if words.has(name) {
            flags.push(format!("--{name}={}", words.text(name)));
        }
    }
    if words.is_on("gzip") {
        flags.push("--gzip".to_owned());
    }
    flags
}

fn phases(words: &Words, load: &Load, is_ramp: bool) -> Result<Phases, Mistake> {
    if words.has("hold") && words.has("duration") {
        return Err(Mistake::new("--hold and --duration say the same: leave one of them out"));
    }
    let name = if words.has("hold") { "hold" } else { "duration" };
    let hold = match words.has(name) || !is_ramp {
        true => words.duration(name)?,
        false => Duration::from_secs(60),
    };
    let warmup = match words.has("warmup") {
        true => words.duration("warmup")?,
        false => 3 * load.interval + Duration::from_secs(10),
    };
    if hold < load.interval || hold < Duration::from_secs(2) {
        return Err(Mistake::new(format!(
            "--{name} has at least one interval ({}) and two seconds, {} is too short to measure",
            duration::format(load.interval),
            duration::format(hold)
        )));
    }
    Ok(Phases { warmup, hold })
}

fn ramp(words: &Words) -> Result<Option<Ramp>, Mistake> {
    let by_series = match words.text("ramp-by") {
        "targets" => false,
        "series" => true,
        other => {
            return Err(Mistake::new(format!("--ramp-by is targets or series, not {other:?}")));
        }
    };
    if !words.has("ramp") {
        return match words.has("ramp-by") {
            true => {
                Err(Mistake::new("--ramp-by says what --ramp raises: give --ramp=FROM:TO:STEP"))
            }
            false => Ok(None),
        };
    }
    let text = words.text("ramp");
    let most = if by_series { MOST_SERIES } else { MOST_TARGETS };
    let numbers: Option<Vec<u64>> = text.split(':').map(count).collect();
    match numbers.as_deref() {
        Some(&[from, to, step]) if (1..=to).contains(&from) && step > 0 && to <= most => {
            Ok(Some(Ramp { by_series, from, to, step }))
        }
        _ => Err(Mistake::new(format!(
            "--ramp is FROM:TO:STEP such as 500:5000:500, at most {most}, not {text:?}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Wanted, Mistake> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    fn request(line: &str) -> Request {
        match run(line) {
            Ok(Wanted::Run(request)) => *request,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn what_is_not_given_follows_from_what_is() {
        let it = request("");
        assert_eq!((it.load.targets, it.load.series), (500, 1000));
        assert_eq!(it.load.samples_per_second(), 50_000.0);
        assert_eq!(it.phases.warmup, Duration::from_secs(40));
        assert_eq!(it.phases.hold, Duration::from_secs(300));
        assert_eq!(it.servers.len(), 1);
        let it = request("--ramp=1k:5k:500 --ramp-by=series --interval 1s");
        let ramp = Ramp { by_series: true, from: 1000, to: 5000, step: 500 };
        assert_eq!(it.ramp, Some(ramp));
        assert_eq!(it.phases.hold, Duration::from_secs(60));
        let it = request(
            "--hold=20s --churn=0.1/10m --gzip --server=unladen --server=unladen --restart",
        );
        assert_eq!(it.load.fleet, ["--churn=0.1/10m", "--gzip"]);
        assert_eq!(
            (it.phases.hold, it.servers.len(), it.restart),
            (Duration::from_secs(20), 2, true)
        );
        assert_eq!(request("--calibrate").calibrate, Some(PathBuf::new()));
        assert_eq!(request("--calibrate=x.json").calibrate, Some(PathBuf::from("x.json")));
        assert!(
            matches!(run("--help"), Ok(Wanted::Help(text)) if text.contains("--one-after-another"))
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (line, expected) in [
            ("now", "unladen loadtest takes flags only, and found \"now\""),
            ("--frobnicate", "has no flag --frobnicate: see unladen loadtest --help"),
            ("--targets=0", "--targets is a whole number from 1 to 1000000"),
            ("--targets=many", "not \"many\""),
            ("--targets", "expected a value for flag '--targets'"),
            ("--targets=1 --targets=2", "flag 'targets' cannot be repeated"),
            ("--interval=0s", "--interval is longer than nothing"),
            ("--interval=5", "--interval: \"5\" is not a duration"),
            ("--duration=1s", "at least one interval (10s) and two seconds, 1s is too short"),
            ("--hold=1m --duration=1m", "leave one of them out"),
            ("--ramp=5:1:1", "--ramp is FROM:TO:STEP"),
            ("--ramp=5:10", "--ramp is FROM:TO:STEP"),
            ("--ramp=5:10:0", "--ramp is FROM:TO:STEP"),
            ("--ramp=1:2:1 --ramp-by=bytes", "--ramp-by is targets or series"),
            ("--ramp-by=series", "give --ramp=FROM:TO:STEP"),
            ("--ramp=1:2:1 --restart", "not with --ramp"),
            ("--gzip=maybe", "--gzip is a switch"),
            ("--calibrate --targets=5", "leave out --targets"),
            ("--json=", "--json wants the name of a file"),
            ("--server=", "--server wants a program"),
        ] {
            let mistake = run(line).expect_err(line);
            assert!(mistake.message.contains(expected), "{line}: {}", mistake.message);
        }
    }
}
