//! Series that went stale leave the head and are found all the same: beside what is left of it, after a
//! start, in the block that is cut, and when they come back.

mod naive;

use std::sync::Arc;

use naive::{Content, difference, read, read_from};
use store::{Db, Labels, MatchOp, Matcher, Options, Recovery};
use testkit::disk::{End, SimulatedDisk};

const MINUTE: i64 = 60_000;
const RANGE: i64 = 120 * MINUTE;
const START: i64 = RANGE * 200;
const STALE: u64 = 0x7ff0_0000_0000_0002;

fn labels(number: i64) -> Labels {
    Labels::from_pairs([
        ("__name__", ["cpu", "memory"][number as usize % 2]),
        ("job", "kubelet"),
        ("pod", &format!("pod-{:05}", number / 2)),
    ])
}

fn options() -> Options {
    Options { retention_ms: 0, shards: 2, ..Options::default() }
}

fn open(disk: &SimulatedDisk) -> (Db, Recovery) {
    let (db, recovery) = Db::open(Arc::new(disk.clone()), options(), START).expect("it opens");
    assert_eq!((recovery.samples_lost, recovery.torn), (0, 0), "{recovery:?}");
    (db, recovery)
}

/// Fleets that come and go: at each minute, those of `live` have a sample, or a stale marker.
struct World {
    content: Content,
    now: i64,
}

impl World {
    fn new() -> Self {
        World { content: Content::new(), now: START }
    }

    fn append(&mut self, db: &Db, numbers: std::ops::Range<i64>, bits: impl Fn(i64) -> u64) {
        let mut appender = db.appender();
        for number in numbers {
            let id = appender.series(&labels(number)).unwrap();
            let bits = bits(number);
            appender.append(id, self.now, f64::from_bits(bits));
            self.content.entry(labels(number)).or_default().push((self.now, bits));
        }
        assert_eq!(appender.commit().unwrap().rejected, []);
    }

    fn scrape(&mut self, db: &Db, numbers: std::ops::Range<i64>) {
        let now = self.now;
        self.append(db, numbers, |number| ((now / 1000 + number) as f64).to_bits());
    }

    fn end(&mut self, db: &Db, numbers: std::ops::Range<i64>) {
        self.append(db, numbers, |_| STALE);
    }

    /// Scrapes `numbers` for so many minutes, with maintenance.
    fn run(&mut self, db: &Db, numbers: std::ops::Range<i64>, minutes: i64) -> u64 {
        let mut departed = 0;
        for _ in 0..minutes {
            self.now += MINUTE;
            self.scrape(db, numbers.clone());
            let done = db.maintain(self.now).unwrap();
            assert_eq!(done.damages, [""; 0]);
            departed += done.series_departed;
        }
        departed
    }

    fn check(&self, db: &Db, when: &str) {
        if let Some(difference) = difference(&read(db, &[], i64::MIN, i64::MAX), &self.content) {
            panic!("{when}: {difference}");
        }
    }
}

