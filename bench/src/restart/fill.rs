//! The child that appends until it is killed: a store of ours, without a server around it.
//!
//! 1. Workers commit one target's scrape after the other. The first scrape of a target creates its series.
//! 2. They meet after each round; one of them does the store's regular work.
//! 3. After each commit the samples so far are told: `COMMITTED n`. What was told may not be lost.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use bench::Failure;
use bench::options::Options;
use store::disk::Directory;
use store::{Appender, Db, Labels, SeriesId};

use crate::workload::{self, Workload};

/// Runs until it is killed.
pub fn run(options: &Options) -> Result<(), Failure> {
    let workload = Workload::of(options)?;
    let workers = options.count("workers")?.max(1);
    let directory = Directory::open(Path::new(options.setting("data")?))?;
    let now = workload.time(0, 0);
    let (db, _) = Db::open(Arc::new(directory), store::Options::default(), now)?;
    let committed = AtomicU64::new(0);
    let barrier = Barrier::new(workers);
    let work = |number: usize| -> Result<(), store::Error> {
        let targets = (number..workload.targets).step_by(workers);
        let mut worker = Worker::new(&db, targets);
        for k in 0.. {
            worker.scrape(&workload, k, &committed)?;
            if barrier.wait().is_leader() {
                db.maintain(workload.time(0, k + 1)).map_err(|unfinished| unfinished.error)?;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        for number in 0..workers {
            let work = &work;
            scope.spawn(move || {
                if let Err(error) = work(number) {
                    eprintln!("fill: {error}");
                    // The other workers wait for this one.
                    std::process::exit(1);
                }
            });
        }
    });
    Ok(())
}

struct Worker {
    appender: Appender,
    /// The targets, with their series once they were scraped.
    targets: Vec<(usize, Vec<SeriesId>)>,
}

impl Worker {
    fn new(db: &Db, targets: impl Iterator<Item = usize>) -> Self {
        Worker { appender: db.appender(), targets: targets.map(|t| (t, Vec::new())).collect() }
    }

    fn scrape(
        &mut self,
        workload: &Workload,
        k: usize,
        committed: &AtomicU64,
    ) -> Result<(), store::Error> {
        for (t, ids) in &mut self.targets {
            if ids.is_empty() {
                create(&mut self.appender, workload, *t, ids)?;
            }
            let time = workload.time(*t, k);
            for (s, &id) in ids.iter().enumerate() {
                self.appender.append(id, time, workload::value(*t, s, k));
            }
            let appended = self.appender.commit()?.appended;
            tell(committed.fetch_add(appended, Ordering::Relaxed) + appended);
        }
        Ok(())
    }
}

fn create(
    appender: &mut Appender,
    workload: &Workload,
    t: usize,
    ids: &mut Vec<SeriesId>,
) -> Result<(), store::Error> {
    let mut pairs = Vec::new();
    for s in 0..workload.series {
        workload::labels(t, s, &mut pairs);
        let pairs = pairs.iter().map(|(name, value)| (*name, value.as_str()));
        ids.push(appender.series(&Labels::from_pairs(pairs))?);
    }
    Ok(())
}

/// Whoever reads is the one that kills: where nobody reads any more, there is nothing to be done.
fn tell(samples: u64) {
    let _ = writeln!(std::io::stdout().lock(), "COMMITTED {samples}");
}
