//! The store under a disk that dies: at any change, with torn writes, again and again.
//!
//! After `kill -9`, everything that was committed is there. After the loss of power, everything is
//! there that was synced. What was being committed may be there or not. Nothing else is.

mod naive;

use std::collections::BTreeMap;
use std::sync::Arc;

use naive::{Content, read};
use store::{Appender, Db, Labels, Options};
use testkit::disk::{End, SimulatedDisk};
use testkit::random::Random;

/// Length of a block where blocks are to be cut often, and where series are to leave before.
const SHORT: i64 = 200_000;
const LONG: i64 = 2_000_000;

struct Life {
    random: Random,
    range: i64,
    now: i64,
    /// What commits said is in.
    committed: Content,
    /// What of it was committed before the last sync.
    synced: Content,
    /// One opening of a file in so many fails in maintenance; 0 is none.
    refusing: u64,
    /// Series that left.
    departed: u64,
    /// What was ever handed in.
    offered: BTreeMap<Labels, BTreeMap<i64, Vec<u64>>>,
}

fn options(range: i64) -> Options {
    Options {
        retention_ms: 0,
        block_range_ms: range,
        segment_bytes: 1_500,
        shards: 2,
        sync_interval_ms: 20_000,
        ..Options::default()
    }
}

impl Life {
    fn commit(&mut self, appender: &mut Appender) -> bool {
        // Where series are to leave, others come by and by.
        let drift = if self.range == LONG { self.now as u64 / 150_000 * 3 } else { 0 };
        let first = self.random.below(12) + drift % 60;
        let mut batch = Vec::new();
        for number in first..first + 1 + self.random.below(12) {
            // A few series come and go, so that removal and reuse of rows are met.
            let generation = if number % 4 == 0 { self.now / (2 * self.range) } else { 0 };
            let labels = Labels::from_pairs([
                ("__name__", "m"),
                ("number", &number.to_string()),
                ("generation", &generation.to_string()),
            ]);
            let Ok(id) = appender.series(&labels) else { return false };
            let value = match self.random.below(4) {
                0 | 1 if self.range == LONG => f64::from_bits(0x7ff0_0000_0000_0002),
                0 => self.random.unit(),
                1 => 7.0,
                _ => self.now as f64 + number as f64,
            };
            appender.append(id, self.now, value);
            let offered = self.offered.entry(labels.clone()).or_default();
            offered.entry(self.now).or_default().push(value.to_bits());
            batch.push((labels, value.to_bits()));
        }
        let Ok(committed) = appender.commit() else { return false };
        assert_eq!(committed.rejected, [], "times ascend");
        for (labels, bits) in batch {
            self.committed.entry(labels).or_default().push((self.now, bits));
        }
        true
    }

    fn live(&mut self, db: &Db, disk: &SimulatedDisk) {
        let mut appenders = [db.appender(), db.appender()];
        while !disk.has_ended() {
            let step = if self.range == LONG { 20_000 } else { 3_000 };
            self.now += 1 + self.random.below(step) as i64;
            match self.random.below(30) {
                0 => {
                    let before = self.committed.clone();
                    if db.sync().is_ok() {
                        self.synced = before;
                    }
                }
                1..4 => {
                    disk.refuse_one_in(self.refusing);
                    let done = db.maintain(self.now).unwrap_or_else(|unfinished| unfinished.done);
                    disk.refuse_one_in(0);
                    self.departed += done.series_departed;
                }
                4 => self.now += self.random.below(200_000) as i64,
                5 => {
                    // What is in is also visible, as long as there is a disk to read from.
                    if !disk.has_ended() {
                        self.check_visible(db);
                    }
                }
                _ => {
                    let which = self.random.below(2) as usize;
                    self.commit(&mut appenders[which]);
                }
            }
        }
    }

    fn check_visible(&self, db: &Db) {
        // Of a commit that failed, the part of another shard may be in.
        if let Err(reason) = self.check(&read(db, &[], i64::MIN, i64::MAX), &self.committed) {
            panic!("{reason}");
        }
    }

