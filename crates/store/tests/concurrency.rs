//! Several appenders, queries and maintenance at once: every query sees whole series, in order, each
//! sample once, and everything that was committed before it began.

mod naive;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use naive::read;
use store::db::{Appender, Rejected};
use store::{Db, Labels, Matcher, Options, Stats};
use testkit::disk::SimulatedDisk;

const SERIES: i64 = 20;
const ROUNDS: i64 = 600;
/// Series below this number end with this round, where some end.
const ENDING: i64 = 8;
const END: i64 = 100;
const STALE: u64 = 0x7ff0_0000_0000_0002;

#[test]
fn queries_see_everything_while_blocks_are_cut() {
    let stats = run(60_000, ROUNDS);
    assert!(stats.blocks >= 5, "{stats:?}");
}

#[test]
fn queries_see_everything_while_series_leave() {
    let stats = run(7_200_000, END);
    assert_eq!(stats.departed_series, 3 * ENDING as u64, "{stats:?}");
    assert_eq!(stats.series, 3 * (SERIES - ENDING) as u64, "{stats:?}");
}

/// Some series end with the round `end`.
fn run(range: i64, end: i64) -> Stats {
    let options = Options {
        retention_ms: 0,
        block_range_ms: range,
        segment_bytes: 4_000,
        shards: 3,
        ..Options::default()
    };
    let (db, _) = Db::open(Arc::new(SimulatedDisk::new(1)), options, 0).unwrap();
    let committed: [AtomicI64; 3] = Default::default();
    let (running, queries) = (AtomicBool::new(true), AtomicI64::new(0));
    std::thread::scope(|scope| {
        let appending: Vec<_> = (0..3)
            .map(|worker| {
                let (db, committed) = (&db, &committed);
                scope.spawn(move || append(db, worker, committed, end))
            })
            .collect();
        let (db, running, committed, queries) = (&db, &running, &committed, &queries);
        scope.spawn(move || {
            let mut now = 0;
            while running.load(Ordering::Acquire) {
                now += 40_000;
                db.maintain(now).unwrap();
                std::thread::yield_now();
            }
        });
        scope.spawn(move || {
            while running.load(Ordering::Acquire) {
                for (worker, committed) in committed.iter().enumerate() {
                    check(db, worker, committed, end);
                    queries.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let results: Vec<_> = appending.into_iter().map(|thread| thread.join()).collect();
        running.store(false, Ordering::Release);
        for result in results {
            result.expect("the appender is well");
        }
    });
    for (worker, committed) in committed.iter().enumerate() {
        check(&db, worker, committed, end);
    }
    assert!(queries.load(Ordering::Relaxed) > 0);
    // Nobody looks any more.
    db.maintain(i64::MAX / 2).unwrap();
    db.stats()
}

fn is_ending(number: i64) -> bool {
    number < ENDING
}

/// The bits of a sample; the last one of a series that ends is a marker.
fn bits(round: i64, number: i64, end: i64) -> u64 {
    if is_ending(number) && round == end && end < ROUNDS {
        STALE
    } else {
        ((round * number) as f64).to_bits()
    }
}

fn time(round: i64) -> i64 {
    1_000_000 + round * 1_000
}

fn append(db: &Db, worker: usize, committed: &[AtomicI64; 3], end: i64) {
    let _end = End(&committed[worker]);
    let mut appender = db.appender();
    for round in 1..=ROUNDS {
        // Workers stay close together: a sample half a block behind the newest would be too old.
        while committed.iter().any(|other| other.load(Ordering::Acquire) + 10 < round) {
            std::thread::yield_now();
        }
        let mut attempts = 0;
        while !append_round(&mut appender, worker, round, end) {
            attempts += 1;
            assert!(
                round == 1 && attempts < 100,
                "round {round}: series that have samples are gone"
            );
        }
        committed[worker].store(round, Ordering::Release);
    }
}

/// A worker that failed holds up nobody.
struct End<'a>(&'a AtomicI64);

impl Drop for End<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(i64::MAX / 2, Ordering::Release);
        }
    }
}

/// Appends a round; false if it has to be appended again. Time is simulated: a thread that waits for a
/// processor may find that the series that it created, and had no sample yet, were removed as empty since.
fn append_round(appender: &mut Appender, worker: usize, round: i64, end: i64) -> bool {
    for number in (0..SERIES).filter(|&number| round <= end || !is_ending(number)) {
        let labels = Labels::from_pairs([
            ("__name__", "m"),
            ("worker", &worker.to_string()),
            ("number", &number.to_string()),
        ]);
        let id = appender.series(&labels).unwrap();
        appender.append(id, time(round), f64::from_bits(bits(round, number, end)));
    }
    let rejected = &appender.commit().unwrap().rejected;
    let is_unknown = |(_, why): &(usize, Rejected)| *why == Rejected::UnknownSeries;
    assert!(rejected.iter().all(is_unknown), "{rejected:?}");
    rejected.is_empty()
}

fn check(db: &Db, worker: usize, committed: &AtomicI64, end: i64) {
    let before = committed.load(Ordering::Acquire);
    let matchers = [Matcher::equal("worker", &worker.to_string())];
    let content = read(db, &matchers, i64::MIN, i64::MAX);
    assert!(before == 0 || content.len() == SERIES as usize, "{} series", content.len());
    for (labels, samples) in content {
        let number: i64 = labels.get("number").unwrap().parse().unwrap();
        let least = if is_ending(number) { before.min(end) } else { before };
        assert!(samples.len() as i64 >= least, "{labels}: {} of {before}", samples.len());
        for (index, &(at, found)) in samples.iter().enumerate() {
            let round = index as i64 + 1;
            assert_eq!((at, found), (time(round), bits(round, number, end)), "{labels}");
        }
    }
}
