//! A sampled block: its stack goes into the profile, its address into the table, and its free takes back
//! what it added.
//!
//! 1. [`passed`] runs on the thread that allocates, behind the allocator inside: it walks the stack, adds
//!    it to the profile under its lock, and enters the address into the table.
//! 2. [`freed`] takes the address out of the table and leaves the rest in a list. Who gets the lock takes
//!    what is in the list back from the profile; who does not get it need not wait, because the holder
//!    looks at the list once more after it gave the lock back.
//! 3. While a thread is in here it is *inside*: what it allocates is not sampled, and what it frees waits
//!    in the list. So the tables may grow under the lock.
//! 4. A fork waits for the lock, then for those of the tables, and gives them back in both processes.
#![expect(
    unsafe_code,
    reason = "locks that are held across a fork are kept where no lifetime reaches"
)]

use std::cell::UnsafeCell;
use std::io;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, fence};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::live::{Live, Place};
use super::threads::{self, Block, Errno, Local, SETTINGS, with_local};
use super::{calls, distance, stage};
use crate::profile::{
    EntryId, Label, LabelValue, LabelsId, Profile, Recording, Stack, Tables, watch_forks,
};
use crate::sample::scope_labels;
use crate::unwind::{Registers, walk};
use crate::{Error, scope};

/// What is known of a sampled block: what its free takes back.
#[derive(Clone, Copy)]
pub(super) struct Sampled {
    entry: EntryId,
    /// Which of the profiles.
    run: u8,
    objects: i64,
    bytes: i64,
}

/// The sampled blocks in use.
pub(super) static LIVE: Live<Sampled> = Live::new();

/// Profiles that blocks in use may belong to.
const MOST_RUNS: usize = 8;

/// A profile, and the blocks in use that it has.
struct Run {
    /// From a box of its own; it is dropped when no block in use belongs to it.
    profile: &'static Profile,
    live: usize,
    /// Labels in the profile's tables by the number of their scope.
    scopes: Vec<Option<LabelsId>>,
}

/// What samples are recorded to.
pub(super) struct State {
    runs: [Option<Run>; MOST_RUNS],
    current: Option<u8>,
}

static STATE: Mutex<State> = Mutex::new(State { runs: [const { None }; MOST_RUNS], current: None });

/// Samples taken.
pub(super) static SAMPLES: AtomicU64 = AtomicU64::new(0);
/// Samples that the table had no place for.
pub(super) static UNTRACKED: AtomicU64 = AtomicU64::new(0);
/// Samples whose entry was gone when their block was freed.
pub(super) static FORGOTTEN: AtomicU64 = AtomicU64::new(0);

/// Whether samples are recorded.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// Held while a run begins.
static STARTING: Mutex<()> = Mutex::new(());

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks closer at an allocation at which [`Local::allocated`] asked for it. Aborts rather than unwinds,
/// because an allocator must not.
#[cold]
#[inline(never)]
pub(super) extern "C" fn passed(address: usize, bytes: usize) {
    with_local(|local| {
        let Some(block) = local.passed(bytes) else { return };
        let is_wanted = IS_ON.load(Relaxed) || local.is_calibrating();
        if !is_wanted || local.is_inside().replace(true) {
            return;
        }
        let errno = Errno::keep();
        sample(local, block, address, bytes);
        errno.restore();
        local.is_inside().set(false);
        settle(local);
    });
}

