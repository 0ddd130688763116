//! Rendering and reading: nanoseconds per sample, as multiples of the floor. `cargo bench -p wire --bench
//! exposition`; among the tests, or with `--test`, it runs small, to see that it works.
//!
//! The workload is a broker's: queues × families, labels `{vhost,queue}`, mostly integers. **The floor** is
//! what nobody who writes these bytes can do without: copying each line's beginning, which lies ready in
//! one piece, and formatting the integer behind it, through a buffer of 64 KiB. It is measured between
//! the others in every round, and every ratio is of the same round; what is printed are medians.
//! `--profile=NAME` runs one of them alone for some seconds.
#![expect(clippy::print_stdout, reason = "its output is the result")]

use std::hint::black_box;
use std::time::Instant;

use testkit::random::Random;
use wire::exposition::negotiate::Negotiated;
use wire::exposition::writer::{
    Buckets, Buffer, CHUNK, Extra, Family, LabelSet, LabelsRef, Value, escape_into, fold,
};
use wire::exposition::{Event, Format, Kind, Reader, messages};

const FAMILIES: usize = 23;
const BOUNDS: [f64; 12] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, f64::INFINITY];

/// The program's own table: labels escaped once, one text for all; a column of values per family.
struct Workload {
    names: Vec<String>,
    text: String,
    ends: Vec<usize>,
    values: Vec<Vec<u64>>,
    /// What the floor copies: `name{labels} ` of every line.
    prefixes: String,
    prefix_ends: Vec<usize>,
    queues: Vec<String>,
}

impl Workload {
    fn new(queues: usize) -> Workload {
        let mut random = Random::new(7);
        let names: Vec<String> =
            (0..FAMILIES).map(|index| format!("queue_messages_{index:02}_total")).collect();
        let queue_names: Vec<String> = (0..queues).map(|i| format!("queue-{i:06}")).collect();
        let (mut text, mut ends) = (String::new(), Vec::new());
        for queue in &queue_names {
            escape_into([("vhost", "/"), ("queue", queue.as_str())], &mut text);
            ends.push(text.len());
        }
        // One in ten has seven digits or more, as counters of busy queues do.
        let values: Vec<Vec<u64>> = (0..FAMILIES)
            .map(|_| {
                let value = |random: &mut Random| match random.below(10) {
                    0 => 1_000_000 + random.below(100_000_000),
                    1..=3 => random.below(10),
                    _ => random.below(100_000),
                };
                (0..queues).map(|_| value(&mut random)).collect()
            })
            .collect();
        let (mut prefixes, mut prefix_ends) = (String::new(), Vec::new());
        let mut begin = 0;
        // As long as a line of the workload, and there once for each queue.
        for end in &ends {
            prefixes.push_str("queue_messages_00_total{");
            prefixes.push_str(&text[begin..*end]);
            prefixes.push_str("} ");
            prefix_ends.push(prefixes.len());
            begin = *end;
        }
        Workload { names, text, ends, values, prefixes, prefix_ends, queues: queue_names }
    }

    fn samples(&self) -> usize {
        self.ends.len() * FAMILIES
    }

