//! Runs the callbacks of observable families so that one that panics or never comes back spoils its own
//! family and nothing else.
//!
//! 1. A collection hands its [`Round`], the columns of all observable families, to a worker thread and
//!    waits. Nothing is handed over where there is no callback.
//! 2. The worker takes a column out, runs the callback, puts the column back, and goes on to the next.
//! 3. One that panics leaves its column empty, is counted, and is asked again the next time.
//! 4. One that is not back in time is left with its worker and is counted. Another worker goes on behind
//!    it. Until it is back, no collection asks it again, and its family is absent.
//! 5. A callback may scrape or collect its own registry: that asks no callback, or there would be no end.
//!    Observable families are absent there.
//!
//! Rounds and workers are kept and used again, so that all this allocates nothing in the steady state.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::births::Births;
use crate::described::{Described, Role};
use crate::observed::{Column, OpenObserver};
use crate::table::Shared;

/// An observable family.
pub(crate) struct Observable {
    pub(crate) described: Described,
    /// Where its column is in a round.
    pub(crate) index: usize,
    /// When it was registered, in tenths of a second since the registry began.
    pub(crate) since: u32,
    /// Not back in time, and not back yet.
    is_overdue: AtomicBool,
    /// How many collections have asked it.
    asked: AtomicU64,
    births: Mutex<Births>,
    callbacks: parking_lot::RwLock<Vec<Callback>>,
}

/// Tells the values of one observable family.
pub(crate) type Callback = Arc<dyn Fn(&mut OpenObserver<'_>) + Send + Sync>;

impl Observable {
    pub(crate) fn new(
        described: Described,
        index: usize,
        since: u32,
        callback: Option<Callback>,
    ) -> Self {
        Observable {
            described,
            index,
            since,
            is_overdue: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            births: Mutex::new(Births::new(since)),
            callbacks: parking_lot::RwLock::new(callback.into_iter().collect()),
        }
    }

    /// Has `callback` asked as well.
    pub(crate) fn add(&self, callback: Callback) {
        self.callbacks.write().push(callback);
    }

    /// The bytes on the heap, without those of the sets.
    pub(crate) fn memory_usage(&self) -> usize {
        self.births.lock().memory_usage()
    }

    fn run(&self, column: &mut Column, shared: &Shared) {
        let (number, asked) = (self.asked.fetch_add(1, Relaxed), shared.clock.now());
        column.begin();
        for index in 0.. {
            // Whoever adds a callback waits for none.
            let Some(callback) = self.callbacks.read().get(index).cloned() else { break };
            callback(&mut OpenObserver::new(column, &self.described, &shared.sets));
        }
        OpenObserver::new(column, &self.described, &shared.sets).finish();
        let is_sum = self.described.role == Role::Counter;
        self.births.lock().settle(column, is_sum, asked, number);
    }
}

/// What went wrong with callbacks so far.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) panicked: AtomicU64,
    pub(crate) overdue: AtomicU64,
}

/// The columns of one collection, in the order of the observable families.
#[derive(Default)]
pub(crate) struct Round {
    columns: Vec<Option<Column>>,
}

impl Round {
    /// What was observed of the family; nothing if its callback panicked, did not come back or was not
    /// asked.
    pub(crate) fn column(&self, observable: &Observable) -> Option<&Column> {
        self.columns.get(observable.index)?.as_ref().filter(|column| !column.is_absent())
    }

    /// The bytes on the heap, without those of the sets.
    pub(crate) fn memory_usage(&self) -> usize {
        let columns = self.columns.iter().flatten().map(Column::memory_usage);
        columns.sum::<usize>() + self.columns.capacity() * size_of::<Option<Column>>()
    }
}

/// What a worker and a collection share.
#[derive(Default)]
struct Exchange {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The worker has something to do from here on.
    task: Option<Task>,
    /// What it has done so far: given back as a whole, or taken when it is late.
    round: Round,
    /// Which callback it is in.
    at: Option<usize>,
    is_done: bool,
    /// Nobody waits for it any more; it ends when it is back.
    is_abandoned: bool,
}

struct Task {
    observables: Arc<Vec<Arc<Observable>>>,
    from: usize,
    shared: Arc<Shared>,
    faults: Arc<Faults>,
}

/// Keeps the workers of a registry.
pub(crate) struct Callbacks {
    idle: Mutex<Vec<Arc<Exchange>>>,
    pub(crate) faults: Arc<Faults>,
    patience: Duration,
}

impl Callbacks {
    pub(crate) fn new(patience: Duration) -> Self {
        Callbacks { idle: Mutex::default(), faults: Arc::default(), patience }
    }

