//! What each thread has of its own: the bytes to its next sample, and counters by stage.
//!
//! 1. The first time that a thread allocates it takes a block of memory, from those that ended threads
//!    left or from a new chunk of the kernel's. Taking and leaving never waits: a block is in one list
//!    without locks, so that a thread can be born or die while another one forks.
//! 2. The thread adds with plain loads and stores, because nobody else writes its block. Readers add up
//!    all blocks.
//! 3. When the thread ends the block goes to the next one as it is: sums never fall, and there are as many
//!    blocks as there were threads at the same time.
//!
//! Where a thread's block is, is kept in thread-local memory without a destructor, which is there from
//! the thread's first instruction to its last. What ends the lease is a key of pthreads, which asks for
//! several turns, so that the destructors of other libraries still find the block. What a thread does
//! behind that is added to shared counters, and not sampled.
//!
//! The block has the thread's stage as well, for who interrupts the thread: a signal handler that looked
//! for thread-local memory might be the first to do so in a library that was loaded late, and would
//! allocate.
#![expect(unsafe_code, reason = "blocks live in memory from the kernel, for ever")]

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64,
};

use super::distance;
use super::stage::STAGES;
use crate::sample::{Tid, cpu_of};

/// What was allocated and freed. A reallocation counts as a free of the old size and an allocation of the
/// new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blocks allocated.
    pub allocations: u64,
    /// Their bytes, as they were asked for.
    pub allocated_bytes: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Their bytes.
    pub freed_bytes: u64,
}

/// [`Counts`] that one thread adds to and all may read.
#[derive(Debug)]
pub(super) struct Counters {
    allocations: AtomicU64,
    allocated_bytes: AtomicU64,
    frees: AtomicU64,
    freed_bytes: AtomicU64,
}

