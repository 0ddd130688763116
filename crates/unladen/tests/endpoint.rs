//! What the endpoint answers: which format, which part, how packed, and at what cost.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use testkit::allocations::{Count, count};
use unladen::endpoint::{Answer, Endpoint, Request};
use unladen::{Collector, FamilyWriter, Registry, Scope, StoredLabels};

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

fn body(answer: Answer) -> Vec<u8> {
    let mut body = Vec::new();
    answer.write_to(&mut body).unwrap();
    body
}

fn text(answer: Answer) -> String {
    String::from_utf8(body(answer)).unwrap()
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut body).unwrap();
    body
}

/// A table of a program: two families, of which one is not touched unless it is wanted.
struct Queues {
    labels: Vec<StoredLabels>,
    asked: Arc<AtomicUsize>,
}

impl Collector for Queues {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        for name in ["queue_messages", "queue_consumers"] {
            let mut samples = out.gauge(name, "From a table.");
            if !samples.is_open() {
                continue;
            }
            for (index, labels) in self.labels.iter().enumerate() {
                if !samples.is_open() {
                    break;
                }
                self.asked.fetch_add(1, Ordering::Relaxed);
                samples.stored(labels, index as u64);
            }
        }
    }
}

fn queues(count: usize) -> (Queues, Arc<AtomicUsize>) {
    let labels = (0..count).map(|index| {
        let (vhost, queue) = (format!("/v{}", index % 3), format!("orders-{index:05}"));
        StoredLabels::new([("vhost", vhost.as_str()), ("queue", &queue)])
    });
    let asked = Arc::new(AtomicUsize::new(0));
    (Queues { labels: labels.collect(), asked: asked.clone() }, asked)
}

fn registry() -> Registry {
    let registry = Registry::new();
    let requests = registry.counter(("requests_total", "Requests."), ["path", "code"]).unwrap();
    for (path, code, value) in [("/", "200", 1), ("/a\"b", "200", 2), ("/", "404", 3)] {
        requests.with([path, code]).add(value);
    }
    let age = registry.histogram(("age_seconds", "Ages."), ["path"], [0.5]).unwrap();
    age.with(["/"]).record(0.25);
    age.with(["/x"]).record(0.75);
    let dotted = registry.gauge(("http.open", "Open."), ["http.route"]).unwrap();
    dotted.with(["/"]).set(7.0);
    dotted.with(["/y"]).set(8.0);
    let scope = registry.scope(Scope::new("disk").with_version("1"));
    scope.gauge(("free_bytes", "Free."), ["device"]).unwrap().with(["sda"]).set(9.0);
    registry.collect(queues(6).0);
    registry
}

