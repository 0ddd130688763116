//! What collectors write, as readers see it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use testkit::allocations::{Count, count};
use unladen::process::Process;
use unladen::reader::{Batch, Points, Reader, Temporalities, Temporality};
use unladen::{Collector, FamilyWriter, Kind, Registry, Scope, StoredLabels};
use wire::exposition::writer::{Buckets, Extra, Family, LabelSet, Native, Summary, dense};

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

/// A program's own table.
struct Table {
    rows: Vec<StoredLabels>,
    base: AtomicU64,
    hides: AtomicU64,
}

impl Collector for Table {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        let (base, hidden) = (self.base.load(Relaxed), self.hides.load(Relaxed));
        if hidden == u64::MAX {
            panic!("told to");
        }
        let mut samples = out.counter("rows_total", "Rows.");
        for (index, row) in self.rows.iter().enumerate().skip(hidden as usize) {
            samples.stored(row, base + index as u64);
        }
        let mut samples = out.gauge("level", "Pairs.");
        samples.sample(&[("b", "2"), ("a", "1 \"quoted\"")], base as f64);
        let began = Extra { created_ms: Some(1_000), timestamp_ms: Some(5_000), ..Extra::NONE };
        samples.number(LabelSet::Pairs(&[("own", "times")]), 1u64, &began);
        let mut samples = out.family(&Family::new("took", "", Kind::Histogram));
        let (bounds, counts) = (&[1.0, 2.0, f64::INFINITY], [1u64, 2, 3]);
        samples
            .histogram(LabelSet::EMPTY, Buckets { bounds, counts, sum: 9.0, ..Buckets::default() });
        let mut samples = out.family(&Family::new("size", "", Kind::Histogram));
        let counts = [1, 0, 2];
        samples.native_histogram(
            LabelSet::EMPTY,
            &Native {
                schema: 3,
                zero_threshold: 0.5,
                zero_count: 4,
                positive: dense(7, &counts),
                negative: [(2, 1), (5, 1)].into_iter(),
                sum: 2.0,
                count: 9,
                exemplars: &[],
                created_ms: None,
                timestamp_ms: None,
            },
        );
        let mut samples = out.family(&Family::new("age", "", Kind::Summary));
        let quantiles = &[(0.5, 0.25), (0.9, 1.0)];
        samples.summary(
            LabelSet::EMPTY,
            &Summary { quantiles, sum: 3.0, count: 8, ..Summary::default() },
        );
        out.gauge("level", "Twice.").sample(&[], 1.0);
    }
}

fn numbers(batch: &Batch<'_>, name: &str) -> Vec<(String, f64)> {
    let metric = batch.metrics().find(|metric| metric.name() == name);
    let Some(Points::Sum { points, .. } | Points::Gauge(points)) = metric.map(|m| m.points())
    else {
        return Vec::new();
    };
    points.map(|p| (p.head.attributes.labels().as_str().to_owned(), p.value.as_f64())).collect()
}

#[test]
fn collectors_feed_readers() {
    let registry = Registry::new();
    // The second is not sorted, the third has to be unescaped.
    let rows = vec![
        StoredLabels::new([("id", "1")]),
        StoredLabels::new([("id", "2"), ("c", "d")]),
        StoredLabels::new([("id", "\"3\"")]),
    ];
    let table = Arc::new(Table { rows, base: AtomicU64::new(10), hides: AtomicU64::new(0) });
    registry.collect(table.clone());
    let mut sums = Reader::new(&registry, Temporalities::CUMULATIVE);
    let mut delta = Reader::new(&registry, Temporalities::DELTA);
    let labels = ["id=\"1\"", "c=\"d\",id=\"2\"", "id=\"\\\"3\\\"\""].map(str::to_owned);
    let expected = |values: [f64; 3]| labels.iter().cloned().zip(values).collect::<Vec<_>>();
    for (base, of_sums, of_delta) in
        [(10, [10.0, 11.0, 12.0], [10.0, 11.0, 12.0]), (15, [15.0, 16.0, 17.0], [5.0; 3])]
    {
        table.base.store(base, Relaxed);
        sums.collect(|batch| assert_eq!(numbers(batch, "rows_total"), expected(of_sums)));
        delta.collect(|batch| assert_eq!(numbers(batch, "rows_total"), expected(of_delta)));
    }
    delta.collect(|batch| {
        let names: Vec<_> = batch.metrics().map(|metric| metric.name()).collect();
        assert_eq!(names, ["rows_total", "level", "took", "size", "age"], "each once");
        let expected =
            [("a=\"1 \\\"quoted\\\"\",b=\"2\"".into(), 15.0), ("own=\"times\"".into(), 1.0)];
        assert_eq!(numbers(batch, "level"), expected);
        for metric in batch.metrics() {
            match metric.points() {
                Points::Gauge(mut points) => {
                    let own = points.nth(1).unwrap().head;
                    assert_eq!(own.start_unix_nano, 1_000_000_000);
                    assert_eq!(own.time_unix_nano, 5_000_000_000);
                }
                Points::Histogram(mut points) => {
                    let point = points.next().unwrap();
                    assert_eq!(point.bounds.clone().collect::<Vec<_>>(), [1.0, 2.0]);
                    assert_eq!((point.counts, point.sum), ([1, 2, 3].as_slice(), 9.0));
                    assert_eq!(metric.temporality(), Some(Temporality::Cumulative));
                }
                Points::ExponentialHistogram(mut points) => {
                    let point = points.next().unwrap();
                    assert_eq!((point.scale, point.zero_count, point.count()), (3, 4, 9));
                    assert_eq!(
                        (point.positive.offset, point.positive.counts),
                        (6, [1, 0, 2].as_slice())
                    );
                    assert_eq!(
                        (point.negative.offset, point.negative.counts),
                        (1, [1, 0, 0, 1].as_slice())
                    );
                }
                Points::Summary(mut points) => {
                    let point = points.next().unwrap();
                    assert_eq!((point.count, point.sum), (8, 3.0));
                    assert_eq!(point.quantiles.collect::<Vec<_>>(), [(0.5, 0.25), (0.9, 1.0)]);
                }
                Points::Sum { .. } => {}
            }
        }
    });

    // One that panics tells nothing, and what it tells next goes on from where it was.
    table.hides.store(u64::MAX, Relaxed);
    table.base.store(20, Relaxed);
    delta.collect(|batch| assert_eq!(batch.point_count(), 0));
    table.hides.store(0, Relaxed);
    delta.collect(|batch| assert_eq!(numbers(batch, "rows_total"), expected([5.0; 3])));
    // A row that goes takes no other with it; one that comes again begins again.
    table.hides.store(1, Relaxed);
    table.base.store(21, Relaxed);
    let rest = |value| labels[1..].iter().map(|label| (label.clone(), value)).collect::<Vec<_>>();
    delta.collect(|batch| assert_eq!(numbers(batch, "rows_total"), rest(1.0)));
    table.hides.store(0, Relaxed);
    delta.collect(|batch| {
        let mut all = rest(0.0);
        all.push((labels[0].clone(), 21.0));
        assert_eq!(numbers(batch, "rows_total"), all);
    });
}

