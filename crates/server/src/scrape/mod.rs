//! Scraping: from targets to the store.
//!
//! ```text
//! pool        one job: its sources, its targets, their tasks
//! target      from what was discovered to what is scraped
//! task        one target's life: wait, fetch, ingest, report
//! places      the places of targets that come together: their times and their workers
//! spread      where in its interval a target is scraped, so that the load is flat
//! schedule    when a target is due, and what time its samples get
//! accept      what is asked for, and what the answer is
//! ingest      from a body to the store's batch
//! known       the lines of the last scrapes: what a body is compared with
//! lines       their bytes, each told by its difference from the one before
//! bits        one bit for each of them
//! resolve     from a new line to the labels under which it is stored
//! metadata    type, help and unit of the families of a target
//! failure_log one line of JSON for each failed scrape
//! counters    what scraping counts about itself
//! intervals   how regularly targets are scraped
//! observe     all of that in the server's own metrics
//! status      what the API and the page show
//! ```
//! A target may misbehave in any way: its scrape fails with a reason, its `up` is 0, and nothing else
//! notices.

mod accept;
mod bits;
mod counters;
mod failure_log;
pub mod ingest;
mod intervals;
mod known;
mod lines;
mod metadata;
mod observe;
mod places;
mod pool;
mod resolve;
mod schedule;
mod spread;
mod status;
mod target;
mod task;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hasher;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use store::db::Db;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use counters::{Count, Counters};
pub use schedule::Clock;
pub use status::{Cost, DroppedTarget, Health, Held, Metadata, PoolStatus, Status, TargetStatus};

use crate::config::{Config, Discovery, ScrapeConfig};
use crate::discovery;
use crate::http_client::{self, Buffers, Client};
use crate::shelf::Shelves;
use crate::worker::stand_aside;
use failure_log::FailureLog;
use ingest::Ingester;
use intervals::Intervals;
use observe::Figures;
use pool::{Pool, Running};
use target::Fnv;
use task::{PoolShared, Settings};

/// Updates of the sources are taken up at most this often.
const SYNC_INTERVAL: Duration = Duration::from_secs(5);

/// A first update is often followed by others at once (all files of a pattern): they go together.
const SYNC_DELAY: Duration = Duration::from_millis(20);

/// Ingesters that wait for the next body: more than threads that ingest at the same time.
const MOST_INGESTERS: usize = 256;

/// How scraping behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// What time it is.
    pub clock: Clock,
    /// Bytes that all bodies which are being read may hold together.
    pub body_budget: usize,
    /// From one sync with discovery to the next.
    pub sync_interval: Duration,
    /// What scrapes: each target stays with one of them. Best with a single thread each, as many as there
    /// are processors, so that threads don't wake each other for what one of them does sooner. None: the
    /// runtime in which the manager is made.
    pub workers: Vec<Handle>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            clock: Clock::default(),
            body_budget: http_client::DEFAULT_BUDGET,
            sync_interval: SYNC_INTERVAL,
            workers: Vec::new(),
        }
    }
}

/// Why a configuration cannot be applied; the one before goes on.
#[derive(Debug)]
pub struct ApplyError {
    job: String,
    reason: String,
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scrape config {:?}: {}", self.job, self.reason)
    }
}

impl std::error::Error for ApplyError {}

/// What all tasks share.
struct Shared {
    db: Arc<Db>,
    clock: Clock,
    buffers: Arc<Buffers>,
    ingesters: Shelves<Ingester>,
    counters: Arc<Counters>,
    intervals: Intervals,
    seed: AtomicU64,
    /// At least one.
    workers: Vec<Handle>,
}

impl Shared {
    fn seed(&self) -> u64 {
        self.seed.load(Ordering::Relaxed)
    }

    /// Steady: there are as many as threads that ingest at once.
    fn take_ingester(&self) -> Ingester {
        self.ingesters.take().unwrap_or_else(|| Ingester::new(&self.db))
    }

    fn return_ingester(&self, ingester: Ingester) {
        // There are no more than threads, and for those there is room.
        drop(self.ingesters.put(ingester));
    }
}

/// All scraping: pools, their targets, their tasks.
pub struct Manager {
    shared: Arc<Shared>,
    pools: Arc<Mutex<BTreeMap<String, Arc<Pool>>>>,
    /// Tasks of pools that are gone, while they still have series to mark.
    departing: Mutex<Vec<Running>>,
    sources: Arc<discovery::Counters>,
    wake: Arc<Wake>,
    coordinator: Mutex<Option<JoinHandle<()>>>,
}

