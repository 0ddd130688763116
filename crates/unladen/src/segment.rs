//! The cells of series, and how several threads write them without waiting for each other.
//!
//! A series has one *cell*: a few words, one for a counter, a word per bucket and a sum for a histogram.
//! The first thread that uses the series becomes its owner and from then on writes with plain loads and
//! stores, which take a third of an atomic addition. Other threads use, in this order,
//!
//! 1. the *shared* cell, by atomic read-modify-write; memory for it is there once any series of the
//!    segment needed it;
//! 2. when that is used much between two collections, a *crowd*: a cell for each of a few threads, each
//!    on cache lines of its own. The first owner goes there as well, so that the words which everybody
//!    reads are written by nobody.
//!
//! The value of a series is the sum of all its cells. Nothing is ever set back while the series lives:
//! who wants differences keeps what it read last.
//!
//! Rows come in segments that never move, so that a handle is a segment and a place in it. A row goes to
//! another series only when it has no handle.

use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};
use std::sync::{Arc, LazyLock, OnceLock, Weak};

use crate::attributes::Attributes;
use crate::exemplar::Exemplars;
use crate::shape::Shape;
use crate::table::Core;
use crate::thread::{self, NOBODY};

/// No thread has used the series yet.
const UNOWNED: u16 = 0;
/// All threads use the crowd. No thread has this number, nor the next one.
const CROWDED: u16 = NOBODY - 1;
/// Set beside the owner: the series is not in its family, being expired or beyond the limit. The owner
/// stays known, because one that is in the middle of a use must stay the only one who writes its cell.
const CLOSED: u16 = 1 << 15;
const _: () = assert!(thread::MOST < CROWDED && NOBODY < CLOSED);

/// So many uses of a shared cell between two collections are worth a crowd.
const CROWD_FROM: u16 = 4096;

/// Words from one cell of a crowd to the next are a multiple of this: two cache lines, since processors
/// fetch them in pairs.
const APART: usize = 16;

/// Threads that have a cell of their own in a crowd, those with the lowest numbers; others go on sharing.
static CROWD: LazyLock<usize> = LazyLock::new(|| {
    let at_once = std::thread::available_parallelism().map_or(4, usize::from);
    (4 * at_once).next_power_of_two().clamp(16, 256)
});

/// What a row is in its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Not a series.
    Free = 0,
    /// A series.
    Live = 1,
    /// Was one until it was idle for too long, or removed; handles to it are still about.
    Expired = 2,
}

/// What is known of a row besides its cell.
#[derive(Default)]
struct Head {
    owner: AtomicU16,
    handles: AtomicU16,
    state: AtomicU8,
    /// Whether it was used since expiry was last looked after.
    is_used: AtomicU8,
}

/// Cells that any thread may write.
struct SharedCells {
    cells: Cells,
    /// Uses of each row's since the last collection.
    visits: Box<[AtomicU16]>,
}

/// A handle given out beyond its family's limit.
struct Waiting {
    set: Attributes,
    /// The series once there was room for it.
    series: OnceLock<Row>,
}

/// Cells one behind the other.
type Cells = Box<[AtomicU64]>;

/// Rows beside each other.
pub(crate) struct Segment {
    family: Weak<Core>,
    pub(crate) shape: Shape,
    width: usize,
    heads: Box<[Head]>,
    /// When each series began, in tenths of a second since the registry did.
    created: Box<[AtomicU32]>,
    words: Cells,
    shared: OnceLock<SharedCells>,
    /// For each row a cell for each of a few threads, by their numbers.
    crowds: OnceLock<Box<[OnceLock<Cells>]>>,
    /// Words from one cell of a crowd to the next.
    stride: usize,
    exemplars: OnceLock<Exemplars>,
    waiting: Option<Waiting>,
}

