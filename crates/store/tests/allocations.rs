//! Appending a batch of known series allocates nothing, reallocates nothing and frees nothing: from
//! the columns to journal and chunks, closing full chunks included. Nor does a round of maintenance that
//! finds nothing to do.

use std::sync::Arc;

use store::{Db, Labels, Options, SeriesId};
use testkit::allocations::{Count, Counting, count};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

const SERIES: usize = 1000;

struct Root(std::path::PathBuf);

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_batch_of_known_series_allocates_nothing() {
    let root = std::env::temp_dir().join(format!("unladen-allocations-{}", std::process::id()));
    let root = Root(root);
    let disk = store::disk::Directory::open(&root.0).expect("a scratch directory");
    let options = Options { max_exemplars: 50, ..Options::default() };
    let (db, _) = Db::open(Arc::new(disk), options, 0).expect("it opens");
    let mut appender = db.appender();
    let ids: Vec<SeriesId> = (0..SERIES)
        .map(|i| {
            let labels = Labels::from_pairs([("__name__", "m"), ("i", &i.to_string())]);
            appender.series(&labels).expect("there is room")
        })
        .collect();
    let mut scrape = |round: i64| {
        for (i, id) in ids.iter().enumerate() {
            let value = (round * i as i64) as f64 * if i % 3 == 0 { 0.37 } else { 1.0 };
            appender.append(*id, 1_700_000_000_000 + round * 15_000, value);
        }
        appender.exemplar(ids[0], [("trace_id", "0123456789abcdef")], round as f64, round);
        let committed = appender.commit().expect("the disk is well");
        assert_eq!((committed.appended, committed.rejected.len()), (SERIES as u64, 0));
    };
    // Warm: chunks have grown to their full size, at round 427 a block's boundary was crossed, where all
    // of them are closed at once, and the ring is full.
    for round in 0..430 {
        scrape(round);
    }
    for round in 430..950 {
        // At round 907 the next one is crossed.
        assert_eq!(count(|| scrape(round)), Count::ZERO, "round {round}");
    }
    let mut now = 1_700_000_000_000 + 949 * 15_000;
    db.maintain(now).expect("the disk is well");
    for minute in 1..=20 {
        // Rows are looked through, and nothing of what they are looked through for is found. Nothing was
        // written that had to be made durable.
        now += 60_000;
        let maintained = count(|| drop(db.maintain(now).expect("the disk is well")));
        assert!(maintained == Count::ZERO || minute == 1, "minute {minute}: {maintained:?}");
    }
    let stats = db.stats();
    assert!(stats.chunks >= 4 * SERIES as u64, "chunks were closed in between: {stats:?}");
}
