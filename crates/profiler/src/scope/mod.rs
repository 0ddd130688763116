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
//! 4. Nobody waits for a lock but for the first use of labels and a thread's first scope, and nobody waits
//!    for long: see `patience` and `fork`.
//!
//! ```text
//! cells     where each thread keeps the number of its set
//! sets      the sets and their numbers
//! fork      no lock is held in a child by who is not there
//! patience  and one that is is not waited for
//! ```

mod cells;
mod fork;
mod patience;
mod sets;

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use crate::profile::{Label, LabelValue, LabelsId, Recording};

pub(crate) use cells::{Cell, adopt, cells, changes, current};
use cells::{held_cell, own_cell};
pub use sets::{MOST_SETS, MOST_TEXT};

static REFUSED: AtomicU64 = AtomicU64::new(0);

/// The number of `from` with a label more; `from` where there is no room for it.
fn step(from: u32, key: &str, value: &str) -> u32 {
    sets::step(from, key, value).unwrap_or_else(|| {
        REFUSED.fetch_add(1, Relaxed);
        from
    })
}

/// The labels of a set as the tables of a profile have them, behind that of a stage; none for a number that
/// is no set's. *Growth.*
pub(crate) fn labels(
    set: u32,
    stage: Option<&str>,
    recording: &mut Recording<'_>,
) -> Option<LabelsId> {
    let label =
        |(key, value): &'static (Box<str>, Box<str>)| Label { key, value: LabelValue::Text(value) };
    let stage = stage.map(|name| Label { key: "stage", value: LabelValue::Text(name) });
    let pairs = sets::pairs(set)?.iter().map(label);
    let labels: Vec<_> = stage.into_iter().chain(pairs).collect();
    Some(recording.labels(&labels))
}

/// How many scopes left the labels as they were: there were [`MOST_SETS`] sets or 8 MiB of them, a text had
/// more than [`MOST_TEXT`] bytes, or a lock was not to be had.
pub fn scopes_refused() -> u64 {
    REFUSED.load(Relaxed)
}

/// Sets a label on what the calling thread does until the guard is dropped. Within a scope of the same
/// name, the inner value holds. *Steady* for labels that were seen before: a hash and a look at a
/// table, about 50 ns. Values should be few: endpoints, not users; those for which there is no room cost as
/// much, and set nothing.
///
/// Guards are dropped in the reverse order in which they were made, as they are in blocks: each puts back
/// the labels that held when it was made, so one that is dropped late brings back what ended before it.
pub fn scope(key: &str, value: &str) -> Scope {
    let cell = own_cell();
    let before = cell.map_or(0, Cell::current);
    match cell {
        Some(cell) => cell.current.store(step(before, key, value), Relaxed),
        None => _ = REFUSED.fetch_add(1, Relaxed),
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
        if let Some(cell) = held_cell() {
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
        let pairs = sets::pairs(current()).unwrap().iter();
        pairs.map(|(key, value)| (key.to_string(), value.to_string())).collect()
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
                static POLLS: AtomicU64 = AtomicU64::new(0);
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
