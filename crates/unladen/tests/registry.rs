//! What a registry takes, refuses and writes.

use std::sync::{Arc, mpsc};

use unladen::{Collector, FamilyWriter, Format, Kind, Negotiated, Registry, Spec};

fn text(registry: &Registry) -> String {
    body(registry, Negotiated::default())
}

fn body(registry: &Registry, negotiated: Negotiated) -> String {
    registry.write(negotiated, String::new(), |mut body, chunk| {
        body.push_str(std::str::from_utf8(chunk).unwrap());
        body
    })
}

#[test]
fn writes_families_in_the_order_of_registration_and_series_in_that_of_arrival() {
    let registry = Registry::new();
    let requests =
        registry.float_counter(("requests_total", "Requests\nserved."), ["path", "code"]);
    let requests = requests.unwrap();
    let open = registry.gauge(("connections", "Open now."), []).unwrap();
    let seconds = Spec::new("latency_seconds", "How long.").unit("seconds");
    let latency = registry.histogram(seconds, ["path"], [0.1, 1.0, f64::INFINITY]).unwrap();
    registry
        .observe(("queue_length", "Waiting."), Kind::Gauge, ["queue"], |observer| {
            observer.record(["a"], 3u64);
            observer.record(["b\""], 0.5);
        })
        .unwrap();

    requests.with(["/z\\", "200"]).add(1_000_000.0);
    requests.with(["/a", "500"]).add(1.0);
    requests.with(["/z\\", "200"]).add(0.5);
    requests.with(["/z\\", "200"]).add(-7.0);
    requests.with(["/z\\", "200"]).add(f64::NAN);
    open.with([]).set(4.0);
    open.with([]).decrement();
    for value in [0.05, 0.1, 0.5, 7.0] {
        latency.with(["/"]).record(value);
    }
    let expected = r#"# HELP requests_total Requests\nserved.
# TYPE requests_total counter
requests_total{code="200",path="/z\\"} 1.0000005e+06
requests_total{code="500",path="/a"} 1
# HELP connections Open now.
# TYPE connections gauge
connections 3
# HELP latency_seconds How long.
# TYPE latency_seconds histogram
latency_seconds_bucket{path="/",le="0.1"} 2
latency_seconds_bucket{path="/",le="1"} 3
latency_seconds_bucket{path="/",le="+Inf"} 4
latency_seconds_sum{path="/"} 7.65
latency_seconds_count{path="/"} 4
# HELP queue_length Waiting.
# TYPE queue_length gauge
queue_length{queue="a"} 3
queue_length{queue="b\""} 0.5
"#;
    assert_eq!(text(&registry), expected);
    let openmetrics = Negotiated { format: Format::OpenMetrics, ..Negotiated::default() };
    let openmetrics = body(&registry, openmetrics);
    assert!(
        openmetrics.starts_with("# HELP requests Requests\\nserved.\n# TYPE requests counter\n")
    );
    assert!(openmetrics.contains("# UNIT latency_seconds seconds\n"));
    assert!(openmetrics.ends_with("queue_length{queue=\"b\\\"\"} 0.5\n# EOF\n"));
    assert_eq!(registry.check(), Vec::<String>::new());
}

#[test]
fn a_value_that_is_no_number_is_above_all_bounds() {
    let registry = Registry::new();
    let family = registry.histogram(("a", ""), [], [1.0]).unwrap();
    family.with([]).record(f64::NAN);
    assert!(text(&registry).contains("a_bucket{le=\"1\"} 0\na_bucket{le=\"+Inf\"} 1\na_sum NaN\n"));
}

