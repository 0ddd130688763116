//! The child that opens a store of ours and nothing else: what a start takes without the server around it.

use std::path::Path;
use std::sync::Arc;

use bench::options::Options;
use bench::protocol::Line;
use bench::{Failure, clock, memory};
use store::Db;
use store::disk::Directory;

/// Opens, tells, ends.
pub fn run(options: &Options) -> Result<(), Failure> {
    let directory = Directory::open(Path::new(options.setting("data")?))?;
    let now = options.setting("now")?.parse()?;
    let opened = clock::measure(|| Db::open(Arc::new(directory), store::Options::default(), now));
    let (opened, elapsed) = opened;
    let (db, recovery) = opened?;
    for damage in &recovery.damages {
        println!("damaged: {damage}");
    }
    let line = Line::new("store")
        .with("seconds", elapsed.wall_ns / 1e9)
        .with("cpu_seconds", elapsed.process_cpu_ns / 1e9)
        .with("peak", memory::peak()?)
        .with("resident", memory::resident()?)
        .with("series", recovery.series)
        .with("replayed", recovery.samples)
        .with("read_bytes", recovery.bytes)
        .with("damaged", recovery.damaged)
        .with("known_bytes", db.stats().memory_bytes);
    println!("{line}");
    // Taking half a gigabyte apart again is nobody's start.
    std::process::exit(0);
}
