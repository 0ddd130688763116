//! One job: its sources, its targets, their tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;
use store::Labels;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Shared;
use super::status::{DroppedTarget, PoolStatus};
use super::target::{Populated, Target};
use super::task::{Carry, Phase, PoolShared, Task};
use crate::discovery::Sources;
use crate::relabel::Scratch;

/// So many targets that cannot be made are shown with their reasons.
const MOST_INVALID: usize = 100;

pub(super) struct Pool {
    pub(super) shared: Arc<PoolShared>,
    pub(super) sources: Mutex<Sources>,
    /// Whether sources have published since the last sync.
    pub(super) dirty: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    active: HashMap<(Labels, Arc<str>), Active>,
    departing: Vec<(Labels, Running)>,
    dropped: Vec<DroppedTarget>,
    dropped_count: usize,
    invalid: Vec<String>,
}

struct Active {
    target: Arc<Target>,
    running: Running,
}

/// A task, and how to tell it what to do.
pub(super) struct Running {
    phase: watch::Sender<Phase>,
    handle: JoinHandle<Carry>,
}

impl Running {
    /// Ends the task at once; its handle gives what it leaves.
    pub(super) fn stop(self) -> JoinHandle<Carry> {
        self.phase.send_replace(Phase::Stop);
        self.handle
    }

    pub(super) fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

impl Pool {
    pub(super) fn new(shared: Arc<PoolShared>) -> Self {
        Pool {
            shared,
            sources: Mutex::default(),
            dirty: AtomicBool::new(true),
            state: Mutex::default(),
        }
    }

    /// Builds the targets of what the sources have published, starts tasks for those that are new,
    /// and lets those end whose targets are gone. The others do not notice.
    pub(super) fn sync(&self, shared: &Arc<Shared>) {
        self.dirty.store(false, Ordering::Release);
        let groups = self.sources.lock().groups();
        let config = self.shared.settings.load().config.clone();
        let mut scratch = Scratch::new();
        let mut found = HashMap::new();
        let mut dropped = Vec::new();
        let (mut dropped_count, mut failed) = (0, 0);
        let mut invalid = Vec::new();
        let keep_dropped = config.limits.keep_dropped_targets.unwrap_or(u64::MAX);
        for group in groups.iter().flat_map(|groups| groups.iter()) {
            for own in &group.targets {
                match Target::populate(&config, own, &group.labels, &mut scratch) {
                    Ok(Populated::Target(target)) => {
                        found.insert(target.identity(), target);
                    }
                    Ok(Populated::Dropped(discovered_labels)) => {
                        if dropped_count < keep_dropped {
                            let scrape_pool = self.shared.name.clone();
                            dropped.push(DroppedTarget { discovered_labels, scrape_pool });
                        }
                        dropped_count += 1;
                    }
                    Err(reason) => {
                        failed += 1;
                        let reason = format!("{own}: {reason}");
                        tracing::error!(job = %self.shared.name, reason, "Creating target failed");
                        if invalid.len() < MOST_INVALID {
                            invalid.push(reason);
                        }
                    }
                }
            }
        }
        self.shared.sync_failed.add(failed);
        self.shared.syncs.add(1);
        let mut state = self.state.lock();
        (state.dropped, state.dropped_count) = (dropped, dropped_count as usize);
        state.invalid = invalid;
        self.replace_targets(&mut state, found, shared);
        let count = state.active.len() as u64;
        drop(state);
        self.check_target_limit(count, config.limits.targets, shared);
    }

    fn replace_targets(
        &self,
        state: &mut State,
        found: HashMap<(Labels, Arc<str>), Box<Target>>,
        shared: &Arc<Shared>,
    ) {
        state.departing.retain(|(_, running)| !running.is_finished());
        let gone = state.active.extract_if(|identity, _| !found.contains_key(identity));
        for (_, Active { target, running }) in gone.collect::<Vec<_>>() {
            state.departing.push((target.public.clone(), running));
        }
        for (identity, target) in found {
            // A task that ended by itself has panicked; its target gets another one.
            let scraped = |active: &&Active| !active.running.is_finished();
            if let Some(active) = state.active.get(&identity).filter(scraped) {
                active.target.set_discovered(target.discovered());
                continue;
            }
            // Somebody who wrote the same series before: their marks and their connection go on.
            let before = state.departing.iter().position(|(labels, _)| *labels == target.public);
            let predecessor = before.map(|at| state.departing.swap_remove(at).1.stop());
            let target = Arc::<Target>::from(target);
            let (phase, receiver) = watch::channel(Phase::Run);
            let (pool, shared) = (self.shared.clone(), shared.clone());
            let task = Task::new(target.clone(), pool, shared, receiver, predecessor);
            let running = Running { phase, handle: tokio::spawn(task.run()) };
            state.active.insert(identity, Active { target, running });
        }
        // Only now: who departs closes the connection that a successor would have gone on with.
        for (_, running) in &state.departing {
            running.phase.send_replace(Phase::Depart);
        }
    }

    fn check_target_limit(&self, count: u64, limit: Option<u64>, shared: &Shared) {
        let exceeded = limit.filter(|limit| count > *limit);
        if exceeded.is_some() {
            shared.counters.scrape_pool_exceeded_target_limit.add(1);
        }
        self.shared.forced_error.store(exceeded.map(|limit| {
            Arc::new(format!("target_limit exceeded (number of targets: {count}, limit: {limit})"))
        }));
    }

    /// Lets all targets depart; gives the tasks that are still running.
    pub(super) fn depart(&self) -> Vec<Running> {
        let mut state = self.state.lock();
        let mut running = Vec::new();
        for (_, active) in state.active.drain() {
            active.running.phase.send_replace(Phase::Depart);
            running.push(active.running);
        }
        running.extend(state.departing.drain(..).map(|(_, running)| running));
        running
    }

    pub(super) fn status(&self) -> PoolStatus {
        let state = self.state.lock();
        let name = &self.shared.name;
        let mut active: Vec<_> =
            state.active.values().map(|active| active.target.status(name)).collect();
        let mut status = PoolStatus {
            active: Vec::new(),
            dropped: state.dropped.clone(),
            dropped_count: state.dropped_count,
            invalid: state.invalid.clone(),
            discovery_errors: Vec::new(),
            cost: self.shared.cost.get(),
        };
        drop(state);
        active.sort_by(|a, b| (&a.scrape_url, &a.labels).cmp(&(&b.scrape_url, &b.labels)));
        status.active = active;
        status.discovery_errors = self.sources.lock().errors();
        status
    }
}
