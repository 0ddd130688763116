//! The head as an engine: appends the workload in a process of its own and tells what it took.

use std::path::PathBuf;
use std::sync::Arc;

use bench::options::Options;
use bench::protocol::Line;
use bench::statistics::median;
use bench::{Failure, clock, memory};
use store::disk::Directory;
use store::{Db, Labels, Matcher, Samples, Select, SeriesId};

use crate::workload::{Chance, INTERVAL, PER_TARGET, START, labels};

/// Workers among whom the targets are shared.
const APPENDERS: usize = 4;
/// Maintenance comes with every so many scrapes.
const MAINTAIN: usize = 2;

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the workload once and prints a line.
pub fn run(name: &str, options: &Options) -> Result<(), Failure> {
    let (count, scrapes) = (options.count("series")?, options.count("scrapes")?);
    let root = PathBuf::from(options.setting("directory")?);
    let root = Scratch(root.join(format!("bench-head-{}", std::process::id())));
    clock::pin(0);
    // What a scraper has of a series is not the head's.
    let mut ids: Vec<Option<SeriesId>> = vec![None; count];
    let mut values: Vec<f64> = (0..count).map(|series| (series * 1000) as f64).collect();
    let mut creating = Vec::with_capacity(count / PER_TARGET + 1);
    let mut rounds = Vec::with_capacity(scrapes);
    ids.iter_mut().for_each(|id| *id = std::hint::black_box(None));
    let before = memory::resident()?;
    let written = memory::written()?;
    let (db, _) = Db::open(Arc::new(Directory::open(&root.0)?), store::Options::default(), START)?;
    let mut appenders: Vec<_> = (0..APPENDERS).map(|_| db.appender()).collect();
    let mut chance = Chance::new();
    let whole = clock::measure(|| -> Result<(), Failure> {
        for scrape in 0..scrapes {
            for (series, value) in values.iter_mut().enumerate() {
                *value = chance.step(series, *value);
            }
            let time = START + INTERVAL * scrape as i64;
            let (round, took) = clock::measure(|| -> Result<f64, Failure> {
                let mut created = 0.0;
                for first in (0..count).step_by(PER_TARGET) {
                    let appender = &mut appenders[first / PER_TARGET % APPENDERS];
                    let target = first..count.min(first + PER_TARGET);
                    if scrape == 0 {
                        let sets: Vec<Labels> = target.clone().map(labels).collect();
                        let (new, took) = clock::measure(|| {
                            sets.iter()
                                .map(|set| appender.series(set))
                                .collect::<Result<Vec<_>, _>>()
                        });
                        for (id, new) in ids[target.clone()].iter_mut().zip(new?) {
                            *id = Some(new);
                        }
                        created += took.cpu_ns;
                    }
                    for (id, value) in ids[target.clone()].iter().zip(&values[target.clone()]) {
                        appender.append(id.ok_or("a series without an id")?, time, *value);
                    }
                    let committed = appender.commit()?;
                    if committed.appended != target.len() as u64 {
                        return Err(format!("scrape {scrape}: {committed:?}").into());
                    }
                }
                Ok(created)
            });
            if scrape == 0 {
                creating.push(round? / count as f64);
            } else {
                round?;
                rounds.push(took.cpu_ns / count as f64);
            }
            if scrape % MAINTAIN == 0 {
                db.maintain(time)?;
            }
        }
        Ok(())
    });
    whole.0?;
    let held = memory::resident()? - before;
    let stats = db.stats();
    // Segments that are not needed any more are gone: what was written counts, definitions included.
    let journal = memory::written()? - written - stats.head_chunk_bytes as f64;
    let samples = (count * scrapes) as f64;
    check(&db, count, scrapes, &values)?;
    let line = Line::new(name)
        .with("series", count)
        .with("scrapes", scrapes)
        .with("bytes_per_series", held / count as f64)
        .with("known_bytes_per_series", stats.memory_bytes as f64 / count as f64)
        .with("append_ns", median(&rounds).ok_or("at least two scrapes")?)
        .with("append_mean_ns", rounds.iter().sum::<f64>() / rounds.len() as f64)
        .with("create_ns", creating.iter().sum::<f64>())
        .with("cpu_ns", whole.1.process_cpu_ns / samples)
        .with("journal_bytes_per_sample", journal / samples)
        .with("chunk_bytes_per_sample", stats.head_chunk_bytes as f64 / samples);
    println!("{line}");
    Ok(())
}

/// Every series is found, and some of them have all their samples, of which the last is the one that was
/// drawn last.
fn check(db: &Db, count: usize, scrapes: usize, values: &[f64]) -> Result<(), Failure> {
    let querier = db.querier(i64::MIN, i64::MAX);
    let known = db.stats().series;
    if known != count as u64 {
        return Err(format!("{known} series of {count}").into());
    }
    for series in (0..count).step_by(count / 50 + 1) {
        let set = labels(series);
        let matchers: Vec<_> =
            set.iter().map(|(name, value)| Matcher::equal(name, value)).collect();
        let found = querier.select(&matchers, i64::MIN, i64::MAX)?;
        let [one] = found.as_slice() else { return Err(format!("{}: {set}", found.len()).into()) };
        let mut samples = Samples::default();
        let mut cursor = one.cursor();
        while cursor.next(&mut samples)? {}
        let last = samples.values.last().map(|value| value.to_bits());
        if samples.len() != scrapes || last != Some(values[series].to_bits()) {
            return Err(format!("{set}: {} samples, the last {last:?}", samples.len()).into());
        }
    }
    Ok(())
}
