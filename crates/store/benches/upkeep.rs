//! What the store's regular work costs where nothing ends: 500,000 series in two shards that go on being
//! appended to, in processor time over ten simulated minutes of rounds five seconds apart.
//!
//! Between two rounds the caches are filled with something else, as the scrapes in between do. Run with
//! `cargo bench -p store --bench upkeep`.

#![allow(clippy::print_stdout, reason = "a bench tells what it found")]

use std::sync::Arc;
use std::time::Duration;

use store::disk::Directory;
use store::{Db, Labels, Options, SeriesId};

const SERIES: usize = 500_000;
const ROUND_MS: i64 = 5_000;
const ROUNDS: i64 = 120;
const BEGIN: i64 = 1_700_000_000_000;

/// Of this thread: others use the machine, too.
fn cpu_time() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(told.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default())
}

fn main() {
    // Built and run by the tests, too.
    let series = if std::env::args().any(|word| word == "--bench") { SERIES } else { 1_000 };
    let root = std::env::temp_dir().join(format!("unladen-upkeep-{}", std::process::id()));
    let disk = Directory::open(&root).expect("a scratch directory");
    // What the disk takes to sync is not the question.
    let options = Options { sync_interval_ms: i64::MAX, ..Options::default() };
    let (db, _) = Db::open(Arc::new(disk), options, BEGIN).expect("it opens");
    let mut appenders = [db.appender(), db.appender()];
    let mut ids: Vec<(usize, SeriesId)> = Vec::with_capacity(series);
    for number in 0..series {
        let labels = Labels::from_pairs([("__name__", "m"), ("i", &number.to_string())]);
        let of = number * appenders.len() / series;
        ids.push((of, appenders[of].series(&labels).expect("there is room")));
    }
    let mut other = vec![1u8; 64 << 20];
    let mut took: Vec<Duration> = Vec::new();
    for round in 0..=ROUNDS {
        let now = BEGIN + round * ROUND_MS;
        if round % 6 == 0 {
            for &(of, id) in &ids {
                appenders[of].append(id, now, round as f64);
            }
            for appender in &mut appenders {
                appender.commit().expect("the disk is well");
            }
        }
        other.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
        let begun = cpu_time();
        db.maintain(now).expect("the disk is well");
        took.push(cpu_time().saturating_sub(begun));
    }
    let all: Duration = took.iter().sum();
    took.sort_unstable();
    let per_row = |time: Duration| time.as_secs_f64() * 1e9 / series as f64;
    println!(
        "{series} series, {ROUNDS} rounds: {:.1} ms, {:.1} ns for each series; the longest rounds {:.1?}",
        all.as_secs_f64() * 1e3,
        per_row(all),
        &took[took.len() - 5..],
    );
    std::hint::black_box(other);
    drop(db);
    let _ = std::fs::remove_dir_all(root);
}
