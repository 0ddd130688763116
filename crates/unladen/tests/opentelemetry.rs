//! OpenTelemetry's metrics API in front of a registry, from the instrument to the body.

use std::borrow::Cow;
use std::sync::Arc;

use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use opentelemetry::{Array, Context, InstrumentationScope, KeyValue, StringValue, Value};
use unladen::reader::{Reader, Temporalities};
use unladen::{Buckets, Format, Negotiated, Registry, Translation, ValueType, View};
use wire::exposition::name::Escaping;

fn body_in(registry: &Registry, format: Format, escaping: Escaping) -> String {
    registry.write(Negotiated { format, escaping }, String::new(), |body, chunk| {
        body + std::str::from_utf8(chunk).unwrap()
    })
}

fn text(registry: &Registry) -> String {
    body_in(registry, Format::Text, Escaping::AllowUtf8)
}

fn open_metrics(registry: &Registry) -> String {
    body_in(registry, Format::OpenMetrics, Escaping::AllowUtf8)
}

/// The lines of series, without comments and without the label of the scope.
fn series(body: &str) -> Vec<String> {
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    let mut series: Vec<String> = lines
        .map(|line| {
            line.replace("otel_scope_name=\"test\",", "").replace("{otel_scope_name=\"test\"}", "")
        })
        .collect();
    series.sort_unstable();
    series
}

fn meter(registry: &Registry) -> Meter {
    registry.meter_provider().meter("test")
}

#[track_caller]
fn assert_valid(registry: &Registry) {
    let problems = registry.check();
    assert!(problems.is_empty(), "{problems:#?}");
}

fn all_instruments(meter: &Meter) {
    let of_a = &[KeyValue::new("a", "1")];
    meter.u64_counter("requests").with_unit("{request}").build().add(3, of_a);
    meter.f64_counter("cpu.time").with_unit("s").build().add(1.5, of_a);
    meter.i64_up_down_counter("open").build().add(-2, of_a);
    meter.f64_up_down_counter("level").with_unit("m").build().add(-0.5, of_a);
    meter.u64_gauge("size").with_unit("By").build().record(u64::MAX, of_a);
    meter.i64_gauge("offset").build().record(-7, of_a);
    meter.f64_gauge("use").with_unit("1").build().record(0.25, of_a);
    meter
        .f64_histogram("age")
        .with_unit("s")
        .with_boundaries(vec![1.0, 2.0])
        .build()
        .record(1.5, of_a);
    meter.u64_histogram("length").with_boundaries(vec![10.0]).build().record(11, of_a);
    let of_b = || [KeyValue::new("b", "2")];
    let asked = |name: &str| -> Cow<'static, str> { format!("asked.{name}").into() };
    meter
        .u64_observable_counter(asked("requests"))
        .with_callback(move |observer| observer.observe(5, &of_b()))
        .build();
    meter
        .f64_observable_counter(asked("time"))
        .with_unit("ms")
        .with_callback(move |observer| observer.observe(0.5, &of_b()))
        .build();
    meter
        .i64_observable_up_down_counter(asked("open"))
        .with_callback(move |observer| observer.observe(-5, &of_b()))
        .build();
    meter
        .f64_observable_up_down_counter(asked("level"))
        .with_callback(move |observer| observer.observe(-0.5, &of_b()))
        .build();
    meter
        .u64_observable_gauge(asked("size"))
        .with_callback(move |observer| observer.observe(6, &of_b()))
        .build();
    meter
        .i64_observable_gauge(asked("offset"))
        .with_callback(move |observer| observer.observe(-6, &of_b()))
        .with_callback(|observer| observer.observe(-7, &[]))
        .build();
    meter
        .f64_observable_gauge(asked("use"))
        .with_callback(move |observer| observer.observe(0.125, &of_b()))
        .build();
}

