//! Labels that the program sets on what its threads do.
//!
//! ```
//! # fn answer() {}
//! let _scope = profiler::scope("endpoint", "checkout");
//! answer(); // Samples taken here have the label endpoint="checkout".
//! ```
//! 1. A set of labels is a number: entering a scope finds the number of (the set so far, name, value),
//!    which is made when it is seen for the first time.
//! 2. Each thread has a cell with the number that holds now. The cell is memory that is never freed and is
//!    handed on when its thread ends, so that a signal handler may look at it at any time.
//! 3. There are at most [`MOST_SETS`] sets. A scope beyond them leaves the labels as they are, and is
//!    counted.
//! 4. Nobody waits for a lock for long: one that a thread held while another forked is never given back in
//!    the child, whose scopes then leave the labels as they are.

use std::cell::Cell as PlainCell;
use std::future::Future;
use std::hash::BuildHasher as _;
use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock, TryLockError};
use std::task::{Context, Poll};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::heap::Inside;
use crate::profile::{Label, LabelValue, LabelsId, Recording};
use crate::sample::Tid;

/// How many different sets of labels there may be; the empty one is one of them.
pub const MOST_SETS: usize = 4096;

/// Where a thread keeps the number of its set.
#[derive(Debug)]
pub(crate) struct Cell {
    current: AtomicU32,
    /// The thread; 0 for none.
    tid: AtomicI32,
}

impl Cell {
    /// The set's number. In a signal handler, too.
    #[inline]
    pub(crate) fn current(&self) -> u32 {
        self.current.load(Relaxed)
    }
}

/// All cells there ever were: as many as threads with scopes at the same time.
static CELLS: Mutex<Vec<&'static Cell>> = Mutex::new(Vec::new());

