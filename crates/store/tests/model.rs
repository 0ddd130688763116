//! The store against a naive model: random commits, maintenance, reopening and queries.

mod naive;

use std::collections::BTreeMap;
use std::sync::Arc;

use naive::{Content, difference, read, select};
use store::{Appender, Db, Labels, MatchOp, Matcher, Options, Rejected, SeriesId};
use testkit::disk::{End, SimulatedDisk};
use testkit::random::Random;

const RANGE: i64 = 1_000_000;

fn options() -> Options {
    Options {
        retention_ms: 0,
        block_range_ms: RANGE,
        segment_bytes: 3_000,
        shards: 3,
        sync_interval_ms: 50_000,
        ..Options::default()
    }
}

struct World {
    random: Random,
    disk: SimulatedDisk,
    db: Option<Db>,
    appenders: Vec<Appender>,
    content: Content,
    /// The last id of each series: with another one, the head has forgotten what it was.
    ids: BTreeMap<Labels, (SeriesId, Option<(i64, u64)>)>,
    departed: u64,
    returned: u64,
    /// Last sample by series, as long as it is in the head.
    newest: i64,
    start: i64,
    now: i64,
}

fn labels(number: u64) -> Labels {
    Labels::from_pairs([
        ("__name__", ["up", "requests_total", "temperature"][number as usize % 3]),
        ("instance", &format!("host-{}", number / 3 % 5)),
        ("only", if number.is_multiple_of(4) { "some" } else { "" }),
        ("unique", &format!("{number}")),
    ])
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = SimulatedDisk::new(seed);
        let mut world = World {
            random: Random::new(seed),
            disk,
            db: None,
            appenders: Vec::new(),
            content: Content::new(),
            ids: BTreeMap::new(),
            departed: 0,
            returned: 0,
            newest: i64::MIN,
            start: i64::MIN,
            now: 10_000_000,
        };
        world.open();
        world
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open between operations")
    }

    fn open(&mut self) {
        let (db, recovery) =
            Db::open(Arc::new(self.disk.clone()), options(), self.now).expect("it opens");
        assert_eq!((recovery.damaged, recovery.samples_lost), (0, 0), "{recovery:?}");
        self.appenders = (0..3).map(|_| db.appender()).collect();
        self.db = Some(db);
    }

    fn value(&mut self, last: Option<u64>) -> f64 {
        let last = last.map_or(100.0, f64::from_bits);
        match self.random.below(8) {
            0 | 7 => f64::from_bits(0x7ff0_0000_0000_0002),
            1 => self.random.unit() * 1e6,
            2 => -0.0,
            3 => (self.random.below(100_000) as f64) / 100.0,
            4 | 5 => last + self.random.below(50) as f64,
            _ => last,
        }
    }

    /// One commit of one appender, with what must become of each sample.
    fn commit(&mut self) {
        let which = self.random.below(3) as usize;
        let count = 1 + self.random.below(40);
        // Which series have samples changes slowly, so that some of them leave and come back.
        let first = (self.now / 100_000 * 7) as u64 % 60;
        let mut expected = Vec::new();
        let mut appended = 0;
        let mut staged: BTreeMap<Labels, Vec<(i64, u64)>> = BTreeMap::new();
        let mut staged_last: BTreeMap<Labels, (i64, u64)> = BTreeMap::new();
        let min_valid = self.start.max(self.newest.saturating_sub(RANGE / 2));
        let mut newest = self.newest;
        for index in 0..count as usize {
            let set = labels((first + self.random.below(count)) % 60);
            let mut time = self.now - self.random.below(20) as i64;
            if self.random.below(30) == 0 {
                time -= self.random.below(2 * RANGE as u64) as i64;
            }
            let id = self.appenders[which].series(&set).expect("there is room");
            let last = match self.ids.get(&set) {
                Some(&(known, last)) if known == id => last,
                known => {
                    self.returned +=
                        u64::from(known.is_some_and(|(_, last)| {
                            last.is_some_and(|(last, _)| last >= self.start)
                        }));
                    self.ids.insert(set.clone(), (id, None));
                    None
                }
            };
            if self.random.below(20) == 0 {
                time = last.map_or(time, |(last, _)| last);
            }
            let mut value = self.value(last.map(|(_, bits)| bits));
            if self.random.below(3) == 0 {
                value = last.map_or(value, |(_, bits)| f64::from_bits(bits));
            }
            let last = staged_last.get(&set).copied().or(last);
            self.appenders[which].append(id, time, value);
            // The head knows nothing of samples that are in blocks, and nothing of them can come.
            let last = last.filter(|&(last, _)| last >= self.start);
            if time < min_valid {
                expected.push((index, Rejected::TooOld));
            } else if last.is_some_and(|(last, _)| time < last) {
                expected.push((index, Rejected::OutOfOrder));
            } else if let Some((_, bits)) = last.filter(|&(last, _)| time == last) {
                if bits == value.to_bits() {
                    appended += 1;
                } else {
                    expected.push((index, Rejected::DuplicateTimestamp));
                }
            } else {
                appended += 1;
                newest = newest.max(time);
                staged_last.insert(set.clone(), (time, value.to_bits()));
                let content = self.content.get(&set).cloned().unwrap_or_default();
                let samples = staged.entry(set).or_insert(content);
                // What departed may be younger, or of the same time: the head is believed.
                match samples.binary_search_by_key(&time, |&(time, _)| time) {
                    Ok(at) => samples[at].1 = value.to_bits(),
                    Err(at) => samples.insert(at, (time, value.to_bits())),
                }
            }
        }
        let appender = &mut self.appenders[which];
        if self.random.below(10) == 0 {
            appender.rollback();
            assert!(appender.is_empty());
            return;
        }
        let committed = appender.commit().expect("the disk is well");
        assert_eq!(committed.rejected, expected);
        assert_eq!(committed.appended, appended);
        self.content.extend(staged);
        for (set, last) in staged_last {
            self.ids.get_mut(&set).expect("its id was asked for").1 = Some(last);
        }
        self.newest = newest;
    }

    fn maintain(&mut self) {
        let done = self.db().maintain(self.now).expect("the disk is well");
        assert_eq!(done.damages, [""; 0]);
        self.departed += done.series_departed;
        let blocks = self.db().stats();
        if done.blocks_cut > 0 {
            self.start =
                blocks.time_range.map_or(self.start, |(min, _)| min - min.rem_euclid(RANGE));
        }
    }

    fn check(&mut self) {
        let far = self.now + 10 * RANGE;
        let (mut from, mut to) = (i64::MIN, i64::MAX);
        if self.random.below(2) == 0 {
            from = self.random.below(far as u64) as i64;
            to = from + self.random.below(3 * RANGE as u64) as i64;
        }
        let matchers: Vec<_> = match self.random.below(7) {
            0 => vec![Matcher::equal("__name__", "up")],
            1 => vec![Matcher::equal("only", ""), Matcher::equal("instance", "host-2")],
            2 => vec![Matcher::new(MatchOp::Match, "instance", "host-[13]").unwrap()],
            3 => vec![Matcher::new(MatchOp::NotEqual, "only", "").unwrap()],
            4 => vec![
                Matcher::new(MatchOp::NotMatch, "unique", "1.*").unwrap(),
                Matcher::new(MatchOp::Match, "__name__", "up|requests.*").unwrap(),
            ],
            5 => vec![Matcher::equal("instance", "nowhere")],
            _ => vec![],
        };
        let found = read(self.db(), &matchers, from, to);
        let expected = select(&self.content, &matchers, from, to);
        if let Some(difference) = difference(&found, &expected) {
            panic!("{matchers:?} from {from} to {to}: {difference}");
        }
        let querier = self.db().querier(i64::MIN, i64::MAX);
        let all = select(&self.content, &matchers, i64::MIN, i64::MAX);
        let sets: Vec<_> = all.keys().cloned().collect();
        assert_eq!(querier.series(&matchers, 0).unwrap(), sets);
        if !matchers.is_empty() {
            let values: std::collections::BTreeSet<_> =
                sets.iter().filter_map(|set| set.get("instance")).collect();
            let found = querier.label_values("instance", &matchers, 0).unwrap();
            assert!(found.iter().eq(values.iter()), "{found:?} {values:?}");
            let names: std::collections::BTreeSet<_> =
                sets.iter().flat_map(|set| set.iter().map(|(name, _)| name)).collect();
            assert!(querier.label_names(&matchers, 0).unwrap().iter().eq(names.iter()));
        }
    }

    fn reopen(&mut self) {
        let db = self.db.take().expect("open between operations");
        if self.random.below(2) == 0 {
            db.close().expect("the disk is well");
            assert!(self.appenders[0].commit().is_ok(), "an empty batch needs no store");
            self.appenders.clear();
        } else {
            self.appenders.clear();
            drop(db);
            self.disk = self.disk.restart(End::Kill);
        }
        self.open();
    }

    fn step(&mut self) {
        self.now += 1 + self.random.below(15_000) as i64;
        match self.random.below(40) {
            0 => self.reopen(),
            1..5 => self.maintain(),
            5..8 => self.check(),
            8 => self.now += self.random.below(RANGE as u64) as i64,
            _ => self.commit(),
        }
    }
}

#[test]
fn the_store_does_what_a_naive_one_does() {
    let (mut departed, mut returned) = (0, 0);
    for seed in 0..10 {
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.step();
        }
        world.check();
        let stats = world.db().stats();
        assert!(stats.blocks > 1, "the run crosses boundaries of blocks: {stats:?}");
        departed += world.departed;
        returned += world.returned;
    }
    assert!(departed > 100 && returned > 20, "{departed} series left, {returned} came back");
}
