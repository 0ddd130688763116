//! What the head costs: `head [targets] [series per target] [scrapes] [directory]`.
//!
//! Appends and commits batches as scrapes would, in order, on one thread, into a real directory, and
//! writes one line of figures. `ns` is the median over rounds of all targets, per sample, journalled.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::sync::Arc;
use std::time::Instant;

use store::disk::Directory;
use store::{Db, Labels, Options, Select, SeriesId};
use testkit::random::Random;

fn labels(target: usize, series: usize) -> Labels {
    Labels::from_pairs([
        ("__name__", format!("container_network_receive_packets_total_{}", series / 10)),
        ("cluster", "production-europe-west-1".to_owned()),
        ("namespace", format!("team-{}-services", target % 20)),
        ("pod", format!("checkout-api-7d9f8b6c5d-{target:05}")),
        ("container", "application".to_owned()),
        ("node", format!("node-{:03}.internal.example", target / 10)),
        ("job", "kubernetes-pods".to_owned()),
        ("instance", format!("10.{}.{}.7:8080", target / 250, target % 250)),
        ("interface", format!("eth{}", series % 10)),
        ("service", "checkout-api".to_owned()),
    ])
}

/// Half of the series stand still; the others count, in whole numbers, hundredths and fractions.
fn step(series: usize, value: f64, random: &mut Random) -> f64 {
    match series % 20 {
        0..10 => value,
        10..16 => value + random.below(500) as f64,
        16..18 => ((value * 100.0).round() + random.below(1000) as f64) / 100.0,
        18 => random.below(1 << 20) as f64,
        _ => random.unit(),
    }
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| {
        arguments.get(at).map_or(default, |text| text.parse().expect("a number"))
    };
    let (targets, per_target, scrapes) = (number(0, 10), number(1, 100), number(2, 130));
    let root = arguments.get(3).map_or_else(std::env::temp_dir, Into::into);
    let root = root.join(format!("unladen-head-{}", std::process::id()));
    let open = || {
        let disk = Directory::open(&root).expect("the directory can be made");
        Db::open(Arc::new(disk), Options::default(), 0).expect("it opens")
    };
    let mut random = Random::new(1);
    let before = resident_bytes();
    let (db, _) = open();
    let mut appender = db.appender();
    let started = Instant::now();
    let ids: Vec<SeriesId> = (0..targets * per_target)
        .map(|i| appender.series(&labels(i / per_target, i % per_target)).expect("there is room"))
        .collect();
    let create_ns = started.elapsed().as_nanos() as usize / ids.len();
    let mut values: Vec<f64> = (0..ids.len()).map(|i| (i * 1000) as f64).collect();
    let (start, mut rounds) = (1_700_000_000_000i64, Vec::new());
    for scrape in 0..scrapes {
        for (i, value) in values.iter_mut().enumerate() {
            *value = step(i % per_target, *value, &mut random);
        }
        let round = Instant::now();
        for (ids, values) in ids.chunks(per_target).zip(values.chunks(per_target)) {
            for (id, value) in ids.iter().zip(values) {
                appender.append(*id, start + 10_000 * scrape as i64, *value);
            }
            let committed = appender.commit().expect("the disk is well");
            assert_eq!(committed.appended, per_target as u64);
        }
        rounds.push(round.elapsed().as_nanos() as f64 / ids.len() as f64);
        db.maintain(start + 10_000 * scrape as i64).expect("the disk is well");
    }
    rounds.sort_by(f64::total_cmp);
    let held = resident_bytes() - before;
    let stats = db.stats();
    let samples = (ids.len() * scrapes) as u64;
    let known = ids.len() as u64 * 16;
    drop((appender, db));
    let started = Instant::now();
    let (db, recovery) = open();
    let restart_ms = started.elapsed().as_millis();
    let querier = db.querier(i64::MIN, i64::MAX);
    let found = querier.select(&[], i64::MIN, i64::MAX).expect("nothing is damaged");
    assert_eq!(found.len(), ids.len());
    println!(
        "RESULT head series={} samples={samples} create_ns={create_ns} append_ns={:.1} \
         append_worst_ns={:.1} journal_bytes_per_sample={:.2} chunk_bytes_per_sample={:.2} \
         rss_bytes_per_series={} known_bytes_per_series={} restart_ms={restart_ms} replayed={}",
        ids.len(),
        rounds[rounds.len() / 2],
        rounds[rounds.len() - 1],
        stats.journal_bytes as f64 / samples as f64,
        stats.head_chunk_bytes as f64 / samples as f64,
        held.saturating_sub(known) / ids.len() as u64,
        stats.memory_bytes / ids.len() as u64,
        recovery.samples,
    );
    drop(found);
    drop((querier, db));
    let _ = std::fs::remove_dir_all(root);
}
