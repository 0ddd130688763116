//! The profiler that is asked: one that runs all the time, or one that runs while somebody asks.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Error;
use crate::heap;
use crate::profile::{Limits, Tables};
use crate::profiler::{Builder, Profiler};
use crate::sample::Statistics;

/// Where samples come from.
#[derive(Clone)]
pub(super) struct Sampling(Kind);

#[derive(Clone)]
enum Kind {
    None,
    Always(Profiler, Since),
    OnDemand(Arc<OnDemand>),
}

/// When its statistics were what.
#[derive(Clone, Copy)]
struct Since {
    time: Instant,
    statistics: Statistics,
}

struct OnDemand {
    builder: Builder,
    /// They live on between the runs: what is known stays known.
    tables: Tables,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    /// Which run of a profiler it is: leases of others, such as those that a child of `fork` inherits, no
    /// longer count.
    run: u64,
    leases: usize,
    profiler: Option<(Profiler, Since)>,
}

/// The right to a profiler that runs.
pub(super) struct Lease {
    pub(super) profiler: Profiler,
    /// And its run.
    given_by: Option<(Arc<OnDemand>, u64)>,
}

impl Since {
    fn now(profiler: &Profiler) -> Self {
        Since { time: Instant::now(), statistics: profiler.statistics() }
    }
}

impl fmt::Debug for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Kind::None => "None",
            Kind::Always(..) => "Always",
            Kind::OnDemand(_) => "OnDemand",
        })
    }
}

impl OnDemand {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sampling {
    pub(super) fn none() -> Self {
        Sampling(Kind::None)
    }

    pub(super) fn always(profiler: Profiler) -> Self {
        let since = Since::now(&profiler);
        Sampling(Kind::Always(profiler, since))
    }

    pub(super) fn on_demand(builder: Builder) -> Self {
        let own = builder.tables.clone();
        let tables = own.unwrap_or_else(|| Tables::new(Limits::default()));
        let builder = builder.tables(&tables);
        Sampling(Kind::OnDemand(Arc::new(OnDemand { builder, tables, running: Mutex::default() })))
    }

    /// A profiler that runs as long as the lease is held; none where there is none.
    pub(super) fn lease(&self) -> Result<Option<Lease>, Error> {
        let on_demand = match &self.0 {
            Kind::None => return Ok(None),
            Kind::Always(profiler, _) => {
                return Ok(Some(Lease { profiler: profiler.clone(), given_by: None }));
            }
            Kind::OnDemand(on_demand) => on_demand,
        };
        let mut running = on_demand.running();
        let profiler = match &running.profiler {
            Some((profiler, _)) if profiler.is_running() => profiler.clone(),
            // Also where the one that is there is that of a parent process.
            _ => {
                let profiler = on_demand.builder.clone().start()?;
                let run = running.run + 1;
                let started = Some((profiler.clone(), Since::now(&profiler)));
                *running = Running { run, leases: 0, profiler: started };
                profiler
            }
        };
        running.leases += 1;
        Ok(Some(Lease { profiler, given_by: Some((on_demand.clone(), running.run)) }))
    }

    /// Why there are no samples; none where there are.
    pub(super) fn is_off(&self) -> Option<&'static str> {
        match &self.0 {
            Kind::None => Some("the program does not sample its threads"),
            Kind::Always(profiler, _) if !profiler.is_running() => {
                Some("sampling was stopped, or its budget is 0")
            }
            _ => None,
        }
    }

