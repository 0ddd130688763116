//! Stages: parts of a program's work that allocations and processor time are counted by.
//!
//! A stage's name is looked for by where its text is, which for a literal is always the same place: one
//! load and a comparison. Only the first use of a text compares it with the known names.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::threads::{Counts, counts_by_stage, with_local};

/// Names that a program may give.
pub const MOST_STAGES: usize = 64;
/// Outside of all stages, those, and all others together.
pub(crate) const STAGES: usize = MOST_STAGES + 2;
const OTHER: u8 = STAGES as u8 - 1;

/// The name of what is outside of all stages.
const NONE_NAME: &str = "none";
/// The name of the stages beyond [`MOST_STAGES`].
const OTHER_NAME: &str = "other";

/// The names of stages 1 to 64; they fill from the front.
static NAMES: [OnceLock<&str>; MOST_STAGES] = [const { OnceLock::new() }; MOST_STAGES];
/// Held while a name is added, so that none is there twice.
static ADDING: Mutex<()> = Mutex::new(());

/// What was looked for last, by a hash of where its text is: 48 bits of the address, 8 of the length, 8 of
/// the stage.
static FOUND: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];

/// Counts what this thread allocates and frees for `name` until the guard is dropped: see
/// [`stages`]; a running [`Profiler`](crate::Profiler) labels its samples with it. Stages nest; the innermost counts. There are [`MOST_STAGES`] names; others are counted as
/// `other`. Guards are dropped in the reverse order in which they were made, as they are in blocks: each
/// puts back the stage that it found, so one that is dropped late brings back what ended before it.
///
/// *Steady*: a few nanoseconds, but for the first use of a name.
#[inline]
pub fn stage(name: &'static str) -> StageGuard {
    StageGuard::enter(stage_of(name))
}

/// Ends a stage when it is dropped.
#[derive(Debug)]
#[must_use = "the stage ends when the guard is dropped"]
pub struct StageGuard {
    before: u8,
    not_send: PhantomData<*const ()>,
}

impl StageGuard {
    #[inline]
    fn enter(stage: u8) -> StageGuard {
        StageGuard { before: with_local(|local| local.enter(stage)), not_send: PhantomData }
    }
}

impl Drop for StageGuard {
    #[inline]
    fn drop(&mut self) {
        with_local(|local| local.enter(self.before));
    }
}

/// Counts what `future` allocates and frees while it is polled or dropped for `name`, on whichever thread
/// that is. Stages that it is in when it pauses hold again when it goes on.
pub fn in_stage<F: Future>(name: &'static str, future: F) -> InStage<F> {
    InStage { stage: stage_of(name), future: Some(future) }
}

pin_project! {
    /// See [`in_stage`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct InStage<F> {
        // As it was when the future paused.
        stage: u8,
        // Some until it is dropped.
        #[pin]
        future: Option<F>,
    }

    impl<F> PinnedDrop for InStage<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            // Guards that the future holds put back what was before them: its own stage, which the
            // thread that happens to drop it does not keep.
            let _entered = StageGuard::enter(*this.stage);
            this.future.set(None);
        }
    }
}

impl<F: Future> Future for InStage<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some(future) = this.future.as_pin_mut() else { unreachable!("polled while dropped") };
        let entered = StageGuard::enter(*this.stage);
        let polled = future.poll(context);
        *this.stage = with_local(|local| local.stage());
        drop(entered);
        polled
    }
}

/// Calls `each` with every stage that was used and what all threads did in it since the program began:
/// `none` is what was outside of all stages. Sums only add up. A block freed in another stage than it was
/// allocated in is counted in each for its part, and so is one of another thread.
///
/// *Steady*: reads 2 KiB for each thread that there was at the same time.
pub fn stages(mut each: impl FnMut(&'static str, Counts)) {
    let counts = counts_by_stage();
    used(|name, stage| {
        let counts = counts[stage];
        if stage != usize::from(OTHER) || counts != Counts::default() {
            each(name, counts);
        }
    });
}

/// Calls `each` with every stage that was used, its number, and that of all stages that have no name of
/// their own. *Steady.*
pub(crate) fn used(mut each: impl FnMut(&'static str, usize)) {
    each(NONE_NAME, 0);
    let names = NAMES.iter().map_while(|name| name.get());
    (1..).zip(names).for_each(|(stage, name)| each(name, stage));
    each(OTHER_NAME, usize::from(OTHER));
}

/// The name of a stage; none outside of all.
pub(crate) fn name_of(stage: u8) -> Option<&'static str> {
    match stage {
        0 => None,
        OTHER => Some(OTHER_NAME),
        stage => NAMES[usize::from(stage) - 1].get().copied(),
    }
}

#[inline]
fn stage_of(name: &'static str) -> u8 {
    let address = name.as_ptr().addr() as u64;
    let found = &FOUND[(address ^ (address >> 8)) as usize % FOUND.len()];
    // Texts beyond 255 bytes or 48 bits have a key that no word has.
    let key = match name.len() < 256 && address >> 48 == 0 {
        true => address << 8 | name.len() as u64,
        false => u64::MAX,
    };
    let word = found.load(Relaxed);
    if word >> 8 == key {
        return word as u8;
    }
    let stage = find(name);
    if key != u64::MAX {
        found.store(key << 8 | u64::from(stage), Relaxed);
    }
    stage
}

/// Looks for the text, and adds it if there is room.
#[cold]
fn find(name: &'static str) -> u8 {
    match name {
        NONE_NAME => return 0,
        OTHER_NAME => return OTHER,
        _ => {}
    }
    let known = || {
        let names = NAMES.iter().map_while(|known| known.get());
        (1..).zip(names).find(|(_, known)| **known == name).map(|(stage, _)| stage)
    };
    if let Some(stage) = known() {
        return stage;
    }
    let _adding = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(stage) = known() {
        return stage;
    }
    match (1..).zip(&NAMES).find(|(_, free)| free.set(name).is_ok()) {
        Some((stage, _)) => stage,
        None => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn current() -> Option<&'static str> {
        name_of(with_local(|local| local.stage()))
    }

    /// Checks the stage in which it is dropped.
    struct Within(&'static str);

    impl Drop for Within {
        fn drop(&mut self) {
            assert_eq!(current(), Some(self.0));
        }
    }

    #[test]
    fn a_future_keeps_its_stage_and_leaves_none() {
        let mut polls = 0;
        let mut future = Box::pin(in_stage("outer", async {
            assert_eq!(current(), Some("outer"));
            let _inner = stage("inner");
            let _within = Within("inner");
            std::future::poll_fn(|_| {
                assert_eq!(current(), Some("inner"));
                polls += 1;
                Poll::<()>::Pending
            })
            .await;
        }));
        let executor = stage("executor");
        let mut context = Context::from_waker(std::task::Waker::noop());
        for _ in 0..2 {
            assert!(future.as_mut().poll(&mut context).is_pending());
            assert_eq!(current(), Some("executor"), "paused");
        }
        drop(future);
        assert_eq!((current(), polls), (Some("executor"), 2), "dropped");
        drop(executor);
        assert_eq!(current(), None);
    }
}
