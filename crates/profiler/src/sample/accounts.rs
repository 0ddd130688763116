//! Who gets which time: what a sample, a sleep and an end add to a thread's entries.
//!
//! Each takes the time since the thread was accounted for last, by its clock on the wall and by its
//! processor's, so that totals are true however often a thread has its turn. Processor time of a thread
//! that is found waiting is held back until it is found running, since waiting is not where it went.
//!
//! Each stage gets what its entries get, so that the sum over a profile's samples with a stage is what is
//! counted for it.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::clock;
use super::slots::{Found, Place};
use super::tasks::{Tasks, Tid, Waiting, is_same_call};
use super::threads::{Sleep, State, Thread};
use crate::heap::StageCell;
use crate::profile::{ENDED_THREADS, LabelsId, NOT_SAMPLED_YET, Recording, SIGNALS_BLOCKED, Stack};
use crate::scope::Cell;
use crate::unwind::End;
use crate::{heap, scope};

/// What a thread takes of a processor between the end of its handler and where it waits again, at most.
const WAY_BACK: u64 = 50_000;

/// How long the sampler takes a thread's processor away, at most: several ticks' work.
const TAKEN_AWAY: u64 = 200_000;

/// One in so many looks at a thread whose sleep is assumed interrupts it. Other calls may lead to the same
/// place to wait at. It is chance that picks the looks, all of them with the same odds, so that the calls
/// that are found are the ones that most time is spent in, and get as much of it.
const ASKED_ANYWAY: u64 = 4;

/// Processor time that is accounted for, and the stage that it went to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Given {
    pub(super) cpu: u64,
    pub(super) stage: u8,
}

/// Whether `thread`, whose clock is at `cpu`, waits where it was seen, so that its stack is known.
///
/// 1. Its clock stood still since it was found asleep: it is.
/// 2. It did next to nothing since its handler, and waits where it was interrupted: that was the way back.
/// 3. It ran, for less than half of the time, and waits where it was seen, in the same stage and scope: that
///    is assumed to be the same stack, and asked by chance only. A signal would wake it, mostly to learn
///    what is known, which costs several times what it costs to look. What it had of a processor is held
///    back as it would be then. So most looks at the threads of a server that has little to do.
pub(super) fn is_asleep(
    tasks: &Tasks,
    thread: &mut Thread,
    now: u64,
    cpu: u64,
    random: u64,
) -> bool {
    if thread.entry.is_none() {
        return false;
    }
    let before = std::mem::replace(&mut thread.sleep, Sleep::No);
    let stands_still = before != Sleep::No && cpu == thread.seen;
    let is_way_back = before == Sleep::No && cpu.saturating_sub(thread.seen) <= WAY_BACK;
    thread.sleep = if stands_still && before == Sleep::Known {
        Sleep::Known
    } else if is_way_back {
        if is_still_there(tasks, thread, cpu) { Sleep::Known } else { Sleep::No }
    } else if random.is_multiple_of(ASKED_ANYWAY) {
        Sleep::No
    } else if stands_still || (has_rested(thread, now, cpu) && is_still_there(tasks, thread, cpu)) {
        Sleep::Assumed
    } else {
        Sleep::No
    };
    let is_asleep = thread.sleep != Sleep::No;
    if is_asleep {
        thread.seen = cpu;
    }
    is_asleep
}

/// Whether it had its processor for less than half of the time that is to be given.
fn has_rested(thread: &Thread, now: u64, cpu: u64) -> bool {
    cpu.saturating_sub(thread.cpu) < now.saturating_sub(thread.accounted) / 2
}

/// Whether it waits where it was seen, and did not run while that was found out.
fn is_still_there(tasks: &Tasks, thread: &Thread, cpu: u64) -> bool {
    Waiting::read(tasks, thread.tid).is_some_and(|at| at.is_at(thread.sp, thread.pc))
        && thread.stage.map_or(0, StageCell::current) == thread.entry_stage
        && thread.scope.map_or(0, Cell::current) == thread.entry_scope
        && clock::cpu_of(thread.tid) == Some(cpu)
}

