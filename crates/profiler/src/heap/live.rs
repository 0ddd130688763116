//! The sampled blocks that are in use, found by their addresses without a lock.
//!
//! 1. A filter has a counter for each page's worth of addresses: a free of a block that was not sampled
//!    reads one byte, and the frees of a whole megabyte of memory read the same four cache lines. It
//!    wraps around after a gigabyte.
//! 2. Where the counter is not zero, an address is looked for in two buckets of eight, a cache line each.
//!    With two choices, the fuller buckets stay near the average (Azar, Broder, Karlin and Upfal 1999), so
//!    that seven tenths of the table fill before a block first finds no place.
//! 3. A place whose block was freed waits in a list for whoever next holds the profile; pushing never
//!    waits, so that a free works while the same thread holds the profile.
//!
//! What is done for one address never races with itself: the program has the address only after the
//! allocator returned it, and the allocator gets it back only after it was taken out here. Different
//! addresses meet in atomics only.
//!
//! All of it is static and zero: a program that never samples has none of it in memory.
#![expect(
    unsafe_code,
    reason = "what is known of a block is written by the one thread that has it"
)]
#![expect(
    clippy::needless_pass_by_value,
    reason = "a place is handed over with what is done to it"
)]

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize};

use super::distance::mix;

/// Sampled blocks in use: at the default mean, those of 64 GiB.
pub(super) const CAPACITY: usize = 1 << 17;
const WAYS: usize = 8;
const BUCKETS: usize = CAPACITY / WAYS;
const PAGE_BITS: u32 = 12;
const COUNTERS: usize = 1 << 18;

/// In place of an address: nothing there.
const FREE: usize = 0;
/// In place of an address: somebody is about to write or to read what belongs to it. No block is there,
/// because an allocator returns neither the first nor the second byte of memory.
const HELD: usize = 1;

/// A place of the table that the holder of this value has for itself.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(super) struct Place(u32);

#[repr(align(64))]
struct Bucket([AtomicUsize; WAYS]);

struct Known<T> {
    sampled: UnsafeCell<MaybeUninit<T>>,
    /// The next place in the list of freed ones, plus one.
    next: AtomicU32,
}

/// See the module. `T` is what is known of a block, of which `0` bytes need not be a value.
pub(super) struct Live<T> {
    filter: [AtomicU8; COUNTERS],
    buckets: [Bucket; BUCKETS],
    known: [Known<T>; CAPACITY],
    /// The first of the freed places, plus one.
    freed: AtomicU32,
    used: AtomicUsize,
}

// SAFETY: `sampled` of a place is accessed only by who has its `Place` (written between `claim` and
// `publish`, read between `take` or `drain` and `release`), and places change hands through the bucket's
// address or through `freed`, with release and acquire.
unsafe impl<T: Copy + Send> Sync for Live<T> {}

impl<T: Copy> Live<T> {
    pub(super) const fn new() -> Self {
        Live {
            filter: [const { AtomicU8::new(0) }; COUNTERS],
            buckets: [const { Bucket([const { AtomicUsize::new(FREE) }; WAYS]) }; BUCKETS],
            known: [const {
                // Zeroed rather than uninitialised, so that the whole is in the part of the program that
                // takes no room in its file.
                Known { sampled: UnsafeCell::new(MaybeUninit::zeroed()), next: AtomicU32::new(0) }
            }; CAPACITY],
            freed: AtomicU32::new(0),
            used: AtomicUsize::new(0),
        }
    }

    /// Whether a sampled block may begin at `address`. *Steady*: one load.
    #[inline(always)]
    pub(super) fn may_have(&self, address: usize) -> bool {
        self.filter[counter(address)].load(Relaxed) != 0
    }

    /// Places in use.
    pub(super) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// A place for the block at `address`; none where its buckets are full.
    pub(super) fn claim(&self, address: usize) -> Option<Place> {
        let [first, second] = buckets(address);
        let free = |bucket: usize| {
            self.buckets[bucket].0.iter().filter(|key| key.load(Relaxed) == FREE).count()
        };
        let order = if free(second) > free(first) { [second, first] } else { [first, second] };
        for bucket in order {
            for (way, key) in self.buckets[bucket].0.iter().enumerate() {
                if key.load(Relaxed) == FREE
                    && key.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
                {
                    self.used.fetch_add(1, Relaxed);
                    return Some(Place((bucket * WAYS + way) as u32));
                }
            }
        }
        None
    }

    /// The block at `address` is in use from now on.
    pub(super) fn publish(&self, place: Place, address: usize, sampled: T) {
        // SAFETY: whoever has the place has it alone.
        unsafe { (*self.known[place.0 as usize].sampled.get()).write(sampled) };
        // A counter that is full stays so: its addresses are then always looked for.
        let _ = self.filter[counter(address)].fetch_update(Relaxed, Relaxed, |n| n.checked_add(1));
        self.key(&place).store(address, Release);
    }

    /// Takes out the block at `address`, which is about to be freed; none if it was not sampled.
    pub(super) fn take(&self, address: usize) -> Option<Place> {
        for bucket in buckets(address) {
            for (way, key) in self.buckets[bucket].0.iter().enumerate() {
                // Exchanged although nobody else may free this block: a program that frees twice is
                // wrong, but shall not be worse off for being observed.
                if key.load(Relaxed) == address
                    && key.compare_exchange(address, HELD, Acquire, Relaxed).is_ok()
                {
                    return Some(Place((bucket * WAYS + way) as u32));
                }
            }
        }
        None
    }

