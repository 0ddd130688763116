//! Using a handle, finding a known series and writing all of them allocates nothing and frees nothing.

use testkit::allocations::{Count, count};
use unladen::{Collector, FamilyWriter, Format, Kind, Negotiated, Registry, StoredLabels};
use wire::exposition::writer::{Family, Summary};

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

struct Objects(Vec<StoredLabels>);

impl Collector for Objects {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        let mut samples = out.gauge("object_size_bytes", "From the program's own table.");
        for (index, labels) in self.0.iter().enumerate() {
            samples.stored(labels, index as f64);
        }
        let mut samples = out.family(&Family {
            unit: "seconds",
            ..Family::new("object_age_seconds", "A summary.", Kind::Summary)
        });
        for labels in self.0.iter().take(10) {
            let quantiles = &[(0.5, 0.25)];
            samples.summary(
                labels.into(),
                &Summary { quantiles, sum: 17.0, count: 3, ..Summary::default() },
            );
        }
    }
}

#[test]
fn nothing_is_allocated_in_steady_state() {
    let registry = Registry::new();
    let counter = registry.counter(("requests_total", "Requests."), ["path", "code"]).unwrap();
    let gauge = registry.gauge(("open", "Open."), ["path"]).unwrap();
    let histogram = registry.histogram(("age_seconds", ""), ["path"], [0.1, 1.0, 10.0]).unwrap();
    registry
        .observe(("seen", "Asked for."), Kind::Gauge, ["path"], |observer| {
            observer.record(["/"], 1.5);
        })
        .unwrap();
    registry.collect(unladen::process::Process::new());
    registry.collect(Objects(
        (0..5_000).map(|index| StoredLabels::new([("id", index.to_string().as_str())])).collect(),
    ));
    for index in 0..500 {
        let path = format!("/{index}");
        counter.with([&path, "200"]).increment();
        gauge.with([&path]).set(f64::from(index));
        histogram.with([&path]).record(f64::from(index));
    }
    let (handle, age) = (counter.with(["/7", "200"]), histogram.with(["/7"]));
    // The first use without a handle makes the thread's cache.
    counter.add(["/9", "200"], 1);
    let using = count(|| {
        handle.increment();
        counter.add(["/9", "200"], 2);
        age.record(0.5);
        gauge.with(["/8"]).add(1.0);
    });
    assert_eq!(using, Count::ZERO);

    for format in [Format::Text, Format::OpenMetrics] {
        let negotiated = Negotiated { format, ..Negotiated::default() };
        let size = |bytes: usize, chunk: &[u8]| bytes + chunk.len();
        let first = registry.write(negotiated, 0, size);
        assert!(first > 200_000, "several chunks");
        let mut second = 0;
        let writing = count(|| second = registry.write(negotiated, 0, size));
        assert_eq!(writing, Count::ZERO, "{format:?}");
        assert!(second.abs_diff(first) < 100);
    }
}