/// What a thread is about whose clock was at `cpu` a moment ago.
pub(super) fn state_of(tasks: &Tasks, tid: Tid, cpu: u64) -> State {
    if clock::cpu_of(tid) != Some(cpu) {
        State::Working
    } else if Waiting::read(tasks, tid).is_some() {
        State::Waiting
    } else {
        State::Ready
    }
}

/// Gives a thread that was not interrupted its time. Returns the processor time that is accounted for.
pub(super) fn add_known(
    recording: &mut Recording<'_>,
    thread: &mut Thread,
    now: u64,
    cpu: u64,
) -> Given {
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
            thread.entry_stage = 0;
        }
        return Given { cpu: used, stage: thread.entry_stage };
    }
    // Asleep: it ran on its way back, or somewhere between two waits.
    thread.held_back += used;
    if !thread.entry.is_some_and(|entry| recording.add(entry, &[1, wall as i64, 0])) {
        // Dropped from the tables: look again, with this time still to be given.
        thread.entry = None;
        thread.accounted -= wall;
    }
    Given::default()
}

/// Records a stack. Returns the processor time that is accounted for.
pub(super) fn record(
    recording: &mut Recording<'_>,
    thread: &mut Thread,
    found: &Found,
    frames: &[u64],
    labels: LabelsId,
) -> Given {
    let wall = found.time.saturating_sub(thread.accounted);
    let used = found.cpu.saturating_sub(thread.cpu);
    let is_usual_wait = is_same_call(found.pc, thread.waited_at);
    let passed = found.time.saturating_sub(thread.armed_at);
    let ran = found.cpu.saturating_sub(thread.armed_cpu);
    let waited = was_waiting(found.place, thread.armed_state, is_usual_wait, passed, ran);
    let cpu = if waited { 0 } else { used + thread.held_back };
    thread.held_back = if waited { thread.held_back + used } else { 0 };
    thread.accounted = thread.accounted.max(found.time);
    thread.cpu = thread.cpu.max(found.cpu);
    thread.seen = found.cpu;
    thread.sleep = Sleep::No;
    (thread.pc, thread.sp) = (found.pc, found.sp);
    if found.place == Place::Wait {
        thread.waited_at = found.pc;
    }
    let stack = Stack { addresses: frames, end: found.end };
    let thread_labels = thread.labels(recording);
    let entry = recording.record(stack, thread_labels, labels, &[1, wall as i64, cpu as i64]);
    (thread.entry, thread.entry_stage) = (Some(entry), found.stage);
    thread.entry_scope = found.scope;
    if !waited {
        (thread.running, thread.running_stage) = (Some(entry), found.stage);
    }
    Given { cpu, stage: found.stage }
}

/// Whether a thread was waiting when its signal was sent, as far as can be told from what it was about then
/// and where the signal found it. `is_usual_wait`: it has waited in this call before. A call may have come to
/// its end
/// - because the thread was at work all the time;
/// - because it waited for a disk, or had lost its processor in the middle: to the sampler, as a rule;
/// - because it had just been woken. So it is taken if it is the call that the thread waited in before: some
///   of its work in there is given to what it does elsewhere.
///
/// Until the signal came, `passed` went by, of which the thread had a processor for `ran`.
fn was_waiting(place: Place, state: State, is_usual_wait: bool, passed: u64, ran: u64) -> bool {
    match (place, state) {
        (Place::Wait, _) | (_, State::Waiting) => true,
        (Place::Program, _) => false,
        (Place::Call, State::Ready) if is_usual_wait => true,
        (Place::Call, _) => passed > TAKEN_AWAY && ran < passed / 2,
    }
}

