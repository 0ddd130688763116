//! What readers tell: cumulative and as differences, lent and kept.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use unladen::reader::{Batch, Points, Reader, Temporalities, Temporality};
use unladen::{Buckets, Registry, Role, Scope, Spec, Trace, View};

/// All points of a batch, a line for each: name, labels, value.
fn lines(batch: &Batch<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for metric in batch.metrics() {
        let name = metric.name();
        let mut line =
            |labels: &str, value: String| lines.push(format!("{name}{{{labels}}} {value}"));
        match metric.points() {
            Points::Gauge(points) | Points::Sum { points, .. } => {
                for point in points {
                    assert!(point.head.start_unix_nano <= point.head.time_unix_nano);
                    line(point.head.attributes.labels().as_str(), point.value.as_f64().to_string());
                }
            }
            Points::Histogram(points) => {
                for point in points {
                    let value = format!("{:?} sum {}", point.counts, point.sum);
                    assert_eq!(point.bounds.len() + 1, point.counts.len());
                    line(point.head.attributes.labels().as_str(), value);
                }
            }
            Points::ExponentialHistogram(points) => {
                for point in points {
                    let value =
                        format!("{} in scale {} sum {}", point.count(), point.scale, point.sum);
                    line(point.head.attributes.labels().as_str(), value);
                }
            }
            Points::Summary(points) => {
                for point in points {
                    let quantiles: Vec<_> = point.quantiles.collect();
                    let value = format!("{quantiles:?} of {} sum {}", point.count, point.sum);
                    line(point.head.attributes.labels().as_str(), value);
                }
            }
        }
    }
    lines
}

fn collect(reader: &mut Reader) -> Vec<String> {
    reader.collect(lines)
}

#[test]
fn differences_and_sums() {
    let registry = Registry::new();
    let counter = registry.counter(("a_total", ""), ["x"]).unwrap();
    let float = registry.float_counter(("b_total", ""), ["x"]).unwrap();
    let level = registry.gauge(("c", ""), ["x"]).unwrap();
    let open = registry.up_down_counter(("d", ""), ["x"]).unwrap();
    let explicit = registry.histogram(("e", ""), ["x"], [1.0, 2.0]).unwrap();
    let native = registry.histogram(("f", ""), ["x"], Buckets::native()).unwrap();
    let mut delta = Reader::new(&registry, Temporalities::DELTA);
    let mut sums = Reader::new(&registry, Temporalities::CUMULATIVE);
    let record = |times: u64| {
        counter.with(["1"]).add(times);
        float.with(["1"]).add(0.5 * times as f64);
        level.with(["1"]).set(times as f64);
        open.with(["1"]).add(-1);
        for _ in 0..times {
            explicit.with(["1"]).record(1.5);
            native.with(["1"]).record(1.5);
        }
    };
    record(2);
    let first = [
        "a_total{x=\"1\"} 2",
        "b_total{x=\"1\"} 1",
        "c{x=\"1\"} 2",
        "d{x=\"1\"} -1",
        "e{x=\"1\"} [0, 2, 0] sum 3",
        "f{x=\"1\"} 2 in scale 8 sum 3",
    ];
    assert_eq!(collect(&mut delta), first);
    assert_eq!(collect(&mut sums), first);
    record(3);
    let second = [
        "a_total{x=\"1\"} 3",
        "b_total{x=\"1\"} 1.5",
        "c{x=\"1\"} 3",
        "d{x=\"1\"} -2",
        "e{x=\"1\"} [0, 3, 0] sum 4.5",
        "f{x=\"1\"} 3 in scale 8 sum 4.5",
    ];
    assert_eq!(collect(&mut delta), second);
    let third = [
        "a_total{x=\"1\"} 5",
        "b_total{x=\"1\"} 2.5",
        "c{x=\"1\"} 3",
        "d{x=\"1\"} -2",
        "e{x=\"1\"} [0, 5, 0] sum 7.5",
        "f{x=\"1\"} 5 in scale 8 sum 7.5",
    ];
    assert_eq!(collect(&mut sums), third);
    assert_eq!(collect(&mut delta), ["c{x=\"1\"} 3", "d{x=\"1\"} -2"], "nothing was added");
    assert_eq!(collect(&mut sums), third);
}

/// The value of a sum without labels, or of one with these.
fn value(reader: &mut Reader, line: &str) -> Option<f64> {
    let lines = collect(reader);
    let found: Vec<_> = lines.iter().filter_map(|known| known.strip_prefix(line)).collect();
    assert!(found.len() <= 1, "{line} stands twice in {lines:?}");
    found.first().map(|value| value.trim().parse().unwrap())
}

