//! Where the head ends: blocks, retention, removal, damage, and a directory that is taken.

mod naive;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use naive::{Content, difference, read, read_from};
use store::disk::Directory;
use store::{Db, Labels, Options, Recovery};
use testkit::disk::{End, SimulatedDisk};

const RANGE: i64 = 7_200_000;
const START: i64 = RANGE * 200;

fn labels(number: usize) -> Labels {
    Labels::from_pairs([("__name__", "m"), ("number", &format!("{number:03}"))])
}

fn open(disk: &SimulatedDisk, retention_ms: i64) -> (Db, Recovery) {
    let options = Options { retention_ms, shards: 1, ..Options::default() };
    Db::open(Arc::new(disk.clone()), options, START).expect("it opens")
}

/// Appends a sample a minute to `series` series from `from` to before `to`.
fn fill(db: &Db, content: &mut Content, series: usize, from: i64, to: i64) {
    let mut appender = db.appender();
    for time in (from..to).step_by(60_000) {
        for number in 0..series {
            let id = appender.series(&labels(number)).unwrap();
            let value = (time / 1000 + number as i64) as f64;
            appender.append(id, time, value);
            content.entry(labels(number)).or_default().push((time, value.to_bits()));
        }
        assert_eq!(appender.commit().unwrap().rejected, []);
    }
}

fn assert_same(db: &Db, content: &Content, when: &str) {
    if let Some(difference) = difference(&read(db, &[], i64::MIN, i64::MAX), content) {
        panic!("{when}: {difference}");
    }
}

#[test]
fn a_block_is_cut_at_its_boundary_and_every_sample_is_seen_once() {
    let disk = SimulatedDisk::new(1);
    let (db, _) = open(&disk, 0);
    let mut content = Content::new();
    fill(&db, &mut content, 5, START + 600_000, START + RANGE * 3 / 2 + 600_000);
    assert_eq!(db.maintain(START + 2 * RANGE).unwrap().blocks_cut, 0, "not yet one and a half");
    let next = START + RANGE * 3 / 2 + 600_000;
    fill(&db, &mut content, 5, next, next + 120_000);
    let before = db.querier(i64::MIN, i64::MAX);
    let done = db.maintain(START + 2 * RANGE).unwrap();
    assert_eq!((done.blocks_cut, done.series_removed), (1, 0), "{done:?}");
    assert_eq!(db.stats().time_range.unwrap().0, START + RANGE);
    assert_same(&db, &content, "a query of after");
    let files = disk.files().len();
    let old = read_from(&before, &[], i64::MIN, i64::MAX);
    assert_eq!(difference(&old, &content), None, "a query of before");
    assert_eq!(db.maintain(START + 2 * RANGE).unwrap().blocks_cut, 0);
    assert!(disk.files().len() >= files, "a query of before keeps what it reads");
    drop(before);
    db.maintain(START + 2 * RANGE).unwrap();
    assert_same(&db, &content, "emptied");
    let mut appender = db.appender();
    let id = appender.series(&labels(0)).unwrap();
    appender.append(id, START + RANGE - 1, 1.0);
    let rejected = &appender.commit().unwrap().rejected;
    assert_eq!(*rejected, [(0, store::Rejected::TooOld)], "the block is closed");
    drop((appender, db));
    let (db, recovery) = open(&disk.restart(End::Kill), 0);
    assert_eq!((recovery.blocks, recovery.damaged), (1, 0));
    assert_same(&db, &content, "reopened");
}

#[test]
fn series_that_ended_leave_the_head_and_ids_are_not_used_again() {
    let disk = SimulatedDisk::new(1);
    let (db, _) = open(&disk, 0);
    let mut content = Content::new();
    fill(&db, &mut content, 8, START, START + 1_200_000);
    let mut appender = db.appender();
    let old = appender.series(&labels(7)).unwrap();
    fill(&db, &mut content, 2, START + 1_200_000, START + 2 * RANGE);
    let done = db.maintain(START + 2 * RANGE).unwrap();
    assert_eq!((done.blocks_cut, done.series_removed, db.stats().series), (1, 6, 2));
    let new = appender.series(&Labels::from_pairs([("__name__", "other")])).unwrap();
    let again = appender.series(&labels(7)).unwrap();
    assert!(new != old && again != old);
    let now = START + 2 * RANGE;
    appender.append(old, now, 1.0);
    appender.append(again, now, 2.0);
    let rejected = &appender.commit().unwrap().rejected;
    assert_eq!(*rejected, [(0, store::Rejected::UnknownSeries)]);
    content.entry(labels(7)).or_default().push((now, 2f64.to_bits()));
    assert_same(&db, &content, "past in a block, present in the head");
}

