//! The store's head with a million series: what it holds for each, what a sample costs on its way in, and
//! Prometheus' tsdb with the same series and samples.
//!
//! 1. Ours in a process of its own, with the server's allocator: series are created target by target at
//!    the first scrape; then each scrape appends and commits target by target, into a real directory.
//! 2. What can be queried is compared with the workload.
//! 3. The peer, a program in Go, does the same; smaller, because it takes longer.
//!
//! The last line is `RESULT head …`; see `bench/README.md`.

mod child;
mod workload;

use std::path::Path;

use bench::Failure;
use bench::engine::{Measured, peer_binary, run_peer};
use bench::options::Options;
use bench::report::{Bar, Bars, ResultLine, Table, number};
use bench::statistics::ratio;

/// The server's.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const OURS: &str = "unladen";
const PEER: &str = "prometheus";
/// More than a full chunk for each series.
const SCRAPES: usize = 130;
const SERIES: usize = 1_000_000;
const PEER_SERIES: usize = 200_000;
const SMOKE_SERIES: usize = 2_000;

fn main() -> Result<(), Failure> {
    let options = Options::read(std::env::args().skip(1))?;
    if let Some(name) = &options.engine {
        return child::run(name, &options);
    }
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("out");
    std::fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let directory = out.display().to_string();
    let series = if options.is_smoke { SMOKE_SERIES } else { SERIES };
    let settings = [
        format!("series={series}"),
        format!("scrapes={SCRAPES}"),
        format!("directory={directory}"),
    ];
    let mut arguments = vec!["--engine", OURS];
    for setting in &settings {
        arguments.extend(["--set", setting]);
    }
    let mut ours = Measured::default();
    let lines = run_peer(&std::env::current_exe()?, &arguments);
    ours.take(lines.first().ok_or("the head did not finish")?);
    let mut peer = Measured::default();
    if options.has_peers {
        let (count, scrapes) = (PEER_SERIES.to_string(), SCRAPES.to_string());
        println!(
            "running peer-head with {count} series: it holds and takes as much for each of a million"
        );
        let arguments =
            ["--series", &count, "--scrapes", &scrapes, "--directory", directory.as_str()];
        run_peer(&peer_binary("peer-head"), &arguments).iter().for_each(|line| peer.take(line));
    }
    print(&ours, &peer);
    Ok(())
}

fn print(ours: &Measured, peer: &Measured) {
    let rows = [
        ("series", "series", 0),
        ("resident bytes per series", "bytes_per_series", 0),
        ("of them known to the store", "known_bytes_per_series", 0),
        ("after a forced collection", "live_bytes_per_series", 0),
        ("append and commit, ns per sample, median", "append_ns", 1),
        ("the same, mean", "append_mean_ns", 1),
        ("all of the process, ns per sample", "cpu_ns", 1),
        ("creating a series, ns", "create_ns", 0),
        ("journal, bytes per sample", "journal_bytes_per_sample", 2),
        ("closed chunks, bytes per sample", "chunk_bytes_per_sample", 2),
    ];
    let mut table = Table::new(["CPU time; definitions are part of the journal", OURS, PEER]);
    for (title, key, digits) in rows {
        let of = |measured: &Measured| number(measured.median(key), digits);
        table.row([title.to_owned(), of(ours), of(peer)]);
    }
    table.print();
    println!();
    let of = |key| ours.median(key);
    let mut bars = Bars::default();
    bars.add("bytes per series", of("bytes_per_series"), Bar::AtMost(450.0));
    bars.add("append and commit, ns", of("append_ns"), Bar::AtMost(40.0));
    bars.add("journal, bytes per sample", of("journal_bytes_per_sample"), Bar::AtMost(3.0));
    bars.print();
    println!();
    let against = ratio(peer.median("bytes_per_series"), of("bytes_per_series"));
    ResultLine::new("head")
        .number("bytes_per_series", of("bytes_per_series"), 0)
        .number("vs_prometheus", against, 1)
        .number("append_ns", of("append_ns"), 1)
        .number("journal_bytes_per_sample", of("journal_bytes_per_sample"), 2)
        .print();
}
