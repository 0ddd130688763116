//! Families with handles: what their rows hold, or by how much that is more than at the last collection.
//!
//! A row keeps its place in the reader's columns. Whose it is, is known by its set and by when the series
//! began. A collection of differences goes over the rows twice:
//!
//! 1. Rows that are no series any more, for what was added since the last collection until they ended.
//! 2. The series. One that is new and has the set of one that ended takes what that had left, so that no
//!    set is there twice.
//!
//! The family's table is locked for one segment at a time.

use std::sync::Arc;

use hashbrown::HashTable;

use crate::attributes::Attributes;
use crate::native;
use crate::observed::NumberType;
use crate::segment::{Segment, State};
use crate::shape::{self, Shape};
use crate::table::Core;

use super::Interval;
use super::snapshot::{Collected, Columns, Form, Keys, Meta};
use super::temporality::Temporality;

/// What a reader knows of a family with handles.
pub(super) struct Rows {
    pub(super) core: Arc<Core>,
    pub(super) meta: Arc<Meta>,
    number_type: NumberType,
    keys: Arc<Keys>,
    /// When the series of each row began, which with its set is its identity.
    born: Vec<u32>,
    /// What each row held at the last collection, where differences are wanted.
    last: Vec<u64>,
    last_native: Vec<native::Snapshot>,
    /// What was collected last.
    shared: Arc<Columns>,
    /// What is being collected.
    columns: Columns,
}

/// A row that the reader has not seen yet.
const UNSEEN: u32 = u32::MAX;

/// What is needed during a collection, for all families one after the other.
#[derive(Default)]
pub(super) struct Scratch {
    totals: Vec<u64>,
    native: [native::Snapshot; 3],
    ended: Ended,
}

/// What series that ended have left to tell.
#[derive(Default)]
struct Ended {
    /// Where they were, and whether another took what they had.
    places: Vec<(u32, bool)>,
    words: Vec<u64>,
    natives: Vec<native::Snapshot>,
    by_set: HashTable<u32>,
}

impl Ended {
    fn clear(&mut self) {
        self.places.clear();
        self.words.clear();
        self.natives.clear();
        self.by_set.clear();
    }

    /// A row has so much left to tell; rows of one set tell it together.
    #[cold]
    fn add(
        &mut self,
        place: u32,
        keys: &Keys,
        shape: &Shape,
        more: &[u64],
        more_native: &native::Snapshot,
    ) {
        let places = &self.places;
        let set = |at: u32| &keys.sets[places[at as usize].0 as usize];
        let own = &keys.sets[place as usize];
        let known = self.by_set.find(own.hash(), |&at| set(at).is(own)).map(|&at| at as usize);
        match (known, shape) {
            (Some(at), Shape::Native(_)) => self.natives[at].merge(more_native),
            (Some(at), _) => {
                let width = shape.width();
                for (index, word) in self.words[at * width..][..width].iter_mut().enumerate() {
                    *word = word_type(shape, index).sum(*word, more[index]);
                }
            }
            (None, _) => {
                let at = self.places.len() as u32;
                self.places.push((place, false));
                match shape {
                    Shape::Native(layout) => {
                        // With room for what may be merged with it.
                        let mut native = native::Snapshot::new();
                        native.clear(layout);
                        native.merge(more_native);
                        self.natives.push(native);
                    }
                    _ => self.words.extend_from_slice(more),
                }
                let places = &self.places;
                let hash = |at: u32| keys.sets[places[at as usize].0 as usize].hash();
                self.by_set.insert_unique(hash(at), at, |&at| hash(at));
            }
        }
    }

    /// Which of them had `set`; it is taken.
    fn take(&mut self, set: &Attributes, keys: &Keys) -> Option<usize> {
        let places = &self.places;
        let is_it = |&at: &u32| keys.sets[places[at as usize].0 as usize].is(set);
        let at = self.by_set.find_entry(set.hash(), is_it).ok()?.remove().0 as usize;
        self.places[at].1 = true;
        Some(at)
    }
}

/// By how much a number is more than it was last, which it is from now on; all of it if it began again.
/// One that is not finite is no more, and the last stays.
#[inline]
pub(super) fn difference(
    number_type: NumberType,
    is_monotonic: bool,
    now: u64,
    last: &mut u64,
) -> u64 {
    if number_type == NumberType::Float {
        let value = f64::from_bits(now);
        if !value.is_finite() {
            return 0.0f64.to_bits();
        }
        let more = value - f64::from_bits(std::mem::replace(last, now));
        return if is_monotonic && more < 0.0 { now } else { more.to_bits() };
    }
    let more = now.wrapping_sub(std::mem::replace(last, now));
    if is_monotonic && more.cast_signed() < 0 { now } else { more }
}

