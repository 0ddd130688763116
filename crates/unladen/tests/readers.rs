//! What readers tell: cumulative and as differences, lent and kept.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
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
                    let quantiles: Vec<_> = point.quantiles().collect();
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
    let explicit = registry.histogram(("e", ""), ["x"], &[1.0, 2.0]).unwrap();
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