/// Gives a thread its time up to now, at what it was seen doing last.
pub(super) fn settle_one(
    recording: &mut Recording<'_>,
    thread: &mut Thread,
    now: u64,
    cpu: u64,
) -> Given {
    let wall = now.saturating_sub(thread.accounted) as i64;
    let used = cpu.saturating_sub(thread.cpu) + thread.held_back;
    thread.accounted = thread.accounted.max(now);
    thread.cpu = thread.cpu.max(cpu);
    thread.held_back = 0;
    let entry = thread.entry.filter(|&entry| recording.add(entry, &[0, wall, 0]));
    let entry = entry.unwrap_or_else(|| {
        (thread.entry, thread.entry_stage) = (None, 0);
        // One that ended before anybody asked for its name shares an entry with all such.
        let (stack, labels) = match thread.status {
            Some(_) => (frame(&[NOT_SAMPLED_YET]), thread.labels(recording)),
            None => (frame(&[ENDED_THREADS]), LabelsId::default()),
        };
        recording.record(stack, labels, LabelsId::default(), &[0, wall, 0])
    });
    let ran = thread.running.filter(|&ran| recording.add(ran, &[0, 0, used as i64]));
    if ran.is_some() {
        return Given { cpu: used, stage: thread.running_stage };
    }
    thread.running = None;
    // The entry was added to just now, so it is there.
    let _ = recording.add(entry, &[0, 0, used as i64]);
    Given { cpu: used, stage: thread.entry_stage }
}

/// The sets of a stage and a scope's labels that samples had, as the tables have them.
#[derive(Debug, Default)]
pub(super) struct StageLabels(HashMap<(u8, u32), LabelsId, RandomState>);

impl StageLabels {
    /// Those of a sample: its stage, then its scope's. *Steady* for those that were asked for before.
    pub(super) fn of(&mut self, stage: u8, scope: u32, recording: &mut Recording<'_>) -> LabelsId {
        if (stage, scope) == (0, 0) {
            return LabelsId::default();
        }
        let known = self.0.get(&(stage, scope)).copied();
        if let Some(labels) = known.filter(|&labels| recording.has_labels(labels)) {
            return labels;
        }
        let labels = scope::labels(scope, heap::stage_name(stage), recording).unwrap_or_default();
        self.0.insert((stage, scope), labels);
        labels
    }
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
        None => scope::labels(scope, None, recording)
            .map_or_else(LabelsId::default, |labels| *scopes[index].insert(labels)),
    }
}

/// A stack of one frame that says what there is instead.
pub(super) fn frame(address: &'static [u64; 1]) -> Stack<'static> {
    Stack { addresses: address, end: End::Root }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_waiting_is_told_by_state_and_place() {
        const SOON: u64 = TAKEN_AWAY / 4;
        const LATE: u64 = TAKEN_AWAY * 4;
        // Place, state, whether it has waited in this call before, time that passed and that it ran.
        let cases = [
            ((Place::Wait, State::Waiting, true, SOON, 0), true),
            // It began to wait while the signal was on its way.
            ((Place::Wait, State::Working, false, SOON, SOON), true),
            // What it waited for came with the signal.
            ((Place::Call, State::Waiting, true, SOON, SOON), true),
            ((Place::Program, State::Waiting, false, SOON, SOON), true),
            // Woken, and not yet back from its call.
            ((Place::Call, State::Ready, true, SOON, SOON / 2), true),
            // It had lost its processor, in a call that it never waits in and outside of any.
            ((Place::Call, State::Ready, false, SOON, SOON / 2), false),
            ((Place::Program, State::Ready, true, LATE, 0), false),
            ((Place::Call, State::Working, true, SOON, SOON), false),
            ((Place::Program, State::Working, false, SOON, SOON), false),
            // A call that the disk made long, and one that was as long by its own work.
            ((Place::Call, State::Working, false, LATE, SOON), true),
            ((Place::Call, State::Working, false, LATE, LATE), false),
        ];
        for ((place, state, is_usual_wait, passed, ran), expected) in cases {
            let waited = was_waiting(place, state, is_usual_wait, passed, ran);
            assert_eq!(waited, expected, "{place:?}, {state:?}, {is_usual_wait}, {passed}, {ran}");
        }
    }
}
