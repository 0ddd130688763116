//! unladen: instruments whose series may have any attributes, and those whose labels are declared.

use std::hint::black_box;

use ::unladen::{Buckets, Registry};
use bench::Failure;

use crate::case::{ATTRIBUTES, BOUNDS, Built, LABELS, NATIVE_BUCKETS, value};

#[inline]
fn attributes() -> [(&'static str, &'static str); 3] {
    ATTRIBUTES.map(|(name, value)| (name, black_box(value)))
}

#[inline]
fn values() -> [&'static str; 3] {
    ATTRIBUTES.map(|(_, value)| black_box(value))
}

/// As prometheus-client's: schema 8 at first, at most so many buckets.
pub fn native() -> Buckets {
    Buckets::native_with(8, 2f64.powi(-128), NATIVE_BUCKETS as u16)
}

/// Any attributes, in any order.
pub fn build() -> Result<Built, Failure> {
    let registry = Registry::new();
    let requests = registry.open_counter(("requests_total", "Requests."))?;
    let latency = registry.open_histogram(("latency", "Latency."), BOUNDS)?;
    let natives = registry.open_histogram(("native", "Latency."), native())?;
    let counter = requests.with(&attributes());
    let histogram = latency.with(&attributes());
    let native = natives.with(&attributes());

    let kept = (counter.clone(), histogram.clone(), native.clone());
    let mut built = Built::new(move || kept.0.value() + kept.1.count() + kept.2.count());
    built.contended(["bound", "contended2"], move |_| counter.add(1));
    let unbound = requests.clone();
    built.contended(["unbound3", "contended2_unbound3"], move |_| unbound.add(1, &attributes()));
    built.case("reordered3", move |_| {
        let [method, route, status] = attributes();
        requests.add(1, &[status, route, method]);
    });
    built.case("histogram", move |n| histogram.record(value(n)));
    built.case("histogram_unbound3", move |n| latency.record(value(n), &attributes()));
    built.case("histogram_native", move |n| native.record(value(n)));
    Ok(built)
}

/// Labels declared at registration, their values given in that order.
pub fn build_declared() -> Result<Built, Failure> {
    let registry = Registry::new();
    let requests = registry.counter(("requests_total", "Requests."), LABELS)?;
    let latency = registry.histogram(("latency", "Latency."), LABELS, BOUNDS)?;
    let natives = registry.histogram(("native", "Latency."), LABELS, native())?;
    let counter = requests.with(values());
    let histogram = latency.with(values());
    let native = natives.with(values());

    let kept = (counter.clone(), histogram.clone(), native.clone());
    let mut built = Built::new(move || kept.0.value() + kept.1.count() + kept.2.count());
    built.contended(["bound", "contended2"], move |_| counter.add(1));
    built.contended(["unbound3", "contended2_unbound3"], move |_| requests.add(values(), 1));
    built.case("histogram", move |n| histogram.record(value(n)));
    built.case("histogram_unbound3", move |n| latency.record(values(), value(n)));
    built.case("histogram_native", move |n| native.record(value(n)));
    Ok(built)
}
