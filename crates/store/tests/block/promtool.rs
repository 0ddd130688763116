//! Prometheus' own tool reads what is written here, and what it writes is read.
//!
//! Needs `promtool` 3, from the environment variable `UNLADEN_PROMTOOL` or the path; the tests say
//! that they skipped where there is none.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

use store::block::{Block, catalog};
use store::{Db, Disk, Labels, Options};
use testkit::random::Random;
use ulid::Ulid;

use crate::corpus::{self, Model, STALE, Scratch};

fn promtool() -> Option<PathBuf> {
    let named = std::env::var_os("UNLADEN_PROMTOOL").map(PathBuf::from);
    let found = named.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|dir| dir.join("promtool")).find(|file| file.is_file())
    });
    if found.is_none() {
        #[expect(clippy::print_stderr, reason = "a test says that it skipped")]
        {
            eprintln!("skipped: no promtool in UNLADEN_PROMTOOL or PATH");
        }
    }
    found
}

fn run(promtool: &PathBuf, arguments: &[&str]) -> String {
    let output = Command::new(promtool).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// A value as it stands in a text: all NaNs are one.
fn in_text(bits: u64) -> u64 {
    if f64::from_bits(bits).is_nan() { f64::NAN.to_bits() } else { bits }
}

/// `{labels} value timestamp` on each line.
fn parse_dump(dump: &str) -> BTreeMap<String, BTreeMap<i64, u64>> {
    let mut series: BTreeMap<String, BTreeMap<i64, u64>> = BTreeMap::new();
    for line in dump.lines() {
        let mut parts = line.rsplitn(3, ' ');
        let timestamp = parts.next().unwrap().parse().unwrap();
        let value: f64 = parts.next().unwrap().parse().unwrap();
        let labels = parts.next().unwrap().to_owned();
        let fresh = series.entry(labels).or_default().insert(timestamp, in_text(value.to_bits()));
        assert!(fresh.is_none(), "twice: {line}");
    }
    series
}

#[test]
fn promtool_reads_our_blocks() {
    let Some(promtool) = promtool() else { return };
    let scratch = Scratch::new("promtool-reads");
    let mut random = Random::new(17);
    let mut expected: BTreeMap<String, BTreeMap<i64, u64>> = BTreeMap::new();
    let hours = 7_200_000;
    let mut numbers = Vec::new();
    for index in 0..3 {
        let range = (index * hours, (index + 1) * hours);
        let model = corpus::random_model(&mut random, 1_500, range.0, range.1);
        let ulid = Ulid::from_parts(1_000 + index as u64, 0);
        let meta = corpus::write(&scratch.disk, &model, ulid, range, 300_000);
        assert!(scratch.file(format!("{ulid}/chunks/000002")).exists(), "several segments");
        numbers.push(meta.stats.clone());
        for (labels, samples) in model {
            let series = expected.entry(labels.to_string()).or_default();
            series.extend(samples.into_iter().map(|(t, v)| (t, in_text(v))));
        }
    }
    // `dump` looks for a write-ahead log and insists on its directory.
    scratch.disk.create_dir("wal").unwrap();
    let path = scratch.path.to_str().unwrap();
    let listed = run(&promtool, &["tsdb", "list", path]);
    for (index, stats) in numbers.iter().enumerate() {
        let ulid = Ulid::from_parts(1_000 + index as u64, 0).to_string();
        let line = listed.lines().find(|line| line.starts_with(&ulid)).expect("it is listed");
        let fields: Vec<&str> = line.split_whitespace().collect();
        for number in [stats.num_samples, stats.num_chunks, stats.num_series] {
            assert!(fields.contains(&number.to_string().as_str()), "{number} in {line}");
        }
    }
    let block = Ulid::from_parts(1_001, 0).to_string();
    let analyzed = run(&promtool, &["tsdb", "analyze", path, &block]);
    assert!(analyzed.contains(&format!("Total Series: {}", numbers[1].num_series)), "{analyzed}");
    // Extended, it opens every chunk and counts them by the number of their samples.
    let extended = run(&promtool, &["tsdb", "analyze", "--extended", path, &block]);
    let (_, counts) = extended.split_once("samples per float chunk").expect("there are floats");
    let counts = counts.lines().skip(1).take_while(|line| line.starts_with('['));
    let chunks = counts.map(|line| {
        let count = line.split_once("]: ").unwrap().1.split_whitespace().next().unwrap();
        count.parse::<u64>().unwrap()
    });
    assert_eq!(chunks.sum::<u64>(), numbers[1].num_chunks);

    let dumped = parse_dump(&run(&promtool, &["tsdb", "dump", path]));
    assert_eq!(dumped.len(), expected.len());
    assert!(dumped == expected, "the dump has other samples");
    // Its index finds by matchers, too.
    let matcher = r#"{job=~"v1|v2",__name__!="metric_3"}"#;
    let dumped = run(&promtool, &["tsdb", "dump", "--match", matcher, path]);
    let wanted = |labels: &str| {
        (labels.contains(r#" job="v1""#) || labels.contains(r#" job="v2""#))
            && !labels.contains("metric_3")
    };
    let matching: BTreeMap<_, _> =
        expected.into_iter().filter(|(labels, _)| wanted(labels)).collect();
    assert!(!matching.is_empty());
    assert!(parse_dump(&dumped) == matching, "the matching dump has other samples");
}

#[test]
fn promtool_reads_what_a_store_cuts() {
    let Some(promtool) = promtool() else { return };
    let scratch = Scratch::new("promtool-db");
    let hour = 3_600_000;
    let disk = std::sync::Arc::new(scratch.disk.clone());
    let (db, _) = Db::open(disk, Options::default(), 0).unwrap();
    let mut appender = db.appender();
    let ids: Vec<_> = (0..50)
        .map(|number| {
            let host = format!("hôte {number}");
            let labels = Labels::from_pairs([("__name__", "up"), ("instance", host.as_str())]);
            (labels.to_string(), appender.series(&labels).unwrap())
        })
        .collect();
    let mut expected: BTreeMap<String, BTreeMap<i64, u64>> = BTreeMap::new();
    let mut random = Random::new(31);
    for time in (0..6 * hour).step_by(60_000) {
        for (labels, id) in &ids {
            let value = random.below(100) as f64 / 4.0;
            appender.append(*id, time, value);
            if time < 2 * hour {
                expected.entry(labels.clone()).or_default().insert(time, value.to_bits());
            }
        }
        assert_eq!(appender.commit().unwrap().rejected.len(), 0);
    }
    let done = db.maintain(6 * hour).unwrap();
    assert!(done.blocks_cut >= 1, "{done:?}");
    db.close().unwrap();
    let path = scratch.path.to_str().unwrap();
    let listed = run(&promtool, &["tsdb", "list", path]);
    assert_eq!(listed.lines().count() as u64, 1 + done.blocks_cut, "{listed}");
    let to = format!("--max-time={}", 2 * hour - 1);
    let dumped = parse_dump(&run(&promtool, &["tsdb", "dump", &to, path]));
    assert!(dumped == expected, "the dump has other samples");
}

#[test]
fn we_read_promtools_blocks() {
    let Some(promtool) = promtool() else { return };
    let scratch = Scratch::new("promtool-writes");
    let mut random = Random::new(23);
    let mut expected = Model::new();
    let mut text = String::from("# TYPE made gauge\n");
    for instance in 0..300 {
        let labels = Labels::from_pairs([
            ("__name__", "made"),
            ("instance", format!("host{}:9100", instance % 97).as_str()),
            ("path", format!("/é\\\"{instance}\n").as_str()),
        ]);
        let path = format!("/é\\\\\\\"{instance}\\n");
        let samples = expected.entry(labels).or_default();
        for step in 0..200_i64 {
            // Seconds in the text, over several blocks of two hours.
            let timestamp = 100 * step * 1_000 + i64::from(instance) * 1_000;
            let value = match random.below(20) {
                0 => f64::NEG_INFINITY,
                1 => f64::NAN,
                2 => 1e-300 * random.unit(),
                _ => random.below(1_000) as f64 / 8.0,
            };
            let shown = if value.is_infinite() { "-Inf".to_owned() } else { format!("{value:e}") };
            let host = instance % 97;
            writeln!(
                text,
                "made{{instance=\"host{host}:9100\",path=\"{path}\"}} {shown} {}",
                timestamp / 1_000
            )
            .unwrap();
            samples.insert(timestamp, in_text(value.to_bits()));
        }
    }
    text.push_str("# EOF\n");
    let input = scratch.file("input.om");
    std::fs::write(&input, text).unwrap();
    let out = scratch.path.to_str().unwrap();
    run(&promtool, &["tsdb", "create-blocks-from", "openmetrics", input.to_str().unwrap(), out]);

    let blocks = catalog::list(&scratch.disk).unwrap();
    assert!(blocks.len() > 1);
    let mut found = Model::new();
    for ulid in blocks {
        let block = Block::open(&scratch.disk, ulid).unwrap();
        assert!(block.damages().is_empty());
        let model = corpus::selected(&block, &[], i64::MIN, i64::MAX).unwrap();
        assert_eq!(block.meta().stats.num_series, model.len() as u64);
        for (labels, samples) in model {
            assert!(samples.values().all(|&value| value != STALE));
            found.entry(labels).or_default().extend(samples.iter().map(|(t, v)| (*t, in_text(*v))));
        }
    }
    assert!(found == expected, "the blocks have other samples");
}
