//! From what the kernel wrote to a profile: unwinds each sample, and gives each thread its time.
//!
//! A sample's weight is not its period but the processor time that its thread had since the samples before,
//! by the thread's own clock, shared among those that are read together. So each thread's total stays true
//! when samples are lost, when the period changes, and where time in the kernel has no samples of its own.
//! What threads that ended had beside their samples is one entry, `[ended threads]`.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::Statistics;
use super::account::{Account, Balance};
use super::record::{Record, Sample};
use super::watch::{Origin, Watch};
use crate::profile::{ENDED_THREADS, EntryId, Label, LabelValue, LabelsId, Profile, Stack, Tables};
use crate::sample::{Status, Tid, cpu_of, own_cpu, process_cpu};
use crate::unwind::{self, End};

/// What a sample costs in the kernel: an interrupt, and some nanoseconds for each 16 bytes of stack.
/// It is charged to the thread sampled, and nothing tells how much it was.
const SAMPLE_COST: u64 = 2_000;
/// How long counters run at a time where they may not always, in nanoseconds.
const ON: u64 = 200_000_000;
/// How much rarer samples may become: counters then rest for ten seconds.
const RAREST: f64 = 51.0;
/// How often the period is reconsidered, in nanoseconds.
const RECONSIDER: u64 = 1_000_000_000;

/// A thread that has or may have samples.
#[derive(Default)]
struct Thread {
    account: Account,
    origin: Option<Origin>,
    labels: Option<LabelsId>,
    status: Option<Status>,
}

/// A sample that waits for its time.
#[derive(Clone, Copy)]
struct Pending {
    tid: Tid,
    entry: EntryId,
    period: u64,
}

pub(super) struct Reader {
    watch: Watch,
    tables: Tables,
    cpu: Profile,
    threads: HashMap<i32, Thread, RandomState>,
    pid: u32,
    frames: Vec<u64>,
    /// For records that go around the end of a ring.
    scratch: Vec<u8>,
    pending: Vec<Pending>,
    /// Threads that ended: other rings may have samples of theirs, and their ids go a little later.
    ended: Vec<Tid>,
    balance: Balance,
    /// The thread that reads, which is not watched.
    own: (Tid, Account),
    /// Threads that are there, and what their clocks show.
    live: Vec<(Tid, u64)>,
    statistics: Statistics,
    /// Nanoseconds between samples while counters run.
    period: u64,
    pace: Pace,
}

/// How often there is a sample, so that samples cost no more than they may. Where they would, counters run
/// for a while and rest for a while: only that reaches the threads that inherited them. What a thread had of
/// a processor meanwhile goes to its next sample.
struct Pace {
    share: f64,
    stack: u64,
    /// How many times rarer samples are than asked for.
    rarer: f64,
    /// When it was reconsidered last, and what was spent up to then.
    when: u64,
    spent: u64,
    is_on: bool,
    /// When counters are switched next.
    switch: u64,
}

impl Pace {
    fn new(share: f64, stack: u32, now: u64) -> Self {
        Pace {
            share,
            stack: stack.into(),
            rarer: 1.0,
            when: now,
            spent: 0,
            is_on: true,
            switch: now,
        }
    }

    /// Whether it was time to reconsider. `spent` is what everything cost up to `now`.
    fn reconsider(&mut self, now: u64, spent: u64) -> bool {
        let elapsed = now.saturating_sub(self.when);
        // Over running and resting.
        if elapsed < RECONSIDER.max((ON as f64 * self.rarer) as u64) {
            return false;
        }
        let share = spent.saturating_sub(self.spent) as f64 / elapsed as f64;
        (self.when, self.spent) = (now, spent);
        // Up at once, down slowly: a burst must not cost twice.
        let factor = match share / self.share {
            over @ 1.0.. => over,
            under => (under / 0.8).clamp(0.5, 1.0),
        };
        self.rarer = (self.rarer * factor).clamp(1.0, RAREST);
        true
    }

    /// Whether counters are to be switched now, and to what.
    fn switch(&mut self, now: u64) -> Option<bool> {
        let rests = self.rarer > 1.05;
        if (!rests && self.is_on) || (rests && now < self.switch) {
            return None;
        }
        self.is_on = !self.is_on;
        self.switch = now + if self.is_on { ON } else { (ON as f64 * (self.rarer - 1.0)) as u64 };
        Some(self.is_on)
    }
}

