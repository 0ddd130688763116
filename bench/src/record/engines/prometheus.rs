//! prometheus 0.14. Its native histograms are none; in any order it takes a map of labels.

use std::collections::HashMap;
use std::hint::black_box;

use ::prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};
use bench::Failure;

use crate::case::{ATTRIBUTES, BOUNDS, Built, LABELS, value};

#[inline]
fn values() -> [&'static str; 3] {
    ATTRIBUTES.map(|(_, value)| black_box(value))
}

pub fn build() -> Result<Built, Failure> {
    let requests = IntCounterVec::new(Opts::new("requests", "Requests."), &LABELS)?;
    let options = HistogramOpts::new("latency", "Latency.").buckets(BOUNDS.to_vec());
    let latency = HistogramVec::new(options, &LABELS)?;
    let counter = requests.with_label_values(&values());
    let histogram = latency.with_label_values(&values());

    let kept = (counter.clone(), histogram.clone());
    let mut built = Built::new(move || kept.0.get() + kept.1.get_sample_count());
    built.contended(["bound", "contended2"], move |_| counter.inc_by(1));
    let unbound = requests.clone();
    built.contended(["unbound3", "contended2_unbound3"], move |_| {
        unbound.with_label_values(&values()).inc_by(1);
    });
    built.case("reordered3", move |_| {
        let [method, route, status] = values();
        let labels = [(LABELS[2], status), (LABELS[1], route), (LABELS[0], method)];
        requests.with(&HashMap::from(labels)).inc_by(1);
    });
    built.case("histogram", move |n| histogram.observe(value(n)));
    built.case("histogram_unbound3", move |n| {
        latency.with_label_values(&values()).observe(value(n));
    });
    Ok(built)
}