/// What a word of a cell is of.
fn word_type(shape: &Shape, index: usize) -> NumberType {
    match shape {
        Shape::Signed => NumberType::Signed,
        Shape::Float => NumberType::Float,
        Shape::Explicit(bounds) if index > bounds.len() => NumberType::Float,
        _ => NumberType::Unsigned,
    }
}

impl NumberType {
    fn sum(self, one: u64, other: u64) -> u64 {
        match self {
            NumberType::Float => (f64::from_bits(one) + f64::from_bits(other)).to_bits(),
            _ => one.wrapping_add(other),
        }
    }

    fn less(self, word: u64, other: u64) -> u64 {
        match self {
            NumberType::Float => (f64::from_bits(word) - f64::from_bits(other)).to_bits(),
            _ => word.wrapping_sub(other),
        }
    }
}

impl Rows {
    pub(super) fn new(core: Arc<Core>, meta: Meta) -> Self {
        let number_type = word_type(&core.shape, 0);
        Rows {
            core,
            meta: Arc::new(meta),
            number_type,
            keys: Arc::default(),
            born: Vec::new(),
            last: Vec::new(),
            last_native: Vec::new(),
            shared: Arc::default(),
            columns: Columns::default(),
        }
    }

    fn is_delta(&self) -> bool {
        self.meta.temporality == Some(Temporality::Delta)
    }

    /// Takes what ended before the reader began as told.
    pub(super) fn skip_ended(&mut self, scratch: &mut Scratch) {
        if self.is_delta() {
            scratch.ended.clear();
            let all = Interval { started: u32::MAX, ..Interval::default() };
            self.read_ended(&all, scratch);
        }
    }

    /// Reads the family. *Steady* but for new series.
    pub(super) fn collect(
        &mut self,
        interval: &Interval,
        scratch: &mut Scratch,
    ) -> Option<Collected> {
        self.begin_collection(interval, scratch);
        self.collect_series(interval, scratch)
    }

    /// The first pass.
    fn begin_collection(&mut self, interval: &Interval, scratch: &mut Scratch) {
        self.columns = Columns::take(&mut self.shared);
        self.columns.number_type = self.number_type;
        if !self.is_delta() {
            let rows = self.core.len();
            self.columns.places.reserve_exact(rows);
            if !matches!(self.core.shape, Shape::Native(_)) {
                self.columns.words.reserve_exact(rows * self.core.shape.width());
            }
        }
        scratch.ended.clear();
        if self.is_delta() {
            self.read_ended(interval, scratch);
        }
    }

    /// The second.
    fn collect_series(&mut self, interval: &Interval, scratch: &mut Scratch) -> Option<Collected> {
        self.each_segment(|rows, segment, sets, base| {
            for (row, set) in sets.iter().enumerate() {
                let created = segment.created(row);
                if let Some(set) = set
                    && segment.state(row) == State::Live
                    && created <= interval.started
                {
                    let from = rows.meet(base + row, set, created, scratch);
                    rows.read(segment, row, base + row, from, interval, scratch);
                }
            }
            segment.forget_visits();
        });
        for at in 0..scratch.ended.places.len() {
            if let (place, false) = scratch.ended.places[at] {
                self.tell_ended(place, at, scratch);
            }
        }
        self.finish()
    }

    fn finish(&mut self) -> Option<Collected> {
        let mut columns = std::mem::take(&mut self.columns);
        let count = columns.places.len();
        columns.count = count;
        columns.give(&mut self.shared);
        (count > 0).then(|| Collected {
            meta: self.meta.clone(),
            keys: self.keys.clone(),
            columns: self.shared.clone(),
            previous: None,
        })
    }

    fn each_segment(
        &mut self,
        mut look: impl FnMut(&mut Self, &Arc<Segment>, &[Option<Attributes>], usize),
    ) {
        let core = self.core.clone();
        let mut base = 0;
        for at in 0.. {
            let length = core.look(|table| {
                let (segment, sets) = (table.segments.get(at)?, table.sets.get(at)?);
                if self.born.len() < base + segment.len() {
                    self.make_room(table.segments.iter().map(|segment| segment.len()).sum());
                }
                look(self, segment, sets, base);
                Some(segment.len())
            });
            let Some(length) = length else { return };
            base += length;
        }
    }