/// The samples of a body: lines that are no comments.
fn samples(body: &str) -> Vec<&str> {
    body.lines().filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn what_is_asked_for_is_what_comes() {
    let endpoint = Endpoint::new(registry());
    let all = text(endpoint.answer(&Request::default()));
    let with = |parts: &[&str]| -> Vec<String> {
        let is_wanted = |line: &&str| parts.iter().any(|part| line.contains(part));
        samples(&all).into_iter().filter(is_wanted).map(str::to_owned).collect()
    };
    for (query, parts) in [
        ("", &[" "][..]),
        ("debug=1&match=x", &[" "]),
        ("match[]={}", &[" "]),
        // Names of families, with and without what a kind adds, and of series.
        ("name[]=requests_total", &["requests_total"]),
        ("name[]=requests", &["requests_total"]),
        ("name[]=requests_created", &["requests_total"]),
        ("name[]=age_seconds", &["age_seconds"]),
        ("name[]=age_seconds_bucket", &["age_seconds"]),
        ("name[]=age_seconds_sum&name[]=http.open", &["age_seconds", "http_open"]),
        ("name[]=http_open", &["http_open"]),
        ("name[]=queue_messages&name[]=nothing", &["queue_messages"]),
        ("name[]=nothing", &[]),
        ("name[]=", &[]),
        ("name[]=age", &[]),
        // Selectors.
        ("match[]=requests_total", &["requests_total"]),
        ("match[]=requests_total{code=\"404\"}", &["\"404\""]),
        ("match[]={code=\"200\"}", &["code=\"200\""]),
        ("match[]={code=~\"2..\"}", &["code=\"200\""]),
        ("match[]={code=~\"2\"}", &[]),
        ("match[]={code!=\"\",code!=\"200\"}", &["\"404\""]),
        ("match[]={code!~\"|2.*\"}", &["\"404\""]),
        ("match[]={path=\"/a\\\"b\"}", &["a\\\"b"]),
        ("match[]={path=~\".*\\\".*\"}", &["a\\\"b"]),
        ("match[]={path=\"/x\"}", &["path=\"/x\""]),
        ("match[]={__name__=~\"queue_.*\",vhost=\"/v1\"}", &["vhost=\"/v1\""]),
        ("match[]={__name__!~\"queue_.*|.*_total|age.*|free.*\"}", &["http_open"]),
        ("match[]={vhost=\"/v1\"}&match[]={queue=\"orders-00000\"}", &["/v1", "orders-00000"]),
        ("match[]={vhost=\"/v1\"}&name[]=queue_messages", &["messages{vhost=\"/v1\""]),
        ("match[]={vhost=\"/v1\"}&name[]=requests_total", &[]),
        ("match[]={\"http.route\"=\"/y\"}", &["open{http_route=\"/y\""]),
        ("match[]={http_route=\"/y\"}", &["open{http_route=\"/y\""]),
        ("match[]={\"http.open\",http_route=\"/y\"}", &["open{http_route=\"/y\""]),
        // Labels that a family's series have in common.
        ("match[]={otel_scope_name=\"disk\"}", &["free_bytes"]),
        ("match[]={otel_scope_name=\"disk\",device=\"sda\"}", &["free_bytes"]),
        ("match[]={otel_scope_name=\"disk\",device=\"sdb\"}", &[]),
        ("match[]={otel_scope_name!=\"disk\",vhost=\"/v2\"}", &["vhost=\"/v2\""]),
        ("match[]={le=\"0.5\"}", &[]),
    ] {
        // The second time, what the first has compiled is used.
        for _ in 0..2 {
            let answer = endpoint.answer(&Request { query: Some(query), ..Request::default() });
            assert_eq!(answer.status(), 200, "{query}");
            assert_eq!(samples(&text(answer)), with(parts), "{query}");
        }
    }
}

#[test]
fn a_query_that_cannot_be_read_is_refused_in_words() {
    let endpoint = Endpoint::new(registry());
    for (query, expected) in [
        ("match[]={path=\"/\"", "match[]={path=\"/\": expected ',' or '}' at byte 9\n"),
        (
            "match[]={path=~\"(\"}",
            "match[]={path=~\"(\"}: the pattern \"(\" can't be read: unclosed group at byte 7\n",
        ),
        (
            "match[]={path=~\"((a{999}){999}){999}\"}",
            "match[]={path=~\"((a{999}){999}){999}\"}: the pattern \"((a{999}){999}){999}\" takes \
             too much memory at byte 7\n",
        ),
    ] {
        let answer = endpoint.answer(&Request { query: Some(query), ..Request::default() });
        assert_eq!(answer.status(), 400);
        assert_eq!(answer.headers().next(), Some(("Content-Type", "text/plain; charset=utf-8")));
        assert_eq!(answer.content_length(), Some(expected.len()));
        assert_eq!(text(answer), expected);
    }
}

#[test]
fn answers_follow_method_and_headers() {
    let endpoint = Endpoint::new(registry());
    let plain = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
    let open = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=allow-utf-8";
    let accept = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,*/*;q=0.2";
    for (method, accept, encoding, status, content_type, packing) in [
        ("GET", None, None, 200, plain, None),
        ("GET", Some(accept), Some("gzip"), 200, open, Some("gzip")),
        ("GET", Some("*/*"), Some("gzip;q=0.5, identity"), 200, plain, None),
        ("GET", None, Some("br, gzip;q=0"), 200, plain, None),
        ("HEAD", Some(accept), Some("gzip"), 200, open, Some("gzip")),
        ("POST", Some(accept), Some("gzip"), 405, "text/plain; charset=utf-8", None),
    ] {
        let request = Request { method, accept, accept_encoding: encoding, query: None };
        let answer = endpoint.answer(&request);
        let header = |name| answer.headers().find(|h| h.0 == name).map(|h| h.1.to_owned());
        assert_eq!(answer.status(), status);
        assert_eq!(header("Content-Type").as_deref(), Some(content_type));
        assert_eq!(header("Content-Encoding").as_deref(), packing);
        assert_eq!(header("Allow").as_deref(), (status == 405).then_some("GET, HEAD"));
        let vary = (status == 200).then_some("Accept, Accept-Encoding");
        assert_eq!(header("Vary").as_deref(), vary);
        let (is_head, body) = (answer.is_head(), body(answer));
        assert_eq!(is_head, method == "HEAD");
        assert_eq!(body.is_empty(), is_head);
        assert_eq!(body.starts_with(&[0x1f, 0x8b]), packing.is_some() && !is_head);
    }
    let never = Endpoint::with_gzip_level(registry(), 0);
    let answer = never.answer(&Request { accept_encoding: Some("gzip"), ..Request::default() });
    assert!(answer.headers().all(|(name, _)| name != "Content-Encoding"));
}

#[test]
fn packed_and_plain_are_the_same_and_neither_allocates_again() {
    let registry = registry();
    registry.collect(unladen::process::Process::new());
    let (table, _) = queues(20_000);
    registry.collect(Renamed(table));
    let endpoint = Endpoint::new(registry);
    let query = Some("match[]={vhost=~\"/v[01]\"}&match[]={code=\"200\"}");
    for query in [None, query] {
        let plain = Request { query, ..Request::default() };
        let packed = Request { accept_encoding: Some("gzip"), ..plain };
        let is_own = |line: &&str| !line.contains("process_");
        let (first, second) = (text(endpoint.answer(&plain)), body(endpoint.answer(&packed)));
        assert!(second.len() * 4 < first.len(), "{} {}", second.len(), first.len());
        let second = String::from_utf8(unpacked(&second)).unwrap();
        assert!(first.lines().filter(is_own).eq(second.lines().filter(is_own)));
        for request in [plain, packed] {
            let mut bytes = 0;
            let during = count(|| {
                let answer = endpoint.answer(&request);
                assert!(answer.headers().count() >= 2);
                bytes = answer.fold(0, |bytes, chunk| bytes + chunk.len());
            });
            assert_eq!(during, Count::ZERO, "{request:?}");
            assert!(bytes > 50_000);
        }
    }
}

