//! Collecting what is known again allocates nothing and frees nothing, in both temporalities, on all
//! threads that take part; and whoever collects that way needs no more memory than who keeps snapshots.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use testkit::allocations::{Count, count_all_threads, of_all_threads, watch_all_threads};
use unladen::reader::{Points, Reader, Temporalities};
use unladen::{Buckets, Registry, Role, Spec, Trace};

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

const MODES: [Temporalities; 3] =
    [Temporalities::CUMULATIVE, Temporalities::DELTA, Temporalities::LOW_MEMORY];

/// Ten observable counters of a thousand sets, and some of everything else.
fn everything() -> (Registry, impl Fn()) {
    let registry = Registry::new();
    let base = Arc::new(AtomicU64::new(1));
    let texts: Vec<String> = (0..1_000).map(|set| format!("/path/{set}")).collect();
    let stored: Vec<_> = texts.iter().map(|path| registry.attributes(&[("path", path)])).collect();
    let known = Arc::new((texts, stored));
    for instrument in 0..10 {
        let (known, base) = (known.clone(), base.clone());
        let name = format!("asked_{instrument}_total");
        registry
            .observe_open(Spec::new(&name, ""), Role::Counter, move |observer| {
                let base = base.load(Relaxed);
                if instrument % 2 == 0 {
                    known.1.iter().for_each(|set| observer.observe_stored(base, set));
                } else {
                    let given = |path| [("path", path), ("a", "b")];
                    known.0.iter().for_each(|path| observer.observe(base, &given(path)));
                }
            })
            .unwrap();
    }
    // One with ten places, the last for all that there is none for.
    let (given, added) = (known, base.clone());
    registry
        .observe_open(Spec::new("full_total", "").limit(9), Role::Counter, move |observer| {
            let base = added.load(Relaxed);
            given.0.iter().for_each(|path| observer.observe(base, &[("path", path)]));
        })
        .unwrap();
    let counter = registry.counter(("a_total", ""), ["x"]).unwrap();
    let level = registry.gauge(("b", ""), ["x"]).unwrap();
    let explicit = registry.histogram(("c", ""), ["x"], [1.0, 2.0]).unwrap();
    let native = registry.histogram(("d", ""), ["x"], Buckets::native()).unwrap();
    let handles: Vec<_> = (0..300)
        .map(|set| {
            let set = set.to_string();
            let (counter, level) = (counter.with([&set]), level.with([&set]));
            (counter, level, explicit.with([&set]), native.with([&set]))
        })
        .collect();
    let trace = Trace { trace_id: [7; 16], span_id: [7; 8] };
    let record = move || {
        base.fetch_add(1, Relaxed);
        for (index, (counter, level, explicit, native)) in handles.iter().enumerate() {
            counter.add_traced(2, &trace);
            level.set(1.5);
            explicit.record_traced(1.5, &trace);
            native.record(1.0 + index as f64);
        }
    };
    (registry, record)
}

#[test]
fn collecting_again_costs_no_memory() {
    let (registry, record) = everything();
    // All at once, so that none disturbs another.
    let mut readers: Vec<_> = MODES.map(|mode| Reader::new(&registry, mode)).into();
    let points = |reader: &mut Reader| {
        let mut seen = 0;
        reader.collect(|batch| {
            for metric in batch.metrics() {
                // Looking at them costs none, either.
                match metric.points() {
                    Points::Gauge(points) | Points::Sum { points, .. } => {
                        seen += points.count() as u64;
                    }
                    Points::Histogram(points) => {
                        seen += points.map(|point| point.count()).sum::<u64>();
                    }
                    Points::ExponentialHistogram(points) => {
                        seen += points.map(|point| point.count()).sum::<u64>();
                    }
                    Points::Summary(_) => {}
                }
            }
            assert!(seen > 0);
            batch.point_count()
        })
    };
    for _ in 0..4 {
        record();
        readers.iter_mut().for_each(|reader| assert_eq!(points(reader), 11_210));
    }
    for reader in &mut readers {
        for _ in 0..10 {
            record();
            let mut count = 0;
            let during = count_all_threads(|| count = points(reader));
            assert_eq!(during, Count::ZERO, "{reader:?}");
            assert_eq!(count, 11_210);
        }
    }
    footprint();
}

/// opentelemetry-java#5712: reused memory must not be more memory.
fn footprint() {
    let live = |is_reusable: bool, temporalities| {
        watch_all_threads(true);
        let (registry, record) = everything();
        let (_, before) = of_all_threads();
        let mut reader = Reader::new(&registry, temporalities);
        let mut kept = Vec::new();
        let mut most = 0;
        for _ in 0..5 {
            record();
            if is_reusable {
                reader.collect(|batch| assert_eq!(batch.point_count(), 11_210));
            } else {
                // The exporter has the last one until it gets the next.
                let next = reader.snapshot();
                assert_eq!(next.batch().point_count(), 11_210);
                kept = vec![next];
            }
            most = most.max(of_all_threads().1 - before);
        }
        drop((kept, reader, registry));
        watch_all_threads(false);
        most
    };
    for temporalities in MODES {
        let (reusable, immutable) = (live(true, temporalities), live(false, temporalities));
        assert!(reusable as f64 <= 1.05 * immutable as f64, "{reusable} against {immutable}");
    }
}
