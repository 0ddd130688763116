//! The threads there are, what each was last seen doing, and whose turn it is.
//!
//! 1. Threads are kept in the order of their ids, which is the order in which the kernel lists them, so
//!    that a new list is merged in one pass.
//! 2. The turn goes round in that order and begins at a random thread, so that each comes once a round: a
//!    random choice at every tick would let totals drift.

use super::slots::Armed;
use super::tasks::{Status, Tid};
use crate::heap::StageCell;
use crate::profile::{EntryId, Label, LabelValue, LabelsId, Recording};
use crate::scope::Cell;

/// What the sampler knows of a thread. Times in nanoseconds.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) tid: Tid,
    /// Which list it was in last.
    listed: u64,
    /// Its name and more, once it was looked at.
    pub(super) status: Option<Status>,
    /// When its name is read again, and how long that is after the last time.
    pub(super) named_until: u64,
    named_for: u64,
    /// Its id and name as labels; see [`labels`](Thread::labels).
    labels: Option<LabelsId>,
    /// Where it keeps the labels that it sets.
    pub(super) scope: Option<&'static Cell>,
    /// Where its stage is.
    pub(super) stage: Option<&'static StageCell>,
    /// Up to when its time is accounted for.
    pub(super) accounted: u64,
    /// Its clock, as far as it is accounted for.
    pub(super) cpu: u64,
    /// Its clock at the last sample, or later if it was asleep at that stack since.
    pub(super) seen: u64,
    /// Whether the clock has stood still since then, at the last stack.
    pub(super) sleep: Sleep,
    /// Processor time of which it isn't known yet where it went: the thread was found waiting.
    pub(super) held_back: u64,
    /// What it was doing last, and what it was doing when it last ran.
    pub(super) entry: Option<EntryId>,
    pub(super) running: Option<EntryId>,
    /// The stages of both, and the scope of the first.
    pub(super) entry_stage: u8,
    pub(super) running_stage: u8,
    pub(super) entry_scope: u32,
    /// Where it was at the last sample.
    pub(super) pc: u64,
    pub(super) sp: u64,
    /// Behind which call it waited last.
    pub(super) waited_at: u64,
    /// The slot that waits for it, and since when, its clock then, and what it was about.
    pub(super) armed: Option<Armed>,
    pub(super) armed_at: u64,
    pub(super) armed_cpu: u64,
    pub(super) armed_state: State,
    /// When it is asked why it does not answer.
    pub(super) overdue_at: u64,
    /// Whether it blocks the signal, and until when and for how long it is not asked again.
    pub(super) is_blocked: bool,
    pub(super) left_until: u64,
    pub(super) left_for: u64,
}

/// What a thread is about as its signal is sent. What it waits for may come together with the signal, which
/// then finds it at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It waits.
    Waiting,
    /// It wants a processor: it lost the one that it had, to the sampler or another thread, or it has just
    /// been woken. Until its processor is awake, too, tens of microseconds pass.
    Ready,
    /// It has a processor.
    Working,
}

/// What is known of a thread's sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleep {
    /// It was running, or nobody knows.
    No,
    /// It waits since it was interrupted, and so where that was.
    Known,
    /// It ran since, and waits at the same place: most likely by the same calls.
    Assumed,
}

/// How long after a thread was met it is asked for its name again, in nanoseconds.
const NAMED_FOR: u64 = 100_000_000;

impl Thread {
    fn new(tid: Tid, listed: u64) -> Thread {
        Thread {
            tid,
            listed,
            status: None,
            named_until: 0,
            named_for: NAMED_FOR,
            labels: None,
            scope: None,
            stage: None,
            accounted: 0,
            cpu: 0,
            seen: 0,
            sleep: Sleep::No,
            held_back: 0,
            entry: None,
            running: None,
            entry_stage: 0,
            running_stage: 0,
            entry_scope: 0,
            pc: 0,
            sp: 0,
            waited_at: 0,
            armed: None,
            armed_at: 0,
            armed_cpu: 0,
            armed_state: State::Working,
            overdue_at: 0,
            left_until: 0,
            left_for: 0,
            is_blocked: false,
        }
    }

    /// Remembers how it presents itself.
    pub(super) fn meet(&mut self, status: Status, now: u64) {
        self.status = Some(status);
        self.labels = None;
        self.named_until = now + self.named_for;
    }

    /// Asks for the name again. Threads get their names when they run already, and may change them later:
    /// it is asked after ten times as long each time.
    pub(super) fn ask_name(&mut self, now: u64) {
        if self.status.as_mut().is_some_and(|status| status.read_name(self.tid)) {
            // What it is doing belongs to another entry then.
            self.labels = None;
            self.entry = None;
        }
        self.named_for = self.named_for.saturating_mul(10);
        self.named_until = now.saturating_add(self.named_for);
    }

    /// Its id and name as labels. *Steady* unless the tables have dropped them.
    pub(super) fn labels(&mut self, recording: &mut Recording<'_>) -> LabelsId {
        if let Some(labels) = self.labels.filter(|&labels| recording.has_labels(labels)) {
            return labels;
        }
        let name = self.status.as_ref().map_or_else(Default::default, Status::name);
        let labels = recording.labels(&[
            Label { key: "thread id", value: LabelValue::Number(i64::from(self.tid.0)) },
            Label { key: "thread name", value: LabelValue::Text(&name) },
        ]);
        self.labels = Some(labels);
        labels
    }
}

/// All threads, and whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Threads {
    all: Vec<Thread>,
    /// The next list, of which this keeps the memory.
    next: Vec<Thread>,
    /// Lists so far.
    lists: u64,
    turn: usize,
    /// Threads that have had their turn in this round.
    had: usize,
}