#[test]
fn retention_deletes_what_ended_that_long_before_the_newest_block() {
    let disk = SimulatedDisk::new(1);
    let (db, _) = open(&disk, 2 * RANGE);
    let mut content = Content::new();
    let mut deleted = 0;
    for block in 0..5 {
        let from = START + block * RANGE;
        fill(&db, &mut content, 2, from, from + RANGE);
        deleted += db.maintain(from + RANGE).unwrap().blocks_deleted;
    }
    assert_eq!((deleted, db.stats().blocks), (2, 2));
    for (retention, left) in [(0, 2), (RANGE, 1)] {
        db.set_retention(retention);
        db.maintain(START + 5 * RANGE).unwrap();
        assert_eq!(db.stats().blocks, left, "with {retention} ms");
    }
    deleted += 1;
    let kept = START + deleted as i64 * RANGE;
    content.values_mut().for_each(|samples| samples.retain(|&(time, _)| time >= kept));
    assert_same(&db, &content, "after deletion");
}

#[test]
fn a_sample_from_far_away_or_a_long_pause_costs_one_range() {
    // The time of a sample before all others, and whether others of the series follow in a chunk.
    for (first, together) in [
        (0, false),
        (-(1 << 62), false),
        (START - 1000 * RANGE, true),
        (START - 5 * RANGE + 1, true),
    ] {
        let disk = SimulatedDisk::new(1);
        let (db, _) = open(&disk, 0);
        let mut content = Content::new();
        let number = if together { 0 } else { 9 };
        let mut appender = db.appender();
        let id = appender.series(&labels(number)).unwrap();
        appender.append(id, first, 1.0);
        assert_eq!(appender.commit().unwrap().rejected, []);
        content.entry(labels(number)).or_default().push((first, 1f64.to_bits()));
        fill(&db, &mut content, 2, START, START + RANGE);
        let mut rounds = 0;
        for _ in 0..2 {
            rounds += db.maintain(START).unwrap().blocks_cut;
        }
        assert_eq!((rounds, db.stats().blocks), (1, 1), "{first}");
        let oldest = db.stats().time_range.unwrap().0;
        assert!((START - RANGE..=START).contains(&oldest), "{first}: {oldest}");
        // Reopened, and after a pause.
        drop((appender, db));
        let disk = disk.restart(End::Kill);
        let (db, recovery) = open(&disk, 0);
        assert_eq!((recovery.damaged, recovery.samples_lost), (0, 0));
        fill(&db, &mut content, 2, START + 500 * RANGE, START + 502 * RANGE);
        for _ in 0..3 {
            db.maintain(START).unwrap();
        }
        assert_eq!(db.stats().blocks, 3, "{first}");
        assert_eq!(db.stats().time_range.unwrap().0, START + 501 * RANGE, "{first}");
        assert_same(&db, &content, "after the pause");
    }
}

#[test]
fn times_that_cannot_be_reckoned_with_are_refused() {
    let disk = SimulatedDisk::new(1);
    let (db, _) = open(&disk, 0);
    let mut appender = db.appender();
    for time in [i64::MIN, i64::MIN + 1, -(1 << 62) - 1, (1 << 62) + 1, i64::MAX] {
        let id = appender.series(&labels(0)).unwrap();
        appender.append(id, time, 1.0);
        let rejected = &appender.commit().unwrap().rejected;
        assert_eq!(*rejected, [(0, store::Rejected::TooOld)], "{time}");
    }
    for time in [-(1 << 62), 0, 1 << 62] {
        let id = appender.series(&labels(0)).unwrap();
        appender.append(id, time, 1.0);
        assert_eq!(appender.commit().unwrap().rejected, [], "{time}");
        db.maintain(START).unwrap();
    }
    drop((appender, db));
    let (db, recovery) = open(&disk.restart(End::Kill), 0);
    assert_eq!(recovery.damages, [""; 0]);
    assert_eq!(read(&db, &[], i64::MIN, i64::MAX)[&labels(0)].len(), 3);
}

