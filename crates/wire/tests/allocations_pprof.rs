//! Writing a profile again and reading one are steady work: they allocate nothing and free nothing.

use testkit::allocations::{Count, count};
use wire::pprof::{
    EncodedSample, Event, Function, FunctionId, Label, LabelValue, Line, Location, LocationId,
    Reader, Sample, StringId, ValueType, Writer, encode_label, encode_location_ids,
};
use wire::protobuf::{Buffer, CHUNK, Sink, fold};

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

const STACKS: u64 = 40;
const DEPTH: u64 = 500;
const TIMES: u64 = 20;

/// What a profiler keeps between two exports.
struct Tables {
    stacks: Vec<Vec<u8>>,
    thread: Vec<u8>,
    endpoint: Vec<u8>,
    strings: Vec<u8>,
}

impl Tables {
    fn new() -> Self {
        let stack = |index: u64| {
            let mut ids = Vec::new();
            let id = |frame| LocationId(1 + (index * 7 + frame) % 300);
            encode_location_ids((0..DEPTH).map(id), &mut ids);
            ids
        };
        let label = |key, value| {
            let mut label = Vec::new();
            encode_label(&Label { key: StringId(key), value }, &mut label);
            label
        };
        let mut strings = Writer::new(Vec::new());
        let names = ["", "cpu", "nanoseconds", "thread", "endpoint", "checkout", "main.rs"];
        for name in names {
            strings.string(name);
        }
        Tables {
            stacks: (0..STACKS).map(stack).collect(),
            thread: label(3, LabelValue::Number { value: 71, unit: StringId(0) }),
            endpoint: label(4, LabelValue::Text(StringId(5))),
            strings: strings.into_inner(),
        }
    }

    fn write(&self, sink: impl Sink) {
        let mut out = Writer::new(sink);
        out.encoded(&self.strings, 7);
        out.sample_type(ValueType { kind: StringId(1), unit: StringId(2) });
        for (time, stack) in
            (0..TIMES).flat_map(|time| self.stacks.iter().map(move |it| (time, it)))
        {
            out.encoded_sample(&EncodedSample {
                locations: stack,
                values: &[time as i64 * 10_000_000],
                labels: &[&self.thread, &self.endpoint],
            });
        }
        out.sample(&Sample {
            locations: (1..10).map(LocationId),
            values: [1].into_iter(),
            labels: [Label { key: StringId(4), value: LabelValue::Text(StringId(5)) }].into_iter(),
        });
        for id in 1..=300 {
            out.location(&Location {
                id: LocationId(id),
                lines: [Line { function: FunctionId(1), line: id as i64, column: 0 }].into_iter(),
                mapping: Default::default(),
                address: 0x1_0000 + id,
                is_folded: false,
            });
        }
        let filename = StringId(6);
        out.function(&Function { id: FunctionId(1), filename, ..Function::default() });
        out.time_nanos(1);
        assert_eq!(out.string("another"), StringId(7));
    }
}

fn read(profile: &[u8]) -> u64 {
    let mut sum = 0;
    for item in Reader::new(profile) {
        match item.expect("ours").event {
            Event::Sample(sample) => {
                sum += sample.locations.map(|id| id.0).sum::<u64>();
                sum += sample.values.map(|value| value as u64).sum::<u64>();
                sum += sample.labels.map(|label| u64::from(label.key.0)).sum::<u64>();
            }
            Event::Location(location) => sum += location.lines.count() as u64,
            _ => {}
        }
    }
    sum
}

/// What `work` allocates and frees, and what it gives.
fn counted<T>(work: impl FnOnce() -> T) -> (Count, Option<T>) {
    let mut given = None;
    let count = count(|| given = Some(work()));
    (count, given)
}

#[test]
fn writing_again_and_reading_are_steady() {
    let tables = Tables::new();
    let mut buffer = Buffer::new();
    let length = |buffer: &mut Buffer| {
        fold(buffer, 0, |sum, chunk| sum + chunk.len(), |out| tables.write(out))
    };
    let mut body = Vec::new();
    tables.write(&mut body);
    assert!(body.len() > 5 * CHUNK);
    let expected = read(&body);
    let (cost, written) = counted(|| length(&mut buffer));
    assert_eq!((cost, written), (Count::default(), Some(body.len())));
    let (cost, sum) = counted(|| read(&body));
    assert_eq!((cost, sum), (Count::default(), Some(expected)));
    let document = wire::pprof::Document::read(&body).expect("ours");
    let frames =
        || document.samples().map(|it| document.frames(it.locations).count()).sum::<usize>();
    let (cost, frames) = counted(frames);
    assert_eq!((cost, frames), (Count::default(), Some((STACKS * DEPTH * TIMES) as usize + 9)));
}