impl Reader {
    /// Reads from `watch` what the kernel writes about this process' threads. `threads` were there before,
    /// with what their clocks showed.
    pub(super) fn new(
        watch: Watch,
        threads: &[(Tid, u64)],
        tables: Tables,
        cpu: Profile,
        options: &super::Builder,
        now: u64,
    ) -> Self {
        // What they had since goes into the profile, and is not in what the process has from now on.
        let early = |&(tid, cpu): &(Tid, u64)| cpu_of(tid).map_or(0, |now| now.saturating_sub(cpu));
        let early: u64 = threads.iter().map(early).sum();
        let threads = threads
            .iter()
            .map(|&(tid, cpu)| (tid.0, Thread { account: Account::at(cpu), ..Thread::default() }));
        let reader = Reader {
            statistics: Statistics {
                descriptors: watch.descriptors() as u64,
                threads_missed: watch.missed,
                samples_kernel: watch.has_kernel(),
                period_ns: options.period(),
                ..Statistics::default()
            },
            pace: Pace::new(options.budget, options.stack_bytes, now),
            period: options.period(),
            watch,
            threads: threads.collect(),
            pid: std::process::id(),
            frames: vec![0; options.depth],
            scratch: Vec::with_capacity(1 << 16),
            pending: Vec::with_capacity(64),
            ended: Vec::new(),
            own: (Tid::own(), Account::at(own_cpu())),
            balance: Balance::at(process_cpu().saturating_sub(early)),
            live: Vec::new(),
            tables,
            cpu,
        };
        reader.tables.follow_modules();
        reader
    }

    pub(super) fn watch(&self) -> &Watch {
        &self.watch
    }

    pub(super) fn period(&self) -> u64 {
        self.period
    }

    /// When it wants to be asked again, whatever the kernel wrote.
    pub(super) fn due(&self) -> Option<u64> {
        (self.pace.rarer > 1.0).then_some(self.pace.switch)
    }

    pub(super) fn statistics(&self) -> Statistics {
        Statistics { threads: self.threads.len() as u64, ..self.statistics }
    }

    /// Reads all rings, and returns how many samples there were. *Steady* for threads and stacks that were
    /// seen before.
    pub(super) fn drain(&mut self) -> u64 {
        let begun = own_cpu();
        let before = self.statistics.samples;
        let ended_before = self.ended.len();
        self.tables.follow_modules();
        let mut rings = std::mem::take(&mut self.watch.rings);
        let mut scratch = std::mem::take(&mut self.scratch);
        for ring in &mut rings {
            ring.read(&mut scratch, |record| match Record::read(record) {
                Some(Record::Sample(sample)) => self.sample(&sample),
                Some(Record::Start { pid, tid }) if pid == self.pid => self.started(tid),
                Some(Record::End { pid, tid }) if pid == self.pid => self.ended.push(tid),
                Some(Record::Lost(count)) => self.statistics.lost += count,
                Some(Record::Throttled) => self.statistics.throttled += 1,
                _ => {}
            });
        }
        self.watch.rings = rings;
        self.scratch = scratch;
        self.give_time();
        self.forget(ended_before);
        let samples = self.statistics.samples - before;
        let kernel = samples * (SAMPLE_COST + self.pace.stack / 16);
        self.statistics.cost_ns += own_cpu().saturating_sub(begun) + kernel;
        samples
    }

    /// Reads all rings, and gives what threads that ended still had. *Steady*; two system calls for each
    /// thread.
    pub(super) fn settle(&mut self) {
        let begun = own_cpu();
        let process = process_cpu();
        // Before the rings, so that a thread that is not there any more has all its samples in them.
        let mut live = std::mem::take(&mut self.live);
        live.clear();
        let is_listed =
            self.watch.tasks.list(|tid| live.extend(cpu_of(tid).map(|cpu| (tid, cpu)))).is_ok();
        self.statistics.cost_ns += own_cpu().saturating_sub(begun);
        self.drain();
        let waiting = |&(tid, cpu): &(Tid, u64)| match self.threads.get(&tid.0) {
            Some(thread) => thread.account.waiting(cpu),
            None if tid == self.own.0 => self.own.1.waiting(cpu),
            None => cpu,
        };
        let waiting = live.iter().map(waiting).sum();
        self.live = live;
        if !is_listed {
            // Another time: who is not known to be there would be taken for ended.
            return;
        }
        let left = self.balance.left_over(process, waiting);
        if left > 0 {
            let none = LabelsId::default();
            let stack = Stack { addresses: &[ENDED_THREADS], end: End::Root };
            self.cpu.lock().record(stack, none, none, &[0, left as i64]);
        }
    }

    /// A thread was started; that may be read after its samples, which are in other rings.
    fn started(&mut self, tid: Tid) {
        let Some(thread) = self.threads.get_mut(&tid.0) else {
            self.threads.insert(tid.0, Thread::default());
            return;
        };
        if cpu_of(tid).is_some_and(|cpu| thread.account.is_of_another(cpu)) {
            *thread = Thread::default();
        }
    }

    /// Forgets the first `count` of the threads that ended, as far as they are gone.
    fn forget(&mut self, count: usize) {
        let (threads, mut left) = (&mut self.threads, count);
        self.ended.retain(|tid| {
            if left == 0 {
                return true;
            }
            left -= 1;
            // The number may be another thread's already, and then goes with that.
            if cpu_of(*tid).is_some() {
                return true;
            }
            threads.remove(&tid.0);
            false
        });
    }

