//! `unladen loadtest`: a fleet and servers, both on this machine, and a report of what the load took.
//!
//! ```text
//! options    the command line
//! contender  which servers there are: how each is told, started and asked
//! child      a process with its log; killed when the test ends, however it ends
//! process    what the kernel says of a process
//! ask        HTTP
//! served     what a fleet says that it served
//! blocks     what is in the blocks of a data directory
//! lane       one server and its fleet: from the start to the figures
//! outcome    the figures
//! rows, terminal, chart, page   the report for people
//! calibrate  loads whose costs become the coefficients of `unladen plan`
//! ```
//! Steps of a load: 1. each server gets a fleet of its own; both are started and wait for each other. 2. The
//! warm-up passes. 3. Each second of the measured time, `/proc` is read; servers are asked over HTTP only at its
//! begin and end. 4. The fleet tells what it served, the server whether targets are up. 5. With `--restart`,
//! `kill -9` and a start.
//!
//! Nothing of it is on a path that has to be steady. What the test itself takes (reading `/proc`) is not in the
//! figures, which are of the server's process alone.

mod ask;
mod blocks;
mod calibrate;
mod chart;
mod child;
mod contender;
mod lane;
mod options;
mod outcome;
mod page;
mod process;
mod rows;
mod served;
mod terminal;

pub use options::{Load, Phases, Ramp, Request, Wanted, parse};
pub(crate) use rows::{Form, written};
pub(crate) use terminal::aligned;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use contender::Contender;
use lane::Lane;
use outcome::{Held, Machine, Outcome, Reached, Report};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::app::now_ms;

/// Missed scrapes beyond this share of all: a server has fallen behind.
const BEHIND: f64 = 0.001;

/// How long samples that are on their way may take until a query is to see them.
const ON_THE_WAY: Duration = Duration::from_secs(2);

/// Where the test says how far it is.
struct Progress {
    quiet: bool,
}

impl Progress {
    #[expect(clippy::print_stderr, reason = "a command that takes minutes says what it does")]
    fn say(&self, text: &str) {
        if !self.quiet {
            eprintln!("{text}");
        }
    }
}

