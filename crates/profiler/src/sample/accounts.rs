//! Who gets which time: what a sample, a sleep and an end add to a thread's entries.
//!
//! Each takes the time since the thread was accounted for last, by its clock on the wall and by its
//! processor's, so that totals are true however often a thread has its turn. Processor time of a thread
//! that is found waiting is held back until it is found running, since waiting is not where it went.

use super::clock;
use super::slots::Found;
use super::tasks::Waiting;
use super::threads::Thread;
use crate::profile::{ENDED_THREADS, LabelsId, NOT_SAMPLED_YET, Recording, SIGNALS_BLOCKED, Stack};
use crate::scope;
use crate::unwind::End;

/// What a thread takes of a processor between the end of its handler and where it waits again, at most.
const WAY_BACK: u64 = 50_000;

/// Whether `thread`, whose clock is at `cpu`, has been waiting ever since it was seen.
pub(super) fn is_asleep(thread: &mut Thread, cpu: u64) -> bool {
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
pub(super) fn add_known(
    recording: &mut Recording<'_>,
    thread: &mut Thread,
    now: u64,
    cpu: u64,
) -> u64 {
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
pub(super) fn record(
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
pub(super) fn settle_one(
    recording: &mut Recording<'_>,
    thread: &mut Thread,
    now: u64,
    cpu: u64,
) -> u64 {
    let wall = now.saturating_sub(thread.accounted) as i64;
    let used = cpu.saturating_sub(thread.cpu) + thread.held_back;
    thread.accounted = thread.accounted.max(now);
    thread.cpu = thread.cpu.max(cpu);
    thread.held_back = 0;
    let entry = thread.entry.filter(|&entry| recording.add(entry, &[0, wall, 0]));
    let entry = entry.unwrap_or_else(|| {
        thread.entry = None;
        // One that ended before anybody asked for its name shares an entry with all such.
        let (stack, labels) = match thread.status {
            Some(_) => (frame(&[NOT_SAMPLED_YET]), thread.labels(recording)),
            None => (frame(&[ENDED_THREADS]), LabelsId::default()),
        };
        recording.record(stack, labels, LabelsId::default(), &[0, wall, 0])
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
        None => scope::labels(scope, recording)
            .map_or_else(LabelsId::default, |labels| *scopes[index].insert(labels)),
    }
}

/// A stack of one frame that says what there is instead.
pub(super) fn frame(address: &'static [u64; 1]) -> Stack<'static> {
    Stack { addresses: address, end: End::Root }
}