    fn make_room(&mut self, rows: usize) {
        let more = rows - self.born.len();
        let keys = Arc::make_mut(&mut self.keys);
        keys.sets.reserve_exact(more);
        keys.sets.resize(rows, self.core.shared.sets.empty());
        keys.started.reserve_exact(more);
        keys.started.resize(rows, 0);
        self.born.reserve_exact(more);
        self.born.resize(rows, UNSEEN);
        match &self.core.shape {
            _ if !self.is_delta() => {}
            Shape::Native(_) => self.last_native.resize_with(rows, native::Snapshot::new),
            shape => {
                let words = rows * shape.width();
                self.last.reserve_exact(words - self.last.len());
                self.last.resize(words, 0);
            }
        }
    }

    fn is_known(&self, place: usize, set: &Attributes, created: u32) -> bool {
        self.born[place] == created && self.keys.sets[place].is(set)
    }

    /// Makes sure that the row is known as the series that it is; tells which of those that ended had the
    /// same set: another, or this one, which a handle brought back since.
    #[inline]
    fn meet(
        &mut self,
        place: usize,
        set: &Attributes,
        created: u32,
        scratch: &mut Scratch,
    ) -> Option<usize> {
        if !self.is_known(place, set, created) {
            self.begin(place, set, created);
        } else if scratch.ended.by_set.is_empty() {
            return None;
        }
        let from = scratch.ended.take(set, &self.keys)?;
        // It counts on from where that stood.
        let before = scratch.ended.places[from].0 as usize;
        if before != place {
            let keys = Arc::make_mut(&mut self.keys);
            keys.started[place] = keys.started[before];
        }
        let width = self.core.shape.width();
        let left = scratch.ended.words.get(from * width..(from + 1) * width).unwrap_or_default();
        let last = self.last.get_mut(place * width..(place + 1) * width).unwrap_or_default();
        // So that what the other had left is part of the difference.
        for (at, (last, left)) in last.iter_mut().zip(left).enumerate() {
            *last = word_type(&self.core.shape, at).less(*last, *left);
        }
        Some(from)
    }

    /// Another series has the row now.
    #[cold]
    fn begin(&mut self, place: usize, set: &Attributes, created: u32) {
        let keys = Arc::make_mut(&mut self.keys);
        keys.sets[place] = set.clone();
        keys.started[place] = created;
        self.born[place] = created;
        let width = self.core.shape.width();
        if let Some(last) = self.last.get_mut(place * width..(place + 1) * width) {
            last.fill(0);
        }
        if let Some(last) = self.last_native.get_mut(place) {
            *last = native::Snapshot::new();
        }
    }

    /// What ended rows have left to tell.
    fn read_ended(&mut self, interval: &Interval, scratch: &mut Scratch) {
        self.each_segment(|rows, segment, sets, base| {
            for (row, set) in sets.iter().enumerate() {
                let Some(set) = set else { continue };
                let created = segment.created(row);
                if segment.state(row) == State::Live || created > interval.started {
                    continue;
                }
                let place = base + row;
                if !rows.is_known(place, set, created) {
                    rows.begin(place, set, created);
                }
                if rows.more(segment, row, place, scratch) {
                    let Scratch { totals, native, ended } = &mut *scratch;
                    ended.add(place as u32, &rows.keys, &segment.shape, totals, &native[2]);
                }
            }
        });
    }

    /// Puts by how much a row is more than at the last collection into the scratch, which is the last
    /// from now on; says whether it is any more.
    fn more(&mut self, segment: &Segment, row: usize, place: usize, scratch: &mut Scratch) -> bool {
        let Scratch { totals, native: [total, cell, more], .. } = scratch;
        match &segment.shape {
            Shape::Native(layout) => {
                if !shape::native(segment, row, layout, total, cell) {
                    return false;
                }
                more.assign(total);
                more.subtract(&self.last_native[place]);
                let is_more = more.finite_count() > 0;
                if is_more {
                    self.last_native[place].assign(total);
                }
                is_more
            }
            Shape::Explicit(bounds) => {
                totals.resize(bounds.len() + 2, 0);
                shape::buckets(segment, row, totals);
                let width = totals.len();
                more_in_buckets(totals, &mut self.last[place * width..][..width])
            }
            _ => {
                let (_, now) = NumberType::of(shape::number(segment, row));
                let last = &mut self.last[place];
                let is_monotonic = matches!(self.meta.form, Form::Sum { is_monotonic: true });
                let before = *last;
                totals.clear();
                totals.push(difference(self.number_type, is_monotonic, now, last));
                *last != before
            }
        }
    }

