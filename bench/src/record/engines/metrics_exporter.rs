//! `metrics` 0.24 with metrics-exporter-prometheus 0.18 as its recorder. Its key has an order: the same
//! labels in another one are another series, so that there is no case for that. Histograms keep every
//! value until the upkeep, which is outside the measurement; native ones do the same.

use std::hint::black_box;

use bench::Failure;
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::case::{ATTRIBUTES, BOUNDS, Built, value};
use crate::engines::written;

macro_rules! labelled {
    ($instrument:ident, $name:literal) => {{
        let [method, route, status] = ATTRIBUTES.map(|(_, value)| black_box(value));
        metrics::$instrument!(
            $name,
            "http.request.method" => method,
            "http.route" => route,
            "http.response.status_code" => status
        )
    }};
}

pub fn build() -> Result<Built, Failure> {
    let handle = PrometheusBuilder::new().set_buckets(&BOUNDS)?.install_recorder()?;
    let upkeep = handle.clone();
    let mut built = instrumented(move || written(&handle.render()));
    built.upkeep = Box::new(move || upkeep.run_upkeep());
    Ok(built)
}

/// The cases of a program that uses the facade, whichever recorder is installed.
pub fn instrumented(recorded: impl Fn() -> u64 + 'static) -> Built {
    let mut built = Built::new(recorded);
    let counter = labelled!(counter, "requests");
    built.contended(["bound", "contended2"], move |_| counter.increment(1));
    built.contended(["unbound3", "contended2_unbound3"], move |_| {
        labelled!(counter, "requests").increment(1);
    });
    let histogram = labelled!(histogram, "latency");
    built.case("histogram", move |n| histogram.record(value(n)));
    built.case("histogram_unbound3", move |n| labelled!(histogram, "latency").record(value(n)));
    built
}