    /// What there is to say on the index.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let (profiler, since, tables) = match &self.0 {
            Kind::None => return vec![("Sampling", "off".to_owned())],
            Kind::Always(profiler, since) => {
                (Some(profiler.clone()), Some(*since), profiler.tables())
            }
            Kind::OnDemand(on_demand) => {
                let running = on_demand.running();
                let own = running.profiler.clone().filter(|(profiler, _)| profiler.is_running());
                let (profiler, since) = own.unzip();
                (profiler, since, &on_demand.tables)
            }
        };
        let mut facts = Vec::new();
        match (profiler, since) {
            (Some(profiler), Some(since)) => sampling_facts(&profiler, &since, &mut facts),
            _ => facts.push(("Sampling", "when a profile is asked for".to_owned())),
        }
        let known = tables.statistics();
        facts.push((
            "Known",
            format!(
                "{} stacks, {} locations, {} functions, {}",
                known.stacks,
                known.locations,
                known.functions,
                bytes(known.bytes)
            ),
        ));
        let refused = known.refused_stacks + known.refused_labels;
        if refused + known.dropped > 0 {
            let text = format!("{refused} times no room, {} entries dropped", known.dropped);
            facts.push(("Bounds reached", text));
        }
        facts
    }
}

fn sampling_facts(profiler: &Profiler, since: &Since, facts: &mut Vec<(&'static str, String)>) {
    let now = profiler.statistics();
    if !profiler.is_running() {
        facts.push(("Sampling", "off".to_owned()));
        return;
    }
    let pause = Duration::from_nanos(now.pause_ns);
    facts.push(("Sampling", format!("on, of {} threads, every {pause:.1?} now", now.threads)));
    let elapsed = since.time.elapsed().as_secs_f64().max(1e-9);
    let cost = now.cost_ns().saturating_sub(since.statistics.cost_ns()) as f64 / 1e9;
    let budget = now.budget_ppm as f64 / 1e4;
    let share = 100.0 * cost / elapsed;
    facts.push(("Cost", format!("{share:.2}% of a processor, of {budget}% that it may take")));
    facts.push((
        "Samples",
        format!(
            "{}; {} threads interrupted, {} found asleep",
            now.samples, now.signals, now.asleep
        ),
    ));
    let walked = now.complete + now.truncated + now.lost;
    if walked > 0 {
        let complete = 100.0 * now.complete as f64 / walked as f64;
        let text =
            format!("{complete:.2}% of {walked}; {} too deep, {} lost", now.truncated, now.lost);
        facts.push(("Complete stacks", text));
    }
    let skipped = now.skipped_full + now.skipped_unsent + now.skipped_blocked;
    if skipped + now.ticks_skipped > 0 {
        let text = format!("{} ticks, {skipped} turns of threads", now.ticks_skipped);
        facts.push(("Left out", text));
    }
}

/// What there is to say about the heap's profile.
pub(super) fn heap_facts() -> Vec<(&'static str, String)> {
    let now = heap::statistics();
    let on = if heap::is_running() { "on" } else { "stopped" };
    let text = format!("{on}; {} blocks sampled, {} of them in use", now.samples, now.live);
    vec![("Heap", text)]
}

/// Bytes in the unit that fits.
fn bytes(count: usize) -> String {
    match count {
        0..10_240 => format!("{count} B"),
        10_240..10_485_760 => format!("{} KiB", count >> 10),
        _ => format!("{} MiB", count >> 20),
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some((on_demand, run)) = &self.given_by else { return };
        let mut running = on_demand.running();
        if running.run != *run {
            return;
        }
        running.leases -= 1;
        if running.leases == 0 {
            // Stopped with the lock held: the next one must not start before that.
            if let Some((profiler, _)) = running.profiler.take() {
                profiler.stop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A profiler that was stopped is to a request what that of a parent process is: dead.
    #[test]
    fn a_dead_profiler_is_not_handed_out() {
        let own = Tables::new(Limits::default());
        let sampling = Sampling::on_demand(Profiler::builder().tables(&own));
        let old = sampling.lease().unwrap().unwrap();
        assert!(old.profiler.wall().is_of(&own), "they are those of the builder");
        old.profiler.stop();
        let new = sampling.lease().unwrap().unwrap();
        assert!(new.profiler.is_running());
        // It belongs to those who came later.
        drop(old);
        assert!(new.profiler.is_running());
        let profiler = new.profiler.clone();
        drop(new);
        assert!(!profiler.is_running());
        let Kind::OnDemand(on_demand) = &sampling.0 else { panic!("{sampling:?}") };
        assert_eq!(on_demand.running().leases, 0);
    }
}
