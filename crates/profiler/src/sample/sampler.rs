//! A tick.
//!
//! 1. Look which threads there are, now and then, and whether modules were loaded.
//! 2. Go round: a thread whose clock has stood still since it was seen waiting is asleep, and its time goes
//!    to the stack that is known; another gets a signal, up to so many a tick.
//! 3. Record what handlers have written since. A thread that waits for a processor answers when it gets
//!    one, ticks later; its slot waits with it.
//!
//! Each sample takes the time since the thread was accounted for last, by its clock on the wall and by its
//! processor's, so that totals are true however often a thread has its turn. Processor time of a thread
//! that is found waiting is held back until it is found running, since waiting is not where it went.

use std::sync::Arc;
use std::time::Duration;

use super::clock;
use super::counters::Counters;
use super::signal;
use super::slots::{Found, Outcome, Ring};
use super::tasks::{Status, Tasks, Tid, Waiting, start_of};
use super::threads::{Thread, Threads};
use crate::profile::{
    ENDED_THREADS, EntryId, LabelsId, NOT_SAMPLED_YET, PROFILER, Profile, Recording,
    SIGNALS_BLOCKED, Stack, Tables,
};
use crate::scope;
use crate::unwind::End;

/// Nanoseconds between lists of threads, at least; a list takes a hundredth of the time at most.
const LIST: u64 = 100_000_000;
/// What a thread takes of a processor between the end of its handler and where it waits again, at most.
const WAY_BACK: u64 = 50_000;
/// After this long without an answer it is time to ask why.
const OVERDUE: u64 = 500_000_000;
/// How long a thread that blocks the signal is left alone before it is asked again: this at first, since
/// every thread blocks all signals while it is being started, and twice as long each time.
const LEFT_ALONE: u64 = 1_000_000;
/// And this at most.
const LONGEST_LEFT_ALONE: u64 = 5_000_000_000;

/// How to sample. Times in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) threads_per_tick: usize,
    /// Threads looked at in a tick, asleep or not.
    pub(crate) looks_per_tick: usize,
    pub(crate) tick: u64,
    pub(crate) share: f64,
    pub(crate) depth: usize,
    pub(crate) signal: i32,
    pub(crate) recognises_sleepers: bool,
}

/// What a tick was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticked {
    /// What it cost all threads together.
    pub(crate) cost: u64,
    /// Whether nobody ran.
    pub(crate) idle: bool,
}

/// A thread and what it is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadStack {
    /// Its id.
    pub tid: Tid,
    /// Its name.
    pub name: String,
    /// The state's letter as `ps` shows it, before it was interrupted: `R` for running, `S` for waiting.
    pub state: char,
    /// Its calls, innermost first; none if it did not answer.
    pub addresses: Vec<u64>,
    /// Whether these are all.
    pub end: End,
    /// Whether it has blocked the signal, which is why there is no stack.
    pub is_blocked: bool,
}

pub(crate) struct Sampler {
    options: Options,
    ring: &'static Ring,
    tasks: Tasks,
    threads: Threads,
    tables: Tables,
    wall: Profile,
    counters: Arc<Counters>,
    /// What a signal costs besides its handler.
    signal_cost: u64,
    random: u64,
    listed: u64,
    next_list: u64,
    /// Threads with a slot.
    armed: Vec<Tid>,
    /// Threads found asleep in this tick, or known to block the signal, and their clocks.
    known: Vec<(Tid, u64, u64)>,
    /// What threads that ended still had.
    left_over: Vec<(EntryId, u64)>,
    scope_changes: u64,
    /// Labels in the tables by the number of their scope.
    scopes: Vec<Option<LabelsId>>,
    own: Option<Tid>,
    /// Of the process: when this was started, and how much of what came since is in the profile.
    process_cpu: u64,
    attributed_cpu: u64,
}

