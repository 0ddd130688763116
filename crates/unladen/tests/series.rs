//! How series come, go, come back, and share: limits, expiry, threads, views, scopes, callbacks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use unladen::{Buckets, Kind, Negotiated, Registry, Role, Scope, Spec, Trace, View, negotiate};

fn body(registry: &Registry, negotiated: Negotiated) -> String {
    let body = registry.write(negotiated, Vec::new(), |mut body, chunk| {
        body.extend_from_slice(chunk);
        body
    });
    String::from_utf8(body).unwrap()
}

fn text(registry: &Registry) -> String {
    body(registry, Negotiated::default())
}

/// The lines that are no comments.
fn lines(registry: &Registry) -> Vec<String> {
    let text = text(registry);
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < patience, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_handle_leaves_the_overflow_once_there_is_room() {
    let registry = Registry::new();
    let family = registry.counter(Spec::new("a_total", "").limit(2), ["x"]).unwrap();
    let (one, two) = (family.with(["1"]), family.with(["2"]));
    let (three, four) = (family.with(["3"]), family.with(["4"]));
    for handle in [&one, &two, &three, &four] {
        handle.add(1);
    }
    family.add(["5"], 10);
    let overflow = "a_total{otel_metric_overflow=\"true\"}";
    assert_eq!(
        lines(&registry),
        ["a_total{x=\"1\"} 1", "a_total{x=\"2\"} 1", &format!("{overflow} 12")]
    );
    assert!(family.remove(["1"]));
    three.add(1);
    four.add(1);
    family.add(["6"], 10);
    // What one counted while there was no room stays where it was counted.
    assert_eq!(
        lines(&registry),
        ["a_total{x=\"2\"} 1", &format!("{overflow} 23"), "a_total{x=\"3\"} 1"]
    );
    assert_eq!((three.value(), four.value()), (1, 0));
    assert_eq!(registry.check(), Vec::<String>::new());
    drop(one);
}

#[test]
fn an_idle_series_goes_and_its_handle_brings_it_back() {
    let registry = Registry::new();
    let spec = Spec::new("a_total", "").expire_after(Duration::from_millis(400));
    let family = registry.counter(spec, ["x"]).unwrap();
    let held = family.with(["held"]);
    held.add(3);
    family.with(["dropped"]).add(1);
    let busy = family.with(["busy"]);
    wait_until("two series expire", || {
        busy.add(1);
        let lines = lines(&registry);
        assert!(lines.iter().any(|line| line.starts_with("a_total{x=\"busy\"}")));
        lines.len() == 1
    });
    assert_eq!(family.len(), 1);
    held.add(1);
    family.with(["dropped"]).add(5);
    let lines = lines(&registry);
    assert!(lines.contains(&"a_total{x=\"held\"} 4".to_owned()), "{lines:?}");
    assert!(lines.contains(&"a_total{x=\"dropped\"} 5".to_owned()), "begins at zero: {lines:?}");
    assert_eq!(registry.check(), Vec::<String>::new());
}

#[test]
fn memory_is_bounded_while_series_come_and_go() {
    let registry = Registry::new();
    let family = registry.counter(("a_total", ""), ["x"]).unwrap();
    let churn = |from: u32| {
        for id in from..from + 1_000 {
            family.with([&id.to_string()]).increment();
        }
        for id in from..from + 1_000 {
            assert!(family.remove([&id.to_string()]));
        }
    };
    (0..5).for_each(|round| churn(round * 1_000));
    let before = registry.memory_usage();
    (5..50).for_each(|round| churn(round * 1_000));
    assert!(registry.memory_usage() <= 2 * before, "{before} {}", registry.memory_usage());
}

#[test]
fn many_threads_lose_nothing_and_make_a_crowd() {
    let registry = Registry::new();
    let counter = registry.counter(("a_total", ""), ["x"]).unwrap();
    let level = registry.up_down_counter(("b", ""), []).unwrap().with([]);
    let float = registry.float_counter(("c_total", ""), []).unwrap().with([]);
    let explicit = registry.histogram(("d", ""), [], [10.0, 100.0]).unwrap().with([]);
    let native = registry.histogram(("e", ""), [], Buckets::native()).unwrap().with([]);
    let each = 50_000u32;
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let handle = counter.with(["shared"]);
                for index in 0..each {
                    handle.increment();
                    counter.add(["unresolved"], 2);
                    level.add(if index % 2 == 0 { 3 } else { -1 });
                    float.add(0.5);
                    explicit.record(f64::from(index % 200));
                    native.record(f64::from(index % 200));
                    if index % 10_000 == 0 {
                        registry.write(Negotiated::default(), (), |(), _| ());
                    }
                }
            });
        }
    });
    let all = u64::from(each) * 6;
    assert_eq!(counter.with(["shared"]).value(), all);
    assert_eq!(counter.with(["unresolved"]).value(), 2 * all);
    assert_eq!(level.value(), all as i64);
    assert_eq!(float.value(), all as f64 / 2.0);
    for histogram in [&explicit, &native] {
        assert_eq!(histogram.count(), all);
        assert_eq!(histogram.sum(), all as f64 * 99.5);
    }
}

