//! Reading a body and writing one is steady work: it allocates nothing and frees nothing.

use testkit::allocations::{Count, count};
use wire::exposition::name::Escaping;
use wire::exposition::negotiate::Negotiated;
use wire::exposition::writer::{
    Buckets, Buffer, CHUNK, Exemplar, Extra, Family, LabelSet, LabelsRef, Native, StoredLabels,
    Summary, Value, Writer, dense, fold,
};
use wire::exposition::{Event, Format, Kind, Reader, messages};

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

const FORMATS: [Format; 3] = [Format::Text, Format::OpenMetrics, Format::Protobuf];

fn write(buffer: &mut Buffer, stored: &StoredLabels, negotiated: Negotiated, into: &mut Vec<u8>) {
    fold(
        buffer,
        negotiated,
        into,
        |into, chunk| {
            into.extend_from_slice(chunk);
            into
        },
        |out| {
            out.set_created_lines(true);
            write_all(stored, out);
        },
    );
}

fn write_all(stored: &StoredLabels, out: &mut Writer<'_>) {
    let labels = LabelSet::from(stored);
    let pairs = LabelSet::Pairs(&[("a", "b\n"), ("c.d", "\""), ("c_d", "")]);
    let common = LabelsRef::new(r#"otel_scope_name="x""#, true);
    let family = |name, kind| Family { common, ..Family::new(name, "Some \"help\".", kind) };
    let (timestamp_ms, created_ms) = (Some(1_500), Some(1_000));
    let exemplars = &[Exemplar { labels: pairs, value: 0.5, timestamp_ms }; 2];
    let extra = Extra { timestamp_ms, created_ms, exemplar: Some(exemplars[0]) };
    out.family(&family("requests_total", Kind::Counter));
    for index in 0..5_000u64 {
        out.number(labels, Value::Float(index as f64 * 1.5), &Extra::NONE);
        out.number(pairs, Value::Count(index), &extra);
    }
    out.family(&family("my.latency_seconds", Kind::Histogram));
    let bounds = &[0.1, 1.0];
    let native = Native {
        schema: 3,
        zero_threshold: 0.0,
        zero_count: 1,
        positive: dense(-5, &[1, 0, 0, 0, 7]),
        negative: dense(2, &[1; 60]),
        sum: 1.5,
        count: 69,
        exemplars,
        created_ms,
        timestamp_ms,
    };
    for labels in [labels, pairs] {
        let buckets = Buckets { bounds, counts: [17u64; 3], sum: 1.0, created_ms, timestamp_ms };
        out.histogram(labels, buckets);
        out.native_histogram(labels, &native);
        out.native_histogram_beside(labels, &native, buckets);
    }
    out.family(&family("age_seconds", Kind::Summary));
    let quantiles = &[(0.5, 1.0), (0.9, 2.0)];
    out.summary(pairs, &Summary { quantiles, sum: 3.0, count: 2, created_ms, timestamp_ms });
}

/// Goes through a body and all that is in it.
fn read(body: &[u8], format: Format) -> (f64, usize) {
    if format == Format::Protobuf {
        return read_messages(body);
    }
    let (mut values, mut labels) = (0.0, 0);
    for event in Reader::new(body, format) {
        if let Event::Sample(sample) = event.unwrap() {
            values += sample.reading.value;
            labels += sample.labels().map(|label| label.value.raw().len()).sum::<usize>();
        }
    }
    (values, labels)
}

fn read_messages(body: &[u8]) -> (f64, usize) {
    let (mut values, mut labels) = (0.0, 0);
    for event in messages::Reader::new(body) {
        let messages::Event::Metric(metric) = event.unwrap() else { continue };
        labels += metric.labels().map(|(_, value)| value.len()).sum::<usize>();
        values += match metric.value {
            messages::Value::Counter { value, exemplar, .. } => {
                labels += exemplar.map_or(0, |exemplar| exemplar.labels().count());
                value
            }
            messages::Value::Gauge(value) | messages::Value::Unknown(value) => value,
            messages::Value::Summary(summary) => summary.quantiles().map(|q| q.value).sum(),
            messages::Value::Histogram(histogram) => {
                labels += histogram.exemplars().map(|of| of.labels().count()).sum::<usize>();
                labels += histogram.positive_spans().chain(histogram.negative_spans()).count();
                let deltas = histogram.positive_deltas().chain(histogram.negative_deltas());
                deltas.sum::<i64>() as f64
                    + histogram.buckets().map(|bucket| bucket.upper_bound).sum::<f64>()
            }
        };
    }
    (values, labels)
}

#[test]
fn writing_and_reading_allocate_nothing() {
    let stored = StoredLabels::new([("job", "a\\b"), ("x.y", "z"), ("x_y", "")]);
    let mut buffer = Buffer::new();
    for format in FORMATS {
        for escaping in [Escaping::AllowUtf8, Escaping::Underscores, Escaping::Values] {
            let negotiated = Negotiated { format, escaping };
            let mut body = Vec::new();
            write(&mut buffer, &stored, negotiated, &mut body);
            assert!(body.len() > 3 * CHUNK, "several chunks");
            let before = body.clone();
            let during = count(|| {
                body.clear();
                write(&mut buffer, &stored, negotiated, &mut body);
            });
            assert_eq!(during, Count::ZERO, "writing {negotiated:?}");
            assert_eq!(body, before);
            let mut found = (0.0, 0);
            let during = count(|| found = read(&body, format));
            assert_eq!(during, Count::ZERO, "reading {negotiated:?}");
            assert!(found.0 > 0.0 && found.1 > 0);
        }
    }
}

/// What the bounds say fits is written without a call of the sink.
#[test]
fn what_fits_does_not_call_the_sink() {
    let label = "v".repeat(200);
    let stored = StoredLabels::new([("é.f", label.as_str()), ("g", "\"")]);
    let labels = stored.borrow();
    let common = StoredLabels::new([("otel.scope", "x")]);
    let counts = [1u64; 60];
    let exemplar = Exemplar { labels: labels.into(), value: 1e300, timestamp_ms: Some(i64::MAX) };
    for format in FORMATS {
        for escaping in [Escaping::AllowUtf8, Escaping::Underscores, Escaping::Values] {
            let mut written = 0;
            fold(&mut Buffer::new(), Negotiated { format, escaping }, &mut written, add, |out| {
                out.set_created_lines(true);
                for kind in [Kind::Counter, Kind::Histogram, Kind::Summary, Kind::Histogram] {
                    let name = "ä_longer_name_that_is_quoted_total";
                    out.family(&Family { common: common.borrow(), ..Family::new(name, "", kind) });
                    for _ in 0..300 {
                        metric_that_fits(out, kind, labels, exemplar, &counts);
                    }
                }
            });
            assert!(written > 5);
        }
    }
    fn add<'a>(calls: &'a mut usize, _: &[u8]) -> &'a mut usize {
        *calls += 1;
        calls
    }
}

