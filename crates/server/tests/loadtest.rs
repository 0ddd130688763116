//! `unladen loadtest` from end to end, for a few seconds: the real binary, its fleet, its server.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

mod running;

fn unladen(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unladen")).args(arguments).output().expect("the binary starts")
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn a_small_load_is_held_and_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).display().to_string();
    let output = unladen(&[
        "loadtest",
        "--targets=5",
        "--series=20",
        "--interval=2s",
        "--warmup=5s",
        "--duration=8s",
        "--restart",
        &format!("--directory={}", file("data")),
        &format!("--json={}", file("report.json")),
        &format!("--html={}", file("report.html")),
    ]);
    assert!(output.status.success(), "{}", said(&output));
    let terminal = String::from_utf8_lossy(&output.stdout);
    assert!(terminal.contains("5 targets × 20 series every 2 s"), "{terminal}");
    assert!(terminal.contains("restart: samples lost"), "{terminal}");

    let report = std::fs::read_to_string(file("report.json")).expect("the report is there");
    let report: Value = serde_json::from_str(&report).expect("it is JSON");
    let load = &report["loads"][0];
    assert_eq!((load["targets"].as_u64(), load["series_per_target"].as_u64()), (Some(5), Some(20)));
    let server = &load["servers"][0];
    let number = |path: &str| {
        let found = path.split('/').fold(server, |at, name| &at[name]);
        found.as_f64().unwrap_or_else(|| panic!("{path} is {found} in {server:#}"))
    };
    // Five targets and four rounds: a scrape at either end may fall out of them, and where many tests run at
    // once one of each target may come late.
    let samples = number("samples");
    assert!((200.0..=500.0).contains(&samples), "{samples}");
    assert!(number("scrapes_missed") <= 5.0, "{server:#}");
    assert_eq!(samples, number("scrapes") * 20.0);
    // `up` and four more come with each scrape.
    assert!(number("samples_ingested") >= samples, "{server:#}");
    assert_eq!(number("series"), 125.0);
    assert_eq!(number("targets_down"), 0.0);
    for above in [
        "samples_per_second",
        "body_bytes",
        "cpu/seconds",
        "cpu/cores",
        "cpu/seconds_per_million_samples",
        "memory/rss_bytes",
        "memory/rss_mean_bytes",
        "memory/rss_peak_bytes",
        "memory/pss_bytes",
        "memory/heap_bytes",
        "memory/rss_bytes_per_series",
        "allocated/bytes_per_sample",
        "disk/bytes",
        "threads",
        "descriptors",
        "fleet/cpu_seconds",
        "restart/seconds",
        "restart/samples_before",
        "restart/rss_peak_bytes",
    ] {
        assert!(number(above) > 0.0, "{above} in {server:#}");
    }
    assert_eq!(number("restart/samples_lost"), 0.0);
    assert_eq!(server["course"].as_array().map(Vec::len), Some(8));
    let page = std::fs::read_to_string(file("report.html")).expect("the page is there");
    assert!(page.starts_with("<!doctype html>") && page.matches("<svg").count() == 4);

    // What is there is not mixed with what comes.
    let again = unladen(&["loadtest", "--quiet", &format!("--directory={}", file("data"))]);
    assert!(!again.status.success());
    assert!(said(&again).contains("has data of an earlier test"), "{}", said(&again));
}

#[test]
fn a_server_that_does_not_start_is_shown_with_its_log() {
    let output = unladen(&[
        "loadtest",
        "--targets=1",
        "--series=1",
        "--interval=1s",
        "--duration=2s",
        "--server=unladen --query.timeout=soon",
    ]);
    assert!(!output.status.success());
    let said = said(&output);
    assert!(said.contains("unladen ended by itself (exit status: 2)"), "{said}");
    assert!(said.contains("--query.timeout"), "{said}");
}

#[test]
fn an_interrupted_test_leaves_nothing_behind() {
    use rustix::process::Signal;
    // Ctrl-C, a terminal that is closed, and what asks it to end.
    for signal in [Signal::INT, Signal::HUP, Signal::QUIT, Signal::TERM] {
        // What whoever started these tests has them ignore, as nohup does, a load test ignores, too.
        if !is_ignored(signal) {
            ended_by(signal);
        }
    }
}

fn is_ignored(signal: rustix::process::Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("there is /proc");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask");
    let mask = u64::from_str_radix(mask.trim(), 16).expect("a number");
    // Signals are counted from 1, bits from 0.
    mask >> (signal.as_raw() - 1) & 1 == 1
}

fn ended_by(signal: rustix::process::Signal) {
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().display().to_string();
    let mut child = Command::new(env!("CARGO_BIN_EXE_unladen"))
        .args(["loadtest", "--targets=1", "--series=1", "--interval=1s", "--duration=1m"])
        .arg(format!("--directory={place}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    // Whose command line has the directory in it: the test itself, and its server once it runs.
    let users = || {
        let processes = std::fs::read_dir("/proc").expect("there is /proc").flatten();
        processes
            .filter(|process| {
                let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).contains(&place)
            })
            .count()
    };
    running::wait_for("the server", 60, || (users() >= 2).then_some(()));
    let id = rustix::process::Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    rustix::process::kill_process(id.expect("a process id"), signal).expect("it is ours");
    let begun = Instant::now();
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(1), "{signal:?}: an interrupted test has no report");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(users(), 0, "{signal:?}: what was started is ended");
}