#[test]
fn every_instrument_comes_to_a_body() {
    let registry = Registry::new();
    all_instruments(&meter(&registry));
    let expected = [
        "age_seconds_bucket{a=\"1\",le=\"+Inf\"} 1",
        "age_seconds_bucket{a=\"1\",le=\"1\"} 0",
        "age_seconds_bucket{a=\"1\",le=\"2\"} 1",
        "age_seconds_count{a=\"1\"} 1",
        "age_seconds_sum{a=\"1\"} 1.5",
        "asked_level{b=\"2\"} -0.5",
        "asked_offset -7",
        "asked_offset{b=\"2\"} -6",
        "asked_open{b=\"2\"} -5",
        "asked_requests_total{b=\"2\"} 5",
        "asked_size{b=\"2\"} 6",
        "asked_time_milliseconds_total{b=\"2\"} 0.5",
        "asked_use{b=\"2\"} 0.125",
        "cpu_time_seconds_total{a=\"1\"} 1.5",
        "length_bucket{a=\"1\",le=\"+Inf\"} 1",
        "length_bucket{a=\"1\",le=\"10\"} 0",
        "length_count{a=\"1\"} 1",
        "length_sum{a=\"1\"} 11",
        "level_meters{a=\"1\"} -0.5",
        "offset{a=\"1\"} -7",
        "open{a=\"1\"} -2",
        "requests_total{a=\"1\"} 3",
        "size_bytes{a=\"1\"} 1.8446744073709552e+19",
        "use_ratio{a=\"1\"} 0.25",
    ];
    assert_eq!(series(&text(&registry)), expected);
    let body = open_metrics(&registry);
    assert!(body.ends_with("# EOF\n"));
    for line in [
        "# TYPE cpu_time_seconds counter\n# UNIT cpu_time_seconds seconds\n",
        "# TYPE use_ratio gauge\n# UNIT use_ratio ratio\n",
        "# TYPE age_seconds histogram\n# UNIT age_seconds seconds\n",
        "requests_total{otel_scope_name=\"test\",a=\"1\"} 3\n",
        "# TYPE asked_requests counter\n",
        "age_seconds_bucket{otel_scope_name=\"test\",a=\"1\",le=\"2.0\"} 1\n",
    ] {
        assert!(body.contains(line), "{line} in\n{body}");
    }
    assert_eq!(registry.conflicts(), [""; 0]);
    assert_valid(&registry);
}

#[test]
fn bound_instruments_are_the_same_series() {
    let registry = Registry::new();
    let meter = meter(&registry);
    let attributes = [KeyValue::new("code", 200), KeyValue::new("path", "/")];
    let turned = [KeyValue::new("path", "/"), KeyValue::new("code", 200)];
    let counter = meter.u64_counter("requests").build();
    counter.bind(&attributes).add(2);
    counter.add(1, &turned);
    let level = meter.f64_up_down_counter("level").build();
    level.bind(&attributes).add(-1.0);
    let gauge = meter.i64_gauge("offset").build();
    gauge.bind(&attributes).record(4);
    let histogram = meter.f64_histogram("age").with_boundaries(vec![]).build();
    histogram.bind(&attributes).record(0.5);
    histogram.record(0.5, &turned);
    let expected = [
        "age_bucket{code=\"200\",path=\"/\",le=\"+Inf\"} 2",
        "age_count{code=\"200\",path=\"/\"} 2",
        "age_sum{code=\"200\",path=\"/\"} 1",
        "level{code=\"200\",path=\"/\"} -1",
        "offset{code=\"200\",path=\"/\"} 4",
        "requests_total{code=\"200\",path=\"/\"} 3",
    ];
    assert_eq!(series(&text(&registry)), expected);
}

