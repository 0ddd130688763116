//! A store, a manager, and ways to look at what happens.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use server::config::{self, Config};
use server::scrape::{Health, Manager, Options, PoolStatus, TargetStatus};
use store::db::Db;
use store::disk::{Directory, Disk};
use store::{Labels, MatchOp, Matcher, Samples, Select};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Stage {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) db: Arc<Db>,
    pub(crate) manager: Manager,
    pub(crate) registry: unladen::Registry,
}

/// The samples of a series: milliseconds and values.
pub(crate) type Points = Vec<(i64, f64)>;

impl Stage {
    pub(crate) fn new(options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = Arc::new(Directory::open(folder.path().join("data")).unwrap());
        Self::on(disk, folder, options)
    }

    /// With the data on `disk`.
    pub(crate) fn on(disk: Arc<dyn Disk>, folder: tempfile::TempDir, options: Options) -> Self {
        let now_ms = options.clock.now_ms();
        let (db, _) = Db::open(disk, store::db::Options::default(), now_ms).unwrap();
        let db = Arc::new(db);
        let registry = unladen::Registry::new();
        let manager = Manager::new(db.clone(), &registry, options);
        Stage { folder, db, manager, registry }
    }

    pub(crate) fn load(&self, yaml: &str) -> Config {
        let options = config::Options::default();
        let loaded = config::load_text(yaml, Path::new("t.yml"), self.folder.path(), &options)
            .unwrap_or_else(|errors| panic!("{errors}\n{yaml}"));
        assert!(loaded.unsupported.is_empty(), "{:?}", loaded.unsupported);
        loaded.config
    }

    pub(crate) fn apply(&self, yaml: &str) {
        self.manager.apply(&self.load(yaml)).unwrap();
    }

    pub(crate) fn pool(&self, job: &str) -> PoolStatus {
        self.manager.status().pools.remove(job).unwrap_or_default()
    }

    /// Waits until there is one target in the job and it has been scraped.
    pub(crate) async fn scraped(&self, job: &str) -> TargetStatus {
        until(&format!("a scrape of {job}"), || {
            let target = self.pool(job).active.into_iter().next()?;
            (target.health != Health::Unknown).then_some(target)
        })
        .await
    }

    /// A value of the server's own metrics.
    pub(crate) fn own(&self, series: &str) -> Option<f64> {
        let body =
            self.registry.write(unladen::Negotiated::default(), Vec::new(), |mut all, part| {
                all.extend_from_slice(part);
                all
            });
        let text = String::from_utf8(body).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map(|value| value.parse().unwrap())
    }

    /// All series of a job, by labels as text without `job` and `instance`.
    pub(crate) fn series(&self, job: &str) -> BTreeMap<String, Points> {
        let querier = self.db.querier(0, i64::MAX);
        let matchers = [Matcher::new(MatchOp::Equal, "job", job).unwrap()];
        let mut found = BTreeMap::new();
        for series in querier.select(&matchers, 0, i64::MAX).unwrap() {
            let mut samples = Samples::default();
            let mut cursor = series.cursor();
            while cursor.next(&mut samples).unwrap() {}
            let points = samples.timestamps.iter().copied().zip(samples.values.iter().copied());
            found.insert(shown(series.labels()), points.collect());
        }
        found
    }
}

fn shown(labels: &Labels) -> String {
    let rest: Vec<_> = labels
        .iter()
        .filter(|(name, _)| !["__name__", "job", "instance"].contains(name))
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    let braces = if rest.is_empty() { String::new() } else { format!("{{{}}}", rest.join(",")) };
    format!("{}{braces}", labels.metric_name())
}

/// Waits until `condition` gives something. What it looks at belongs to tasks that announce nothing.
pub(crate) async fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(found) = condition() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    match tokio::time::timeout(PATIENCE, waiting).await {
        Ok(found) => found,
        Err(_) => panic!("waited for {what} in vain"),
    }
}

pub(crate) fn is_stale(value: f64) -> bool {
    value.to_bits() == 0x7ff0_0000_0000_0002
}
