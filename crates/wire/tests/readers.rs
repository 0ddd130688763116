//! What the readers make of single bodies, by table. Each body is read line by line and again with the
//! shortcuts; both have to agree.

use wire::exposition::{Event, Expected, Format, Labels, Reader, Reading};

/// An event as one line of text.
fn tell(event: &Event<'_>) -> String {
    let labels = |labels: Labels<'_>| {
        let pairs: Vec<String> =
            labels.map(|label| format!("{}={:?}", label.name, label.value.to_string())).collect();
        pairs.join(",")
    };
    match event {
        Event::Help { family, text } => format!("help {family} {:?}", text.to_string()),
        Event::Type { family, kind } => format!("type {family} {}", kind.name()),
        Event::Unit { family, unit } => format!("unit {family} {unit}"),
        Event::Comment(text) => format!("comment {}", String::from_utf8_lossy(text)),
        Event::Sample(sample) => {
            let created = if sample.is_created() { "created " } else { "" };
            let Reading { value, timestamp_ms, exemplar } = sample.reading;
            let mut told = format!("{created}{} {value:?}", labels(sample.labels()));
            if let Some(at) = timestamp_ms {
                told += &format!(" @{at}");
            }
            if let Some(exemplar) = exemplar {
                told += &format!(" # {} {:?}", labels(exemplar.labels()), exemplar.value);
                if let Some(at) = exemplar.timestamp_ms {
                    told += &format!(" @{at}");
                }
            }
            told
        }
    }
}

fn read(body: &[u8], format: Format) -> Vec<String> {
    Reader::new(body, format)
        .map(|event| match event {
            Ok(event) => tell(&event),
            Err(error) => format!("error {error}"),
        })
        .collect()
}

/// A line, told by its difference from the one that was read last.
fn expect<'a>(reader: &Reader<'_>, line: &'a [u8]) -> Expected<'a> {
    let shared = line.iter().zip(reader.last_line()).take_while(|(a, b)| a == b).count();
    Expected { shared, rest: &line[shared..] }
}

/// Reads again as a scrape does that has seen the body before.
fn shortcuts_agree(body: &[u8], format: Format) {
    let mut slow = Reader::new(body, format);
    let mut fast = Reader::new(body, format);
    while let Some(expected) = slow.next() {
        match expected {
            Ok(Event::Sample(sample)) => {
                let indented = !body[fast.offset()..].starts_with(sample.series.as_bytes());
                if indented {
                    // Empty lines and blanks in front are left to the slow way.
                    assert_eq!(fast.sample_if(sample.series.as_bytes()), None);
                    assert!(fast.next().is_some_and(|event| event.is_ok()));
                } else {
                    let reading = fast.sample_if(expect(&fast, sample.series.as_bytes()));
                    assert_eq!(
                        format!("{reading:?}"),
                        format!("{:?}", Some(Ok::<_, ()>(sample.reading)))
                    );
                }
            }
            Ok(_) => {
                assert!(!fast.comment_if(b"# TYPE something else"));
                if !fast.comment_if(expect(&fast, slow.last_line())) {
                    assert!(fast.next().is_some_and(|event| event.is_ok()));
                }
            }
            Err(expected) => {
                assert_eq!(fast.next().map(|event| event.map(|e| tell(&e))), Some(Err(expected)));
                return;
            }
        }
        assert_eq!(fast.offset(), slow.offset());
        assert_eq!(fast.kind(), slow.kind());
        assert_eq!(fast.last_line(), slow.last_line());
    }
}

fn check(format: Format, table: &[(&str, &[&str])]) {
    for (body, expected) in table {
        assert_eq!(read(body.as_bytes(), format), *expected, "{body:?}");
        shortcuts_agree(body.as_bytes(), format);
    }
}