/// Moves when a cell got or lost its thread.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// A thread's right to its cell.
struct Owned(&'static Cell);

/// Tries again and again to get a lock, for some milliseconds at most.
fn patiently<G>(try_lock: impl Fn() -> Result<G, TryLockError<G>>) -> Option<G> {
    const TRIES: u32 = 10_000;
    for attempt in 0..TRIES {
        match try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if attempt < 100 => std::hint::spin_loop(),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}

impl Owned {
    fn claim() -> Option<Owned> {
        let tid = Tid::own().0;
        let mut cells = patiently(|| CELLS.try_lock())?;
        let free = cells.iter().copied().find(|cell| cell.tid.load(Relaxed) == 0);
        let cell = free.unwrap_or_else(|| {
            let fresh = Cell { current: AtomicU32::new(0), tid: AtomicI32::new(0) };
            let fresh: &'static Cell = Box::leak(Box::new(fresh));
            cells.push(fresh);
            fresh
        });
        cell.tid.store(tid, Relaxed);
        CHANGES.fetch_add(1, Relaxed);
        Some(Owned(cell))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let _ = CELL.try_with(|cell| cell.set(None));
        self.0.current.store(0, Relaxed);
        self.0.tid.store(0, Relaxed);
        CHANGES.fetch_add(1, Relaxed);
    }
}

thread_local! {
    /// The cell, as a word that is read without asking whether it is still there.
    static CELL: PlainCell<Option<&'static Cell>> = const { PlainCell::new(None) };
    static OWNED: Option<Owned> = Owned::claim();
}

/// The calling thread's cell; none while it ends.
fn own_cell() -> Option<&'static Cell> {
    if let Some(cell) = CELL.get() {
        return Some(cell);
    }
    let cell = OWNED.try_with(|owned| owned.as_ref().map(|owned| owned.0)).ok()??;
    CELL.set(Some(cell));
    Some(cell)
}

/// The number of the calling thread's set. *Steady*, one load; asks for no cell.
pub(crate) fn current() -> u32 {
    CELL.get().map_or(0, Cell::current)
}

/// Moves when [`cells`] would say something else.
pub(crate) fn changes() -> u64 {
    CHANGES.load(Relaxed)
}

/// Calls `found` with each thread that has a cell.
pub(crate) fn cells(mut found: impl FnMut(Tid, &'static Cell)) {
    let Some(cells) = patiently(|| CELLS.try_lock()) else { return };
    for cell in cells.iter() {
        match cell.tid.load(Relaxed) {
            0 => {}
            tid => found(Tid(tid), cell),
        }
    }
}

/// In a process that was forked: the cells of its parent's other threads belong to nobody, and the calling
/// thread, which is the one that forked, has another id.
pub(crate) fn adopt() {
    let own = CELL.get();
    let Some(cells) = patiently(|| CELLS.try_lock()) else { return };
    for &cell in cells.iter() {
        if own.is_some_and(|own| ptr::eq(own, cell)) {
            cell.tid.store(Tid::own().0, Relaxed);
        } else if cell.tid.swap(0, Relaxed) != 0 {
            cell.current.store(0, Relaxed);
        }
    }
    CHANGES.fetch_add(1, Relaxed);
}

/// Names and values of one set, by name.
type Pairs = Arc<[(Box<str>, Box<str>)]>;

struct Sets {
    /// Numbers of sets by what they were made of.
    steps: HashTable<Step>,
    sets: Vec<Pairs>,
}

/// How one set came from another.
struct Step {
    from: u32,
    key: Box<str>,
    value: Box<str>,
    to: u32,
}

static SETS: RwLock<Sets> = RwLock::new(Sets { steps: HashTable::new(), sets: Vec::new() });
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Spreads well enough for names that the program chooses.
const HASHER: FixedState = FixedState::with_seed(0x5ca1_ab1e);

impl Sets {
    fn find(&self, from: u32, key: &str, value: &str) -> Option<u32> {
        let hash = HASHER.hash_one((from, key, value));
        let is_it = |s: &Step| s.from == from && &*s.key == key && &*s.value == value;
        self.steps.find(hash, is_it).map(|step| step.to)
    }

    /// *Growth.* The set so far where there is no room.
    fn add(&mut self, from: u32, key: &str, value: &str) -> u32 {
        if let Some(found) = self.find(from, key, value) {
            return found;
        }
        if self.sets.is_empty() {
            self.sets.push(Arc::default());
        }
        let mut pairs = self.sets[from as usize].to_vec();
        match pairs.binary_search_by(|(name, _)| (**name).cmp(key)) {
            Ok(at) => pairs[at].1 = value.into(),
            Err(at) => pairs.insert(at, (key.into(), value.into())),
        }
        // The same set may have been reached by other steps.
        let known = self.sets.iter().position(|set| **set == *pairs);
        if known.is_none() && self.sets.len() == MOST_SETS || self.steps.len() == 8 * MOST_SETS {
            REFUSED.fetch_add(1, Relaxed);
            return from;
        }
        let to = known.unwrap_or_else(|| {
            self.sets.push(pairs.into());
            self.sets.len() - 1
        }) as u32;
        let step = Step { from, key: key.into(), value: value.into(), to };
        let hash = |s: &Step| HASHER.hash_one((s.from, &*s.key, &*s.value));
        self.steps.insert_unique(hash(&step), step, hash);
        to
    }
}

/// The number of `from` with a label more.
fn step(from: u32, key: &str, value: &str) -> u32 {
    let found = patiently(|| SETS.try_read()).and_then(|sets| sets.find(from, key, value));
    let add = || {
        // A sample of what this allocates would ask for the sets.
        let _inside = Inside::enter();
        Some(patiently(|| SETS.try_write())?.add(from, key, value))
    };
    found.or_else(add).unwrap_or_else(|| {
        REFUSED.fetch_add(1, Relaxed);
        from
    })
}

/// Calls `found` with the names and values of a set.
pub(crate) fn pairs(set: u32, mut found: impl FnMut(&str, &str)) {
    let Some(sets) = patiently(|| SETS.try_read()) else { return };
    let Some(pairs) = sets.sets.get(set as usize).cloned() else { return };
    drop(sets);
    for (key, value) in pairs.iter() {
        found(key, value);
    }
}

/// The labels of a set as the tables of a profile have them. *Growth.*
pub(crate) fn labels(set: u32, recording: &mut Recording<'_>) -> LabelsId {
    let mut held = Vec::new();
    pairs(set, |key, value| held.push((key.to_owned(), value.to_owned())));
    let labels: Vec<_> =
        held.iter().map(|(key, value)| Label { key, value: LabelValue::Text(value) }).collect();
    recording.labels(&labels)
}

/// How many scopes left the labels as they were because there were [`MOST_SETS`] sets.
pub fn scopes_refused() -> u64 {
    REFUSED.load(Relaxed)
}

/// Sets a label on what the calling thread does until the guard is dropped. Within a scope of the same
/// name, the inner value holds. *Steady* for labels that were seen before: a hash and a lock for reading,
/// about 50 ns. Values should be few: endpoints, not users.
///
/// Guards are dropped in the reverse order in which they were made, as they are in blocks: each puts back
/// the labels that held when it was made, so one that is dropped late brings back what ended before it.
pub fn scope(key: &str, value: &str) -> Scope {
    let cell = own_cell();
    let before = cell.map_or(0, Cell::current);
    if let Some(cell) = cell {
        cell.current.store(step(before, key, value), Relaxed);
    }
    Scope { before, belongs_to_thread: PhantomData }
}

/// A label that holds until this is dropped; see [`scope`].
#[derive(Debug)]
#[must_use = "the label holds until the guard is dropped"]
pub struct Scope {
    before: u32,
    /// It is the thread's that made it.
    belongs_to_thread: PhantomData<*const ()>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        if let Some(cell) = CELL.get() {
            cell.current.store(self.before, Relaxed);
        }
    }
}

pin_project_lite::pin_project! {
    /// A future whose work has labels; see [`in_scope`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct InScope<F> {
        // The set as it was when the future paused, with scopes that it holds across that.
        set: u32,
        // Some until it is dropped.
        #[pin]
        future: Option<F>,
    }

    impl<F> PinnedDrop for InScope<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            // Guards that the future holds put back what was before them: into its own set, which
            // the thread that happens to drop it does not keep.
            let _entered = own_cell().map(|cell| Entered::enter(cell, *this.set));
            this.future.set(None);
        }
    }
}

