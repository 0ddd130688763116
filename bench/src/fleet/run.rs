//! One `unladen loadtest`, its report as JSON.

use std::path::{Path, PathBuf};
use std::process::Command;

use bench::Failure;
use serde_json::Value;

/// What was asked for.
#[derive(Debug, Default)]
pub struct Options {
    /// The estimates are measured, not the servers.
    pub plan: bool,
    /// Seconds of a load: checks that everything works, measures nothing of worth.
    pub smoke: bool,
    /// How long each load is measured, as the program takes it.
    pub duration: Option<String>,
    /// How long not, before that.
    pub warmup: Option<String>,
    /// Intervals, the one of the last line first.
    pub intervals: Option<Vec<String>>,
    pub targets: Option<u64>,
    pub series: Option<u64>,
    /// Servers besides ours; the Prometheus that was built for the benches where none is named.
    pub peers: Vec<PathBuf>,
    pub no_peers: bool,
    pub no_side_by_side: bool,
    pub coefficients: Option<PathBuf>,
    /// Of those whose estimates are measured: these. All where none is named.
    pub loads: Option<Vec<String>>,
}

const HELP: &str = "--smoke, --duration=5m, --warmup=40s, --intervals=10s,2s, --targets=500, --series=1000, \
                    --peer=PROGRAM, --no-peers, --no-side-by-side, --plan, --coefficients=FILE, --loads=NAME,NAME";

impl Options {
    /// Reads the command line.
    pub fn read(arguments: impl IntoIterator<Item = String>) -> Result<Self, Failure> {
        let mut options = Options::default();
        for argument in arguments {
            let (name, value) = argument.split_once('=').unwrap_or((&argument, ""));
            let unknown = || Failure::from(format!("{argument}: unknown; there are {HELP}"));
            let number = || value.parse::<u64>().map_err(|_| unknown());
            match name {
                "--plan" => options.plan = true,
                "--smoke" => options.smoke = true,
                "--no-peers" => options.no_peers = true,
                "--no-side-by-side" => options.no_side_by_side = true,
                _ if value.is_empty() => return Err(unknown()),
                "--duration" => options.duration = Some(value.to_owned()),
                "--warmup" => options.warmup = Some(value.to_owned()),
                "--intervals" => {
                    options.intervals = Some(value.split(',').map(str::to_owned).collect());
                }
                "--loads" => options.loads = Some(value.split(',').map(str::to_owned).collect()),
                "--targets" => options.targets = Some(number()?),
                "--series" => options.series = Some(number()?),
                "--peer" => options.peers.push(value.into()),
                "--coefficients" => options.coefficients = Some(value.into()),
                _ => return Err(unknown()),
            }
        }
        Ok(options)
    }
}

/// The program under test, built beforehand.
pub fn program() -> Result<PathBuf, Failure> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/unladen");
    match path.is_file() {
        true => Ok(path.canonicalize()?),
        false => Err(format!("{} is missing: make bench-fleet builds it", path.display()).into()),
    }
}

/// The Prometheus that `bench/peers/build prometheus` builds.
pub fn prometheus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bin/prometheus")
}

/// Runs a load test; its terminal report goes on, its page stays in `bench/out`. Gives the report.
pub fn loadtest(name: &str, arguments: &[String]) -> Result<Value, Failure> {
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("out");
    std::fs::create_dir_all(&out)?;
    let json = out.join(format!("{name}.json"));
    let page = out.join(format!("{name}.html"));
    // Not in the system's directory for what is temporary: that may be in memory, where nothing is written.
    let data = out.join(format!("{name}-data"));
    remove(&data)?;
    let status = Command::new(program()?)
        .arg("loadtest")
        .args(arguments)
        .arg(format!("--json={}", json.display()))
        .arg(format!("--html={}", page.display()))
        .arg(format!("--directory={}", data.display()))
        .status()?;
    // After a failure, data and logs stay.
    if !status.success() {
        return Err(format!("the load test {name} ended with {status}").into());
    }
    remove(&data)?;
    Ok(serde_json::from_str(&std::fs::read_to_string(json)?)?)
}

fn remove(directory: &Path) -> Result<(), Failure> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", directory.display()).into())
        }
        _ => Ok(()),
    }
}

/// A figure of a server in a report, by its path.
pub fn figure(server: &Value, path: &str) -> Option<f64> {
    path.split('/').fold(server, |at, name| &at[name]).as_f64()
}

/// The servers of the first load of a report.
pub fn servers(report: &Value) -> &[Value] {
    report["loads"][0]["servers"].as_array().map_or(&[], Vec::as_slice)
}
