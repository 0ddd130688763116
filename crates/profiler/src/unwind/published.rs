//! The tables as walks see them: versions, of which the newest is found without waiting.
//!
//! A version never changes but for its cache. A reader counts itself in, takes the newest version, and
//! counts itself out. A writer puts a new one in place and frees the old ones when it sees nobody counted
//! in: whoever came later has taken the new one.
//!
//! Unsafe: versions are shared by address; what keeps them alive is the count.
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use super::rule::{Rule, RuleId, Usual};
use super::table::Table;
use super::walk::Rulebook;

/// Addresses that the cache holds, as a power of two.
const CACHE_BITS: u32 = 14;

/// Addresses have 48 bits; those that don't say where in the cache they belong are kept in it.
const ADDRESS_BITS: u32 = 48;
const _: () = assert!(ADDRESS_BITS - CACHE_BITS + Usual::BITS == u64::BITS);

/// Marks the number of a rule.
const NUMBERED: u64 = 1 << 28;

/// A module's place and its table.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) table: Arc<Table>,
}

/// All tables at one time.
#[derive(Debug)]
pub(super) struct Version {
    /// By address.
    spans: Box<[Span]>,
    /// By number.
    rules: Box<[Rule]>,
    /// Direct-mapped. What an address is hashed to says, in its upper bits, where in the cache it belongs;
    /// the rest is kept there, in the upper 34 bits, and the lower 30 are either a usual rule, or
    /// [`NUMBERED`] and the number of another. All zero is nothing: neither has 30 bits of zero.
    cache: Box<[AtomicU64]>,
}

impl Version {
    /// *Setup*.
    pub(super) fn new(mut spans: Vec<Span>, rules: &[Rule]) -> Version {
        spans.sort_by_key(|span| span.start);
        Version {
            spans: spans.into(),
            rules: rules.into(),
            cache: std::iter::repeat_with(AtomicU64::default).take(1 << CACHE_BITS).collect(),
        }
    }

    /// Bytes on the heap, without the tables.
    pub(super) fn memory_usage(&self) -> usize {
        size_of_val(&*self.spans) + size_of_val(&*self.rules) + size_of_val(&*self.cache)
    }

    fn span(&self, pc: u64) -> Option<&Span> {
        let behind = self.spans.partition_point(|span| span.start <= pc);
        self.spans.get(behind.checked_sub(1)?).filter(|span| pc < span.end)
    }

    /// Looks for what the cache doesn't know, and tells it.
    fn find(&self, pc: u64) -> RuleId {
        let id = self.span(pc).map_or(RuleId::UNKNOWN, |span| span.table.find(pc));
        let usual = self.rules.get(usize::from(id.0)).and_then(Usual::of);
        let bits = usual.map_or(NUMBERED | u64::from(id.0), Usual::bits);
        if let Some((slot, upper)) = self.slot(pc) {
            slot.store(upper | bits, Ordering::Relaxed);
        }
        id
    }
}

impl Version {
    /// Where in the cache `pc` belongs, and what stands in the upper bits there. Multiplying by an odd number
    /// gives each address of 48 bits another product of 48 bits, so that both together are that address.
    #[inline(always)]
    fn slot(&self, pc: u64) -> Option<(&AtomicU64, u64)> {
        let product = (pc << (u64::BITS - ADDRESS_BITS)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = self.cache.get((product >> (u64::BITS - CACHE_BITS)) as usize)?;
        Some((slot, product << CACHE_BITS))
    }

    /// What the cache knows of `pc`; zero for nothing.
    #[inline(always)]
    fn bits(&self, pc: u64) -> u64 {
        let Some((slot, upper)) = self.slot(pc) else { return 0 };
        let bits = slot.load(Ordering::Relaxed) ^ upper;
        if bits >> Usual::BITS == 0 { bits } else { 0 }
    }
}

impl Rulebook for Version {
    #[inline(always)]
    fn cached(&self, pc: u64) -> Option<Usual> {
        Usual::of_bits(self.bits(pc))
    }