#[test]
fn what_was_added_until_a_series_ended_is_told_once() {
    let registry = Registry::new();
    let family = registry.counter(("a_total", ""), ["x"]).unwrap();
    let histogram = registry.histogram(("h", ""), ["x"], [1.0]).unwrap();
    let native = registry.histogram(("n", ""), ["x"], Buckets::native_with(0, 0.0, 20)).unwrap();
    let add = |value: f64| {
        // Without a handle they would be in this thread's cache, which holds them.
        family.with(["1"]).add(value as u64);
        histogram.with(["1"]).record(value);
        native.with(["1"]).record(value);
    };
    let remove = || {
        assert!(family.remove(["1"]) && histogram.remove(["1"]) && native.remove(["1"]));
    };
    add(100.0);
    remove();
    let mut early = Reader::new(&registry, Temporalities::DELTA);
    assert_eq!(collect(&mut early), [""; 0], "it ended before the reader began");
    let told = |value: &str| {
        [
            format!("a_total{{x=\"1\"}} {value}"),
            format!("h{{x=\"1\"}} [0, 1] sum {value}"),
            format!("n{{x=\"1\"}} 1 in scale 0 sum {value}"),
        ]
    };
    add(7.0);
    assert_eq!(collect(&mut early), told("7"));
    add(5.0);
    remove();
    // Born and gone between two collections.
    family.with(["2"]).add(1);
    family.remove(["2"]);
    let mut expected = told("5").to_vec();
    expected.insert(1, "a_total{x=\"2\"} 1".into());
    let mut lines = collect(&mut early);
    lines.sort_unstable();
    assert_eq!(lines, expected);
    assert_eq!(collect(&mut early), [""; 0], "once");

    // A set that ends and comes again is one point, however often.
    for _ in 0..3 {
        add(2.0);
        remove();
    }
    add(3.0);
    let lines = collect(&mut early);
    let expected =
        ["a_total{x=\"1\"} 9", "h{x=\"1\"} [0, 4] sum 9", "n{x=\"1\"} 4 in scale 0 sum 9"];
    assert_eq!(lines, expected);
    add(4.0);
    assert_eq!(collect(&mut early), told("4"));
    let mut sums = Reader::new(&registry, Temporalities::CUMULATIVE);
    assert_eq!(value(&mut sums, "a_total{x=\"1\"}"), Some(7.0), "it began again");
}

#[test]
fn a_handle_brings_its_series_back_where_it_stood() {
    let registry = Registry::new();
    let family = registry.counter(("a_total", ""), ["x"]).unwrap();
    let handle = family.with(["1"]);
    let mut delta = Reader::new(&registry, Temporalities::DELTA);
    let mut sums = Reader::new(&registry, Temporalities::CUMULATIVE);
    handle.add(5);
    assert_eq!(value(&mut delta, "a_total{x=\"1\"}"), Some(5.0));
    handle.add(1);
    assert!(family.remove(["1"]));
    assert_eq!(value(&mut sums, "a_total{x=\"1\"}"), None);
    assert_eq!(value(&mut delta, "a_total{x=\"1\"}"), Some(1.0));
    assert_eq!(value(&mut delta, "a_total{x=\"1\"}"), None);
    handle.add(2);
    assert_eq!(value(&mut delta, "a_total{x=\"1\"}"), Some(2.0));
    assert_eq!(value(&mut sums, "a_total{x=\"1\"}"), Some(8.0));
}

/// opentelemetry-java#5998: with differences and reused memory, series that ended counted for the limit.
#[test]
fn series_that_ended_do_not_fill_a_family() {
    let registry = Registry::new();
    let family = registry.counter(Spec::new("a_total", "").limit(10), ["x"]).unwrap();
    let mut delta = Reader::new(&registry, Temporalities::DELTA);
    for index in 0..1_000 {
        let label = index.to_string();
        family.with([&label]).add(1);
        if index % 100 == 7 {
            delta.collect(|batch| {
                let overflow = lines(batch).iter().any(|line| line.contains("overflow"));
                assert!(!overflow);
            });
        }
        assert!(family.remove([&label]));
    }
    assert_eq!(family.len(), 0);
    assert_eq!(delta.lost(), 0);
    let label = "overflow=\"true\"";
    for index in 0..15 {
        family.add([&index.to_string()], 1);
    }
    let told = collect(&mut delta);
    assert!(told.iter().any(|line| line.contains(label) && line.ends_with("} 5")), "{told:?}");
    family.add(["14"], 2);
    let told = collect(&mut delta);
    assert!(told.len() == 1 && told[0].ends_with("} 2"), "{told:?}");
}

