//! What callbacks say, as readers see it: late, from within a collection, beyond a limit, no number.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use unladen::reader::{Batch, Points, Reader, Temporalities};
use unladen::{
    Collector, FamilyWriter, Kind, Negotiated, Registry, Role, Scope, Spec, StoredLabels,
};

/// All points that are numbers: name, labels, value.
fn lines(batch: &Batch<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for metric in batch.metrics() {
        let (Points::Sum { points, .. } | Points::Gauge(points)) = metric.points() else {
            continue;
        };
        for point in points {
            let labels = point.head.attributes.labels();
            lines.push(format!(
                "{}{{{}}} {}",
                metric.name(),
                labels.as_str(),
                point.value.as_f64()
            ));
        }
    }
    lines
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within five seconds: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn what_a_late_callback_counted_is_told_once() {
    let registry = Registry::builder().callback_patience(Duration::from_millis(10)).build();
    let (value, is_late) = (Arc::new(AtomicU64::new(10)), Arc::new(AtomicBool::new(false)));
    let (now, late) = (value.clone(), is_late.clone());
    registry
        .observe(("a_total", ""), Kind::Counter, [], move |observer| {
            while late.load(Relaxed) {
                std::thread::yield_now();
            }
            observer.record([], now.load(Relaxed));
        })
        .unwrap();
    let mut readers = [(); 2].map(|()| Reader::new(&registry, Temporalities::DELTA));
    let mut watcher = Reader::new(&registry, Temporalities::CUMULATIVE);
    for reader in &mut readers {
        assert_eq!(reader.collect(lines), ["a_total{} 10"]);
    }
    let [began, _] = [0, 1].map(|at| readers[at].collect(|batch| batch.time_unix_nano()));
    is_late.store(true, Relaxed);
    for _ in 0..3 {
        for reader in &mut readers {
            assert_eq!(reader.collect(lines), [""; 0]);
        }
    }
    value.store(15, Relaxed);
    is_late.store(false, Relaxed);
    wait_until("it is asked again", || !watcher.collect(lines).is_empty());
    let since = readers[0].collect(|batch| {
        assert_eq!(lines(batch), ["a_total{} 5"]);
        let metric = batch.metrics().next().unwrap();
        let Points::Sum { mut points, .. } = metric.points() else { unreachable!() };
        points.next().unwrap().head.start_unix_nano
    });
    assert_eq!(since, began, "differences are since the last that was told");
    assert_eq!(readers[1].collect(lines), ["a_total{} 5"]);
}

/// Registers a family between others while a reader collects.
struct Registers(Registry, Mutex<u32>);

impl Collector for Registers {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        let mut asked = self.1.lock().unwrap();
        *asked += 1;
        let scope = self.0.scope(Scope::new(&asked.to_string()));
        scope.counter(("a_total", ""), []).unwrap().with([]).add(u64::from(*asked));
        out.gauge("asked", "").stored(&StoredLabels::default(), f64::from(*asked));
    }
}

#[test]
fn a_family_that_is_registered_meanwhile_moves_nothing() {
    let registry = Registry::new();
    let first = registry.counter(("a_total", ""), []).unwrap();
    let last = registry.counter(("b_total", ""), ["x"]).unwrap();
    registry.collect(Registers(registry.clone(), Mutex::new(0)));
    let asked = registry.observe(("c_total", ""), Kind::Counter, [], |observer| {
        observer.record([], 3u64);
    });
    asked.unwrap();
    let mut reader = Reader::new(&registry, Temporalities::DELTA);
    first.with([]).add(1);
    last.with(["1"]).add(2);
    assert_eq!(
        reader.collect(lines),
        ["a_total{} 1", "b_total{x=\"1\"} 2", "asked{} 1", "c_total{} 3"]
    );
    last.with(["1"]).add(1);
    assert_eq!(
        reader.collect(lines),
        ["a_total{} 1", "b_total{x=\"1\"} 1", "asked{} 2", "c_total{} 0"]
    );
    assert_eq!(reader.collect(lines), ["a_total{} 2", "asked{} 3", "c_total{} 0"]);
}