    fn rule(&self, pc: u64) -> Rule {
        if pc >> ADDRESS_BITS != 0 {
            return Rule::UNKNOWN;
        }
        let bits = self.bits(pc);
        let id = if bits & NUMBERED != 0 && Usual::of_bits(bits).is_none() {
            RuleId(bits as u16)
        } else {
            self.find(pc)
        };
        self.rules.get(usize::from(id.0)).copied().unwrap_or(Rule::UNKNOWN)
    }

    fn covers(&self, pc: u64) -> bool {
        self.span(pc).is_some()
    }
}

/// Where nothing is prepared.
impl Rulebook for () {
    fn cached(&self, _: u64) -> Option<Usual> {
        None
    }

    fn rule(&self, _: u64) -> Rule {
        Rule::UNKNOWN
    }

    fn covers(&self, _: u64) -> bool {
        false
    }
}

/// The newest version, and those that readers may still hold.
#[derive(Debug)]
pub(super) struct Published {
    newest: AtomicPtr<Version>,
    /// Who reads. Two, for a child process has no use for the count of its parent's threads.
    readers: [AtomicUsize; 2],
    /// Which of the two counts.
    counted: AtomicUsize,
}

impl Published {
    pub(super) const fn new() -> Self {
        Published {
            newest: AtomicPtr::new(std::ptr::null_mut()),
            readers: [const { AtomicUsize::new(0) }; 2],
            counted: AtomicUsize::new(0),
        }
    }

    /// Hands the newest version to `read`, if there is one. Never waits; async-signal-safe; may be
    /// interrupted by itself.
    #[inline(always)]
    pub(super) fn read<T>(&self, read: impl FnOnce(Option<&Version>) -> T) -> T {
        let readers = self.readers();
        readers.fetch_add(1, Ordering::SeqCst);
        // SAFETY: a version is freed only after another was put in place and the count was seen at zero
        // thereafter. This thread counts, and loads afterwards: it either was seen, or loads the other.
        let version = unsafe { self.newest.load(Ordering::SeqCst).as_ref() };
        let result = read(version);
        readers.fetch_sub(1, Ordering::Release);
        result
    }

    fn readers(&self) -> &AtomicUsize {
        let [even, odd] = &self.readers;
        if self.counted.load(Ordering::Relaxed).is_multiple_of(2) { even } else { odd }
    }

    /// Puts `version` in place; the old one joins `retired`, which is emptied if nobody reads. One thread
    /// at a time.
    pub(super) fn replace(&self, version: Box<Version>, retired: &mut Vec<Retired>) {
        let old = self.newest.swap(Box::into_raw(version), Ordering::SeqCst);
        if !old.is_null() {
            retired.push(Retired(old));
        }
        self.free(retired);
    }

    /// Frees what was retired if nobody reads. Walks take microseconds, so that a moment without any is soon
    /// found; a reader that was preempted is waited for only when many versions have gathered, and otherwise
    /// left to the next call.
    pub(super) fn free(&self, retired: &mut Vec<Retired>) {
        const TRIES: usize = 200;
        const MANY: usize = 8;
        if retired.is_empty() {
            return;
        }
        for _ in 0..TRIES {
            if self.readers().load(Ordering::SeqCst) == 0 {
                for Retired(version) in retired.drain(..) {
                    // SAFETY: it came out of a box, is no longer the newest, and nobody who took it is
                    // counted in any more.
                    drop(unsafe { Box::from_raw(version) });
                }
                return;
            }
            if retired.len() > MANY {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// In the only thread of a new process: threads that were reading are not here and will never leave.
    pub(super) fn forked(&self) {
        // The other count was given up when this process' parent was forked, if not earlier.
        let other = self.counted.load(Ordering::Relaxed).wrapping_add(1);
        if let Some(count) = self.readers.get(other % 2) {
            count.store(0, Ordering::Relaxed);
        }
        self.counted.store(other, Ordering::SeqCst);
    }
}

/// A version that was replaced.
#[derive(Debug)]
pub(super) struct Retired(*mut Version);

// SAFETY: a version is plain data, and whoever holds this only frees it.
unsafe impl Send for Retired {}

impl Retired {
    /// Bytes on the heap, without the tables.
    pub(super) fn memory_usage(&self) -> usize {
        // SAFETY: it is freed only through this value.
        unsafe { &*self.0 }.memory_usage()
    }
}
