//! What callbacks say: the values of an observable family in one collection.
//!
//! A callback gives the same series in the same order nearly every time. So what it gives is compared
//! with what stood at this place the last time, and only where that fails is anything looked up. A value
//! that is given twice counts once, the last one; a series that is not given any more is gone.
//!
//! A family has a limit of series in a collection, however many others there were in the last:
//!
//! 1. What comes when as many were given goes into one series for all beyond the limit.
//! 2. Until then everything has a place, what was there the last time and what was not.
//! 3. At the end there may be too many, since what was there the last time came late. It keeps its place:
//!    a sum that left it would be told twice. Of the others those that came last go into the one series.

use std::sync::Arc;

use hashbrown::HashTable;
use wire::exposition::writer::{LabelSet, LabelsRef};

use crate::attributes::{self, Attribute, Attributes, Gathered, Given, Sets};
use crate::described::{Described, Role};
use crate::shape::Number;
use crate::table::OVERFLOW;

/// The series of an observable family and their values, kept from one collection to the next.
#[derive(Default)]
pub(crate) struct Column {
    sets: Vec<Attributes>,
    values: Vec<u64>,
    /// Beside them: whether it was given this time.
    is_given: Vec<bool>,
    /// When each began, in tenths of a second since the registry did, as all columns of the family have
    /// it; what collectors write has none.
    created: Arc<Vec<u32>>,
    /// The version of the family's births that it has.
    pub(crate) settled: u64,
    /// Empty until something came out of order.
    by_set: HashTable<u32>,
    type_of: NumberType,
    next: usize,
    given: usize,
    /// How many there were at the begin of the collection.
    known: usize,
    overflow: Option<usize>,
    is_absent: bool,
}

/// What a word is of.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) enum NumberType {
    #[default]
    Unsigned,
    Signed,
    Float,
}

impl NumberType {
    pub(crate) fn of(number: Number) -> (Self, u64) {
        match number {
            Number::Unsigned(value) => (NumberType::Unsigned, value),
            Number::Signed(value) => (NumberType::Signed, value as u64),
            Number::Float(value) => (NumberType::Float, value.to_bits()),
        }
    }

    pub(crate) fn number(self, bits: u64) -> Number {
        match self {
            NumberType::Unsigned => Number::Unsigned(bits),
            NumberType::Signed => Number::Signed(bits as i64),
            NumberType::Float => Number::Float(f64::from_bits(bits)),
        }
    }
}

/// A value of a series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'c> {
    pub(crate) set: &'c Attributes,
    pub(crate) created: u32,
    pub(crate) value: Number,
}

impl Column {
    /// Begins a collection.
    pub(crate) fn begin(&mut self) {
        self.next = 0;
        self.given = 0;
        self.known = self.sets.len();
        self.is_absent = false;
        self.is_given.fill(false);
    }

    /// Ends a collection: what was not given this time is gone.
    pub(crate) fn finish(&mut self) {
        if self.given == self.sets.len() {
            return;
        }
        let overflow = self.overflow.take();
        let mut to = 0;
        for from in 0..self.sets.len() {
            if self.is_given[from] {
                if overflow == Some(from) {
                    self.overflow = Some(to);
                }
                self.sets.swap(from, to);
                self.values.swap(from, to);
                to += 1;
            }
        }
        self.sets.truncate(to);
        self.values.truncate(to);
        self.is_given.truncate(to);
        self.by_set.clear();
        self.settled = 0;
    }

    /// Forgets everything, for a callback that panicked: that nothing was said is not that nothing is.
    pub(crate) fn spoil(&mut self) {
        *self = Column { is_absent: true, ..Column::default() };
    }

    /// Nobody was asked this time, which is not that nothing is.
    pub(crate) fn leave_out(&mut self) {
        self.is_absent = true;
    }

    /// Whether it says nothing, not even that nothing is.
    pub(crate) fn is_absent(&self) -> bool {
        self.is_absent
    }

    /// When each series began, in their order.
    pub(crate) fn set_created(&mut self, created: Arc<Vec<u32>>) {
        self.created = created;
    }