fn zeros(count: usize) -> Cells {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

impl Segment {
    /// So many free rows. *Growth.*
    pub(crate) fn new(family: Weak<Core>, shape: Shape, rows: usize) -> Self {
        let width = shape.width();
        Segment {
            family,
            shape,
            width,
            heads: (0..rows).map(|_| Head::default()).collect(),
            created: (0..rows).map(|_| AtomicU32::new(0)).collect(),
            words: zeros(rows * width),
            shared: OnceLock::new(),
            crowds: OnceLock::new(),
            stride: (width + APART / 2).next_multiple_of(APART),
            exemplars: OnceLock::new(),
            waiting: None,
        }
    }

    /// The one row of a handle that has to wait for room. *Growth.*
    pub(crate) fn waiting(family: Weak<Core>, shape: Shape, set: Attributes) -> Self {
        let waiting = Some(Waiting { set, series: OnceLock::new() });
        let head = Head { owner: AtomicU16::new(CLOSED), ..Head::default() };
        Segment {
            family,
            shape,
            width: 0,
            heads: Box::new([head]),
            created: Box::default(),
            words: Box::default(),
            shared: OnceLock::new(),
            crowds: OnceLock::new(),
            stride: APART,
            exemplars: OnceLock::new(),
            waiting,
        }
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    pub(crate) fn state(&self, row: usize) -> State {
        match self.heads[row].state.load(Relaxed) {
            1 => State::Live,
            2 => State::Expired,
            _ => State::Free,
        }
    }

    /// When the series began, in tenths of a second since the registry did.
    pub(crate) fn created(&self, row: usize) -> u32 {
        self.created[row].load(Relaxed)
    }

    pub(crate) fn handles(&self, row: usize) -> u16 {
        self.heads[row].handles.load(Acquire)
    }

    /// Makes a free row a series at zero.
    pub(crate) fn begin(&self, row: usize, created: u32) {
        let cell = row * self.width..(row + 1) * self.width;
        self.words[cell.clone()].iter().for_each(|word| word.store(0, Relaxed));
        if let Some(shared) = self.shared.get() {
            shared.cells[cell].iter().for_each(|word| word.store(0, Relaxed));
            shared.visits[row].store(0, Relaxed);
        }
        let mut owner = UNOWNED;
        // An empty one stands for the bound on all of a family's crowds.
        if let Some(crowd) = self.crowd(row).filter(|crowd| !crowd.is_empty()) {
            crowd.iter().for_each(|word| word.store(0, Relaxed));
            owner = CROWDED;
        }
        if let Some(exemplars) = self.exemplars.get() {
            exemplars.clear(row);
        }
        let head = &self.heads[row];
        self.created[row].store(created, Relaxed);
        head.owner.store(owner | CLOSED, Relaxed);
        self.open(row);
    }

    /// Lets threads use the row, which is a series from now on.
    pub(crate) fn open(&self, row: usize) {
        let head = &self.heads[row];
        head.is_used.store(1, Relaxed);
        head.state.store(State::Live as u8, Relaxed);
        // Who finds the row unowned sees its zeros.
        head.owner.fetch_and(!CLOSED, Release);
    }

    /// Ends the series. Its value stays readable, and a use from now on asks the family first.
    pub(crate) fn close(&self, row: usize, state: State) {
        self.heads[row].owner.fetch_or(CLOSED, Relaxed);
        self.heads[row].state.store(state as u8, Relaxed);
    }

    /// Whether the row was used since this was last asked.
    pub(crate) fn take_used(&self, row: usize) -> bool {
        self.heads[row].is_used.swap(0, Relaxed) != 0
    }

    /// Forgets how often shared cells were used: what counts is how often it happens.
    pub(crate) fn forget_visits(&self) {
        if let Some(shared) = self.shared.get() {
            shared.visits.iter().for_each(|visits| visits.store(0, Relaxed));
        }
    }

    #[inline]
    fn crowd(&self, row: usize) -> Option<&[AtomicU64]> {
        Some(self.crowds.get()?.get(row)?.get()?)
    }

    #[inline]
    fn cell<'c>(&self, cells: &'c [AtomicU64], row: usize) -> &'c [AtomicU64] {
        &cells[row * self.width..][..self.width]
    }

    /// Has each cell of a series looked at: the owner's, the shared one, the crowd's. *Steady.*
    #[inline]
    pub(crate) fn each_cell(&self, row: usize, mut look: impl FnMut(&[AtomicU64])) {
        look(self.cell(&self.words, row));
        if let Some(shared) = self.shared.get() {
            look(self.cell(&shared.cells, row));
            if let Some(crowd) = self.crowd(row) {
                crowd.chunks_exact(self.stride).for_each(|cell| look(&cell[..self.width]));
            }
        }
    }

    /// The exemplars of the segment's rows, `each` for every row. *Growth* the first time.
    pub(crate) fn exemplars(&self, each: usize) -> &Exemplars {
        self.exemplars.get_or_init(|| Exemplars::new(self.len(), each))
    }

    /// The exemplars if there were any.
    pub(crate) fn known_exemplars(&self) -> Option<&Exemplars> {
        self.exemplars.get()
    }

    /// The bytes on the heap.
    pub(crate) fn memory_usage(&self) -> usize {
        let words = |cells: &[AtomicU64]| size_of_val(cells);
        let crowds = self.crowds.get().map_or(0, |crowds| {
            let of_rows = crowds.iter().filter_map(OnceLock::get).map(|crowd| words(crowd));
            size_of_val(&**crowds) + of_rows.sum::<usize>()
        });
        size_of::<Segment>()
            + size_of_val(&*self.heads)
            + size_of_val(&*self.created)
            + words(&self.words)
            + self.shared.get().map_or(0, |shared| words(&shared.cells) + 2 * self.len())
            + crowds
            + self.exemplars.get().map_or(0, Exemplars::memory_usage)
    }

    /// Writes to the cell of `row` that belongs to this thread with `owned`, which need not expect
    /// another writer, or else to the shared one with `shared`, which has to. *Steady*; the first use by
    /// another thread than the owner, and a crowd, are *growth*.
    #[inline]
    pub(crate) fn update(
        &self,
        row: usize,
        owned: impl Fn(&[AtomicU64]),
        shared: impl Fn(&[AtomicU64]),
    ) {
        let me = thread::current();
        let head = &self.heads[row];
        let owner = head.owner.load(Acquire);
        if owner == me {
            head.touch();
            owned(self.cell(&self.words, row));
        } else if owner == CROWDED
            && let Some(crowd) = self.crowd(row)
            && let Some(cell) = crowd.get(usize::from(me) * self.stride..)
            && !cell.is_empty()
        {
            // A number belongs to one thread, and so does the cell.
            head.touch();
            owned(cell);
        } else {
            // Kept apart, so that what is above fits into its caller.
            self.update_otherwise(row, me, owned, shared);
        }
    }

    #[inline(never)]
    fn update_otherwise(
        &self,
        row: usize,
        me: u16,
        owned: impl Fn(&[AtomicU64]),
        shared: impl Fn(&[AtomicU64]),
    ) {
        self.update_elsewhere(row, me, &owned, &shared);
    }

    /// Writes to the one cell that all threads use, with `write`, which has to expect others. *Steady.*
    #[inline]
    pub(crate) fn update_single(&self, row: usize, write: impl Fn(&[AtomicU64])) {
        let head = &self.heads[row];
        if head.owner.load(Acquire) & CLOSED == 0 {
            head.touch();
            write(self.cell(&self.words, row));
        } else if let Some(series) = self.settled() {
            series.update_single_elsewhere(&write);
        } else if let Some(series) = self.reopen(row) {
            series.update_single_elsewhere(&write);
        }
    }

    /// The series of a handle that had to wait for room and has found it.
    fn settled(&self) -> Option<&Row> {
        self.waiting.as_ref()?.series.get()
    }

    #[inline(never)]
    fn update_elsewhere(
        &self,
        row: usize,
        me: u16,
        owned: &dyn Fn(&[AtomicU64]),
        shared: &dyn Fn(&[AtomicU64]),
    ) {
        let head = &self.heads[row];
        let owner = head.owner.load(Acquire);
        if owner & CLOSED != 0 {
            if let Some(series) = self.settled() {
                series.update(owned, shared);
            } else if let Some(series) = self.reopen(row) {
                series.update(owned, shared);
            }
            return;
        }
        head.touch();
        if owner == UNOWNED && me != NOBODY {
            // Who loses the race finds the owner there, or the row closed.
            if head.owner.compare_exchange(UNOWNED, me, Acquire, Relaxed).is_ok() {
                return owned(self.cell(&self.words, row));
            }
            return self.update_elsewhere(row, me, owned, shared);
        }
        let others = self.shared.get_or_init(|| SharedCells {
            cells: zeros(self.len() * self.width),
            visits: (0..self.len()).map(|_| AtomicU16::new(0)).collect(),
        });
        shared(self.cell(&others.cells, row));
        let visits = others.visits[row].load(Relaxed);
        if owner != CROWDED && visits < CROWD_FROM {
            others.visits[row].store(visits + 1, Relaxed);
            if visits + 1 == CROWD_FROM {
                self.gather(row);
            }
        }
    }

    /// Sends everybody to the crowd, unless there are too many crowds already.
    #[cold]
    fn gather(&self, row: usize) {
        let Some(family) = self.family.upgrade() else { return };
        let crowds = self.crowds.get_or_init(|| (0..self.len()).map(|_| OnceLock::new()).collect());
        let words = *CROWD * self.stride;
        let mut is_allowed = true;
        let crowd = crowds[row].get_or_init(|| {
            is_allowed = family.allows_crowd(words);
            if is_allowed { zeros(words) } else { Box::default() }
        });
        if crowd.is_empty() {
            return;
        }
        // A row that was closed meanwhile stays so, and comes back without its crowd.
        let head = &self.heads[row];
        let now = head.owner.load(Relaxed);
        if now & CLOSED == 0 {
            let _ = head.owner.compare_exchange(now, CROWDED, Release, Relaxed);
        }
    }

    /// Where a use of a closed row goes: into the series that it stands for if there is room for it, or
    /// else into the overflow. Nowhere without a family, since nobody will ever read it.
    #[cold]
    fn reopen(&self, row: usize) -> Option<Row> {
        let family = self.family.upgrade()?;
        let series = match &self.waiting {
            None => family.revive(self, row),
            Some(waiting) => family
                .find_room(&waiting.set)
                .map(|series| waiting.series.get_or_init(|| series).clone()),
        };
        Some(series.unwrap_or_else(|| family.overflow()))
    }
}

