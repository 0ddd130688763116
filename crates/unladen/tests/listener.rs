//! The listener over real sockets: what it answers, and who waits for whom.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use unladen::endpoint::{Answer, Endpoint, Listener, Render, RouteRequest};
use unladen::{Collector, FamilyWriter, Registry, StoredLabels};

/// Rows of a body that no socket's buffers hold.
const MANY: usize = 400_000;

struct Rows {
    labels: Vec<StoredLabels>,
    /// Told when a collection has ended, in whatever way.
    done: Option<mpsc::SyncSender<usize>>,
}

impl Rows {
    fn new(count: usize) -> Self {
        let labels = |index: usize| StoredLabels::new([("row", format!("{index:08}").as_str())]);
        Rows { labels: (0..count).map(labels).collect(), done: None }
    }
}

impl Collector for Rows {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        let mut samples = out.gauge("rows", "Rows of a table.");
        let mut written = 0;
        for labels in &self.labels {
            if !samples.is_open() {
                break;
            }
            samples.stored(labels, 1u64);
            written += 1;
        }
        if let Some(done) = &self.done {
            let _ = done.send(written);
        }
    }
}

fn registry() -> Registry {
    let registry = Registry::new();
    let requests = registry.counter(("requests_total", "Requests."), ["code"]).unwrap();
    requests.with(["200"]).add(17);
    registry.gauge(("http.open", "Open."), []).unwrap().with([]).set(3.0);
    registry
}

fn large() -> Registry {
    let registry = registry();
    registry.collect(Rows::new(MANY));
    registry
}

struct Client {
    stream: TcpStream,
    read: Vec<u8>,
}