    /// What the series beyond the limit add up to, if there are any.
    pub(crate) fn overflow_value(&self) -> Option<Number> {
        Some(self.get(self.overflow?).value)
    }

    /// What is told of them.
    pub(crate) fn set_overflow_value(&mut self, value: Number) {
        if let Some(at) = self.overflow {
            self.put(at, value);
        }
    }

    /// How many series were given, the one for all beyond the limit not counted.
    fn given_of_their_own(&self) -> usize {
        let overflow = self.overflow.is_some_and(|at| self.is_given[at]);
        self.given - usize::from(overflow)
    }

    /// The series that were given, each in its place for as long as it and those before it are.
    pub(crate) fn sets(&self) -> &[Attributes] {
        &self.sets
    }

    /// Beside them: their values.
    pub(crate) fn words(&self) -> (NumberType, &[u64]) {
        (self.type_of, &self.values)
    }

    /// The place of the value that was given last.
    pub(crate) fn last(&self) -> Option<usize> {
        self.next.checked_sub(1)
    }

    /// Whether the series in a place was given since [`begin`](Column::begin).
    pub(crate) fn was_given(&self, at: usize) -> bool {
        self.is_given.get(at).copied().unwrap_or(false)
    }

    /// How many series were given.
    pub(crate) fn len(&self) -> usize {
        self.sets.len()
    }

    pub(crate) fn get(&self, at: usize) -> Observed<'_> {
        Observed {
            set: &self.sets[at],
            created: self.created.get(at).copied().unwrap_or(0),
            value: self.type_of.number(self.values[at]),
        }
    }

    #[inline]
    fn put(&mut self, at: usize, number: Number) {
        let (type_of, bits) = NumberType::of(number);
        if type_of != self.type_of {
            return self.put_other(at, number);
        }
        self.put_bits(at, bits);
    }

    #[inline]
    fn put_bits(&mut self, at: usize, bits: u64) {
        self.values[at] = bits;
        self.given += usize::from(!self.is_given[at]);
        self.is_given[at] = true;
        self.next = at + 1;
    }

    /// A value of another type than those before: the first of a collection decides, and what does not
    /// fit makes all of them numbers with a fraction.
    #[cold]
    fn put_other(&mut self, at: usize, number: Number) {
        let (type_of, bits) = NumberType::of(number);
        if self.given == 0 {
            self.type_of = type_of;
            return self.put_bits(at, bits);
        }
        for value in &mut self.values {
            *value = self.type_of.number(*value).as_f64().to_bits();
        }
        self.type_of = NumberType::Float;
        self.put_bits(at, number.as_f64().to_bits());
    }

    /// The place of a set that did not come where it was expected.
    #[inline(never)]
    fn find(&mut self, hash: u64, is_it: impl Fn(&Attributes) -> bool) -> Option<usize> {
        let sets = &self.sets;
        if self.by_set.len() != sets.len() {
            self.by_set.clear();
            for (at, set) in sets.iter().enumerate() {
                self.by_set.insert_unique(set.hash(), at as u32, |&at| sets[at as usize].hash());
            }
        }
        self.by_set.find(hash, |&at| is_it(&sets[at as usize])).map(|&at| at as usize)
    }

    /// A place for a new set. *Growth.*
    fn push(&mut self, set: Attributes) -> usize {
        let at = self.sets.len();
        let hash = set.hash();
        self.sets.push(set);
        self.values.push(0);
        self.is_given.push(false);
        self.settled = 0;
        if self.by_set.len() == at {
            let sets = &self.sets;
            self.by_set.insert_unique(hash, at as u32, |&at| sets[at as usize].hash());
        }
        at
    }

    /// The bytes on the heap, without those of the sets.
    pub(crate) fn memory_usage(&self) -> usize {
        self.sets.capacity() * size_of::<Attributes>()
            + self.values.capacity() * 8
            + self.is_given.capacity()
            + self.by_set.allocation_size()
    }
}

/// Takes the values of an observable family, whose series may have any attributes.
pub struct OpenObserver<'o> {
    column: &'o mut Column,
    described: &'o Described,
    sets: &'o Sets,
}