#[test]
fn a_clock_that_is_set_back_does_not_stop_the_syncs() {
    let disk = SimulatedDisk::new(1);
    let (db, _) = open(&disk, 0);
    let mut content = Content::new();
    fill(&db, &mut content, 2, START, START + 600_000);
    db.maintain(START - 1000 * RANGE).unwrap();
    drop(db);
    let (db, _) = open(&disk.restart(End::PowerLoss), 0);
    assert_same(&db, &content, "after the loss of power");
}

#[test]
fn a_start_replays_few_segments_whatever_lags_and_idle_ones_hold_none() {
    let disk = SimulatedDisk::new(1);
    let options = Options { shards: 1, segment_bytes: 2048, ..Options::default() };
    let (db, _) = Db::open(Arc::new(disk.clone()), options, START).expect("it opens");
    let mut appender = db.appender();
    let ids: Vec<_> = (0..60).map(|number| appender.series(&labels(number)).unwrap()).collect();
    let segments = || {
        let names = disk.files().into_iter().map(|(path, _)| path);
        names.filter(|path| path.starts_with("journal/") && !path.contains("series")).count()
    };
    let (mut removed, mut now) = (0, START);
    for round in 0..600 {
        now = START + round * 10_000;
        // Those of higher numbers come rarely: their chunks would be open for hours.
        let due = |number: usize| round % [1, 1, 5, 40][number % 4] == 0;
        for (number, &id) in ids.iter().enumerate().filter(|(number, _)| due(*number)) {
            appender.append(id, now, (number as i64 * round) as f64 * 0.7);
        }
        appender.commit().unwrap();
        removed += db.maintain(now).unwrap().segments_removed;
        // Four finished ones are kept, and as many as 60 chunks of 288 bytes fill; another one may have ended
        // since they were counted.
        assert!(segments() <= 6 + 60 * 288 / 2048, "round {round}: {} segments", segments());
    }
    assert!(removed > 10, "{removed} segments were removed");
    // Nothing comes any more but for one, so that the time of the data goes on.
    let mut closed = 0;
    for round in 1..=75 {
        appender.append(ids[0], now + round * 30_000, 0.0);
        appender.commit().unwrap();
        closed += db.maintain(now + round * 30_000).unwrap().chunks_closed;
    }
    assert!(closed > 30, "{closed} chunks were closed within 37 minutes");
}

#[test]
fn starts_close_no_chunks_that_were_open_before() {
    let mut disk = SimulatedDisk::new(1);
    let (db, _) = open(&disk, 0);
    let mut content = Content::new();
    // As many series as chunks have lengths, and some; most are in their second chunk at the end.
    fill(&db, &mut content, 120, START, START + 115 * 60_000);
    let before = (db.stats().chunks, db.stats().head_chunk_bytes);
    assert!(before.0 > 200, "{before:?}");
    drop(db);
    for round in 0..3 {
        disk = disk.restart(End::Kill);
        let (db, recovery) = open(&disk, 0);
        assert_eq!((recovery.series, recovery.samples_lost), (120, 0));
        assert_eq!((db.stats().chunks, db.stats().head_chunk_bytes), before, "start {round}");
        assert_same(&db, &content, "reopened");
    }
}

/// Values that take eight bytes each.
fn noise(series: usize, sample: i64) -> f64 {
    ((sample as f64 + 0.5) * (series as f64 + 1.1)).sin()
}

#[test]
fn chunks_of_values_that_do_not_compress_are_closed_early_and_stay_so() {
    let mut disk = SimulatedDisk::new(1);
    let (db, _) = open(&disk, 0);
    let (series, samples) = (200, 150);
    let mut appender = db.appender();
    let ids: Vec<_> = (0..series).map(|at| appender.series(&labels(at)).unwrap()).collect();
    for sample in 0..samples {
        for (at, id) in ids.iter().enumerate() {
            appender.append(*id, START + sample * 15_000, noise(at, sample));
        }
        appender.commit().unwrap();
    }
    let before = db.stats();
    // A full chunk has 288 bytes; the last one of each series is open.
    let closed = before.chunks - series as u64;
    let mean = before.head_chunk_bytes as f64 / closed as f64;
    assert!((200.0..330.0).contains(&mean), "{mean} bytes");
    // They don't fill in step: four blocks each would be 51,200.
    assert!(before.memory.open_chunks < 45_000, "{} bytes", before.memory.open_chunks);
    drop(db);
    for round in 0..2 {
        disk = disk.restart(End::Kill);
        let (db, recovery) = open(&disk, 0);
        assert_eq!((recovery.series, recovery.samples_lost), (series as u64, 0));
        let stats = db.stats();
        let now = (stats.chunks, stats.head_chunk_bytes);
        assert_eq!(now, (before.chunks, before.head_chunk_bytes), "start {round}");
        for (labels, found) in read(&db, &[], i64::MIN, i64::MAX) {
            let at = (0..series).find(|at| self::labels(*at) == labels).unwrap();
            let expected = (0..samples).map(|n| (START + n * 15_000, noise(at, n).to_bits()));
            assert!(found.into_iter().eq(expected), "{labels}");
        }
    }
}

