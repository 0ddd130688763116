//! The child that opens a store of ours and nothing else: what a start takes without the server around it.
//! When asked to, it then reads every sample and compares it with what was written.

use std::path::Path;
use std::sync::Arc;

use bench::options::Options;
use bench::protocol::Line;
use bench::{Failure, clock, memory};
use store::disk::Directory;
use store::{Db, Matcher, Samples, Select, Series};

use crate::workload::{self, METRICS, Workload};

/// Opens, tells, ends.
pub fn run(options: &Options) -> Result<(), Failure> {
    let directory = Directory::open(Path::new(options.setting("data")?))?;
    let workload = Workload::of(options)?;
    let now = workload.time(0, workload.scrapes + 1);
    let opened = clock::measure(|| Db::open(Arc::new(directory), store::Options::default(), now));
    let (opened, elapsed) = opened;
    let (db, recovery) = opened?;
    for damage in &recovery.damages {
        println!("damaged: {damage}");
    }
    let mut line = Line::new("store")
        .with("seconds", elapsed.wall_ns / 1e9)
        .with("cpu_seconds", elapsed.process_cpu_ns / 1e9)
        .with("peak", memory::peak()?)
        .with("resident", memory::resident()?)
        .with("series", recovery.series)
        .with("replayed", recovery.samples)
        .with("read_bytes", recovery.bytes)
        .with("damaged", recovery.damaged)
        .with("known_bytes", db.stats().memory_bytes);
    if options.setting("check").is_ok() {
        line.set("found", samples(&db, &workload)?);
    }
    println!("{line}");
    // Taking half a gigabyte apart again is nobody's start.
    std::process::exit(0);
}

/// Reads all; answers how many samples there are. Those of whole scrapes have to be there.
fn samples(db: &Db, workload: &Workload) -> Result<usize, Failure> {
    let mut found = 0;
    for metric in 0..METRICS {
        let name = Matcher::equal("__name__", &workload::metric(metric));
        let querier = db.querier(i64::MIN, i64::MAX);
        for series in querier.select(&[name], i64::MIN, i64::MAX)? {
            found += check(&*series, metric, workload)
                .map_err(|error| format!("{}: {error}", series.labels()))?;
        }
    }
    Ok(found)
}

fn check(series: &dyn Series, metric: usize, workload: &Workload) -> Result<usize, Failure> {
    let number = |label: &str| -> Option<usize> {
        series.labels().get(label)?.rsplit_once('-')?.1.parse().ok()
    };
    let (t, s) = number("pod").zip(number("container")).ok_or("labels of another kind")?;
    let s = s * METRICS + metric;
    let mut samples = Samples::default();
    let mut cursor = series.cursor();
    while cursor.next(&mut samples)? {}
    if samples.timestamps.len() < workload.scrapes {
        return Err(format!("{} samples", samples.timestamps.len()).into());
    }
    for (k, (&time, &value)) in samples.timestamps.iter().zip(&samples.values).enumerate() {
        if time != workload.time(t, k) || value != workload::value(t, s, k) {
            return Err(format!("sample {k} is {value} at {time}").into());
        }
    }
    Ok(samples.timestamps.len())
}
