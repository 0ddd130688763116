//! What holds for every body, whatever stands in it.

use wire::exposition::name::Escaping;
use wire::exposition::negotiate::Negotiated;
use wire::exposition::writer::{Buffer, Exemplar, Extra, Family, LabelSet, Value, to_io};
use wire::exposition::{Event, Expected, Format, Kind, Labels, Reader};

/// A line, told by its difference from the one that was read last.
fn expect<'a>(reader: &Reader<'_>, line: &'a [u8]) -> Expected<'a> {
    let shared = line.iter().zip(reader.last_line()).take_while(|(a, b)| a == b).count();
    Expected { shared, rest: &line[shared..] }
}

type Pairs = Vec<(String, String)>;

/// 1. Reading ends, with events or an error, and nothing panics.
/// 2. The shortcuts of a scrape that has seen the body before agree with the slow way on every line.
/// 3. What was read, written and read again is the same.
pub fn check(body: &[u8], format: Format) {
    let mut slow = Reader::new(body, format);
    let mut fast = Reader::new(body, format);
    while let Some(event) = slow.next() {
        let Ok(event) = event else {
            assert_eq!(fast.next(), Some(event), "both refuse");
            assert!(slow.next().is_none() && fast.next().is_none(), "an error is the end");
            return;
        };
        let by_shortcut = match &event {
            Event::Sample(sample) => match fast.sample_if(expect(&fast, sample.series.as_bytes())) {
                Some(reading) => {
                    let (reading, expected) = (reading.unwrap(), sample.reading);
                    assert_eq!(reading.value.to_bits(), expected.value.to_bits());
                    assert_eq!(reading.timestamp_ms, expected.timestamp_ms);
                    assert_eq!(
                        format!("{:?}", reading.exemplar),
                        format!("{:?}", expected.exemplar)
                    );
                    true
                }
                None => false,
            },
            _ => fast.comment_if(expect(&fast, slow.last_line())),
        };
        if !by_shortcut {
            // Only blanks and empty lines in front are left to the slow way, and a value that follows
            // its series without a blank (`a+1`).
            let rest = &body[fast.offset()..];
            let in_front = matches!(rest[0], b' ' | b'\t' | b'\n');
            assert!(format == Format::Text && (in_front || is_joined(&event, body)), "{event:?}");
            fast.next().unwrap().unwrap();
        }
        assert_eq!(fast.offset(), slow.offset());
        assert_eq!(fast.last_line(), slow.last_line());
        assert_eq!(fast.kind(), slow.kind());
        again(&event, format);
    }
    assert!(fast.next().is_none());
}

/// Whether a sample's value follows its series at once.
fn is_joined(event: &Event<'_>, body: &[u8]) -> bool {
    let Event::Sample(sample) = event else { return false };
    let end = sample.series.as_ptr() as usize - body.as_ptr() as usize + sample.series.len();
    !matches!(body.get(end), Some(b' ' | b'\t'))
}

fn owned(labels: Labels<'_>) -> Pairs {
    labels.map(|label| (label.name.to_string(), label.value.to_string())).collect()
}

fn borrowed(pairs: &Pairs) -> Vec<(&str, &str)> {
    pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn again(event: &Event<'_>, format: Format) {
    let Event::Sample(sample) = event else { return };
    let pairs = owned(sample.labels());
    let name = sample.metric_name().to_string();
    assert_eq!(pairs.iter().filter(|(label, _)| label == "__name__").count(), 1);
    let mut labels = pairs.clone();
    labels.retain(|(label, _)| label != "__name__");
    let exemplar = sample.reading.exemplar.map(|exemplar| (owned(exemplar.labels()), exemplar));
    let exemplar_pairs = exemplar.as_ref().map(|(pairs, _)| borrowed(pairs)).unwrap_or_default();
    let labels = borrowed(&labels);
    let negotiated = Negotiated { format, escaping: Escaping::AllowUtf8 };
    let mut body = Vec::new();
    // Neither has a part with `le` or `quantile`: they are written as they were read.
    let kind = if name.ends_with("_total") { Kind::Counter } else { Kind::Unknown };
    to_io(&mut Buffer::new(), negotiated, &mut body, |out| {
        out.family(&Family::new(&name, "", kind));
        let extra = Extra {
            timestamp_ms: sample.reading.timestamp_ms,
            created_ms: None,
            exemplar: exemplar.as_ref().map(|(_, exemplar)| Exemplar {
                labels: LabelSet::Pairs(&exemplar_pairs),
                value: exemplar.value,
                timestamp_ms: exemplar.timestamp_ms,
            }),
        };
        let labels = LabelSet::Pairs(&labels);
        out.number(labels, Value::Float(sample.reading.value), &extra);
    })
    .unwrap();
    let read = Reader::new(&body, format).map(|event| event.expect("just written")).last();
    let Some(Event::Sample(read)) = read else { panic!("no sample") };
    let sorted = |mut pairs: Pairs| {
        pairs.sort();
        pairs
    };
    assert_eq!(sorted(owned(read.labels())), sorted(pairs));
    assert_eq!(same(read.reading.value), same(sample.reading.value));
    assert!(close(read.reading.timestamp_ms, sample.reading.timestamp_ms));
    match (read.reading.exemplar, exemplar) {
        (Some(read), Some((pairs, exemplar))) => {
            assert_eq!(owned(read.labels()), pairs);
            assert_eq!(same(read.value), same(exemplar.value));
            assert!(close(read.timestamp_ms, exemplar.timestamp_ms));
        }
        // Only counters have some.
        (read, exemplar) => {
            assert!(read.is_none());
            assert!(exemplar.is_none() || !name.ends_with("_total") || name == "_total");
        }
    }
}

/// A negative zero is written without its sign.
fn same(value: f64) -> u64 {
    if value == 0.0 { 0 } else { value.to_bits() }
}

/// OpenMetrics counts in seconds: a float holds a millisecond as long as the time is not too far away.
fn close(read: Option<i64>, written: Option<i64>) -> bool {
    match (read, written) {
        (Some(read), Some(written)) => {
            read.abs_diff(written) <= 1 + written.unsigned_abs() / (1 << 50)
        }
        (read, written) => read == written,
    }
}
