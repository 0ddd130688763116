//! One job: its sources, its targets, their tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use store::Labels;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Shared;
use super::places::Places;
use super::spread::{self, Place, Placed};
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
    active: HashMap<Identity, Active>,
    departing: Vec<Departing>,
    dropped: Vec<DroppedTarget>,
    dropped_count: usize,
    invalid: Vec<String>,
}

/// What tells targets apart.
type Identity = (Labels, Arc<str>);

struct Active {
    target: Arc<Target>,
    place: Place,
    running: Running,
}

/// A target that is gone, and whose series are to be marked unless it comes back.
struct Departing {
    public: Labels,
    interval: Duration,
    place: Place,
    /// What its last scrape brought.
    samples: u64,
    running: Running,
}

impl Departing {
    /// The place that a successor with this interval goes on with.
    fn kept(&self, interval: Duration) -> Option<Placed> {
        let Departing { place, samples, .. } = *self;
        (self.interval == interval).then_some(Placed { interval, place, samples })
    }
}

/// A target that came, and who wrote the same series before: their marks, their connection and their place go
/// on.
struct New {
    turn: u64,
    identity: Identity,
    target: Box<Target>,
    before: Option<Departing>,
}

impl New {
    fn kept(&self) -> Option<Placed> {
        self.before.as_ref()?.kept(self.target.interval)
    }
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

/// What the targets of a pool are together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) targets: usize,
    pub(super) dropped: usize,
    pub(super) metadata_entries: usize,
    pub(super) metadata_bytes: usize,
    /// What is remembered of their lines.
    pub(super) memory_bytes: u64,
}

impl State {
    fn placed(&self) -> Vec<Placed> {
        let placed = |active: &Active| Placed {
            interval: active.target.interval,
            place: active.place,
            samples: active.target.samples(),
        };
        self.active.values().map(placed).collect()
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
    /// and lets those end whose targets are gone. The others do not notice. `all` are the pools among
    /// whose targets new ones find their places. Only one pool is synced at a time.
    pub(super) fn sync(&self, shared: &Arc<Shared>, all: &[Arc<Pool>]) {
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
        self.replace_targets(&mut state, found, shared, all);
        let count = state.active.len() as u64;
        drop(state);
        self.check_target_limit(count, config.limits.targets, shared);
    }

    fn replace_targets(
        &self,
        state: &mut State,
        found: HashMap<Identity, Box<Target>>,
        shared: &Arc<Shared>,
        all: &[Arc<Pool>],
    ) {
        state.departing.retain(|gone| !gone.running.is_finished());
        let gone = state.active.extract_if(|identity, _| !found.contains_key(identity));
        for (_, Active { target, place, running }) in gone.collect::<Vec<_>>() {
            let (public, interval) = (target.public.clone(), target.interval);
            let samples = target.samples();
            state.departing.push(Departing { public, interval, place, samples, running });
        }
        let mut new = Vec::new();
        for (identity, target) in found {
            match state.active.get(&identity) {
                Some(active) if !active.running.is_finished() => {
                    active.target.set_discovered(target.discovered());
                }
                // A task that ended by itself has panicked; its target gets another one.
                Some(_) | None => {
                    state.active.remove(&identity);
                    let turn = spread::turn(target.hash(), shared.seed());
                    new.push(New { turn, identity, target, before: None });
                }
            }
        }
        if !new.is_empty() {
            new.sort_unstable_by(|a, b| (a.turn, &a.identity).cmp(&(b.turn, &b.identity)));
            for new in &mut new {
                let gone = |gone: &Departing| gone.public == new.target.public;
                let index = state.departing.iter().position(gone);
                new.before = index.map(|index| state.departing.swap_remove(index));
            }
            // Who keeps a place is in it before others look for theirs.
            let mut own = state.placed();
            own.extend(new.iter().filter_map(New::kept));
            let others = all.iter().filter(|other| !std::ptr::eq(&***other, self));
            let others = others.flat_map(|other| other.placed()).collect();
            let mut places = Places::new(own, others, shared.seed(), shared.workers.len());
            for new in new {
                let identity = new.identity.clone();
                let active = self.start(new, shared, &mut places);
                state.active.insert(identity, active);
            }
        }
        // Only now: who departs closes the connection that a successor would have gone on with.
        for gone in &state.departing {
            gone.running.phase.send_replace(Phase::Depart);
        }
    }

    /// Starts the task of a new target.
    fn start(&self, new: New, shared: &Arc<Shared>, places: &mut Places) -> Active {
        let place = match new.kept() {
            Some(kept) => kept.place,
            None => places.place(new.target.interval, new.target.hash()),
        };
        let New { target, before, .. } = new;
        let predecessor = before.map(|before| before.running.stop());
        let target = Arc::<Target>::from(target);
        let (phase, receiver) = watch::channel(Phase::Run);
        let (pool, shared) = (self.shared.clone(), shared.clone());
        let worker = shared.workers[place.worker].clone();
        let task = Task::new(target.clone(), pool, shared, place.at, receiver, predecessor);
        Active { target, place, running: Running { phase, handle: worker.spawn(task.run()) } }
    }

    fn placed(&self) -> Vec<Placed> {
        self.state.lock().placed()
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
        running.extend(state.departing.drain(..).map(|gone| gone.running));
        running
    }

    /// Sums over the targets. Steady: copies nothing.
    pub(super) fn sums(&self) -> Sums {
        let state = self.state.lock();
        let mut sums =
            Sums { targets: state.active.len(), dropped: state.dropped_count, ..Sums::default() };
        for active in state.active.values() {
            let (entries, bytes) = active.target.families.size();
            sums.metadata_entries += entries;
            sums.metadata_bytes += bytes;
            sums.memory_bytes += active.target.memory_bytes();
        }
        sums
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A target that departs; its task never ends by itself.
    fn departing(interval: Duration, at: Duration) -> Departing {
        let place = Place { at, worker: 0 };
        let (phase, _) = watch::channel(Phase::Run);
        let handle = tokio::spawn(std::future::pending());
        let public = Labels::default();
        Departing { public, interval, place, samples: 1000, running: Running { phase, handle } }
    }

    #[tokio::test]
    async fn new_targets_go_where_successors_are_not() {
        let interval = Duration::from_secs(10);
        // Every other second is kept by a successor.
        let gone: Vec<Departing> =
            (0..5).map(|n| departing(interval, Duration::from_secs(2 * n))).collect();
        let kept: Vec<Placed> = gone.iter().filter_map(|gone| gone.kept(interval)).collect();
        assert_eq!(kept.len(), 5);
        let mut places = Places::new(kept, Vec::new(), 3, 1);
        let mut between = [0; 5];
        for _ in 0..5 {
            between[places.place(interval, 0).at.as_secs() as usize / 2] += 1;
        }
        assert_eq!(between, [1; 5]);
        // With another interval it has no place to go on with.
        assert!(gone.iter().all(|gone| gone.kept(interval * 2).is_none()));
    }
}