    /// Keeps the cost below the budget, and forgets threads whose end was lost.
    pub(super) fn reconsider(&mut self, now: u64) {
        if self.pace.reconsider(now, self.statistics.cost_ns) {
            self.statistics.period_ns = (self.period as f64 * self.pace.rarer) as u64;
            if self.threads.len() > 64 {
                self.threads.retain(|&tid, _| cpu_of(Tid(tid)).is_some());
            }
        }
        if let Some(on) = self.pace.switch(now) {
            let begun = own_cpu();
            self.watch.switch(on);
            self.statistics.cost_ns += own_cpu().saturating_sub(begun);
        }
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let Some(registers) = sample.registers.filter(|_| sample.pid == self.pid) else {
            self.statistics.foreign += 1;
            return;
        };
        let thread = self.threads.entry(sample.tid.0).or_default();
        let origin = self.watch.origin(sample.counter);
        if thread.origin.is_none() {
            thread.origin = origin;
        } else if thread.origin != origin {
            self.statistics.doubled += 1;
            return;
        }
        let walk = unwind::walk_copy(&registers, sample.stack, &mut self.frames);
        // Where the copy ended the stack went on.
        let end = if walk.end == End::Lost && sample.is_cut { End::Truncated } else { walk.end };
        self.statistics.samples += 1;
        match end {
            End::Root => self.statistics.unwound_root += 1,
            End::Truncated => self.statistics.unwound_truncated += 1,
            End::Lost => self.statistics.unwound_lost += 1,
        }
        if thread.status.is_none() {
            thread.status = Status::read(sample.tid);
        }
        let mut recording = self.cpu.lock();
        let labels = match thread.labels.filter(|&labels| recording.has_labels(labels)) {
            Some(labels) => labels,
            None => {
                let name = thread.status.as_ref().map_or_else(Default::default, Status::name);
                recording.labels(&[
                    Label { key: "thread id", value: LabelValue::Number(i64::from(sample.tid.0)) },
                    Label { key: "thread name", value: LabelValue::Text(&name) },
                ])
            }
        };
        thread.labels = Some(labels);
        let stack = Stack { addresses: &self.frames[..walk.depth], end };
        let entry = recording.record(stack, labels, LabelsId::default(), &[1, 0]);
        self.pending.push(Pending { tid: sample.tid, entry, period: sample.period });
    }

    /// Gives the samples that were read the time that their threads had.
    fn give_time(&mut self) {
        self.pending.sort_unstable_by_key(|pending| pending.tid);
        for of_thread in self.pending.chunk_by(|a, b| a.tid == b.tid) {
            let tid = of_thread[0].tid;
            let periods: u64 = of_thread.iter().map(|pending| pending.period).sum();
            let last = of_thread[of_thread.len() - 1].period;
            let thread = self.threads.entry(tid.0).or_default();
            let owed = thread.account.owed(cpu_of(tid), periods, last);
            self.balance.give(owed);
            let mut recording = self.cpu.lock();
            let (mut given, mut seen) = (0, 0);
            for pending in of_thread {
                seen += pending.period;
                // Up to here, so that what is rounded off is not lost.
                let so_far =
                    (u128::from(owed) * u128::from(seen) / u128::from(periods.max(1))) as u64;
                // An entry dropped within the moment is in the profile's `[dropped]`.
                let _ = recording.add(pending.entry, &[0, (so_far - given) as i64]);
                given = so_far;
            }
        }
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of a processor in a minute in which a sample costs 10 microseconds and `busy` processors
    /// work, and the longest rest in milliseconds.
    fn minute(share: f64, hertz: u64, busy: impl Fn(u64) -> u64) -> (f64, u64) {
        let mut pace = Pace::new(share, 0, 0);
        let (mut spent, mut rest, mut longest) = (0, 0, 0);
        for millisecond in 1..=60_000 {
            rest = if pace.is_on { 0 } else { rest + 1 };
            longest = rest.max(longest);
            if pace.is_on {
                spent += busy(millisecond / 1000) * hertz * 10;
            }
            pace.reconsider(millisecond * 1_000_000, spent);
            pace.switch(millisecond * 1_000_000);
        }
        (spent as f64 / 60e9, longest)
    }

    #[test]
    fn counters_rest_when_samples_cost_too_much() {
        let (share, rest) = minute(0.02, 100, |_| 4);
        assert!(share < 0.005 && rest == 0, "cheap enough as it is: {share} {rest}");
        let (share, rest) = minute(0.02, 100, |_| 64);
        assert!((0.015..0.024).contains(&share) && rest > 100, "{share} {rest}");
        let (share, rest) = minute(0.02, 100, |second| if second < 30 { 0 } else { 100 });
        assert!(share < 0.02 && rest > 200, "{share} {rest}");
        let (share, rest) = minute(0.02, 100, |second| if second < 20 { 100 } else { 1 });
        assert!(share < 0.02 && rest < 5000, "it recovers: {share} {rest}");
        let (_, rest) = minute(0.000_001, 100, |_| 100);
        assert!(rest <= 10_001, "{rest}");
    }
}