    fn labels(&self, index: usize) -> LabelsRef<'_> {
        let begin = if index == 0 { 0 } else { self.ends[index - 1] };
        LabelsRef::new(&self.text[begin..self.ends[index]], true)
    }

    /// The floor; gives the bytes.
    fn floor(&self, buffer: &mut [u8]) -> usize {
        let (mut total, mut at) = (0, 0);
        for values in &self.values {
            let mut begin = 0;
            for (end, value) in self.prefix_ends.iter().zip(values) {
                let prefix = &self.prefixes.as_bytes()[begin..*end];
                begin = *end;
                if buffer.len() - at < prefix.len() + 24 {
                    black_box(&buffer[..at]);
                    total += at;
                    at = 0;
                }
                buffer[at..at + prefix.len()].copy_from_slice(prefix);
                at += prefix.len();
                let mut digits = itoa::Buffer::new();
                let digits = digits.format(*value).as_bytes();
                buffer[at..at + digits.len()].copy_from_slice(digits);
                at += digits.len();
                buffer[at] = b'\n';
                at += 1;
            }
        }
        black_box(&buffer[..at]);
        total + at
    }

    fn stored(&self, buffer: &mut Buffer, format: Format, sink: &mut dyn FnMut(&[u8])) -> usize {
        self.write(buffer, format, sink, |index, write| write(self.labels(index).into()))
    }

    fn pairs(&self, buffer: &mut Buffer, format: Format, sink: &mut dyn FnMut(&[u8])) -> usize {
        self.write(buffer, format, sink, |index, write| {
            write(LabelSet::Pairs(&[("vhost", "/"), ("queue", &self.queues[index])]));
        })
    }

    #[inline]
    fn write(
        &self,
        buffer: &mut Buffer,
        format: Format,
        sink: &mut dyn FnMut(&[u8]),
        labels: impl Fn(usize, &mut dyn FnMut(LabelSet<'_>)),
    ) -> usize {
        fold(buffer, negotiated(format), 0, counting(sink), |out| {
            for (name, values) in self.names.iter().zip(&self.values) {
                out.family(&Family::new(name, "Messages of the queue.", Kind::Counter));
                for (index, value) in values.iter().enumerate() {
                    labels(index, &mut |labels| {
                        out.number(labels, Value::Count(*value), &Extra::NONE);
                    });
                }
            }
        })
    }

    /// As `stored`, with values that have a fraction.
    fn floats(&self, buffer: &mut Buffer, format: Format, sink: &mut dyn FnMut(&[u8])) -> usize {
        fold(buffer, negotiated(format), 0, counting(sink), |out| {
            for (name, values) in self.names.iter().zip(&self.values) {
                out.family(&Family::new(name, "Messages of the queue.", Kind::Gauge));
                for (index, value) in values.iter().enumerate() {
                    let value = Value::Float(*value as f64 / 7.0);
                    out.number(self.labels(index).into(), value, &Extra::NONE);
                }
            }
        })
    }

    /// One histogram per queue and two families: 14 lines each, so that a sample is a line.
    fn histograms(
        &self,
        buffer: &mut Buffer,
        format: Format,
        sink: &mut dyn FnMut(&[u8]),
    ) -> usize {
        fold(buffer, negotiated(format), 0, counting(sink), |out| {
            for name in &self.names[..2] {
                out.family(&Family::new(name, "Latency.", Kind::Histogram));
                for index in 0..self.ends.len() {
                    let counts = self.values.iter().map(|values| values[index]).take(12);
                    let buckets = Buckets {
                        bounds: &BOUNDS,
                        counts,
                        sum: index as f64,
                        created_ms: None,
                        timestamp_ms: None,
                    };
                    out.histogram(self.labels(index).into(), buckets);
                }
            }
        })
    }
}

fn negotiated(format: Format) -> Negotiated {
    Negotiated { format, ..Negotiated::default() }
}

fn counting(sink: &mut dyn FnMut(&[u8])) -> impl FnMut(usize, &[u8]) -> usize {
    move |bytes, chunk| {
        sink(chunk);
        bytes + chunk.len()
    }
}

/// Samples and the sum of their values.
fn read(body: &[u8], format: Format) -> (usize, f64) {
    let (mut samples, mut sum) = (0, 0.0);
    if format == Format::Protobuf {
        for event in messages::Reader::new(body) {
            if let messages::Event::Metric(metric) = event.expect("written by us")
                && let messages::Value::Counter { value, .. } = metric.value
            {
                samples += 1;
                sum += value;
            }
        }
    } else {
        for event in Reader::new(body, format) {
            if let Event::Sample(sample) = event.expect("written by us") {
                samples += 1;
                sum += sample.reading.value;
            }
        }
    }
    (samples, sum)
}

/// What is measured: a name, the samples it writes, and how.
type Case<'w> = (&'static str, usize, Box<dyn FnMut(&mut Buffer) -> usize + 'w>);

fn cases(workload: &Workload) -> Vec<Case<'_>> {
    fn case<'w>(
        name: &'static str,
        samples: usize,
        run: impl Fn(&mut Buffer, &mut dyn FnMut(&[u8])) -> usize + 'w,
    ) -> Case<'w> {
        let run = move |buffer: &mut Buffer| {
            run(buffer, &mut |chunk| {
                black_box(chunk);
            })
        };
        (name, samples, Box::new(run))
    }
    use Format::{OpenMetrics, Protobuf, Text};
    let w = workload;
    let (all, lines) = (w.samples(), w.ends.len() * 28);
    vec![
        case("text", all, |buffer, sink| w.stored(buffer, Text, sink)),
        case("openmetrics", all, |buffer, sink| w.stored(buffer, OpenMetrics, sink)),
        case("protobuf", all, |buffer, sink| w.stored(buffer, Protobuf, sink)),
        case("text_pairs", all, |buffer, sink| w.pairs(buffer, Text, sink)),
        case("protobuf_pairs", all, |buffer, sink| w.pairs(buffer, Protobuf, sink)),
        case("text_floats", all, |buffer, sink| w.floats(buffer, Text, sink)),
        case("text_histograms", lines, |buffer, sink| w.histograms(buffer, Text, sink)),
        case("protobuf_histograms", lines, |buffer, sink| w.histograms(buffer, Protobuf, sink)),
    ]
}