/// Who never collects must not keep what ended without end.
#[test]
fn a_reader_that_never_collects_costs_a_bounded_amount() {
    let registry = Registry::new();
    let family = registry.counter(Spec::new("a_total", "").limit(10), ["x"]).unwrap();
    let delta = Reader::new(&registry, Temporalities::DELTA);
    let churn = |from: usize| {
        for index in from..from + 20_000 {
            let label = index.to_string();
            family.with([&label]).add(1);
            family.remove([&label]);
        }
        registry.memory_usage()
    };
    let (first, second) = (churn(0), churn(20_000));
    assert!(second < first + first / 4, "{first} bytes, then {second}");
    assert!(delta.lost() > 30_000, "{}", delta.lost());
    let body = registry.write(Default::default(), String::new(), |mut body, chunk| {
        body.push_str(std::str::from_utf8(chunk).unwrap());
        body
    });
    let line = format!("unladen_delta_series_lost_total {}\n", delta.lost());
    assert!(body.ends_with(&line), "{body}");
}

#[test]
fn since_when_is_counted() {
    let registry = Registry::new();
    let family = registry.counter(("a_total", ""), ["x"]).unwrap();
    registry
        .observe_open(("b_total", ""), Role::Counter, |observer| observer.observe(1u64, &[]))
        .unwrap();
    family.add(["old"], 1);
    let interval = |reader: &mut Reader, name: &str, labels: &str| {
        reader.collect(|batch| {
            let metric = batch.metrics().find(|metric| metric.name() == name)?;
            let Points::Sum { mut points, .. } = metric.points() else { return None };
            let point = points.find(|point| point.head.attributes.labels().as_str() == labels)?;
            assert_eq!(point.head.time_unix_nano, batch.time_unix_nano());
            Some((point.head.start_unix_nano, batch.previous_unix_nano(), batch.time_unix_nano()))
        })
    };
    let mut delta = Reader::new(&registry, Temporalities::DELTA);
    let mut sums = Reader::new(&registry, Temporalities::CUMULATIVE);
    let (first, none, _) = interval(&mut delta, "a_total", "x=\"old\"").unwrap();
    assert!(none == 0 && first > 0);
    let (began, ..) = interval(&mut sums, "a_total", "x=\"old\"").unwrap();
    let (asked, ..) = interval(&mut sums, "b_total", "").unwrap();
    family.add(["old"], 1);
    // A series that is younger than the last collection begins when it began: not with the process.
    std::thread::park_timeout(Duration::from_millis(250));
    family.add(["new"], 1);
    let (start, previous, now) = interval(&mut sums, "a_total", "x=\"new\"").unwrap();
    assert!(previous < start && start <= now, "{previous} {start} {now}");
    let (again, ..) = interval(&mut sums, "a_total", "x=\"old\"").unwrap();
    assert_eq!(again, began, "it does not move");
    assert_eq!(interval(&mut sums, "b_total", "").unwrap().0, asked);
    let (start, previous, _) = interval(&mut delta, "a_total", "x=\"old\"").unwrap();
    assert_eq!(start, previous, "as a difference, the last collection");
    family.add(["new"], 1);
    let (start, previous, _) = interval(&mut delta, "b_total", "").unwrap();
    assert_eq!(start, previous);
}

/// What is given to callbacks, one list for each collection.
type Script = Arc<Mutex<Vec<Vec<(u64, Vec<(&'static str, &'static str)>)>>>>;