impl<'o> OpenObserver<'o> {
    pub(crate) fn new(column: &'o mut Column, described: &'o Described, sets: &'o Sets) -> Self {
        OpenObserver { column, described, sets }
    }

    /// The value of the series with these attributes now. *Steady* for what came at this place the last
    /// time as well, and for what is known; in any order.
    #[inline]
    pub fn observe(&mut self, value: impl Into<Number>, attributes: &[(&str, &str)]) {
        self.observe_given(value.into(), attributes.iter().map(Attribute::from));
    }

    /// The same, of attributes that are stored already: a comparison and two stores.
    #[inline]
    pub fn observe_stored(&mut self, value: impl Into<Number>, attributes: &Attributes) {
        let value = value.into();
        if self.is_filtered() {
            let pairs: Vec<_> = attributes.iter().collect();
            return self.observe_given(
                value,
                pairs.iter().map(|(name, value, value_type)| Attribute {
                    name,
                    value,
                    value_type: *value_type,
                }),
            );
        }
        let next = self.column.next;
        if self.column.sets.get(next).is_some_and(|set| set.is(attributes)) {
            return self.column.put(next, value);
        }
        let set = || attributes.clone();
        self.observe_at(value, set, attributes.hash(), |set| set == attributes);
    }

    #[inline]
    pub(crate) fn observe_given<'a>(&mut self, value: Number, given: impl Given<'a>) {
        if self.is_filtered() {
            let described = self.described;
            let kept = Gathered::new(given.filter(|a| described.keeps(a.name)));
            return self.observe_unexpected(value, kept.iter());
        }
        let next = self.column.next;
        if self.column.sets.get(next).is_some_and(|set| set.is_list_of(given.clone())) {
            return self.column.put(next, value);
        }
        self.observe_unexpected(value, given);
    }

    /// The same, of labels as an exposition has them. *Steady* for what came at this place the last time
    /// as well; stored ones that are not sorted by name, more than 16 or escaped allocate.
    #[inline]
    pub(crate) fn observe_labels(&mut self, value: Number, labels: LabelSet<'_>) {
        match labels {
            LabelSet::Pairs(pairs) => self.observe_given(value, pairs.iter().map(Attribute::from)),
            LabelSet::Stored(labels) => {
                let next = self.column.next;
                let expected = self.column.sets.get(next);
                if expected.is_some_and(|set| set.labels().as_str() == labels.as_str()) {
                    return self.column.put(next, value);
                }
                self.observe_stored_labels(value, labels);
            }
        }
    }

    #[inline(never)]
    fn observe_stored_labels(&mut self, value: Number, labels: LabelsRef<'_>) {
        let mut few = [Attribute::from(("", "")); 16];
        let mut count = 0;
        for label in labels.iter() {
            match (few.get_mut(count), label.name.as_plain(), label.value.as_plain()) {
                (Some(place), Some(name), Some(value)) => *place = (name, value).into(),
                _ => {
                    let pairs: Vec<_> = labels
                        .iter()
                        .map(|label| (label.name.to_cow(), label.value.to_cow()))
                        .collect();
                    let given = pairs.iter().map(|(name, value)| (&**name, &**value).into());
                    return self.observe_given(value, given);
                }
            }
            count += 1;
        }
        self.observe_given(value, few[..count].iter().copied());
    }

    #[inline(never)]
    fn observe_unexpected<'a>(&mut self, value: Number, given: impl Given<'a>) {
        let hash = attributes::hash(given.clone());
        let is_it = |set: &Attributes| set.is_set_of(hash, given.clone());
        let next = self.column.next;
        if !self.is_filtered() && self.column.sets.get(next).is_some_and(is_it) {
            // Where it was expected, but not sorted by name.
            return self.column.put(next, value);
        }
        if let Some(at) = self.column.find(hash, is_it) {
            return self.put_known(at, value);
        }
        let fitted = |of: Attribute<'a>| {
            Some(Attribute { name: attributes::fitting(of.name, false)?, ..of })
        };
        let is_fitting = |of: Attribute<'a>| fitted(of).is_some_and(|to| to.name == of.name);
        if attributes::repeats(given.clone()) || !given.clone().all(is_fitting) {
            let gathered = Gathered::new(given.filter_map(fitted));
            return self.observe_unexpected(value, gathered.iter());
        }
        let sets = self.sets;
        self.observe_at(value, || sets.get(hash, given.clone()), hash, is_it);
    }

    fn observe_at(
        &mut self,
        value: Number,
        set: impl FnOnce() -> Attributes,
        hash: u64,
        is_it: impl Fn(&Attributes) -> bool,
    ) {
        if let Some(at) = self.column.find(hash, is_it) {
            return self.put_known(at, value);
        }
        if self.column.given_of_their_own() < self.described.limit {
            let at = self.column.push(set());
            self.put_known(at, value);
        } else {
            self.overflow(value);
        }
    }

    /// What a view made the same adds up, unless it is a level.
    fn put_known(&mut self, at: usize, value: Number) {
        let adds_up = self.is_filtered() && self.described.role != Role::Gauge;
        let column = &mut *self.column;
        if adds_up && column.is_given[at] {
            let sum = sum(column.get(at).value, value);
            return self.column.put(at, sum);
        }
        column.put(at, value);
    }

    /// All is given: new series that came before ones with a place, and have none now, go beyond the limit.
    pub(crate) fn finish(mut self) {
        let mut beyond = self.column.given_of_their_own().saturating_sub(self.described.limit);
        for at in (self.column.known..self.column.len()).rev() {
            if beyond == 0 {
                break;
            }
            if self.column.overflow == Some(at) || !self.column.is_given[at] {
                continue;
            }
            beyond -= 1;
            let value = self.column.get(at).value;
            self.column.is_given[at] = false;
            self.column.given -= 1;
            let overflow = self.column.overflow;
            let has_level = self.described.role == Role::Gauge
                && overflow.is_some_and(|at| self.column.is_given[at]);
            if !has_level {
                self.overflow(value);
            }
        }
        self.column.finish();
    }

    fn is_filtered(&self) -> bool {
        self.described.keep.is_some()
    }

    /// One series for all beyond the limit: their sum, or the last of them if they are levels.
    #[cold]
    fn overflow(&mut self, value: Number) {
        let column = &mut *self.column;
        let at = match column.overflow {
            Some(at) => at,
            None => {
                let given = [OVERFLOW].into_iter().map(Attribute::from);
                let set = self.sets.get(attributes::hash(given.clone()), given);
                let at = column.push(set);
                column.overflow = Some(at);
                at
            }
        };
        let before = column.is_given[at].then(|| column.get(at).value);
        let value = match (self.described.role, before) {
            (Role::Gauge, _) | (_, None) => value,
            (_, Some(before)) => sum(before, value),
        };
        column.put(at, value);
    }
}

/// Both together, in their type if they have the same.
pub(crate) fn sum(one: Number, other: Number) -> Number {
    match (one, other) {
        (Number::Unsigned(a), Number::Unsigned(b)) => Number::Unsigned(a.wrapping_add(b)),
        (Number::Signed(a), Number::Signed(b)) => Number::Signed(a.wrapping_add(b)),
        (a, b) => Number::Float(a.as_f64() + b.as_f64()),
    }
}

/// Takes the values of an observable family of `N` labels.
pub struct Observer<'o, 'c, const N: usize> {
    pub(crate) labels: &'o [String; N],
    pub(crate) open: &'o mut OpenObserver<'c>,
}

impl<const N: usize> Observer<'_, '_, N> {
    /// The value of the series with these label values now. *Steady* for what is known.
    #[inline]
    pub fn record(&mut self, values: [&str; N], value: impl Into<Number>) {
        let mut given = [Attribute::from(("", "")); N];
        for (given, (name, value)) in given.iter_mut().zip(self.labels.iter().zip(values)) {
            *given = Attribute::from((name.as_str(), value));
        }
        self.open.observe_given(value.into(), given.iter().copied());
    }
}
