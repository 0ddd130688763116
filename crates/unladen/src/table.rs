//! The series of one family: found by their attributes, bounded in number, removed when idle.
//!
//! A series is a row of a segment ([`segment`](crate::segment)) and a set of attributes
//! ([`attributes`](crate::attributes)). The table that leads from one to the other is locked for writing
//! when a series comes or goes, and for reading by look-ups that this thread has not made before and by
//! collections, which never keep the lock while somebody waits for their output.
//!
//! 1. An unresolved use hashes its attributes and asks the thread's own cache of rows.
//! 2. What is not there is looked for in the table, and what is not there becomes a new series.
//! 3. At the family's limit, further sets share the overflow series. A handle to one of them is asked
//!    again at every use whether there is room by now.
//! 4. A series that is idle for too long leaves the table's count and every exposition. Its row stays as
//!    long as a handle holds it, and the next use of that handle brings it back where it stood.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock, Weak};

use hashbrown::HashTable;
use parking_lot::RwLock;
use wire::exposition::Kind;

use crate::attributes::{self, Attribute, Attributes, Gathered, Given, Order, Sets};
use crate::clock::Clock;
use crate::described::{Described, Role};
use crate::reader::Progress;
use crate::segment::{Row, Segment, State};
use crate::shape::Shape;

/// What stands for every set of attributes that came after the limit was reached: the attribute that
/// OpenTelemetry gives this series.
pub(crate) const OVERFLOW: (&str, &str) = ("otel_metric_overflow", "true");

/// A segment's rows are a power of two, of which at most this.
const MOST_ROWS: usize = 1024;

/// Words in a segment, unless a single row is longer.
const MOST_WORDS: usize = 8192;

/// So many rows, or the family's limit if that is more, may wait to be read by delta readers.
const LEAST_UNREAD: usize = 1024;

/// Words in the crowds of a family, 8 MiB: beyond these, threads use the shared cells.
const MOST_CROWDED: usize = 1 << 20;

/// What all families of a registry share.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) sets: Sets,
    pub(crate) clock: Clock,
    /// Up to when every delta reader has collected; only rows that ended before that may become other
    /// series.
    pub(crate) collected: Progress,
}

/// A family's series.
pub(crate) struct Core {
    me: Weak<Core>,
    pub(crate) described: Described,
    pub(crate) shape: Shape,
    pub(crate) shared: Arc<Shared>,
    /// Tells families apart in the threads' caches.
    id: u64,
    rows_shift: u32,
    is_full: AtomicBool,
    /// Words in crowds.
    crowded: AtomicUsize,
    expiry_due: AtomicU32,
    overflow: OnceLock<Row>,
    table: RwLock<Table>,
}

/// Which rows there are.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Beside the segments: whose row it is, or was as long as it is free.
    pub(crate) sets: Vec<Box<[Option<Attributes>]>>,
    /// Rows that are series or may come back as such.
    by_set: HashTable<u32>,
    /// Free rows below `next` and when each ended, which is the order they stand in.
    free: VecDeque<(u32, u32)>,
    /// Rows of series that ended while they were held; to be free once they are not.
    ended: VecDeque<u32>,
    next: u32,
    live: usize,
    /// When each row was used last, as far as was looked after; empty in a family without expiry.
    used: Vec<u32>,
}

/// Looks after expiry in the time that a series may be idle.
const LOOKS: u32 = 4;

/// So many rows of ended series are looked at whenever a row is taken: more than can end meanwhile.
const LOOKED_AT: usize = 4;

