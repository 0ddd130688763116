//! The protobuf exposition against the types that prost makes of its schema, in both directions.

#[path = "model/client.rs"]
mod client;
mod model;

use client::{Bucket, BucketSpan, LabelPair, MetricFamily, Timestamp};
use model::{
    ExemplarModel, FamilyModel, NativeModel, Pairs, ValueModel, as_they_are, body, family,
};
use proptest::prelude::*;
use prost::Message;
use wire::exposition::messages::{Event, Exemplar, Histogram, Metric, Reader, Value};
use wire::exposition::name::Escaping;
use wire::exposition::negotiate::Negotiated;
use wire::exposition::writer::{Buffer, CHUNK, Extra, Family, LabelSet, StoredLabels, fold};
use wire::exposition::{Format, Kind, writer};
use wire::protobuf::Reason;

fn label(pairs: &Pairs) -> Vec<LabelPair> {
    let pair = |(name, value): &(String, String)| LabelPair {
        name: Some(name.clone()),
        value: Some(value.clone()),
    };
    pairs.iter().map(pair).collect()
}

fn time(milliseconds: i64) -> Timestamp {
    Timestamp {
        seconds: milliseconds.div_euclid(1000),
        nanos: milliseconds.rem_euclid(1000) as i32 * 1_000_000,
    }
}

fn exemplar(model: &ExemplarModel) -> client::Exemplar {
    client::Exemplar {
        label: label(&model.labels),
        value: Some(model.value),
        timestamp: model.timestamp_ms.map(time),
    }
}

/// What the writer should make of the model.
fn expected(model: &FamilyModel) -> MetricFamily {
    let kind = match model.kind {
        Kind::Counter => 0,
        Kind::Gauge => 1,
        Kind::Summary => 2,
        Kind::Unknown => 3,
        Kind::Histogram => 4,
        Kind::GaugeHistogram => 5,
        other => panic!("{other:?}"),
    };
    let metric = model.metrics.iter().map(|metric| {
        let mut all = model.common.clone();
        all.extend(metric.labels.iter().cloned());
        let mut into = client::Metric {
            label: label(&all),
            timestamp_ms: metric.timestamp_ms,
            ..client::Metric::default()
        };
        let created_timestamp = metric.created_ms.map(time);
        match &metric.value {
            ValueModel::Number(value, with) if model.kind == Kind::Counter => {
                into.counter = Some(client::Counter {
                    value: Some(*value),
                    exemplar: with.as_ref().map(exemplar),
                    created_timestamp,
                });
            }
            ValueModel::Number(value, _) => {
                let number = Some(client::Number { value: Some(*value) });
                *if model.kind == Kind::Gauge { &mut into.gauge } else { &mut into.untyped } =
                    number;
            }
            ValueModel::Summary(quantiles, sum, count) => {
                let quantile = quantiles.iter().map(|(quantile, value)| client::Quantile {
                    quantile: Some(*quantile),
                    value: Some(*value),
                });
                into.summary = Some(client::Summary {
                    sample_count: Some(*count),
                    sample_sum: Some(*sum),
                    quantile: quantile.collect(),
                    created_timestamp,
                });
            }
            ValueModel::Buckets(bounds, counts, sum) => {
                let bounds = bounds.iter().copied().chain([f64::INFINITY]);
                let counts = counts.iter().map(|(count, with)| (*count, with.as_ref()));
                let (bucket, total) = buckets(bounds.zip(counts));
                into.histogram = Some(client::Histogram {
                    sample_count: Some(total),
                    sample_sum: Some(*sum),
                    bucket,
                    created_timestamp,
                    ..client::Histogram::default()
                });
            }
            ValueModel::Native(native) => {
                into.histogram = Some(client::Histogram { created_timestamp, ..histogram(native) });
            }
        }
        into
    });
    MetricFamily {
        name: Some(model.name.clone()),
        help: Some(model.help.clone()).filter(|help| !help.is_empty()),
        r#type: Some(kind),
        metric: metric.collect(),
        unit: None,
    }
}