/// Records a sample. The thread is inside.
#[inline(always)]
fn sample(local: &Local, block: &'static Block, address: usize, bytes: usize) {
    // SAFETY: this thread has the block and has just gone inside.
    let frames = unsafe { block.frames() };
    let walked = walk(&Registers::here(), frames);
    if local.is_calibrating() {
        return local.walked().set(Some(walked.depth));
    }
    let frames = &frames[..walked.depth];
    let frames = &frames[calls::own(frames)..];

    let weight = distance::weight(bytes, block.mean());
    let (objects, bytes) = block.with_random(|random| {
        let objects = distance::round(random, weight);
        (objects, distance::round(random, weight * bytes as f64))
    });
    let place = LIVE.claim(address);

    let mut state = lock();
    // Stopped meanwhile.
    let Some(current) = state.current else {
        return place.into_iter().for_each(|place| LIVE.release(place));
    };
    let Some(run) = &mut state.runs[usize::from(current)] else { return };
    // A block whose free could not be seen would be in use for ever.
    let values = match place {
        Some(_) => [objects, bytes, objects, bytes],
        None => [objects, bytes, 0, 0],
    };
    let mut recording = run.profile.lock();
    let scope = scope_labels(&mut run.scopes, scope::current(), &mut recording);
    let stage = match stage::name_of(local.stage()) {
        Some(name) => recording.labels(&[Label { key: "stage", value: LabelValue::Text(name) }]),
        None => LabelsId::default(),
    };
    let stack = Stack { addresses: frames, end: walked.end };
    let entry = recording.record(stack, stage, scope, &values);
    drop(recording);
    run.live += usize::from(place.is_some());
    drop(state);

    SAMPLES.fetch_add(1, Relaxed);
    match place {
        Some(place) => {
            LIVE.publish(place, address, Sampled { entry, run: current, objects, bytes });
        }
        None => _ = UNTRACKED.fetch_add(1, Relaxed),
    }
}

/// Looks whether the block that is about to be freed was sampled. Aborts rather than unwinds.
#[cold]
#[inline(never)]
pub(super) extern "C" fn freed(address: usize) {
    if let Some(place) = LIVE.take(address) {
        LIVE.retire(place, address);
        with_local(settle);
    }
}

/// The block in `place`, taken out before a reallocation, is gone now, or stays if that failed.
#[cold]
#[inline(never)]
pub(super) fn reallocated(place: Place, address: usize, is_gone: bool) {
    match is_gone {
        false => LIVE.restore(place, address),
        true => {
            LIVE.retire(place, address);
            with_local(|local| abort_on_panic(|| settle(local)));
        }
    }
}

extern "C" fn abort_on_panic(call: impl FnOnce()) {
    call();
}

/// Takes back from the profiles what was freed, unless somebody else is about to.
fn settle(local: &Local) {
    if !LIVE.is_waiting() || local.is_inside().replace(true) {
        return;
    }
    let errno = Errno::keep();
    loop {
        // Between leaving something in the list and asking for the lock here, and between giving back the
        // lock and looking at the list below: of two threads that meet, one sees what the other did.
        fence(SeqCst);
        if !LIVE.is_waiting() {
            break;
        }
        let mut state = match STATE.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => break,
        };
        take_back(&mut state);
    }
    errno.restore();
    local.is_inside().set(false);
}