/// Registers a family while it is asked, which then stands before it.
struct Registers(Registry, AtomicU64);

impl Collector for Registers {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        let calls = self.1.fetch_add(1, Relaxed) + 1;
        let name = format!("scope {calls}");
        let family = self.0.scope(Scope::new(&name)).counter(("a_total", ""), []).unwrap();
        family.with([]).add(calls);
        out.counter("calls_total", "").sample(&[], calls);
    }
}

#[test]
fn what_is_registered_meanwhile_is_for_the_next_collection() {
    let registry = Registry::new();
    registry.counter(("a_total", ""), []).unwrap().with([]).add(100);
    registry.collect(Registers(registry.clone(), AtomicU64::new(0)));
    registry.gauge(("last", ""), []).unwrap().with([]).set(1.0);
    let mut reader = Reader::new(&registry, Temporalities::CUMULATIVE);
    for calls in 1..4 {
        reader.collect(|batch| {
            assert_eq!(numbers(batch, "calls_total"), [(String::new(), calls as f64)], "once");
            let all = batch.metrics().filter(|metric| metric.name() == "a_total");
            let scopes: Vec<_> = all.map(|metric| metric.scope().name().to_owned()).collect();
            let expected: Vec<_> = (1..calls).map(|call| format!("scope {call}")).collect();
            assert_eq!((scopes[0].as_str(), &scopes[1..]), ("", &*expected));
            assert_eq!(numbers(batch, "last").len(), 1);
        });
    }
}

#[test]
fn the_process_is_there_and_costs_nothing() {
    let registry = Registry::new();
    registry.collect(Process::new());
    let rows = (0..500).map(|id| StoredLabels::new([("id", id.to_string().as_str()), ("z", "y")]));
    registry.collect(Table {
        rows: rows.collect(),
        base: AtomicU64::new(1),
        hides: AtomicU64::new(0),
    });
    for temporalities in [Temporalities::CUMULATIVE, Temporalities::DELTA] {
        let mut reader = Reader::new(&registry, temporalities);
        for _ in 0..3 {
            reader.collect(|batch| assert!(batch.point_count() > 505));
        }
        let mut points = 0;
        let during = count(|| points = reader.collect(|batch| batch.point_count()));
        assert_eq!(during, Count::ZERO, "of {points} points");
        if cfg!(target_os = "linux") {
            reader.collect(|batch| {
                let seconds = numbers(batch, "process_cpu_seconds_total");
                let bytes = numbers(batch, "process_resident_memory_bytes");
                assert!(seconds.len() == 1 && bytes[0].1 > 100_000.0, "{bytes:?}");
            });
        }
    }
}

/// Milliseconds that have no nanoseconds since 1970 are told as near as can be.
#[test]
fn times_beyond_nanoseconds_end_no_collector() {
    struct Far;
    impl Collector for Far {
        fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
            let mut samples = out.gauge("far", "");
            for (place, time) in [("far", i64::MAX), ("before", i64::MIN)] {
                let extra = Extra { timestamp_ms: Some(time), ..Extra::NONE };
                samples.number(LabelSet::Pairs(&[("place", place)]), 1u64, &extra);
            }
        }
    }
    let registry = Registry::new();
    registry.collect(Far);
    Reader::new(&registry, Temporalities::CUMULATIVE).collect(|batch| {
        let metric = batch.metrics().next().expect("the collector's family");
        let Points::Gauge(points) = metric.points() else { panic!("a gauge") };
        let times: Vec<_> = points.map(|point| point.head.time_unix_nano).collect();
        // What comes before 1970 is told as of now.
        assert_eq!((times.len(), times[0]), (2, u64::MAX));
        assert!(times[1] < u64::MAX);
    });
}