#[derive(Debug)]
struct Response {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Response {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Client {
    fn new(listener: &Listener) -> Self {
        let stream = TcpStream::connect(listener.local_address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Client { stream, read: Vec::new() }
    }

    fn send(&mut self, request: &str) {
        self.stream.write_all(request.as_bytes()).unwrap();
    }

    fn more(&mut self) -> io::Result<usize> {
        let begin = self.read.len();
        self.read.resize(begin + 65_536, 0);
        let count = self.stream.read(&mut self.read[begin..]);
        self.read.truncate(begin + *count.as_ref().unwrap_or(&0));
        count
    }

    /// Bytes up to and with `end`, taken away.
    fn until(&mut self, end: &[u8]) -> io::Result<Vec<u8>> {
        let mut from = 0;
        loop {
            let found = self.read[from..].windows(end.len()).position(|window| window == end);
            if let Some(at) = found {
                return Ok(self.read.drain(..from + at + end.len()).collect());
            }
            from = self.read.len().saturating_sub(end.len() - 1);
            if self.more()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.read.len() < length {
            if self.more()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.read.drain(..length).collect())
    }

    fn response(&mut self, is_head: bool) -> io::Result<Response> {
        let head = String::from_utf8(self.until(b"\r\n\r\n")?).unwrap();
        let status = head["HTTP/1.1 ".len()..][..3].parse().unwrap();
        let mut response = Response { status, head, body: Vec::new() };
        if is_head {
            return Ok(response);
        }
        if let Some(length) = response.header("Content-Length") {
            response.body = self.exactly(length.parse().unwrap())?;
        } else if response.header("Transfer-Encoding") == Some("chunked") {
            loop {
                let line = String::from_utf8(self.until(b"\r\n")?).unwrap();
                let length = usize::from_str_radix(line.trim(), 16).unwrap();
                assert!(length <= 65_536);
                response.body.extend_from_slice(&self.exactly(length)?);
                assert_eq!(self.exactly(2)?, b"\r\n");
                if length == 0 {
                    return Ok(response);
                }
            }
        } else {
            while self.more()? > 0 {}
            response.body = std::mem::take(&mut self.read);
        }
        Ok(response)
    }

    fn get(&mut self, target: &str, fields: &str) -> Response {
        self.send(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        self.response(false).unwrap()
    }

    fn has_ended(&mut self) -> bool {
        matches!(self.more(), Ok(0) | Err(_))
    }
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut body).unwrap();
    body
}

#[test]
fn one_connection_is_asked_again_and_again() {
    let listener = Listener::bind("127.0.0.1:0", &registry()).unwrap();
    let mut client = Client::new(&listener);
    let prometheus = "Accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;\
        q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2\r\nAccept-Encoding: gzip\r\n";
    let text = "text/plain; charset=utf-8";
    let plain = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
    let open = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=allow-utf-8";
    let dotted = "{\"http.open\"} 3";
    for (method, target, fields, status, content_type, contains) in [
        ("GET", "/metrics", "", 200, plain, "\nhttp_open 3\n"),
        ("GET", "/metrics", prometheus, 200, open, dotted),
        ("GET", "http://a:1/metrics", "Content-Length: 0\r\n", 200, plain, "requests_total"),
        ("HEAD", "/metrics", prometheus, 200, open, ""),
        ("GET", "/metrics?name[]=requests", "", 200, plain, "requests_total{code=\"200\"} 17\n"),
        ("GET", "/metrics?match[]=a{", "", 400, text, "match[]=a{: expected the name of a label"),
        ("GET", "/", "", 200, "text/html; charset=utf-8", "<a href=\"/metrics\">"),
        ("GET", "/favicon.ico", "", 404, text, "metrics are at /metrics\n"),
        ("HEAD", "/nothing", "", 404, text, ""),
        ("DELETE", "/metrics", "", 405, text, "only GET and HEAD"),
        ("PUT", "/", "", 405, text, "only GET and HEAD"),
        ("GET", "/metrics", "accept-encoding: gzip;q=0, *;q=0.1\r\n", 200, plain, "requests"),
    ] {
        client.send(&format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        let response = client.response(method == "HEAD").unwrap();
        assert_eq!(response.status, status, "{method} {target}");
        assert_eq!(response.header("Content-Type"), Some(content_type), "{method} {target}");
        assert!(response.header("Date").unwrap().ends_with(" GMT"));
        let is_packed = response.header("Content-Encoding") == Some("gzip");
        assert_eq!(is_packed, fields.contains("gzip\r\n"), "{method} {target}");
        assert_eq!(response.header("Allow").is_some(), status == 405);
        let body = match is_packed && method == "GET" {
            true => String::from_utf8(unpacked(&response.body)).unwrap(),
            false => response.text().to_owned(),
        };
        assert!(body.contains(contains), "{method} {target}: {body}");
        assert_eq!(body.is_empty(), method == "HEAD");
    }
    // Two requests at once are two answers.
    let request = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    client.send(&request.repeat(2));
    let first = client.response(false).unwrap();
    assert_eq!(first.body, client.response(false).unwrap().body);
}

#[test]
fn what_cannot_go_on_is_closed() {
    let listener = Listener::bind("127.0.0.1:0", &registry()).unwrap();
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(20_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(100));
    let old = "GET /metrics HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    for (request, status, contains) in [
        ("\x16\x03\x01\x02\x00\x01\x00", 400, "no HTTP/1 request"),
        ("GET /metrics HTTP/2\r\n\r\n", 400, "no HTTP/1 request"),
        (&long, 431, "too long"),
        (&many, 431, "too many header fields"),
        (old, 200, "requests_total{code=\"200\"} 17\n"),
        ("GET /metrics HTTP/1.1\r\nConnection: x, Close\r\n\r\n", 200, "requests_total"),
        // What follows is its body, and no request.
        (
            "POST /metrics HTTP/1.1\r\nContent-Length: 30\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n",
            405,
            "only GET",
        ),
        ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, "href"),
    ] {
        let mut client = Client::new(&listener);
        client.send(request);
        let response = client.response(false).unwrap();
        assert_eq!(response.status, status, "{request}");
        assert!(response.text().contains(contains), "{request}");
        assert_eq!(response.header("Connection"), Some("close"));
        assert!(client.has_ended(), "{request}");
    }
}

#[test]
fn gzip_is_the_same_body() {
    let listener = Listener::bind("127.0.0.1:0", &large()).unwrap();
    let mut client = Client::new(&listener);
    let plain = client.get("/metrics", "");
    let packed = client.get("/metrics", "Accept-Encoding: deflate, gzip;q=0.9\r\n");
    assert_eq!(packed.header("Vary"), Some("Accept, Accept-Encoding"));
    assert!(packed.body.len() * 4 < plain.body.len());
    assert!(unpacked(&packed.body) == plain.body);
}

#[test]
fn a_stalled_reader_holds_up_nobody() {
    let listener = Listener::bind("127.0.0.1:0", &large()).unwrap();
    let mut stalled = Client::new(&listener);
    stalled.send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(stalled.more().unwrap() > 0, "it is being answered");
    let expected = Client::new(&listener).get("/metrics", "").body;
    std::thread::scope(|scope| {
        let scrapes: Vec<_> =
            (0..3).map(|_| scope.spawn(|| Client::new(&listener).get("/metrics", ""))).collect();
        for scrape in scrapes {
            assert!(scrape.join().unwrap().body == expected);
        }
    });
    assert!(stalled.response(false).unwrap().body == expected, "and misses nothing itself");
}

#[test]
fn a_reader_that_goes_away_ends_the_rendering() {
    let registry = Registry::new();
    let (done, ended) = mpsc::sync_channel(1);
    registry.collect(Rows { done: Some(done), ..Rows::new(MANY) });
    let endpoint = Endpoint::new(registry);
    let listener = Listener::builder(endpoint).connections(1).bind("127.0.0.1:0").unwrap();
    let mut client = Client::new(&listener);
    client.send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.more().unwrap() > 0);
    client.stream.shutdown(Shutdown::Both).unwrap();
    drop(client);
    assert!(ended.recv().unwrap() < MANY, "nobody renders for nobody");
    // Its place is free again.
    assert_eq!(Client::new(&listener).get("/", "").status, 200);
}

#[test]
fn a_reader_that_takes_too_long_is_cut_off() {
    let registry = Registry::new();
    let (done, ended) = mpsc::sync_channel(1);
    registry.collect(Rows { done: Some(done), ..Rows::new(MANY) });
    let builder = Listener::builder(Endpoint::new(registry));
    let patience = Duration::from_millis(200);
    let builder = builder.answer_patience(patience).request_patience(patience);
    let listener = builder.bind("127.0.0.1:0").unwrap();
    let mut slow = Client::new(&listener);
    slow.send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(ended.recv().unwrap() < MANY);
    // What it finds then is no whole body: the last chunk is missing.
    slow.response(false).unwrap_err();
    // Nor does anybody wait for ever for a head.
    let mut unfinished = Client::new(&listener);
    unfinished.send("GET /metrics HTTP/1.1\r\n");
    assert!(unfinished.has_ended());
}

#[test]
fn connections_are_bounded_and_idle_ones_make_room() {
    let endpoint = Endpoint::new(registry());
    let listener =
        Listener::builder(endpoint).connections(2).path("/m").bind("127.0.0.1:0").unwrap();
    let mut clients: Vec<_> = (0..2).map(|_| Client::new(&listener)).collect();
    for client in &mut clients {
        assert_eq!(client.get("/m", "").status, 200);
    }
    assert_eq!(Client::new(&listener).get("/m", "").status, 200);
    assert!(clients[0].has_ended(), "the one that has been idle for longest");
}

#[test]
fn stopping_ends_what_is_idle_and_lets_answers_end() {
    let listener = Listener::bind("127.0.0.1:0", &large()).unwrap();
    let address = listener.local_address();
    let mut idle = Client::new(&listener);
    let expected = idle.get("/metrics", "").body;
    let mut busy = Client::new(&listener);
    busy.send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(busy.more().unwrap() > 0);
    std::thread::scope(|scope| {
        let stopped = scope.spawn(move || drop(listener));
        assert!(idle.has_ended());
        assert!(busy.response(false).unwrap().body == expected);
        assert!(busy.has_ended());
        stopped.join().unwrap();
    });
    TcpStream::connect(address).unwrap_err();
}

/// A body that can be had after a time; tells when it is given up before that.
#[derive(Debug)]
struct Later {
    time: Instant,
    given_up: Option<mpsc::Sender<()>>,
}

impl Render for Later {
    fn ready_at(&self) -> Option<Instant> {
        Some(self.time)
    }