impl Sampler {
    /// Readies everything; threads that there are count from now. *Setup.*
    pub(crate) fn new(
        options: Options,
        tables: Tables,
        wall: Profile,
        counters: Arc<Counters>,
    ) -> std::io::Result<Sampler> {
        signal::install(options.signal)?;
        let mut sampler = Sampler {
            ring: Ring::of_depth(options.depth),
            tasks: Tasks::open()?,
            threads: Threads::default(),
            tables,
            wall,
            counters,
            signal_cost: signal::cost(options.signal),
            random: clock::now() | 1,
            listed: 0,
            next_list: 0,
            armed: Vec::with_capacity(super::slots::SLOTS),
            known: Vec::with_capacity(options.looks_per_tick),
            left_over: Vec::new(),
            scope_changes: 0,
            scopes: Vec::new(),
            own: None,
            process_cpu: clock::process_cpu(),
            attributed_cpu: 0,
            options,
        };
        // The tables may be older than this profiler, the modules older than the tables.
        sampler.tables.follow_modules();
        sampler.list(clock::now());
        Ok(sampler)
    }

    /// Says which thread runs the ticks: it has its own entry.
    pub(crate) fn set_own(&mut self, own: Tid) {
        self.own = Some(own);
    }

    /// One tick. *Steady* for threads, stacks and labels that were seen before.
    pub(crate) fn tick(&mut self) -> Ticked {
        let begun = clock::own_cpu();
        let now = clock::now();
        let signals = self.counters.signals.get();
        let handlers = self.counters.cost_handlers_ns.get();
        if now >= self.next_list {
            self.collect(&mut |_, _, _| {});
            self.list(now);
        }
        self.tables.follow_modules();
        self.visit(now);
        if self.options.tick == 0 {
            self.wait(Duration::from_millis(5));
        }
        self.collect(&mut |_, _, _| {});

        let counters = &self.counters;
        let signals = counters.signals.get() - signals;
        let own = clock::own_cpu() - begun;
        counters.ticks.add(1);
        counters.cost_sampler_ns.add(own);
        counters.cost_signals_ns.add(signals * self.signal_cost);
        let cost = own + signals * self.signal_cost + (counters.cost_handlers_ns.get() - handlers);
        Ticked { cost, idle: signals == 0 && self.armed.is_empty() }
    }

    /// A number that nobody foresees, for where a round begins (xorshift64, Marsaglia 2003).
    pub(crate) fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Looks which threads there are.
    fn list(&mut self, now: u64) {
        let before = self.listed;
        let boot = clock::since_boot();
        let (tasks, counters, armed, left_over) =
            (&mut self.tasks, &self.counters, &mut self.armed, &mut self.left_over);
        let ring = self.ring;
        let born = |thread: &mut Thread| {
            let cpu = clock::cpu_of(thread.tid);
            if before == 0 {
                // It was there before the profiler.
                thread.accounted = now;
                thread.cpu = cpu.unwrap_or(0);
            } else {
                let age = start_of(thread.tid).map_or(0, |start| boot.saturating_sub(start));
                thread.accounted = now.saturating_sub(age).max(before);
            }
        };
        let gone = |thread: Thread| {
            counters.ended.add(1);
            if let (Some(entry), 1..) = (thread.running.or(thread.entry), thread.held_back) {
                left_over.push((entry, thread.held_back));
            }
            if let Some(slot) = thread.armed {
                armed.retain(|&tid| tid != thread.tid);
                // Nobody is left who could be writing.
                let _ = ring.release(slot);
            }
        };
        // Threads that can't be listed are those of the last list.
        let _ = self.threads.merge(|found| tasks.list(found), born, gone);
        self.listed = now;
        let took = clock::now() - now;
        self.next_list = now + LIST.max(100 * took);
        self.scope_changes = u64::MAX;
        self.counters.threads.set(self.threads.len() as u64);
    }

    /// Tells threads where they keep their labels, if that changed.
    fn find_scopes(&mut self) {
        let changes = scope::changes();
        if changes == self.scope_changes {
            return;
        }
        self.scope_changes = changes;
        for thread in self.threads.all() {
            thread.scope = None;
        }
        scope::cells(|tid, cell| {
            if let Some(thread) = self.threads.find(tid) {
                thread.scope = Some(cell);
            }
        });
    }

