//! What everybody in a fleet knows: its options, its clock, who misbehaves, and what was served.

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::behaviour::Behaviour;
use super::options::Options;
use super::served::Served;
use super::value::{Moment, below, mix};

pub(super) struct World {
    pub(super) options: Options,
    started: Instant,
    pub(super) started_unix_ms: i64,
    /// Values move once in it.
    tick: Duration,
    /// By target; empty where all are healthy.
    behaviours: Vec<Option<Behaviour>>,
    pub(super) misbehaving: usize,
    pub(super) served: Mutex<Served>,
    pub(super) address: SocketAddr,
    /// A port at which nobody listens.
    pub(super) refusing_port: u16,
    /// What a body has at most, unless its target misbehaves.
    pub(super) body_limit: usize,
    /// `<pid>/task/<tid>` of the fleet's thread, where the system has such.
    pub(super) thread: Mutex<Option<std::path::PathBuf>>,
}

impl World {
    pub(super) fn new(
        options: Options,
        address: SocketAddr,
        refusing_port: u16,
        longest: usize,
    ) -> Self {
        let misbehaving = (options.misbehaving * options.targets as f64).round() as usize;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        World {
            started: Instant::now(),
            started_unix_ms: unix.as_millis() as i64,
            tick: tick(&options),
            behaviours: behaviours(options.targets, misbehaving, options.seed),
            misbehaving,
            served: Mutex::new(Served::new(options.targets, options.interval)),
            address,
            refusing_port,
            body_limit: (longest * 2).max(1 << 20),
            thread: Mutex::new(None),
            options,
        }
    }

    pub(super) fn since_start(&self) -> Duration {
        self.started.elapsed()
    }

    /// Now, as values see it.
    pub(super) fn moment(&self) -> Moment {
        let since = self.since_start();
        let tick = (since.as_nanos() / self.tick.as_nanos()) as u64;
        Moment { tick, unix_ms: self.started_unix_ms as u64 + since.as_millis() as u64 }
    }

    pub(super) fn behaviour(&self, target: usize) -> Option<Behaviour> {
        self.behaviours.get(target).copied().flatten()
    }

    pub(super) fn target_seed(&self, target: usize) -> u64 {
        mix(mix(self.options.seed) ^ target as u64)
    }
}

/// Values move twice in an interval, so that a scrape which comes a little early sees them moved, too.
pub(super) fn tick(options: &Options) -> Duration {
    options.interval / 2
}

/// So many of the targets, drawn by the seed, have each behaviour in turn.
fn behaviours(targets: usize, misbehaving: usize, seed: u64) -> Vec<Option<Behaviour>> {
    if misbehaving == 0 {
        return Vec::new();
    }
    let mut order: Vec<u32> = (0..targets as u32).collect();
    let mut random = mix(seed ^ 0x6d69_7362);
    for place in (1..order.len()).rev() {
        random = mix(random);
        order.swap(place, below(random, place as u64 + 1) as usize);
    }
    let mut all = vec![None; targets];
    for (number, target) in order.into_iter().take(misbehaving).enumerate() {
        all[target as usize] = Some(Behaviour::ALL[number % Behaviour::ALL.len()]);
    }
    all
}
