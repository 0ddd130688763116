//! Coming back after `kill -9`: a server starts on what a killed one left.
//!
//! 1. A process appends 100 scrapes of 500 targets × 1,000 series and is killed in the middle of the next.
//! 2. A server starts on its directory and is asked until it says that it is ready; what it shows is counted
//!    against what the dead one had told to be in. It is killed, and starts again: the middle of the rounds.
//! 3. The last one is ended as a user ends it, and starts once more.
//! 4. Another one scrapes the same series from where the dead one stopped, for a minute: what it holds then is
//!    what a start may take at most.
//! 5. Prometheus the same, with its own directory, written by its own code.
//!
//! The last line is `RESULT restart seconds=… …`; see `bench/README.md`.

mod fill;
mod open;
mod process;
mod server;
mod summary;
mod targets;
mod victim;
mod workload;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bench::Failure;
use bench::engine::{Measured, peer_binary, run_peer};
use bench::options::Options;
use bench::protocol::Line;
use server::Server;
use targets::Targets;
use victim::Remains;
use workload::{INTERVAL_MS, METRICS, Workload};

/// Starts of ours, and of the peer's, which take long.
const ROUNDS: usize = 5;
const PEER_ROUNDS: usize = 3;

/// Scrapes of each target before a running server's memory is read: by then what a start let go has long
/// gone back to the system.
const SCRAPES: usize = 6;
/// Of a workload with fewer scrapes than this, so many are enough as can be waited for.
const SMALL: usize = 50;
/// Series that a server has of its own for each target, at most: `up` and the like.
const OWN_SERIES: usize = 10;

fn main() -> Result<(), Failure> {
    let options = Options::read(std::env::args().skip(1))?;
    match options.engine.as_deref() {
        None => {}
        Some("fill") => return fill::run(&options),
        Some("open") => return open::run(&options),
        Some(other) => return Err(format!("{other}: no such engine").into()),
    }
    let workload = workload(options.is_smoke)?;
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("out");
    std::fs::create_dir_all(&out)?;
    let scratch = tempfile::tempdir_in(out)?;
    let mut measured = Vec::new();
    if options.wants("store") || options.wants("unladen") {
        let data = scratch.path().join("unladen");
        println!("filling a store of ours with {} samples", workload.samples());
        let program = std::env::current_exe()?;
        let remains = victim::run(&program, &["--engine", "fill"], &workload, &data)?;
        if options.wants("store") {
            measured.push(("store", open(&program, &workload, &data, &remains)?));
        }
        if options.wants("unladen") && !unladen().is_file() {
            println!("missing: {}: cargo build --release builds it", unladen().display());
        } else if options.wants("unladen") {
            let contestant = Contestant {
                name: "unladen",
                program: unladen(),
                words: &["serve"],
                rounds: if options.is_smoke { 1 } else { ROUNDS },
            };
            measured.push(("unladen", contestant.run(&workload, &data, &remains)?));
        }
        std::fs::remove_dir_all(&data)?;
    }
    if options.has_peers {
        match prometheus(&workload, &scratch.path().join("prometheus")) {
            Ok(found) => measured.push(("prometheus", found)),
            Err(error) => println!("missing: prometheus: {error}"),
        }
    }
    summary::print(&workload, &measured);
    Ok(())
}

fn workload(is_smoke: bool) -> Result<Workload, Failure> {
    let (targets, series, scrapes) = if is_smoke { (4, 100, 10) } else { (500, 1000, 100) };
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
    // The scrape that isn't finished is the last one that may have been.
    let start = now - (scrapes as i64 + 2) * INTERVAL_MS;
    Ok(Workload { targets, series, scrapes, start })
}

/// Where `make bench-restart` leaves the server.
fn unladen() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/unladen")
}

fn prometheus(workload: &Workload, data: &Path) -> Result<Measured, Failure> {
    println!("filling a store of Prometheus with {} samples", workload.samples());
    let remains = victim::run(&peer_binary("peer-tsdb"), &[], workload, data)?;
    let program = peer_binary("prometheus");
    let contestant = Contestant { name: "prometheus", program, words: &[], rounds: PEER_ROUNDS };
    contestant.run(workload, data, &remains)
}