/// Tells the coordinator that there is something to do.
#[derive(Default)]
struct Wake {
    changed: Notify,
    /// Do not wait for the end of the sync interval.
    at_once: Notify,
}

impl Manager {
    /// Scraping into `db`, with nothing to scrape yet; what it counts goes into `registry`. Must be
    /// called within a runtime.
    pub fn new(db: Arc<Db>, registry: &unladen::Registry, options: Options) -> Self {
        let workers =
            if options.workers.is_empty() { vec![Handle::current()] } else { options.workers };
        let shared = Arc::new(Shared {
            db,
            clock: options.clock,
            buffers: Buffers::new(options.body_budget),
            ingesters: Shelves::new(MOST_INGESTERS),
            counters: Arc::default(),
            intervals: Intervals::default(),
            seed: AtomicU64::new(0),
            workers,
        });
        let pools = Arc::default();
        let sources = Arc::default();
        registry.collect(Figures {
            shared: shared.clone(),
            pools: Arc::clone(&pools),
            sources: Arc::clone(&sources),
        });
        let wake = Arc::<Wake>::default();
        let coordinator = tokio::spawn(coordinate(
            shared.clone(),
            Arc::clone(&pools),
            wake.clone(),
            options.sync_interval,
        ));
        let coordinator = Mutex::new(Some(coordinator));
        Manager { shared, pools, departing: Mutex::default(), sources, wake, coordinator }
    }

    /// Makes `config` what is scraped. Targets that it keeps go on with their connection, their place
    /// in time and what is known of their series. Must be called within a runtime.
    ///
    /// # Errors
    /// Options that cannot be honoured: then nothing has changed.
    pub fn apply(&self, config: &Config) -> Result<(), ApplyError> {
        let mut pools = self.pools.lock();
        let mut prepared = Vec::new();
        let mut logs = HashMap::new();
        for job in &config.scrape_configs {
            let unchanged = pools.get(&job.job_name).is_some_and(|pool| {
                let settings = pool.shared.settings.load();
                *settings.config == *job && job.scrape_failure_log_file.is_none()
            });
            if !unchanged {
                prepared.push((job, prepare(job, &mut logs)?));
            }
        }
        self.shared.seed.store(seed(config), Ordering::Relaxed);
        let jobs: Vec<&str> = config.scrape_configs.iter().map(|job| &*job.job_name).collect();
        let mut departing = self.departing.lock();
        departing.retain(|running| !running.is_finished());
        pools.retain(|name, pool| {
            let stays = jobs.contains(&name.as_str());
            if !stays {
                departing.extend(pool.depart());
            }
            stays
        });
        for (job, settings) in prepared {
            let name = &job.job_name;
            let pool = match pools.get(name) {
                Some(pool) => {
                    self.shared.counters.scrape_pool_reloads.add(1);
                    pool.shared.settings.store(Arc::new(settings));
                    pool.clone()
                }
                None => {
                    self.shared.counters.scrape_pools.add(1);
                    let pool = Arc::new(Pool::new(Arc::new(PoolShared {
                        name: Arc::from(name.as_str()),
                        settings: ArcSwap::from_pointee(settings),
                        forced_error: ArcSwapOption::empty(),
                        syncs: Count::default(),
                        sync_failed: Count::default(),
                        cost: status::CostSums::default(),
                    })));
                    pools.insert(name.clone(), pool.clone());
                    pool
                }
            };
            let context = self.context(&pool);
            pool.sources
                .lock()
                .apply(&job.discoveries, &context)
                .map_err(|error| ApplyError { job: name.clone(), reason: error.to_string() })?;
            pool.dirty.store(true, Ordering::Release);
        }
        drop(pools);
        self.wake.at_once.notify_one();
        self.wake.changed.notify_one();
        Ok(())
    }

    fn context(&self, pool: &Arc<Pool>) -> discovery::Context {
        let (weak, wake) = (Arc::downgrade(pool), self.wake.clone());
        discovery::Context {
            job: pool.shared.name.clone(),
            buffers: self.shared.buffers.clone(),
            counters: self.sources.clone(),
            changed: Arc::new(move || {
                if let Some(pool) = weak.upgrade() {
                    pool.dirty.store(true, Ordering::Release);
                    wake.changed.notify_one();
                }
            }),
        }
    }