#[test]
fn they_leave_within_minutes_and_are_found_until_and_in_the_block() {
    let disk = SimulatedDisk::new(1);
    let (db, _) = open(&disk);
    let mut world = World::new();
    world.run(&db, 0..20, 30);
    world.now += MINUTE;
    world.end(&db, 0..12);
    assert_eq!(world.run(&db, 12..20, 4), 0, "not at once");
    let before = db.querier(i64::MIN, i64::MAX);
    assert_eq!(world.run(&db, 12..20, 7), 12);
    let stats = db.stats();
    assert_eq!((stats.series, stats.departed_series), (20, 12), "a query may look for them");
    let old = read_from(&before, &[], i64::MIN, world.now - 8 * MINUTE);
    assert_eq!(old.len(), 20);
    drop(before);
    world.run(&db, 12..20, 1);
    let stats = db.stats();
    assert_eq!((stats.series, stats.departed_series, stats.departed_files), (8, 12, 1));
    assert_eq!(stats.label_pairs, 2 + 1 + 4, "nothing of them is left in the index");
    world.check(&db, "departed");

    let querier = db.querier(i64::MIN, i64::MAX);
    let all: Vec<_> = world.content.keys().cloned().collect();
    assert_eq!(querier.series(&[], 0).unwrap(), all);
    assert_eq!(querier.label_names(&[], 0).unwrap(), ["__name__", "job", "pod"]);
    assert_eq!(querier.label_values("pod", &[], 0).unwrap().len(), 10);
    let matchers = [Matcher::new(MatchOp::Match, "pod", "pod-0000[15]").unwrap()];
    assert_eq!(querier.label_values("pod", &matchers, 0).unwrap(), ["pod-00001", "pod-00005"]);
    let one = [Matcher::equal("pod", "pod-00002"), Matcher::equal("__name__", "cpu")];
    assert_eq!(querier.label_values("pod", &one, 0).unwrap(), ["pod-00002"]);
    assert_eq!(read(&db, &one, i64::MIN, i64::MAX).len(), 1);
    let end = START + 31 * MINUTE;
    assert_eq!(read(&db, &one, end + 1, i64::MAX).len(), 0, "after its end");
    assert_eq!(db.querier(end + 1, i64::MAX).series(&[], 0).unwrap().len(), 8);
    drop(querier);

    // A start does not bring them back.
    drop(db);
    let (db, recovery) = open(&disk.restart(End::Kill));
    assert_eq!((recovery.series, recovery.damaged), (8, 0));
    assert_eq!((db.stats().series, db.stats().departed_series), (8, 12));
    world.check(&db, "after a start");

    // The block has them, and the file goes.
    world.run(&db, 12..20, 170);
    let stats = db.stats();
    assert_eq!((stats.blocks, stats.departed_files, stats.departed_series), (1, 0, 0));
    world.check(&db, "in the block");
    drop(db);
    let disk = disk.restart(End::Kill);
    assert!(!disk.files().iter().any(|(path, _)| path.contains("departed")));
    let (db, recovery) = open(&disk);
    assert_eq!((recovery.series, recovery.damaged, recovery.blocks), (8, 0, 1));
    world.check(&db, "in the block, after a start");
}

/// Views are replaced when series leave, when files are merged and when a block is cut.
#[test]
fn a_query_sees_what_it_saw_whatever_happens_since() {
    let disk = SimulatedDisk::new(1);
    let (db, _) = open(&disk);
    let mut world = World::new();
    let mut queriers = Vec::new();
    for round in 0..30 {
        world.run(&db, round..round + 20, 10);
        world.now += MINUTE;
        world.end(&db, round..round + 1);
        // The first one keeps all that it saw in the head. Those in between let series leave.
        if round == 0 || round >= 12 && round % 5 == 0 {
            queriers.push((world.now, db.querier(i64::MIN, world.now), world.content.clone()));
        }
        if round == 11 {
            let (_, querier, content) = queriers.remove(0);
            let found = read_from(&querier, &[], i64::MIN, START + 11 * MINUTE);
            assert_eq!(difference(&found, &content), None, "a query of the beginning");
        }
    }
    assert!(db.stats().blocks >= 2);
    for (until, querier, content) in queriers {
        let found = read_from(&querier, &[], i64::MIN, until);
        if let Some(difference) = difference(&found, &content) {
            panic!("a query of minute {}: {difference}", (until - START) / MINUTE);
        }
    }
    world.run(&db, 30..50, 3);
    assert!(db.stats().series < 25, "{:?}", db.stats());
    world.check(&db, "at the end");
}

#[test]
fn those_that_come_back_are_one_series_with_their_past() {
    let disk = SimulatedDisk::new(1);
    let (mut db, _) = open(&disk);
    let mut world = World::new();
    for round in 0..6 {
        world.run(&db, 0..6, 10);
        world.now += MINUTE;
        world.end(&db, 0..4);
        // Sometimes before they left, sometimes after.
        let away = [3, 14, 6, 30, 11, 12][round];
        world.run(&db, 4..6, away);
        world.check(&db, "away");
        if round % 2 == 1 {
            drop(db);
            db = open(&disk.restart(if round == 3 { End::PowerLoss } else { End::Kill })).0;
            if round == 3 {
                // What was not synced is lost: begin anew from there.
                world.content = read(&db, &[], i64::MIN, i64::MAX);
            }
            world.check(&db, "after a start");
        }
    }
    world.run(&db, 0..6, 180);
    assert!(db.stats().blocks >= 1);
    world.check(&db, "in blocks");
}

