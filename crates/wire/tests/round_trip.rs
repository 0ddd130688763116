//! What is written reads back as the same families, series and values, whatever the names and texts.

use proptest::prelude::*;
use wire::exposition::name::Escaping;
use wire::exposition::negotiate::Negotiated;
use wire::exposition::writer::{
    Buckets, Buffer, Exemplar, Extra, Family, LabelSet, Native, StoredLabels, Summary, Value,
    dense, fold, to_io,
};
use wire::exposition::{Event, Format, Kind, Reader};

type Pairs = Vec<(String, String)>;

#[derive(Clone, Debug)]
struct Line {
    labels: Pairs,
    value: f64,
    timestamp_ms: Option<i64>,
    exemplar: Option<(Pairs, f64)>,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z \"\\\\\n{},=#]{0,8}", "\\PC{0,8}"]
}

fn pairs() -> impl Strategy<Value = Pairs> {
    let name = prop_oneof!["[a-zA-Z_][a-zA-Z0-9_]{0,5}", "[a-z.\"\\\\ :é]{1,6}"];
    prop::collection::btree_map(name, text(), 0..20).prop_map(|map| map.into_iter().collect())
}

fn line() -> impl Strategy<Value = Line> {
    let timestamp = proptest::option::of(0..4_000_000_000_000i64);
    let exemplar = proptest::option::of((pairs(), -1e9..1e9f64));
    (pairs(), any::<f64>(), timestamp, exemplar).prop_map(
        |(labels, value, timestamp_ms, exemplar)| Line { labels, value, timestamp_ms, exemplar },
    )
}