#[test]
fn text() {
    check(
        Format::Text,
        &[
            ("", &[]),
            ("\n \t\n", &[]),
            ("# TYPE a\"counter\na 1", &["type a counter", r#"__name__="a" 1.0"#]),
            ("up 1", &[r#"__name__="up" 1.0"#]),
            (":a:b_1 -1.5e3\n", &[r#"__name__=":a:b_1" -1500.0"#]),
            ("up{} NaN 123\n", &[r#"__name__="up" NaN @123"#]),
            (
                "  up\t{ a = \"1\" , b=\"2\" c=\"3\",}\t1  5 \n",
                &[r#"__name__="up",a="1",b="2",c="3" 1.0 @5"#],
            ),
            ("up{a=\"1\"}5\n", &[r#"__name__="up",a="1" 5.0"#]),
            (r#"{"my.name","la.bel"="v"} 1"#, &[r#"__name__="my.name",la.bel="v" 1.0"#]),
            (r#"{a="b","n\"x",} 1"#, &[r#"a="b",__name__="n\"x" 1.0"#]),
            (r#"a{b="x\\y\n\"z\q"} 1"#, &[r#"__name__="a",b="x\\y\n\"z\\q" 1.0"#]),
            ("a{b=\"x\ny\"} 1\nc 2", &[r#"__name__="a",b="x\ny" 1.0"#, r#"__name__="c" 2.0"#]),
            ("a{b=\"\0\"} 1", &[r#"__name__="a",b="\0" 1.0"#]),
            ("a 1\n\0b 2", &[r#"__name__="a" 1.0"#]),
            (
                "# HELP a b \\n c\\\\ \\\" \n# TYPE a counter\na 1",
                &[r#"help a "b \n c\\ \\\" ""#, "type a counter", r#"__name__="a" 1.0"#],
            ),
            (
                "#  \tHELP \"a.b\"  c\n#TYPE a gauge\n# TYPEa gauge\n#\n# HELP a\n# HELP a  \n",
                &[
                    r#"help a.b " c""#,
                    "comment #TYPE a gauge",
                    "comment # TYPEa gauge",
                    "comment #",
                    r#"help a """#,
                    r#"help a """#,
                ],
            ),
            (
                "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 1\nh_bucket{le=\"x\"} 1\nh_bucket{quantile=\"1\"} 1",
                &[
                    "type h histogram",
                    r#"__name__="h_bucket",le="1.0" 1.0"#,
                    r#"__name__="h_bucket",le="+Inf" 1.0"#,
                    r#"__name__="h_bucket",le="x" 1.0"#,
                    r#"__name__="h_bucket",quantile="1" 1.0"#,
                ],
            ),
            (
                "# TYPE s summary\ns{quantile=\"0.50\"} 1\ns_created 1",
                &[
                    "type s summary",
                    r#"__name__="s",quantile="0.5" 1.0"#,
                    r#"__name__="s_created" 1.0"#,
                ],
            ),
            (
                "# TYPE a untyped\n# TYPE a unknown",
                &["type a unknown", "error line 2, byte 26: invalid metric type"],
            ),
        ],
    );
}

#[test]
fn text_refused() {
    for (body, error) in [
        (
            "a 1\n1a 2",
            "line 2, byte 4: expected a metric name, '{' or '#' at the start of the line",
        ),
        ("a", "line 1, byte 1: expected a value after the series"),
        ("a{b=\"c\"} {", "line 1, byte 9: expected a value after the series"),
        ("a x", "line 1, byte 2: invalid value: not a number"),
        ("a 1e400", "line 1, byte 2: invalid value: number out of the range of a 64-bit float"),
        ("a 0x1p1", "line 1, byte 2: invalid value: not a number"),
        ("a 1 -5", "line 1, byte 4: invalid timestamp"),
        ("a 1 9223372036854775808", "line 1, byte 4: invalid timestamp"),
        ("a 1 1.5", "line 1, byte 5: expected the end of the line after the sample"),
        ("a 1 # {} 1", "line 1, byte 4: invalid timestamp"),
        ("a\r\n", "line 1, byte 1: invalid value: not a number"),
        ("a{", "line 1, byte 2: expected a label name"),
        ("a{b", "line 1, byte 3: expected '=' after the label name"),
        ("a{b=c}", "line 1, byte 4: expected a quoted label value"),
        ("a{b=\"c} 1\n", "line 1, byte 4: expected a quoted label value"),
        ("a{b=\"c\\\n\"} 1\n", "line 1, byte 4: expected a quoted label value"),
        ("a{,} 1", "line 1, byte 2: expected a label name"),
        ("a{b=\"c\",,} 1", "line 1, byte 8: expected a label name"),
        ("a{:b=\"c\"} 1", "line 1, byte 2: expected a label name"),
        ("a{\"b\"} 1", "line 1, byte 2: the metric name is already set"),
        ("{a=\"b\"} 1", "line 1, byte 0: the metric name is not set"),
        ("{\"\"} 1", "line 1, byte 1: the metric name is not set"),
        ("a{\"\"=\"b\"} 1", "line 1, byte 2: expected a label name"),
        ("a{b=\"1\",b=\"2\"} 1", "line 1, byte 8: the label name is not unique"),
        ("a{b=\"1\",\"b\"=\"2\"} 1", "line 1, byte 9: the label name is not unique"),
        (
            "a{\"\\n\\\\t\"=\"1\",\"\\n\\t\"=\"2\"} 1",
            "line 1, byte 15: the label name is not unique",
        ),
        ("a{__name__=\"b\"} 1", "line 1, byte 2: the label name is not unique"),
        ("# TYPE 1 gauge", "line 1, byte 7: expected the name of a metric family"),
        ("# HELP\t\n", "line 1, byte 7: expected the name of a metric family"),
    ] {
        assert_eq!(
            read(body.as_bytes(), Format::Text).last().unwrap(),
            &format!("error {error}"),
            "{body:?}"
        );
        shortcuts_agree(body.as_bytes(), Format::Text);
    }
    for (body, error) in [
        (b"a{b=\"\xff\"} 1".as_slice(), "error line 1, byte 5: invalid UTF-8"),
        (b"{\"x\xc3\"} 1", "error line 1, byte 3: invalid UTF-8"),
        (b"# HELP a \xff", "error line 1, byte 9: invalid UTF-8"),
    ] {
        assert_eq!(read(body, Format::Text), [error]);
    }
}

#[test]
fn openmetrics() {
    check(
        Format::OpenMetrics,
        &[
            ("# EOF", &[]),
            ("# EOF\n", &[]),
            (
                "# HELP a \\\"b\\\"\n# TYPE a_s gauge\n# UNIT a_s s\n# UNIT a \na_s 1.0 -1.5\n# EOF\n",
                &[
                    r#"help a "\"b\"""#,
                    "type a_s gauge",
                    "unit a_s s",
                    "unit a ",
                    r#"__name__="a_s" 1.0 @-1500"#,
                ],
            ),
            (
                "# TYPE c counter\nc_total{a=\"b\"} 1 1.5 # {id=\"x\",\"y.z\"=\"\"} 0.5 123.4567\nc_total 2 # {} 1\nc_created{a=\"b\"} 12.5\n# EOF",
                &[
                    "type c counter",
                    r#"__name__="c_total",a="b" 1.0 @1500 # id="x",y.z="" 0.5 @123456"#,
                    r#"__name__="c_total" 2.0 #  1.0"#,
                    r#"created __name__="c_created",a="b" 12.5"#,
                ],
            ),
            (
                "# TYPE g gauge\ng_created 1\n# EOF",
                &["type g gauge", r#"__name__="g_created" 1.0"#],
            ),
            (
                "# TYPE t info\n# TYPE s stateset\n# TYPE g gaugehistogram\n# TYPE u unknown\n# EOF",
                &["type t info", "type s stateset", "type g gaugehistogram", "type u unknown"],
            ),
        ],
    );
}

#[test]
fn openmetrics_refused() {
    for (body, error) in [
        ("", "line 1, byte 0: the body does not end with '# EOF'"),
        ("a 1\n", "line 2, byte 4: the body does not end with '# EOF'"),
        ("a 1", "line 1, byte 3: the body does not end with '# EOF'"),
        ("# EOF\n\n", "line 1, byte 5: unexpected data after '# EOF'"),
        ("# EOF a", "line 1, byte 5: unexpected data after '# EOF'"),
        ("\n# EOF", "line 1, byte 0: expected a metric name, '{' or '#' at the start of the line"),
        (
            "# a\n# EOF",
            "line 1, byte 0: expected HELP, TYPE, UNIT or EOF after '# ': OpenMetrics has no other comments",
        ),
        ("# TYPE a untyped\n# EOF", "line 1, byte 9: invalid metric type"),
        ("# HELP a\n# EOF", "line 1, byte 8: expected a text after the name of the family"),
        ("# UNIT a s\n# EOF", "line 1, byte 9: the unit is not a suffix of the name of the family"),
        (
            "# UNIT as s\n# EOF",
            "line 1, byte 10: the unit is not a suffix of the name of the family",
        ),
        ("a  1\n# EOF", "line 1, byte 2: expected a value after the series"),
        ("a 1 \n# EOF", "line 1, byte 4: invalid timestamp"),
        ("a 1 NaN\n# EOF", "line 1, byte 4: invalid timestamp"),
        ("a 1 1e300\n# EOF", "line 1, byte 4: invalid timestamp"),
        ("a 1 2 3\n# EOF", "line 1, byte 5: expected the end of the line after the sample"),
        (
            "a{b=\"c\" d=\"e\"} 1\n# EOF",
            "line 1, byte 7: expected ',' or '}' after the label value",
        ),
        ("a{b=\"c\nd\"} 1\n# EOF", "line 1, byte 4: expected a quoted label value"),
        (
            "a 1 # {b=\"c\"}\n# EOF",
            "line 1, byte 13: expected labels, a value and at most a timestamp in the exemplar",
        ),
        ("a 1 # {\"b\"} 1\n# EOF", "line 1, byte 10: expected '=' after the label name"),
        (
            "a 1 # {b=\"c\"} 1 2 3\n# EOF",
            "line 1, byte 17: expected the end of the line after the sample",
        ),
    ] {
        let read = read(body.as_bytes(), Format::OpenMetrics);
        assert_eq!(read.last().unwrap(), &format!("error {error}"), "{body:?}");
        shortcuts_agree(body.as_bytes(), Format::OpenMetrics);
    }
}

#[test]
fn a_shortcut_takes_whole_series_only() {
    for format in [Format::Text, Format::OpenMetrics] {
        for (expected, line) in [
            ("foo", "foobar 1\n# EOF\n"),
            ("foo", "foo{a=\"b\"} 1\n# EOF\n"),
            ("foo{a=\"b\"}", "foo 1\n# EOF\n"),
            ("foo{a=\"b\"}", "foo{a=\"bc\"} 1\n# EOF\n"),
            ("", " 1\n# EOF\n"),
        ] {
            let mut reader = Reader::new(line.as_bytes(), format);
            assert_eq!(reader.sample_if(expected.as_bytes()), None, "{expected} {line}");
            assert_eq!(reader.offset(), 0);
        }
        let mut reader = Reader::new(b"foo x\nfoo 1\n# EOF\n", format);
        assert!(matches!(reader.sample_if(b"foo"), Some(Err(_))));
        assert_eq!(reader.next(), None, "nothing comes after an error");
        assert_eq!(reader.sample_if(b"foo"), None);
    }
    let mut reader = Reader::new(b"foo {a=\"b\"} 1", Format::Text);
    assert_eq!(reader.sample_if(b"foo"), None);
}

#[test]
fn many_labels_are_checked_for_duplicates_too() {
    let mut body = String::from("a{");
    for index in 0..20_000 {
        body += &format!("l{index}=\"\",");
    }
    let unique = body.clone() + "} 1";
    assert_eq!(Reader::new(unique.as_bytes(), Format::Text).filter(Result::is_ok).count(), 1);
    let twice = body + "l77=\"\"} 1";
    assert!(read(twice.as_bytes(), Format::Text)[0].ends_with("the label name is not unique"));
}