impl Threads {
    pub(super) fn all(&mut self) -> &mut [Thread] {
        &mut self.all
    }

    pub(super) fn get(&mut self, index: usize) -> &mut Thread {
        &mut self.all[index]
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn position(&self, tid: Tid) -> Option<usize> {
        self.all.binary_search_by_key(&tid, |thread| thread.tid).ok()
    }

    pub(super) fn find(&mut self, tid: Tid) -> Option<&mut Thread> {
        let at = self.position(tid)?;
        Some(&mut self.all[at])
    }

    /// Takes a new list. `list` calls back with each thread; `born` is called for each that is new,
    /// `gone` for each that was there before, is not in the list, and is not alive. *Steady* while there are no more threads
    /// than there were before.
    pub(super) fn merge<E>(
        &mut self,
        list: impl FnOnce(&mut dyn FnMut(Tid)) -> Result<(), E>,
        is_alive: impl Fn(Tid) -> bool,
        mut born: impl FnMut(&mut Thread),
        gone: impl FnMut(Thread),
    ) -> Result<(), E> {
        self.lists += 1;
        let lists = self.lists;
        let Threads { all, next, .. } = self;
        next.clear();
        let mut known_up_to = 0;
        let result = list(&mut |tid| {
            // The kernel's order is that of the ids, unless ids came round again.
            let found = match all[known_up_to..].binary_search_by_key(&tid, |t| t.tid) {
                Ok(at) => Some(known_up_to + at),
                Err(_) => all.binary_search_by_key(&tid, |t| t.tid).ok(),
            };
            match found {
                Some(at) => {
                    all[at].listed = lists;
                    known_up_to = at + 1;
                }
                None => {
                    let mut thread = Thread::new(tid, lists);
                    born(&mut thread);
                    next.push(thread);
                }
            }
            known_up_to = known_up_to.min(all.len());
        });
        if result.is_err() {
            // Half a list says nothing about those who are missing.
            next.clear();
            return result;
        }
        let turn = all.get(self.turn).map(|thread| thread.tid);
        // The kernel leaves out threads that live when another one ends while it lists.
        let is_gone = |thread: &mut Thread| thread.listed != lists && !is_alive(thread.tid);
        all.extract_if(.., is_gone).for_each(gone);
        all.append(next);
        all.sort_by_key(|thread| thread.tid);
        // Whose turn it was still has it, or who comes next.
        self.turn = turn.map_or(0, |tid| all.partition_point(|thread| thread.tid < tid));
        Ok(())
    }

    /// Whose turn it is; none where a round is over, after which the next one begins.
    pub(super) fn turn(&mut self, random: impl FnOnce() -> u64) -> Option<usize> {
        if self.had >= self.all.len() {
            self.had = 0;
            self.turn = random() as usize % self.all.len().max(1);
            return None;
        }
        self.had += 1;
        let turn = self.turn % self.all.len();
        self.turn = turn + 1;
        Some(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(threads: &mut Threads, tids: &[i32]) -> (Vec<i32>, Vec<i32>) {
        let (mut born, mut gone) = (Vec::new(), Vec::new());
        threads
            .merge::<()>(
                |found| {
                    tids.iter().for_each(|&tid| found(Tid(tid)));
                    Ok(())
                },
                |tid| tid.0 == 1000,
                |thread| born.push(thread.tid.0),
                |thread| gone.push(thread.tid.0),
            )
            .unwrap();
        (born, gone)
    }

    #[test]
    fn a_list_tells_who_came_and_went() {
        let mut threads = Threads::default();
        assert_eq!(list(&mut threads, &[3, 5, 9]), (vec![3, 5, 9], vec![]));
        assert_eq!(list(&mut threads, &[3, 5, 9]), (vec![], vec![]));
        assert_eq!(list(&mut threads, &[5, 7, 9, 12]), (vec![7, 12], vec![3]));
        // Ids came round.
        assert_eq!(list(&mut threads, &[9, 12, 2, 5]), (vec![2], vec![7]));
        let tids: Vec<_> = threads.all().iter().map(|thread| thread.tid.0).collect();
        assert_eq!(tids, [2, 5, 9, 12]);
    }

    #[test]
    fn a_thread_that_the_kernel_left_out_stays() {
        let mut threads = Threads::default();
        assert_eq!(list(&mut threads, &[3, 1000]).0, [3, 1000]);
        assert_eq!(list(&mut threads, &[3]), (vec![], vec![]));
        assert_eq!(list(&mut threads, &[3, 1000]), (vec![], vec![]));
    }

    #[test]
    fn half_a_list_changes_nothing() {
        let mut threads = Threads::default();
        list(&mut threads, &[3, 5]);
        let half = |found: &mut dyn FnMut(Tid)| {
            found(Tid(5));
            found(Tid(6));
            Err(())
        };
        threads.merge(half, |_| false, |_| {}, |_| panic!("nobody is gone")).unwrap_err();
        assert_eq!(threads.len(), 2);
    }

    #[test]
    fn everybody_has_a_turn_in_each_round() {
        let mut threads = Threads::default();
        list(&mut threads, &(1..=65).collect::<Vec<_>>());
        let mut turns = vec![0; 65];
        let mut random = 7;
        for _ in 0..10 {
            while let Some(turn) = threads.turn(|| {
                random += 23;
                random
            }) {
                turns[turn] += 1;
            }
        }
        assert_eq!(turns, vec![10; 65]);
        let mut none = Threads::default();
        assert_eq!(none.turn(|| 5), None);
    }
}