fn borrowed(pairs: &Pairs) -> Vec<(&str, &str)> {
    pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// The kind that may have exemplars.
const KIND: Kind = Kind::Counter;

fn body(format: Format, name: &str, help: &str, lines: &[Line], stored: bool) -> Vec<u8> {
    let negotiated = Negotiated { format, escaping: Escaping::AllowUtf8 };
    let mut body = Vec::new();
    to_io(&mut Buffer::new(), negotiated, &mut body, |out| {
        out.family(&Family::new(name, help, KIND));
        for line in lines {
            let pairs = borrowed(&line.labels);
            let kept = StoredLabels::new(pairs.iter().copied());
            let exemplar = line.exemplar.as_ref().map(|(pairs, value)| (borrowed(pairs), *value));
            let labels = if stored { LabelSet::from(&kept) } else { LabelSet::Pairs(&pairs) };
            let extra = Extra {
                timestamp_ms: line.timestamp_ms,
                created_ms: None,
                exemplar: exemplar.as_ref().map(|(pairs, value)| Exemplar {
                    labels: LabelSet::Pairs(pairs),
                    value: *value,
                    timestamp_ms: line.timestamp_ms,
                }),
            };
            out.number(labels, Value::Float(line.value), &extra);
        }
    })
    .unwrap();
    body
}

fn owned(labels: wire::exposition::Labels<'_>) -> Pairs {
    labels.map(|label| (label.name.to_string(), label.value.to_string())).collect()
}

/// Seconds in floating point hold a millisecond only to within one.
fn close(read: Option<i64>, written: Option<i64>) -> bool {
    match (read, written) {
        (Some(read), Some(written)) => (read - written).abs() <= 1,
        (read, written) => read == written,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn what_is_written_reads_back(
        name in prop_oneof!["[a-zA-Z_:][a-zA-Z0-9_:]{0,8}_total", "[a-z.\"\\\\ é]{1,8}_total"],
        help in text(),
        lines in prop::collection::vec(line(), 0..6),
        stored: bool,
    ) {
        for format in [Format::Text, Format::OpenMetrics] {
            let body = body(format, &name, &help, &lines, stored);
            let family_name =
                if format == Format::Text { &name[..] } else { name.strip_suffix("_total").unwrap() };
            let mut events = Reader::new(&body, format);
            let mut next = || events.next().map(|event| event.unwrap());
            // Nothing but blanks is no text in 0.0.4.
            if !help.is_empty() {
                let Some(Event::Help { family, text }) = next() else { panic!("no help") };
                prop_assert_eq!(family.to_string(), family_name);
                let blank = format == Format::Text && help.bytes().all(|b| b == b' ');
                prop_assert_eq!(text.to_string(), if blank { "" } else { &help });
            }
            let Some(Event::Type { family, kind: KIND }) = next() else { panic!("no type") };
            prop_assert_eq!(family.to_string(), family_name);
            for line in &lines {
                let Some(Event::Sample(sample)) = next() else { panic!("no sample") };
                let mut expected = vec![("__name__".to_owned(), name.clone())];
                expected.extend(line.labels.iter().cloned());
                prop_assert_eq!(owned(sample.labels()), expected);
                prop_assert!(
                    sample.reading.value == line.value
                        || (sample.reading.value.is_nan() && line.value.is_nan())
                );
                prop_assert!(close(sample.reading.timestamp_ms, line.timestamp_ms));
                match (&line.exemplar, sample.reading.exemplar) {
                    (Some((pairs, value)), Some(read)) => {
                        prop_assert_eq!(owned(read.labels()), pairs.clone());
                        prop_assert_eq!(read.value, *value);
                        prop_assert!(close(read.timestamp_ms, line.timestamp_ms));
                    }
                    (exemplar, read) => {
                        prop_assert!(read.is_none());
                        prop_assert!(exemplar.is_none() || format == Format::Text);
                    }
                }
            }
            prop_assert!(next().is_none());
        }
    }
}

#[test]
fn the_sink_gets_chunks_in_order_and_its_state_back() {
    let negotiated = Negotiated { format: Format::OpenMetrics, escaping: Escaping::AllowUtf8 };
    let long = "x".repeat(200_000);
    // Not commutative: swapping state and chunk, or two chunks, would show.
    let (text, sizes) = fold(
        &mut Buffer::new(),
        negotiated,
        (String::from(">"), Vec::new()),
        |(mut text, mut sizes), chunk| {
            text.push_str(std::str::from_utf8(chunk).unwrap());
            sizes.push(chunk.len());
            (text, sizes)
        },
        |out| {
            out.family(&Family::new("a_total", &long, Kind::Counter));
            out.number(LabelSet::EMPTY, Value::Float(3.0), &Extra::NONE);
        },
    );
    assert_eq!(text, format!("># HELP a {long}\n# TYPE a counter\na_total 3.0\n# EOF\n"));
    assert_eq!(sizes[..3], [65_536; 3]);
    assert_eq!(sizes.len(), 4);
}

/// Labels that come out the same under the other side's spelling are one, with both values; and labels
/// that all series have are there however they are spelt.
#[test]
fn names_that_collide_are_joined() {
    let common = StoredLabels::new([("scope.name", "s")]);
    let plain = StoredLabels::new([("z", "1")]);
    let own =
        StoredLabels::new([("a_b", "2"), ("a.b", "\"1"), ("scope_name", "t"), ("é__name__", "")]);
    for (format, escaping, expected) in [
        (
            Format::Text,
            Escaping::Underscores,
            "x{scope_name=\"s\",z=\"1\"} 1\nx{scope_name=\"s\"} 2\n\
             x{___name__=\"\",a_b=\"\\\"1;2\",scope_name=\"s;t\"} 3\n",
        ),
        (
            Format::Text,
            Escaping::AllowUtf8,
            "x{\"scope.name\"=\"s\",z=\"1\"} 1\nx{\"scope.name\"=\"s\"} 2\n\
             x{\"scope.name\"=\"s\",a_b=\"2\",\"a.b\"=\"\\\"1\",scope_name=\"t\",\
             \"é__name__\"=\"\"} 3\n",
        ),
        (
            Format::OpenMetrics,
            Escaping::Values,
            "x{U__scope_2e_name=\"s\",z=\"1\"} 1\nx{U__scope_2e_name=\"s\"} 2\n\
             x{U___e9_____name____=\"\",U__a_2e_b=\"\\\"1\",U__scope_2e_name=\"s\",a_b=\"2\",\
             scope_name=\"t\"} 3\n# EOF\n",
        ),
    ] {
        let mut body = Vec::new();
        to_io(&mut Buffer::new(), Negotiated { format, escaping }, &mut body, |out| {
            out.family(&Family { common: common.borrow(), ..Family::new("x", "", Kind::Unknown) });
            out.number((&plain).into(), Value::Count(1), &Extra::NONE);
            out.number(LabelSet::EMPTY, Value::Count(2), &Extra::NONE);
            out.number((&own).into(), Value::Count(3), &Extra::NONE);
        })
        .unwrap();
        let text = String::from_utf8(body).unwrap();
        assert_eq!(text.split_once('\n').unwrap().1, expected, "{escaping:?}");
    }
    // What would be the metric's own name is not.
    let negotiated = Negotiated::default();
    let mut body = Vec::new();
    to_io(&mut Buffer::new(), negotiated, &mut body, |out| {
        out.family(&Family::new("x", "", Kind::Unknown));
        out.number(LabelSet::Pairs(&[("..name..", "n")]), Value::Count(1), &Extra::NONE);
    })
    .unwrap();
    assert!(body.ends_with(b"x{___name__=\"n\"} 1\n"), "{}", String::from_utf8_lossy(&body));
}

#[test]
fn bodies_look_as_other_clients_write_them() {
    let write = |format, escaping| {
        let mut body = Vec::new();
        to_io(&mut Buffer::new(), Negotiated { format, escaping }, &mut body, |out| {
            out.set_created_lines(true);
            let family = |name, kind| Family::new(name, "A \"b\"\\\n.", kind);
            let labels = LabelSet::Pairs(&[("c", "d\"\\\n")]);
            let extra = Extra { timestamp_ms: Some(1500), ..Extra::NONE };
            out.family(&Family { unit: "seconds", ..family("x_seconds_total", Kind::Counter) });
            out.number(labels, Value::Float(1e6), &extra);
            let extra = Extra { created_ms: Some(12_500), ..Extra::NONE };
            out.number(LabelSet::EMPTY, Value::Count(1_234_567), &extra);
            out.family(&family("without_suffix", Kind::Counter));
            out.number(LabelSet::EMPTY, Value::Float(1.0), &extra);
            out.family(&family("build_info", Kind::Info));
            out.number(LabelSet::Pairs(&[("é.f", "")]), Value::Float(1.0), &Extra::NONE);
            out.family(&family("h.i", Kind::Histogram));
            let buckets = Buckets {
                bounds: &[0.5, 1.0],
                counts: [1u64, 2, 999_997],
                sum: 3.5,
                created_ms: Some(1),
                timestamp_ms: None,
            };
            out.histogram(labels, buckets);
            let common = StoredLabels::new([("s", "t")]);
            let with = |name, kind| Family { common: common.borrow(), ..family(name, kind) };
            out.family(&with("g", Kind::GaugeHistogram));
            out.histogram(LabelSet::EMPTY, Buckets { bounds: &[f64::INFINITY], ..buckets });
            out.family(&with("q", Kind::Summary));
            let quantiles = &[(0.5, f64::NAN), (0.99, 2.0)];
            let summary = Summary { quantiles, sum: -1.0, count: 2, ..Summary::default() };
            out.summary(labels, &summary);
            out.family(&with("n", Kind::Histogram));
            let native = Native {
                schema: 1,
                zero_threshold: 0.25,
                zero_count: 2,
                positive: dense(1, &[1, 0, 3]),
                negative: dense(0, &[]),
                sum: 7.0,
                count: 6,
                exemplars: &[],
                created_ms: None,
                timestamp_ms: None,
            };
            out.native_histogram(LabelSet::EMPTY, &native);
            out.family(&with("plain", Kind::Unknown));
            out.number(LabelSet::EMPTY, Value::Integer(-3_000_000), &Extra::NONE);
            let own = StoredLabels::new([("ü", "v")]);
            out.number(LabelSet::from(&own), Value::Count(0), &Extra::NONE);
        })
        .unwrap();
        String::from_utf8(body).unwrap()
    };
    assert_eq!(write(Format::Text, Escaping::Underscores), include_str!("bodies/text"));
    let openmetrics = write(Format::OpenMetrics, Escaping::AllowUtf8);
    assert_eq!(openmetrics, include_str!("bodies/openmetrics"));
    for (format, body) in [
        (Format::Text, write(Format::Text, Escaping::AllowUtf8)),
        (Format::OpenMetrics, openmetrics),
    ] {
        assert!(Reader::new(body.as_bytes(), format).all(|event| event.is_ok()), "{body}");
    }
}

/// A time that no reader could hold leaves its sample out, or itself beside a sample, and not the body.
#[test]
fn times_at_the_end_of_time_spoil_no_body() {
    for (time, is_told) in [
        (i64::MAX, false),
        (i64::MIN, false),
        (i64::MAX - 1_000, true),
        (i64::MIN + 1_000, true),
        (-1, true),
        (0, true),
    ] {
        let exemplar = Exemplar { labels: LabelSet::EMPTY, value: 1.0, timestamp_ms: Some(time) };
        let mut body = Vec::new();
        let negotiated = Negotiated { format: Format::OpenMetrics, escaping: Escaping::AllowUtf8 };
        to_io(&mut Buffer::new(), negotiated, &mut body, |out| {
            out.set_created_lines(true);
            out.family(&Family::new("x_total", "", Kind::Counter));
            let timed = Extra { timestamp_ms: Some(time), ..Extra::NONE };
            out.number(LabelSet::Pairs(&[("timed", "")]), Value::Count(1), &timed);
            let extra =
                Extra { timestamp_ms: None, created_ms: Some(time), exemplar: Some(exemplar) };
            out.number(LabelSet::EMPTY, Value::Count(1), &extra);
        })
        .unwrap();
        let samples: Vec<_> = Reader::new(&body, Format::OpenMetrics)
            .filter_map(|event| match event.unwrap() {
                Event::Sample(sample) => Some(sample),
                _ => None,
            })
            .collect();
        // The sample with a time, the one with an exemplar, and when that began.
        assert_eq!(samples.len(), if is_told { 3 } else { 1 }, "{time}");
        let times: Vec<_> = samples
            .iter()
            .filter_map(|sample| sample.reading.exemplar)
            .map(|exemplar| exemplar.timestamp_ms.is_some())
            .collect();
        assert_eq!(times, [is_told], "{time}");
    }
}