#[test]
fn an_open_family_takes_attributes_in_any_order() {
    let registry = Registry::new();
    let family = registry.open_counter(("a_total", "")).unwrap();
    let orders: [[(&str, &str); 3]; 3] = [
        [("a", "1"), ("b", "2"), ("c", "3")],
        [("c", "3"), ("b", "2"), ("a", "1")],
        [("b", "2"), ("c", "3"), ("a", "1")],
    ];
    for order in &orders {
        family.add(1, order);
        family.with(order).add(1);
    }
    family.with_stored(&registry.attributes(&orders[1])).add(1);
    family.add(1, &[]);
    family.add(1, &[("a", "9"), ("a", "1"), ("c", "3"), ("b", "2")]);
    assert_eq!(lines(&registry), ["a_total{a=\"1\",b=\"2\",c=\"3\"} 8", "a_total 1"]);
}

#[test]
fn a_callback_that_panics_spoils_its_own_family_only() {
    let registry = Registry::new();
    let does_panic = Arc::new(AtomicBool::new(true));
    let flag = does_panic.clone();
    registry
        .observe(("a", ""), Kind::Gauge, [], move |observer| {
            observer.record([], 1.0);
            assert!(!flag.load(Ordering::Relaxed), "a callback of the test's");
        })
        .unwrap();
    registry.observe(("b", ""), Kind::Gauge, [], |observer| observer.record([], 2.0)).unwrap();
    assert_eq!(lines(&registry), ["b 2", "unladen_callbacks_panicked_total 1"]);
    does_panic.store(false, Ordering::Relaxed);
    assert_eq!(lines(&registry), ["a 1", "b 2", "unladen_callbacks_panicked_total 1"]);
}

#[test]
fn a_callback_that_blocks_spoils_its_own_family_only() {
    let registry = Registry::builder().callback_patience(Duration::from_millis(20)).build();
    let is_blocked = Arc::new(AtomicBool::new(true));
    let calls = Arc::new(AtomicU32::new(0));
    let (flag, called) = (is_blocked.clone(), calls.clone());
    registry
        .observe(("a", ""), Kind::Gauge, [], move |observer| {
            called.fetch_add(1, Ordering::Relaxed);
            while flag.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            observer.record([], 1.0);
        })
        .unwrap();
    registry.observe(("b", ""), Kind::Gauge, [], |observer| observer.record([], 2.0)).unwrap();
    for _ in 0..3 {
        assert_eq!(lines(&registry), ["b 2", "unladen_callbacks_overdue_total 1"]);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1, "nobody waits for it again");
    is_blocked.store(false, Ordering::Relaxed);
    wait_until("it is asked again", || lines(&registry).contains(&"a 1".to_owned()));
}

#[test]
fn what_a_callback_does_not_tell_any_more_is_gone() {
    let registry = Registry::new();
    let round = Arc::new(AtomicU32::new(0));
    let now = round.clone();
    registry
        .observe_open(Spec::new("a", "").limit(3), Role::UpDownCounter, move |observer| {
            let round = now.load(Ordering::Relaxed);
            let give: &[&str] = match round {
                0 => &["1", "2", "3"],
                1 => &["3", "1"],
                2 => &["4", "1", "3", "5", "6"],
                _ => &[],
            };
            for x in give {
                observer.observe(i64::from(round) - 1, &[("x", x)]);
            }
        })
        .unwrap();
    let expected: [&[&str]; 4] = [
        &["a{x=\"1\"} -1", "a{x=\"2\"} -1", "a{x=\"3\"} -1"],
        &["a{x=\"1\"} 0", "a{x=\"3\"} 0"],
        &["a{x=\"1\"} 1", "a{x=\"3\"} 1", "a{x=\"4\"} 1", "a{otel_metric_overflow=\"true\"} 2"],
        &[],
    ];
    for (index, expected) in expected.into_iter().enumerate() {
        round.store(index as u32, Ordering::Relaxed);
        assert_eq!(lines(&registry), expected, "round {index}");
    }
}