/// Sets a label on what `future` does, on whichever thread that is, besides those that hold where it is
/// made; on what it does when it is dropped, too. *Steady* as [`scope`]; polling costs two stores.
pub fn in_scope<F: Future>(key: &str, value: &str, future: F) -> InScope<F> {
    InScope { set: step(current(), key, value), future: Some(future) }
}

impl<F: Future> Future for InScope<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some(future) = this.future.as_pin_mut() else { unreachable!("polled while dropped") };
        let Some(cell) = own_cell() else { return future.poll(context) };
        // Given back when the future panics, too.
        let entered = Entered::enter(cell, *this.set);
        let polled = future.poll(context);
        *this.set = cell.current();
        drop(entered);
        polled
    }
}

/// A cell that has another set until this is dropped.
struct Entered {
    cell: &'static Cell,
    before: u32,
}

impl Entered {
    fn enter(cell: &'static Cell, set: u32) -> Entered {
        Entered { cell, before: cell.current.swap(set, Relaxed) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.cell.current.store(self.before, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held() -> Vec<(String, String)> {
        let mut held = Vec::new();
        pairs(current(), |key, value| held.push((key.to_owned(), value.to_owned())));
        held
    }

    fn labels(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn scopes_nest_and_end() {
        assert_eq!(held(), []);
        let outer = scope("endpoint", "checkout");
        {
            let _inner = scope("customer", "a");
            assert_eq!(held(), labels(&[("customer", "a"), ("endpoint", "checkout")]));
            let _same = scope("endpoint", "cart");
            assert_eq!(held(), labels(&[("customer", "a"), ("endpoint", "cart")]));
        }
        assert_eq!(held(), labels(&[("endpoint", "checkout")]));
        drop(outer);
        assert_eq!(held(), []);
    }

    #[test]
    fn the_same_labels_are_the_same_set_in_any_order() {
        let number = |first: (&str, &str), second: (&str, &str)| {
            let _first = scope(first.0, first.1);
            let _second = scope(second.0, second.1);
            current()
        };
        assert_eq!(number(("a", "1"), ("b", "2")), number(("b", "2"), ("a", "1")));
        assert_ne!(number(("a", "1"), ("b", "2")), number(("a", "2"), ("b", "1")));
    }

    #[test]
    fn a_future_keeps_its_labels_where_it_goes() {
        let mut future = Box::pin(in_scope("task", "x", async {
            assert_eq!(held(), labels(&[("task", "x")]));
            let _held = scope("step", "1");
            std::future::poll_fn(|_| {
                static POLLS: AtomicU32 = AtomicU32::new(0);
                if POLLS.fetch_add(1, Relaxed) == 0 { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            assert_eq!(held(), labels(&[("step", "1"), ("task", "x")]));
        }));
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_pending());
        assert_eq!(held(), [], "paused");
        assert!(future.as_mut().poll(&mut context).is_ready());
        assert_eq!(held(), []);
    }

    /// Says what labels hold when it is dropped.
    struct Tells<'a>(&'a std::cell::RefCell<Vec<(String, String)>>);

    impl Drop for Tells<'_> {
        fn drop(&mut self) {
            *self.0.borrow_mut() = held();
        }
    }

    #[test]
    fn a_future_that_is_dropped_takes_its_labels_with_it() {
        let told = std::cell::RefCell::default();
        let mut future = Box::pin(in_scope("task", "x", async {
            let _held = scope("step", "1");
            let _tells = Tells(&told);
            std::future::pending::<()>().await;
        }));
        let _executor = scope("thread", "executor");
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_pending());
        drop(future);
        assert_eq!(held(), labels(&[("thread", "executor")]));
        assert_eq!(told.take(), labels(&[("step", "1"), ("task", "x")]), "of its destructors");
    }

    #[test]
    fn a_cell_is_handed_on() {
        let of = || {
            let _scope = scope("a", "b");
            own_cell().map(|cell| std::ptr::from_ref(cell) as usize)
        };
        let mut cells: Vec<_> = (0..20).map(|_| std::thread::spawn(of).join().unwrap()).collect();
        cells.dedup();
        // Other tests' threads may take one in between.
        assert!(cells.len() < 20);
    }
}