    /// Everything there is to show, copied.
    pub fn status(&self) -> Status {
        let pools: Vec<_> =
            self.pools.lock().iter().map(|(name, pool)| (name.clone(), pool.clone())).collect();
        Status { pools: pools.into_iter().map(|(name, pool)| (name, pool.status())).collect() }
    }

    /// What is held in memory. Steady.
    pub fn held(&self) -> Held {
        let mut held = Held { buffer_bytes: self.shared.buffers.held() as u64, ..Held::default() };
        for pool in self.pools.lock().values() {
            let sums = pool.sums();
            held.targets += sums.targets as u64;
            held.lines_bytes += sums.memory_bytes;
            held.metadata_families += sums.metadata_entries as u64;
            held.metadata_bytes += sums.metadata_bytes as u64;
        }
        held
    }

    /// What scraping counts.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.shared.counters
    }

    /// What discovery counts.
    pub fn discovery_counters(&self) -> &Arc<discovery::Counters> {
        &self.sources
    }

    /// Stops all scrapes, also those under way, and waits until they have stopped. Marks nothing
    /// stale: the next start goes on.
    pub async fn shutdown(&self) {
        // A sync under way ends first: it could start tasks after all others have been stopped.
        let coordinator = self.coordinator.lock().take();
        if let Some(coordinator) = coordinator {
            coordinator.abort();
            let _ = coordinator.await;
        }
        let pools = std::mem::take(&mut *self.pools.lock());
        let mut running: Vec<_> = std::mem::take(&mut *self.departing.lock());
        for pool in pools.values() {
            running.extend(pool.depart());
        }
        for handle in running.into_iter().map(Running::stop).collect::<Vec<_>>() {
            // A task that panicked has already said so.
            let _ = handle.await;
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        if let Some(coordinator) = self.coordinator.get_mut() {
            coordinator.abort();
        }
    }
}

/// What can fail of a job is done before anything changes.
fn prepare(
    job: &ScrapeConfig,
    logs: &mut HashMap<PathBuf, Arc<FailureLog>>,
) -> Result<Settings, ApplyError> {
    let refuse = |reason: String| ApplyError { job: job.job_name.clone(), reason };
    for discovery in &job.discoveries {
        if let Discovery::Http(http) = discovery {
            Client::new(&http.http).map_err(|error| refuse(format!("http_sd: {error}")))?;
        }
    }
    let failure_log = match &job.scrape_failure_log_file {
        None => None,
        Some(path) => Some(match logs.get(path) {
            Some(log) => log.clone(),
            None => {
                let log = FailureLog::open(path).map_err(|error| {
                    refuse(format!("scrape_failure_log_file {}: {error}", path.display()))
                })?;
                logs.entry(path.clone()).or_insert(Arc::new(log)).clone()
            }
        }),
    };
    let client = Client::new(&job.http).map_err(|error| refuse(error.to_string()))?;
    Ok(Settings::new(job.clone(), client, failure_log))
}

/// The server's part of each target's place in time: two servers that scrape the same targets do so at
/// different times.
fn seed(config: &Config) -> u64 {
    let mut hash = Fnv::default();
    hash.write(rustix::system::uname().nodename().to_bytes());
    hash.write(config.global.external_labels.to_string().as_bytes());
    hash.finish()
}

/// Syncs pools with what their sources publish, at most once per `interval`, at once after a reload.
async fn coordinate(
    shared: Arc<Shared>,
    pools: Arc<Mutex<BTreeMap<String, Arc<Pool>>>>,
    wake: Arc<Wake>,
    interval: Duration,
) {
    loop {
        wake.changed.notified().await;
        tokio::time::sleep(SYNC_DELAY).await;
        let started = Instant::now();
        let all: Vec<_> = pools.lock().values().cloned().collect();
        for pool in all.iter().filter(|pool| pool.dirty.load(Ordering::Acquire)) {
            let sync = || catch_unwind(AssertUnwindSafe(|| pool.sync(&shared, &all)));
            // Relabelling thousands of targets takes its time.
            if stand_aside(sync).is_err() {
                // The panic has been logged; the other jobs go on, and this one is tried again.
                tracing::error!(job = %pool.shared.name, "internal: the job's targets are not synced");
                pool.dirty.store(true, Ordering::Release);
                wake.changed.notify_one();
            }
        }
        tokio::select! {
            () = tokio::time::sleep_until(started + interval) => {}
            () = wake.at_once.notified() => {}
        }
    }
}