impl Counters {
    const fn new() -> Self {
        Counters {
            allocations: AtomicU64::new(0),
            allocated_bytes: AtomicU64::new(0),
            frees: AtomicU64::new(0),
            freed_bytes: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    fn allocated(&self, bytes: usize) {
        add(&self.allocations, 1);
        add(&self.allocated_bytes, bytes as u64);
    }

    #[inline(always)]
    fn freed(&self, bytes: usize) {
        add(&self.frees, 1);
        add(&self.freed_bytes, bytes as u64);
    }

    fn add_to(&self, sum: &mut Counts) {
        sum.allocations += self.allocations.load(Relaxed);
        sum.allocated_bytes += self.allocated_bytes.load(Relaxed);
        sum.frees += self.frees.load(Relaxed);
        sum.freed_bytes += self.freed_bytes.load(Relaxed);
    }

    /// Only its owner may.
    fn set(&self, to: Counts) {
        self.allocations.store(to.allocations, Relaxed);
        self.allocated_bytes.store(to.allocated_bytes, Relaxed);
        self.frees.store(to.frees, Relaxed);
        self.freed_bytes.store(to.freed_bytes, Relaxed);
    }
}

/// Adds to what only this thread writes: a load and a store where an atomic addition takes longer than
/// all of an allocation's accounting.
#[inline(always)]
fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

/// The stage that a thread is in.
#[derive(Debug)]
pub(crate) struct StageCell(AtomicU8);

impl StageCell {
    /// The stage's number. In a signal handler, too.
    #[inline]
    pub(crate) fn current(&self) -> u8 {
        self.0.load(Relaxed)
    }
}

/// Moves when a block got or lost its thread.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// Moves when [`stage_cells`] would say something else.
pub(crate) fn stage_changes() -> u64 {
    CHANGES.load(Relaxed)
}

/// Calls `found` with each thread that has a block, and where its stage is: memory that is never given
/// back. A thread that was never in a stage and allocated nothing that was counted has none.
pub(crate) fn stage_cells(mut found: impl FnMut(Tid, &'static StageCell)) {
    blocks(|block| match block.tid.load(Relaxed) {
        0 => {}
        tid => found(Tid(tid), &block.stage),
    });
}

/// In a process that may have been forked: the calling thread has another id then, and the parent's other
/// threads are not there.
pub(crate) fn adopt() {
    let own = LOCAL.with(|local| local.block.get()).map_or(ptr::null(), ptr::from_ref);
    blocks(|block| {
        let tid = block.tid.load(Relaxed);
        if ptr::eq(block, own) {
            block.tid.store(Tid::own().0, Relaxed);
        } else if tid != 0 && cpu_of(Tid(tid)).is_none() {
            block.tid.store(0, Relaxed);
        }
    });
    CHANGES.fetch_add(1, Relaxed);
}

/// Frames of a sampled block.
pub(super) const DEPTH: usize = 512;

/// What belongs to one thread at a time. Zeroed memory is a valid one.
#[repr(C, align(128))]
pub(super) struct Block {
    /// Bytes to the next point, see [`distance`]; below zero once it is passed.
    left: AtomicI64,
    /// With which mean `left` was drawn.
    mean: AtomicU64,
    random: AtomicU64,
    /// In which epoch of [`Settings`] `left` was drawn.
    epoch: AtomicU32,
    /// Whether a thread has it.
    is_owned: AtomicBool,
    /// The thread's stage.
    stage: StageCell,
    /// The thread; 0 for none.
    tid: AtomicI32,
    /// The next in the list of blocks that nobody has.
    next: AtomicPtr<Block>,
    /// The sums of the counters when the present thread got the block.
    before: Counters,
    counters: [Counters; STAGES],
    /// Where the thread's stack is written to: not on the stack, because a thread's may be as small as
    /// 16 KiB, and a signal's alternate stack smaller still; and not shared, because sampling threads
    /// would wait for each other. It takes memory from the first sample on.
    frames: UnsafeCell<[u64; DEPTH]>,
}

// SAFETY: `frames` is accessed by the thread that has the block only; all else is atomic.
unsafe impl Sync for Block {}

/// How sampling is done. An epoch is a time of the same settings.
pub(super) struct Settings {
    epoch: AtomicU32,
    mean: AtomicU64,
    seed: AtomicU64,
    /// Threads that went over to this epoch.
    threads: AtomicU64,
}

/// The settings of this process. Before anybody asks for samples, threads draw distances as well: what
/// would have been a sample is then where they get memory for their counters.
pub(super) static SETTINGS: Settings = Settings {
    epoch: AtomicU32::new(1),
    mean: AtomicU64::new(512 << 10),
    seed: AtomicU64::new(0),
    threads: AtomicU64::new(0),
};

/// What is left for a thread that is told to go over; no block takes so much that this could be reached
/// by subtracting, and none that is subtracted from it leaves more than half.
const TOLD: i64 = i64::MIN / 2;

impl Settings {
    /// Begins an epoch. Every thread goes over to it at its next allocation; one that is in the middle of
    /// one now may miss it and goes over at what would have been its next sample.
    pub(super) fn change(&self, mean: u64, seed: u64) {
        self.mean.store(mean, Relaxed);
        self.seed.store(seed, Relaxed);
        self.threads.store(0, Relaxed);
        self.epoch.fetch_add(1, Release);
        blocks(|block| block.left.store(TOLD, Relaxed));
    }
}

impl Block {
    /// Goes over to the present settings, if this was not done: then the next point is drawn anew. Also if
    /// it was done, and what told the thread to do so came only behind that.
    fn renew(&self) -> bool {
        let epoch = SETTINGS.epoch.load(Acquire);
        let is_told = self.left.load(Relaxed) < TOLD / 2;
        if self.epoch.load(Relaxed) == epoch && !is_told {
            return false;
        }
        self.epoch.store(epoch, Relaxed);
        self.mean.store(SETTINGS.mean.load(Relaxed), Relaxed);
        // Threads are told apart by the order in which they come, so that one seed gives a program whose
        // threads come in one order the same samples again.
        let thread = SETTINGS.threads.fetch_add(1, Relaxed);
        let seed = SETTINGS.seed.load(Relaxed);
        self.random.store(distance::mix(seed ^ distance::mix(thread + 1)), Relaxed);
        self.draw();
        true
    }

    /// Draws the next point, from the end of the block in which the last one was.
    fn draw(&self) {
        let distance = self.with_random(|random| distance::distance(random, self.mean()));
        self.left.store(distance, Relaxed);
    }

    /// Takes `bytes` of what is left; whether the next point was among them.
    #[inline(always)]
    fn pass(&self, bytes: usize) -> bool {
        let left = self.left.load(Relaxed).wrapping_sub(bytes as i64);
        self.left.store(left, Relaxed);
        left < 0
    }

    /// The mean with which the present distance was drawn.
    pub(super) fn mean(&self) -> u64 {
        self.mean.load(Relaxed)
    }

    /// Lends this thread's random numbers.
    pub(super) fn with_random<R>(&self, with: impl FnOnce(&mut u64) -> R) -> R {
        let mut random = self.random.load(Relaxed);
        let result = with(&mut random);
        self.random.store(random, Relaxed);
        result
    }

    /// Where the stack goes.
    ///
    /// # Safety
    /// The caller is the thread that has the block, has it by [`Local::block`], and uses the result
    /// only while nothing else does: guarded by [`Local::is_inside`].
    #[expect(clippy::mut_from_ref, reason = "see above")]
    pub(super) unsafe fn frames(&self) -> &mut [u64; DEPTH] {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.frames.get() }
    }

    /// The sums over all stages.
    fn sum(&self) -> Counts {
        let mut sum = Counts::default();
        self.counters.iter().for_each(|counters| counters.add_to(&mut sum));
        sum
    }
}

/// Blocks in memory that the kernel gave at once.
#[repr(C, align(128))]
struct Chunk {
    next: AtomicPtr<Chunk>,
    blocks: [Block; BLOCKS],
}

/// As many as fit 128 KiB, of which only pages that are used are in memory.
const BLOCKS: usize = ((128 << 10) - 128) / size_of::<Block>();
const _: () = assert!(BLOCKS >= 16 && size_of::<Chunk>() <= 128 << 10);

/// All chunks; they are never given back.
static CHUNKS: AtomicPtr<Chunk> = AtomicPtr::new(ptr::null_mut());

/// The first block that nobody has, and how often one was put there, so that a block that was first, gone
/// and is first again is told from one that stayed: the upper 41 of an address' 48 bits (blocks are
/// aligned to 128), and 23 bits of a count.
static UNOWNED: AtomicU64 = AtomicU64::new(0);
const COUNT_BITS: u32 = 23;

fn block_of(word: u64) -> *mut Block {
    ptr::with_exposed_provenance_mut(((word >> COUNT_BITS) << 7) as usize)
}

/// Puts the blocks from `first` to `last`, which are linked, into the list.
fn give(first: &'static Block, last: &'static Block) {
    let address = ptr::from_ref(first).expose_provenance() as u64 >> 7;
    let mut head = UNOWNED.load(Relaxed);
    loop {
        last.next.store(block_of(head), Relaxed);
        let count = head.wrapping_add(1) & ((1 << COUNT_BITS) - 1);
        let new = address << COUNT_BITS | count;
        match UNOWNED.compare_exchange_weak(head, new, Release, Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// Takes a block out of the list.
fn take() -> Option<&'static Block> {
    let mut head = UNOWNED.load(Acquire);
    loop {
        // SAFETY: a block once made stays for ever; null is for none.
        let block: &'static Block = unsafe { block_of(head).as_ref() }?;
        // Somebody else may have it by now; then the exchange fails.
        let next = block.next.load(Relaxed).expose_provenance() as u64 >> 7;
        let new = next << COUNT_BITS | (head & ((1 << COUNT_BITS) - 1));
        match UNOWNED.compare_exchange_weak(head, new, Acquire, Acquire) {
            Ok(_) => return Some(block),
            Err(now) => head = now,
        }
    }
}

/// A block of a new chunk, whose others go into the list. None if the kernel has no memory.
fn make() -> Option<&'static Block> {
    // SAFETY: asks for new memory at any address.
    let memory = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size_of::<Chunk>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED || memory.expose_provenance() >> 48 != 0 {
        return None;
    }
    let chunk = memory.cast::<Chunk>();
    // SAFETY: the memory is zero, which is a valid chunk, aligned to a page, and stays for ever.
    let shared: &'static Chunk = unsafe { &*chunk };
    for pair in shared.blocks[1..].windows(2) {
        pair[0].next.store(ptr::from_ref(&pair[1]).cast_mut(), Relaxed);
    }
    let mut first = CHUNKS.load(Relaxed);
    loop {
        shared.next.store(first, Relaxed);
        match CHUNKS.compare_exchange_weak(first, chunk, AcqRel, Relaxed) {
            Ok(_) => break,
            Err(now) => first = now,
        }
    }
    give(&shared.blocks[1], &shared.blocks[BLOCKS - 1]);
    Some(&shared.blocks[0])
}

/// Calls `each` with all blocks, whoever has them.
fn blocks(mut each: impl FnMut(&'static Block)) {
    let mut chunk = CHUNKS.load(Acquire);
    // SAFETY: a chunk once made stays for ever; the last one's `next` is null.
    while let Some(shared) = unsafe { chunk.as_ref::<'static>() } {
        shared.blocks.iter().for_each(&mut each);
        chunk = shared.next.load(Acquire);
    }
}

/// What threads did that have no block: they are behind their last destructor, or there was no memory.
static SHARED: Counters = Counters::new();

fn add_shared(allocations: u64, bytes: usize) {
    let (count, sum) = match allocations {
        0 => (&SHARED.frees, &SHARED.freed_bytes),
        _ => (&SHARED.allocations, &SHARED.allocated_bytes),
    };
    count.fetch_add(1, Relaxed);
    sum.fetch_add(bytes as u64, Relaxed);
}

/// What a thread knows of itself.
pub(super) struct Local {
    block: Cell<Option<&'static Block>>,
    /// Those of the present stage; of `block`, and valid while there is one.
    counters: Cell<*const Counters>,
    stage: Cell<u8>,
    /// How often the key's destructor came.
    turns: Cell<u8>,
    /// Whether the thread is in the profiler, whose own allocations are not sampled.
    is_inside: Cell<bool>,
    /// Whether it holds everything because it forks.
    is_forking: Cell<bool>,
    /// Whether the next sample's stack is wanted for itself, see `calls`.
    is_calibrating: Cell<bool>,
    /// The frames of the sample that was wanted for itself.
    walked: Cell<Option<usize>>,
}

thread_local! {
    /// Nothing to construct and nothing to drop: there from a thread's first instruction to its last.
    static LOCAL: Local = const {
        Local {
            block: Cell::new(None),
            counters: Cell::new(ptr::null()),
            stage: Cell::new(0),
            turns: Cell::new(0),
            is_inside: Cell::new(false),
            is_forking: Cell::new(false),
            is_calibrating: Cell::new(false),
            walked: Cell::new(None),
        }
    };
}

/// Gives the calling thread's state.
#[inline(always)]
pub(super) fn with_local<R>(with: impl FnOnce(&Local) -> R) -> R {
    LOCAL.with(with)
}

impl Local {
    /// Counts an allocation; whether [`passed`](Self::passed) has to look at it. *Steady.*
    #[inline(always)]
    pub(super) fn allocated(&self, bytes: usize) -> bool {
        let Some(block) = self.block.get() else { return true };
        // SAFETY: there is a block.
        unsafe { &*self.counters.get() }.allocated(bytes);
        block.pass(bytes)
    }

    /// Counts a free. *Steady* but for a thread's first call.
    #[inline(always)]
    pub(super) fn freed(&self, bytes: usize) {
        if self.block.get().is_none() && self.attach().is_none() {
            return add_shared(0, bytes);
        }
        // SAFETY: there is a block.
        unsafe { &*self.counters.get() }.freed(bytes);
    }

    /// The rest of [`allocated`](Self::allocated): the thread's block if this allocation is to be sampled.
    pub(super) fn passed(&self, bytes: usize) -> Option<&'static Block> {
        let block = match self.block.get() {
            Some(block) => block,
            None => {
                let Some(block) = self.attach() else {
                    add_shared(1, bytes);
                    return None;
                };
                if !self.allocated(bytes) {
                    return None;
                }
                block
            }
        };
        // A new epoch begins with this allocation.
        if block.renew() && !block.pass(bytes) {
            return None;
        }
        block.draw();
        Some(block)
    }

    /// The thread's block, which it gets now if it has none. None for a thread that is over.
    #[cold]
    #[inline(never)]
    fn attach(&self) -> Option<&'static Block> {
        if let Some(block) = self.block.get() {
            return Some(block);
        }
        if self.turns.get() >= TURNS {
            return None;
        }
        // The kernel may be asked for memory, and the caller of an allocator does not expect that its
        // errno changes.
        let errno = Errno::keep();
        let block = lease().then(|| take().or_else(make)).flatten();
        errno.restore();
        let block = block?;
        block.is_owned.store(true, Relaxed);
        block.tid.store(Tid::own().0, Relaxed);
        CHANGES.fetch_add(1, Relaxed);
        block.renew();
        block.before.set(block.sum());
        self.block.set(Some(block));
        self.enter(self.stage.get());
        Some(block)
    }

    /// The thread has no block any more, and gets none.
    fn detach(&self) {
        if let Some(block) = self.block.take() {
            self.counters.set(ptr::null());
            block.leave();
        }
    }

    /// Counts for `stage` from now on; the one before. *Steady* but for a thread that has no block: it
    /// gets one, so that its stage is seen where the program's allocator isn't ours.
    #[inline]
    pub(super) fn enter(&self, stage: u8) -> u8 {
        let before = self.stage.replace(stage);
        match self.block.get() {
            Some(block) => {
                self.counters.set(&raw const block.counters[usize::from(stage)]);
                block.stage.0.store(stage, Relaxed);
            }
            // It comes back here.
            None if stage != 0 => _ = self.attach(),
            None => {}
        }
        before
    }

    pub(super) fn stage(&self) -> u8 {
        self.stage.get()
    }

    /// What the thread did so far; nothing for a thread without block.
    pub(super) fn counts(&self) -> Counts {
        let Some(block) = self.attach() else { return Counts::default() };
        let (now, mut before) = (block.sum(), Counts::default());
        block.before.add_to(&mut before);
        Counts {
            allocations: now.allocations - before.allocations,
            allocated_bytes: now.allocated_bytes - before.allocated_bytes,
            frees: now.frees - before.frees,
            freed_bytes: now.freed_bytes - before.freed_bytes,
        }
    }

    /// Makes the next allocation a sample that is [wanted for itself](Self::is_calibrating).
    pub(super) fn calibrate(&self, is_wanted: bool) {
        if let Some(block) = self.attach() {
            block.renew();
            match is_wanted {
                true => block.left.store(-1, Relaxed),
                false => block.draw(),
            }
        }
        self.walked.set(None);
        self.is_calibrating.set(is_wanted);
    }

    pub(super) fn is_calibrating(&self) -> bool {
        self.is_calibrating.get()
    }

    /// The frames of the sample that was wanted for itself.
    pub(super) fn walked(&self) -> &Cell<Option<usize>> {
        &self.walked
    }

    pub(super) fn block(&self) -> Option<&'static Block> {
        self.block.get()
    }

    /// Whether it holds everything because it forks.
    pub(super) fn is_forking(&self) -> &Cell<bool> {
        &self.is_forking
    }

    /// Whether the thread is in the profiler: its allocations pass, its frees wait.
    pub(super) fn is_inside(&self) -> &Cell<bool> {
        &self.is_inside
    }
}

impl Block {
    fn leave(&'static self) {
        self.tid.store(0, Relaxed);
        self.stage.0.store(0, Relaxed);
        CHANGES.fetch_add(1, Relaxed);
        self.is_owned.store(false, Relaxed);
        give(self, self);
    }
}

/// How often the end of a thread asks key by key whether there is something to destroy.
const TURNS: u8 = 4;

/// The key whose destructor takes the block back, plus one; 0 before it is made.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Asks to be told when this thread ends; whether that worked.
fn lease() -> bool {
    let mut key = KEY.load(Acquire);
    if key == 0 {
        let mut made = 0;
        // SAFETY: `made` is written to; the destructor has the type that is asked for.
        if unsafe { libc::pthread_key_create(&raw mut made, Some(ending)) } != 0 {
            return false;
        }
        key = match KEY.compare_exchange(0, made + 1, AcqRel, Acquire) {
            Ok(_) => made + 1,
            Err(others) => {
                // SAFETY: nobody else has seen this key.
                unsafe { libc::pthread_key_delete(made) };
                others
            }
        };
    }
    // SAFETY: the key was made; its value says nothing but that there is one.
    unsafe { libc::pthread_setspecific(key - 1, ptr::without_provenance(1)) == 0 }
}

/// Called when a thread ends. Other destructors may come later and allocate, so that the block is kept
/// until the last turn.
extern "C" fn ending(_: *mut c_void) {
    LOCAL.with(|local| {
        let turn = local.turns.get() + 1;
        local.turns.set(turn);
        if turn >= TURNS || !lease() {
            local.turns.set(TURNS);
            local.detach();
        }
    });
}

/// What all threads did, by stage.
pub(super) fn counts_by_stage() -> [Counts; STAGES] {
    let mut sums = [Counts::default(); STAGES];
    SHARED.add_to(&mut sums[0]);
    blocks(|block| {
        for (sum, counters) in sums.iter_mut().zip(&block.counters) {
            counters.add_to(sum);
        }
    });
    sums
}

/// In the child of a fork: the other threads are gone, and their blocks are there for new ones.
pub(super) fn forked() {
    let own = LOCAL.with(|local| local.block.get());
    blocks(|block| {
        if block.is_owned.load(Relaxed) && own.is_none_or(|own| !ptr::eq(block, own)) {
            block.leave();
        }
    });
    if let Some(own) = own {
        own.tid.store(Tid::own().0, Relaxed);
    }
}

/// The calling thread's errno, kept while something of ours may change it.
pub(super) struct Errno(i32);

impl Errno {
    pub(super) fn keep() -> Self {
        // SAFETY: the address is that of this thread's errno.
        Errno(unsafe { *libc::__errno_location() })
    }

    pub(super) fn restore(self) {
        // SAFETY: the address is that of this thread's errno.
        unsafe { *libc::__errno_location() = self.0 };
    }
}