#[test]
fn samples_of_a_time_before_it_left_lie_between_the_others() {
    let disk = SimulatedDisk::new(1);
    let (db, _) = open(&disk);
    let mut world = World::new();
    world.run(&db, 0..4, 30);
    world.now += MINUTE;
    world.end(&db, 0..2);
    assert_eq!(world.run(&db, 2..4, 12), 2);
    // Late ones: between those of before, and one at the same time.
    let mut appender = db.appender();
    let id = appender.series(&labels(0)).unwrap();
    for (time, value) in [(20 * MINUTE, 7.0), (20 * MINUTE + 1, 8.0), (40 * MINUTE, 9.0)] {
        appender.append(id, START + time, value);
    }
    assert_eq!(appender.commit().unwrap().rejected, []);
    drop(appender);
    let samples = world.content.get_mut(&labels(0)).unwrap();
    samples.retain(|&(time, _)| time != START + 20 * MINUTE);
    samples.extend(
        [(20 * MINUTE, 7.0), (20 * MINUTE + 1, 8.0), (40 * MINUTE, 9.0)]
            .map(|(time, value): (i64, f64)| (START + time, value.to_bits())),
    );
    samples.sort_unstable();
    world.check(&db, "beside each other");
    world.now += MINUTE;
    world.end(&db, 0..1);
    assert_eq!(world.run(&db, 2..4, 12), 1, "it leaves again");
    world.check(&db, "in two files");
    drop(db);
    let (db, _) = open(&disk.restart(End::Kill));
    world.check(&db, "in two files, after a start");
    world.run(&db, 2..4, 150);
    assert_eq!((db.stats().blocks, db.stats().departed_files), (1, 0));
    world.check(&db, "in the block");
}

/// Every ten minutes some are replaced: what is in memory is of those that live.
#[test]
fn memory_stays_flat_while_series_are_replaced() {
    const LIVE: i64 = 200;
    let disk = SimulatedDisk::new(1);
    let (db, _) = open(&disk);
    let mut world = World::new();
    let mut memory = Vec::new();
    let mut first = 0;
    for round in 0..72 {
        let departed = world.run(&db, first..first + LIVE, 10);
        assert!(departed == 0 || round > 0);
        world.now += MINUTE;
        world.end(&db, first..first + LIVE / 10);
        first += LIVE / 10;
        let stats = db.stats();
        assert!(stats.departed_files <= 10, "{stats:?}");
        assert!(stats.series <= LIVE as u64 * 14 / 10, "{stats:?}");
        if round >= 18 {
            memory.push(stats.memory_bytes);
        }
    }
    // Tables that double show as steps at this size; `make bench-churn` measures what is resident. With
    // what was replaced in memory until it is cut, it would be 180% more.
    let (least, most) = (memory.iter().min().unwrap(), memory.iter().max().unwrap());
    assert!(*most as f64 <= *least as f64 * 1.3, "from {least} to {most} bytes: {memory:?}");
    let stats = db.stats();
    let pods = stats.series.div_ceil(2) + 1;
    assert!(stats.label_pairs <= 3 + pods && stats.symbols <= 6 + pods, "{stats:?}");
    world.check(&db, "at the end");
    let series = db.stats().series;
    drop(db);
    let (db, recovery) = open(&disk.restart(End::Kill));
    assert_eq!(recovery.series, series, "a start brings nobody back");
    assert!(db.stats().memory_bytes <= *most, "{} bytes after a start", db.stats().memory_bytes);
    world.check(&db, "after a start");
}

#[test]
fn a_disk_that_refuses_leaves_everything_as_it_was() {
    for failing in 1..8 {
        let disk = SimulatedDisk::new(failing);
        let (db, _) = open(&disk);
        let mut world = World::new();
        world.run(&db, 0..20, 5);
        world.now += MINUTE;
        world.end(&db, 0..12);
        disk.fail_one_in(1);
        for _ in 0..3 {
            world.now += 5 * MINUTE;
            assert!(db.maintain(world.now).is_err());
        }
        assert_eq!((db.stats().series, db.stats().departed_series), (20, 0));
        disk.fail_one_in(failing + 1);
        let mut departed = 0;
        for _ in 0..10 {
            world.now += 5 * MINUTE;
            let done = db.maintain(world.now).unwrap_or_else(|unfinished| unfinished.done);
            departed += done.series_departed;
            world.check(&db, "while the disk refuses");
        }
        disk.fail_one_in(0);
        for _ in 0..2 {
            departed += world.run(&db, 12..20, 6);
        }
        assert_eq!(departed, 12, "what was done is told beside what failed");
        assert_eq!((db.stats().series, db.stats().departed_series), (8, 12));
        world.check(&db, "tried again");
        assert!(!disk.files().iter().any(|(path, _)| path.contains(".tmp")));
    }
}