#[test]
fn refuses_what_could_not_be_scraped() {
    let registry = Registry::new();
    registry.counter(("taken_total", "The first."), ["a"]).unwrap();
    registry.histogram(("waited", ""), [], [1.0]).unwrap();
    let counter = |name| registry.counter((name, "x"), ["b"]).map(drop);
    let labels = |labels| registry.gauge(("g", ""), labels).map(drop);
    let histogram =
        |labels, bounds: &[f64]| registry.histogram(("h", ""), labels, bounds).map(drop);
    let unit = |name, unit| registry.counter(Spec::new(name, "").unit(unit), []).map(drop);
    for (result, expected) in [
        (counter(""), "can't register : the name is empty"),
        (counter("a\nb"), "can't register a\nb: the name has a control character in it"),
        (
            counter("taken_total"),
            "can't register the counter taken_total{b} (\"x\"): the counter taken_total{a} \
             (\"The first.\") is registered already",
        ),
        (
            registry.gauge(("taken", ""), []).map(drop),
            "can't register the gauge taken{} (\"\"): the counter taken_total{a} (\"The first.\") \
             is registered already",
        ),
        (
            counter("waited_count"),
            "can't register the counter waited_count{b} (\"x\"): the histogram waited{} (\"\") is \
             registered already",
        ),
        (labels(["a", "a"]), "can't register g: the label \"a\" stands twice"),
        (
            labels(["a", "__b"]),
            "can't register g: the label \"__b\" begins with __, which Prometheus keeps for itself",
        ),
        (labels(["", "a"]), "can't register g: the label \"\" is empty"),
        (histogram(["le"], &[]), "can't register h: the label \"le\" is a histogram's own"),
        (histogram(["a"], &[1.0, 1.0]), "can't register h: the bounds of the buckets have to rise"),
        (
            histogram(["a"], &[f64::NAN]),
            "can't register h: the bounds of the buckets have to be finite",
        ),
        (
            unit("read_total", "bytes"),
            "can't register read_total: the name has to end in its unit, _bytes, before any _total",
        ),
        (
            registry.observe(("o", ""), Kind::Histogram, [], |_| {}),
            "can't register o: the name belongs to a kind that has several series: write it from a \
             collector",
        ),
    ] {
        let error = result.expect_err(expected);
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.is_taken(), expected.ends_with("already"));
    }
    unit("read_bytes_total", "bytes").unwrap();
}

#[test]
fn series_beyond_the_limit_share_one() {
    let registry = Registry::new();
    let family = registry.counter(Spec::new("a_total", "").limit(2), ["x"]).unwrap();
    for value in ["1", "2", "3", "4", "1"] {
        family.with([value]).increment();
    }
    assert_eq!(family.len(), 2);
    let expected = "# TYPE a_total counter\na_total{x=\"1\"} 2\na_total{x=\"2\"} 1\n\
        a_total{otel_metric_overflow=\"true\"} 2\n";
    assert_eq!(text(&registry), expected);

    assert!(family.remove(["1"]));
    assert!(!family.remove(["1"]));
    family.with(["5"]).add(7);
    let expected = "# TYPE a_total counter\na_total{x=\"5\"} 7\na_total{x=\"2\"} 1\n\
        a_total{otel_metric_overflow=\"true\"} 2\n";
    assert_eq!(text(&registry), expected, "the room is used again");
}

#[test]
fn many_series_come_whole_and_once() {
    let registry = Registry::new();
    let family = registry.counter(("a_total", ""), ["x"]).unwrap();
    for index in 0..1_000u64 {
        family.with([&index.to_string()]).add(index);
    }
    for index in (0..1_000).step_by(7) {
        family.remove([&index.to_string()]);
    }
    let written = text(&registry);
    let expected: Vec<u64> = (0..1_000).filter(|index| index % 7 != 0).collect();
    let read: Vec<u64> = written
        .lines()
        .skip(1)
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(read, expected);
}

/// Writes a family under a name that may be taken.
struct Writes(&'static str);

impl Collector for Writes {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        out.gauge(self.0, "Help.").sample(&[("a", "b")], 1.0);
        out.counter("good_total", "Help.").sample(&[], 2u64);
    }
}

#[test]
fn a_family_that_comes_twice_is_left_out_and_counted() {
    let registry = Registry::new();
    registry.gauge(("taken", "Registered."), []).unwrap().with([]).set(5.0);
    registry.collect(Writes("taken"));
    registry.collect(Writes(""));
    let written = text(&registry);
    assert_eq!(written.matches("# TYPE taken gauge").count(), 1);
    assert!(!written.contains("taken{a"));
    assert_eq!(written.matches("good_total 2").count(), 1);
    assert!(written.ends_with("unladen_families_refused_total 3\n"), "{written}");
    let problems = registry.check();
    assert!(problems[0].contains("came twice or without a name"), "{problems:?}");
}