/// So many rows are looked at for expiry while the table is locked.
const EXPIRED_AT_ONCE: u32 = 1024;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Core {
    pub(crate) fn new(described: Described, shape: Shape, shared: Arc<Shared>) -> Arc<Self> {
        let most = (MOST_WORDS / shape.width()).clamp(1, MOST_ROWS);
        Arc::new_cyclic(|me| Core {
            me: me.clone(),
            described,
            shape,
            shared,
            id: NEXT_ID.fetch_add(1, Relaxed),
            rows_shift: most.ilog2(),
            is_full: AtomicBool::new(false),
            crowded: AtomicUsize::new(0),
            expiry_due: AtomicU32::new(0),
            overflow: OnceLock::new(),
            table: RwLock::default(),
        })
    }

    /// The handle of the series with these attributes; of a waiting one at the limit. *Growth*: a known
    /// one is found under a lock without allocating.
    pub(crate) fn with<'a>(&self, given: impl Given<'a>) -> Row {
        if self.described.keep.is_some() || !self.are_fitting(given.clone()) {
            return self.with_kept(self.gathered(given).iter());
        }
        self.with_kept(given)
    }

    /// Whether all names may stand in an exposition of this family.
    fn are_fitting<'a>(&self, mut given: impl Given<'a>) -> bool {
        given.all(|attribute| self.fitting(&attribute).is_some_and(|name| name == attribute.name))
    }

    fn fitting<'a>(&self, attribute: &Attribute<'a>) -> Option<&'a str> {
        attributes::fitting(attribute.name, self.described.role == Role::Histogram)
    }

    /// What is kept of what is given, under names that may stand in an exposition, each once.
    fn gathered<'a>(&self, given: impl Given<'a>) -> Gathered<'a> {
        let kept = given.filter(|attribute| self.described.keeps(attribute.name));
        let fitting = |attribute| Some(Attribute { name: self.fitting(&attribute)?, ..attribute });
        Gathered::new(kept.filter_map(fitting))
    }

    /// The handle of the series with attributes that are stored already.
    pub(crate) fn with_stored(&self, set: &Attributes) -> Row {
        // Those of another registry are stored in this one, so that a set is one place in memory.
        let pairs: Vec<_> = set.iter().collect();
        let given = pairs.iter().map(|(name, value, value_type)| Attribute {
            name,
            value,
            value_type: *value_type,
        });
        if self.described.keep.is_none()
            && self.are_fitting(given.clone())
            && self.shared.sets.has(set)
        {
            return self.with_set(set);
        }
        self.with(given)
    }

    fn with_kept<'a>(&self, given: impl Given<'a>) -> Row {
        let hash = attributes::hash(given.clone());
        if let Some((row, _)) = self.find(hash, &given) {
            return row;
        }
        self.with_set(&self.shared.sets.get(hash, given))
    }

    /// As [`with`](Core::with), of a stored set.
    pub(crate) fn with_set(&self, set: &Attributes) -> Row {
        self.find_room(set).unwrap_or_else(|| {
            // Its own row, which belongs to no series until there is room.
            let waiting = Segment::waiting(self.me.clone(), self.shape.clone(), set.clone());
            Row::hold(&Arc::new(waiting), 0)
        })
    }

    /// The live series with these attributes.
    fn find<'a>(&self, hash: u64, given: &impl Given<'a>) -> Option<(Row, Attributes)> {
        let table = self.table.read();
        let is_it = |set: &Attributes| set.is_set_of(hash, given.clone());
        let (at, row) = self.place(table.find(hash, self.rows_shift, is_it)?);
        let segment = &table.segments[at];
        let set = table.sets[at][row].clone()?;
        (segment.state(row) == State::Live).then(|| (Row::hold(segment, row), set))
    }

    /// The series of `set`, revived or made unless the family is full. *Growth.*
    pub(crate) fn find_room(&self, set: &Attributes) -> Option<Row> {
        if self.is_full.load(Relaxed) {
            // Expiry and removal say so when there is room again. A known series is found all the same.
            let table = self.table.read();
            let known = table.find(set.hash(), self.rows_shift, |other| other.is(set))?;
            let (segment, row) = self.place(known);
            let segment = &table.segments[segment];
            return (segment.state(row) == State::Live).then(|| Row::hold(segment, row));
        }
        let mut table = self.table.write();
        let known = table.find(set.hash(), self.rows_shift, |other| other.is(set));
        if let Some((segment, row)) = known.map(|row| self.place(row))
            && table.segments[segment].state(row) == State::Live
        {
            return Some(Row::hold(&table.segments[segment], row));
        }
        let now = self.shared.clock.now();
        if table.live >= self.described.limit {
            self.is_full.store(true, Relaxed);
            drop(table);
            // Where nobody collects nobody looks after expiry either.
            self.expire(now);
            return if self.is_full.load(Relaxed) { None } else { self.find_room(set) };
        }
        let row = known.unwrap_or_else(|| self.take_row(&mut table, set));
        table.live += 1;
        let (segment, place) = self.place(row);
        let segment = &table.segments[segment];
        match known {
            Some(_) => segment.open(place),
            None => segment.begin(place, now),
        }
        if let Some(used) = table.used.get_mut(row as usize) {
            *used = now;
        }
        Some(Row::hold(&table.segments[self.place(row).0], place))
    }

    /// A row that belongs to `set` from now on.
    fn take_row(&self, table: &mut Table, set: &Attributes) -> u32 {
        self.free_some(table);
        let collected = self.shared.collected.least();
        // A reader that never collects must not keep rows without end.
        let is_pressed = table.free.len() >= self.described.limit.max(LEAST_UNREAD);
        let may_go = |&mut (_, ended): &mut (u32, u32)| ended < collected || is_pressed;
        let row = match table.free.pop_front_if(may_go) {
            Some((row, ended)) => {
                if ended >= collected {
                    self.shared.collected.lose();
                }
                row
            }
            None => {
                table.next += 1;
                table.next - 1
            }
        };
        let (segment, place) = self.place(row);
        if segment == table.segments.len() {
            // The first two segments have one row, then each as many as there are before it.
            let rows = (row as usize).clamp(1, 1 << self.rows_shift);
            let new = Segment::new(self.me.clone(), self.shape.clone(), rows);
            table.segments.push(Arc::new(new));
            table.sets.push((0..rows).map(|_| None).collect());
            if self.described.idle.is_some() {
                table.used.resize(row as usize + rows, 0);
            }
        }
        table.sets[segment][place] = Some(set.clone());
        let (sets, shift) = (&table.sets, self.rows_shift);
        table.by_set.insert_unique(set.hash(), row, |&row| {
            let (segment, place) = place_of(row, shift);
            sets[segment][place].as_ref().map_or(0, Attributes::hash)
        });
        row
    }

    fn place(&self, row: u32) -> (usize, usize) {
        place_of(row, self.rows_shift)
    }

    /// A closed row was used: its series lives on if there is room.
    pub(crate) fn revive(&self, segment: &Segment, row: usize) -> Option<Row> {
        let set = {
            let table = self.table.read();
            let at = table.segments.iter().position(|known| std::ptr::eq(&**known, segment))?;
            table.sets[at][row].clone()?
        };
        self.find_room(&set)
    }

    /// The series that stands for all that there was no room for.
    pub(crate) fn overflow(&self) -> Row {
        let overflow = self.overflow.get_or_init(|| {
            let given = [OVERFLOW].into_iter().map(Attribute::from);
            let set = self.shared.sets.get(attributes::hash(given.clone()), given);
            let mut table = self.table.write();
            // Whoever gave these very attributes has the series already.
            let known = table.find(set.hash(), self.rows_shift, |other| other.is(&set));
            let row = known.unwrap_or_else(|| self.take_row(&mut table, &set));
            let (segment, place) = self.place(row);
            let rows = &table.segments[segment];
            match (known, rows.state(place)) {
                (Some(_), State::Live) => {}
                (Some(_), _) => rows.open(place),
                (None, _) => rows.begin(place, self.shared.clock.now()),
            }
            Row::hold(rows, place)
        });
        overflow.clone()
    }

    /// Whether so many words may go into another crowd.
    pub(crate) fn allows_crowd(&self, words: usize) -> bool {
        let fits = |held: usize| held.checked_add(words).filter(|held| *held <= MOST_CROWDED);
        self.crowded.fetch_update(Relaxed, Relaxed, fits).is_ok()
    }

    /// Uses the series with these attributes, which is found in the thread's own cache if it was there
    /// lately. *Steady* for a known one, in any order of its attributes.
    #[inline]
    pub(crate) fn use_series<'a>(&self, given: impl Given<'a>, write: impl Fn(&Row)) {
        if self.described.keep.is_some() {
            return self.use_gathered(given, &write);
        }
        if self.use_last(given.clone(), &write) {
            return;
        }
        let hash = attributes::hash(given.clone());
        if !self.use_cached(hash, given.clone(), &write) {
            self.use_uncached(hash, given, &write);
        }
    }

    /// Whether it is what this thread used last, and was used: without hashing.
    #[inline]
    fn use_last<'a>(&self, given: impl Given<'a>, write: &impl Fn(&Row)) -> bool {
        let done = CACHE.try_with(|cache| {
            let cache = cache.borrow();
            let known = cache.places.get(cache.last.get())?.as_ref()?;
            let is_it =
                known.family == self.id && known.set.is_set_in_order(known.order.get(), given);
            is_it.then(|| write(&known.row))
        });
        done.is_ok_and(|done| done.is_some())
    }

    /// Whether it is in this thread's cache, and was used.
    #[inline]
    fn use_cached<'a>(&self, hash: u64, given: impl Given<'a>, write: &impl Fn(&Row)) -> bool {
        let done = CACHE.try_with(|cache| {
            let cache = cache.borrow();
            let place = cache.place(self.id, hash);
            let known = cache.places.get(place)?.as_ref()?;
            if known.family != self.id || !known.set.is_set_of(hash, given.clone()) {
                return None;
            }
            if cache.last.replace(place) == place {
                // Twice in a row, so it is only given in another order.
                known.order.set(known.set.order_of(given));
            }
            write(&known.row);
            Some(())
        });
        done.is_ok_and(|done| done.is_some())
    }

    /// The same where a view keeps some attributes only, a name stands twice, or may not stand in an
    /// exposition. Allocates for more than 16 of them.
    #[inline(never)]
    fn use_gathered<'a>(&self, given: impl Given<'a>, write: &dyn Fn(&Row)) {
        let gathered = self.gathered(given);
        let hash = attributes::hash(gathered.iter());
        if !self.use_cached(hash, gathered.iter(), &write) {
            self.use_uncached(hash, gathered.iter(), write);
        }
    }

    #[inline(never)]
    fn use_uncached<'a>(&self, hash: u64, given: impl Given<'a>, write: &dyn Fn(&Row)) {
        let (row, set) = match self.find(hash, &given) {
            Some(found) => found,
            None if attributes::repeats(given.clone()) || !self.are_fitting(given.clone()) => {
                return self.use_gathered(given, write);
            }
            None if self.is_full.load(Relaxed) => return write(&self.overflow()),
            None => {
                let set = self.shared.sets.get(hash, given.clone());
                match self.find_room(&set) {
                    Some(row) => (row, set),
                    None => return write(&self.overflow()),
                }
            }
        };
        write(&row);
        // A thread that is ending has no cache any more.
        let order = Cell::new(set.order_of(given));
        let known = Known { family: self.id, row, set, order };
        let _ = CACHE.try_with(|cache| cache.borrow_mut().insert(known));
    }

    /// Takes the series with these attributes out; says whether there was one. The overflow series stays.
    pub(crate) fn remove<'a>(&self, given: impl Given<'a>) -> bool {
        let gathered = self.gathered(given);
        let hash = attributes::hash(gathered.iter());
        let mut table = self.table.write();
        let is_it = |set: &Attributes| set.is_set_of(hash, gathered.iter());
        let Some(row) = table.find(hash, self.rows_shift, is_it) else { return false };
        let (segment, place) = self.place(row);
        let rows = &table.segments[segment];
        if rows.state(place) != State::Live || self.is_overflow(rows, place) {
            return false;
        }
        self.end(&mut table, row);
        true
    }

    /// Ends a live series; its row becomes free unless it is held.
    fn end(&self, table: &mut Table, row: u32) {
        let (segment, place) = self.place(row);
        table.segments[segment].close(place, State::Expired);
        table.live -= 1;
        self.is_full.store(false, Relaxed);
        table.ended.push_back(row);
        self.free_some(table);
    }

    /// Has rows of ended series free that nobody holds any more: a few of them at a time.
    fn free_some(&self, table: &mut Table) {
        for _ in 0..LOOKED_AT.min(table.ended.len()) {
            let Some(row) = table.ended.pop_front() else { return };
            let (segment, place) = self.place(row);
            let rows = &table.segments[segment];
            match rows.state(place) {
                State::Expired if rows.handles(place) == 0 => self.free(table, row),
                State::Expired => table.ended.push_back(row),
                // Came back, or was freed when it ended twice.
                State::Live | State::Free => {}
            }
        }
    }

    fn is_overflow(&self, segment: &Arc<Segment>, place: usize) -> bool {
        self.overflow.get().is_some_and(|overflow| overflow.is_at(segment, place))
    }

    fn free(&self, table: &mut Table, row: u32) {
        let (segment, place) = self.place(row);
        // Free before it can be found again; the set stays for delta readers until the row is another's.
        let Some(hash) = table.sets[segment][place].as_ref().map(Attributes::hash) else { return };
        if let Ok(entry) = table.by_set.find_entry(hash, |&known| known == row) {
            entry.remove();
        }
        table.segments[segment].close(place, State::Free);
        table.free.push_back((row, self.shared.clock.now()));
    }

    /// Looks after expiry if a quarter of the family's idle time has passed since it last did. *Steady*
    /// but for what goes.
    pub(crate) fn expire(&self, now: u32) {
        let Some(idle) = self.described.idle else { return };
        let idle = u32::try_from(idle.as_millis() / 100).unwrap_or(u32::MAX).max(1);
        let due = self.expiry_due.load(Relaxed);
        let next = now.saturating_add((idle / LOOKS).max(1));
        if now < due || self.expiry_due.compare_exchange(due, next, Relaxed, Relaxed).is_err() {
            return;
        }
        let mut from = 0;
        // Others get the table in between.
        while from < self.end_idle(from, now, idle) {
            from += EXPIRED_AT_ONCE;
        }
    }

    /// Ends those of the rows from `from` on that nobody used for `idle`; gives how many rows there are.
    fn end_idle(&self, from: u32, now: u32, idle: u32) -> u32 {
        let mut table = self.table.write();
        for row in from..table.next.min(from.saturating_add(EXPIRED_AT_ONCE)) {
            let (segment, place) = self.place(row);
            let rows = &table.segments[segment];
            if rows.state(place) != State::Live || self.is_overflow(rows, place) {
                continue;
            }
            // What an info says it says as long as somebody holds it.
            let is_said = self.described.kind == Kind::Info && rows.handles(place) > 0;
            if rows.take_used(place) || is_said {
                table.used[row as usize] = now;
            } else if now.saturating_sub(table.used[row as usize]) >= idle {
                self.end(&mut table, row);
            }
        }
        self.free_some(&mut table);
        table.next
    }

    /// How many series there are, the one for the overflow not counted.
    pub(crate) fn len(&self) -> usize {
        self.table.read().live
    }

    /// Has the table looked at; whoever looks must not wait for anybody.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&Table) -> R) -> R {
        look(&self.table.read())
    }

    /// The bytes on the heap, without those of the sets.
    pub(crate) fn memory_usage(&self) -> usize {
        let table = self.table.read();
        let segments: usize = table.segments.iter().map(|segment| segment.memory_usage()).sum();
        let sets: usize = table.sets.iter().map(|sets| size_of_val(&**sets)).sum();
        segments + sets + table.by_set.allocation_size() + table.used.capacity() * 4
    }
}

