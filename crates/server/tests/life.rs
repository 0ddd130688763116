//! The life of the running binary: reloads, signals, refusals, and clients that stall or leave.

mod running;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use running::{Running, free_address, wait_for};
use rustix::process::Signal;

const NO_JOBS: &str = "global: {scrape_interval: 1m}\n";

/// A configuration whose job `of_itself` scrapes `address`.
fn watching(address: impl std::fmt::Display) -> String {
    format!(
        "global: {{scrape_interval: 100ms, scrape_timeout: 100ms}}\nscrape_configs:\n\
         - job_name: of_itself\n  static_configs: [{{targets: ['{address}']}}]\n"
    )
}

fn write_config(directory: &Path, config: &str) {
    std::fs::write(directory.join("prometheus.yml"), config).expect("the file is written");
}

/// The body of an answer, whatever its status.
fn body(server: &Running, path: &str) -> String {
    let mut answer = ureq::get(server.url(path)).call().expect("an answer");
    answer.body_mut().read_to_string().expect("a text")
}

fn status_of_post(server: &Running, path: &str) -> u16 {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    agent.post(server.url(path)).send_empty().expect("an answer").status().as_u16()
}

/// Runs the binary to its end: exit code, standard output, standard error.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_unladen"))
        .args(arguments)
        .output()
        .expect("the binary starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn reloads_by_signal_take_up_good_files_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Running::start(directory.path(), NO_JOBS, &[]);
    let targets = || body(&server, "/api/v1/targets?state=active");
    assert!(!targets().contains("of_itself"), "{}", targets());
    write_config(directory.path(), &watching(server.address()));
    server.signal(Signal::HUP);
    wait_for("the new target", 30, || targets().contains("of_itself").then_some(()));
    write_config(directory.path(), "global: {scrape_intervall: 1s}\n");
    server.signal(Signal::HUP);
    wait_for("the failed reload to show", 30, || {
        let metrics = body(&server, "/metrics");
        metrics.contains("\nprometheus_config_last_reload_successful 0\n").then_some(())
    });
    assert!(targets().contains("of_itself"), "{}", targets());
    assert!(server.log().contains("scrape_intervall"), "{}", server.log());
    assert_eq!(status_of_post(&server, "/-/reload"), 403, "--web.enable-lifecycle was not given");
}

#[test]
fn included_files_are_watched_and_failures_tried_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = format!("{NO_JOBS}scrape_config_files: [jobs.yml]\n");
    let jobs = directory.path().join("jobs.yml");
    std::fs::write(&jobs, "scrape_configs: []\n").expect("the file is written");
    let flags = ["--config.auto-reload", "--config.auto-reload-interval=1s"];
    let server = Running::start(directory.path(), &config, &flags);
    let shows = |text: &str| body(&server, "/metrics").contains(text).then_some(());
    std::fs::write(&jobs, "scrape_configs: [{nonsense: 1}]\n").expect("the file is written");
    wait_for("the failed reload", 30, || shows("\nprometheus_config_last_reload_successful 0\n"));
    let (_, job) = watching(server.address())
        .split_once('\n')
        .map(|(a, b)| (a.len(), b.to_owned()))
        .expect("two lines");
    std::fs::write(&jobs, job).expect("the file is written");
    wait_for("the reload", 30, || shows("\nprometheus_config_last_reload_successful 1\n"));
    wait_for("the new target", 30, || {
        body(&server, "/api/v1/targets?state=active").contains("of_itself").then_some(())
    });
}

#[test]
fn sigterm_ends_well_and_loses_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let address = free_address();
    let flag = format!("--web.listen-address={address}");
    // Without the word `serve`, as a service file of Prometheus has it.
    let server = Running::start_as(&[], directory.path(), &watching(address), &[&flag]);
    let up = |server: &Running| server.samples("up{job=\"of_itself\"}[1h]").unwrap_or_default();
    let seen = wait_for("samples", 30, || {
        let shown = up(&server).into_values().next()?;
        (shown.len() >= 3).then_some(shown)
    });
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
    let server = Running::start(directory.path(), NO_JOBS, &[]);
    let kept = up(&server).into_values().next().expect("the series is still there");
    for sample in seen {
        assert!(kept.contains(&sample), "{sample:?} is lost");
    }
}

#[test]
fn configurations_are_checked() {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, config, code, on_output, on_error) in [
        ("good.yml", NO_JOBS, 0, "SUCCESS: ", ""),
        ("bad.yml", "global: {scrape_intervall: 1s}\n", 1, "Checking ", "scrape_intervall"),
        (
            "unsupported.yml",
            "remote_write:\n- url: http://localhost:1/\n",
            0,
            "(unladen serve refuses it)",
            "",
        ),
    ] {
        let file = directory.path().join(name);
        std::fs::write(&file, config).expect("the file is written");
        let (found, output, error) = run(&["check", "config", file.to_str().expect("a path")]);
        assert_eq!(found, Some(code), "{name}: {output}{error}");
        assert!(output.contains(on_output), "{name}: {output}");
        assert!(error.contains(on_error) && error.is_empty() == on_error.is_empty(), "{error}");
    }
    let (code, _, error) = run(&["check", "config", "/nonexistent/prometheus.yml"]);
    assert_eq!(code, Some(1), "{error}");
}

#[test]
fn what_is_not_supported_refuses_to_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("prometheus.yml");
    let config = "global: {scrape_interval: 1m}\n\nremote_write:\n- url: http://localhost:1/\n";
    std::fs::write(&file, config).expect("the file is written");
    let flag = format!("--config.file={}", file.display());
    let (code, _, error) = run(&["serve", &flag]);
    assert_eq!(code, Some(2), "{error}");
    let place = format!("{}:4: ", file.display());
    assert!(error.contains("remote_write") && error.contains(&place), "{error}");
}

#[test]
fn a_form_that_stalls_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Running::start(directory.path(), NO_JOBS, &["--web.read-timeout=1s"]);
    let mut connection = TcpStream::connect(server.address()).expect("a connection");
    connection.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    connection
        .write_all(
            b"POST /api/v1/query HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\
              Content-Type: application/x-www-form-urlencoded\r\n\r\nquery=",
        )
        .expect("the head is sent");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("an answer, then the end of the connection");
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.to_lowercase().contains("\r\nconnection: close\r\n"), "{answer}");
}

#[test]
fn clients_that_leave_in_the_middle_keep_no_thread() {
    let directory = tempfile::tempdir().expect("a directory");
    // Three threads make answers: more clients than that leave.
    let flags = ["--query.max-concurrency=1", "--web.max-connections=2"];
    let server = Running::start(directory.path(), NO_JOBS, &flags);
    let series: Vec<String> =
        (0..40).map(|n| format!("label_replace(vector(time()),\"n\",\"{n}\",\"\",\"\")")).collect();
    let form = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("query", &series.join(" or "))
        .append_pair("start", "0")
        .append_pair("end", "11000")
        .append_pair("step", "1")
        .finish();
    for client in 0..6 {
        let mut connection = TcpStream::connect(server.address()).expect("a connection");
        connection.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        write!(
            connection,
            "POST /api/v1/query_range HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n\r\n{form}",
            form.len()
        )
        .expect("the request is sent");
        let mut begin = [0; 1000];
        connection.read_exact(&mut begin).expect("the begin of the answer");
        assert!(begin.starts_with(b"HTTP/1.1 200 "), "client {client}");
    }
    let answer = server.api("query", &[("query", "1")]).expect("an answer");
    assert_eq!(answer["resultType"], "scalar");
}