/// The same table under other names.
struct Renamed(Queues);

impl Collector for Renamed {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        for index in 0..3 {
            let name = ["table_a", "table_b", "table_c"][index];
            let mut samples = out.gauge(name, "From a larger table.");
            for labels in &self.0.labels {
                samples.stored(labels, index as u64);
            }
        }
    }
}

/// Takes so many bytes, and then no more.
struct Broken {
    room: usize,
    calls_after: usize,
}

impl io::Write for Broken {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.room == 0 {
            self.calls_after += 1;
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        Ok(taken)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_sink_that_fails_ends_the_rendering() {
    const QUEUES: usize = 100_000;
    let registry = Registry::new();
    let (table, asked) = queues(QUEUES);
    let requests = registry.counter(("requests_total", ""), ["id"]).unwrap();
    registry.collect(table);
    for id in 0..10_000 {
        requests.with([id.to_string().as_str()]).increment();
    }
    for encoding in [None, Some("gzip")] {
        let endpoint = Endpoint::new(registry.clone());
        let request = Request { accept_encoding: encoding, ..Request::default() };
        for query in [None, Some("match[]={vhost=~\".*\"}")] {
            asked.store(0, Ordering::Relaxed);
            let mut sink = Broken { room: 300_000, calls_after: 0 };
            let answer = endpoint.answer(&Request { query, ..request });
            let error = answer.write_to(&mut sink).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
            assert_eq!(sink.calls_after, 1, "nobody writes to a sink that has failed");
            let asked = asked.load(Ordering::Relaxed);
            assert!(asked < QUEUES, "{asked} rows were rendered for nobody");
        }
        // Nothing of it is left in what is used again.
        let answer = endpoint.answer(&Request { query: Some("name[]=requests"), ..request });
        let whole = body(answer);
        let whole = if encoding.is_some() { unpacked(&whole) } else { whole };
        assert!(whole.ends_with(b"requests_total{id=\"9999\"} 1\n"));
    }
}

#[test]
fn a_family_that_is_not_wanted_is_not_walked() {
    let registry = Registry::new();
    let (table, asked) = queues(1000);
    registry.collect(table);
    let endpoint = Endpoint::new(registry);
    for (query, expected) in [
        ("name[]=nothing", 0),
        ("name[]=queue_messages", 1000),
        ("match[]=queue_consumers{vhost=\"/v1\"}", 1000),
        ("match[]={__name__=\"other\",vhost=\"/v1\"}", 0),
    ] {
        asked.store(0, Ordering::Relaxed);
        body(endpoint.answer(&Request { query: Some(query), ..Request::default() }));
        assert_eq!(asked.load(Ordering::Relaxed), expected, "{query}");
    }
}

#[test]
fn the_first_chunk_waits_for_no_callback() {
    let registry = Registry::new();
    registry.gauge(("before", "Is there at once."), []).unwrap().with([]).set(1.0);
    let asked = Arc::new(AtomicUsize::new(0));
    let seen = asked.clone();
    registry
        .observe(("slow", "Takes its time."), unladen::Kind::Gauge, [], move |observer| {
            seen.fetch_add(1, Ordering::Relaxed);
            observer.record([], 2.0);
        })
        .unwrap();
    let endpoint = Endpoint::new(registry);
    for accept_encoding in [None, Some("gzip")] {
        asked.store(0, Ordering::Relaxed);
        let answer = endpoint.answer(&Request { accept_encoding, ..Request::default() });
        let mut asked_at_first = None;
        answer.fold((), |(), _| {
            asked_at_first.get_or_insert_with(|| asked.load(Ordering::Relaxed));
        });
        assert_eq!(asked_at_first, Some(0));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
    // Nor is one asked whose family is not wanted.
    asked.store(0, Ordering::Relaxed);
    body(endpoint.answer(&Request { query: Some("name[]=before"), ..Request::default() }));
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[test]
fn a_collector_that_panics_is_told_in_the_body() {
    struct Panics;
    impl Collector for Panics {
        fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
            out.gauge("half", "Half of it.").sample(&[("a", "b")], 1.0);
            panic!("a fault of the program's");
        }
    }
    let registry = Registry::new();
    registry.collect(Panics);
    registry.gauge(("after", "Comes all the same."), []).unwrap().with([]).set(1.0);
    let endpoint = Endpoint::new(registry);
    let body = text(endpoint.answer(&Request::default()));
    for line in ["half{a=\"b\"} 1\n", "after 1\n", "unladen_collectors_panicked_total 1\n"] {
        assert!(body.contains(line), "{body}");
    }
}