/// The store alone, a few times, on what was left.
fn open(
    program: &Path,
    workload: &Workload,
    data: &Path,
    remains: &Remains,
) -> Result<Measured, Failure> {
    let mut measured = Measured::default();
    let data = format!("data={}", data.display());
    let settings = workload.settings();
    for round in 0..ROUNDS {
        let mut words = vec!["--engine", "open", "--set", &data];
        words.extend(settings.iter().map(String::as_str));
        if round == 0 {
            words.extend(["--set", "check=all"]);
        }
        let mut lines = run_peer(program, &words);
        let mut line = lines.pop().ok_or("the store was not opened, or holds something else")?;
        line.set("ran", remains.resident);
        if let Some(found) = line.number("found") {
            line.set("lost", remains.committed.saturating_sub(found as u64));
        }
        println!("{line}");
        measured.take(&line);
        if line.number("series") != Some(workload.all_series() as f64) {
            return Err("the store opened with another number of series".into());
        }
    }
    Ok(measured)
}

struct Contestant {
    name: &'static str,
    program: PathBuf,
    words: &'static [&'static str],
    rounds: usize,
}

impl Contestant {
    /// Starts again and again on what was left.
    fn run(
        &self,
        workload: &Workload,
        data: &Path,
        remains: &Remains,
    ) -> Result<Measured, Failure> {
        let mut measured = Measured::default();
        let whole = workload.time(0, workload.scrapes) - 1;
        // However far it came, in the tiny size more than a scrape, and within what an instant looks back.
        let all = workload.time(0, workload.scrapes + 20);
        for round in 0..self.rounds {
            let server = Server::start(&self.program, self.words, data)?;
            let mut line = Line::new(self.name)
                .with("seconds", server.seconds)
                .with("cpu_seconds", server.cpu_seconds)
                .with("peak", server.peak)
                .with("resident", server.resident()?);
            if round == 0 {
                let found = server.samples(workload, all)?;
                line.set("lost", remains.committed.saturating_sub(found));
                if server.samples(workload, whole)? != workload.samples() {
                    return Err(format!("{}: whole scrapes are not whole", self.name).into());
                }
                for metric in [0, METRICS / 2] {
                    let (found, sum) = (server.sum(metric, whole)?, workload.sum(metric));
                    if (found - sum).abs() > sum * 1e-9 {
                        return Err(format!("{}: {found} is not {sum}", self.name).into());
                    }
                }
            }
            println!("{line}");
            measured.take(&line);
            if round + 1 < self.rounds { server.kill()? } else { server.stop()? }
        }
        let server = Server::start(&self.program, self.words, data)?;
        let line = Line::new(self.name).with("after_a_stop", server.seconds);
        println!("{line}");
        measured.take(&line);
        server.stop()?;
        let line = Line::new(self.name).with("ran", self.running(workload, data)?);
        println!("{line}");
        measured.take(&line);
        Ok(measured)
    }

    /// What a server holds that goes on with the same series, in bytes.
    fn running(&self, workload: &Workload, data: &Path) -> Result<f64, Failure> {
        let targets = Targets::serve(workload)?;
        let is_tiny = workload.scrapes < SMALL;
        let (scrapes, seconds) =
            if is_tiny { (2, 1) } else { (SCRAPES, INTERVAL_MS as u64 / 1000) };
        let config = targets.config(seconds);
        let server = Server::configured(&self.program, self.words, data, &config)?;
        // One that a machine is too slow for falls behind, and is waited for.
        targets.wait(scrapes, Duration::from_secs(30 + 4 * seconds * scrapes as u64))?;
        let ran = server.resident()?;
        let (found, all) = (server.head_series()?, workload.all_series() as f64);
        let most = all + (OWN_SERIES * workload.targets) as f64;
        if !(all..=most).contains(&found) {
            return Err(format!("{}: {found} series in the head, of {all}", self.name).into());
        }
        server.stop()?;
        Ok(ran)
    }
}
