//! Twelve simulated hours in which a tenth of the series is replaced every ten minutes: what is in memory is
//! what lives.
//!
//! 1. The store works on a directory and is handed simulated times; a fleet of pods is scraped every so many
//!    simulated seconds, and maintained as often.
//! 2. Every ten minutes the oldest tenth of the pods ends with stale markers, and as many others begin.
//! 3. Resident memory is read after each ten minutes. From the third hour on, when the head has had all that
//!    it ever holds at once, the most is compared with the least.
//! 4. At the end, samples of pods of every age are counted by queries: those in the head, those that left it,
//!    those in blocks. Not before: pages of blocks that a query has read stay resident until the system wants
//!    them back, and are no memory of the head.
//!
//! Simulated time passes hundreds of times faster than memory is given back: the allocator, which is the
//! server's, is asked to give back at once what it otherwise gives back within ten seconds.
//!
//! The last line is `RESULT churn …`; see `bench/README.md`.

mod fleet;

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Instant;

use bench::report::{Bar, Bars, ResultLine, Table};
use bench::{Failure, memory};
use fleet::{Fleet, STEP_MS};
use store::disk::Directory;
use store::{Db, Matcher, Options, Samples, Select};
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// What tells jemalloc of [`GIVE_BACK`].
const ALLOCATOR_VARIABLE: &str = "_RJEM_MALLOC_CONF";
const GIVE_BACK: &str = "dirty_decay_ms:0,muzzy_decay_ms:0";

const MINUTE_MS: i64 = 60_000;
const ROUND_MS: i64 = 10 * MINUTE_MS;
const ROUNDS_PER_HOUR: usize = 6;
const START_MS: i64 = 1_700_000 * MINUTE_MS;

struct Size {
    pods: usize,
    hours: usize,
    /// Compared from this hour on.
    from_hour: usize,
}

const FULL: Size = Size { pods: 5_000, hours: 12, from_hour: 3 };
const SMOKE: Size = Size { pods: 50, hours: 4, from_hour: 3 };

fn main() -> Result<ExitCode, Failure> {
    if std::env::var_os(ALLOCATOR_VARIABLE).is_none() {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program);
        child.args(std::env::args_os().skip(1)).env(ALLOCATOR_VARIABLE, GIVE_BACK);
        let status = child.status()?;
        return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let (mut size, mut smoke) = (FULL, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--smoke" => (size, smoke) = (SMOKE, true),
            "--pods" => {
                size.pods = arguments.next().ok_or("--pods: a number is missing")?.parse()?
            }
            _ => return Err(format!("{argument}: unknown; there are --smoke, --pods").into()),
        }
    }
    let root = std::env::temp_dir().join(format!("unladen-churn-{}", std::process::id()));
    let result = run(&root, &size, smoke);
    std::fs::remove_dir_all(&root)?;
    result.map(|()| ExitCode::SUCCESS)
}

/// What is resident, and what of it no file could give back.
fn resident() -> Result<(f64, f64), Failure> {
    Ok((memory::resident()?, memory::anonymous()?))
}

fn run(root: &std::path::Path, size: &Size, smoke: bool) -> Result<(), Failure> {
    let (before, _) = resident()?;
    let disk = Arc::new(Directory::open(root)?);
    let (db, _) = Db::open(disk, Options::default(), START_MS)?;
    let mut fleet = Fleet::new(size.pods, &db)?;
    let mut now = START_MS;
    let (mut most, mut least, mut departed) = (f64::MIN, f64::MAX, 0);
    let (mut anonymous_most, mut longest) = (0_f64, 0.0_f64);
    let mut table = Table::new([
        "hour",
        "resident MB",
        "anonymous MB",
        "series",
        "departed",
        "files",
        "blocks",
        "chunk MB",
        "maintenance s",
        "longest s",
    ]);
    for round in 0..size.hours * ROUNDS_PER_HOUR {
        let mut maintained = 0.0;
        for step in 0..ROUND_MS / STEP_MS {
            now += STEP_MS;
            fleet.scrape(now, step == 0 && round > 0)?;
            let started = Instant::now();
            let done = db.maintain(now)?;
            let took = started.elapsed().as_secs_f64();
            maintained += took;
            longest = longest.max(took);
            if let Some(damage) = done.damages.first() {
                return Err(damage.clone().into());
            }
            departed += done.series_departed;
        }
        let (resident, anonymous) = resident()?;
        if round >= size.from_hour * ROUNDS_PER_HOUR {
            (most, least) = (most.max(resident), least.min(resident));
            anonymous_most = anonymous_most.max(anonymous);
        }
        let stats = db.stats();
        table.row([
            format!("{:.2}", (round + 1) as f64 / ROUNDS_PER_HOUR as f64),
            format!("{:.1}", resident / 1e6),
            format!("{:.1}", anonymous / 1e6),
            stats.series.to_string(),
            stats.departed_series.to_string(),
            stats.departed_files.to_string(),
            stats.blocks.to_string(),
            format!("{:.1}", stats.head_chunk_bytes as f64 / 1e6),
            format!("{maintained:.2}"),
            format!("{longest:.2}"),
        ]);
    }
    check(&db, &fleet, now)?;
    table.print();
    let flat = (most - least) / least;
    let per_series = (most - before) / fleet.series() as f64;
    let mut bars = Bars::default();
    // A tiny fleet weighs less than the pages of the program.
    if !smoke {
        bars.add("flat", Some(flat), Bar::AtMost(0.10));
    }
    bars.print();
    ResultLine::new("churn")
        .word("hours", &size.hours.to_string())
        .number("flat", Some(flat), 3)
        .number("bytes_per_series", Some(per_series), 0)
        .number("anonymous_per_series", Some(anonymous_most / fleet.series() as f64), 0)
        .word("departed", &departed.to_string())
        .print();
    Ok(())
}

/// Counts the samples of some pods, gone and living.
fn check(db: &Db, fleet: &Fleet, now: i64) -> Result<(), Failure> {
    for pod in fleet.sample() {
        let matchers = [Matcher::equal("pod", &pod.name)];
        let querier = db.querier(i64::MIN, i64::MAX);
        let (mut series, mut found) = (0, 0);
        for selected in querier.select(&matchers, i64::MIN, i64::MAX)? {
            series += 1;
            let mut samples = Samples::default();
            let mut cursor = selected.cursor();
            while cursor.next(&mut samples)? {}
            found += samples.len();
        }
        let (wanted_series, wanted) = pod.wanted(now);
        if (series, found) != (wanted_series, wanted) {
            let name = &pod.name;
            return Err(format!(
                "{name} has {found} samples of {series} series, not {wanted} of {wanted_series}"
            )
            .into());
        }
    }
    Ok(())
}