#[test]
fn values_of_all_types_in_any_order() {
    let registry = Registry::new();
    let counter = meter(&registry).u64_counter("x").build();
    let mut attributes = vec![
        KeyValue::new("text", "a\"b"),
        KeyValue::new("shared", Arc::<str>::from("c")),
        KeyValue::new("owned", String::from("d")),
        KeyValue::new("yes", true),
        KeyValue::new("int", i64::MIN),
        KeyValue::new("float", 1.0),
        KeyValue::new("tiny", -1.5e-7),
        KeyValue::new("nan", f64::NAN),
        KeyValue::new("inf", f64::NEG_INFINITY),
        KeyValue::new("bools", Value::Array(Array::Bool(vec![true, false]))),
        KeyValue::new("ints", Value::Array(Array::I64(vec![1, -2]))),
        KeyValue::new("floats", Value::Array(Array::F64(vec![0.5, f64::NAN]))),
        KeyValue::new(
            "texts",
            Value::Array(Array::String(vec!["e\"\u{1}".into(), StringValue::from("é")])),
        ),
        KeyValue::new("none", Value::Array(Array::I64(vec![]))),
    ];
    for _ in 0..attributes.len() {
        counter.add(1, &attributes);
        attributes.rotate_left(1);
    }
    // Of a name that stands twice, the last one counts.
    attributes.insert(0, KeyValue::new("int", 7));
    counter.add(1, &attributes);
    counter.add(1, &attributes);
    let expected = "x_total{bools=\"[true,false]\",float=\"1\",floats=\"[0.5,\\\"NaN\\\"]\",\
        inf=\"-Infinity\",int=\"-9223372036854775808\",ints=\"[1,-2]\",nan=\"NaN\",none=\"[]\",\
        owned=\"d\",shared=\"c\",text=\"a\\\"b\",texts=\"[\\\"e\\\\\\\"\\\\u0001\\\",\\\"é\\\"]\",\
        tiny=\"-1.5e-07\",yes=\"true\"} 16";
    assert_eq!(series(&text(&registry)), [expected]);
    assert_valid(&registry);
}

#[test]
fn no_attribute_spoils_a_body() {
    let registry = Registry::new();
    let meter = meter(&registry);
    let attributes = [
        KeyValue::new("", "nameless"),
        KeyValue::new("__name__", "other"),
        KeyValue::new("otel_scope_name", "mine"),
        KeyValue::new("otel_status", "kept"),
        KeyValue::new("le", 5),
        KeyValue::new("a.b", "1"),
        KeyValue::new("a_b", "2"),
    ];
    meter.f64_histogram("h").with_boundaries(vec![1.0]).build().record(0.5, &attributes);
    meter.u64_gauge("g").build().record(1, &attributes);
    meter
        .u64_observable_gauge("asked")
        .with_callback(move |observer| {
            observer.observe(1, &attributes);
            observer.observe(2, &attributes);
        })
        .build();
    let of_gauge = "g{_name__=\"other\",a_b=\"1;2\",le=\"5\",otel_scope_name=\"test\",\
        otel_status=\"kept\",scope_name=\"mine\"} 1";
    let of_count = "h_count{_name__=\"other\",a_b=\"1;2\",exported_le=\"5\",otel_scope_name=\"test\",\
        otel_status=\"kept\",scope_name=\"mine\"} 1";
    let body = text(&registry);
    assert!(body.contains(of_gauge) && body.contains(of_count), "{body}");
    let of_asked = of_gauge.replace("g{", "asked{").replace("} 1", "} 2");
    assert!(body.contains(&of_asked) && body.matches("\nasked{").count() == 1, "{body}");
    assert_valid(&registry);
}

#[test]
fn scopes_are_labels() {
    let registry = Registry::new();
    let provider = registry.meter_provider();
    let scope = InstrumentationScope::builder("lib")
        .with_version("1.2")
        .with_schema_url("https://example.com")
        .with_attributes([KeyValue::new("tier", 3)])
        .build();
    provider.meter_with_scope(scope).u64_counter("n").build().add(1, &[]);
    provider.meter("other").u64_counter("n").with_description("Said.").build().add(2, &[]);
    let body = text(&registry);
    let first = "n_total{otel_scope_name=\"lib\",otel_scope_version=\"1.2\",\
        otel_scope_schema_url=\"https://example.com\",otel_scope_tier=\"3\"} 1\n";
    assert!(body.contains(first), "{body}");
    // The descriptions differ, so one of them is told.
    assert!(body.contains("n_total{otel_scope_name=\"other\"} 2\n"), "{body}");
    assert_eq!(body.matches("# TYPE n_total").count(), 1);
    assert_eq!(registry.conflicts().len(), 1);
    assert_valid(&registry);
}

