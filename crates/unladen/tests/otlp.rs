//! What the OTLP exporter sends, and what it makes of answers.

#[allow(dead_code, reason = "its main reads the environment, which tests share")]
#[path = "../examples/batch.rs"]
mod batch;
mod receiver;

use std::time::Duration;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data as Kind;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric};
use receiver::{Received, Receiver};
use unladen::export::otlp::Options;
use unladen::export::{Counts, Data, Error, Exporter, OtlpExporter, PeriodicReader, Reason};
use unladen::reader::{Reader, Temporalities};
use unladen::{Buckets, Registry, Resource, Scope, Spec, Trace};
use wire::otlp::{PartialSuccess, Response, Status};
use wire::protobuf::Message;

fn encoded(message: &impl Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    bytes
}

fn export(exporter: &mut OtlpExporter, reader: &mut Reader) -> Result<(), Error> {
    reader.collect(|batch| exporter.export(Data::Leased(*batch)))
}

fn pairs(attributes: &[KeyValue]) -> Vec<(String, Value)> {
    let value = |pair: &KeyValue| pair.value.clone().unwrap().value.unwrap();
    attributes.iter().map(|pair| (pair.key.clone(), value(pair))).collect()
}

fn text(value: &str) -> Value {
    Value::StringValue(value.to_owned())
}

/// All metrics of some requests by the name of their scope.
fn metrics(received: &[Received]) -> Vec<(String, Metric)> {
    let mut all = Vec::new();
    for resource in received.iter().flat_map(|one| &one.request.resource_metrics) {
        for scope in &resource.scope_metrics {
            let name = &scope.scope.as_ref().unwrap().name;
            all.extend(scope.metrics.iter().map(|metric| (name.clone(), metric.clone())));
        }
    }
    all
}

/// Name and value of each point of the sums in some requests.
fn sums(received: &[Received]) -> Vec<(String, i64)> {
    let mut all = Vec::new();
    for (_, metric) in metrics(received) {
        if let Some(Kind::Sum(sum)) = &metric.data {
            for point in &sum.data_points {
                let Some(Number::AsInt(value)) = point.value else { continue };
                all.push((metric.name.clone(), value));
            }
        }
    }
    all
}