#[test]
fn views_change_what_others_registered() {
    let registry = Registry::builder()
        .view(View::of("dropped*").drop())
        .view(
            View::of("http_*")
                .in_scope("web")
                .rename("served_total")
                .keep(["code"])
                .describe("New."),
        )
        .view(View::of("*_seconds").buckets([1.0]).limit(1))
        .build();
    registry.counter(("dropped_total", ""), []).unwrap().with([]).increment();
    let web = registry.scope(Scope::new("web").with_version("2"));
    let requests = web.counter(("http_requests_total", "Old."), ["path", "code"]).unwrap();
    requests.with(["/a", "200"]).add(1);
    requests.add(["/b", "200"], 2);
    requests.add(["/b", "500"], 4);
    let seconds = registry.histogram(("a_seconds", ""), ["x"], [5.0, 6.0]).unwrap();
    seconds.record(["1"], 0.5);
    seconds.record(["2"], 7.0);
    let scope = "otel_scope_name=\"web\",otel_scope_version=\"2\"";
    let overflow = "otel_metric_overflow=\"true\"";
    assert_eq!(
        lines(&registry),
        [
            format!("served_total{{{scope},code=\"200\"}} 3"),
            format!("served_total{{{scope},code=\"500\"}} 4"),
            "a_seconds_bucket{x=\"1\",le=\"1\"} 1".into(),
            "a_seconds_bucket{x=\"1\",le=\"+Inf\"} 1".into(),
            "a_seconds_sum{x=\"1\"} 0.5".into(),
            "a_seconds_count{x=\"1\"} 1".into(),
            format!("a_seconds_bucket{{{overflow},le=\"1\"}} 0"),
            format!("a_seconds_bucket{{{overflow},le=\"+Inf\"}} 1"),
            format!("a_seconds_sum{{{overflow}}} 7"),
            format!("a_seconds_count{{{overflow}}} 1"),
        ]
    );
    assert!(text(&registry).contains("# HELP served_total New.\n"));
    assert_eq!(registry.check(), Vec::<String>::new());
}

#[test]
fn scopes_share_a_family_or_are_told_what_differs() {
    let registry = Registry::new();
    let (a, b) = (registry.scope(Scope::new("a")), registry.scope(Scope::new("b")));
    let one = a.counter(("x_total", "Help."), []).unwrap();
    registry.gauge(("between", ""), []).unwrap();
    let two = b.counter(("x_total", "Help."), []).unwrap();
    one.with([]).add(1);
    two.with([]).add(2);
    let expected = "# HELP x_total Help.\n# TYPE x_total counter\n\
        x_total{otel_scope_name=\"a\"} 1\nx_total{otel_scope_name=\"b\"} 2\n\
        # TYPE between gauge\nbetween 0\n";
    assert_eq!(text(&registry), expected);
    let other_help = registry.counter(("x_total", "Other."), []).unwrap_err();
    let message = other_help.to_string();
    assert!(
        message.contains("its help differs from that of the counter x_total{} (\"Help.\")"),
        "{message}"
    );
    let other_kind = registry.gauge(("x_total", "Help."), []).unwrap_err();
    assert!(other_kind.to_string().contains("its kind differs"), "{other_kind}");
    assert!(a.counter(("x_total", "Help."), []).unwrap_err().is_taken());
    a.histogram(("h", ""), [], [1.0]).unwrap();
    let native = b.histogram(("h", ""), [], Buckets::native()).unwrap_err().to_string();
    assert!(
        native.contains("its kind of buckets differs from that of the histogram h{}"),
        "{native}"
    );
}

#[test]
fn infos_and_states_are_what_openmetrics_says() {
    let registry = Registry::new();
    let _build = registry.info(("build_info", "Build."), ["version"]).unwrap().with(["1.2"]);
    let states = registry.state_set(("mode", ""), ["of"], &["idle", "busy"]).unwrap();
    let states = states.with(["x"]);
    states.set_only(1);
    let openmetrics = negotiate(Some("application/openmetrics-text;version=1.0.0"));
    let expected = "# HELP build Build.\n# TYPE build info\nbuild_info{version=\"1.2\"} 1\n\
        # TYPE mode stateset\nmode{mode=\"idle\",of=\"x\"} 0\nmode{mode=\"busy\",of=\"x\"} 1\n# EOF\n";
    assert_eq!(body(&registry, openmetrics), expected);
    assert_eq!(registry.check(), Vec::<String>::new());
    states.set(9, true);
}