impl Head {
    #[inline]
    fn touch(&self) {
        // A store only where it changes something: the line is read by others.
        if self.is_used.load(Relaxed) == 0 {
            self.is_used.store(1, Relaxed);
        }
    }
}

/// A held series. As long as there is one its row stays the series'.
pub(crate) struct Row {
    segment: Arc<Segment>,
    index: u32,
}

impl Row {
    /// Holds the row; the caller has the family's table locked, or holds another handle.
    pub(crate) fn hold(segment: &Arc<Segment>, index: usize) -> Self {
        let handles = &segment.heads[index].handles;
        // One that was held 65,535 times at once is held for ever: what is lost is a row's reuse.
        let _ = handles.fetch_update(Relaxed, Relaxed, |handles| handles.checked_add(1));
        Row { segment: segment.clone(), index: index as u32 }
    }

    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.index as usize
    }

    #[inline]
    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Where its value is: elsewhere than here for a handle that had to wait for room.
    pub(crate) fn settled(&self) -> &Row {
        match &self.segment.waiting {
            Some(waiting) => waiting.series.get().unwrap_or(self),
            None => self,
        }
    }

    /// Whether it is this one.
    pub(crate) fn is_at(&self, segment: &Arc<Segment>, index: usize) -> bool {
        Arc::ptr_eq(&self.segment, segment) && self.index() == index
    }

    /// Whether it stands for a series that there was no room for.
    pub(crate) fn is_waiting(&self) -> bool {
        self.settled().segment.waiting.is_some()
    }

    /// See [`Segment::update`].
    #[inline]
    pub(crate) fn update(&self, owned: impl Fn(&[AtomicU64]), shared: impl Fn(&[AtomicU64])) {
        self.segment.update(self.index(), owned, shared);
    }

    #[inline(never)]
    fn update_single_elsewhere(&self, write: &dyn Fn(&[AtomicU64])) {
        self.update_single(write);
    }

    /// See [`Segment::update_single`].
    #[inline]
    pub(crate) fn update_single(&self, write: impl Fn(&[AtomicU64])) {
        self.segment.update_single(self.index(), write);
    }
}

impl Clone for Row {
    fn clone(&self) -> Self {
        Row::hold(&self.segment, self.index())
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        let handles = &self.segment.heads[self.index()].handles;
        let one_less = |handles: u16| (handles != u16::MAX).then(|| handles.saturating_sub(1));
        let _ = handles.fetch_update(Release, Relaxed, one_less);
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row").field("index", &self.index).finish_non_exhaustive()
    }
}