#[test]
fn a_directory_has_one_owner() {
    let disk = SimulatedDisk::new(1);
    let (db, _) = open(&disk, 0);
    let error = Db::open(Arc::new(disk.clone()), Options::default(), START).err().unwrap();
    assert!(error.is_locked(), "{error}");
    let mut appender = db.appender();
    let id = appender.series(&labels(0)).unwrap();
    db.close().unwrap();
    let (_db, _) = open(&disk, 0);
    appender.append(id, START, 1.0);
    assert!(appender.commit().is_err(), "the directory is another one's now");
}

/// Damages one byte in every so many of every file, one at a time, and looks at what is left.
#[test]
fn a_damaged_byte_costs_what_it_stands_in_and_is_told() {
    let disk = SimulatedDisk::new(1);
    let (db, _) = open(&disk, 0);
    let mut content = Content::new();
    // A chunk of 120 samples is closed; the rest is in the journal.
    fill(&db, &mut content, 3, START, START + 110 * 60_000);
    drop(db);
    let disk = disk.restart(End::Kill);
    let total: usize = content.values().map(Vec::len).sum();
    for (path, length) in disk.files() {
        if path.ends_with("lock") {
            continue;
        }
        let step = (length / 40).max(1);
        for offset in (0..length).step_by(step) {
            disk.damage(&path, offset, 0x40);
            let (db, recovery) = open(&disk, 0);
            let found = read(&db, &[], i64::MIN, i64::MAX);
            for (labels, samples) in &found {
                let known = &content[labels];
                assert!(samples.iter().all(|sample| known.contains(sample)), "{path} at {offset}");
            }
            let left: usize = found.values().map(Vec::len).sum();
            let reported = recovery.damaged + recovery.torn + recovery.samples_lost;
            assert!(left == total || reported > 0, "{path} at {offset}: {left}: {recovery:?}");
            // Past the file's head and the record with the series' first values, a byte is worth a
            // record: one sample of each series.
            if path.starts_with("journal/00-0") && offset > 400 {
                assert!(total - left <= 3, "{path} at {offset} of {length}: {}", total - left);
            }
            drop(db);
            disk.damage(&path, offset, 0x40);
        }
    }
}

fn promtool() -> Option<PathBuf> {
    let named = std::env::var_os("UNLADEN_PROMTOOL").map(PathBuf::from);
    let found = named.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|directory| directory.join("promtool"))
            .find(|candidate| candidate.exists())
    });
    found.filter(|path| path.exists())
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that skips says so")]
fn promtool_reads_what_was_cut() {
    let Some(promtool) = promtool() else {
        eprintln!("skipped: no promtool on the PATH and none named by UNLADEN_PROMTOOL");
        return;
    };
    let root = std::env::temp_dir().join(format!("unladen-cut-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    let directory = Arc::new(Directory::open(&root).unwrap());
    let (db, _) = Db::open(directory, Options::default(), START).unwrap();
    let mut content = Content::new();
    fill(&db, &mut content, 4, START, START + 2 * RANGE);
    assert_eq!(db.maintain(START + 2 * RANGE).unwrap().blocks_cut, 1);
    db.close().unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(&promtool).args(arguments).arg(&root).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {text}{output:?}");
        text
    };
    assert_eq!(run(&["tsdb", "list"]).lines().count(), 2, "a heading and a block");
    let dumped = run(&["tsdb", "dump"]);
    let within = |samples: &Vec<(i64, u64)>| samples.iter().filter(|s| s.0 < START + RANGE).count();
    assert_eq!(dumped.lines().count(), content.values().map(within).sum::<usize>());
    assert!(dumped.contains("{__name__=\"m\", number=\"003\"}"), "{}", &dumped[..200]);
    std::fs::remove_dir_all(root).unwrap();
}