#[test]
fn exemplars_and_beginnings_are_told() {
    let registry = Registry::builder().created_lines(true).build();
    let counter = registry.counter(("a_total", ""), []).unwrap().with([]);
    let histogram = registry.histogram(("b", ""), [], [1.0]).unwrap().with([]);
    let trace = Trace { trace_id: [0xab; 16], span_id: [1; 8] };
    counter.add_traced(5, &trace);
    histogram.record(0.5);
    histogram.record_traced(2.0, &trace);
    let openmetrics = negotiate(Some("application/openmetrics-text;version=1.0.0"));
    let body = body(&registry, openmetrics);
    let ids = format!("trace_id=\"{}\",span_id=\"{}\"", "ab".repeat(16), "01".repeat(8));
    assert!(body.contains(&format!("a_total 5 # {{{ids}}} 5.0 ")), "{body}");
    assert!(body.contains(&format!("b_bucket{{le=\"+Inf\"}} 2 # {{{ids}}} 2.0 ")), "{body}");
    assert!(body.contains("b_bucket{le=\"1.0\"} 1\n"), "{body}");
    assert!(body.contains("\na_created 1") && body.contains("\nb_created 1"), "{body}");
    assert_eq!(registry.check(), Vec::<String>::new());
}

#[test]
fn a_native_histogram_is_a_classic_one_in_text() {
    let registry = Registry::new();
    let family = registry.histogram(("a", ""), [], Buckets::native()).unwrap();
    let handle = family.with([]);
    for value in [0.0, 1.0, 1.0, 100.0, -3.0, f64::INFINITY, f64::NAN] {
        handle.record(value);
    }
    let lines = lines(&registry);
    assert!(lines.contains(&"a_count 7".to_owned()), "{lines:?}");
    assert!(lines.contains(&"a_bucket{le=\"+Inf\"} 7".to_owned()), "{lines:?}");
    assert!(lines.len() > 4, "{lines:?}");
    assert_eq!(registry.check(), Vec::<String>::new());
}

#[test]
fn rows_of_removed_series_are_used_again_although_they_were_held() {
    let registry = Registry::new();
    let family = registry.counter(("a_total", ""), ["x"]).unwrap();
    let unresolved = registry.counter(("b_total", ""), ["x"]).unwrap();
    let churn = |round: u32| {
        for id in 0..2_000 {
            let id = (round * 2_000 + id).to_string();
            let held = family.with([&id]);
            assert!(family.remove([&id]));
            drop(held);
            unresolved.add([&id], 1);
            assert!(unresolved.remove([&id]));
        }
    };
    (0..5).for_each(churn);
    let before = registry.memory_usage();
    (5..30).for_each(churn);
    assert!(registry.memory_usage() <= 2 * before, "{before} {}", registry.memory_usage());
    assert_eq!((family.len(), unresolved.len()), (0, 0));
}

#[test]
fn the_overflow_series_stays_and_is_one() {
    let registry = Registry::new();
    let overflow = [("otel_metric_overflow", "true")];
    let family = registry.open_counter(Spec::new("a_total", "").limit(2)).unwrap();
    family.add(1, &overflow);
    for x in ["1", "2", "3"] {
        family.add(1, &[("x", x)]);
    }
    assert!(!family.remove(&overflow));
    for x in ["4", "5"] {
        family.add(1, &[("x", x)]);
    }
    let lines = lines(&registry);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.contains(&"a_total{otel_metric_overflow=\"true\"} 5".to_owned()), "{lines:?}");
    assert_eq!(registry.check(), Vec::<String>::new());

    let nothing = registry.counter(Spec::new("b_total", "").limit(0), ["x"]).unwrap();
    nothing.add(["1"], 1);
    nothing.with(["2"]).add(1);
    assert!(!nothing.remove(["1"]));
    assert_eq!(registry.check(), Vec::<String>::new());
}

#[test]
fn a_full_family_expires_though_nobody_collects() {
    let registry = Registry::new();
    let spec = Spec::new("a_total", "").limit(1).expire_after(Duration::from_millis(200));
    let family = registry.counter(spec, ["x"]).unwrap();
    family.with(["1"]).add(1);
    wait_until("the first one goes", || {
        family.add(["2"], 1);
        lines(&registry).iter().any(|line| line.starts_with("a_total{x=\"2\"}"))
    });
}