#[test]
fn the_same_again_is_the_same_and_conflicts_get_names_of_their_own() {
    let registry = Registry::new();
    let meter = meter(&registry);
    for _ in 0..2 {
        meter.u64_counter("n").with_description("A.").build().add(1, &[]);
        meter.u64_counter("N").with_description("A.").build().add(1, &[]);
    }
    assert_eq!(registry.conflicts(), [""; 0]);
    for _ in 0..2 {
        meter.u64_counter("n").with_description("B.").build().add(1, &[]);
        meter.f64_counter("n").with_description("A.").build().add(0.5, &[]);
        meter.i64_up_down_counter("n").build().add(-1, &[]);
        meter.f64_histogram("n").with_boundaries(vec![1.0]).build().record(1.0, &[]);
        meter.f64_histogram("n").with_boundaries(vec![2.0]).build().record(2.0, &[]);
        meter.u64_counter("n").with_unit("{apple}").build().add(7, &[]);
        meter.u64_observable_gauge("n").with_callback(|observer| observer.observe(9, &[])).build();
        // What a family of its own in the registry has is not taken from it.
        let _ = registry.gauge(("mine", ""), ["a"]);
        meter.u64_counter("mine").build().add(3, &[]);
    }
    let mut expected = [
        "n_total 6",
        "n_float_counter_total 1",
        "n_up_down_counter -2",
        "n_histogram_bucket{le=\"+Inf\"} 4",
        "n_histogram_bucket{le=\"1\"} 2",
        "n_histogram_count 4",
        "n_histogram_sum 6",
        "n_counter_total 14",
        "n_observable 9",
        "mine_counter_total 6",
        "unladen_instrument_conflicts_total 6",
    ];
    expected.sort_unstable();
    let body = text(&registry).replace("otel_scope_name=\"test\",le", "le");
    assert_eq!(series(&body), expected, "{:#?}", registry.conflicts());
    assert_eq!(registry.conflicts().len(), 6, "{:#?}", registry.conflicts());
    assert_valid(&registry);
}

#[test]
fn what_is_not_valid_is_told_and_does_no_harm() {
    let registry = Registry::new();
    let meter = meter(&registry);
    let long = "a".repeat(256);
    for name in ["", "9lives", "a b", "größe", long.as_str()] {
        let counter = meter.u64_counter(name.to_owned()).build();
        counter.add(1, &[]);
        counter.bind(&[]).add(1);
        meter
            .u64_observable_gauge(name.to_owned())
            .with_callback(|observer| observer.observe(1, &[]))
            .build();
    }
    let told = registry.conflicts();
    assert!(told.len() == 5 && told[1].contains("9lives"), "{told:#?}");
    meter.u64_counter("unit").with_unit("ü").build().add(1, &[]);
    let histogram = meter.f64_histogram("h").with_boundaries(vec![2.0, 1.0]).build();
    histogram.record(3.0, &[]);
    meter.f64_counter("falls").build().add(-1.0, &[]);
    let body = text(&registry);
    assert!(body.contains("unit_total{otel_scope_name=\"test\"} 1\n"), "{body}");
    assert!(body.contains("le=\"7500\"} 1\n"), "the default buckets: {body}");
    assert!(body.contains("falls_total{otel_scope_name=\"test\"} 0\n"), "{body}");
    assert!(body.contains("unladen_instrument_conflicts_total 7\n"), "{body}");
    assert_valid(&registry);
}

#[test]
fn views_apply() {
    let registry = Registry::builder()
        .view(View::of("http.dropped").drop())
        .view(View::of("http.requests").rename("http.calls").keep(["code"]))
        .view(View::of("*.duration").of_unit("s").buckets([0.5]).describe("Seen."))
        .view(View::of("busy").limit(2))
        .build();
    let meter = meter(&registry);
    meter.u64_counter("http.dropped").build().add(1, &[]);
    let requests = meter.u64_counter("http.requests").build();
    for id in 0..10 {
        requests.add(1, &[KeyValue::new("id", id), KeyValue::new("code", id % 2)]);
    }
    let asked = |observer: &dyn opentelemetry::metrics::AsyncInstrument<u64>| {
        for id in 0..4 {
            observer.observe(1, &[KeyValue::new("id", id)]);
        }
    };
    meter.u64_observable_counter("busy").with_callback(asked).build();
    meter.f64_histogram("http.duration").with_unit("s").build().record(0.1, &[]);
    let expected = [
        "busy_total{id=\"0\"} 1",
        "busy_total{id=\"1\"} 1",
        "busy_total{otel_metric_overflow=\"true\"} 2",
        "http_calls_total{code=\"0\"} 5",
        "http_calls_total{code=\"1\"} 5",
        "http_duration_seconds_bucket{le=\"+Inf\"} 1",
        "http_duration_seconds_bucket{le=\"0.5\"} 1",
        "http_duration_seconds_count 1",
        "http_duration_seconds_sum 0.1",
    ];
    let body = text(&registry);
    assert_eq!(series(&body), expected);
    assert!(body.contains("# HELP http_duration_seconds Seen.\n"), "{body}");
    assert_valid(&registry);
}

