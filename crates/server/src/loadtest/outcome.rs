//! What a load test found: the figures of the report, as JSON has them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::blocks::Blocks;

/// The whole report.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Which program wrote it.
    pub(super) unladen: &'static str,
    /// When the test ended, RFC 3339.
    pub(super) date: String,
    pub(super) machine: Machine,
    /// Each load, in the order in which they were held.
    pub(super) loads: Vec<Held>,
    /// Whether servers of a load ran at the same time.
    pub(super) side_by_side: bool,
    /// With `--ramp`: the largest step that each server held.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) ramp: Vec<Reached>,
}

/// How far a server came.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Reached {
    pub(super) server: String,
    /// The last step that it held; none when it never did.
    pub(super) held: Option<f64>,
    /// What was raised.
    pub(super) unit: &'static str,
    /// It never fell behind: the ramp ended.
    pub(super) to_the_end: bool,
}

/// The machine of both fleet and servers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) processors: usize,
    pub(crate) model: String,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
}

/// A load, and what each server needed for it.
#[derive(Debug, Serialize)]
pub(super) struct Held {
    pub(super) targets: u64,
    pub(super) series_per_target: u64,
    pub(super) interval_seconds: f64,
    /// Further flags of the fleet.
    pub(super) fleet_flags: Vec<String>,
    pub(super) warmup_seconds: f64,
    pub(super) seconds: f64,
    pub(super) servers: Vec<Outcome>,
}

/// What a server needed. Figures are of the measured time unless they say otherwise; what a server doesn't
/// tell is absent.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Outcome {
    pub(super) server: String,
    pub(super) version: String,
    pub(super) command: String,
    /// Served by the fleet.
    pub(super) samples: u64,
    pub(super) samples_per_second: f64,
    /// Standard deviation of the samples of each second over their mean.
    pub(super) cv: Option<f64>,
    /// As the server counts them: with those that it adds to each scrape.
    pub(super) samples_ingested: Option<f64>,
    pub(super) series: Option<f64>,
    /// New in the measured time.
    pub(super) series_created: Option<f64>,
    pub(super) scrapes: u64,
    pub(super) scrapes_expected: u64,
    pub(super) scrapes_missed: u64,
    /// Healthy targets that the server holds to be down at the end.
    pub(super) targets_down: Option<u64>,
    /// Bytes of answers, as they were sent.
    pub(super) body_bytes: u64,
    pub(super) cpu: Cpu,
    pub(super) memory: Memory,
    pub(super) allocated: Allocated,
    pub(super) disk: Disk,
    pub(super) switches: Switches,
    pub(super) threads: u64,
    pub(super) descriptors: u64,
    pub(super) fleet: FleetCost,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) restart: Option<Restart>,
    /// One entry for each second.
    pub(super) course: Vec<Moment>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Cpu {
    pub(super) seconds: f64,
    pub(super) system_share: f64,
    pub(super) cores: f64,
    pub(super) seconds_per_million_samples: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Memory {
    /// At the end.
    pub(super) rss_bytes: u64,
    /// In the mean of the last tenth of the time.
    pub(super) rss_mean_bytes: f64,
    /// In the mean of the whole time: blocks that are cut meanwhile weigh as much as they last.
    pub(super) rss_average_bytes: f64,
    pub(super) rss_peak_bytes: u64,
    pub(super) pss_bytes: Option<u64>,
    pub(super) heap_bytes: Option<f64>,
    pub(super) rss_bytes_per_series: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Allocated {
    pub(super) bytes: Option<f64>,
    pub(super) bytes_per_sample: Option<f64>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Disk {
    /// Handed to the file system; none where that is in memory and counts nothing.
    pub(super) written_bytes: Option<u64>,
    pub(super) written_bytes_per_sample: Option<f64>,
    /// Of the data directory, at the end.
    pub(super) bytes: u64,
    pub(super) grown_bytes: i64,
    pub(super) grown_bytes_per_sample: f64,
    /// Of the journal alone, as far as it is known where that is.
    pub(super) journal_bytes_per_sample: Option<f64>,
    pub(super) blocks: Blocks,
    /// At the end, by the names in the directory.
    pub(super) by_name: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Switches {
    pub(super) voluntary_per_second: f64,
    pub(super) involuntary_per_second: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct FleetCost {
    pub(super) cpu_seconds: f64,
    /// Of what the server took.
    pub(super) share_of_server: f64,
    pub(super) rss_bytes: u64,
}

/// A `kill -9` and the start after it.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Restart {
    /// From the start to the first answer that it is ready.
    pub(super) seconds: f64,
    /// What a query showed right before the kill, and shows of the same time after the start.
    pub(super) samples_before: Option<f64>,
    pub(super) samples_after: Option<f64>,
    pub(super) samples_lost: Option<f64>,
    pub(super) rss_before_bytes: u64,
    /// The most until it was ready.
    pub(super) rss_peak_bytes: u64,
    pub(super) peak_ratio: f64,
}

/// A second of the measured time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Moment {
    /// Since the start of the measured time.
    pub(super) seconds: f64,
    pub(super) samples: u64,
    pub(super) cores: f64,
    pub(super) rss_bytes: u64,
    pub(super) written_bytes: u64,
}

impl Machine {
    /// This machine; what can't be read is empty.
    pub(crate) fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpus = read("/proc/cpuinfo");
        let model = cpus.lines().find_map(|line| line.strip_prefix("model name"));
        let model = model.map(|rest| rest.trim_start_matches([' ', '\t', ':']));
        let memory = read("/proc/meminfo");
        let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kilobytes = total.and_then(|rest| rest.trim().split(' ').next()?.parse::<u64>().ok());
        Machine {
            processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            model: model.unwrap_or_default().to_owned(),
            memory_bytes: kilobytes.unwrap_or(0) * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }

    /// On one line.
    pub(crate) fn line(&self) -> String {
        format!(
            "{} processors ({}), {:.0} GiB, Linux {}",
            self.processors,
            self.model,
            self.memory_bytes as f64 / (1u64 << 30) as f64,
            self.kernel
        )
    }
}

impl Allocated {
    pub(super) fn new(bytes: Option<f64>, samples: u64) -> Self {
        Allocated { bytes, bytes_per_sample: bytes.map(|bytes| bytes / samples.max(1) as f64) }
    }
}

/// The standard deviation over the mean; none of less than two values or of nothing.
pub(super) fn variation(values: &[u64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<u64>() as f64 / count;
    if values.len() < 2 || mean == 0.0 {
        return None;
    }
    let squares = values.iter().map(|&value| (value as f64 - mean).powi(2)).sum::<f64>();
    Some((squares / count).sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variation_is_relative() {
        for (values, expected) in [
            (&[][..], None),
            (&[5][..], None),
            (&[0, 0][..], None),
            (&[7, 7, 7][..], Some(0.0)),
            (&[1, 3][..], Some(0.5)),
            (&[10, 30, 10, 30][..], Some(0.5)),
        ] {
            assert_eq!(variation(values), expected, "{values:?}");
        }
    }
}
