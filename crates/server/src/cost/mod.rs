//! What the server costs: gathered when somebody asks, from counters that are kept anyway.
//!
//! ```text
//! mod      the sums, as the API shows them
//! parts    who holds how many bytes
//! flame    a profile of a stage as a tree of calls
//! tree     the tree
//! ```
//! All sums are since the start. Whoever wants rates asks twice, or asks the stored metrics, which have
//! the same figures: see `docs/cost.md`.
//!
//! It refuses: costs of single series, and more than the [`MOST_TARGETS`] most expensive targets.

mod flame;
mod parts;
mod tree;

use std::time::Duration;

use store::Labels;

pub(crate) use flame::{Collection, Kind, LONGEST, Request};
pub(crate) use parts::{Metrics, Part};
pub(crate) use tree::Tree;

use crate::app::App;
use crate::{duration, scrape};

/// Targets that are shown: those whose bodies took the most processor time.
pub(crate) const MOST_TARGETS: usize = 20;

/// All of it, of one moment.
pub(crate) struct Costs {
    pub(crate) samples: u64,
    /// What the targets bring in a second, by their last scrapes.
    pub(crate) samples_per_second: f64,
    pub(crate) process: Process,
    pub(crate) stages: Vec<Stage>,
    pub(crate) parts: Vec<Part>,
    /// By name.
    pub(crate) pools: Vec<Pool>,
    /// The most expensive first.
    pub(crate) targets: Vec<Target>,
}

/// The process as a whole.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Process {
    pub(crate) cpu: Duration,
    pub(crate) resident: Resident,
    /// Allocated since the start.
    pub(crate) allocated_bytes: u64,
    pub(crate) allocations: u64,
    /// Asked for and not given back yet.
    pub(crate) in_use_bytes: u64,
    pub(crate) open_files: u64,
}

/// Memory that the process has in the machine's, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resident {
    pub(crate) all: u64,
    /// The heap and the stacks. What is beyond the bytes in use is the allocator's: rounding, what it keeps
    /// for the next to ask, its own tables.
    pub(crate) anonymous: u64,
    /// Pages of files: blocks, chunks, the program.
    pub(crate) file: u64,
}

/// A stage of the work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    /// By the profiler's samples; nothing without a profiler.
    pub(crate) cpu: Duration,
    pub(crate) allocations: u64,
    pub(crate) allocated_bytes: u64,
}

/// A job.
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) targets: usize,
    pub(crate) cost: scrape::Cost,
    /// What is remembered of the targets' lines.
    pub(crate) held_bytes: u64,
}

/// A target.
pub(crate) struct Target {
    pub(crate) pool: std::sync::Arc<str>,
    pub(crate) url: std::sync::Arc<str>,
    pub(crate) labels: Labels,
    pub(crate) cost: scrape::Cost,
    pub(crate) held_bytes: u64,
}

/// Gathers everything. *Growth*, in proportion to the targets; locks the store's shards for a moment each,
/// and the profiler for a microsecond for each thread.
pub(crate) fn gather(app: &App) -> Costs {
    let status = app.targets();
    let stages = stages(app);
    let sum = |of: fn(&Stage) -> u64| stages.iter().map(of).sum();
    let mut process = Process::read();
    process.allocations = sum(|stage| stage.allocations);
    process.allocated_bytes = sum(|stage| stage.allocated_bytes);
    profiler::heap::stages(|_, counts| {
        process.in_use_bytes = process
            .in_use_bytes
            .wrapping_add(counts.allocated_bytes)
            .wrapping_sub(counts.freed_bytes);
    });
    let pools = status.pools.iter().map(|(name, pool)| Pool {
        name: name.clone(),
        targets: pool.active.len(),
        cost: pool.cost,
        held_bytes: pool.active.iter().map(|target| target.memory_bytes).sum(),
    });
    let mut parts = Vec::with_capacity(16);
    parts::parts(app, &app.held(), |part| parts.push(part));
    Costs {
        samples: app.db().map_or(0, |db| db.stats().samples_appended),
        samples_per_second: per_second(&status),
        process,
        stages,
        parts,
        pools: pools.collect(),
        targets: targets(&status),
    }
}

/// What the targets bring in a second, as they are now: that of each by its last scrape, so that the figure
/// does not depend on when it is asked for.
fn per_second(status: &scrape::Status) -> f64 {
    let targets = status.pools.values().flat_map(|pool| &pool.active);
    let rates = targets.map(|target| match duration::parse(&target.scrape_interval) {
        Ok(interval) if !interval.is_zero() => {
            target.samples_post_relabel as f64 / interval.as_secs_f64()
        }
        _ => 0.0,
    });
    rates.sum()
}

fn targets(status: &scrape::Status) -> Vec<Target> {
    let mut targets: Vec<_> = status.pools.values().flat_map(|pool| &pool.active).collect();
    targets.sort_by_key(|target| std::cmp::Reverse(target.cost.cpu_nanoseconds));
    targets.truncate(MOST_TARGETS);
    let target = |target: &scrape::TargetStatus| Target {
        pool: target.scrape_pool.clone(),
        url: target.scrape_url.clone(),
        labels: target.labels.clone(),
        cost: target.cost,
        held_bytes: target.memory_bytes,
    };
    targets.into_iter().map(target).collect()
}

/// Processor time from the sampler, allocations from the allocator's wrapper.
fn stages(app: &App) -> Vec<Stage> {
    let mut stages = Vec::new();
    profiler::heap::stages(|name, counts| {
        stages.push(Stage {
            name,
            cpu: Duration::ZERO,
            allocations: counts.allocations,
            allocated_bytes: counts.allocated_bytes,
        });
    });
    if let Some(profiler) = &app.profiles.sampled {
        profiler.settle();
        profiler.stage_cpu(|name, cpu| match stages.iter_mut().find(|stage| stage.name == name) {
            Some(stage) => stage.cpu = cpu,
            None => stages.push(Stage { name, cpu, allocations: 0, allocated_bytes: 0 }),
        });
    }
    stages
}

impl Process {
    fn read() -> Process {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let open_files = std::fs::read_dir("/proc/self/fd");
        Process {
            cpu: Duration::try_from(time).unwrap_or_default(),
            resident: Resident::read(),
            // One of them is the list itself.
            open_files: open_files.map_or(0, |files| files.count().saturating_sub(1) as u64),
            ..Process::default()
        }
    }
}

impl Resident {
    /// Nothing where the system does not say. *Growth.*
    fn read() -> Resident {
        std::fs::read_to_string("/proc/self/status")
            .map_or_else(|_| Resident::default(), |text| Resident::parse(&text))
    }

    /// proc_pid_status(5).
    fn parse(text: &str) -> Resident {
        let bytes = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok().map(|kib| kib * 1024)
        };
        Resident {
            all: bytes("VmRSS:").unwrap_or(0),
            anonymous: bytes("RssAnon:").unwrap_or(0),
            file: bytes("RssFile:").unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_read() {
        let text =
            "Name:\tunladen\nVmRSS:\t    1206 kB\nRssAnon:\t    1000 kB\nRssFile:\t     204 kB\n";
        let resident = Resident::parse(text);
        assert_eq!(resident, Resident { all: 1206 << 10, anonymous: 1000 << 10, file: 204 << 10 });
        assert_eq!(Resident::parse("VmRSS: many"), Resident::default());
        let own = Resident::read();
        assert!(own.anonymous > 0 && own.anonymous + own.file <= own.all, "{own:?}");
    }
}
