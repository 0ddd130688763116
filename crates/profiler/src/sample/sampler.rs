//! A tick.
//!
//! 1. Look which threads there are, where their number says that some came or went, and whether modules
//!    were loaded.
//! 2. Go round: a thread that waits where it was seen waiting is asleep, and its time goes to the stack that
//!    is known; another gets a signal, up to so many a tick.
//! 3. Record what handlers have written since. A thread that waits for a processor answers when it gets
//!    one, ticks later; its slot waits with it.

use std::sync::Arc;
use std::time::Duration;

use super::accounts::{
    Given, StageLabels, add_known, frame, is_asleep, record, settle_one, state_of,
};
use super::clock;
use super::counters::Counters;
use super::signal;
use super::slots::{Armed, Outcome, Ring};
use super::tasks::{Status, Tasks, Tid, start_of};
use super::threads::{Thread, Threads};
use super::wake::be_punctual;
use crate::heap::StageCell;
use crate::profile::{ENDED_THREADS, LabelsId, PROFILER, Profile, Recording, Tables};
use crate::unwind::End;
use crate::{heap, scope};

/// Nanoseconds between lists of threads, at least; a list takes a hundredth of the time at most.
const LIST: u64 = 100_000_000;
/// The age at which a list is made anew though nothing says that threads came or went.
const OLD: u64 = 5_000_000_000;
/// What is lost to caches that have to be filled again, as a part of what is measured. Busy threads at 500
/// calls lost 3.1% of a processor where 2.0% were measured (`make bench-overhead`, November 2026); a
/// budget that leaves that out is exceeded.
const DISPLACED: (u64, u64) = (3, 4);
/// A thread's clock, read on another processor, may be behind what it showed before; not by so much.
const BACKWARDS: u64 = 10_000_000;
/// Threads that are given their time with the tables locked once: some ten microseconds.
const AT_A_TIME: usize = 64;
/// After this long without an answer it is time to ask why.
const OVERDUE: u64 = 500_000_000;
/// How long a thread that blocks the signal is left alone before it is asked again: this at first, since
/// every thread blocks all signals while it is being started, and twice as long each time.
const LEFT_ALONE: u64 = 1_000_000;
/// How long one that blocks it is asked again and again by those who want to know what all threads do.
const STARTING: u64 = 50_000_000;
/// The longest that it is left alone.
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
    /// What all threads had of a processor since the tick before, without what sampling took of it.
    pub(crate) ran: u64,
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
    sender: signal::Sender,
    /// What a signal costs besides its handler.
    signal_cost: u64,
    random: u64,
    listed: u64,
    /// Before this there is no other list, unless somebody in it is gone.
    next_list: u64,
    /// Whether somebody in the list is known to be gone.
    has_gone: bool,
    /// How many threads the kernel counted just before the list, if it had as many in the list.
    counted: Option<usize>,
    /// Threads with a slot.
    armed: Vec<Tid>,
    /// Threads found asleep in this tick, or known to block the signal, and their clocks.
    known: Vec<(Tid, u64, u64)>,
    /// Threads that ended, with time that is still to be given, and until when that is.
    ended: Vec<(Thread, u64)>,
    /// Slots of threads that ended while their handler was writing, as it seems.
    orphans: Vec<Armed>,
    scope_changes: u64,
    stage_changes: u64,
    labels: StageLabels,
    own: Option<Tid>,
    /// What the sampler's thread had of a processor when its last tick was over.
    own_cpu: u64,
    /// Of the process: when this was started, and how much of what came since is in the profile.
    process_cpu: u64,
    attributed: Attributed,
    /// What others than the sampler's thread had at the last tick, and what signals and handlers took.
    others_cpu: u64,
    others_cost: u64,
    /// What all threads are doing, while somebody asks; by thread.
    asked: Vec<ThreadStack>,
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
            attributed: Attributed { cpu: 0, counters: counters.clone() },
            counters,
            sender: signal::Sender::own(),
            signal_cost: signal::cost(options.signal)?,
            random: clock::now() | 1,
            listed: 0,
            next_list: 0,
            has_gone: false,
            counted: None,
            armed: Vec::with_capacity(super::slots::SLOTS),
            known: Vec::with_capacity(options.looks_per_tick),
            ended: Vec::new(),
            orphans: Vec::new(),
            scope_changes: 0,
            stage_changes: u64::MAX,
            labels: StageLabels::default(),
            own: None,
            own_cpu: 0,
            process_cpu: 0,
            others_cpu: 0,
            others_cost: 0,
            asked: Vec::new(),
            options,
        };
        // The tables may be older than this profiler, the modules older than the tables.
        sampler.tables.follow_modules();
        // Before the threads' own, so that what they do meanwhile isn't taken for an ended one's.
        sampler.process_cpu = clock::process_cpu();
        // Nobody looked before.
        sampler.counters.stages.add(0, sampler.process_cpu);
        sampler.list(clock::now());
        Ok(sampler)
    }

    /// Says that the calling thread runs the ticks: it has its own entry.
    pub(crate) fn set_own(&mut self) {
        be_punctual();
        self.own = Some(Tid::own());
        self.own_cpu = clock::own_cpu();
    }

    /// One tick. *Steady* for threads, stacks and labels that were seen before.
    pub(crate) fn tick(&mut self) -> Ticked {
        let now = clock::now();
        let signals = self.counters.signals.get();
        let handlers = self.counters.cost_handlers_ns.get();
        if self.is_list_due(now) {
            self.collect();
            self.list(now);
        }
        self.tables.follow_modules();
        self.visit(now);
        if self.options.tick == 0 {
            self.wait(Duration::from_millis(5));
        }
        self.collect();
        if self.has_gone && now >= self.next_list {
            // Who came in its place would otherwise be seen at the next tick only.
            self.list(now);
        }

        let counters = &self.counters;
        let signals = counters.signals.get() - signals;
        // Since the end of the last one: to fall asleep and to wake up is part of what it costs.
        let own_cpu = clock::own_cpu();
        let own = own_cpu.saturating_sub(std::mem::replace(&mut self.own_cpu, own_cpu));
        counters.ticks.add(1);
        counters.cost_sampler_ns.add(own);
        counters.cost_signals_ns.add(signals * self.signal_cost);
        let measured =
            own + signals * self.signal_cost + (counters.cost_handlers_ns.get() - handlers);
        let displaced = measured * DISPLACED.0 / DISPLACED.1;
        counters.cost_displaced_ns.add(displaced);
        let cost = measured + displaced;
        Ticked { cost, ran: self.others_ran(own_cpu) }
    }

    /// What the program's threads had of a processor since this was called last. A thread that is running
    /// on another processor counts up to when the kernel last looked at it, some milliseconds ago.
    fn others_ran(&mut self, own_cpu: u64) -> u64 {
        let cpu = clock::process_cpu().saturating_sub(own_cpu);
        let cost = self.counters.cost_handlers_ns.get() + self.counters.cost_signals_ns.get();
        let ran = cpu.saturating_sub(std::mem::replace(&mut self.others_cpu, cpu));
        ran.saturating_sub(cost - std::mem::replace(&mut self.others_cost, cost))
    }

    /// A new list before long: somebody is gone.
    fn list_soon(&mut self) {
        const SOON: u64 = 10_000_000;
        self.next_list = self.next_list.min(self.listed + SOON);
        self.has_gone = true;
    }

    /// Whether there are other threads than in the list, as far as can be told without a new one: one is
    /// gone, or their number is another. Where one came for one that went, either the latter is found gone
    /// at its turn, or the list gets old.
    fn is_list_due(&self, now: u64) -> bool {
        now >= self.next_list
            && (self.has_gone
                || now >= self.listed + OLD
                || self.counted.is_none()
                || self.counted != self.tasks.count())
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
        let counted = self.tasks.count();
        let (mut listed, mut has_born) = (0, false);
        let Sampler { tasks, counters, armed, ended, orphans, ring, .. } = self;
        let born = |thread: &mut Thread| {
            has_born = true;
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
        let gone = |mut thread: Thread| {
            counters.ended.add(1);
            if let Some(slot) = thread.armed.take() {
                armed.retain(|&tid| tid != thread.tid);
                orphans.extend(ring.release(slot).err());
            }
            // It was there when it had its turn, and ended since: in the middle, on average.
            let seen = before.max(thread.accounted).min(now);
            ended.push((thread, seen + (now - seen) / 2));
        };
        let is_alive = |tid| clock::cpu_of(tid).is_some();
        // Threads that can't be listed are those of the last list.
        let list = |found: &mut dyn FnMut(Tid)| {
            tasks.list(|tid| {
                listed += 1;
                found(tid);
            })
        };
        let result = self.threads.merge(list, is_alive, born, gone);
        // Not where the kernel does not count, left somebody out, or somebody came in between.
        let is_true = |counted: &usize| result.is_ok() && *counted == listed;
        self.counted = counted.filter(is_true);
        self.has_gone = false;
        self.listed = now;
        let took = clock::now() - now;
        self.next_list = now + LIST.max(100 * took);
        if has_born {
            // They may have had their cells before they were seen.
            (self.scope_changes, self.stage_changes) = (u64::MAX, u64::MAX);
        }
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

    /// Tells threads where their stages are, if that changed.
    fn find_stages(&mut self) {
        let changes = heap::stage_changes();
        if changes == self.stage_changes {
            return;
        }
        self.stage_changes = changes;
        for thread in self.threads.all() {
            thread.stage = None;
        }
        heap::stage_cells(|tid, cell| {
            if let Some(thread) = self.threads.find(tid) {
                thread.stage = Some(cell);
            }
        });
    }

    /// Goes round until enough threads were looked at, or all.
    fn visit(&mut self, now: u64) {
        self.find_scopes();
        self.find_stages();
        self.known.clear();
        let mut signals = 0;
        for _ in 0..self.options.looks_per_tick {
            let random = self.random();
            let Some(index) = self.threads.turn(|| random) else { break };
            match self.look_at(index, now, random) {
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
    fn look_at(&mut self, index: usize, now: u64, random: u64) -> Look {
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
            self.list_soon();
            return Look::Known;
        };
        if now >= thread.named_until {
            thread.ask_name(now);
        }
        if cpu + BACKWARDS < thread.cpu {
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
        if self.options.recognises_sleepers && is_asleep(&self.tasks, thread, now, cpu, random) {
            self.counters.asleep.add(1);
            self.known.push((tid, now, cpu));
            return Look::Known;
        }
        self.interrupt(index, cpu)
    }

    /// Reads what has to be known of a thread before it gets its first signal: one that blocks signals
    /// might wait for this very one.
    fn introduce(&mut self, index: usize, now: u64) -> bool {
        let signal = self.options.signal;
        let thread = self.threads.get(index);
        let Some(status) = Status::read(thread.tid) else {
            self.list_soon();
            return false;
        };
        thread.meet(status, now);
        // One that has ended answers as little.
        thread.is_blocked = status.has_blocked(signal) || status.has_ended();
        thread.left_for = 0;
        thread.leave_alone(now);
        true
    }

    /// Sends a signal to a thread.
    fn interrupt(&mut self, index: usize, cpu: u64) -> Look {
        let thread = self.threads.get(index);
        let Some(slot) = self.ring.arm(thread.scope, thread.stage) else { return Look::NoSlot };
        let sent = clock::now();
        let state = state_of(&self.tasks, thread.tid, cpu);
        if let Err(error) = self.sender.send(thread.tid, self.options.signal, slot.cookie()) {
            // No signal is on its way, so nobody can be writing.
            let _ = self.ring.release(slot);
            if error.raw_os_error() == Some(libc::ESRCH) {
                self.list_soon();
            } else {
                self.counters.skipped_unsent.add(1);
            }
            return Look::Known;
        }
        thread.armed = Some(slot);
        thread.overdue_at = sent + OVERDUE;
        (thread.armed_at, thread.armed_cpu, thread.armed_state) = (sent, cpu, state);
        self.armed.push(thread.tid);
        self.counters.signals.add(1);
        Look::Signalled
    }

    /// A thread that has a slot and does not answer: it waits for a processor, or it has blocked the
    /// signal meanwhile, or the signal never came: the program let it be ignored for a moment, another
    /// handler took it, or it became one with an earlier one that was still on its way.
    fn ask_why(&mut self, index: usize, now: u64) {
        let signal = self.options.signal;
        let thread = self.threads.get(index);
        if now < thread.overdue_at {
            return;
        }
        // Not again at every turn.
        thread.overdue_at = now + OVERDUE;
        let Some(status) = Status::read(thread.tid) else {
            self.list_soon();
            return;
        };
        let is_blocked = status.has_blocked(signal) || status.has_ended();
        if status.awaits(signal) && !is_blocked {
            return;
        }
        let Some(slot) = thread.armed.take() else { return };
        match self.ring.release(slot) {
            Ok(()) => {
                if is_blocked {
                    thread.is_blocked = true;
                    thread.left_for = 0;
                    thread.leave_alone(now);
                    thread.entry = None;
                } else {
                    self.counters.skipped_swallowed.add(1);
                }
                let tid = thread.tid;
                self.armed.retain(|&armed| armed != tid);
            }
            // It has begun to answer just now.
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

    /// Records what was found since.
    fn collect(&mut self) {
        let ring = self.ring;
        let orphans = std::mem::take(&mut self.orphans);
        self.orphans.extend(orphans.into_iter().filter_map(|slot| ring.release(slot).err()));
        let wall = self.wall.clone();
        let mut recording = wall.lock();
        self.give_ended(&mut recording);
        for (tid, now, cpu) in self.known.drain(..) {
            let Some(thread) = self.threads.find(tid) else { continue };
            self.attributed.add(add_known(&mut recording, thread, now, cpu));
            self.counters.samples.add(1);
        }
        let mut at = 0;
        while at < self.armed.len() {
            if self.collect_one(self.armed[at], &mut recording) {
                self.armed.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Gives threads that ended what they still had. What they had of a processor since their last turn is
    /// not known; see [`settle`](Self::settle).
    fn give_ended(&mut self, recording: &mut Recording<'_>) {
        for (mut thread, until) in self.ended.drain(..) {
            let cpu = thread.cpu;
            self.attributed.add(settle_one(recording, &mut thread, until, cpu));
        }
    }

    /// Records what a thread wrote; whether it has.
    fn collect_one(&mut self, tid: Tid, recording: &mut Recording<'_>) -> bool {
        let Some(slot) = self.threads.find(tid).and_then(|thread| thread.armed.take()) else {
            return true;
        };
        let Outcome::Done(found, frames) = self.ring.look(&slot) else {
            if let Some(thread) = self.threads.find(tid) {
                thread.armed = Some(slot);
            }
            return false;
        };
        let labels = self.labels.of(found.stage, found.scope, recording);
        if let Some(thread) = self.threads.find(tid) {
            self.attributed.add(record(recording, thread, &found, frames, labels));
        }
        if let Ok(at) = self.asked.binary_search_by_key(&tid, |stack| stack.tid) {
            self.asked[at].addresses = frames.to_vec();
            self.asked[at].end = found.end;
        }
        self.counters.samples.add(1);
        self.counters.cost_handlers_ns.add(found.cost);
        self.counters.ended_at(found.end, found.depth);
        // It is done, so the handler has nothing left to write.
        let _ = self.ring.release(slot);
        true
    }

    /// Gives every thread its time up to now. A reader calls it before it reads.
    pub(crate) fn settle(&mut self) {
        self.collect();
        // Before the threads' own clocks, so that what a thread does meanwhile isn't taken for an ended one's.
        let process = clock::process_cpu().saturating_sub(self.process_cpu);
        self.list(clock::now());
        self.find_stages();
        let now = clock::now();
        for index in 0..self.threads.len() {
            if self.threads.get(index).status.is_none() {
                self.introduce(index, now);
            }
        }
        let wall = self.wall.clone();
        let own = self.own;
        for threads in self.threads.all().chunks_mut(AT_A_TIME) {
            // Clocks are asked without the lock: each takes a system call.
            let mut clocks = [(0, None); AT_A_TIME];
            for (clock, thread) in clocks.iter_mut().zip(&*threads) {
                *clock = (clock::now(), clock::cpu_of(thread.tid));
            }
            let mut recording = wall.lock();
            for (thread, (now, cpu)) in threads.iter_mut().zip(clocks) {
                let Some(cpu) = cpu else { continue };
                if own == Some(thread.tid) && thread.entry.is_none() {
                    let labels = thread.labels(&mut recording);
                    let stage = thread.stage.map_or(0, StageCell::current);
                    let own = self.labels.of(stage, 0, &mut recording);
                    let stack = frame(&[PROFILER]);
                    thread.entry = Some(recording.record(stack, labels, own, &[0, 0, 0]));
                    thread.entry_stage = stage;
                }
                self.attributed.add(settle_one(&mut recording, thread, now, cpu));
            }
        }
        let mut recording = wall.lock();
        self.give_ended(&mut recording);
        if let Some(missing @ 1..) = process.checked_sub(self.attributed.cpu) {
            let none = LabelsId::default();
            recording.record(frame(&[ENDED_THREADS]), none, none, &[0, 0, missing as i64]);
            self.attributed.add(Given { cpu: missing, stage: 0 });
        }
    }

    /// Begins to ask every thread what it is doing. *Growth.*
    pub(crate) fn ask(&mut self) {
        self.collect();
        self.list(clock::now());
        self.tables.follow_modules();
        self.find_scopes();
        self.find_stages();
        self.asked.clear();
        for index in 0..self.threads.len() {
            let tid = self.threads.get(index).tid;
            let Some(status) = Status::read(tid) else { continue };
            self.asked.push(ThreadStack {
                tid,
                name: status.name().into_owned(),
                state: char::from(status.state),
                addresses: Vec::new(),
                end: End::Lost,
                is_blocked: status.has_blocked(self.options.signal) || status.has_ended(),
            });
        }
    }

    /// Goes on asking, for some milliseconds; whether all have answered who may. Between two calls the
    /// sampler is free for others, and its ticks collect answers, too.
    pub(crate) fn ask_on(&mut self) -> bool {
        let mut is_done = true;
        for at in 0..self.asked.len() {
            let stack = &mut self.asked[at];
            let now = clock::now();
            if stack.is_blocked && now < self.listed + STARTING {
                // It may be one that is being started, which soon blocks nothing any more.
                let status = Status::read(stack.tid);
                stack.is_blocked = status.is_some_and(|s| s.has_blocked(self.options.signal));
                is_done = false;
            }
            let has_answered = !stack.addresses.is_empty();
            if has_answered || stack.is_blocked || Some(stack.tid) == self.own {
                continue;
            }
            let Some(index) = self.threads.position(stack.tid) else { continue };
            is_done = false;
            if self.threads.get(index).armed.is_some()
                || (self.threads.get(index).status.is_none() && !self.introduce(index, now))
            {
                continue;
            }
            let cpu = clock::cpu_of(self.threads.get(index).tid).unwrap_or(0);
            if matches!(self.interrupt(index, cpu), Look::NoSlot) {
                break;
            }
        }
        self.wait(Duration::from_millis(2));
        self.collect();
        is_done
    }

    /// What was answered until now.
    pub(crate) fn take_asked(&mut self) -> Vec<ThreadStack> {
        std::mem::take(&mut self.asked)
    }

    /// Takes the slots back from all threads, so that signals that are still on their way do nothing.
    pub(crate) fn disarm(&mut self) {
        for _ in 0..1000 {
            self.collect();
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

/// Processor time that is in the profile.
struct Attributed {
    cpu: u64,
    counters: Arc<Counters>,
}

impl Attributed {
    fn add(&mut self, given: Given) {
        self.cpu += given.cpu;
        self.counters.stages.add(given.stage, given.cpu);
    }
}

/// What became of a thread's turn.
enum Look {
    Signalled,
    /// Nothing needs to be asked, or nobody to be asked.
    Known,
    NoSlot,
}
