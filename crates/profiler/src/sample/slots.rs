//! Where interrupted threads write their stacks: memory that was there before, and stays.
//!
//! A slot's word says who may touch it: a number that no other use of any slot has, and a phase.
//!
//! ```text
//! idle ──arm──▶ armed ──begin──▶ writing ──end──▶ done ──take──▶ idle
//!                 └──────────────disarm─────────────────────────▶ idle
//! ```
//! The sampler arms, takes and disarms; the signal handler begins and ends. A signal carries the slot's
//! place and number; one that comes too late finds another number and does nothing. That holds after the
//! profiler stopped, too, which is why a ring is never freed.
//!
//! Unsafe, because the handler writes what the sampler reads, and the word above is what keeps them apart.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use super::clock;
use crate::heap::StageCell;
use crate::scope::Cell;
use crate::unwind::{End, Registers, walk};

/// Slots there are: threads that may be on their way to their handler at the same time. Many, because one
/// that waits for a processor may take many ticks; each is 4 KiB with the usual depth.
pub(crate) const SLOTS: usize = 64;

/// What distinguishes a signal of ours from others with the same number and origin.
const MAGIC: u64 = 0x756e << 48;

const PHASE: u64 = 0b11;
const IDLE: u64 = 0;
const ARMED: u64 = 1;
const WRITING: u64 = 2;
const DONE: u64 = 3;

/// The ring that handlers look into.
static RING: AtomicPtr<Ring> = AtomicPtr::new(ptr::null_mut());

/// The ring that was made last, which is the largest, and the process that used it last.
static MADE: Mutex<(Option<&'static Ring>, u32)> = Mutex::new((None, 0));

/// Never the same again, over all slots and rings.
static NUMBER: AtomicU32 = AtomicU32::new(1);

/// Probes that came here.
static PROBES: AtomicU32 = AtomicU32::new(0);

/// How many probes came here so far, by all threads.
pub(crate) fn probes() -> u32 {
    PROBES.load(Relaxed)
}

/// All slots.
pub(crate) struct Ring {
    slots: Box<[Slot]>,
    /// Frames that a slot has room for, and those that are wanted now.
    room: usize,
    depth: AtomicUsize,
}

// A line of the cache of its own: several handlers write at the same time.
#[repr(align(64))]
struct Slot {
    /// The number, shifted by two bits, and the phase.
    word: AtomicU64,
    /// Where the thread keeps its labels, for the handler to look at.
    labels: AtomicPtr<Cell>,
    /// Where its stage is.
    stage: AtomicPtr<StageCell>,
    /// What the handler found, and its frames.
    found: UnsafeCell<Found>,
    frames: UnsafeCell<Box<[u64]>>,
}

// SAFETY: the cells are touched only by who has the word in the phase that says so: the handler while
// writing, the sampler while done. Both change phases with acquire and release.
unsafe impl Sync for Slot {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Slot {}

/// What a handler found besides its frames.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    pub(crate) depth: usize,
    pub(crate) end: End,
    /// The labels that the thread had set.
    pub(crate) scope: u32,
    /// The stage that it was in.
    pub(crate) stage: u8,
    /// When, and how much the thread had had of a processor, as the handler ended.
    pub(crate) time: u64,
    pub(crate) cpu: u64,
    /// What the handler took of a processor: one that loses it in the middle costs no more for that.
    pub(crate) cost: u64,
    /// Where the thread was.
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    /// Where the signal found it.
    pub(crate) place: Place,
}

/// Where a signal found its thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the program.
    #[default]
    Program,
    /// In a system call that came to its end: it was at work, or it waited for what no signal disturbs, as
    /// a disk.
    Call,
    /// In a system call that waited, and was broken off.
    Wait,
}

/// A slot that is armed or further: the sampler's right to it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Armed {
    index: u32,
    number: u32,
}

impl Armed {
    /// What the signal carries.
    pub(crate) fn cookie(&self) -> u64 {
        MAGIC | u64::from(self.index) << 32 | u64::from(self.number)
    }
}

/// What a signal's value says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cookie {
    index: u32,
    number: u32,
}

impl Cookie {
    /// No slot ever waits for it: it is only counted.
    const PROBE: Cookie = Cookie { index: 0, number: 0 };

