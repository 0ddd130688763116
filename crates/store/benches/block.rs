//! Chunks and blocks: nanoseconds per sample encoded and decoded, microseconds to write, open and
//! select. `cargo bench -p store --bench block`; with `--test` it runs small, to see that it works.
#![expect(clippy::print_stdout, reason = "its output is the result")]

use std::time::Instant;

use store::block::{Block, BlockWriter, ChunkData, Meta};
use store::chunk::{Encoder, Encoding};
use store::disk::Directory;
use store::{Labels, Matcher, Samples, Series, chunk};
use testkit::random::Random;
use ulid::Ulid;

const SAMPLES_PER_CHUNK: usize = 120;

/// The median of nine runs, in nanoseconds for each of `count`.
fn median(count: usize, run: impl FnMut()) -> f64 {
    quantile(9, 0.5, count, run)
}

/// The fast end of many short runs: what the work takes between the interruptions by others.
fn undisturbed(count: usize, run: impl FnMut()) -> f64 {
    quantile(400, 0.02, count, run)
}

fn quantile(runs: usize, at: f64, count: usize, mut run: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_nanos() as f64 / count as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[(times.len() as f64 * at) as usize]
}

fn columns(kind: &str, count: usize) -> Vec<(i64, f64)> {
    let mut random = Random::new(1);
    let mut counter = 0.0;
    (0..count)
        .map(|index| {
            let timestamp = 1_700_000_000_000 + index as i64 * 15_000;
            match kind {
                "constant" => (timestamp, 1.0),
                "counter" => {
                    counter += random.below(50) as f64;
                    (timestamp + random.below(3) as i64, counter)
                }
                _ => (timestamp + random.below(3) as i64, random.unit()),
            }
        })
        .collect()
}

fn chunks(count: usize) {
    for kind in ["constant", "counter", "random"] {
        let samples = columns(kind, SAMPLES_PER_CHUNK);
        let mut buffer = vec![0; 2_048];
        let mut length = 0;
        let encode = undisturbed(count * SAMPLES_PER_CHUNK, || {
            for _ in 0..count {
                let mut encoder = Encoder::new();
                for &(timestamp, value) in &samples {
                    encoder.append(&mut buffer, timestamp, value).expect("it is large enough");
                }
                length = std::hint::black_box(&encoder).len();
            }
        });
        let mut read = Samples::default();
        let decode = undisturbed(count * SAMPLES_PER_CHUNK, || {
            for _ in 0..count {
                read.clear();
                let chunk = std::hint::black_box(&buffer[..length]);
                chunk::decode(Encoding::XOR, chunk, i64::MIN, i64::MAX, &mut read).unwrap();
            }
        });
        let same = read.timestamps.iter().copied().zip(read.values.iter().copied());
        assert!(same.eq(samples), "{kind}");
        let bytes = length as f64 / SAMPLES_PER_CHUNK as f64;
        println!("{kind:9} {bytes:5.2} B/sample  encode {encode:5.2} ns  decode {decode:5.2} ns");
    }
}

fn labels(instance: usize, metric: usize) -> Labels {
    Labels::from_pairs([
        ("__name__", format!("metric_{metric:04}").as_str()),
        ("instance", format!("host-{instance:05}:9100").as_str()),
        ("job", "node"),
        ("mode", ["idle", "user", "system"][metric % 3]),
    ])
}

fn blocks(instances: usize, metrics: usize) {
    let root = std::env::temp_dir().join(format!("unladen-bench-block-{}", std::process::id()));
    let disk = Directory::open(&root).unwrap();
    let samples = columns("counter", SAMPLES_PER_CHUNK);
    let mut encoder = Encoder::new();
    let mut bytes = Vec::new();
    for &(timestamp, value) in &samples {
        encoder.append_growing(&mut bytes, timestamp, value).unwrap();
    }
    let (first, last) = (samples[0].0, samples[SAMPLES_PER_CHUNK - 1].0);
    let series = instances * metrics;
    let meta = Meta::of_head(Ulid::nil(), first, last + 1);

    let start = Instant::now();
    let mut writer = BlockWriter::create(&disk, meta).unwrap();
    for metric in 0..metrics {
        for instance in 0..instances {
            writer.series(&labels(instance, metric)).unwrap();
            let chunk = ChunkData {
                min_time: first,
                max_time: last,
                encoding: Encoding::XOR,
                bytes: &bytes,
            };
            writer.chunk(&chunk).unwrap();
        }
    }
    writer.finish().unwrap();
    let write = start.elapsed();
    let start = Instant::now();
    let block = Block::open(&disk, Ulid::nil()).unwrap();
    let open = start.elapsed();
    println!(
        "block of {series} series: written in {:.2} s, opened in {:.2} ms, {} bytes",
        write.as_secs_f64(),
        open.as_secs_f64() * 1e3,
        block.size()
    );
    let cases = [
        ("all", vec![], series),
        ("metric", vec![Matcher::equal("__name__", "metric_0001")], instances),
        (
            "one",
            vec![
                Matcher::equal("__name__", "metric_0001"),
                Matcher::equal("instance", "host-00001:9100"),
            ],
            1,
        ),
        (
            "regex",
            vec![
                Matcher::equal("mode", "user"),
                Matcher::new(store::MatchOp::Match, "instance", "host-0000[0-4].*").unwrap(),
            ],
            5 * metrics.div_ceil(3),
        ),
    ];
    for (name, matchers, expected) in cases {
        let select = median(1, || {
            let found = block.select(&matchers, first, last).unwrap();
            assert!(name == "regex" || found.len() == expected, "{}", found.len());
        });
        let mut read = Samples::default();
        let total = median(1, || {
            for series in block.select(&matchers, first, last).unwrap() {
                let mut cursor = series.cursor();
                read.clear();
                while cursor.next(&mut read).unwrap() {}
                assert_eq!(read.len(), SAMPLES_PER_CHUNK);
            }
        });
        println!("  {name:6} select {:9.1} µs, with samples {:9.1} µs", select / 1e3, total / 1e3);
    }
    std::fs::remove_dir_all(root).unwrap();
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        chunks(1);
        blocks(10, 7);
    } else {
        chunks(50);
        blocks(500, 200);
    }
}