    /// Reads one series. `from` had the same set and ended.
    #[inline]
    fn read(
        &mut self,
        segment: &Segment,
        row: usize,
        place: usize,
        from: Option<usize>,
        interval: &Interval,
        scratch: &mut Scratch,
    ) {
        if self.is_delta() {
            if let Shape::Unsigned | Shape::Signed | Shape::Float = segment.shape {
                // The most frequent by far: straight into the column.
                let (_, now) = NumberType::of(shape::number(segment, row));
                let last = &mut self.last[place];
                let before = *last;
                if now == before {
                    return;
                }
                let is_monotonic = matches!(self.meta.form, Form::Sum { is_monotonic: true });
                let more = difference(self.number_type, is_monotonic, now, last);
                if *last != before {
                    self.columns.words.push(more);
                    self.columns.places.push(place as u32);
                    self.exemplars(segment, row, interval);
                }
                return;
            }
            let is_more = self.more(segment, row, place, scratch);
            let Scratch { native: [_, _, more], ended, .. } = &mut *scratch;
            match (&segment.shape, from) {
                (Shape::Native(layout), Some(from)) => {
                    if !is_more {
                        more.clear(layout);
                    }
                    more.merge(&ended.natives[from]);
                }
                _ if !is_more => return,
                _ => {}
            }
            self.put(segment, place, 2, scratch);
        } else {
            let Scratch { totals, native: [total, cell, _], .. } = &mut *scratch;
            match &segment.shape {
                Shape::Native(layout) => {
                    if !shape::native(segment, row, layout, total, cell) {
                        return;
                    }
                }
                Shape::Explicit(bounds) => {
                    totals.resize(bounds.len() + 2, 0);
                    shape::buckets(segment, row, totals);
                }
                _ => {
                    let (_, word) = NumberType::of(shape::number(segment, row));
                    self.columns.words.push(word);
                    self.columns.places.push(place as u32);
                    return self.exemplars(segment, row, interval);
                }
            }
            self.put(segment, place, 0, scratch);
        }
        self.exemplars(segment, row, interval);
    }

    /// Makes a point of what is in the scratch.
    fn put(&mut self, segment: &Segment, place: usize, native: usize, scratch: &Scratch) {
        let columns = &mut self.columns;
        columns.places.push(place as u32);
        match segment.shape {
            Shape::Native(_) => columns.push_native(&scratch.native[native]),
            _ => columns.words.extend_from_slice(&scratch.totals),
        }
    }

    fn tell_ended(&mut self, place: u32, at: usize, scratch: &Scratch) {
        let columns = &mut self.columns;
        columns.places.push(place);
        let width = self.core.shape.width();
        match &self.core.shape {
            Shape::Native(_) => columns.push_native(&scratch.ended.natives[at]),
            _ => columns.words.extend_from_slice(&scratch.ended.words[at * width..][..width]),
        }
    }

    /// Exemplars of the point that was put last.
    #[inline]
    fn exemplars(&mut self, segment: &Segment, row: usize, interval: &Interval) {
        let Some(exemplars) = segment.known_exemplars() else { return };
        let columns = &mut self.columns;
        let point = columns.places.len() as u32 - 1;
        for place in 0..segment.shape.exemplars() {
            if let Some(exemplar) = exemplars.get(row, place)
                && exemplar.time_ms >= interval.previous_ms
            {
                columns.exemplars.push((point, exemplar));
            }
        }
    }

    /// The bytes on the heap, without those of the sets.
    pub(super) fn memory_usage(&self) -> usize {
        let natives = self.last_native.iter().map(native::Snapshot::memory_usage);
        self.keys.memory_usage()
            + self.shared.memory_usage()
            + self.born.capacity() * 4
            + self.last.capacity() * 8
            + self.last_native.capacity() * size_of::<native::Snapshot>()
            + natives.sum::<usize>()
    }
}

/// Makes differences of buckets and their sum; says whether anything was counted.
fn more_in_buckets(totals: &mut [u64], last: &mut [u64]) -> bool {
    let Some((sum, counts)) = totals.split_last_mut() else { return false };
    let Some((last_sum, last_counts)) = last.split_last_mut() else { return false };
    let is_same = counts == last_counts;
    if is_same {
        return false;
    }
    for (count, last) in counts.iter_mut().zip(last_counts) {
        *count = difference(NumberType::Unsigned, true, *count, last);
    }
    let more = f64::from_bits(*sum) - f64::from_bits(*last_sum);
    *last_sum = std::mem::replace(sum, more.to_bits());
    true
}