fn buckets<'m>(
    counts: impl Iterator<Item = (f64, (u64, Option<&'m ExemplarModel>))>,
) -> (Vec<Bucket>, u64) {
    let mut total = 0;
    let bucket = counts.filter_map(|(bound, (count, with))| {
        total += count;
        (bound.is_finite() || with.is_some()).then(|| Bucket {
            cumulative_count: Some(total),
            upper_bound: Some(bound),
            exemplar: with.map(exemplar),
            ..Bucket::default()
        })
    });
    (bucket.collect(), total)
}

fn histogram(native: &NativeModel) -> client::Histogram {
    let bucket = native.beside.iter().flatten().map(|(bound, count)| (*bound, (*count, None)));
    let (bucket, _) = buckets(bucket);
    let (negative_span, negative_delta) = spans(&native.negative);
    let (mut positive_span, positive_delta) = spans(&native.positive);
    let is_told = !(negative_span.is_empty() && positive_span.is_empty());
    if !is_told && native.zero_threshold == 0.0 && native.zero_count == 0 {
        positive_span.push(BucketSpan { offset: Some(0), length: Some(0) });
    }
    client::Histogram {
        sample_count: Some(native.count()),
        sample_sum: Some(native.sum),
        bucket,
        schema: Some(native.schema.into()),
        zero_threshold: Some(native.zero_threshold),
        zero_count: Some(native.zero_count),
        negative_span,
        negative_delta,
        positive_span,
        positive_delta,
        exemplars: native.exemplars.iter().map(exemplar).collect(),
        ..client::Histogram::default()
    }
}

/// Spans and differences, the slow way: empty buckets at the ends go, and those in the middle if they
/// are three or more.
fn spans((offset, counts): &(i32, Vec<u64>)) -> (Vec<BucketSpan>, Vec<i64>) {
    let Some(last) = counts.iter().rposition(|count| *count > 0) else { return Default::default() };
    let (mut spans, mut deltas) = (Vec::<BucketSpan>::new(), Vec::new());
    let (mut at, mut end, mut before) = (0, 0, 0);
    while at <= last {
        let zeros = counts[at..].iter().take_while(|count| **count == 0).count();
        if spans.is_empty() || zeros > 2 {
            let first = if spans.is_empty() { *offset } else { 0 };
            at += zeros;
            let gap = first + (at - end) as i32;
            spans.push(BucketSpan { offset: Some(gap), length: Some(0) });
        }
        let count = counts[at] as i64;
        deltas.push(count - before);
        before = count;
        at += 1;
        end = at;
        let span = spans.last_mut().unwrap();
        span.length = span.length.map(|length| length + 1);
    }
    (spans, deltas)
}

fn decode(mut body: &[u8]) -> Vec<MetricFamily> {
    let mut families = Vec::new();
    while !body.is_empty() {
        families.push(MetricFamily::decode_length_delimited(&mut body).expect("a message"));
    }
    families
}

/// Equal bit for bit, NaN too.
fn assert_same(ours: &MetricFamily, theirs: &MetricFamily) {
    assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
}

fn read_exemplar(exemplar: &Exemplar<'_>) -> client::Exemplar {
    client::Exemplar {
        label: read_labels(exemplar.labels()),
        value: Some(exemplar.value),
        timestamp: exemplar.timestamp_ms.map(time),
    }
}

fn read_labels<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<LabelPair> {
    labels
        .map(|(name, value)| LabelPair {
            name: Some(name.to_owned()),
            value: Some(value.to_owned()),
        })
        .collect()
}

fn read_histogram(histogram: &Histogram<'_>) -> client::Histogram {
    let span = |span: wire::exposition::messages::Span| BucketSpan {
        offset: Some(span.offset),
        length: Some(span.length),
    };
    client::Histogram {
        sample_count: Some(histogram.count),
        sample_count_float: Some(histogram.count_float),
        sample_sum: Some(histogram.sum),
        bucket: histogram
            .buckets()
            .map(|bucket| Bucket {
                cumulative_count: Some(bucket.cumulative_count),
                cumulative_count_float: Some(bucket.cumulative_count_float),
                upper_bound: Some(bucket.upper_bound),
                exemplar: bucket.exemplar.as_ref().map(read_exemplar),
            })
            .collect(),
        created_timestamp: histogram.created_ms.map(time),
        schema: Some(histogram.schema),
        zero_threshold: Some(histogram.zero_threshold),
        zero_count: Some(histogram.zero_count),
        zero_count_float: Some(histogram.zero_count_float),
        negative_span: histogram.negative_spans().map(span).collect(),
        negative_delta: histogram.negative_deltas().collect(),
        negative_count: histogram.negative_counts().collect(),
        positive_span: histogram.positive_spans().map(span).collect(),
        positive_delta: histogram.positive_deltas().collect(),
        positive_count: histogram.positive_counts().collect(),
        exemplars: histogram.exemplars().map(|exemplar| read_exemplar(&exemplar)).collect(),
    }
}

fn read_metric(metric: &Metric<'_>, kind: Kind) -> client::Metric {
    let mut into = client::Metric {
        label: read_labels(metric.labels()),
        timestamp_ms: metric.timestamp_ms,
        ..client::Metric::default()
    };
    match metric.value {
        Value::Counter { value, exemplar, created_ms } => {
            into.counter = Some(client::Counter {
                value: Some(value),
                exemplar: exemplar.as_ref().map(read_exemplar),
                created_timestamp: created_ms.map(time),
            });
        }
        Value::Gauge(value) => into.gauge = Some(client::Number { value: Some(value) }),
        Value::Unknown(value) => into.untyped = Some(client::Number { value: Some(value) }),
        Value::Summary(summary) => {
            into.summary = Some(client::Summary {
                sample_count: Some(summary.count),
                sample_sum: Some(summary.sum),
                quantile: summary
                    .quantiles()
                    .map(|quantile| client::Quantile {
                        quantile: Some(quantile.quantile),
                        value: Some(quantile.value),
                    })
                    .collect(),
                created_timestamp: summary.created_ms.map(time),
            });
        }
        Value::Histogram(histogram) => {
            assert!(matches!(kind, Kind::Histogram | Kind::GaugeHistogram));
            into.histogram = Some(read_histogram(&histogram));
        }
    }
    into
}

/// The families of a body, read by our reader.
fn read(body: &[u8]) -> Vec<MetricFamily> {
    let mut families: Vec<MetricFamily> = Vec::new();
    let mut kind = Kind::Unknown;
    for event in Reader::new(body) {
        match event.expect("a readable body") {
            Event::Family(family) => {
                kind = family.kind;
                let number = [
                    Kind::Counter,
                    Kind::Gauge,
                    Kind::Summary,
                    Kind::Unknown,
                    Kind::Histogram,
                    Kind::GaugeHistogram,
                ];
                families.push(MetricFamily {
                    name: Some(family.name.to_owned()),
                    help: Some(family.help.to_owned()),
                    r#type: number.iter().position(|k| *k == kind).map(|at| at as i32),
                    metric: Vec::new(),
                    unit: Some(family.unit.to_owned()),
                });
            }
            Event::Metric(metric) => {
                families.last_mut().unwrap().metric.push(read_metric(&metric, kind));
            }
        }
    }
    families
}

/// Says what is the default by its absence, as the reader does not tell the two apart.
fn with_defaults(mut family: MetricFamily) -> MetricFamily {
    family.help.get_or_insert_default();
    family.unit.get_or_insert_default();
    for histogram in family.metric.iter_mut().filter_map(|metric| metric.histogram.as_mut()) {
        histogram.sample_count_float.get_or_insert_default();
        histogram.schema.get_or_insert_default();
        histogram.zero_threshold.get_or_insert_default();
        histogram.zero_count.get_or_insert_default();
        histogram.zero_count_float.get_or_insert_default();
        for bucket in &mut histogram.bucket {
            bucket.cumulative_count_float.get_or_insert_default();
        }
    }
    family
}

/// Makes counts that are no whole numbers of those that are.
fn into_floats(histogram: &mut client::Histogram) {
    let sums = |deltas: &mut Vec<i64>| {
        let mut sum = 0.0;
        std::mem::take(deltas)
            .into_iter()
            .map(|delta| {
                sum += delta as f64 / 4.0;
                sum
            })
            .collect()
    };
    histogram.positive_count = sums(&mut histogram.positive_delta);
    histogram.negative_count = sums(&mut histogram.negative_delta);
    histogram.sample_count_float = Some(0.25 + histogram.sample_count.unwrap_or(0) as f64 / 4.0);
    histogram.zero_count_float = Some(histogram.zero_count.unwrap_or(0) as f64 / 4.0);
    for bucket in &mut histogram.bucket {
        bucket.cumulative_count_float = Some(bucket.cumulative_count.unwrap_or(0) as f64 / 4.0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// What we write is what prost reads, and what our reader reads.
    #[test]
    fn written_messages_are_those_of_the_schema(models in prop::collection::vec(family(), 0..4)) {
        let body = body(&models, as_they_are(Format::Protobuf));
        // A family without metrics is not in the body.
        let models: Vec<_> = models.iter().filter(|model| !model.metrics.is_empty()).collect();
        let families = decode(&body);
        prop_assert_eq!(families.len(), models.len());
        let again = read(&body);
        for ((ours, again), model) in families.into_iter().zip(&again).zip(models) {
            assert_same(&ours, &expected(model));
            assert_same(again, &with_defaults(ours));
        }
    }

    /// What prost writes is what our reader reads, also with lists packed and with counts that are no
    /// whole numbers.
    #[test]
    fn messages_of_the_schema_are_read(model in family(), floats: bool) {
        let mut family = expected(&model);
        family.unit = Some("seconds".to_owned());
        if floats {
            family.metric.iter_mut().filter_map(|m| m.histogram.as_mut()).for_each(into_floats);
        }
        let body = family.encode_length_delimited_to_vec();
        let read = read(&body);
        prop_assert_eq!(read.len(), 1);
        assert_same(&read[0], &with_defaults(family));
    }

    /// Cut off or changed anywhere, a body is read or refused, and the place of the fault is within it.
    #[test]
    fn nothing_panics(model in family(), cut in 0..2000usize, at in 0..2000usize, to: u8) {
        let mut body = expected(&model).encode_length_delimited_to_vec();
        body.truncate(body.len().min(cut));
        let at = at % body.len().max(1);
        if let Some(byte) = body.get_mut(at) {
            *byte = to;
        }
        for event in Reader::new(&body) {
            match event {
                Ok(Event::Metric(metric)) => {
                    read_metric(&metric, Kind::Histogram);
                }
                Ok(Event::Family(_)) => {}
                Err(error) => prop_assert!(error.offset <= body.len(), "{error}"),
            }
        }
    }

    #[test]
    fn every_spelling_can_be_read(model in family()) {
        for escaping in [Escaping::Underscores, Escaping::Dots, Escaping::Values] {
            let negotiated = Negotiated { format: Format::Protobuf, escaping };
            for family in decode(&body(std::slice::from_ref(&model), negotiated)) {
                for metric in family.metric {
                    let names: std::collections::HashSet<_> =
                        metric.label.iter().map(|label| label.name.clone()).collect();
                    prop_assert_eq!(names.len(), metric.label.len());
                }
            }
        }
    }
}

/// A large family comes in several messages, each whole within a chunk, and nothing is lost; a metric
/// that no chunk holds goes out in pieces.
#[test]
fn a_family_of_many_series_comes_in_several_messages() {
    let long = "x".repeat(3 * CHUNK);
    let (body, sizes) = fold(
        &mut Buffer::new(),
        as_they_are(Format::Protobuf),
        (Vec::new(), Vec::new()),
        |(mut body, mut sizes), chunk| {
            // Not commutative.
            body.extend_from_slice(chunk);
            sizes.push(chunk.len());
            (body, sizes)
        },
        |out| {
            out.family(&Family::new("a", "Help.", Kind::Gauge));
            for index in 0..10_000u64 {
                let index_text = index.to_string();
                let value = if index == 5_000 { &long } else { &index_text };
                let labels = StoredLabels::new([("i", value.as_str())]);
                out.number((&labels).into(), writer::Value::Count(index), &Extra::NONE);
            }
            out.family(&Family::new("empty", "", Kind::Gauge));
            out.family(&Family::new("b", "", Kind::Unknown));
            out.number(LabelSet::EMPTY, writer::Value::Integer(-1), &Extra::NONE);
        },
    );
    assert!(sizes.iter().all(|size| *size <= CHUNK && *size > 0));
    let families = decode(&body);
    assert!(families.len() > 5, "several messages");
    let (last, parts) = families.split_last().unwrap();
    assert_eq!(last.name.as_deref(), Some("b"));
    let mut index = 0.0;
    for part in parts {
        assert_eq!((part.name.as_deref(), part.help.as_deref()), (Some("a"), Some("Help.")));
        for metric in &part.metric {
            assert_eq!(metric.gauge.as_ref().unwrap().value, Some(index));
            index += 1.0;
        }
    }
    assert_eq!(index, 10_000.0);
    assert_eq!(read(&body).len(), families.len());
}

#[test]
fn what_is_no_exposition_is_refused_with_its_place() {
    let number = |value| Some(client::Number { value: Some(value) });
    let good = MetricFamily {
        name: Some("a".to_owned()),
        r#type: Some(1),
        metric: vec![client::Metric { gauge: number(1.0), ..client::Metric::default() }],
        ..MetricFamily::default()
    };
    let spans = client::Histogram {
        positive_span: vec![BucketSpan { offset: Some(0), length: Some(2) }],
        positive_delta: vec![1],
        ..client::Histogram::default()
    };
    let metric = |metric| MetricFamily { metric: vec![metric], ..good.clone() };
    let encode = |family: MetricFamily| family.encode_length_delimited_to_vec();
    for (what, body, offset, reason) in [
        ("cut", encode(good.clone())[..9].to_vec(), 0, Reason::Truncated),
        ("no name", encode(MetricFamily { name: None, ..good.clone() }), 1, Reason::Missing),
        ("type", encode(MetricFamily { r#type: Some(6), ..good.clone() }), 5, Reason::Value),
        ("another value", encode(metric(client::Metric::default())), 8, Reason::Missing),
        (
            "spans",
            encode(MetricFamily {
                r#type: Some(4),
                ..metric(client::Metric { histogram: Some(spans), ..client::Metric::default() })
            }),
            10,
            Reason::Value,
        ),
        ("group", vec![2, 0x0b, 0x0c], 1, Reason::Group),
        ("not UTF-8", vec![4, 0x0a, 2, b'a', 0xff], 4, Reason::NotUtf8),
        ("length", vec![0xff; 11], 0, Reason::OverlongVarint),
    ] {
        let error = Reader::new(&body).find_map(Result::err).unwrap_or_else(|| panic!("{what}"));
        assert_eq!((error.offset, error.reason), (offset, reason), "{what}");
        assert!(error.to_string().contains(&format!("byte {offset}")));
    }
    // A field that nobody knows is skipped, at every depth.
    let gauge = [0x98, 0x06, 7, 0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f];
    let metric = [&[0x12, gauge.len() as u8][..], &gauge, &[0x7d, 1, 2, 3, 4]].concat();
    let family =
        [&[0x0a, 1, b'a', 0x18, 1, 0x7a, 2, b'?', b'?', 0x22, metric.len() as u8], &metric[..]];
    let family = family.concat();
    let unknown = [&[family.len() as u8], &family[..]].concat();
    let events: Vec<_> = Reader::new(&unknown).map(|event| event.unwrap()).collect();
    assert!(
        matches!(
            events[..],
            [Event::Family(_), Event::Metric(Metric { value: Value::Gauge(1.0), .. })]
        ),
        "{events:?}"
    );
}

/// Seconds and what is beyond them may each be out of a millisecond's range where both together are not.
#[test]
fn times_of_any_size_are_read_back() {
    for created in [i64::MIN, i64::MIN + 192, -1_001, -1, 0, 999, i64::MAX] {
        let append = |mut body: Vec<u8>, chunk: &[u8]| {
            body.extend_from_slice(chunk);
            body
        };
        let negotiated = as_they_are(Format::Protobuf);
        let body = fold(&mut Buffer::new(), negotiated, Vec::new(), append, |out| {
            out.family(&Family::new("a_total", "", Kind::Counter));
            let extra = Extra { created_ms: Some(created), ..Extra::NONE };
            out.number(LabelSet::EMPTY, writer::Value::Count(1), &extra);
        });
        let read = Reader::new(&body).find_map(|event| match event.unwrap() {
            Event::Metric(Metric { value: Value::Counter { created_ms, .. }, .. }) => created_ms,
            _ => None,
        });
        assert_eq!(read, Some(created));
    }
}