    fn render(mut self: Box<Self>, give: &mut dyn FnMut(&[u8]) -> bool) {
        assert!(Instant::now() >= self.time);
        self.given_up = None;
        for part in [&b"la"[..], b"ter", b"\n"] {
            assert!(give(part));
        }
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        if let Some(given_up) = &self.given_up {
            let _ = given_up.send(());
        }
    }
}

/// A listener with a path whose answers take as many milliseconds as the query says.
fn with_routes() -> (Listener, mpsc::Receiver<()>) {
    let (given_up, is_given_up) = mpsc::channel();
    let later = move |asked: &RouteRequest<'_>| {
        let millis = asked.request.query.and_then(|query| query.parse().ok()).unwrap_or(0);
        let time = Instant::now() + Duration::from_millis(millis);
        let body = Box::new(Later { time, given_up: Some(given_up.clone()) });
        Answer::rendered(200, vec![("X-Path", asked.path.to_owned().into())], body)
    };
    let echo = |asked: &RouteRequest<'_>| {
        let text = format!("{} {} ", asked.request.method, asked.path);
        let body = String::from_utf8_lossy(asked.body).into_owned();
        Answer::whole(200, vec![("Content-Type", "text/plain".into())], text + &body)
    };
    let builder = Listener::builder(Endpoint::new(registry()));
    let builder = builder.route("/later/", later).route("/echo", echo);
    (builder.bind("127.0.0.1:0").unwrap(), is_given_up)
}