impl Table {
    fn find(&self, hash: u64, shift: u32, is_it: impl Fn(&Attributes) -> bool) -> Option<u32> {
        let found = self.by_set.find(hash, |&row| {
            let (segment, place) = place_of(row, shift);
            self.sets[segment][place].as_ref().is_some_and(|set| set.hash() == hash && is_it(set))
        });
        found.copied()
    }
}

/// The segment of a row and its place there. Segments have 1, 1, 2, 4, … rows, and 2^`shift` from there.
fn place_of(row: u32, shift: u32) -> (usize, usize) {
    let bits = u32::BITS - row.leading_zeros();
    if bits <= shift {
        (bits as usize, (row - (1 << bits >> 1)) as usize)
    } else {
        let full = row >> shift;
        ((shift + full) as usize, (row - (full << shift)) as usize)
    }
}

/// What a thread used lately without a handle of its own.
struct Known {
    family: u64,
    row: Row,
    set: Attributes,
    /// In which it is given.
    order: Cell<Order>,
}

/// A table with one place for each hash, which grows while it is too small.
struct Cache {
    places: Vec<Option<Known>>,
    evicted: usize,
    /// The place that was used last.
    last: Cell<usize>,
}

/// Places in a thread's cache at first, and at most.
const CACHE_PLACES: (usize, usize) = (64, 4096);

thread_local! {
    static CACHE: RefCell<Cache> = const { RefCell::new(Cache { places: Vec::new(), evicted: 0, last: Cell::new(0) }) };
}

impl Cache {
    #[inline]
    fn place(&self, family: u64, hash: u64) -> usize {
        (hash ^ family.wrapping_mul(0x9e37_79b9_7f4a_7c15)) as usize
            & self.places.len().wrapping_sub(1)
    }

    fn insert(&mut self, known: Known) {
        let is_small = self.evicted > self.places.len() && self.places.len() < CACHE_PLACES.1;
        if self.places.is_empty() || is_small {
            let larger = (2 * self.places.len()).max(CACHE_PLACES.0);
            let old = std::mem::take(&mut self.places);
            self.places.resize_with(larger, || None);
            self.evicted = 0;
            for known in old.into_iter().flatten() {
                let place = self.place(known.family, known.set.hash());
                self.places[place] = Some(known);
            }
        }
        let place = self.place(known.family, known.set.hash());
        let is_other = |old: &Known| old.family != known.family || !old.set.is(&known.set);
        self.evicted += usize::from(self.places[place].as_ref().is_some_and(is_other));
        self.places[place] = Some(known);
    }
}
