//! prometheus-client 0.25. A set of labels is a type of its own, so that there is no order to change.

use std::hint::black_box;

use bench::Failure;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, NativeHistogramConfig};
use prometheus_client::registry::Registry;

use crate::case::{ATTRIBUTES, BOUNDS, Built, NATIVE_BUCKETS, value};
use crate::engines::written;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    http_request_method: &'static str,
    http_route: &'static str,
    http_response_status_code: &'static str,
}

#[inline]
fn labels() -> Labels {
    let [method, route, status] = ATTRIBUTES.map(|(_, value)| black_box(value));
    Labels { http_request_method: method, http_route: route, http_response_status_code: status }
}

fn explicit() -> Histogram {
    Histogram::new(BOUNDS)
}

fn native() -> Histogram {
    let config = NativeHistogramConfig::with_schema(8).max_buckets(NATIVE_BUCKETS);
    Histogram::new_classic_and_native([], config)
}

pub fn build() -> Result<Built, Failure> {
    let requests = Family::<Labels, Counter>::default();
    let latency = Family::<Labels, Histogram, fn() -> Histogram>::new_with_constructor(explicit);
    let natives = Family::<Labels, Histogram, fn() -> Histogram>::new_with_constructor(native);
    let mut registry = Registry::default();
    registry.register("requests", "Requests.", requests.clone());
    registry.register("latency", "Latency.", latency.clone());
    registry.register("native", "Latency.", natives.clone());

    let mut built = Built::new(move || {
        let mut body = String::new();
        encode(&mut body, &registry).expect("a String takes everything");
        written(&body)
    });
    let counter = requests.get_or_create_owned(&labels());
    built.contended(["bound", "contended2"], move |_| {
        counter.inc_by(1);
    });
    built.contended(["unbound3", "contended2_unbound3"], move |_| {
        requests.get_or_create(&labels()).inc_by(1);
    });
    let histogram = latency.get_or_create_owned(&labels());
    built.case("histogram", move |n| histogram.observe(value(n)));
    built.case("histogram_unbound3", move |n| latency.get_or_create(&labels()).observe(value(n)));
    let native = natives.get_or_create_owned(&labels());
    built.case("histogram_native", move |n| native.observe(value(n)));
    Ok(built)
}
