//! The series and samples, by formula: `bench/peers/WORKLOADS.md`, "restart".

use bench::Failure;
use bench::options::Options;

/// From one scrape of a target to the next, in milliseconds.
pub const INTERVAL_MS: i64 = 10_000;

/// Distinct metric names.
pub const METRICS: usize = 100;

/// So many targets with so many series each, scraped so many times.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub targets: usize,
    pub series: usize,
    pub scrapes: usize,
    /// Time of the first scrape of the first target, in milliseconds.
    pub start: i64,
}

impl Workload {
    /// The one that a child is told.
    pub fn of(options: &Options) -> Result<Workload, Failure> {
        Ok(Workload {
            targets: options.count("targets")?,
            series: options.count("series")?,
            scrapes: options.count("scrapes")?,
            start: options.setting("start")?.parse()?,
        })
    }

    /// The words that tell it to a child.
    pub fn settings(&self) -> Vec<String> {
        let Workload { targets, series, scrapes, start } = self;
        let settings = [
            format!("targets={targets}"),
            format!("series={series}"),
            format!("scrapes={scrapes}"),
            format!("start={start}"),
        ];
        settings.into_iter().flat_map(|setting| ["--set".to_owned(), setting]).collect()
    }

    /// All series.
    pub fn all_series(&self) -> usize {
        self.targets * self.series
    }

    /// All samples.
    pub fn samples(&self) -> u64 {
        (self.all_series() * self.scrapes) as u64
    }

    /// When target `t` is scraped the `k`th time: targets are spread over the interval.
    pub fn time(&self, t: usize, k: usize) -> i64 {
        let offset = t as i64 * INTERVAL_MS / self.targets as i64;
        self.start + k as i64 * INTERVAL_MS + offset
    }

    /// The sum of all values of a metric.
    pub fn sum(&self, metric: usize) -> f64 {
        let series = (0..self.series).filter(|s| s % METRICS == metric);
        let values = series.flat_map(|s| {
            (0..self.targets).flat_map(move |t| (0..self.scrapes).map(move |k| value(t, s, k)))
        });
        values.sum()
    }
}

fn step(state: u64) -> u64 {
    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

/// What series `s` of target `t` has at scrape `k`: half are constant, a quarter are counters, a quarter
/// are gauges with two decimals.
pub fn value(t: usize, s: usize, k: usize) -> f64 {
    let own = step((t as u64) << 32 | s as u64) >> 33;
    let drawn = step(own ^ (k as u64) << 40) >> 33;
    match s / METRICS % 4 {
        0 | 1 => (own % 1000) as f64,
        2 => (own % 1_000_000 + k as u64 * (10 + own % 50) + drawn % 10) as f64,
        _ => (drawn % 10_000) as f64 / 100.0,
    }
}

/// The name of a metric.
pub fn metric(number: usize) -> String {
    format!("kube_workload_metric_{number:03}_total")
}

/// The job of all targets.
pub const JOB: &str = "kubernetes-pods";

/// What a target is called.
pub fn instance(t: usize) -> String {
    format!("10.{}.{}.1:8080", t / 250, t % 250)
}

/// The labels of series `s` of target `t`: ten, 200 bytes, sorted by name.
pub fn labels(t: usize, s: usize, out: &mut Vec<(&'static str, String)>) {
    out.clear();
    let mut put = |name, value: String| out.push((name, value));
    put("__name__", metric(s % METRICS));
    put("cluster", "production-eu-1".to_owned());
    put("container", format!("container-{}", s / METRICS));
    put("endpoint", "metrics".to_owned());
    put("instance", instance(t));
    put("job", JOB.to_owned());
    put("namespace", format!("team-{}", t % 20));
    put("node", format!("node-{:03}.eu-1.internal", t % 50));
    put("pod", format!("workload-{}-7c9f6d5b8-{t:05}", t / 5));
    put("service", format!("workload-{}", t / 5));
}