fn nanoseconds(samples: usize, run: impl FnOnce() -> usize) -> f64 {
    let start = Instant::now();
    black_box(run());
    start.elapsed().as_nanos() as f64 / samples as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn check(workload: &Workload) {
    let expected: u64 = workload.values.iter().flatten().sum();
    for format in [Format::Text, Format::OpenMetrics, Format::Protobuf] {
        for by_pairs in [false, true] {
            let mut body = Vec::new();
            let mut sink = |chunk: &[u8]| body.extend_from_slice(chunk);
            let mut buffer = Buffer::new();
            if by_pairs {
                workload.pairs(&mut buffer, format, &mut sink);
            } else {
                workload.stored(&mut buffer, format, &mut sink);
            }
            let (samples, sum) = read(&body, format);
            assert_eq!(samples, workload.samples(), "{format:?}");
            assert_eq!(sum, expected as f64, "{format:?}");
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let is_small = has("--test") || !has("--bench");
    let (queues, rounds) = if is_small { (200, 1) } else { (2_000, 101) };
    let workload = Workload::new(queues);
    check(&workload);
    let mut cases = cases(&workload);
    let (mut buffer, mut bytes) = (Buffer::new(), vec![0; CHUNK]);
    if let Some(name) = arguments.iter().find_map(|argument| argument.strip_prefix("--profile=")) {
        let start = Instant::now();
        while start.elapsed().as_secs() < 5 {
            for (_, _, run) in cases.iter_mut().filter(|case| case.0 == name) {
                black_box(run(&mut buffer));
            }
        }
        return;
    }
    let mut floors = Vec::new();
    let mut times = vec![Vec::new(); cases.len()];
    let mut ratios = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for (index, (_, samples, run)) in cases.iter_mut().enumerate() {
            let floor = nanoseconds(workload.samples(), || workload.floor(&mut bytes));
            let time = nanoseconds(*samples, || run(&mut buffer));
            floors.push(floor);
            times[index].push(time);
            ratios[index].push(time / floor);
        }
    }
    let mut line = format!("RESULT exposition floor_ns={:.2}", median(floors));
    for (((name, ..), times), ratios) in cases.iter().zip(times).zip(ratios) {
        let (time, ratio) = (median(times), median(ratios));
        println!("{name:>20} {time:6.2} ns per sample, {ratio:.2} × the floor");
        // The first is the one with a bar.
        match *name {
            "text" => line += &format!(" ns_per_sample={time:.2} floor_ratio={ratio:.2}"),
            name => line += &format!(" {name}_ns={time:.2} {name}_floor_ratio={ratio:.2}"),
        }
    }
    println!("{line}");
}
