//! Families whose values are asked for: what callbacks and collectors said, or by how much that is more
//! than they said last.
//!
//! The series come in a [`Column`], where each keeps its place for as long as it and those before it are
//! told every time. So the places are compared, and only where that fails is anything looked up.

use std::sync::Arc;

use hashbrown::HashTable;

use crate::attributes::Attributes;
use crate::observed::{Column, NumberType};

use super::Interval;
use super::rows::difference;
use super::snapshot::{Collected, Columns, Form, Keys, Meta};
use super::temporality::Temporality;

/// What a reader knows of a family whose values are asked for.
pub(super) struct Asked {
    pub(super) meta: Arc<Meta>,
    /// When it was registered, in tenths of a second since the registry began.
    since: u32,
    /// When the reader last got something of it, the same and in nanoseconds since 1970.
    told: Option<(u32, u64)>,
    keys: Arc<Keys>,
    /// What each was the last time, where that is needed.
    last: Vec<u64>,
    number_type: NumberType,
    shared: Arc<Columns>,
}

impl Asked {
    pub(super) fn new(meta: Meta, since: u32) -> Self {
        Asked {
            meta: Arc::new(meta),
            since,
            told: None,
            keys: Arc::default(),
            last: Vec::new(),
            number_type: NumberType::default(),
            shared: Arc::default(),
        }
    }

    fn is_delta(&self) -> bool {
        self.meta.temporality == Some(Temporality::Delta)
    }

    fn is_monotonic(&self) -> bool {
        matches!(self.meta.form, Form::Sum { is_monotonic: true })
    }

    /// Since when a series is counted that was not there the last time.
    fn start(&self) -> u32 {
        self.told.map_or(self.since, |(told, _)| told.max(self.since))
    }

    /// Takes over what was said. *Steady* for the same series as the last time.
    pub(super) fn collect(
        &mut self,
        column: &Column,
        own_times: &[(u64, u64)],
        interval: &Interval,
    ) -> Option<Collected> {
        self.follow(column);
        let mut columns = Columns::take(&mut self.shared);
        columns.own_times.extend_from_slice(own_times);
        let (number_type, words) = column.words();
        columns.number_type = number_type;
        columns.count = words.len();
        columns.words.reserve_exact(words.len());
        match (self.is_delta(), self.is_monotonic()) {
            (true, is_monotonic) => {
                let of_last = words
                    .iter()
                    .zip(&mut self.last)
                    .map(|(&now, last)| difference(number_type, is_monotonic, now, last));
                columns.words.extend(of_last);
            }
            (false, true) => {
                columns.words.extend_from_slice(words);
                self.start_those_that_fell(words);
            }
            (false, false) => columns.words.extend_from_slice(words),
        }
        columns.give(&mut self.shared);
        self.collected(interval)
    }

    /// The same for what is no number: `fill` makes a record of each word.
    pub(super) fn collect_records(
        &mut self,
        column: &Column,
        own_times: &[(u64, u64)],
        interval: &Interval,
        fill: impl FnOnce(&[u64], &mut Columns),
    ) -> Option<Collected> {
        self.follow(column);
        let mut columns = Columns::take(&mut self.shared);
        columns.own_times.extend_from_slice(own_times);
        let (_, words) = column.words();
        columns.count = words.len();
        fill(words, &mut columns);
        columns.give(&mut self.shared);
        self.collected(interval)
    }

    fn collected(&mut self, interval: &Interval) -> Option<Collected> {
        let told = self.told.replace((interval.started, interval.now));
        (self.shared.count > 0).then(|| Collected {
            meta: self.meta.clone(),
            keys: self.keys.clone(),
            columns: self.shared.clone(),
            previous: Some(told.map_or(0, |(_, now)| now)),
        })
    }

    /// Has the keys and what is known of each in the column's order.
    fn follow(&mut self, column: &Column) {
        let sets = column.sets();
        let known = &self.keys.sets;
        let is_same =
            known.len() == sets.len() && known.iter().zip(sets).all(|(one, other)| one.is(other));
        if !is_same {
            self.rearrange(sets);
        }
        let (number_type, _) = column.words();
        if number_type != self.number_type {
            for last in &mut self.last {
                let number = self.number_type.number(*last);
                *last = match number_type {
                    NumberType::Float => number.as_f64().to_bits(),
                    _ => number.as_f64() as i64 as u64,
                };
            }
            self.number_type = number_type;
        }
    }

    #[cold]
    fn rearrange(&mut self, sets: &[Attributes]) {
        let has_last = self.is_delta() || self.is_monotonic();
        let start = self.start();
        let is_longer = self.keys.sets.iter().zip(sets).all(|(one, other)| one.is(other))
            && sets.len() > self.keys.sets.len();
        let keys = Arc::make_mut(&mut self.keys);
        if is_longer {
            let more = sets.len() - keys.sets.len();
            keys.sets.reserve_exact(more);
            keys.sets.extend_from_slice(&sets[keys.sets.len()..]);
            keys.started.reserve_exact(more);
            keys.started.resize(sets.len(), start);
            if has_last {
                self.last.reserve_exact(more);
                self.last.resize(sets.len(), 0);
            }
            return;
        }
        let hash = |known: &[Attributes], at: u32| known[at as usize].hash();
        let mut by_set = HashTable::with_capacity(keys.sets.len());
        for at in 0..keys.sets.len() as u32 {
            by_set.insert_unique(hash(&keys.sets, at), at, |&at| hash(&keys.sets, at));
        }
        let mut now = Keys::default();
        let mut last = Vec::new();
        now.started.reserve_exact(sets.len());
        for set in sets {
            let before = by_set.find(set.hash(), |&at| keys.sets[at as usize].is(set));
            let before = before.map(|&at| at as usize);
            now.started.push(before.map_or(start, |at| keys.started[at]));
            if has_last {
                last.push(before.map_or(0, |at| self.last[at]));
            }
        }
        now.sets = sets.to_vec();
        *keys = now;
        self.last = last;
    }

    /// A sum that is less than it was began again since the last collection.
    fn start_those_that_fell(&mut self, words: &[u64]) {
        let is_less = |now: u64, last: u64| match self.number_type {
            NumberType::Unsigned => now < last,
            NumberType::Signed => now.cast_signed() < last.cast_signed(),
            NumberType::Float => f64::from_bits(now) < f64::from_bits(last),
        };
        let any = words.iter().zip(&self.last).any(|(&now, &last)| is_less(now, last));
        if any {
            let start = self.start();
            let keys = Arc::make_mut(&mut self.keys);
            let fell = words.iter().zip(&self.last).zip(&mut keys.started);
            for ((&now, &last), started) in fell {
                if is_less(now, last) {
                    *started = start;
                }
            }
        }
        self.last.copy_from_slice(words);
    }

    /// The bytes on the heap, without those of the sets.
    pub(super) fn memory_usage(&self) -> usize {
        self.keys.memory_usage() + self.shared.memory_usage() + self.last.capacity() * 8
    }
}