#[test]
fn names_as_the_strategy_says() {
    for (translation, escaping, expected) in [
        (
            None,
            Escaping::AllowUtf8,
            "http_time_seconds_total{otel_scope_name=\"test\",a_b=\"1\"} 1",
        ),
        (
            Some(Translation::UnderscoreEscapingWithoutSuffixes),
            Escaping::AllowUtf8,
            "http_time{a_b=\"1\",otel_scope_name=\"test\"} 1",
        ),
        (
            Some(Translation::NoUtf8EscapingWithSuffixes),
            Escaping::AllowUtf8,
            "{\"http.time_seconds_total\",otel_scope_name=\"test\",\"a.b\"=\"1\"} 1",
        ),
        (
            Some(Translation::NoTranslation),
            Escaping::Values,
            "U__http_2e_time{U__a_2e_b=\"1\",otel_scope_name=\"test\"} 1",
        ),
    ] {
        let registry = Registry::new();
        let mut provider = registry.meter_provider();
        if let Some(translation) = translation {
            provider = provider.translation(translation);
        }
        let counter = provider.meter("test").u64_counter("http.time").with_unit("s").build();
        counter.add(1, &[KeyValue::new("a.b", "1")]);
        let body = body_in(&registry, Format::Text, escaping);
        let line = body.lines().find(|line| !line.starts_with('#')).unwrap();
        let sorted = |line: &str| {
            let mut parts: Vec<_> = line.split([',', '{', '}']).map(str::to_owned).collect();
            parts.sort_unstable();
            parts
        };
        assert_eq!(sorted(line), sorted(expected), "{line} {expected}");
        assert_valid(&registry);
    }
}

fn in_span(flags: TraceFlags, run: impl FnOnce()) {
    let span = SpanContext::new(
        TraceId::from(0x1111_2222_3333_4444_5555_6666_7777_8888),
        SpanId::from(0x9999_aaaa_bbbb_cccc),
        flags,
        false,
        TraceState::default(),
    );
    let _guard = Context::new().with_remote_span_context(span).attach();
    run();
}

#[test]
fn sampled_spans_are_exemplars() {
    let trace = "# {trace_id=\"11112222333344445555666677778888\",span_id=\"9999aaaabbbbcccc\"}";
    for (flags, wanted, expected) in [
        (TraceFlags::SAMPLED, true, true),
        (TraceFlags::default(), true, false),
        (TraceFlags::SAMPLED, false, false),
    ] {
        let registry = Registry::new();
        let meter = registry.meter_provider().exemplars(wanted).meter("test");
        let counter = meter.u64_counter("n").build();
        let histogram = meter.f64_histogram("h").with_boundaries(vec![1.0]).build();
        in_span(flags, || {
            counter.add(2, &[]);
            histogram.bind(&[]).record(0.5);
        });
        counter.add(1, &[]);
        histogram.record(0.25, &[]);
        let body = open_metrics(&registry);
        let has = |line: &str| body.contains(&format!("{line} {trace} "));
        assert_eq!(has("n_total{otel_scope_name=\"test\"} 3"), expected, "{body}");
        let bucket = "h_bucket{otel_scope_name=\"test\",le=\"1.0\"} 2";
        assert_eq!(has(bucket), expected, "{body}");
        if expected {
            assert!(body.contains(&format!("{bucket} {trace} 0.5")), "{body}");
        }
        assert_valid(&registry);
    }
}

#[test]
fn other_settings() {
    let registry = Registry::new();
    let provider = registry.meter_provider().limit(1).buckets(Buckets::explicit([4.0]));
    let meter = provider.meter("test");
    let histogram = meter.f64_histogram("h").build();
    for id in 0..3 {
        histogram.record(5.0, &[KeyValue::new("id", id)]);
    }
    let body = text(&registry);
    assert!(body.contains("id=\"0\",le=\"4\"} 0\n"), "{body}");
    assert!(body.contains("otel_metric_overflow=\"true\",le=\"+Inf\"} 2\n"), "{body}");
}

