//! Reading a body and writing one is steady work: it allocates nothing and frees nothing.

use testkit::allocations::{Count, count};
use wire::exposition::name::Escaping;
use wire::exposition::negotiate::Negotiated;
use wire::exposition::writer::{
    Buckets, Buffer, Extra, Family, LabelSet, StoredLabels, Value, fold,
};
use wire::exposition::{Event, Format, Kind, Reader};

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

const FORMATS: [Format; 2] = [Format::Text, Format::OpenMetrics];

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
            let family = |name, kind| Family::new(name, "Some \"help\".", kind);
            out.family(&family("requests_total", Kind::Counter));
            for index in 0..5_000u64 {
                out.number(stored.into(), Value::Float(index as f64 * 1.5), &Extra::NONE);
                let pairs = LabelSet::Pairs(&[("a", "b\n"), ("c.d", "\"")]);
                out.number(pairs, Value::Count(index), &Extra::NONE);
            }
            out.family(&family("my.latency_seconds", Kind::Histogram));
            let (bounds, counts) = (&[0.1, 1.0], [17u64; 3]);
            out.histogram(stored.into(), Buckets { bounds, counts, ..Buckets::default() });
        },
    );
}

#[test]
fn writing_and_reading_allocate_nothing() {
    let stored = StoredLabels::new([("job", "a\\b"), ("x.y", "z")]);
    let mut buffer = Buffer::new();
    for format in FORMATS {
        for escaping in [Escaping::AllowUtf8, Escaping::Underscores, Escaping::Values] {
            let negotiated = Negotiated { format, escaping };
            let mut body = Vec::new();
            write(&mut buffer, &stored, negotiated, &mut body);
            assert!(body.len() > 3 * wire::exposition::writer::CHUNK, "several chunks");
            let before = body.clone();
            let during = count(|| {
                body.clear();
                write(&mut buffer, &stored, negotiated, &mut body);
            });
            assert_eq!(during, Count::ZERO, "writing {format:?}");
            assert_eq!(body, before);
            let mut values = 0.0;
            let mut labels = 0;
            let during = count(|| {
                for event in Reader::new(&body, format) {
                    if let Event::Sample(sample) = event.unwrap() {
                        values += sample.reading.value;
                        labels +=
                            sample.labels().map(|label| label.value.raw().len()).sum::<usize>();
                    }
                }
            });
            assert_eq!(during, Count::ZERO, "reading {format:?}");
            assert!(values > 0.0 && labels > 0);
        }
    }
}
