//! Pods with series as Kubernetes labels them, which come and go.

use std::collections::VecDeque;

use bench::Failure;
use store::{Appender, Db, Labels, SeriesId};
use testkit::random::Random;

/// Between two scrapes.
pub const STEP_MS: i64 = 60_000;
/// Series of a pod.
pub const SERIES: usize = 20;
/// Workers that scrape, each with an appender of its own.
const WORKERS: usize = 4;
const STALE: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

/// A pod that was, or is.
pub struct Pod {
    pub name: String,
    ids: Vec<SeriesId>,
    values: Vec<f64>,
    born: i64,
    /// When its markers were written.
    ended: Option<i64>,
}

impl Pod {
    /// How many series and samples there should be.
    pub fn wanted(&self, now: i64) -> (usize, usize) {
        let steps = (self.ended.unwrap_or(now) - self.born) / STEP_MS + 1;
        (SERIES, SERIES * steps as usize)
    }
}

/// All pods.
pub struct Fleet {
    /// Oldest first.
    pods: VecDeque<Pod>,
    /// One of those that ended at a time.
    gone: Vec<Pod>,
    appenders: Vec<Appender>,
    random: Random,
    born: usize,
    size: usize,
}

impl Fleet {
    /// So many pods; they begin with the first scrape.
    pub fn new(size: usize, db: &Db) -> Result<Self, Failure> {
        let appenders = (0..WORKERS).map(|_| db.appender()).collect();
        let (pods, gone, random) = (VecDeque::new(), Vec::new(), Random::new(5));
        Ok(Fleet { pods, gone, appenders, random, born: 0, size })
    }

    /// Living series.
    pub fn series(&self) -> usize {
        self.size * SERIES
    }

    /// Some pods of every age.
    pub fn sample(&self) -> impl Iterator<Item = &Pod> {
        self.gone.iter().chain(self.pods.iter().step_by(self.size.div_ceil(4)))
    }

    /// A sample of every series; first a tenth of the pods ends, if wanted, and is replaced.
    pub fn scrape(&mut self, now: i64, replace: bool) -> Result<(), Failure> {
        if replace {
            for index in 0..self.size / 10 {
                let mut pod = self.pods.pop_front().ok_or("the fleet is smaller than ten")?;
                pod.ended = Some(now);
                let appender = &mut self.appenders[index % WORKERS];
                pod.ids.iter().for_each(|&id| appender.append(id, now, STALE));
                if index == 0 {
                    self.gone.push(pod);
                }
            }
            self.commit()?;
        }
        while self.pods.len() < self.size {
            let pod = self.create(now)?;
            self.pods.push_back(pod);
        }
        for (index, pod) in self.pods.iter_mut().enumerate() {
            let appender = &mut self.appenders[index % WORKERS];
            for (number, (&id, value)) in pod.ids.iter().zip(&mut pod.values).enumerate() {
                match number % 4 {
                    0 => {}
                    1 => *value += self.random.below(50) as f64,
                    2 => *value = self.random.below(100_000) as f64 / 100.0,
                    _ => *value += 0.25,
                }
                appender.append(id, now, *value);
            }
            // What one target brings.
            if index % 200 < WORKERS {
                commit(appender)?;
            }
        }
        self.commit()
    }

    fn commit(&mut self) -> Result<(), Failure> {
        self.appenders.iter_mut().try_for_each(commit)
    }

    fn create(&mut self, now: i64) -> Result<Pod, Failure> {
        let number = self.born;
        self.born += 1;
        let (a, b) = (self.random.next_u64(), self.random.next_u64());
        let deployment = format!("service-{}", number % 97);
        let name = format!("{deployment}-{:08x}-{:05x}", a as u32, b as u32 & 0xf_ffff);
        let id = format!("{a:016x}{b:016x}");
        let node = format!("ip-10-0-{}-{}.internal", number % 50, number % 7);
        let namespace = format!("team-{}", number % 13);
        let mut ids = Vec::with_capacity(SERIES);
        for series in 0..SERIES {
            let metric = format!("container_{}_total", METRICS[series % METRICS.len()]);
            let device = format!("dev-{}", series / METRICS.len());
            let labels = Labels::from_pairs([
                ("__name__", &*metric),
                ("cluster", "production"),
                ("container", &deployment),
                ("device", &device),
                ("id", &id),
                ("instance", &node),
                ("job", "kubelet"),
                ("namespace", &namespace),
                ("node", &node),
                ("pod", &name),
            ]);
            ids.push(self.appenders[number % WORKERS].series(&labels)?);
        }
        let values = vec![1.0; SERIES];
        Ok(Pod { name, ids, values, born: now, ended: None })
    }
}

const METRICS: [&str; 10] = [
    "cpu_usage_seconds",
    "cpu_cfs_throttled_seconds",
    "memory_working_set_bytes",
    "memory_failures",
    "network_receive_bytes",
    "network_transmit_bytes",
    "network_receive_errors",
    "fs_reads",
    "fs_writes",
    "processes",
];

fn commit(appender: &mut Appender) -> Result<(), Failure> {
    let committed = appender.commit()?;
    match committed.rejected.first() {
        None => Ok(()),
        Some((_, reason)) => Err(format!("a sample was not taken: {reason:?}").into()),
    }
}
