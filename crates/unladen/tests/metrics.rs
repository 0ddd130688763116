//! The `metrics` facade in front of a registry, from the macro to the body.

use std::time::Duration;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
    with_local_recorder,
};
use testkit::allocations::{Count, count};
use unladen::door::metrics::{Matcher, Recorder};
use unladen::reader::{Reader, Temporalities};
use unladen::{Buckets, Format, Negotiated, Registry, View};
use wire::exposition::name::Escaping;

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

fn body_in(registry: &Registry, format: Format) -> String {
    let negotiated = Negotiated { format, escaping: Escaping::AllowUtf8 };
    registry
        .write(negotiated, String::new(), |body, chunk| body + std::str::from_utf8(chunk).unwrap())
}

fn text(registry: &Registry) -> String {
    body_in(registry, Format::Text)
}

fn series(registry: &Registry) -> Vec<String> {
    let body = text(registry);
    let mut lines: Vec<_> =
        body.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// What `run` measures, with the recorder that `of` makes.
fn measured(of: impl Fn(Recorder) -> Recorder, run: impl FnOnce()) -> Registry {
    let registry = Registry::new();
    with_local_recorder(&of(registry.recorder()), run);
    let problems = registry.check();
    assert!(problems.is_empty(), "{problems:#?}");
    registry
}

#[test]
fn every_instrument_comes_to_a_body_under_its_own_name() {
    let registry = measured(
        |recorder| recorder.buckets([1.0, 2.0]),
        || {
            let path = String::from("/");
            for _ in 0..2 {
                counter!("http.requests", "code" => "200", "path" => path.clone()).increment(2);
                counter!("http.requests", "path" => path.clone(), "code" => "200").increment(1);
            }
            counter!("plain").absolute(7);
            counter!("plain").absolute(5);
            counter!("plain").increment(1);
            counter!("plain").absolute(9);
            gauge!("level").set(2.5);
            gauge!("level").increment(1);
            gauge!("level").decrement(0.5);
            gauge!("http-open", "my.label" => "a\"b", "" => "nameless", "__x" => "1").set(-1);
            histogram!("age", "le" => "mine").record(1.5);
            histogram!("age", "le" => "mine").record_many(0.5, 3);
        },
    );
    let expected = [
        "age_bucket{exported_le=\"mine\",le=\"+Inf\"} 4",
        "age_bucket{exported_le=\"mine\",le=\"1\"} 3",
        "age_bucket{exported_le=\"mine\",le=\"2\"} 4",
        "age_count{exported_le=\"mine\"} 4",
        "age_sum{exported_le=\"mine\"} 3",
        "http_open{_x=\"1\",my_label=\"a\\\"b\"} -1",
        "http_requests{code=\"200\",path=\"/\"} 6",
        "level 3",
        "plain 9",
    ];
    assert_eq!(series(&registry), expected);
    assert!(text(&registry).contains("# TYPE http_requests counter\n"));
    assert!(body_in(&registry, Format::OpenMetrics).contains("http_requests{code=\"200\""));
}

#[test]
fn descriptions_come_before_or_after() {
    let registry = measured(
        |recorder| recorder,
        || {
            describe_counter!("before", Unit::Bytes, "First.");
            describe_counter!("before", Unit::Seconds, "Second.");
            counter!("before").increment(1);
            gauge!("after.all").set(1);
            describe_gauge!("after.all", "Late.");
            describe_gauge!("after.all", "Later.");
            describe_histogram!("never", "Used.");
        },
    );
    let body = text(&registry);
    assert!(body.contains("# HELP before First.\n# TYPE before counter\nbefore 1\n"), "{body}");
    assert!(body.contains("# HELP after_all Late.\n# TYPE after_all gauge\n"), "{body}");
    assert!(!body.contains("never"), "{body}");
}

#[test]
fn readers_are_told_what_is_described_late() {
    let registry = Registry::new();
    let recorder = registry.recorder();
    let mut reader = Reader::new(&registry, Temporalities::CUMULATIVE);
    let mut told = || {
        reader.collect(|batch| {
            let metric = batch.metrics().next().unwrap();
            let text = [metric.name(), metric.description(), metric.unit()];
            text.map(str::to_owned)
        })
    };
    with_local_recorder(&recorder, || counter!("sent").increment(1));
    assert_eq!(told(), ["sent", "", ""]);
    with_local_recorder(&recorder, || describe_counter!("sent", Unit::Bytes, "Sent."));
    assert_eq!(told(), ["sent", "Sent.", "By"]);
}

#[test]
fn recommended_names() {
    let registry = measured(
        |recorder| recorder.recommended_names(true).buckets([1.0]),
        || {
            describe_counter!("sent", Unit::Bytes, "Sent.");
            describe_histogram!("age", Unit::Seconds, "Age.");
            counter!("sent").increment(1);
            counter!("seen_total").increment(1);
            histogram!("age").record(0.5);
        },
    );
    let body = body_in(&registry, Format::OpenMetrics);
    assert!(body.contains("# TYPE sent_bytes counter\n# UNIT sent_bytes bytes\n"), "{body}");
    assert!(body.contains("sent_bytes_total 1\n") && body.contains("seen_total 1\n"), "{body}");
    assert!(body.contains("age_seconds_bucket{le=\"1.0\"} 1\n"), "{body}");
}

#[test]
fn buckets_by_name() {
    let registry = measured(
        |recorder| {
            recorder
                .buckets(Buckets::explicit([9.0]))
                .buckets_of(Matcher::Suffix("_ms".into()), [1.0])
                .buckets_of(Matcher::Prefix("http.".into()), [2.0])
                .buckets_of(Matcher::Full("http.age_ms".into()), [3.0])
                .buckets_of(Matcher::Full("wrong".into()), [2.0, 1.0])
        },
        || {
            for name in ["other", "db_ms", "http.size_ms", "http.age_ms", "wrong"] {
                histogram!(name).record(0.5);
            }
        },
    );
    let body = text(&registry);
    for line in [
        "other_bucket{le=\"9\"} 1\n",
        "db_ms_bucket{le=\"1\"} 1\n",
        "http_size_ms_bucket{le=\"2\"} 1\n",
        "http_age_ms_bucket{le=\"3\"} 1\n",
        "wrong_count 1\n",
    ] {
        assert!(body.contains(line), "{line} in\n{body}");
    }
    assert_eq!(registry.conflicts().len(), 1, "the buckets that can't be");
}

#[test]
fn conflicts_get_names_of_their_own() {
    let registry = measured(
        |recorder| recorder.global_label("zone", "a").global_label("code", "none"),
        || {
            for _ in 0..2 {
                counter!("x").increment(1);
                counter!("x", "code" => "200").increment(1);
                gauge!("x").set(5);
                counter!("a.b").increment(1);
                counter!("a_b").increment(1);
                counter!("").increment(1);
            }
        },
    );
    let expected = [
        "_{code=\"none\",zone=\"a\"} 2",
        "a_b{code=\"none\",zone=\"a\"} 4",
        "unladen_instrument_conflicts_total 2",
        "x_gauge{code=\"none\",zone=\"a\"} 5",
        "x{code=\"200\",zone=\"a\"} 2",
        "x{code=\"none\",zone=\"a\"} 2",
    ];
    let mut expected = expected.map(str::to_owned);
    expected.sort_unstable();
    assert_eq!(series(&registry), expected, "{:#?}", registry.conflicts());
}

#[test]
fn views_and_limits_apply() {
    let registry = Registry::builder()
        .view(View::of("noise_*").drop())
        .view(View::of("old").rename("new").keep(["a"]))
        .build();
    let recorder = registry.recorder().limit(2);
    with_local_recorder(&recorder, || {
        counter!("noise_all").increment(1);
        counter!("old", "a" => "1", "b" => "2").increment(1);
        counter!("old", "a" => "1", "b" => "3").increment(1);
        for id in 0..5 {
            counter!("many", "id" => id.to_string()).increment(1);
            counter!("many", "id" => id.to_string()).absolute(1);
        }
    });
    let expected = [
        "many{id=\"0\"} 1",
        "many{id=\"1\"} 1",
        "many{otel_metric_overflow=\"true\"} 3",
        "new{a=\"1\"} 2",
    ];
    assert_eq!(series(&registry), expected);
}

#[test]
fn a_held_handle_outlives_its_series_expiry() {
    let registry = Registry::new();
    let recorder = registry.recorder().idle_timeout(Duration::from_millis(400));
    let held = with_local_recorder(&recorder, || {
        gauge!("unheld").set(1);
        counter!("held")
    });
    held.increment(2);
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    // Looking is what makes idle series go.
    while !series(&registry).is_empty() {
        assert!(std::time::Instant::now() < deadline, "{:?}", series(&registry));
        std::thread::yield_now();
    }
    held.increment(1);
    assert_eq!(series(&registry), ["held 3"]);
    held.absolute(10);
    assert_eq!(series(&registry), ["held 10"]);
    with_local_recorder(&recorder, || gauge!("unheld").increment(1));
    assert_eq!(series(&registry), ["held 10", "unheld 2"]);
}

#[test]
fn threads_lose_nothing() {
    let registry = Registry::new();
    let recorder = registry.recorder();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let recorder = &recorder;
            scope.spawn(move || {
                with_local_recorder(recorder, || {
                    for step in 0..2_000_u64 {
                        counter!("n", "thread" => thread.to_string()).increment(1);
                        counter!("n", "thread" => "all").increment(1);
                        counter!("highest").absolute(step);
                    }
                });
            });
        }
    });
    let expected = [
        "highest 1999",
        "n{thread=\"0\"} 2000",
        "n{thread=\"1\"} 2000",
        "n{thread=\"2\"} 2000",
        "n{thread=\"3\"} 2000",
        "n{thread=\"all\"} 8000",
    ];
    assert_eq!(series(&registry), expected);
}

#[test]
fn known_metrics_allocate_nothing() {
    let registry = Registry::new();
    let recorder = registry.recorder();
    with_local_recorder(&recorder, || {
        let measure = || {
            counter!("requests", "code" => "200", "path" => "/").increment(1);
            counter!("requests").absolute(5);
            gauge!("level", "a" => "b").set(1.5);
            histogram!("age").record(0.5);
            histogram!("age").record_many(2.5, 10);
        };
        measure();
        assert_eq!(count(measure), Count::default());
        // However long nobody asks, a histogram does not grow.
        let long = count(|| (0..100_000).for_each(|_| histogram!("age").record(0.5)));
        assert_eq!(long, Count::default());
    });
}

#[test]
fn one_line_installs_it() {
    let registry = Registry::new();
    unladen::door::metrics::install(&registry).unwrap();
    counter!("installed").increment(1);
    assert_eq!(series(&registry), ["installed 1"]);
    assert!(unladen::door::metrics::install(&registry).is_err());
}