#[test]
fn a_limit_is_one_of_each_collection() {
    let registry = Registry::new();
    let round = Arc::new(AtomicU64::new(0));
    let now = round.clone();
    // What is given in each collection, and what is told; 3 is the limit.
    let rounds: [(&[u64], &str); 7] = [
        (&[1, 2], "1 2"),
        (&[3, 4], "3 4"),
        (&[5, 6, 7], "5 6 7"),
        // What has a place keeps it though others came first; they have the one that is free.
        (&[9, 8, 6, 7], "6 7 9 true"),
        (&[9, 8, 6, 7], "9 6 7 true"),
        (&[1, 2, 3, 4], "1 2 3 true"),
        (&[1, 2], "1 2"),
    ];
    registry
        .observe_open(Spec::new("a", "").limit(3), Role::Gauge, move |observer| {
            for x in rounds[now.load(Relaxed) as usize].0 {
                observer.observe(*x as f64, &[("x", &x.to_string())]);
            }
        })
        .unwrap();
    let mut reader = Reader::new(&registry, Temporalities::DELTA);
    let values = |batch: &Batch<'_>| {
        let mut labels: Vec<_> = batch
            .metrics()
            .flat_map(|metric| metric.attributes())
            .map(|set| set.labels().as_str().split('"').nth(1).unwrap().to_owned())
            .collect();
        labels.sort();
        labels.join(" ")
    };
    for (index, (_, expected)) in rounds.into_iter().enumerate() {
        round.store(index as u64, Relaxed);
        let mut expected: Vec<_> = expected.split(' ').collect();
        expected.sort_unstable();
        assert_eq!(reader.collect(values), expected.join(" "), "collection {index}");
    }
}

#[test]
fn a_callback_that_collects_asks_nobody() {
    let registry = Registry::new();
    let own = registry.clone();
    let (calls, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (called, sees) = (calls.clone(), seen.clone());
    registry.counter(("b_total", ""), []).unwrap().with([]).add(2);
    registry
        .observe(("a", ""), Kind::Gauge, [], move |observer| {
            if called.fetch_add(1, Relaxed) > 3 {
                return;
            }
            let length = own.write(Negotiated::default(), 0, |length, chunk| length + chunk.len());
            let mut sees = sees.lock().unwrap();
            sees.extend(Reader::new(&own, Temporalities::CUMULATIVE).collect(lines));
            observer.record([], length as f64);
        })
        .unwrap();
    let mut reader = Reader::new(&registry, Temporalities::CUMULATIVE);
    let body = registry.write(Negotiated::default(), Vec::new(), |mut body, chunk| {
        body.extend_from_slice(chunk);
        body
    });
    assert!(String::from_utf8(body).unwrap().contains("\na "));
    assert_eq!(reader.collect(lines).len(), 2);
    assert_eq!(calls.load(Relaxed), 2, "once for each of the two");
    assert_eq!(*seen.lock().unwrap(), ["b_total{} 2"; 2]);
}

#[test]
fn what_is_no_number_spoils_no_later_difference() {
    let registry = Registry::new();
    let told = Arc::new(Mutex::new(0.0));
    let now = told.clone();
    registry
        .observe(("a_total", ""), Kind::Counter, [], move |observer| {
            observer.record([], *now.lock().unwrap());
        })
        .unwrap();
    let histogram = registry.histogram(("b", ""), [], [1.0]).unwrap();
    let mut reader = Reader::new(&registry, Temporalities::DELTA);
    let recorded = [0.5, f64::NAN, 0.5];
    let values = [5.0, f64::NAN, 7.0, f64::INFINITY, 8.0, 1.0];
    let expected = [5.0, 0.0, 2.0, 0.0, 1.0, 1.0];
    for (index, (value, expected)) in values.into_iter().zip(expected).enumerate() {
        *told.lock().unwrap() = value;
        if let Some(value) = recorded.get(index) {
            histogram.with([]).record(*value);
        }
        reader.collect(|batch| {
            assert_eq!(lines(batch), [format!("a_total{{}} {expected}")], "{value}");
            let buckets = batch.metrics().find_map(|metric| match metric.points() {
                Points::Histogram(mut points) => points.next(),
                _ => None,
            });
            let counts = buckets.as_ref().map(|point| point.counts.to_vec());
            let expected = match index {
                0 | 2 => Some(vec![1, 0]),
                1 => Some(vec![0, 1]),
                _ => None,
            };
            assert_eq!(counts, expected);
            assert!(buckets.is_none_or(|point| point.sum.is_finite() == (index == 0)));
        });
    }
}