#[test]
fn names_that_would_spoil_a_body_are_others() {
    let registry = Registry::new();
    let scoped = registry.scope(Scope::new("s").with("name", "t"));
    let histogram = scoped.open_histogram(("h", ""), [1.0]).unwrap();
    let attributes =
        [("le", "1"), ("", "2"), ("__name__", "3"), ("otel_scope_name", "4"), ("a", "5")];
    histogram.with(&attributes).record(0.5);
    histogram.record(0.5, &attributes);
    let other = Registry::new();
    histogram.with_stored(&other.attributes(&attributes)).record(0.5);
    assert_eq!(histogram.len(), 1);
    assert!(
        text(&registry).contains(
            "h_count{otel_scope_name=\"s\",_name__=\"3\",a=\"5\",exported_le=\"1\",scope_name=\"4\"} 3"
        ),
        "{}",
        text(&registry)
    );
    let counter = registry.open_counter(("c_total", "")).unwrap();
    counter.with(&[("a", "1")]).add(1);
    counter.with_stored(&other.attributes(&[("a", "1")])).add(1);
    assert!(text(&registry).contains("c_total{a=\"1\"} 2\n"));
    assert_eq!(registry.check(), Vec::<String>::new());
}

#[test]
fn families_that_come_while_a_body_is_written_are_for_the_next() {
    let registry = Registry::new();
    let (a, b) = (registry.scope(Scope::new("a")), registry.scope(Scope::new("b")));
    a.counter(("x_total", ""), []).unwrap();
    let big = registry.counter(Spec::new("y_total", "").limit(5_000), ["x"]).unwrap();
    for index in 0..4_000 {
        big.with([&format!("{index:0100}")]).increment();
    }
    let mut later = Some(());
    let body = registry.write(Negotiated::default(), String::new(), |mut body, chunk| {
        if later.take().is_some() {
            b.counter(("x_total", ""), []).unwrap();
        }
        body.push_str(std::str::from_utf8(chunk).unwrap());
        body
    });
    assert_eq!(body.matches("y_total{").count(), 4_000, "none of them twice");
    assert_eq!(body.matches("x_total{").count(), 1);
    assert_eq!(text(&registry).matches("x_total{").count(), 2);
}

#[test]
fn an_exemplar_does_not_make_chunks_small() {
    let registry = Registry::new();
    let family = registry.histogram(("a", ""), ["x"], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).unwrap();
    for x in 0..2_000 {
        family.with([&x.to_string()]).record(1.5);
    }
    let trace = Trace { trace_id: [1; 16], span_id: [2; 8] };
    family.with(["7"]).record_traced(0.5, &trace);
    let openmetrics = negotiate(Some("application/openmetrics-text;version=1.0.0"));
    let (chunks, bytes) = registry
        .write(openmetrics, (0, 0), |(chunks, bytes), chunk| (chunks + 1, bytes + chunk.len()));
    assert!(chunks <= bytes / 40_000 + 2, "{chunks} chunks of {bytes} bytes");
}

#[test]
fn what_a_collector_took_is_refused_in_every_scope() {
    struct Early;
    impl unladen::Collector for Early {
        fn collect(&self, out: &mut unladen::FamilyWriter<'_, '_>) {
            out.counter("x_total", "").sample(&[], 1u64);
        }
    }
    let registry = Registry::new();
    registry.collect(Early);
    for scope in ["a", "b"] {
        registry.scope(Scope::new(scope)).counter(("x_total", ""), []).unwrap();
    }
    assert_eq!(lines(&registry), ["x_total 1", "unladen_families_refused_total 1"]);
}

#[test]
fn what_the_registry_writes_itself_is_taken() {
    let registry = Registry::new();
    for name in ["target_info", "unladen_callbacks_overdue_total"] {
        let error = registry.counter((name, ""), []).unwrap_err().to_string();
        assert_eq!(error, format!("can't register {name}: the name is the registry's own"));
    }
    registry.counter(("x_total", ""), []).unwrap();
    assert!(registry.gauge(("x_created", ""), []).unwrap_err().is_taken());
    let twice = registry.state_set(("mode", ""), [], &["on", "on"]).unwrap_err().to_string();
    assert_eq!(twice, "can't register mode: the label \"on\" stands twice among the states");
}