/// What can't be opened now is not lost: it is in the block that is cut later.
#[test]
fn a_block_waits_for_files_that_cannot_be_opened() {
    for refusing in 1..6 {
        let disk = SimulatedDisk::new(refusing);
        let (db, _) = open(&disk);
        let mut world = World::new();
        world.run(&db, 0..20, 30);
        world.now += MINUTE;
        world.end(&db, 0..12);
        world.run(&db, 12..20, 20);
        assert_eq!(db.stats().departed_series, 12);
        // Behind a long pause there is nothing to cut, and the head begins at what comes after it.
        world.now += 5 * RANGE;
        for _ in 0..3 {
            world.now += MINUTE;
            world.scrape(&db, 10..16);
        }
        disk.refuse_one_in(refusing);
        let mut failed = 0;
        for _ in 0..12 {
            world.now += MINUTE;
            match db.maintain(world.now) {
                Ok(done) => assert_eq!(done.damaged, 0, "{:?}", done.damages),
                Err(unfinished) => {
                    assert_eq!(unfinished.done.damaged, 0, "{:?}", unfinished.done.damages);
                    failed += 1;
                }
            }
            disk.refuse_one_in(0);
            world.check(&db, "while files can't be opened");
            disk.refuse_one_in(refusing);
        }
        assert!(failed > 0, "one in {refusing}");
        disk.refuse_one_in(0);
        for _ in 0..3 {
            world.now += MINUTE;
            db.maintain(world.now).unwrap();
        }
        assert_eq!((db.stats().blocks, db.stats().departed_files), (1, 0), "one in {refusing}");
        world.check(&db, "in the block");
        drop(db);
        let (db, _) = open(&disk.restart(End::Kill));
        world.check(&db, "in the block, after a start");
    }
}

/// Wherever a file of departed series is damaged, the block is cut, with all that can be read, and what
/// the head kept for it goes.
#[test]
fn a_damaged_file_does_not_keep_the_block_from_being_cut() {
    let mut told = 0;
    for part in 0..32 {
        let disk = SimulatedDisk::new(1);
        let (db, _) = open(&disk);
        let mut world = World::new();
        world.run(&db, 0..20, 8);
        world.now += MINUTE;
        world.end(&db, 0..12);
        world.run(&db, 12..20, 12);
        drop(db);
        let disk = disk.restart(End::Kill);
        let mut files = disk.files().into_iter();
        let (path, length) = files.rfind(|(path, _)| path.contains("departed")).unwrap();
        disk.damage(&path, length * part / 32, 0x10);
        let (db, recovery) = open(&disk);
        let mut damaged = recovery.damaged;
        let mut rounds = |world: &mut World, minutes: i64, numbers: std::ops::Range<i64>| {
            for _ in 0..minutes {
                world.now += MINUTE;
                world.scrape(&db, numbers.clone());
                let done = db.maintain(world.now);
                damaged += done.unwrap_or_else(|error| panic!("part {part}: {error}")).damaged;
            }
        };
        // Some come back; others leave, so that there are files to be merged.
        for round in 0..5 {
            rounds(&mut world, 6, 10..30);
            world.now += MINUTE;
            world.end(&db, 20 + round..21 + round);
        }
        world.now += 130 * MINUTE;
        rounds(&mut world, 5, 10..20);
        let stats = db.stats();
        assert_eq!((stats.blocks, stats.departed_files), (1, 0), "part {part}: {stats:?}");
        assert!(!disk.files().iter().any(|(path, _)| path.contains("departed")), "part {part}");
        let found = read(&db, &[], i64::MIN, i64::MAX);
        let whole = |labels: &Labels| found.get(labels) == world.content.get(labels);
        let missing: Vec<_> = world.content.keys().filter(|labels| !whole(labels)).collect();
        let lost = if recovery.damaged > 0 { 12 } else { 1 };
        assert!(missing.len() <= lost, "part {part}: {missing:?}");
        assert!(missing.is_empty() || damaged > 0, "part {part}: {missing:?} and nobody told");
        told += u64::from(damaged > recovery.damaged);
    }
    assert!(told > 3, "in {told} places the cut came across the damage");
}

