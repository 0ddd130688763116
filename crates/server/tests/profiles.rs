//! The server's own profiles, as tools ask for them.

mod running;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use running::{Running, wait_for};
use wire::pprof::Document;

const CONFIG: &str = "global: {scrape_interval: 100ms, scrape_timeout: 100ms}\n";

fn start(flags: &[&str]) -> (Running, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Running::start(directory.path(), CONFIG, flags);
    let config = format!(
        "{CONFIG}scrape_configs:\n- job_name: of_itself\n  static_configs: [{{targets: ['{}']}}]\n",
        server.address()
    );
    std::fs::write(directory.path().join("prometheus.yml"), config).expect("the file is written");
    server.signal(rustix::process::Signal::HUP);
    (server, directory)
}

struct Response {
    status: u16,
    head: String,
    body: Vec<u8>,
}

fn send(server: &Running, method: &str, target: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
    let length = body.len();
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .expect("it is sent");
    stream
}

/// A body may come in chunks; their lengths are left in what is searched for text.
fn receive(mut stream: TcpStream) -> Response {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("an answer");
    let end = all.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8(all[..end].to_vec()).expect("text").to_ascii_lowercase();
    Response { status: head[9..12].parse().expect("a status"), head, body: all[end..].to_vec() }
}

fn ask(server: &Running, method: &str, target: &str) -> Response {
    receive(send(server, method, target, ""))
}

fn profile(server: &Running, path: &str) -> Vec<u8> {
    let mut answer = ureq::get(server.url(path)).call().expect("an answer");
    let packed = answer.body_mut().with_config().limit(1 << 28).read_to_vec().expect("a body");
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut plain).expect("it is packed");
    plain
}

#[test]
fn pages_answer_as_gos_do() {
    let (server, _directory) = start(&[]);
    for (method, target, status, contains) in [
        ("GET", "/debug/pprof/", 200, "<h1>Profiles of unladen</h1>"),
        ("GET", "/debug/pprof", 301, ""),
        ("HEAD", "/debug/pprof/profile", 200, ""),
        ("GET", "/debug/pprof/cmdline", 200, "serve\0"),
        ("GET", "/debug/pprof/wall?seconds=0.2&debug=1", 200, "wall profile: total "),
        ("GET", "/debug/pprof/threads?debug=2", 200, "\"scrape\" ["),
        ("GET", "/debug/pprof/heap?debug=1", 200, "heap profile: "),
        ("GET", "/debug/pprof/profile?seconds=never", 400, "must be a positive number"),
        ("GET", "/debug/pprof/goroutine", 404, "Unknown profile"),
        ("PUT", "/debug/pprof/heap", 405, "only GET, HEAD"),
        ("POST", "/debug/pprof/symbol", 200, "num_symbols: "),
    ] {
        let response = ask(&server, method, target);
        assert_eq!(response.status, status, "{method} {target}");
        let body = String::from_utf8_lossy(&response.body);
        assert!(body.contains(contains), "{method} {target}: {body}");
        assert!(response.head.contains("x-content-type-options: nosniff"), "{target}");
        let is_refused = status >= 400;
        assert_eq!(response.head.contains("x-go-pprof: 1"), is_refused, "{}", response.head);
    }
}

#[test]
fn profiles_are_collected_side_by_side_and_end_with_their_clients() {
    let (server, _directory) = start(&[]);
    let begun = Instant::now();
    let long: Vec<_> =
        (0..3).map(|_| send(&server, "GET", "/debug/pprof/wall?seconds=3000", "")).collect();
    std::thread::scope(|scope| {
        let profiles = ["/debug/pprof/profile?seconds=1", "/debug/pprof/wall?seconds=1"]
            .map(|path| scope.spawn(|| profile(&server, path)));
        for profile in profiles {
            let profile = profile.join().expect("a profile");
            let document = Document::read(&profile).expect("it can be read");
            assert!(document.facts().duration_nanos >= 1_000_000_000);
        }
    });
    assert!(begun.elapsed() < Duration::from_secs(30));
    let index = || String::from_utf8(ask(&server, "GET", "/debug/pprof/").body).expect("text");
    assert!(index().contains("3 of at most 16"), "{}", index());
    drop(long);
    wait_for("the end of the collections", 30, || {
        index().contains("0 of at most 16").then_some(())
    });
    // Nor does the end of the server wait for one.
    let waiting = send(&server, "GET", "/debug/pprof/wall?seconds=3000", "");
    wait_for("the collection", 30, || index().contains("1 of at most 16").then_some(()));
    let begun = Instant::now();
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(receive(waiting).status, 200, "what was collected is sent");
    assert_eq!(server.exit_code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn stages_of_scrapes_are_measured_and_heap_stacks_are_named() {
    let (server, _directory) = start(&["--profile.heap-sample-bytes=4096"]);
    let metrics = || String::from_utf8(ask(&server, "GET", "/metrics").body).expect("text");
    for stage in ["fetch", "parse", "append", "answer"] {
        let line = format!("heap_allocated_bytes_total{{stage=\"{stage}\"}} ");
        wait_for(&line, 30, || {
            let metrics = metrics();
            let bytes = metrics.lines().find_map(|found| found.strip_prefix(&line))?;
            (bytes.parse::<f64>().expect("a number") > 0.0).then_some(())
        });
    }
    let metrics = metrics();
    for line in
        ["profiler_budget_ratio 0.02", "profiler_ticks_total ", "profiler_cost_seconds_total{"]
    {
        assert!(metrics.lines().any(|found| found.starts_with(line)), "{line}: {metrics}");
    }
    for page in ["heap", "allocs", "allocs?seconds=0.5"] {
        let profile = profile(&server, &format!("/debug/pprof/{page}"));
        let document = Document::read(&profile).expect("it can be read");
        let column = document.sample_types()[document.default_column()];
        let expected = if page == "heap" { "inuse_space" } else { "alloc_space" };
        assert_eq!(document.text(column.kind), expected, "{page}");
        let is_ours = |name: &str| name.contains("server::");
        let names = document.functions().iter().map(|function| document.text(function.name));
        assert!(names.into_iter().any(|name| is_ours(&name)), "{page}");
    }
}

#[test]
fn what_is_turned_off_says_so() {
    let (server, _directory) = start(&["--profile.budget=0", "--profile.heap-sample-bytes=0"]);
    for (page, contains) in [
        ("profile", "the profile profile is off: "),
        ("heap", "the profile heap is off: the program does not sample its heap"),
    ] {
        let response = ask(&server, "GET", &format!("/debug/pprof/{page}"));
        assert_eq!(response.status, 404);
        let body = String::from_utf8_lossy(&response.body);
        assert!(body.contains(contains), "{body}");
    }
    assert!(!server.log().contains("WARN"), "{}", server.log());
}

#[test]
fn gos_tool_opens_what_the_server_serves() {
    if Command::new("go").arg("version").output().is_err() {
        #[expect(clippy::print_stderr, reason = "a test that checks nothing says so")]
        {
            eprintln!("skipped: there is no go");
        }
        return;
    }
    let (server, directory) = start(&["--profile.heap-sample-bytes=4096"]);
    for page in ["profile?seconds=1", "wall?seconds=1", "heap", "allocs", "threads"] {
        let url = server.url(&format!("/debug/pprof/{page}"));
        let output = Command::new("go")
            .args(["tool", "pprof", "-symbolize=none", "-top", &url])
            .env("PPROF_TMPDIR", directory.path())
            .output()
            .expect("go starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{page}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("flat%"), "{page}: {text}");
    }
}