#[test]
fn further_paths_are_answered_beside_the_metrics() {
    let (listener, _) = with_routes();
    let large = "x".repeat(100_000);
    for (method, target, body, status, expected) in [
        ("GET", "/metrics?name[]=requests", "", 200, "requests_total"),
        ("GET", "/", "", 200, "<a href=\"/later/\">"),
        ("GET", "/echo/a?b", "", 200, "GET /echo/a "),
        ("GET", "/echoes", "", 404, "nothing is here"),
        ("POST", "/echo", "0x1+0x2", 200, "POST /echo 0x1+0x2"),
        ("POST", "/echo", &large, 200, &large),
        ("GET", "/later/x", "", 200, "later\n"),
        ("GET", "/later?20", "", 200, "later\n"),
        ("HEAD", "/later/x?60000", "", 200, ""),
        ("HEAD", "/echo", "", 200, ""),
    ] {
        let mut client = Client::new(&listener);
        let length = body.len();
        let head = format!("{method} {target} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
        client.send(&head);
        client.send(body);
        let response = client.response(method == "HEAD").unwrap();
        assert_eq!(response.status, status, "{method} {target}");
        assert!(response.text().contains(expected), "{method} {target}: {}", response.text());
        let path = target.split('?').next();
        assert_eq!(response.header("X-Path"), path.filter(|path| path.starts_with("/later")));
        assert_eq!(response.header("Connection"), (length > 0).then_some("close"));
    }
    for (field, status) in [
        ("Transfer-Encoding: chunked", 411),
        ("Content-Length: 2000000", 413),
        ("Content-Length: 5\r\nContent-Length: 6", 400),
        ("Content-Length: x", 400),
    ] {
        let mut client = Client::new(&listener);
        client.send(&format!("POST /echo HTTP/1.1\r\n{field}\r\n\r\n"));
        assert_eq!(client.response(false).unwrap().status, status, "{field}");
        assert!(client.has_ended());
    }
}

#[test]
fn an_answer_that_has_to_be_waited_for_goes_with_its_client() {
    let (listener, given_up) = with_routes();
    let forever = "GET /later?600000000 HTTP/1.1\r\n\r\n";
    let mut client = Client::new(&listener);
    client.send(forever);
    drop(client);
    given_up.recv().unwrap();
    // What is sent meanwhile is answered afterwards.
    let mut client = Client::new(&listener);
    client.send("GET /later?50 HTTP/1.1\r\n\r\n");
    client.send("GET /echo HTTP/1.1\r\n\r\n");
    assert_eq!(client.response(false).unwrap().text(), "later\n");
    assert_eq!(client.response(false).unwrap().text(), "GET /echo ");
    // Nor does the end of the listener wait.
    client.send(forever);
    let full = format!("GET /later?600000000 HTTP/1.1\r\n\r\n{}", "x".repeat(8 << 10));
    let mut busy = Client::new(&listener);
    busy.send(&full);
    // Both wait by the time that a third has its answer, or are idle still.
    assert_eq!(Client::new(&listener).get("/echo", "").status, 200);
    let begun = Instant::now();
    drop(listener);
    assert!(begun.elapsed() < Duration::from_secs(4));
    for mut waiting in [client, busy] {
        // The head is there, and the body is no whole one.
        waiting.response(false).unwrap_err();
    }
}

#[test]
fn what_cannot_be_listened_on_is_said() {
    let listener = Listener::bind("127.0.0.1:0", &registry()).unwrap();
    let address = listener.local_address();
    let error = Listener::bind(address, &registry()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("can't listen on {address}: ")), "{error}");
    let builder = Listener::builder(Endpoint::new(registry())).path("/a\"b");
    let error = builder.bind("127.0.0.1:0").unwrap_err().to_string();
    assert_eq!(error, "the path \"/a\\\"b\" is not one of letters, digits and /-_.~");
}
