//! unladen.

use std::hint::black_box;

use ::unladen::Registry;
use bench::Failure;

use crate::case::{ATTRIBUTES, BOUNDS, Built, LABELS, value};

#[inline]
fn values() -> [&'static str; 3] {
    ATTRIBUTES.map(|(_, value)| black_box(value))
}

pub fn build() -> Result<Built, Failure> {
    let registry = Registry::new();
    let requests = registry.counter(("requests_total", "Requests."), LABELS)?;
    let latency = registry.histogram(("latency", "Latency."), LABELS, &BOUNDS)?;
    let counter = requests.with(values());
    let histogram = latency.with(values());

    let kept = (counter.clone(), histogram.clone());
    let mut built = Built::new(move || kept.0.value() as u64 + kept.1.count());
    built.contended(["bound", "contended2"], move |_| counter.add(black_box(1)));
    built.contended(["unbound3", "contended2_unbound3"], move |_| {
        requests.with(values()).add(black_box(1));
    });
    built.case("histogram", move |n| histogram.record(value(n)));
    built.case("histogram_unbound3", move |n| latency.with(values()).record(value(n)));
    Ok(built)
}