    /// Goes round until enough threads were looked at, or all.
    fn visit(&mut self, now: u64) {
        self.find_scopes();
        self.known.clear();
        let mut signals = 0;
        for _ in 0..self.options.looks_per_tick {
            let random = self.random();
            let Some(index) = self.threads.turn(|| random) else { break };
            match self.look_at(index, now) {
                Look::Signalled => signals += 1,
                Look::Known => {}
                Look::NoSlot => {
                    self.counters.skipped_full.add(1);
                    break;
                }
            }
            if signals == self.options.threads_per_tick {
                break;
            }
        }
    }

    /// One thread's turn.
    fn look_at(&mut self, index: usize, now: u64) -> Look {
        let signal = self.options.signal;
        let tid = self.threads.get(index).tid;
        if self.own == Some(tid) {
            return Look::Known;
        }
        if self.threads.get(index).status.is_none() && !self.introduce(index, now) {
            return Look::Known;
        }
        let thread = self.threads.get(index);
        if thread.armed.is_some() {
            self.ask_why(index, now);
            return Look::Known;
        }
        let Some(cpu) = clock::cpu_of(tid) else {
            self.next_list = now;
            return Look::Known;
        };
        if cpu < thread.cpu {
            // Another one with the same id. Its clock began at nothing.
            (thread.cpu, thread.held_back, thread.entry, thread.running) = (0, 0, None, None);
            thread.status = None;
            return Look::Known;
        }
        if thread.is_blocked && now >= thread.left_until {
            thread.is_blocked = Status::read(tid).is_some_and(|status| status.has_blocked(signal));
            thread.leave_alone(now);
            thread.entry = thread.entry.filter(|_| thread.is_blocked);
        }
        if thread.is_blocked {
            self.counters.skipped_blocked.add(1);
            self.known.push((tid, now, cpu));
            return Look::Known;
        }
        if self.options.recognises_sleepers && is_asleep(thread, cpu) {
            self.counters.asleep.add(1);
            self.known.push((tid, now, cpu));
            return Look::Known;
        }
        self.interrupt(index, now, cpu)
    }

    /// Reads what has to be known of a thread before it gets its first signal: one that blocks signals
    /// might wait for this very one.
    fn introduce(&mut self, index: usize, now: u64) -> bool {
        let signal = self.options.signal;
        let thread = self.threads.get(index);
        let Some(status) = Status::read(thread.tid) else {
            self.next_list = now;
            return false;
        };
        thread.meet(status);
        thread.is_blocked = status.has_blocked(signal);
        thread.left_for = 0;
        thread.leave_alone(now);
        true
    }

    /// Sends a signal to a thread.
    fn interrupt(&mut self, index: usize, now: u64, cpu: u64) -> Look {
        let thread = self.threads.get(index);
        let Some(slot) = self.ring.arm(thread.scope) else { return Look::NoSlot };
        if let Err(error) = signal::send(thread.tid, self.options.signal, slot.cookie()) {
            // No signal is on its way, so nobody can be writing.
            let _ = self.ring.release(slot);
            if error.raw_os_error() == Some(libc::ESRCH) {
                self.next_list = now;
            } else {
                self.counters.skipped_unsent.add(1);
            }
            return Look::Known;
        }
        thread.armed = Some(slot);
        (thread.armed_at, thread.armed_cpu) = (now, cpu);
        self.armed.push(thread.tid);
        self.counters.signals.add(1);
        Look::Signalled
    }