    /// Whether `found` has all of `least` and nothing that was never offered.
    fn check(&self, found: &Content, least: &Content) -> Result<(), String> {
        for (labels, samples) in least {
            let others = found.get(labels).map_or(&[][..], Vec::as_slice);
            for sample in samples {
                if others.binary_search(sample).is_err() {
                    return Err(format!("{labels} lost {sample:?} of {}", samples.len()));
                }
            }
        }
        for (labels, samples) in found {
            for (time, bits) in samples {
                let offered = self.offered.get(labels).and_then(|times| times.get(time));
                if !offered.is_some_and(|values| values.contains(bits)) {
                    return Err(format!("{labels} has {time} {bits:x} from nowhere"));
                }
            }
        }
        Ok(())
    }
}

/// Answers how many series left.
fn run(seed: u64, failing: u64, range: i64) -> u64 {
    let mut disk = SimulatedDisk::new(seed);
    let mut life = Life {
        random: Random::new(seed ^ 0xabcd),
        range,
        refusing: if failing > 0 { 1 + failing * 2 } else { 0 },
        departed: 0,
        now: 5_000_000,
        committed: Content::new(),
        synced: Content::new(),
        offered: BTreeMap::new(),
    };
    for number in 0..6 {
        let context = || format!("seed {seed}, failing {failing}, life {number}");
        disk.end_after(1 + life.random.below(if number == 0 { 400 } else { 150 }));
        // The end may strike while the start is still reading.
        let opened = Db::open(Arc::new(disk.clone()), options(range), life.now);
        match opened {
            Ok((db, recovery)) => {
                assert!(recovery.damages.is_empty(), "{}: {:?}", context(), recovery.damages);
                disk.fail_one_in(failing);
                life.live(&db, &disk);
            }
            Err(error) => assert!(disk.has_ended(), "{}: {error}", context()),
        }
        let end = if life.random.below(2) == 0 { End::Kill } else { End::PowerLoss };
        disk = disk.restart(end);
        let opened = Db::open(Arc::new(disk.clone()), options(range), life.now);
        let (db, _) = opened.unwrap_or_else(|error| panic!("{}: {error}", context()));
        let found = read(&db, &[], i64::MIN, i64::MAX);
        let least = if end == End::Kill { &life.committed } else { &life.synced };
        if let Err(reason) = life.check(&found, least) {
            panic!("{}, {end:?}: {reason}", context());
        }
        life.committed = found;
        // A disk that is well again is all that it needs to go on.
        disk.fail_one_in(2);
        for _ in 0..4 {
            life.now += 20_000;
            disk.refuse_one_in(4);
            let _ = (db.maintain(life.now), life.commit(&mut db.appender()), db.sync());
            disk.refuse_one_in(0);
        }
        disk.fail_one_in(0);
        for _ in 0..2 {
            life.now += 60_000;
            db.maintain(life.now).unwrap_or_else(|error| panic!("{}: {error}", context()));
        }
        db.sync().unwrap_or_else(|error| panic!("{}: {error}", context()));
        let found = read(&db, &[], i64::MIN, i64::MAX);
        if let Err(reason) = life.check(&found, &life.committed) {
            panic!("{}, well again: {reason}", context());
        }
        drop(db);
        life.synced = found.clone();
        life.committed = found;
        disk = disk.restart(End::Kill);
    }
    life.departed
}

#[test]
fn what_was_promised_survives() {
    for seed in 0..80 {
        run(seed, 0, SHORT);
    }
}

#[test]
fn what_left_the_head_survives() {
    let departed: u64 = (2000..2040).map(|seed| run(seed, seed % 3 * (seed % 17), LONG)).sum();
    assert!(departed > 300, "{departed} series left");
}

#[test]
fn what_was_promised_survives_a_disk_that_also_refuses() {
    for seed in 1000..1040 {
        run(seed, 3 + seed % 20, SHORT);
    }
}
