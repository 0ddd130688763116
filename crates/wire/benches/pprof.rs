//! Profiles: milliseconds for a profile of 4,000 stacks of 500 locations, each with five samples, whose lists
//! are kept as they are written, and for reading it. `cargo bench -p wire --bench pprof`; with `--test` it
//! runs small, to see that it works.
//!
//! `write` goes through chunks into a sink that adds up their lengths, and is the median; `read` is every
//! id, value and label once; `document` checks, indexes and resolves nothing yet.
#![expect(clippy::print_stdout, reason = "its output is the result")]

use std::hint::black_box;
use std::time::Instant;

use testkit::allocations::{Count, count};
use wire::pprof::{
    Document, EncodedSample, Event, Label, LabelValue, Location, LocationId, Reader, StringId,
    ValueType, Writer, encode_label, encode_location_ids,
};
use wire::protobuf::{Buffer, Sink, fold};

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

const SAMPLES_PER_STACK: i64 = 5;
const LOCATIONS: u64 = 10_000;

struct Tables {
    stacks: Vec<Vec<u8>>,
    labels: Vec<u8>,
}

impl Tables {
    fn new(stacks: u64, depth: u64) -> Self {
        let stack = |index: u64| {
            let mut bytes = Vec::new();
            let ids = (0..depth).map(|frame| LocationId(1 + (index * 31 + frame * 7) % LOCATIONS));
            encode_location_ids(ids, &mut bytes);
            bytes
        };
        let mut labels = Vec::new();
        for key in 1..=2 {
            let value = LabelValue::Number { value: 4_000, unit: StringId(0) };
            encode_label(&Label { key: StringId(key), value }, &mut labels);
        }
        Tables { stacks: (0..stacks).map(stack).collect(), labels }
    }

    fn write(&self, sink: impl Sink) {
        let mut out = Writer::new(sink);
        for text in ["", "thread id", "cpu", "nanoseconds"] {
            out.string(text);
        }
        for _ in 0..2 {
            out.sample_type(ValueType { kind: StringId(2), unit: StringId(3) });
        }
        for time in 0..SAMPLES_PER_STACK {
            for locations in &self.stacks {
                let values = &[time, 10_000_000 * time];
                out.encoded_sample(&EncodedSample { locations, values, labels: &[&self.labels] });
            }
        }
        for id in 1..=LOCATIONS {
            let lines = std::iter::empty();
            let (mapping, is_folded) = (Default::default(), false);
            out.location(&Location { id: LocationId(id), mapping, address: id, lines, is_folded });
        }
    }
}

fn read(profile: &[u8]) -> u64 {
    let samples = Reader::new(profile).filter_map(|item| match item.expect("ours").event {
        Event::Sample(sample) => Some(sample),
        _ => None,
    });
    let sum = samples.map(|it| {
        let labels = it.labels.map(|label| u64::from(label.key.0)).sum::<u64>();
        it.locations.map(|id| id.0).sum::<u64>() + it.values.sum::<i64>() as u64 + labels
    });
    sum.sum()
}

/// The median, in milliseconds.
fn time<T>(runs: usize, mut work: impl FnMut() -> T) -> f64 {
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let begin = Instant::now();
            black_box(work());
            begin.elapsed().as_secs_f64() * 1_000.0
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let small = std::env::args().any(|argument| argument == "--test");
    let (stacks, depth, runs) = if small { (40, 50, 1) } else { (4_000, 500, 15) };
    let tables = Tables::new(stacks, depth);
    let mut buffer = Buffer::new();
    let mut write =
        || fold(&mut buffer, 0, |sum, chunk| sum + chunk.len(), |out| tables.write(out));
    let length = write();
    let counted = count(|| {
        black_box(write());
    });
    assert_eq!(counted, Count::default(), "writing again is steady");
    let write = time(runs, write);
    let mut body = Vec::new();
    tables.write(&mut body);
    assert_eq!(body.len(), length);
    let read = time(runs, || read(&body));
    let document = time(runs, || Document::read(&body).expect("ours").samples().len());
    println!(
        "pprof bytes={length} write_ms={write:.2} read_ms={read:.2} document_ms={document:.2}"
    );
}