#[test]
fn what_callbacks_say_is_followed() {
    let registry = Registry::new();
    let script: Script = Arc::default();
    let steps = script.clone();
    registry
        .observe_open(("a_total", ""), Role::Counter, move |observer| {
            for (value, attributes) in steps.lock().unwrap().last().expect("told to panic").iter() {
                observer.observe(*value, attributes);
            }
        })
        .unwrap();
    let mut delta = Reader::new(&registry, Temporalities::DELTA);
    let mut sums = Reader::new(&registry, Temporalities::CUMULATIVE);
    let mut step = |given: Vec<(u64, Vec<_>)>| {
        *script.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = vec![given];
        let mut lines = [collect(&mut delta), collect(&mut sums)];
        lines.iter_mut().for_each(|lines| lines.sort_unstable());
        lines.map(|lines| lines.join(" ").replace("a_total", ""))
    };
    let (xy, yx) = (vec![("x", "1"), ("y", "2")], vec![("y", "2"), ("x", "1")]);
    let (b, c) = (vec![("b", "")], vec![("c", "")]);
    let both = |one: &str, other: &str| [one.to_owned(), other.to_owned()];
    assert_eq!(
        step(vec![(5, xy.clone()), (7, b.clone())]),
        both(r#"{b=""} 7 {x="1",y="2"} 5"#, r#"{b=""} 7 {x="1",y="2"} 5"#)
    );
    // Another order of the attributes, and of the series, is the same.
    assert_eq!(
        step(vec![(8, b.clone()), (6, yx.clone())]),
        both(r#"{b=""} 1 {x="1",y="2"} 1"#, r#"{b=""} 8 {x="1",y="2"} 6"#)
    );
    // One that is not told is not there, and takes no other with it.
    assert_eq!(
        step(vec![(9, b.clone()), (1, c.clone())]),
        both(r#"{b=""} 1 {c=""} 1"#, r#"{b=""} 9 {c=""} 1"#)
    );
    // One that fell began again.
    assert_eq!(
        step(vec![(4, b.clone()), (3, c)]),
        both(r#"{b=""} 4 {c=""} 2"#, r#"{b=""} 4 {c=""} 3"#)
    );
    // Twice the same: the last one counts.
    assert_eq!(step(vec![(5, b.clone()), (6, b.clone())]), both(r#"{b=""} 2"#, r#"{b=""} 6"#));
    assert_eq!(step(vec![]), both("", ""));
    assert_eq!(step(vec![(10, b)]), both(r#"{b=""} 10"#, r#"{b=""} 10"#));
    // A callback that panics tells nothing, and goes on from where it was.
    assert_eq!(step(vec![(11, xy.clone())]), both(r#"{x="1",y="2"} 11"#, r#"{x="1",y="2"} 11"#));
}

#[test]
fn a_panic_of_a_callback_ends_no_series() {
    let registry = Registry::new();
    let value = Arc::new(AtomicU64::new(5));
    let told = value.clone();
    registry
        .observe_open(("a_total", ""), Role::Counter, move |observer| {
            let value = told.load(Relaxed);
            assert!(value != 0, "told to panic");
            observer.observe(value, &[]);
        })
        .unwrap();
    let mut delta = Reader::new(&registry, Temporalities::DELTA);
    for (now, expected) in [(5, Some(5.0)), (0, None), (9, Some(4.0))] {
        value.store(now, Relaxed);
        assert_eq!(self::value(&mut delta, "a_total{}"), expected);
    }
}

/// Two servers at once, and a third that wants text: nobody's values depend on the others.
#[test]
fn readers_and_scrapes_do_not_disturb_each_other() {
    let registry = Registry::new();
    let family = registry.counter(("a_total", ""), ["x"]).unwrap();
    registry
        .observe_open(("b_total", ""), Role::Counter, |observer| {
            (0..50u64).for_each(|set| observer.observe(set, &[("set", &set.to_string())]));
        })
        .unwrap();
    const ADDED: u64 = 6_000;
    let is_done = AtomicBool::new(false);
    let read = |temporalities| {
        let mut reader = Reader::new(&registry, temporalities);
        let (is_done, registry) = (&is_done, &registry);
        move || {
            let mut sum = 0.0;
            let mut is_last = false;
            while !is_last {
                is_last = is_done.load(Acquire);
                sum += reader.collect(checked_sum);
                let body = registry.write(Default::default(), 0, |size, chunk| size + chunk.len());
                assert!(body > 0);
            }
            (temporalities, sum, reader.lost())
        }
    };
    let (delta, sums) = (Temporalities::DELTA, Temporalities::CUMULATIVE);
    std::thread::scope(|scope| {
        let readers = [delta, delta, sums].map(|temporalities| scope.spawn(read(temporalities)));
        for round in 0..ADDED {
            let label = (round % 40).to_string();
            // Some are held by this thread's cache when they end, others go.
            if round % 3 == 0 {
                family.add([&label], 1);
            } else {
                family.with([&label]).add(1);
            }
            if round % 50 == 49 {
                family.remove([&label]);
            }
        }
        is_done.store(true, Release);
        for reader in readers {
            let (temporalities, sum, lost) = reader.join().unwrap();
            assert_eq!(lost, 0);
            if temporalities == delta {
                assert_eq!(sum, ADDED as f64, "nothing twice, nothing lost");
            }
        }
    });
}

/// The sum of all that was counted; no set may be there twice.
fn checked_sum(batch: &Batch<'_>) -> f64 {
    let mut sum = 0.0;
    for metric in batch.metrics() {
        let Points::Sum { points, .. } = metric.points() else { panic!() };
        let mut sets: Vec<_> = metric.attributes().map(|set| set.labels().as_str()).collect();
        sets.sort_unstable();
        sets.dedup();
        assert_eq!(sets.len(), metric.point_count(), "no set twice");
        if metric.name() == "a_total" {
            sum = points.map(|point| point.value.as_f64()).sum();
        } else {
            assert_eq!(sets.len(), 50);
        }
    }
    sum
}

#[test]
fn a_snapshot_outlives_everything() {
    let registry = Registry::new();
    let family = registry.scope(Scope::new("s")).counter(("a_total", ""), ["x"]).unwrap();
    let mut reader = Reader::new(&registry, Temporalities::CUMULATIVE);
    family.add(["1"], 1);
    let first = reader.snapshot();
    family.add(["1"], 1);
    family.add(["2"], 5);
    let second = reader.snapshot();
    family.remove(["1"]);
    family.add(["3"], 1);
    assert_eq!(reader.collect(|batch| batch.point_count()), 2);
    drop((reader, family, registry));
    let expected = ["a_total{x=\"1\"} 1"];
    assert_eq!(lines(&first.batch()), expected);
    assert_eq!(lines(&second.batch()), ["a_total{x=\"1\"} 2", "a_total{x=\"2\"} 5"]);
    assert_eq!(second.batch().metrics().next().unwrap().scope().name(), "s");
    let far_away = std::thread::spawn(move || lines(&first.batch()));
    assert_eq!(far_away.join().unwrap(), expected);
}

#[test]
fn exemplars_are_told_once() {
    let registry = Registry::new();
    let counter = registry.counter(("a_total", ""), []).unwrap().with([]);
    let histogram = registry.histogram(("h", ""), [], [1.0, 2.0]).unwrap().with([]);
    let trace = |id| Trace { trace_id: [id; 16], span_id: [id; 8] };
    counter.add_traced(3, &trace(1));
    histogram.record_traced(1.5, &trace(2));
    histogram.record_traced(7.0, &trace(3));
    // One of the very millisecond of a collection would be told by the next as well.
    std::thread::park_timeout(Duration::from_millis(5));
    let mut reader = Reader::new(&registry, Temporalities::CUMULATIVE);
    let exemplars = |reader: &mut Reader| {
        reader.collect(|batch| {
            let mut all = Vec::new();
            for metric in batch.metrics() {
                let head = match metric.points() {
                    Points::Sum { mut points, .. } => points.next().unwrap().head,
                    Points::Histogram(mut points) => points.next().unwrap().head,
                    _ => panic!(),
                };
                all.extend(head.exemplars.map(|known| (known.trace.trace_id[0], known.value)));
            }
            all
        })
    };
    assert_eq!(exemplars(&mut reader), [(1, 3.0), (2, 1.5), (3, 7.0)]);
    assert_eq!(exemplars(&mut reader), []);
    histogram.record_traced(0.5, &trace(4));
    assert_eq!(exemplars(&mut reader), [(4, 0.5)]);
}

#[test]
fn views_and_kinds_are_what_opentelemetry_says() {
    let view = View::of("took").rename("took.time").keep(["x"]);
    let registry = Registry::builder().view(view).build();
    let info = registry.info(("build_info", ""), ["v"]).unwrap();
    let _held = info.with(["1"]);
    let states = registry.state_set(("mode", ""), [], &["on", "off"]).unwrap().with([]);
    states.set_only(1);
    let took = registry.open_counter(("took", "")).unwrap();
    took.add(1, &[("x", "1"), ("y", "1")]);
    took.add(2, &[("x", "1"), ("y", "2")]);
    let mut delta = Reader::new(&registry, Temporalities::DELTA);
    let expected = [
        "build_info{v=\"1\"} 1",
        "mode{mode=\"on\"} 0",
        "mode{mode=\"off\"} 1",
        "took.time{x=\"1\"} 3",
    ];
    assert_eq!(collect(&mut delta), expected);
    delta.collect(|batch| {
        for metric in batch.metrics() {
            let Points::Sum { is_monotonic, .. } = metric.points() else { panic!() };
            assert!(!is_monotonic, "always there and never a difference: {}", metric.name());
            assert_eq!(metric.temporality(), Some(Temporality::Cumulative));
        }
        assert_eq!(batch.metrics().count(), 2, "nothing was added to the counter");
    });
}