#[test]
fn spellings_that_collide_are_one_family() {
    let registry = Registry::new();
    registry.gauge(("a.b", ""), []).unwrap();
    registry.gauge(("a_b", ""), []).unwrap();
    assert_eq!(text(&registry).matches("# TYPE a_b gauge").count(), 1, "spelt with underscores");
    let utf8 = unladen::negotiate(Some("text/plain;escaping=allow-utf-8"));
    let body = body(&registry, utf8);
    assert!(body.contains("{\"a.b\"} 0\n") && body.contains("\na_b 0\n"), "{body}");
}

#[test]
fn check_tells_a_series_that_comes_twice() {
    let registry = Registry::new();
    struct Twice;
    impl Collector for Twice {
        fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
            let mut samples = out.gauge("x", "");
            samples.sample(&[("l", "a")], 1.0);
            samples.sample(&[("l", "a")], 2.0);
        }
    }
    registry.collect(Twice);
    let problems = registry.check();
    assert_eq!(problems, ["Text: x{l=\"a\"} comes twice", "OpenMetrics: x{l=\"a\"} comes twice"]);
}

#[test]
fn what_a_callback_tells_twice_counts_once() {
    let registry = Registry::new();
    let twice = |observer: &mut unladen::Observer<'_, '_, 1>| {
        observer.record(["a"], 1.0);
        observer.record(["b"], 3.0);
        observer.record(["a"], 2.0);
    };
    registry.observe(("x", ""), Kind::Gauge, ["l"], twice).unwrap();
    assert_eq!(text(&registry), "# TYPE x gauge\nx{l=\"a\"} 2\nx{l=\"b\"} 3\n");
}

/// A scrape that is in the middle of its sink holds up neither another scrape nor a new series.
#[test]
fn scrapes_and_growth_do_not_wait_for_a_slow_reader() {
    let registry = Registry::new();
    let family = registry.counter(Spec::new("a_total", "").limit(5_000), ["x"]).unwrap();
    for index in 0..4_000 {
        family.with([&format!("{index:0100}")]).increment();
    }
    let expected = text(&registry);
    let (arrived, in_the_middle) = mpsc::channel();
    let (go_on, told) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| {
            let told = told;
            let mut chunks = 0;
            registry.write(Negotiated::default(), String::new(), |mut body, chunk| {
                chunks += 1;
                if chunks == 2 {
                    arrived.send(()).unwrap();
                    // Also goes on if the test has failed and let go of its end.
                    let _ = told.recv();
                }
                body.push_str(std::str::from_utf8(chunk).unwrap());
                body
            })
        });
        let go_on = go_on;
        in_the_middle.recv().unwrap();
        assert_eq!(text(&registry), expected);
        registry.gauge(("later", ""), []).unwrap();
        assert!(family.remove([&format!("{:0100}", 3_999)]));
        family.with(["new"]).increment();
        go_on.send(()).unwrap();
        let slow = slow.join().unwrap();
        // What came meanwhile is for the next body; one that went and came again can't be in it twice.
        assert_eq!(slow.matches("a_total{").count(), 3_999);
        assert!(!slow.contains("new") && !slow.contains("later"));
        let next = text(&registry);
        assert_eq!(next.matches("a_total{").count(), 4_000);
        assert!(next.contains("a_total{x=\"new\"} 1\n") && next.ends_with("later 0\n"));
    });
}

#[test]
fn threads_lose_nothing() {
    let registry = Registry::new();
    let counter = registry.counter(("a_total", ""), ["x"]).unwrap();
    let gauge = registry.gauge(("b", ""), []).unwrap().with([]);
    let histogram = registry.histogram(("c", ""), [], [10.0, 100.0]).unwrap().with([]);
    let counter = Arc::new(counter);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let handle = counter.with(["shared"]);
                for index in 0..10_000u32 {
                    handle.increment();
                    gauge.add(1.0);
                    histogram.record(f64::from(index % 200));
                }
            });
        }
    });
    assert_eq!(counter.with(["shared"]).value(), 40_000);
    assert_eq!(gauge.value(), 40_000.0);
    assert_eq!(histogram.count(), 40_000);
    assert_eq!(histogram.sum(), 40_000.0 * 99.5);
}
