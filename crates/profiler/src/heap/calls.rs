//! Which frames of a sample are the allocator's own, so that the caller is the innermost that is shown.
//!
//! A sample's stack begins in this crate, in the wrapper, and in what the compiler puts between it and the
//! program; how many calls that is depends on what was inlined where. So [`learn`] lets each kind of
//! allocation be sampled once, looks at its own stack beside that, and keeps the addresses that are in the
//! sample only. An address of a call is the same at every sample, and never that of a caller. Where the
//! allocator was inlined into one, there is no frame to cut; its functions are left out where the address
//! gets its names, see [`is_shim`].
#![expect(unsafe_code, reason = "allocates as the program does, and reads the thread's frames")]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::threads::{DEPTH, with_local};
use crate::unwind::{Registers, walk};

/// The allocator's own addresses, as [`walk`] writes them; four for each kind would be many.
static OWN: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];
static KNOWN: AtomicUsize = AtomicUsize::new(0);

/// How many frames at the beginning are the allocator's own.
pub(super) fn own(frames: &[u64]) -> usize {
    let own = &OWN[..KNOWN.load(Relaxed).min(OWN.len())];
    let is_own = |frame: &&u64| own.iter().any(|known| known.load(Relaxed) == **frame);
    frames.iter().take_while(is_own).count()
}

/// Whether a function is what the compiler puts between the program and its allocator. Where that was
/// inlined, it has no frame of its own that could be cut.
pub(crate) fn is_shim(name: &str) -> bool {
    let name = name.rsplit("::").next().unwrap_or(name);
    matches!(name, "__rust_alloc" | "__rust_alloc_zeroed" | "__rust_realloc" | "__rust_dealloc")
}

/// How [`learn`] may have an allocation made.
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    Zeroed,
    Again,
}

/// Learns the allocator's own addresses; false if the program's allocator is not the wrapper. To be called
/// by one thread at a time.
pub(super) fn learn() -> bool {
    let mut around = vec![0; DEPTH];
    for kind in [Kind::Plain, Kind::Zeroed, Kind::Again] {
        let Some((sampled, depth)) = probe(kind, &mut around) else { return false };
        with_local(|local| {
            let Some(block) = local.block() else { return };
            let was_inside = local.is_inside().replace(true);
            // SAFETY: this thread has the block, and is inside.
            let sampled = unsafe { &block.frames()[..sampled] };
            // Above the frame that both have at another place, all is the same; else the walks did not
            // get to the same end, and nothing is known.
            let calls = sampled.len().saturating_sub(depth);
            if depth > 1 && sampled[calls + 1..] == around[1..depth] {
                sampled[..calls].iter().for_each(|frame| keep(*frame));
            }
            local.is_inside().set(was_inside);
        });
    }
    true
}

fn keep(frame: u64) {
    let known = KNOWN.load(Relaxed);
    if known < OWN.len() && own(&[frame]) == 0 {
        OWN[known].store(frame, Relaxed);
        KNOWN.store(known + 1, Relaxed);
    }
}

/// The frames of an allocation that this function makes, which the thread's block has, and those of the
/// function itself, which are written to `around`. None if the allocation did not come to the wrapper.
#[inline(never)]
fn probe(kind: Kind, around: &mut [u64]) -> Option<(usize, usize)> {
    let layout = Layout::new::<[u64; 5]>();
    let calibrate = |is_wanted| with_local(|local| local.calibrate(is_wanted));
    // SAFETY: the layout is not empty; the block is freed as it was last asked for, and so is one of a
    // reallocation that failed.
    unsafe {
        let block = match kind {
            Kind::Again => alloc(layout),
            _ => std::ptr::null_mut(),
        };
        calibrate(true);
        let (block, layout) = match kind {
            Kind::Plain => (alloc(black_box(layout)), layout),
            Kind::Zeroed => (alloc_zeroed(black_box(layout)), layout),
            Kind::Again if block.is_null() => (block, layout),
            Kind::Again => {
                let larger = Layout::new::<[u64; 9]>();
                match realloc(block, black_box(layout), larger.size()) {
                    new if new.is_null() => (block, layout),
                    new => (new, larger),
                }
            }
        };
        let sampled = with_local(|local| local.walked().take());
        calibrate(false);
        if !block.is_null() {
            dealloc(black_box(block), layout);
        }
        let depth = walk(&Registers::here(), around).depth;
        sampled.map(|sampled| (sampled, depth))
    }
}