    /// What a signal carries that asks whether it comes here.
    pub(crate) const fn probe() -> u64 {
        MAGIC
    }

    /// Reads a value; none if it is not one of ours.
    #[inline]
    pub(crate) fn read(value: u64) -> Option<Cookie> {
        (value & 0xffff << 48 == MAGIC)
            .then_some(Cookie { index: (value >> 32) as u32 & 0xffff, number: value as u32 })
    }
}

/// What became of an armed slot.
pub(crate) enum Outcome<'r> {
    /// The handler has not begun.
    Waiting,
    /// It is writing.
    Writing,
    /// What it found. The slot is idle when the reader is done with it.
    Done(Found, &'r [u64]),
}

impl Ring {
    /// The ring for stacks of `depth`. Memory is taken once for the deepest that was asked for. *Setup.*
    pub(crate) fn of_depth(depth: usize) -> &'static Ring {
        let mut made = MADE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let own = std::process::id();
        if let (Some(ring), process) = *made {
            ring.empty(process != own);
        }
        made.1 = own;
        match made.0 {
            Some(ring) if ring.room >= depth => {
                ring.depth.store(depth, Relaxed);
                ring
            }
            _ => {
                // A smaller one stays where it is: a late signal may look into it. Depths at least
                // double, so that what stays is less than what is used.
                let least = made.0.map_or(0, |ring| 2 * ring.room);
                let ring: &'static Ring = Box::leak(Box::new(Ring::new(depth.max(least), depth)));
                RING.store(ptr::from_ref(ring).cast_mut(), Release);
                made.0 = Some(ring);
                ring
            }
        }
    }

    /// Takes back what an earlier profiler left; in another process also what handlers were writing, whose
    /// threads are the parent's.
    fn empty(&self, is_forked: bool) {
        for slot in &self.slots {
            let word = slot.word.load(Acquire);
            if is_forked || word & PHASE != WRITING {
                // A handler that begins just now finds another word, or makes this one fail.
                let _ = slot.word.compare_exchange(word, word & !PHASE, AcqRel, Relaxed);
            }
        }
    }

    fn new(room: usize, depth: usize) -> Ring {
        let slot = || Slot {
            word: AtomicU64::new(IDLE),
            labels: AtomicPtr::default(),
            stage: AtomicPtr::default(),
            found: UnsafeCell::default(),
            frames: UnsafeCell::new(vec![0; room].into_boxed_slice()),
        };
        Ring { slots: (0..SLOTS).map(|_| slot()).collect(), room, depth: AtomicUsize::new(depth) }
    }

    /// Takes an idle slot for a thread; none when all are in use.
    pub(crate) fn arm(
        &self,
        labels: Option<&'static Cell>,
        stage: Option<&'static StageCell>,
    ) -> Option<Armed> {
        // Only the sampler arms, and there is one sampler.
        let is_idle = |slot: &Slot| slot.word.load(Acquire) & PHASE == IDLE;
        let index = self.slots.iter().position(is_idle)?;
        let slot = &self.slots[index];
        let number = NUMBER.fetch_add(1, Relaxed);
        slot.labels.store(labels.map_or(ptr::null_mut(), |c| ptr::from_ref(c).cast_mut()), Relaxed);
        slot.stage.store(stage.map_or(ptr::null_mut(), |c| ptr::from_ref(c).cast_mut()), Relaxed);
        slot.word.store(u64::from(number) << 2 | ARMED, Release);
        Some(Armed { index: index as u32, number })
    }

    fn slot(&self, armed: &Armed) -> &Slot {
        &self.slots[armed.index as usize]
    }

    /// What became of it. `depth` frames are read at most.
    pub(crate) fn look<'r>(&'r self, armed: &'r Armed) -> Outcome<'r> {
        let slot = self.slot(armed);
        match slot.word.load(Acquire) & PHASE {
            DONE => {
                // SAFETY: the handler is done with the cells, and nobody else gets them before the
                // sampler, which `armed` stands for, releases the slot.
                let (found, frames) = unsafe { (*slot.found.get(), &*slot.frames.get()) };
                Outcome::Done(found, &frames[..found.depth])
            }
            WRITING => Outcome::Writing,
            _ => Outcome::Waiting,
        }
    }

    /// Whether as many slots are done.
    pub(crate) fn is_done(&self, many: usize) -> bool {
        let is_done = |slot: &&Slot| slot.word.load(Acquire) & PHASE == DONE;
        self.slots.iter().filter(is_done).count() >= many
    }

    /// Gives back a slot that is done, or that the handler has not begun with. Gives it back to the
    /// caller while the handler is writing.
    pub(crate) fn release(&self, armed: Armed) -> Result<(), Armed> {
        let slot = self.slot(&armed);
        let number = u64::from(armed.number) << 2;
        let idle = number | IDLE;
        if slot.word.compare_exchange(number | ARMED, idle, AcqRel, Relaxed).is_ok()
            || slot.word.compare_exchange(number | DONE, idle, AcqRel, Relaxed).is_ok()
        {
            return Ok(());
        }
        Err(armed)
    }
}