/// Whatever is damaged of a series that left, the one that came back has what came to it since.
#[test]
fn those_that_came_back_stay_whatever_is_damaged_of_their_past() {
    let mut damaged = 0;
    for place in 0.. {
        let disk = SimulatedDisk::new(1);
        let (db, _) = open(&disk);
        let mut world = World::new();
        world.run(&db, 0..20, 8);
        world.now += MINUTE;
        world.end(&db, 0..12);
        world.run(&db, 12..20, 12);
        assert_eq!(db.stats().series, 8);
        let since = world.now + 1;
        // In both shards, and some on rows of others.
        world.run(&db, 6..14, 3);
        world.run(&db, 0..12, 2);
        drop(db);
        let disk = disk.restart(End::Kill);
        let files = disk.files().into_iter().filter(|(path, _)| path.starts_with("head/"));
        let places: Vec<_> = files
            .flat_map(|(path, length)| (0..12).map(move |n| (path.clone(), length * n / 12)))
            .collect();
        let Some((path, offset)) = places.get(place) else { break };
        disk.damage(path, *offset, 0x10);
        for when in ["after a start", "after another one"] {
            let (db, recovery) = Db::open(Arc::new(disk.clone()), options(), START).unwrap();
            let stats = db.stats();
            let querier = db.querier(since, i64::MAX);
            let found = read_from(&querier, &[], since, i64::MAX);
            damaged += recovery.damaged;
            for (labels, samples) in &world.content {
                let newer: Vec<_> =
                    samples.iter().copied().filter(|&(time, _)| time >= since).collect();
                let found = found.get(labels).map_or(&[][..], Vec::as_slice);
                assert_eq!(found, newer, "{path} at {offset}, {when}: {labels}");
            }
            assert!(stats.series <= 20 && stats.chunks < 100, "{path} at {offset}: {stats:?}");
            drop(querier);
            world.now += MINUTE;
            world.scrape(&db, 0..12);
        }
    }
    assert!(damaged > 10, "{damaged}");
}

#[test]
fn a_damaged_file_costs_itself_and_is_told() {
    let disk = SimulatedDisk::new(1);
    let (db, _) = open(&disk);
    let mut world = World::new();
    world.run(&db, 0..20, 30);
    world.now += MINUTE;
    world.end(&db, 0..12);
    world.run(&db, 12..20, 12);
    drop(db);
    let disk = disk.restart(End::Kill);
    let (path, length) =
        disk.files().into_iter().find(|(path, _)| path.contains("departed")).unwrap();
    for offset in (0..length).step_by(13) {
        disk.damage(&path, offset, 0x10);
        let (db, recovery) = Db::open(Arc::new(disk.clone()), Options::default(), START).unwrap();
        let mut found = Content::new();
        let querier = db.querier(i64::MIN, i64::MAX);
        // A damaged list or series is an error of who needs it.
        let mut failed = 0;
        for labels in world.content.keys() {
            let name = labels.iter().map(|(name, value)| Matcher::equal(name, value));
            let matchers: Vec<_> = name.collect();
            use store::Select;
            match querier.select(&matchers, i64::MIN, i64::MAX) {
                Ok(_) => found.extend(read(&db, &matchers, i64::MIN, i64::MAX)),
                Err(error) => {
                    assert!(error.to_string().contains(&path), "{error}");
                    failed += 1;
                }
            }
        }
        for (labels, samples) in &found {
            assert_eq!(samples, &world.content[labels], "byte {offset}");
        }
        assert!(
            found.len() == 20 || failed > 0 || found.len() >= 8 && recovery.damaged > 0,
            "byte {offset} of {length}: {} series, {recovery:?}",
            found.len()
        );
        drop(querier);
        drop(db);
        disk.damage(&path, offset, 0x10);
    }
}