    /// Asks all callbacks; `round` has what they said. A callback is waited for as long as the registry's
    /// patience. *Steady* once as many collections have run at the same time before. In a callback of the
    /// same registry nobody is asked.
    pub(crate) fn run(
        &self,
        round: &mut Round,
        observables: &Arc<Vec<Arc<Observable>>>,
        shared: &Arc<Shared>,
    ) {
        round
            .columns
            .resize_with(observables.len().max(round.columns.len()), || Some(Column::default()));
        for column in &mut round.columns {
            column.get_or_insert_default();
        }
        if ASKED_BY.get() == self.identity() {
            round.columns.iter_mut().flatten().for_each(Column::leave_out);
            return;
        }
        let mut from = 0;
        while from < observables.len() {
            from = self.run_from(from, round, observables, shared);
        }
    }

    /// What a worker knows its registry by.
    fn identity(&self) -> usize {
        Arc::as_ptr(&self.faults).addr()
    }

    /// Has a worker go on behind the callbacks before `from`; tells how far it got.
    fn run_from(
        &self,
        from: usize,
        round: &mut Round,
        observables: &Arc<Vec<Arc<Observable>>>,
        shared: &Arc<Shared>,
    ) -> usize {
        let known = self.idle.lock().pop();
        let Some(exchange) = known.or_else(start_worker) else {
            // Without a thread nobody can be asked: absent is better than old.
            round.columns[from..].iter_mut().flatten().for_each(Column::leave_out);
            self.faults.overdue.fetch_add(1, Relaxed);
            return observables.len();
        };
        let mut state = exchange.state.lock();
        std::mem::swap(&mut state.round, round);
        state.is_done = false;
        state.at = None;
        state.task = Some(Task {
            observables: observables.clone(),
            from,
            shared: shared.clone(),
            faults: self.faults.clone(),
        });
        exchange.changed.notify_all();
        let mut last = (None, Instant::now() + self.patience);
        while !state.is_done {
            let timed_out = exchange.changed.wait_until(&mut state, last.1).timed_out();
            if state.is_done || !timed_out {
                continue;
            }
            if state.at != last.0 {
                // It got on since: each callback has the whole patience, and at most twice that.
                last = (state.at, Instant::now() + self.patience);
                continue;
            }
            if let Some(at) = state.at {
                self.faults.overdue.fetch_add(1, Relaxed);
                observables[at].is_overdue.store(true, Relaxed);
                state.is_abandoned = true;
                std::mem::swap(&mut state.round, round);
                return at + 1;
            }
            last.1 = Instant::now() + self.patience;
        }
        std::mem::swap(&mut state.round, round);
        drop(state);
        self.idle.lock().push(exchange);
        observables.len()
    }
}

impl Drop for Callbacks {
    fn drop(&mut self) {
        for exchange in self.idle.lock().drain(..) {
            exchange.state.lock().is_abandoned = true;
            exchange.changed.notify_all();
        }
    }
}

thread_local! {
    /// The registry whose callbacks this thread runs; 0 for none.
    static ASKED_BY: Cell<usize> = const { Cell::new(0) };
}

fn start_worker() -> Option<Arc<Exchange>> {
    let exchange = Arc::new(Exchange::default());
    let its_own = exchange.clone();
    let thread = std::thread::Builder::new().name("unladen-callbacks".into());
    thread.spawn(move || work(&its_own)).is_ok().then_some(exchange)
}

fn work(exchange: &Exchange) {
    let mut state = exchange.state.lock();
    loop {
        let Some(task) = state.task.take() else {
            if state.is_abandoned {
                return;
            }
            exchange.changed.wait(&mut state);
            continue;
        };
        // The task holds what the number stands for.
        ASKED_BY.set(Arc::as_ptr(&task.faults).addr());
        for (index, observable) in task.observables.iter().enumerate().skip(task.from) {
            if observable.is_overdue.load(Relaxed) {
                state.round.columns[index].get_or_insert_default().leave_out();
                continue;
            }
            let Some(mut column) = state.round.columns[index].take() else { continue };
            state.at = Some(index);
            drop(state);
            let run = || observable.run(&mut column, &task.shared);
            if catch_unwind(AssertUnwindSafe(run)).is_err() {
                column.spoil();
                task.faults.panicked.fetch_add(1, Relaxed);
            }
            state = exchange.state.lock();
            if state.is_abandoned {
                observable.is_overdue.store(false, Relaxed);
                return;
            }
            state.round.columns[index] = Some(column);
        }
        state.is_done = true;
        exchange.changed.notify_all();
    }
}