/// In the signal handler: writes the stack of `registers` to the slot that `cookie` names, if it still
/// waits for that.
pub(crate) fn write(cookie: Cookie, registers: &Registers, place: Place) {
    if cookie == Cookie::PROBE {
        PROBES.fetch_add(1, Relaxed);
        return;
    }
    let begun = clock::own_cpu();
    // SAFETY: a ring that was published is never freed.
    let Some(ring) = (unsafe { RING.load(Acquire).as_ref() }) else { return };
    let Some(slot) = ring.slots.get(cookie.index as usize) else { return };
    let number = u64::from(cookie.number) << 2;
    if slot.word.compare_exchange(number | ARMED, number | WRITING, AcqRel, Relaxed).is_err() {
        return;
    }
    // SAFETY: the word says that this handler is writing, so nobody else touches the cells.
    let (found, frames) = unsafe { (&mut *slot.found.get(), &mut *slot.frames.get()) };
    let depth = frames.len().min(ring.depth.load(Relaxed));
    let walked = walk(registers, &mut frames[..depth]);
    // SAFETY: cells of labels are never freed.
    let scope = unsafe { slot.labels.load(Relaxed).as_ref() }.map_or(0, Cell::current);
    // SAFETY: nor are those of stages.
    let stage = unsafe { slot.stage.load(Relaxed).as_ref() }.map_or(0, StageCell::current);
    let cpu = clock::own_cpu();
    *found = Found {
        depth: walked.depth.min(depth),
        end: walked.end,
        scope,
        stage,
        time: clock::now(),
        cpu,
        cost: cpu.saturating_sub(begun),
        pc: registers.pc,
        sp: registers.sp,
        place,
    };
    slot.word.store(number | DONE, Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_signal_finds_another_number() {
        let ring = Ring::of_depth(512);
        let first = ring.arm(None, None).unwrap();
        let late = Cookie::read(first.cookie()).unwrap();
        assert!(matches!(ring.look(&first), Outcome::Waiting));
        ring.release(first).unwrap();

        let second = ring.arm(None, None).unwrap();
        write(late, &Registers::default(), Place::Program);
        assert!(matches!(ring.look(&second), Outcome::Waiting));

        let own = Cookie::read(second.cookie()).unwrap();
        write(own, &Registers { pc: 17, ..Registers::default() }, Place::Wait);
        let Outcome::Done(found, _) = ring.look(&second) else { panic!("written") };
        assert_eq!((found.pc, found.place), (17, Place::Wait));
        // A second one for the same slot changes nothing.
        write(own, &Registers { pc: 18, ..Registers::default() }, Place::Wait);
        let Outcome::Done(found, _) = ring.look(&second) else { panic!("written") };
        assert_eq!(found.pc, 17);
        ring.release(second).unwrap();
    }

    #[test]
    fn values_of_others_are_not_ours() {
        for value in [0, 1, u64::MAX, 0x7fff_1234_5678_9abc] {
            assert_eq!(Cookie::read(value), None);
        }
        let armed = Armed { index: 63, number: u32::MAX };
        assert_eq!(Cookie::read(armed.cookie()), Some(Cookie { index: 63, number: u32::MAX }));
    }
}