    /// The block at `address` stays in use after all.
    pub(super) fn restore(&self, place: Place, address: usize) {
        self.key(&place).store(address, Release);
    }

    /// The block that was taken out is freed. What its free takes back waits until somebody
    /// [drains](Self::drain).
    pub(super) fn retire(&self, place: Place, address: usize) {
        let _ = self.filter[counter(address)].fetch_update(Relaxed, Relaxed, |n| match n {
            u8::MAX => None,
            n => n.checked_sub(1),
        });
        let next = &self.known[place.0 as usize].next;
        // Only ever pushed to and taken as a whole, so that no place can be first, gone and first again
        // unnoticed.
        let mut first = self.freed.load(Relaxed);
        loop {
            next.store(first, Relaxed);
            match self.freed.compare_exchange_weak(first, place.0 + 1, SeqCst, Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Whether anything waits to be drained.
    pub(super) fn is_waiting(&self) -> bool {
        self.freed.load(SeqCst) != 0
    }

    /// Calls `back` for each freed block and gives their places to others.
    pub(super) fn drain(&self, mut back: impl FnMut(T)) {
        let mut first = self.freed.swap(0, AcqRel);
        while first != 0 {
            let place = Place(first - 1);
            let known = &self.known[place.0 as usize];
            first = known.next.load(Relaxed);
            // SAFETY: who swapped the list out has its places; all of them were published before.
            back(unsafe { (*known.sampled.get()).assume_init() });
            self.release(place);
        }
    }

    /// Gives back a place that nothing was published in, or whose block is accounted for.
    pub(super) fn release(&self, place: Place) {
        self.used.fetch_sub(1, Relaxed);
        self.key(&place).store(FREE, Release);
    }

    fn key(&self, place: &Place) -> &AtomicUsize {
        &self.buckets[place.0 as usize / WAYS].0[place.0 as usize % WAYS]
    }
}

#[inline(always)]
fn counter(address: usize) -> usize {
    (address >> PAGE_BITS) % COUNTERS
}

/// The two buckets of an address. All of its bits are mixed: with a product alone, blocks that lie evenly
/// get into each other's way when half of the table is filled.
fn buckets(address: usize) -> [usize; 2] {
    let mixed = mix(address as u64);
    [(mixed >> 50) as usize % BUCKETS, (mixed >> 36) as usize % BUCKETS]
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use super::*;

    // One for each test: they run side by side.
    static ONE: Live<i64> = Live::new();
    static FILLED: Live<i64> = Live::new();
    static SHARED: Live<i64> = Live::new();

    fn drained(live: &Live<i64>) -> i64 {
        let mut bytes = 0;
        live.drain(|sampled| bytes += sampled);
        bytes
    }

    #[test]
    fn a_block_comes_and_goes() {
        let address = 0x7f00_1234_5670;
        assert!(!ONE.may_have(address) && ONE.take(address).is_none());
        let place = ONE.claim(address).unwrap();
        ONE.publish(place, address, 64);
        assert!(ONE.may_have(address) && ONE.used() == 1);
        // A neighbour on the same page is looked for and not found.
        assert!(ONE.may_have(address + 16) && ONE.take(address + 16).is_none());
        let place = ONE.take(address).unwrap();
        assert!(ONE.take(address).is_none(), "taken twice");
        ONE.restore(place, address);
        let place = ONE.take(address).unwrap();
        ONE.retire(place, address);
        assert!(ONE.is_waiting() && !ONE.may_have(address) && ONE.take(address).is_none());
        assert_eq!((drained(&ONE), ONE.used(), ONE.is_waiting()), (64, 0, false));
    }

    /// Seven tenths of the places are taken before the first block finds none, and all are found again.
    #[test]
    fn a_full_table_refuses_and_forgets_nothing() {
        let address = |block: usize| 0x7f00_0000_0000 + block * 48;
        let mut taken = 0;
        while let Some(place) = FILLED.claim(address(taken)) {
            FILLED.publish(place, address(taken), 1 + taken as i64);
            taken += 1;
        }
        assert!(taken > CAPACITY / 10 * 7, "{taken}");
        let expected = (taken as i64) * (taken as i64 + 1) / 2;
        for block in 0..taken {
            assert!(FILLED.may_have(address(block)));
            let place = FILLED.take(address(block)).unwrap();
            FILLED.retire(place, address(block));
        }
        assert_eq!((drained(&FILLED), FILLED.used()), (expected, 0));
        // Counters that were full stay so; what was not sampled is still not found.
        assert!(FILLED.take(address(0)).is_none());
    }

    /// Threads with addresses of their own in the same pages, all of them draining.
    #[test]
    fn threads_do_not_disturb_each_other() {
        const THREADS: usize = 4;
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        let back = AtomicI64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let back = &back;
                scope.spawn(move || {
                    for round in 0..rounds {
                        let address = 0x5500_0000_0000 + (round % 64) * 64 + thread * 16;
                        let place = SHARED.claim(address).unwrap();
                        SHARED.publish(place, address, 1);
                        assert!(SHARED.may_have(address));
                        let place = SHARED.take(address).unwrap();
                        SHARED.retire(place, address);
                        // Places that wait are in nobody's way only while they are few.
                        SHARED.drain(|sampled| {
                            back.fetch_add(sampled, Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(back.into_inner(), (THREADS * rounds) as i64);
        assert_eq!(SHARED.used(), 0);
    }
}
