//! Measuring through a door what is known already allocates nothing and frees nothing.

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use opentelemetry::{Array, Context, KeyValue, Value};
use testkit::allocations::{Count, count};
use unladen::{Format, Negotiated, Registry};

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

fn many() -> Vec<KeyValue> {
    let mut attributes: Vec<_> =
        (0..40).map(|index| KeyValue::new(format!("number.{index}"), index)).collect();
    attributes.push(KeyValue::new("share", 0.1));
    attributes.push(KeyValue::new("is", true));
    attributes.push(KeyValue::new("list", Value::Array(Array::F64(vec![0.5; 20]))));
    attributes.push(KeyValue::new("quoted", "a\"b"));
    attributes
}

#[test]
fn opentelemetry() {
    let registry = Registry::new();
    let meter = registry.meter_provider().meter("test");
    let counter = meter.u64_counter("requests").build();
    let level = meter.f64_up_down_counter("level").build();
    let gauge = meter.i64_gauge("offset").build();
    let histogram = meter.f64_histogram("age").build();
    meter
        .u64_observable_counter("asked")
        .with_callback({
            let many = many();
            move |observer| {
                observer.observe(7, &many);
                observer.observe(8, &[]);
            }
        })
        .build();
    let texts = [
        [KeyValue::new("method", "GET"), KeyValue::new("route", "/"), KeyValue::new("code", "200")],
        [KeyValue::new("code", "200"), KeyValue::new("method", "GET"), KeyValue::new("route", "/")],
    ];
    let repeated = [KeyValue::new("a", 1), KeyValue::new("b", 2), KeyValue::new("a", 3)];
    let odd = [KeyValue::new("__a", 1), KeyValue::new("", 2), KeyValue::new("le", "3")];
    let (many, mut turned) = (many(), many());
    turned.rotate_left(5);
    let bound = counter.bind(&many);
    let span = SpanContext::new(
        TraceId::from(1),
        SpanId::from(2),
        TraceFlags::SAMPLED,
        false,
        TraceState::default(),
    );
    let sampled = Context::new().with_remote_span_context(span);
    let use_all = || {
        for attributes in [&texts[0][..], &texts[1], &repeated, &odd, &many, &turned, &[]] {
            counter.add(1, attributes);
            level.add(-0.5, attributes);
            gauge.record(3, attributes);
            histogram.record(0.5, attributes);
        }
        bound.add(1);
    };
    let use_sampled = || {
        let _guard = sampled.clone().attach();
        use_all();
    };
    use_all();
    use_sampled();
    assert_eq!(count(use_all), Count::default(), "without a span");
    assert_eq!(count(use_sampled), Count::default(), "in a sampled span");
    let write = || {
        for format in [Format::Text, Format::OpenMetrics] {
            let negotiated = Negotiated { format, ..Negotiated::default() };
            let length = registry.write(negotiated, 0, |length, chunk| length + chunk.len());
            assert!(length > 1000);
        }
    };
    write();
    write();
    assert_eq!(count(write), Count::default(), "writing");
}