impl Columns {
    /// A native histogram, in words: its head, then the counts of both sides.
    fn push_native(&mut self, native: &native::Snapshot) {
        if self.begins.is_empty() {
            self.begins.push(self.words.len());
        }
        let (positive, negative) = (native.positive(), native.negative());
        self.words.extend_from_slice(&[
            i64::from(native.schema()).cast_unsigned(),
            native.zero_threshold().to_bits(),
            native.zero_count(),
            native.finite_sum().to_bits(),
            i64::from(positive.first()).cast_unsigned(),
            positive.counts().len() as u64,
            i64::from(negative.first()).cast_unsigned(),
        ]);
        self.words.extend_from_slice(positive.counts());
        self.words.extend_from_slice(negative.counts());
        self.begins.push(self.words.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::{Known, Points, Reader, Temporalities};
    use crate::{Buckets, Registry, Spec};

    /// Has something done between the two passes of a collection, and tells how many points each family
    /// has and what they count.
    fn collect_around(reader: &mut Reader, between: impl FnOnce()) -> Vec<Vec<u64>> {
        reader.current.families.clear();
        reader.follow();
        let started = reader.registry.shared().clock.begin_collection();
        let interval = Interval { started, now: 1, ..Interval::default() };
        let mut scratches: Vec<Scratch> = Vec::new();
        for known in &mut reader.sources {
            let Known::Rows(rows) = known else { continue };
            let mut scratch = Scratch::default();
            rows.begin_collection(&interval, &mut scratch);
            scratches.push(scratch);
        }
        between();
        for (known, scratch) in reader.sources.iter_mut().zip(&mut scratches) {
            let Known::Rows(rows) = known else { continue };
            reader.current.families.extend(rows.collect_series(&interval, scratch));
        }
        if let Some(place) = &reader.place {
            place.advance(started);
        }
        let batch = reader.current.batch();
        let counts = batch.metrics().map(|metric| match metric.points() {
            Points::Sum { points, .. } => points.map(|point| point.value.as_f64() as u64).collect(),
            Points::Histogram(points) => points.map(|point| point.count()).collect(),
            Points::ExponentialHistogram(points) => points.map(|point| point.count()).collect(),
            _ => Vec::new(),
        });
        counts.collect()
    }

    #[test]
    fn a_series_that_comes_back_between_the_passes_is_told_once() {
        let registry = Registry::new();
        let counter = registry.counter(("a_total", ""), ["x"]).unwrap();
        let float = registry.float_counter(("b_total", ""), ["x"]).unwrap();
        let explicit = registry.histogram(("c", ""), ["x"], [1.0]).unwrap();
        let native = registry.histogram(("d", ""), ["x"], Buckets::native()).unwrap();
        let held =
            (counter.with(["1"]), float.with(["1"]), explicit.with(["1"]), native.with(["1"]));
        let mut reader = Reader::new(&registry, Temporalities::DELTA);
        let record = |times: u64| {
            held.0.add(times);
            held.1.add(times as f64);
            for _ in 0..times {
                held.2.record(0.5);
                held.3.record(0.5);
            }
        };
        let remove = || {
            assert!(counter.remove(["1"]) && float.remove(["1"]));
            assert!(explicit.remove(["1"]) && native.remove(["1"]));
        };
        record(5);
        assert_eq!(collect_around(&mut reader, || ()), vec![vec![5]; 4]);
        record(2);
        remove();
        assert_eq!(collect_around(&mut reader, || record(3)), vec![vec![5]; 4], "2 and 3");
        assert_eq!(collect_around(&mut reader, || ()), Vec::<Vec<u64>>::new());
        record(1);
        assert_eq!(collect_around(&mut reader, remove), Vec::<Vec<u64>>::new(), "ended meanwhile");
        assert_eq!(collect_around(&mut reader, || ()), vec![vec![1]; 4]);
    }

    #[test]
    fn what_ended_is_told_under_its_own_name_though_others_come() {
        let registry = Registry::new();
        // So few that rows which ended are soon another's, read or not.
        let spec = Spec::new("a_total", "").limit(10);
        let counter = registry.counter(spec, ["x"]).unwrap();
        let mut reader = Reader::new(&registry, Temporalities::DELTA);
        counter.with(["old"]).add(2);
        counter.remove(["old"]);
        // Others come and go until one, which stays, has the row.
        let news = || {
            for x in 0..2_000 {
                let x = x.to_string();
                counter.with([&x]).add(1);
                if registry.shared().collected.lost() > 0 {
                    return;
                }
                counter.remove([&x]);
            }
        };
        assert_eq!(collect_around(&mut reader, news), [[2]]);
        assert!(reader.lost() > 0, "the row is another's");
        let whose = reader.current.batch().metrics().next().unwrap();
        let whose: Vec<_> = whose.attributes().map(|set| set.labels().as_str()).collect();
        assert_eq!(whose, ["x=\"old\""]);
    }
}
