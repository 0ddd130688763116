//! Families written straight from a program's own state, without registering them.
//!
//! A program that has a table of two million objects does not want two million handles: it walks its
//! table when it is asked, and writes. That a family is not interleaved with another is checked by the
//! compiler, since [`Samples`] borrows the writer; that no family comes twice in a body is checked while
//! writing. That a family has no series twice is the collector's duty, because checking it would take
//! memory for every series: [`Registry::check`](crate::Registry::check) does it in a test.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use wire::exposition::Kind;
use wire::exposition::writer::{
    Buckets, Extra, Family, LabelSet, StoredLabels, Summary, Value, Writer,
};

/// Writes families when it is asked. Two scrapes may ask at once.
pub trait Collector: Send + Sync {
    /// Writes all families. What it holds locked is locked for as long as the slowest reader of the
    /// body takes; copy what is small.
    fn collect(&self, out: &mut FamilyWriter<'_, '_>);
}

impl<C: Collector + ?Sized> Collector for std::sync::Arc<C> {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        (**self).collect(out);
    }
}

/// The names written so far in one body; kept from body to body for its memory.
#[derive(Debug, Default)]
pub(crate) struct Names {
    text: String,
    places: HashTable<(usize, usize)>,
    hasher: RandomState,
}

impl Names {
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.places.clear();
    }

    /// Whether `name` is new.
    fn insert(&mut self, name: &str) -> bool {
        let hash = self.hasher.hash_one(name);
        let text = &self.text;
        let at = |&(begin, end): &(usize, usize)| &text[begin..end];
        if self.places.find(hash, |place| at(place) == name).is_some() {
            return false;
        }
        let begin = self.text.len();
        self.text.push_str(name);
        let (text, hasher) = (&self.text, &self.hasher);
        self.places.insert_unique(hash, (begin, self.text.len()), |&(begin, end)| {
            hasher.hash_one(&text[begin..end])
        });
        true
    }
}

/// Takes families, one after the other.
pub struct FamilyWriter<'w, 's> {
    writer: &'w mut Writer<'s>,
    names: &'w mut Names,
    refused: u64,
}

impl<'w, 's> FamilyWriter<'w, 's> {
    pub(crate) fn new(writer: &'w mut Writer<'s>, names: &'w mut Names) -> Self {
        names.clear();
        FamilyWriter { writer, names, refused: 0 }
    }

    /// Begins a counter; its name ends in `_total`.
    pub fn counter(&mut self, name: &str, help: &str) -> Samples<'_, 's> {
        self.family(&Family::new(name, help, Kind::Counter))
    }

    /// Begins a gauge.
    pub fn gauge(&mut self, name: &str, help: &str) -> Samples<'_, 's> {
        self.family(&Family::new(name, help, Kind::Gauge))
    }

    /// Begins a family. One without a name, or with the name of one that this body has already, is
    /// refused: its samples are left out and it is counted in `unladen_families_refused_total`.
    pub fn family(&mut self, family: &Family<'_>) -> Samples<'_, 's> {
        let is_new = !family.name.is_empty() && self.names.insert(self.writer.name_of(family));
        if is_new {
            self.writer.family(family);
        } else {
            self.refused += 1;
        }
        Samples { writer: self.writer, is_open: is_new }
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }
}

/// Takes the samples of one family. *Steady.*
pub struct Samples<'f, 's> {
    writer: &'f mut Writer<'s>,
    is_open: bool,
}

impl Samples<'_, '_> {
    /// A sample with these labels.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Into<Value>) {
        self.number(LabelSet::Pairs(labels), value, &Extra::NONE);
    }

    /// A sample with labels that were stored beforehand: one copy.
    pub fn stored(&mut self, labels: &StoredLabels, value: impl Into<Value>) {
        self.number(labels.into(), value, &Extra::NONE);
    }

    /// A sample with all that may stand in its line: a timestamp, a creation, an exemplar.
    pub fn number(&mut self, labels: LabelSet<'_>, value: impl Into<Value>, extra: &Extra<'_>) {
        if self.is_open {
            self.writer.number(labels, value.into(), extra);
        }
    }

    /// A histogram, in a family of those.
    pub fn histogram<C>(&mut self, labels: LabelSet<'_>, buckets: Buckets<'_, C>)
    where
        C: IntoIterator<Item = u64>,
    {
        if self.is_open {
            self.writer.histogram(labels, buckets);
        }
    }

    /// A summary, in a family of those.
    pub fn summary(&mut self, labels: LabelSet<'_>, summary: &Summary<'_>) {
        if self.is_open {
            self.writer.summary(labels, summary);
        }
    }
}