fn metric_that_fits(
    out: &mut Writer<'_>,
    kind: Kind,
    labels: LabelsRef<'_>,
    exemplar: Exemplar<'_>,
    counts: &[u64],
) {
    // OpenMetrics can't tell what is nearer to the end.
    let time = i64::MAX - 1_000;
    let (created_ms, timestamp_ms) = (Some(time), Some(time));
    let bounds: [f64; 10] = std::array::from_fn(|index| 1e-300 * (1.1 + index as f64));
    let quantiles = &[(0.123_456_789_012_345_67, f64::MIN_POSITIVE); 3];
    let bound = match kind {
        Kind::Counter => out.number_bound(labels) + out.exemplar_bound(labels),
        Kind::Summary => out.summary_bound(labels, quantiles.len()),
        _ => out.native_bound(labels, counts.len(), bounds.len()) + out.exemplar_bound(labels),
    };
    if out.room() < bound {
        out.flush();
    }
    let room = out.room();
    assert!(room >= bound, "a chunk holds one");
    match kind {
        Kind::Counter => {
            let extra = Extra { timestamp_ms, created_ms, exemplar: Some(exemplar) };
            out.number(labels.into(), Value::Float(f64::MIN_POSITIVE), &extra);
        }
        Kind::Summary => {
            let summary = Summary { quantiles, sum: -1e-300, count: 1, created_ms, timestamp_ms };
            out.summary(labels.into(), &summary);
        }
        _ => {
            let native = Native {
                schema: 8,
                zero_threshold: 1e-300,
                zero_count: u64::MAX >> 1,
                positive: counts.iter().enumerate().map(|(at, count)| (9 * at as i32, *count)),
                negative: dense(0, &[]),
                sum: -1.234_567_890_123_456_7e-300,
                count: u64::MAX,
                exemplars: &[exemplar],
                created_ms,
                timestamp_ms,
            };
            let counts = [u64::MAX >> 8; 11];
            let sum = native.sum;
            let buckets = Buckets { bounds: &bounds, counts, sum, created_ms, timestamp_ms };
            out.native_histogram_beside(labels.into(), &native, buckets);
        }
    }
    assert!(out.room() < room, "{kind:?}: the sink was called");
    assert!(room - out.room() <= bound, "{kind:?}: more than the bound");
}
