//! A fleet in this process, seen over the loopback.

mod client;
mod misbehaviour;

use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use client::{ask, connect, get, read_answer, start};
use serde_json::Value;
use server::fleet::{Fleet, Options, Shape};
use wire::exposition::{Event, Format, Reader};

fn samples(body: &[u8], format: Format) -> usize {
    let mut samples = 0;
    for event in Reader::new(body, format) {
        let is_sample = matches!(event.unwrap_or_else(|error| panic!("{error}")), Event::Sample(_));
        samples += usize::from(is_sample);
    }
    samples
}

fn json(fleet: &Fleet, path: &str) -> Value {
    serde_json::from_slice(&get(fleet, path, "").body).expect("JSON")
}

/// A client has its bytes before the fleet has counted them.
fn wait_for_scrapes(fleet: &Fleet, wanted: u64) {
    let started = Instant::now();
    while fleet.totals().scrapes < wanted {
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", fleet.totals());
        std::thread::yield_now();
    }
}

#[test]
fn targets_are_found_and_answer() {
    // Nothing is late here, however long the test takes.
    let interval = Duration::from_secs(3600);
    let options =
        Options { targets: 300, series: 250, shape: Shape::Mixed, interval, ..Options::default() };
    let fleet = start(options);
    let groups = json(&fleet, "/sd");
    let groups = groups.as_array().expect("a list");
    assert_eq!(groups.len(), 300);
    let mut seen = std::collections::HashSet::new();
    for (number, group) in groups.iter().enumerate() {
        let address = group["targets"][0].as_str().expect("an address");
        assert!(seen.insert(address.to_owned()), "{address}");
        assert_eq!(group["labels"].get("behaviour"), None);
        let mut stream = TcpStream::connect(address).expect("it listens");
        for path in ["/metrics".to_owned(), format!("/{number}/metrics")] {
            ask(&mut stream, &path, "");
            let answer = read_answer(&mut stream);
            assert!(answer.head.contains("text/plain; version=0.0.4"), "{}", answer.head);
            assert_eq!(samples(&answer.body, Format::Text), 250, "{address}{path}");
        }
    }
    assert_eq!(groups[5]["labels"]["__meta_fleet_shape"], "kubernetes");
    wait_for_scrapes(&fleet, 600);
    let totals = fleet.totals();
    assert_eq!((totals.scrapes, totals.samples, totals.missed), (600, 150_000, 0));
    let status = json(&fleet, "/status");
    assert_eq!(status["totals"]["samples"], 150_000);
    assert_eq!(status["targets"]["asked"], 300);
    assert_eq!(status["options"]["shape"], "mixed");
    assert!(status["cpu"]["user_seconds"].is_number(), "{status}");
}

#[test]
fn by_path_all_share_an_address() {
    let fleet = start(Options { targets: 3, series: 10, by_path: true, ..Options::default() });
    let groups = json(&fleet, "/sd");
    for (number, group) in groups.as_array().expect("a list").iter().enumerate() {
        // As the client knows us.
        assert_eq!(group["targets"][0], "fleet.example:81");
        assert_eq!(group["labels"]["__metrics_path__"], format!("/{number}/metrics"));
        assert_eq!(group["labels"]["instance"], format!("target-{number}"));
    }
}

#[test]
fn the_configuration_is_one_that_servers_accept() {
    for (misbehaving, query, interval) in
        [(0.0, "", 7), (0.5, "", 7), (0.0, "?interval=30s&job=load", 30)]
    {
        let fleet =
            start(Options { misbehaving, interval: Duration::from_secs(7), ..Options::default() });
        let answer = get(&fleet, &format!("/prometheus.yml{query}"), "");
        let (name, directory) = (std::path::Path::new("f.yml"), std::path::Path::new(""));
        let loaded = server::config::load_text(answer.text(), name, directory, &Default::default());
        let config = loaded.unwrap_or_else(|error| panic!("{error:?}")).config;
        let job = &config.scrape_configs[0];
        assert_eq!(job.scrape_interval, Duration::from_secs(interval));
        assert_eq!(job.scrape_timeout, Duration::from_secs(interval.min(10)));
        assert_eq!(job.limits.body_size.is_some(), misbehaving > 0.0);
    }
    let fleet = start(Options::default());
    for query in ["interval=0s", "interval=often", "job=a'b"] {
        let answer = get(&fleet, &format!("/prometheus.yml?{query}"), "");
        assert!(answer.head.starts_with("HTTP/1.1 400 "), "{query}: {}", answer.head);
    }
}

#[test]
fn formats_are_those_that_were_asked_for() {
    const ACCEPT: &str = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
    const GZIP: &str = "Accept-Encoding: gzip\r\n";
    for (openmetrics, gzip) in [(false, false), (true, false), (false, true), (true, true)] {
        let fleet = start(Options { openmetrics, gzip, series: 5000, ..Options::default() });
        for fields in ["", ACCEPT, GZIP, &format!("{ACCEPT}{GZIP}")] {
            let answer = get(&fleet, "/1/metrics", fields);
            let is_openmetrics = openmetrics && fields.contains("openmetrics");
            let is_packed = gzip && fields.contains("gzip");
            assert_eq!(answer.head.contains("application/openmetrics-text"), is_openmetrics);
            assert_eq!(answer.head.contains("Content-Encoding: gzip"), is_packed);
            let mut body = answer.body;
            if is_packed {
                let packed = std::mem::take(&mut body);
                flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut body).expect("gzip");
            }
            let format = if is_openmetrics { Format::OpenMetrics } else { Format::Text };
            assert_eq!(samples(&body, format), 5000, "{fields}");
        }
    }
}