fn take_back(state: &mut State) {
    let mut open: Option<(u8, Recording<'_>)> = None;
    LIVE.drain(|sampled| {
        let Some(run) = &mut state.runs[usize::from(sampled.run)] else { return };
        run.live -= 1;
        if open.as_ref().is_none_or(|(index, _)| *index != sampled.run) {
            // The one before is given back first.
            open = None;
            open = Some((sampled.run, run.profile.lock()));
        }
        let values = [0, 0, -sampled.objects, -sampled.bytes];
        if let Some((_, recording)) = &mut open
            && !recording.add(sampled.entry, &values)
        {
            FORGOTTEN.fetch_add(1, Relaxed);
        }
    });
}

/// While this lives the thread is inside: what it allocates is not sampled, and what it frees is taken
/// back later. For whoever holds a profile's or the tables' lock.
#[derive(Debug)]
pub(crate) struct Inside {
    was_inside: bool,
    not_send: PhantomData<*const ()>,
}

impl Inside {
    #[inline]
    pub(crate) fn enter() -> Self {
        let was_inside = with_local(|local| local.is_inside().replace(true));
        Inside { was_inside, not_send: PhantomData }
    }

    /// For a thread that is about to fork and then waits for tables: none if it may have some locked.
    pub(crate) fn enter_for_fork() -> Option<Self> {
        // If it waits for nobody in here, it is inside because of something else than the fork.
        let may_wait = with_local(|local| !local.is_inside().get() || local.is_forking().get());
        may_wait.then(Inside::enter)
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        if !self.was_inside {
            with_local(|local| {
                local.is_inside().set(false);
                settle(local);
            });
        }
    }
}

/// Begins a run with the profile of these tables, or with one that `make` makes.
pub(super) fn start(
    mean: u64,
    seed: u64,
    tables: &Tables,
    make: impl FnOnce() -> Profile,
) -> Result<Profile, Error> {
    // The last who asked is told first: the lock here is taken before those of the tables.
    watch_forks().map_err(|source| Error::system("asking to be told of forks", source))?;
    if !HAS_FORK_HANDLERS.swap(true, SeqCst) {
        // SAFETY: the handlers have the type that is asked for.
        let code =
            unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
        if code != 0 {
            HAS_FORK_HANDLERS.store(false, SeqCst);
            let source = io::Error::from_raw_os_error(code);
            return Err(Error::system("asking to be told of forks", source));
        }
    }
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if !calls::learn() {
        return Err(Error::new(
            "the program's allocator is not observed: make profiler::heap::Allocator around it the \
             #[global_allocator]",
        ));
    }
    let _inside = Inside::enter();
    let mut state = lock();
    if state.current.is_some() {
        return Err(Error::new("the heap is sampled already: stop that first"));
    }
    let of_tables = |run: &Option<Run>| run.as_ref().is_some_and(|r| r.profile.is_of(tables));
    let is_over = |run: &Option<Run>| run.as_ref().is_none_or(|run| run.live == 0);
    let index = match state.runs.iter().position(of_tables) {
        Some(index) => index,
        None => {
            let Some(index) = state.runs.iter().position(is_over) else {
                return Err(Error::new(
                    "blocks in use belong to eight earlier profiles: start with the same tables again",
                ));
            };
            let profile: &'static Profile = Box::leak(Box::new(make()));
            if let Some(run) =
                state.runs[index].replace(Run { profile, live: 0, scopes: Vec::new() })
            {
                // SAFETY: the reference came from such a box, and was in the run only: those that record
                // have the lock.
                drop(unsafe { Box::from_raw(ptr::from_ref(run.profile).cast_mut()) });
            }
            index
        }
    };
    state.current = Some(index as u8);
    SETTINGS.change(mean, seed);
    IS_ON.store(true, Relaxed);
    Ok(state.runs[index].as_ref().map_or_else(|| unreachable!(), |run| run.profile.clone()))
}

/// Ends the run, if there is one.
pub(super) fn stop() {
    let _inside = Inside::enter();
    IS_ON.store(false, Relaxed);
    lock().current = None;
}

pub(super) fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

static HAS_FORK_HANDLERS: AtomicBool = AtomicBool::new(false);

/// What a thread holds while it forks, in the order in which it is given back.
struct Forking {
    _state: MutexGuard<'static, State>,
    _starting: MutexGuard<'static, ()>,
}

struct ForkingCell(UnsafeCell<Option<Forking>>);

// SAFETY: it is accessed by the thread only that has the lock of `STATE`, from before the fork until
// behind it.
unsafe impl Sync for ForkingCell {}

static FORKING: ForkingCell = ForkingCell(UnsafeCell::new(None));

/// Waits until no other thread is between two states of anything that the child needs.
extern "C" fn before_fork() {
    with_local(|local| {
        // A signal handler forked while this thread was in here: the child goes on from there.
        if local.is_inside().replace(true) {
            return;
        }
        let starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let state = lock();
        let forking = Forking { _state: state, _starting: starting };
        // SAFETY: this thread has the lock.
        unsafe { *FORKING.0.get() = Some(forking) };
        local.is_forking().set(true);
    });
}

extern "C" fn in_parent() {
    with_local(|local| {
        if local.is_forking().replace(false) {
            // SAFETY: this thread took the lock before the fork, and has it until this is dropped.
            drop(unsafe { (*FORKING.0.get()).take() });
            local.is_inside().set(false);
            settle(local);
        }
    });
}

extern "C" fn in_child() {
    threads::forked();
    in_parent();
}