#[test]
fn everything_gets_there() {
    for is_compressed in [false, true] {
        let resource = Resource::new().with("service.name", "shop").with_schema_url("https://s");
        let registry = Registry::builder().resource(resource).build();
        let scope = registry.scope(Scope::new("orders").with_version("1").with("k", "v"));
        let sold =
            scope.open_counter(Spec::new("sold_bytes_total", "Sold.").unit("bytes")).unwrap();
        let trace = Trace { trace_id: [1; 16], span_id: [2; 8] };
        sold.with(&[("item.name", "a \"b\"\n"), ("at", "here")]).add_traced(7, &trace);
        registry.gauge(("level", ""), []).unwrap().with([]).set(-0.5);
        registry.up_down_counter(("open", ""), []).unwrap().with([]).add(-3);
        let explicit = registry.histogram(("took", ""), ["x"], [1.0, 2.0]).unwrap();
        let native = registry.histogram(("n", ""), [], Buckets::native()).unwrap();
        for value in [1.5, 3.0, 3.0] {
            explicit.with(["y"]).record(value);
            native.with([]).record(value);
        }
        registry.histogram(("odd", ""), [], [1.0]).unwrap().with([]).record(f64::NAN);
        let limited = scope.counter(Spec::new("few_total", "").limit(1), ["x"]).unwrap();
        limited.with(["1"]).add(1);
        limited.with(["2"]).add(u64::MAX);

        let server = Receiver::start([]);
        let options = Options::to(&server.endpoint)
            .header("authorization", "Bearer x")
            .compressed(is_compressed);
        let mut exporter = OtlpExporter::new(options);
        let mut reader = Reader::new(&registry, exporter.temporalities());
        export(&mut exporter, &mut reader).unwrap();
        let received = server.requests();
        assert_eq!(received.len(), 1);
        let head = received[0].head.to_lowercase();
        assert!(head.starts_with("post /v1/metrics http/1.1\r\n"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf\r\n"));
        assert!(head.contains("authorization: bearer x\r\n"));
        let [of_resource] = &*received[0].request.resource_metrics else { panic!() };
        assert_eq!(of_resource.schema_url, "https://s");
        let resource = of_resource.resource.as_ref().unwrap();
        assert_eq!(pairs(&resource.attributes), [("service.name".into(), text("shop"))]);
        assert_eq!(of_resource.scope_metrics.len(), 2, "each scope once");
        let orders = of_resource.scope_metrics[0].scope.as_ref().unwrap();
        assert_eq!((&*orders.name, &*orders.version), ("orders", "1"));
        assert_eq!(pairs(&orders.attributes), [("k".into(), text("v"))]);

        let metrics = metrics(&received);
        let named = |name: &str| metrics.iter().find(|(_, metric)| metric.name == name).unwrap();
        let cumulative = AggregationTemporality::Cumulative as i32;
        let (scope, metric) = named("sold_bytes_total");
        assert_eq!((&**scope, &*metric.description, &*metric.unit), ("orders", "Sold.", "bytes"));
        let Some(Kind::Sum(sum)) = &metric.data else { panic!() };
        assert!(sum.is_monotonic && sum.aggregation_temporality == cumulative);
        let point = &sum.data_points[0];
        let expected = [("at".into(), text("here")), ("item.name".into(), text("a \"b\"\n"))];
        assert_eq!(pairs(&point.attributes), expected);
        assert_eq!(point.value, Some(Number::AsInt(7)));
        assert!(0 < point.start_time_unix_nano);
        assert!(point.start_time_unix_nano <= point.time_unix_nano);
        assert_eq!(point.exemplars[0].trace_id, [1; 16]);
        assert_eq!(point.exemplars[0].span_id, [2; 8]);
        let Some(Kind::Gauge(gauge)) = &named("level").1.data else { panic!() };
        assert_eq!(gauge.data_points[0].value, Some(Number::AsDouble(-0.5)));
        let Some(Kind::Sum(sum)) = &named("open").1.data else { panic!() };
        assert!(!sum.is_monotonic && sum.data_points[0].value == Some(Number::AsInt(-3)));
        let Some(Kind::Histogram(histogram)) = &named("took").1.data else { panic!() };
        let point = &histogram.data_points[0];
        assert_eq!((point.count, point.sum), (3, Some(7.5)));
        let Some(Kind::Histogram(odd)) = &named("odd").1.data else { panic!() };
        assert_eq!((odd.data_points[0].count, odd.data_points[0].sum), (1, None));
        assert_eq!(point.explicit_bounds, [1.0, 2.0]);
        assert_eq!(point.bucket_counts, [0, 1, 2]);
        let Some(Kind::ExponentialHistogram(histogram)) = &named("n").1.data else { panic!() };
        let point = &histogram.data_points[0];
        assert_eq!((point.count, point.sum, point.zero_count), (3, Some(7.5), 0));
        let counts = &point.positive.as_ref().unwrap().bucket_counts;
        assert_eq!(counts.iter().sum::<u64>(), 3);
        let Some(Kind::Sum(sum)) = &named("few_total").1.data else { panic!() };
        let overflow = &sum.data_points[1];
        let expected = [("otel.metric.overflow".into(), Value::BoolValue(true))];
        assert_eq!(pairs(&overflow.attributes), expected);
        assert_eq!(overflow.value, Some(Number::AsDouble(u64::MAX as f64)));
    }
}

#[test]
fn many_points_are_many_requests() {
    let registry = Registry::new();
    let (one, other) = (Scope::new("one"), Scope::new("other"));
    for (scope, name) in [(&one, "a_total"), (&other, "b_total"), (&one, "c_total")] {
        let family = registry.scope(scope.clone()).counter((name, ""), ["x"]).unwrap();
        (0..5u64).for_each(|index| family.with([&index.to_string()]).add(index + 1));
    }
    let server = Receiver::start([]);
    let mut exporter = OtlpExporter::new(Options::to(&server.endpoint).points_per_request(4));
    let mut reader = Reader::new(&registry, exporter.temporalities());
    export(&mut exporter, &mut reader).unwrap();
    let received = server.requests();
    let sizes: Vec<_> = received.iter().map(|one| sums(std::slice::from_ref(one)).len()).collect();
    assert_eq!(sizes, [4, 4, 4, 3]);
    let mut all = sums(&received);
    all.sort_unstable();
    let expected: Vec<_> = ["a_total", "b_total", "c_total"]
        .into_iter()
        .flat_map(|name| (1..=5).map(move |value| (name.to_owned(), value)))
        .collect();
    assert_eq!(all, expected);
}

/// What the metrics of the exports say.
fn counted(registry: &Registry) -> Vec<String> {
    let body = registry.write(Default::default(), String::new(), |mut body, chunk| {
        body.push_str(std::str::from_utf8(chunk).unwrap());
        body
    });
    let ours = body.lines().filter_map(|line| line.strip_prefix("unladen_export_"));
    ours.filter(|line| !line.ends_with(" 0"))
        .map(|line| line.replace("exporter=\"otlp\",", ""))
        .collect()
}

#[test]
fn what_waits_is_sent_again_or_superseded() {
    for (temporalities, expected, outcome) in [
        (Temporalities::CUMULATIVE, vec![3, 7], "superseded"),
        (Temporalities::DELTA, vec![3, 4], "sent"),
    ] {
        let registry = Registry::new();
        let counter = registry.counter(("a_total", ""), []).unwrap().with([]);
        let busy =
            || (503, "Retry-After: 1000\r\n", encoded(&Status { code: 14, message: "full" }));
        let server = Receiver::start([busy()]);
        let options = Options::to(&server.endpoint).temporalities(temporalities);
        let mut exporter = OtlpExporter::new(options);
        let mut reader = Reader::new(&registry, exporter.temporalities());
        counter.add(3);
        let error = export(&mut exporter, &mut reader).unwrap_err();
        assert_eq!((error.reason(), error.is_kept()), (Reason::Busy, true));
        let message = error.to_string();
        assert!(message.contains("503") && message.contains(": full; will be tried again"));
        let wait = exporter.retry_at().unwrap() - std::time::Instant::now();
        assert!(wait > Duration::from_secs(990), "{wait:?}");
        exporter.count_in(&Counts::new(&Registry::new(), "otlp").unwrap());
        let registry_of_counts = Registry::new();
        exporter.count_in(&Counts::new(&registry_of_counts, "otlp").unwrap());
        counter.add(4);
        let error = export(&mut exporter, &mut reader).unwrap_err();
        assert_eq!((error.reason(), error.is_kept()), (Reason::Waiting, true));
        assert_eq!(sums(&server.requests()), [("a_total".to_owned(), 3)], "asked once and no more");
        exporter.retry().unwrap();
        assert_eq!(exporter.retry_at(), None);
        let sent: Vec<_> = sums(&server.requests()).into_iter().map(|(_, value)| value).collect();
        let is_delta = temporalities == Temporalities::DELTA;
        assert_eq!(sent, if is_delta { expected } else { expected[1..].to_vec() });
        let sent = if is_delta { 2 } else { 1 };
        let mut points = vec![format!("points_total{{outcome=\"sent\"}} {sent}")];
        if !is_delta {
            points.push(format!("points_total{{outcome=\"{outcome}\"}} 1"));
        }
        assert_eq!(counted(&registry_of_counts), points);
    }
}

#[test]
fn what_is_not_taken_is_counted_and_told() {
    let registry = Registry::new();
    let family = registry.counter(("a_total", ""), ["x"]).unwrap();
    (0..5).for_each(|index| family.with([&index.to_string()]).add(1));
    let counts = Registry::new();
    let partial = PartialSuccess { rejected_data_points: 2, error_message: "too old" };
    let partial = encoded(&Response { partial_success: Some(partial) });
    let server = Receiver::start([(200, "", partial)]);
    let mut exporter = OtlpExporter::new(Options::to(&server.endpoint));
    exporter.count_in(&Counts::new(&counts, "otlp").unwrap());
    let mut reader = Reader::new(&registry, exporter.temporalities());
    let error = export(&mut exporter, &mut reader).unwrap_err();
    assert_eq!((error.reason(), error.is_kept()), (Reason::Partial, false));
    let expected = "otlp export: 2 of 5 points were rejected, for good: too old";
    assert_eq!(error.to_string(), expected);
    for (status, body, expected) in [
        (400, encoded(&Status { code: 3, message: "no metrics here" }), ": no metrics here"),
        (404, b"<h1>not\n found</h1>".to_vec(), ": <h1>not found</h1>"),
        (301, Vec::new(), "301"),
        (500, vec![b'x'; 500], "xxx…"),
    ] {
        server.answer((status, "", body));
        let error = export(&mut exporter, &mut reader).unwrap_err();
        assert_eq!((error.reason(), error.is_kept()), (Reason::Refused, false));
        assert!(error.to_string().contains(expected), "{error}");
    }
    let expected = ["points_total{outcome=\"sent\"} 3", "points_total{outcome=\"rejected\"} 22"];
    assert_eq!(counted(&counts), expected);
    assert_eq!(exporter.retry_at(), None);
    assert_eq!(server.requests().len(), 5);
}

#[test]
fn what_waits_is_bounded() {
    let registry = Registry::new();
    let counter = registry.counter(("a_total", ""), []).unwrap().with([]);
    let counts = Registry::new();
    // Bound and closed again, so that nobody is there.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = Options::to(&format!("http://{address}/"))
        .temporalities(Temporalities::DELTA)
        .waiting_bytes(250);
    let mut exporter = OtlpExporter::new(options);
    exporter.count_in(&Counts::new(&counts, "otlp").unwrap());
    let mut reader = Reader::new(&registry, exporter.temporalities());
    for _ in 0..10 {
        counter.add(1);
        let error = export(&mut exporter, &mut reader).unwrap_err();
        assert!(matches!(error.reason(), Reason::Unreachable | Reason::Waiting), "{error}");
    }
    let told = counted(&counts);
    let value = |start: &str| -> u64 {
        let line = told.iter().find(|line| line.starts_with(start)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let dropped = value("points_total{outcome=\"dropped\"}");
    assert!((4..9).contains(&dropped), "{told:?}");
    assert!(value("waiting_bytes") <= 250, "{told:?}");
    let error = exporter.shutdown().unwrap_err();
    let message = format!("{} points still waited", 10 - dropped);
    assert!(error.to_string().contains(&message), "{error}");
}

#[test]
fn a_reader_sends_a_last_time_when_it_ends() {
    let registry = Registry::new();
    let counter = registry.counter(("a_total", ""), []).unwrap().with([]);
    let server = Receiver::start([(503, "", Vec::new())]);
    let exporter = OtlpExporter::new(Options::to(&server.endpoint));
    let reader = PeriodicReader::builder(exporter).interval(Duration::from_secs(3600));
    let reader = reader.start(&registry).unwrap();
    counter.add(5);
    // Busy first; there is time for another attempt.
    reader.shutdown().unwrap();
    let all = sums(&server.requests());
    let of_ours = all.iter().filter(|(name, _)| name == "a_total").count();
    assert_eq!(of_ours, 2, "{all:?}");

    // Where there is no time, what is lost is told, and why.
    let busy = encoded(&Status { code: 14, message: "full" });
    let server = Receiver::start([(503, "Retry-After: 60\r\n", busy)]);
    let reader = PeriodicReader::builder(OtlpExporter::new(Options::to(&server.endpoint)));
    let reader = reader.interval(Duration::from_secs(3600)).timeout(Duration::from_secs(5));
    let error = reader.start(&registry).unwrap().shutdown().unwrap_err();
    assert_eq!(error.reason(), Reason::Timeout);
    let message = error.to_string();
    assert!(
        message.contains("are lost; before that: ") && message.ends_with(": full"),
        "{message}"
    );
}

#[test]
fn a_batch_job_tells_what_it_did() {
    let registry = Registry::new();
    registry.collect(unladen::process::Process::new());
    let server = Receiver::start([]);
    let exporter = OtlpExporter::new(Options::to(&server.endpoint));
    let reader = PeriodicReader::start(&registry, exporter).unwrap();
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let files = [manifest.to_owned(), "/does/not/exist".to_owned()];
    assert_eq!(batch::work(&registry, &files).unwrap(), 1);
    reader.shutdown().unwrap();
    let received = server.requests();
    let mut names: Vec<_> = metrics(&received).into_iter().map(|(_, metric)| metric.name).collect();
    names.retain(|name| !name.starts_with("process_") && !name.starts_with("unladen_"));
    let expected = ["job_files_total", "job_words_total", "job_file_duration_seconds"];
    assert_eq!(names, expected, "and no time of a success");
    let sums = sums(&received);
    assert_eq!(sums.iter().filter(|sum| **sum == ("job_files_total".to_owned(), 1)).count(), 2);
    assert!(sums.iter().any(|(name, words)| name == "job_words_total" && *words > 50));
    if cfg!(target_os = "linux") {
        let all = metrics(&received);
        assert!(all.iter().any(|(_, metric)| metric.name == "process_cpu_seconds_total"));
    }
}