/// Does what was asked for, and writes the report to `out` and to the files that were asked for.
///
/// # Errors
/// What went wrong, with what and what to do about it. A signal to end is an error, too.
pub fn run(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    if !Path::new("/proc/self/stat").exists() {
        return Err("there is no /proc, from which all figures come: Linux only".to_owned());
    }
    let place = Place::new(request.directory.as_deref())?;
    let progress = Progress { quiet: request.quiet };
    if let Some(file) = &request.calibrate {
        let found = runtime.block_on(async {
            tokio::select! {
                found = calibrate::calibrate(request, &place.path, &progress) => found,
                reason = interrupted() => Err(reason),
            }
        })?;
        return coefficients(&found, file, out, &progress);
    }
    if process::in_memory(&place.path) {
        progress.say(&format!(
            "{} is in memory: the report won't have bytes written. Give a --directory on a disk for them",
            place.path.display()
        ));
    }
    let report = runtime.block_on(async {
        tokio::select! {
            report = test(request, &place.path, &progress) => report,
            reason = interrupted() => Err(reason),
        }
    })?;
    // Written in any case, one after the other: a file that can't be written spoils no other.
    let mut failed = Vec::new();
    let wants_json_here = request.json.as_deref() == Some(Path::new("-"));
    let json = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())? + "\n";
    let shown = if wants_json_here { json.clone() } else { terminal::tables(&report) };
    if let Err(error) = out.write_all(shown.as_bytes()).and_then(|()| out.flush()) {
        failed.push(format!("writing the report: {error}"));
    }
    let page = request.html.as_deref().map(|path| (path, page::page(&report)));
    let json = request.json.as_deref().filter(|_| !wants_json_here).map(|path| (path, json));
    for (path, text) in json.into_iter().chain(page) {
        match std::fs::write(path, text) {
            Ok(()) => progress.say(&format!("Written: {}", path.display())),
            Err(error) => failed.push(format!("{}: {error}", path.display())),
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// Writes what the calibration found: to the file, or to `out` where none was named.
fn coefficients(
    found: &crate::plan::Coefficients,
    file: &Path,
    out: &mut dyn Write,
    progress: &Progress,
) -> Result<(), String> {
    progress.say(calibrate::summary(found).trim_end());
    if file.as_os_str().is_empty() {
        let written = out.write_all(found.text().as_bytes()).and_then(|()| out.flush());
        return written.map_err(|error| format!("writing the coefficients: {error}"));
    }
    std::fs::write(file, found.text()).map_err(|error| format!("{}: {error}", file.display()))?;
    progress
        .say(&format!("Written: {0}; unladen plan --coefficients={0} takes them", file.display()));
    Ok(())
}

/// Waits for Ctrl-C, a terminal that is closed, or a request to end. Children are ended when the test is
/// dropped; after `kill -9` of the test they go on.
async fn interrupted() -> String {
    let ends = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::quit(),
        SignalKind::hangup(),
    ];
    // Under nohup a test goes on when its terminal is closed, and one that a script put into the background
    // goes on when the script is interrupted.
    let ends = ends.into_iter().filter(|end| !is_ignored(*end));
    let Ok(mut ends) = ends.map(signal).collect::<Result<Vec<_>, _>>() else {
        // Without handlers the signals end this process, as they do by default.
        return std::future::pending().await;
    };
    std::future::poll_fn(|context| {
        let came = ends.iter_mut().any(|end| end.poll_recv(context).is_ready());
        if came { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    "interrupted: fleet and servers were ended, and there is no report".to_owned()
}

/// Whether who started this process has it ignore a signal.
fn is_ignored(signal: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // Signals are counted from 1, bits from 0.
    mask >> (signal.as_raw_value() - 1) & 1 == 1
}

/// Where the servers live: deleted at the end unless it was given.
struct Place {
    path: PathBuf,
    temporary: bool,
}

impl Place {
    fn new(given: Option<&Path>) -> Result<Self, String> {
        let (path, temporary) = match given {
            Some(path) => (path.to_path_buf(), false),
            None => {
                let name = format!("unladen-loadtest-{}-{}", std::process::id(), now_ms());
                (std::env::temp_dir().join(name), true)
            }
        };
        std::fs::create_dir_all(&path)
            .map_err(|error| format!("{}: {error}: give another --directory", path.display()))?;
        let path = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Place { path, temporary })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.temporary {
            // Nothing is lost but space, and the system's own cleaning takes what stays.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

async fn test(request: &Request, place: &Path, progress: &Progress) -> Result<Report, String> {
    let contenders = contender::recognise(&request.servers)?;
    for Contender { name, program, version, .. } in &contenders {
        let version = if version.is_empty() { "which doesn't tell its version" } else { version };
        progress.say(&format!("{name}: {}, {version}", program.display()));
    }
    let mut report = Report {
        unladen: env!("CARGO_PKG_VERSION"),
        date: String::new(),
        machine: Machine::here(),
        loads: Vec::new(),
        side_by_side: !request.one_after_another && contenders.len() > 1,
        ramp: Vec::new(),
    };
    let test = Test { request, place, progress };
    match &request.ramp {
        None => report.loads.push(test.load(&contenders, &request.load, "load").await?),
        Some(ramp) => test.ramp(&contenders, ramp, &mut report).await?,
    }
    report.date = crate::time::rfc3339(Some(now_ms()));
    Ok(report)
}

struct Test<'a> {
    request: &'a Request,
    place: &'a Path,
    progress: &'a Progress,
}

impl Test<'_> {
    /// Holds one load: all servers together, or one after the other.
    async fn load(
        &self,
        contenders: &[Contender],
        load: &Load,
        name: &str,
    ) -> Result<Held, String> {
        let place = self.place.join(name);
        let size = if self.request.one_after_another { 1 } else { contenders.len() };
        let mut outcomes = Vec::new();
        for group in contenders.chunks(size.max(1)) {
            outcomes.extend(hold(group, load, self.request, &place, self.progress).await?);
        }
        let Phases { warmup, hold } = self.request.phases;
        Ok(Held {
            targets: load.targets,
            series_per_target: load.series,
            interval_seconds: load.interval.as_secs_f64(),
            fleet_flags: load.fleet.clone(),
            warmup_seconds: warmup.as_secs_f64(),
            seconds: hold.as_secs_f64(),
            servers: outcomes,
        })
    }

    /// Raises the load until no server holds it any more.
    async fn ramp(
        &self,
        contenders: &[Contender],
        ramp: &Ramp,
        report: &mut Report,
    ) -> Result<(), String> {
        let unit = if ramp.by_series { "series per target" } else { "targets" };
        let reached = |contender: &Contender| Reached {
            server: contender.name.clone(),
            held: None,
            unit,
            to_the_end: false,
        };
        report.ramp = contenders.iter().map(reached).collect();
        let mut left = contenders.to_vec();
        let mut at = ramp.from;
        loop {
            let mut load = self.request.load.clone();
            *(if ramp.by_series { &mut load.series } else { &mut load.targets }) = at;
            let held = self.load(&left, &load, &format!("{at}")).await?;
            let behind: Vec<&str> = held
                .servers
                .iter()
                .filter(|one| is_behind(one))
                .map(|one| one.server.as_str())
                .collect();
            for one in &mut report.ramp {
                let took_part = left.iter().any(|contender| contender.name == one.server);
                if took_part && !behind.contains(&one.server.as_str()) {
                    one.held = Some(at as f64);
                    one.to_the_end = at == ramp.to;
                }
            }
            for name in &behind {
                self.progress.say(&format!("{name} falls behind at {at} {unit}"));
            }
            left.retain(|contender| !behind.contains(&contender.name.as_str()));
            report.loads.push(held);
            if left.is_empty() || at >= ramp.to {
                return Ok(());
            }
            at = (at + ramp.step).min(ramp.to);
        }
    }
}

fn is_behind(outcome: &Outcome) -> bool {
    outcome.scrapes_missed as f64 > BEHIND * outcome.scrapes_expected as f64
        || outcome.targets_down.is_some_and(|down| down > 0)
}

/// Holds a load with servers side by side.
async fn hold(
    contenders: &[Contender],
    load: &Load,
    request: &Request,
    place: &Path,
    progress: &Progress,
) -> Result<Vec<Outcome>, String> {
    let Phases { warmup, hold } = request.phases;
    let (sink, sink_task) = ask::sink().await?;
    let mut lanes = Vec::new();
    for contender in contenders {
        lanes.push(Lane::start(contender, load, place, &sink).await?);
    }
    let names: Vec<&str> = contenders.iter().map(|contender| contender.name.as_str()).collect();
    progress.say(&format!(
        "{}: {} targets with {} series each every {}: {} warm-up, {} measured",
        names.join(" beside "),
        load.targets,
        load.series,
        crate::duration::format(load.interval),
        crate::duration::format(warmup),
        crate::duration::format(hold)
    ));
    let mut clock = Clock::new();
    clock.pass(warmup, &mut lanes, |lane, _| lane.check()).await?;
    for lane in &mut lanes {
        lane.begin().await?;
    }
    clock.pass(hold, &mut lanes, Lane::tick).await?;
    let mut outcomes = Vec::new();
    for lane in &mut lanes {
        outcomes.push(lane.end().await?);
    }
    // What is on its way shall be seen.
    tokio::time::sleep(ON_THE_WAY).await;
    for (lane, outcome) in lanes.iter().zip(&mut outcomes) {
        outcome.targets_down = lane.down().await?;
    }
    if request.restart {
        for (lane, outcome) in lanes.iter_mut().zip(&mut outcomes) {
            progress.say(&format!("{}: kill -9, and a start", outcome.server));
            outcome.restart = Some(lane.restart().await?);
        }
    }
    drop(lanes);
    sink_task.abort();
    Ok(outcomes)
}

/// Passes time second by second.
struct Clock {
    last: Instant,
}

impl Clock {
    fn new() -> Self {
        Clock { last: Instant::now() }
    }

    /// Lets `time` pass, and every second does something with each lane, which is told how many seconds have
    /// passed since the last time.
    async fn pass<L>(
        &mut self,
        time: Duration,
        lanes: &mut [L],
        mut each: impl FnMut(&mut L, f64) -> Result<(), String>,
    ) -> Result<(), String> {
        let begun = Instant::now();
        self.last = begun;
        let mut next = begun;
        while next < begun + time {
            next = (next + Duration::from_secs(1)).min(begun + time);
            tokio::time::sleep_until(next).await;
            let now = Instant::now();
            let elapsed = (now - self.last).as_secs_f64();
            self.last = now;
            for lane in lanes.iter_mut() {
                each(lane, elapsed.max(1e-3))?;
            }
        }
        Ok(())
    }
}