    /// A thread that has a slot and does not answer: it waits for a processor, or it has blocked the
    /// signal meanwhile.
    fn ask_why(&mut self, index: usize, now: u64) {
        let signal = self.options.signal;
        let thread = self.threads.get(index);
        if now < thread.armed_at + OVERDUE {
            return;
        }
        // Not again at every turn.
        thread.armed_at = now;
        if !Status::read(thread.tid).is_some_and(|status| status.has_blocked(signal)) {
            return;
        }
        let Some(slot) = thread.armed.take() else { return };
        match self.ring.release(slot) {
            Ok(()) => {
                thread.is_blocked = true;
                thread.left_for = 0;
                thread.leave_alone(now);
                thread.entry = None;
                let tid = thread.tid;
                self.armed.retain(|&armed| armed != tid);
            }
            Err(slot) => thread.armed = Some(slot),
        }
    }

    /// Waits until all slots are done, or for so long.
    fn wait(&self, patience: Duration) {
        let until = clock::now() + patience.as_nanos() as u64;
        let mut tries = 0;
        while !self.armed.is_empty() && clock::now() < until {
            if self.ring.is_done(self.armed.len()) {
                return;
            }
            // Handlers need a processor, and there may be one only.
            tries += 1;
            if tries < 100 {
                std::thread::yield_now();
            } else {
                std::thread::park_timeout(Duration::from_micros(50));
            }
        }
    }

