//! What is written reads back as the same families, series and values, whatever the names and texts.

use proptest::prelude::*;
use wire::exposition::name::Escaping;
use wire::exposition::negotiate::Negotiated;
use wire::exposition::writer::{
    Buffer, Family, LabelSet, Point, PointExemplar, StoredLabels, fold, to_io,
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

fn body(format: Format, name: &str, help: &str, lines: &[Line], stored: bool) -> Vec<u8> {
    let negotiated = Negotiated { format, escaping: Escaping::AllowUtf8 };
    let mut body = Vec::new();
    to_io(&mut Buffer::new(), negotiated, &mut body, |out| {
        out.family(&Family { name, help, kind: Kind::Gauge, unit: "" });
        for line in lines {
            let pairs = borrowed(&line.labels);
            let kept = StoredLabels::new(pairs.iter().copied());
            let exemplar = line.exemplar.as_ref().map(|(pairs, value)| (borrowed(pairs), *value));
            let labels = if stored { LabelSet::Stored(&kept) } else { LabelSet::Pairs(&pairs) };
            out.sample(&Point {
                timestamp_ms: line.timestamp_ms,
                exemplar: exemplar.as_ref().map(|(pairs, value)| PointExemplar {
                    labels: LabelSet::Pairs(pairs),
                    value: *value,
                    timestamp_ms: line.timestamp_ms,
                }),
                ..Point::new(labels, line.value)
            });
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
        name in prop_oneof!["[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", "[a-z.\"\\\\ é]{1,8}"],
        help in text(),
        lines in prop::collection::vec(line(), 0..6),
        stored: bool,
    ) {
        for format in [Format::Text, Format::OpenMetrics] {
            let body = body(format, &name, &help, &lines, stored);
            let mut events = Reader::new(&body, format);
            let mut next = || events.next().map(|event| event.unwrap());
            // Nothing but blanks is no text in 0.0.4.
            if !help.is_empty() {
                let Some(Event::Help { family, text }) = next() else { panic!("no help") };
                prop_assert_eq!(family.to_string(), name.clone());
                let blank = format == Format::Text && help.bytes().all(|b| b == b' ');
                prop_assert_eq!(text.to_string(), if blank { "" } else { &help });
            }
            let Some(Event::Type { family, kind: Kind::Gauge }) = next() else { panic!("no type") };
            prop_assert_eq!(family.to_string(), name.clone());
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
            out.family(&Family { name: "a_total", help: &long, kind: Kind::Counter, unit: "" });
            out.sample(&Point::new(LabelSet::Pairs(&[]), 3.0));
        },
    );
    assert_eq!(text, format!("># HELP a {long}\n# TYPE a counter\na_total 3.0\n# EOF\n"));
    assert_eq!(sizes[..3], [65_536; 3]);
    assert_eq!(sizes.len(), 4);
}

#[test]
fn bodies_look_as_other_clients_write_them() {
    let write = |format, escaping| {
        let mut body = Vec::new();
        to_io(&mut Buffer::new(), Negotiated { format, escaping }, &mut body, |out| {
            use wire::exposition::writer::Suffix::{Bucket, Count, Created, Sum};
            let family = |name, kind, unit| Family { name, help: "A \"b\"\\\n.", kind, unit };
            let labels = LabelSet::Pairs(&[("c", "d\"\\\n")]);
            out.family(&family("x_seconds_total", Kind::Counter, "seconds"));
            out.sample(&Point { timestamp_ms: Some(1500), ..Point::new(labels, 1e6) });
            out.sample(&Point::new(labels, 12.5).suffix(Created));
            out.family(&family("without_suffix", Kind::Counter, ""));
            out.sample(&Point::new(LabelSet::Pairs(&[]), 1.0));
            out.family(&family("build_info", Kind::Info, ""));
            out.sample(&Point::new(LabelSet::Pairs(&[("é.f", "")]), 1.0));
            out.family(&family("h.i", Kind::Histogram, ""));
            out.sample(&Point::new(labels, 3u64).suffix(Bucket).bound("le", 1.0));
            out.sample(&Point::new(labels, 3.5).suffix(Sum));
            out.sample(&Point::new(labels, 1_000_000u64).suffix(Count));
        })
        .unwrap();
        String::from_utf8(body).unwrap()
    };
    assert_eq!(
        write(Format::Text, Escaping::Underscores),
        r#"# HELP x_seconds_total A "b"\\\n.
# TYPE x_seconds_total counter
x_seconds_total{c="d\"\\\n"} 1e+06 1500
# HELP without_suffix A "b"\\\n.
# TYPE without_suffix counter
without_suffix 1
# HELP build_info A "b"\\\n.
# TYPE build_info gauge
build_info{__f=""} 1
# HELP h_i A "b"\\\n.
# TYPE h_i histogram
h_i_bucket{c="d\"\\\n",le="1"} 3
h_i_sum{c="d\"\\\n"} 3.5
h_i_count{c="d\"\\\n"} 1e+06
"#
    );
    assert_eq!(
        write(Format::OpenMetrics, Escaping::AllowUtf8),
        r#"# HELP x_seconds A \"b\"\\\n.
# TYPE x_seconds counter
# UNIT x_seconds seconds
x_seconds_total{c="d\"\\\n"} 1e+06 1.5
x_seconds_created{c="d\"\\\n"} 12.5
# HELP without_suffix A \"b\"\\\n.
# TYPE without_suffix unknown
without_suffix 1.0
# HELP build A \"b\"\\\n.
# TYPE build info
build_info{"é.f"=""} 1.0
# HELP "h.i" A \"b\"\\\n.
# TYPE "h.i" histogram
{"h.i_bucket",c="d\"\\\n",le="1.0"} 3
{"h.i_sum",c="d\"\\\n"} 3.5
{"h.i_count",c="d\"\\\n"} 1000000
# EOF
"#
    );
}