/// The same series with the same values, whatever comes between.
#[test]
fn slow_readers_get_one_moment() {
    let options = Options {
        series: 100_000,
        shape: Shape::Kubernetes,
        interval: Duration::from_millis(100),
        ..Options::default()
    };
    let fleet = start(options);
    let mut slow = connect(&fleet, Ipv4Addr::new(127, 1, 0, 1));
    ask(&mut slow, "/metrics", "");
    // The socket is full by now or will be: the rest is made after others had their turn.
    for _ in 0..3 {
        assert_eq!(samples(&get(&fleet, "/2/metrics", "").body, Format::Text), 100_000);
    }
    let answer = read_answer(&mut slow);
    assert_eq!(samples(&answer.body, Format::Text), 100_000);
    let seen: std::collections::HashSet<_> = answer
        .text()
        .lines()
        .filter(|line| line.starts_with("container_last_seen"))
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(_, value)| value)
        .collect();
    assert_eq!(seen.len(), 1, "one time in one body: {seen:?}");
}

#[test]
fn the_same_seed_makes_the_same_fleet() {
    let body = |seed: u64| {
        // Values of the first minute are the same at whatever time it starts, but for what tells it.
        let interval = Duration::from_secs(120);
        let fleet = start(Options { seed, interval, misbehaving: 0.5, ..Options::default() });
        let body = get(&fleet, "/sd", "").text().to_owned();
        let healthy = (0..10).find(|number| fleet.behaviour(*number).is_none()).expect("half");
        let metrics = get(&fleet, &format!("/{healthy}/metrics"), "");
        let is_timeless = |line: &&str| !line.starts_with("node_time_seconds");
        let lines = metrics.text().lines().filter(is_timeless).collect::<Vec<_>>().join("\n");
        // Ports are the system's choice.
        let labels = body.lines().filter_map(|line| line.split_once("\"labels\""));
        (labels.map(|(_, labels)| labels.to_owned()).collect::<Vec<_>>(), lines)
    };
    assert_eq!(body(7), body(7));
    assert_ne!(body(7), body(8));
}

#[test]
fn what_comes_late_was_missed() {
    let interval = Duration::from_millis(400);
    let fleet = start(Options { targets: 2, series: 10, interval, ..Options::default() });
    let started = Instant::now();
    get(&fleet, "/0/metrics", "");
    assert_eq!(fleet.totals().missed, 0);
    while fleet.totals().missed < 2 {
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", fleet.totals());
        std::thread::yield_now();
    }
    assert!(started.elapsed() > interval * 2);
    let status = json(&fleet, "/status?last=1");
    assert!(status["totals"]["missed"].as_u64() >= Some(2), "{status}");
    assert_eq!(status["targets"]["asked"], 1);
}

#[test]
fn it_measures_itself() {
    let fleet = start(Options { series: 20, ..Options::default() });
    get(&fleet, "/3/metrics", "");
    wait_for_scrapes(&fleet, 1);
    let answer = get(&fleet, "/metrics", "");
    assert!(samples(&answer.body, Format::Text) > 10);
    for line in ["fleet_scrapes_total 1", "fleet_samples_total 20", "fleet_missed_scrapes_total 0"]
    {
        assert!(answer.text().lines().any(|found| found == line), "{line}:\n{}", answer.text());
    }
}

#[test]
fn what_is_not_there_is_said() {
    let fleet = start(Options::default());
    for (path, status, part) in [
        ("/", 200, "A fleet of 10 targets"),
        ("/nowhere", 404, "there is no /nowhere"),
        ("/10/metrics", 404, "/0/metrics to /9/metrics"),
        ("/status?last=x", 400, "last is a number"),
    ] {
        let answer = get(&fleet, path, "");
        assert!(answer.head.starts_with(&format!("HTTP/1.1 {status} ")), "{}", answer.head);
        assert!(answer.text().contains(part), "{path}: {}", answer.text());
    }
    let taken = Options { listen: fleet.address().to_string(), ..Options::default() };
    let error = Fleet::start(taken).err().expect("the port is taken");
    assert!(error.contains("cannot listen on"), "{error}");
}

#[test]
fn requests_in_a_row_and_in_pieces_are_answered() {
    let fleet = start(Options { series: 30, ..Options::default() });
    let mut stream = connect(&fleet, Ipv4Addr::new(127, 1, 0, 3));
    let mut request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(3);
    request.push_str("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let (first, second) = request.as_bytes().split_at(55);
    for piece in [first, second] {
        std::io::Write::write_all(&mut stream, piece).expect("it goes out");
    }
    for _ in 0..4 {
        assert_eq!(samples(&read_answer(&mut stream).body, Format::Text), 30);
    }
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("an end");
    assert!(rest.is_empty());
}