#[test]
fn threads_lose_nothing() {
    let registry = Registry::new();
    let counter = meter(&registry).u64_counter("n").build();
    let (threads, each) = (4, 5_000);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let counter = counter.clone();
            scope.spawn(move || {
                let own = counter.bind(&[KeyValue::new("thread", thread)]);
                for step in 0..each {
                    counter.add(1, &[KeyValue::new("code", step % 3), KeyValue::new("a", "b")]);
                    own.add(1);
                }
            });
        }
        for _ in 0..20 {
            assert_valid(&registry);
        }
    });
    let total: u64 = series(&text(&registry))
        .iter()
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum();
    assert_eq!(total, 2 * threads as u64 * each as u64);
}

#[test]
fn a_callback_that_panics_spoils_its_own_instrument() {
    let registry = Registry::new();
    let meter = meter(&registry);
    meter.u64_observable_gauge("bad").with_callback(|_| panic!("on purpose")).build();
    meter.u64_observable_gauge("good").with_callback(|observer| observer.observe(1, &[])).build();
    let body = text(&registry);
    assert!(body.contains("good{otel_scope_name=\"test\"} 1\n"), "{body}");
    assert!(!body.contains("bad{"), "{body}");
}

/// Measures when the thread is over, after its context may be gone.
struct Last(opentelemetry::metrics::Counter<u64>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.add(1, &[KeyValue::new("code", 1)]);
    }
}

#[test]
fn a_thread_may_measure_while_it_ends() {
    thread_local! {
        static LAST: std::cell::OnceCell<Last> = const { std::cell::OnceCell::new() };
    }
    let registry = Registry::new();
    let counter = meter(&registry).u64_counter("n").build();
    for uses_before in [false, true] {
        let counter = counter.clone();
        std::thread::spawn(move || {
            LAST.with(|last| last.set(Last(counter.clone())).is_ok());
            if uses_before {
                counter.add(1, &[KeyValue::new("code", 1)]);
            }
        })
        .join()
        .unwrap();
    }
    assert_eq!(series(&text(&registry)), ["n_total{code=\"1\"} 3"]);
}

#[test]
fn readers_have_names_units_and_types_as_they_were_given() {
    let registry = Registry::new();
    let meter = meter(&registry);
    all_instruments(&meter);
    meter.i64_up_down_counter("requests").build().add(1, &[]);
    let typed = [
        KeyValue::new("text", "1"),
        KeyValue::new("int", 1),
        KeyValue::new("float", 1.5),
        KeyValue::new("is", true),
        KeyValue::new("list", Value::Array(Array::I64(vec![1]))),
    ];
    meter.u64_gauge("typed.one").build().record(1, &typed);
    let mut reader = Reader::new(&registry, Temporalities::CUMULATIVE);
    reader.collect(|batch| {
        let mut named: Vec<_> = batch.metrics().map(|m| (m.name(), m.unit())).collect();
        named.sort_unstable();
        let expected = [
            ("age", "s"),
            ("asked.level", ""),
            ("asked.offset", ""),
            ("asked.open", ""),
            ("asked.requests", ""),
            ("asked.size", ""),
            ("asked.time", "ms"),
            ("asked.use", ""),
            ("cpu.time", "s"),
            ("length", ""),
            ("level", "m"),
            ("offset", ""),
            ("open", ""),
            // Two of one name, as they were registered.
            ("requests", ""),
            ("requests", "{request}"),
            ("size", "By"),
            ("typed.one", ""),
            ("use", "1"),
        ];
        assert_eq!(named, expected);
        let one = batch.metrics().find(|metric| metric.name() == "typed.one").unwrap();
        assert_eq!(one.scope().name(), "test");
        let set = one.attributes().next().unwrap();
        let types: Vec<_> = set.iter().map(|(name, _, of)| (name.into_owned(), of)).collect();
        let expected = [
            ("float", ValueType::Float),
            ("int", ValueType::Integer),
            ("is", ValueType::Boolean),
            ("list", ValueType::Array),
            ("text", ValueType::Text),
        ];
        assert_eq!(types, expected.map(|(name, of)| (name.to_owned(), of)));
    });
}