    /// Records what was found since, and hands each stack to `each`.
    fn collect(&mut self, each: &mut dyn FnMut(Tid, &Found, &[u64])) {
        let wall = self.wall.clone();
        let mut recording = wall.lock();
        for (entry, cpu) in self.left_over.drain(..) {
            if recording.add(entry, &[0, 0, cpu as i64]) {
                self.attributed_cpu += cpu;
            }
        }
        for (tid, now, cpu) in self.known.drain(..) {
            let Some(thread) = self.threads.find(tid) else { continue };
            self.attributed_cpu += add_known(&mut recording, thread, now, cpu);
            self.counters.samples.add(1);
        }
        let mut at = 0;
        while at < self.armed.len() {
            if self.collect_one(self.armed[at], &mut recording, each) {
                self.armed.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Records what a thread wrote; whether it has.
    fn collect_one(
        &mut self,
        tid: Tid,
        recording: &mut Recording<'_>,
        each: &mut dyn FnMut(Tid, &Found, &[u64]),
    ) -> bool {
        let Some(slot) = self.threads.find(tid).and_then(|thread| thread.armed.take()) else {
            return true;
        };
        let Outcome::Done(found, frames) = self.ring.look(&slot) else {
            if let Some(thread) = self.threads.find(tid) {
                thread.armed = Some(slot);
            }
            return false;
        };
        let scope = scope_labels(&mut self.scopes, found.scope, recording);
        if let Some(thread) = self.threads.find(tid) {
            self.attributed_cpu += record(recording, thread, &found, frames, scope);
        }
        each(tid, &found, frames);
        self.counters.samples.add(1);
        self.counters.cost_handlers_ns.add(found.cost);
        self.counters.ended_at(found.end, found.depth);
        // It is done, so the handler has nothing left to write.
        let _ = self.ring.release(slot);
        true
    }

    /// Gives every thread its time up to now. A reader calls it before it reads.
    pub(crate) fn settle(&mut self) {
        self.collect(&mut |_, _, _| {});
        // Before the threads' own clocks, so that what a thread does meanwhile isn't taken for an ended one's.
        let process = clock::process_cpu() - self.process_cpu;
        let now = clock::now();
        self.list(now);
        for index in 0..self.threads.len() {
            if self.threads.get(index).status.is_none() {
                self.introduce(index, now);
            }
        }
        let own = self.own;
        let wall = self.wall.clone();
        let mut recording = wall.lock();
        for thread in self.threads.all() {
            let Some(cpu) = clock::cpu_of(thread.tid) else { continue };
            if own == Some(thread.tid) && thread.entry.is_none() {
                let labels = thread.labels(&mut recording);
                let entry =
                    recording.record(frame(&[PROFILER]), labels, LabelsId::default(), &[0, 0, 0]);
                thread.entry = Some(entry);
            }
            self.attributed_cpu += settle_one(&mut recording, thread, now, cpu);
        }
        if let Some(missing @ 1..) = process.checked_sub(self.attributed_cpu) {
            let none = LabelsId::default();
            recording.record(frame(&[ENDED_THREADS]), none, none, &[0, 0, missing as i64]);
            self.attributed_cpu += missing;
        }
    }

    /// Interrupts every thread, and says what each is doing. *Growth.*
    pub(crate) fn threads_now(&mut self) -> Vec<ThreadStack> {
        self.collect(&mut |_, _, _| {});
        let now = clock::now();
        self.list(now);
        self.tables.follow_modules();
        self.find_scopes();
        let mut stacks = Vec::with_capacity(self.threads.len());
        for index in 0..self.threads.len() {
            let tid = self.threads.get(index).tid;
            let Some(status) = Status::read(tid) else { continue };
            stacks.push(ThreadStack {
                tid,
                name: status.name().into_owned(),
                state: char::from(status.state),
                addresses: Vec::new(),
                end: End::Lost,
                is_blocked: status.has_blocked(self.options.signal),
            });
        }
        // As many at a time as there are slots; who does not answer in time is shown without calls.
        let mut next = 0;
        let until = now + 2_000_000_000;
        while next < stacks.len() && clock::now() < until {
            while let Some(stack) = stacks.get(next) {
                let Some(index) = self.threads.position(stack.tid) else {
                    next += 1;
                    continue;
                };
                let may = !stack.is_blocked && Some(stack.tid) != self.own;
                let may = may && self.threads.get(index).armed.is_none();
                let may =
                    may && (self.threads.get(index).status.is_some() || self.introduce(index, now));
                let cpu = clock::cpu_of(stack.tid).unwrap_or(0);
                if may && matches!(self.interrupt(index, clock::now(), cpu), Look::NoSlot) {
                    break;
                }
                next += 1;
            }
            self.wait(Duration::from_millis(100));
            self.collect(&mut |tid, found, frames| {
                if let Ok(at) = stacks.binary_search_by_key(&tid, |stack| stack.tid) {
                    stacks[at].addresses = frames.to_vec();
                    stacks[at].end = found.end;
                }
            });
        }
        stacks
    }

    /// Takes the slots back from all threads, so that signals that are still on their way do nothing.
    pub(crate) fn disarm(&mut self) {
        for _ in 0..1000 {
            self.collect(&mut |_, _, _| {});
            for thread in self.threads.all() {
                if let Some(slot) = thread.armed.take() {
                    thread.armed = self.ring.release(slot).err();
                }
            }
            let threads = &mut self.threads;
            self.armed.retain(|&tid| threads.find(tid).is_some_and(|t| t.armed.is_some()));
            if self.armed.is_empty() {
                return;
            }
            // A handler is writing: it has lost its processor in the middle.
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
}

impl Thread {
    /// Does not ask it for its mask again for a while.
    fn leave_alone(&mut self, now: u64) {
        self.left_for = (2 * self.left_for).clamp(LEFT_ALONE, LONGEST_LEFT_ALONE);
        self.left_until = now + self.left_for;
    }
}

/// What became of a thread's turn.
enum Look {
    Signalled,
    /// Nothing needs to be asked, or nobody to be asked.
    Known,
    NoSlot,
}

/// Whether `thread`, whose clock is at `cpu`, has been waiting ever since it was seen.
fn is_asleep(thread: &mut Thread, cpu: u64) -> bool {
    if thread.entry.is_none() {
        return false;
    }
    if thread.asleep {
        thread.asleep = cpu == thread.seen;
        return thread.asleep;
    }
    // It left its handler and did next to nothing since. If it waits where it was interrupted, that was
    // the way back.
    thread.asleep = cpu - thread.seen.min(cpu) <= WAY_BACK
        && Waiting::read(thread.tid).is_some_and(|at| at.is_at(thread.sp, thread.pc))
        && clock::cpu_of(thread.tid) == Some(cpu);
    if thread.asleep {
        thread.seen = cpu;
    }
    thread.asleep
}

/// Gives a thread that was not interrupted its time. Returns the processor time that is accounted for.
fn add_known(recording: &mut Recording<'_>, thread: &mut Thread, now: u64, cpu: u64) -> u64 {
    let wall = now.saturating_sub(thread.accounted);
    let used = cpu.saturating_sub(thread.cpu);
    thread.accounted = thread.accounted.max(now);
    thread.cpu = thread.cpu.max(cpu);
    if thread.is_blocked {
        let labels = thread.labels(recording);
        let values = [1, wall as i64, used as i64];
        if !thread.entry.is_some_and(|entry| recording.add(entry, &values)) {
            let stack = frame(&[SIGNALS_BLOCKED]);
            thread.entry = Some(recording.record(stack, labels, LabelsId::default(), &values));
        }
        return used;
    }
    // Asleep: it ran only on its way back.
    thread.held_back += used;
    if !thread.entry.is_some_and(|entry| recording.add(entry, &[1, wall as i64, 0])) {
        // Dropped from the tables: look again, with this time still to be given.
        thread.entry = None;
        thread.accounted -= wall;
    }
    0
}

/// Records a stack. Returns the processor time that is accounted for.
fn record(
    recording: &mut Recording<'_>,
    thread: &mut Thread,
    found: &Found,
    frames: &[u64],
    scope: LabelsId,
) -> u64 {
    let wall = found.time.saturating_sub(thread.accounted);
    let used = found.cpu.saturating_sub(thread.cpu);
    let waited = found.in_call && used < wall / 2;
    let cpu = if waited { 0 } else { used + thread.held_back };
    thread.held_back = if waited { thread.held_back + used } else { 0 };
    thread.accounted = thread.accounted.max(found.time);
    thread.cpu = thread.cpu.max(found.cpu);
    thread.seen = found.cpu;
    thread.asleep = false;
    (thread.pc, thread.sp) = (found.pc, found.sp);
    let stack = Stack { addresses: frames, end: found.end };
    let labels = thread.labels(recording);
    let entry = recording.record(stack, labels, scope, &[1, wall as i64, cpu as i64]);
    thread.entry = Some(entry);
    if !waited {
        thread.running = Some(entry);
    }
    cpu
}

/// Gives a thread its time up to now, at what it was seen doing last.
fn settle_one(recording: &mut Recording<'_>, thread: &mut Thread, now: u64, cpu: u64) -> u64 {
    let wall = now.saturating_sub(thread.accounted) as i64;
    let used = cpu.saturating_sub(thread.cpu) + thread.held_back;
    thread.accounted = thread.accounted.max(now);
    thread.cpu = thread.cpu.max(cpu);
    thread.held_back = 0;
    let entry = thread.entry.filter(|&entry| recording.add(entry, &[0, wall, 0]));
    let entry = entry.unwrap_or_else(|| {
        thread.entry = None;
        let labels = thread.labels(recording);
        recording.record(frame(&[NOT_SAMPLED_YET]), labels, LabelsId::default(), &[0, wall, 0])
    });
    let ran = thread.running.filter(|&ran| recording.add(ran, &[0, 0, used as i64]));
    if ran.is_none() {
        thread.running = None;
        // The entry was added to just now, so it is there.
        let _ = recording.add(entry, &[0, 0, used as i64]);
    }
    used
}

/// The labels of a scope as the tables have them.
pub(crate) fn scope_labels(
    scopes: &mut Vec<Option<LabelsId>>,
    scope: u32,
    recording: &mut Recording<'_>,
) -> LabelsId {
    if scope == 0 {
        return LabelsId::default();
    }
    let index = scope as usize;
    if scopes.len() <= index {
        scopes.resize(index + 1, None);
    }
    match scopes[index].filter(|&labels| recording.has_labels(labels)) {
        Some(labels) => labels,
        None => *scopes[index].insert(scope::labels(scope, recording)),
    }
}

/// A stack of one frame that says what there is instead.
fn frame(address: &'static [u64; 1]) -> Stack<'static> {
    Stack { addresses: address, end: End::Root }
}
