//! Several appenders, queries and maintenance at once: every query sees whole series, in order, each
//! sample once, and everything that was committed before it began.

mod naive;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use naive::read;
use store::{Db, Labels, Matcher, Options};
use testkit::disk::SimulatedDisk;

const RANGE: i64 = 60_000;
const SERIES: i64 = 20;
const ROUNDS: i64 = 600;

#[test]
fn queries_see_everything_while_blocks_are_cut() {
    let options = Options {
        retention_ms: 0,
        block_range_ms: RANGE,
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
                scope.spawn(move || append(db, worker, committed))
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
                    check(db, worker, committed);
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
        check(&db, worker, committed);
    }
    let stats = db.stats();
    assert!(stats.blocks >= 5, "{stats:?}");
    assert!(queries.load(Ordering::Relaxed) > 0);
}

fn time(round: i64) -> i64 {
    1_000_000 + round * 1_000
}

fn append(db: &Db, worker: usize, committed: &[AtomicI64; 3]) {
    let mut appender = db.appender();
    for round in 1..=ROUNDS {
        // Workers stay close together: a sample half a block behind the newest would be too old.
        while committed.iter().any(|other| other.load(Ordering::Acquire) + 10 < round) {
            std::thread::yield_now();
        }
        for number in 0..SERIES {
            let labels = Labels::from_pairs([
                ("__name__", "m"),
                ("worker", &worker.to_string()),
                ("number", &number.to_string()),
            ]);
            let id = appender.series(&labels).unwrap();
            appender.append(id, time(round), (round * number) as f64);
        }
        assert_eq!(appender.commit().unwrap().rejected, []);
        committed[worker].store(round, Ordering::Release);
    }
}

fn check(db: &Db, worker: usize, committed: &AtomicI64) {
    let before = committed.load(Ordering::Acquire);
    let matchers = [Matcher::equal("worker", &worker.to_string())];
    let content = read(db, &matchers, i64::MIN, i64::MAX);
    assert!(before == 0 || content.len() == SERIES as usize, "{} series", content.len());
    for (labels, samples) in content {
        let number: i64 = labels.get("number").unwrap().parse().unwrap();
        assert!(samples.len() as i64 >= before, "{labels}: {} of {before}", samples.len());
        for (index, &(at, bits)) in samples.iter().enumerate() {
            let round = index as i64 + 1;
            assert_eq!((at, bits), (time(round), ((round * number) as f64).to_bits()), "{labels}");
        }
    }
}
