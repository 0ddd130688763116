//! `/debug/pprof/` over real sockets, on the ready-made listener.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use profiler::Profiler;
use profiler::serve::{Pprof, Request};
use unladen::Registry;
use unladen::endpoint::{Endpoint, Listener};
use wire::pprof::Document;

/// One profiler runs in a process at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A profiler that runs until the end of a test, whoever has a clone of it then.
struct Running(Profiler);

impl Running {
    fn start() -> Self {
        Running(Profiler::start().unwrap())
    }

    fn pprof(&self) -> Pprof {
        Pprof::new(self.0.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A thread that is busy in a function of a known name until it is dropped.
struct Busy(std::sync::Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

#[inline(never)]
fn burns_a_processor(stop: &AtomicBool) -> u64 {
    let mut sum = 0u64;
    while !stop.load(Relaxed) {
        for value in 0..1000u64 {
            sum = black_box(sum.wrapping_mul(31).wrapping_add(value));
        }
    }
    sum
}

impl Busy {
    fn start() -> Self {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let its_own = stop.clone();
        let thread = std::thread::Builder::new().name("a busy one".to_owned());
        let thread = thread.spawn(move || {
            black_box(burns_a_processor(&its_own));
        });
        Busy(stop, Some(thread.unwrap()))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        self.1.take().unwrap().join().unwrap();
    }
}

struct Response {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Response {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

fn send(address: SocketAddr, method: &str, target: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let length = body.len();
    write!(stream, "{method} {target} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    stream
}

fn receive(mut stream: TcpStream) -> Response {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let end = all.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8(all[..end].to_vec()).unwrap();
    Response { status: head[9..12].parse().unwrap(), head, body: all[end..].to_vec() }
}

fn ask(address: SocketAddr, method: &str, target: &str) -> Response {
    receive(send(address, method, target, ""))
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut body).unwrap();
    body
}

fn listen(pprof: &Pprof) -> Listener {
    let endpoint = Endpoint::new(Registry::new());
    Listener::builder(endpoint).route("/debug/pprof/", pprof.route()).bind("127.0.0.1:0").unwrap()
}

/// The functions of a profile's stacks, as long as something was measured there.
fn functions(profile: &[u8]) -> Vec<String> {
    let document = Document::read(profile).unwrap();
    let mut names = Vec::new();
    for sample in document.samples() {
        for frame in document.frames(sample.locations) {
            names.extend(frame.function.map(|f| document.text(f.name).into_owned()));
        }
    }
    names
}

#[test]
fn every_page_answers_as_gos_do() {
    let _alone = alone();
    let running = Running::start();
    let listener = listen(&running.pprof());
    let address = listener.local_address();
    let text = "text/plain; charset=utf-8";
    let binary = "application/octet-stream";
    let seconds = "invalid value for \"seconds\" - must be a positive number of at most 3600\n";
    for (method, target, status, content_type, contains) in [
        ("GET", "", 200, "text/html; charset=utf-8", "<h1>Profiles of serve-"),
        ("GET", "cmdline", 200, text, "serve-"),
        ("HEAD", "profile", 200, binary, ""),
        ("HEAD", "wall?seconds=3600", 200, binary, ""),
        ("GET", "wall?seconds=0.1&debug=1", 200, text, "wall profile: total "),
        ("GET", "threads?debug=1", 200, text, "threads profile: total "),
        ("GET", "threads?debug=2", 200, text, "\"every_page_answ"),
        ("GET", "profile?seconds=0", 400, text, seconds),
        ("GET", "profile?seconds=4000", 400, text, seconds),
        ("GET", "threads?seconds=1", 400, text, "not supported for this profile type"),
        ("GET", "wall?debug=7", 400, text, "must be 0, 1 or 2"),
        ("GET", "heap", 404, text, "the profile heap is off"),
        ("GET", "goroutine", 404, text, "Unknown profile\n"),
        ("DELETE", "wall", 405, text, "only GET, HEAD"),
        ("POST", "wall", 405, text, "only GET, HEAD"),
    ] {
        let response = ask(address, method, &format!("/debug/pprof/{target}"));
        assert_eq!(response.status, status, "{method} {target}: {}", response.text());
        assert_eq!(response.header("Content-Type"), Some(content_type), "{method} {target}");
        assert_eq!(response.header("X-Content-Type-Options"), Some("nosniff"));
        assert_eq!(response.header("X-Go-Pprof").is_some(), status >= 400, "{method} {target}");
        let body = response.text();
        assert!(body.contains(contains), "{method} {target}: {body}");
        assert_eq!(body.is_empty(), method == "HEAD");
    }
    let response = ask(address, "GET", "/debug/pprof");
    assert_eq!((response.status, response.header("Location")), (301, Some("pprof/")));
    let response = ask(address, "GET", "/debug/pprof/wall?seconds=0.1");
    let name = "attachment; filename=\"wall\"";
    assert_eq!(response.header("Content-Disposition"), Some(name));
    assert!(Document::read(&unpacked(&response.body)).unwrap().samples().len() > 0);
}

#[test]
fn requests_share_one_sampler_and_see_the_same() {
    let _alone = alone();
    let _busy = Busy::start();
    let running = Running::start();
    let listener = listen(&running.pprof());
    let address = listener.local_address();
    let begun = Instant::now();
    let pages = ["profile?seconds=1", "wall?seconds=1", "profile?seconds=1&symbolize=false"];
    let streams: Vec<_> = pages
        .iter()
        .map(|page| send(address, "GET", &format!("/debug/pprof/{page}"), ""))
        .collect();
    for (page, stream) in pages.iter().zip(streams) {
        let response = receive(stream);
        assert_eq!(response.status, 200, "{page}");
        assert!(begun.elapsed() >= Duration::from_secs(1), "{page}");
        let profile = unpacked(&response.body);
        let document = Document::read(&profile).unwrap();
        let default = document.sample_types()[document.default_column()];
        let expected = if page.starts_with("wall") { "wall" } else { "cpu" };
        assert_eq!(document.text(default.kind), expected, "{page}");
        let total: i64 = document.samples().filter_map(|mut sample| sample.values.nth(2)).sum();
        // On a machine that others use as well; all of it belongs to the busy thread.
        assert!(total > 50_000_000, "{page}: {total}");
        let is_there = functions(&profile).iter().any(|name| name.contains("burns_a_processor"));
        assert_eq!(is_there, !page.contains("symbolize=false"), "{page}");
        if page.contains("symbolize=false") {
            names_of_addresses(address, &document);
        }
    }
}

/// What a tool does with a profile without names: it posts the addresses.
fn names_of_addresses(address: SocketAddr, document: &Document<'_>) {
    let words: Vec<_> =
        document.locations().iter().map(|found| format!("{:#x}", found.address)).collect();
    let response = receive(send(address, "POST", "/debug/pprof/symbol", &words.join("+")));
    let names = response.text();
    assert!(names.starts_with("num_symbols: 1\n"), "{names}");
    assert!(names.lines().any(|line| line.contains("burns_a_processor")), "{names}");
}

#[test]
fn collections_are_bounded_and_end_with_their_clients() {
    let _alone = alone();
    let pprof = Pprof::on_demand(Profiler::builder()).collections(2);
    let listener = listen(&pprof);
    let address = listener.local_address();
    let index = || ask(address, "GET", "/debug/pprof/").text();
    assert!(index().contains("when a profile is asked for"));
    let long: Vec<_> =
        (0..2).map(|_| send(address, "GET", "/debug/pprof/wall?seconds=3600", "")).collect();
    let wait_for = |text: &str| {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !index().contains(text) {
            assert!(Instant::now() < deadline, "waited in vain for {text}: {}", index());
        }
    };
    wait_for("2 of at most 2");
    assert!(index().contains("on, of "));
    let refused = ask(address, "GET", "/debug/pprof/profile?seconds=1");
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("Retry-After"), Some("10"));
    // What takes no time is not shut out.
    assert_eq!(ask(address, "GET", "/debug/pprof/threads?debug=1").status, 200);
    assert_eq!(ask(address, "GET", "/debug/pprof/symbol?0x10").status, 200);
    drop(long);
    wait_for("0 of at most 2");
    // The last one has stopped the profiler: another may start.
    wait_for("when a profile is asked for");
    drop(Profiler::start().unwrap());
    assert_eq!(ask(address, "GET", "/debug/pprof/profile?seconds=0.1").status, 200);
}

/// Names are looked for behind the first chunk: it has to come before all is known.
#[test]
fn a_client_that_goes_away_ends_the_writing() {
    let _alone = alone();
    let running = Running::start();
    for level in [0, 1] {
        let pprof = running.pprof().gzip_level(level);
        let request = Request { path: "wall", query: Some("seconds=0.05"), ..Request::default() };
        let answer = pprof.answer(&request);
        let first = answer.try_fold(0, |_, chunk| Err::<usize, _>(chunk.len())).unwrap_err();
        // The next one is answered as ever.
        let whole = pprof.answer(&request).fold(0, |length, chunk| length + chunk.len());
        assert!(0 < first && first < whole, "level {level}: {first} of {whole}");
    }
}

#[test]
fn an_answer_can_be_had_without_any_server() {
    let _alone = alone();
    let pprof = Pprof::new(Profiler::builder().budget(0.0).start().unwrap());
    let request = Request { path: "wall", ..Request::default() };
    let answer = pprof.answer(&request);
    assert_eq!(answer.status(), 404, "with a budget of 0 there are no samples");
    let running = Running::start();
    let pprof = running.pprof().gzip_level(0);
    let answer = pprof.answer(&Request { query: Some("seconds=0.05"), ..request });
    let left = answer.ready_at().unwrap().saturating_duration_since(Instant::now());
    assert!(left <= Duration::from_millis(50));
    // Whoever does not wait gets less.
    let body = answer.fold(Vec::new(), |mut body, chunk| {
        body.extend_from_slice(chunk);
        body
    });
    Document::read(&body).unwrap();
    let answer = pprof.answer(&Request { query: Some("seconds=1"), ..request });
    let refused = answer.try_fold((), |(), _| Err("no room"));
    assert_eq!(refused, Err("no room"));
}

#[test]
fn gos_tool_reads_every_page() {
    let _alone = alone();
    if Command::new("go").arg("version").output().is_err() {
        #[expect(clippy::print_stderr, reason = "a test that checks nothing says so")]
        {
            eprintln!("skipped: there is no go");
        }
        return;
    }
    let _busy = Busy::start();
    let running = Running::start();
    let listener = listen(&running.pprof());
    let address = listener.local_address();
    let cache = tempfile::tempdir().unwrap();
    for (page, contains) in [
        ("profile?seconds=1", "burns_a_processor"),
        ("wall?seconds=1", "burns_a_processor"),
        ("profile?seconds=1&symbolize=false", "burns_a_processor"),
        ("threads", "burns_a_processor"),
        ("threads?debug=1", "flat%"),
    ] {
        let url = format!("http://{address}/debug/pprof/{page}");
        // Where it finds no names, it may ask the program and not the file.
        let output = Command::new("go")
            .args(["tool", "pprof", "-symbolize=remote", "-top", "-nodecount=200", &url])
            .env("PPROF_TMPDIR", cache.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{page}: {errors}");
        assert!(text.contains(contains), "{page}: {text}{errors}");
    }
}
