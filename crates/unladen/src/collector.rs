//! Families written straight from a program's own state, without registering them.
//!
//! A program that has a table of two million objects does not want two million handles: it walks its
//! table when it is asked, and writes. That a family is not interleaved with another is checked by the
//! compiler, since [`Samples`] borrows the writer; that no family comes twice in a body is checked while
//! writing. That a family has no series twice is the collector's duty, because checking it would take
//! memory for every series: [`Registry::check`](crate::Registry::check) does it in a test.

use std::cell::Cell;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use wire::exposition::Kind;
use wire::exposition::writer::{
    Bucket, Buckets, Extra, Family, LabelSet, LabelsRef, Native, Summary, Value, Writer,
};

use crate::reader::Gathered;

/// Writes families when it is asked, into the body of a scrape or for a reader. Several may ask at once.
pub trait Collector: Send + Sync {
    /// Writes all families. What it holds locked is locked for as long as the slowest reader of the
    /// body takes; copy what is small. One that panics ends its own families there.
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
    pub(crate) fn insert(&mut self, name: &str) -> bool {
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

/// Where what is written goes.
enum Target<'w, 's> {
    /// Into a body.
    Body(&'w mut Writer<'s>),
    /// To a reader.
    Reader(&'w mut Gathered),
}

impl<'s> Target<'_, 's> {
    #[inline]
    fn reborrow(&mut self) -> Target<'_, 's> {
        match self {
            Target::Body(writer) => Target::Body(writer),
            Target::Reader(gathered) => Target::Reader(gathered),
        }
    }
}

/// Takes families, one after the other.
pub struct FamilyWriter<'w, 's> {
    target: Target<'w, 's>,
    names: &'w mut Names,
    wanted: &'w dyn Wanted,
    /// Nobody takes what is written any more.
    stopped: &'w Cell<bool>,
    refused: u64,
    /// Whether the family that came last was refused, so that other scopes' part of it is, too.
    is_last_refused: bool,
}

/// Which families and series a body is to have.
pub(crate) trait Wanted {
    /// How much of a family it has; `spelt` is the name under which the body has it.
    fn share_of(&self, family: &Family<'_>, spelt: &str) -> Share;
    /// Whether it has a series of these labels, in a family of which it has some. Asked for all series of
    /// a family in their order.
    fn wants_series(&self, labels: LabelSet<'_>) -> bool;
}

/// How much of a family is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// None of it.
    None,
    /// Some series; which, has to be asked.
    #[cfg_attr(not(feature = "endpoint"), expect(dead_code, reason = "only the endpoint filters"))]
    Some,
    /// Every series.
    All,
}

/// All of them.
pub(crate) struct Everything;

impl Wanted for Everything {
    fn share_of(&self, _: &Family<'_>, _: &str) -> Share {
        Share::All
    }
    fn wants_series(&self, _: LabelSet<'_>) -> bool {
        true
    }
}

impl<'w, 's> FamilyWriter<'w, 's> {
    pub(crate) fn new(
        writer: &'w mut Writer<'s>,
        names: &'w mut Names,
        wanted: &'w dyn Wanted,
        stopped: &'w Cell<bool>,
    ) -> Self {
        names.clear();
        FamilyWriter {
            target: Target::Body(writer),
            names,
            wanted,
            stopped,
            refused: 0,
            is_last_refused: false,
        }
    }

    /// For a reader, which keeps the names of all its families.
    pub(crate) fn gathering(
        gathered: &'w mut Gathered,
        names: &'w mut Names,
        stopped: &'w Cell<bool>,
    ) -> Self {
        let target = Target::Reader(gathered);
        FamilyWriter {
            target,
            names,
            wanted: &Everything,
            stopped,
            refused: 0,
            is_last_refused: false,
        }
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
        let spelt = match &mut self.target {
            Target::Body(writer) => writer.name_of(family),
            Target::Reader(_) => family.name,
        };
        let is_new = !family.name.is_empty() && self.names.insert(spelt);
        let share = match is_new && !self.stopped.get() {
            true => self.wanted.share_of(family, spelt),
            false => Share::None,
        };
        self.refused += u64::from(!is_new);
        self.is_last_refused = !is_new;
        match &mut self.target {
            _ if share == Share::None => {}
            Target::Body(writer) => writer.family(family),
            Target::Reader(gathered) => gathered.family(family),
        }
        self.samples(share)
    }

    fn samples(&mut self, share: Share) -> Samples<'_, 's> {
        let target = self.target.reborrow();
        Samples { target, wanted: self.wanted, stopped: self.stopped, share }
    }

    /// Goes on with the family that came last, under other common labels, if this is the same.
    pub(crate) fn family_of_another_scope(&mut self, family: &Family<'_>) -> Samples<'_, 's> {
        let Target::Body(writer) = &mut self.target else { return self.samples(Share::None) };
        let share = match self.is_last_refused {
            true => Share::None,
            false => self.wanted.share_of(family, writer.name_of(family)),
        };
        if share != Share::None {
            writer.same_family(family);
        }
        self.samples(share)
    }

    /// Whether nobody takes what is written any more: a collector may spare itself the rest.
    pub fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// See [`Writer::set_legacy_names`].
    pub(crate) fn set_legacy_names(&mut self, wanted: bool) {
        if let Target::Body(writer) = &mut self.target {
            writer.set_legacy_names(wanted);
        }
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }
}

/// Takes the metrics of one family. *Steady.*
pub struct Samples<'f, 's> {
    target: Target<'f, 's>,
    wanted: &'f dyn Wanted,
    stopped: &'f Cell<bool>,
    share: Share,
}

impl<'s> Samples<'_, 's> {
    /// A number with these labels.
    #[inline]
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Into<Value>) {
        self.number(LabelSet::Pairs(labels), value, &Extra::NONE);
    }

    /// A number with labels that were stored beforehand: one copy.
    #[inline]
    pub fn stored<'l>(&mut self, labels: impl Into<LabelSet<'l>>, value: impl Into<Value>) {
        self.number(labels.into(), value, &Extra::NONE);
    }

    /// A number with all that may stand beside it: a timestamp, when it began, an exemplar.
    #[inline]
    pub fn number(&mut self, labels: LabelSet<'_>, value: impl Into<Value>, extra: &Extra<'_>) {
        if self.is_wanted(labels) {
            match &mut self.target {
                Target::Body(writer) => writer.number(labels, value.into(), extra),
                Target::Reader(gathered) => gathered.number(labels, value.into(), extra),
            }
        }
    }

    /// A histogram with explicit bounds.
    pub fn histogram<'e, C, B>(&mut self, labels: LabelSet<'_>, buckets: Buckets<'_, C>)
    where
        C: IntoIterator<Item = B>,
        B: Into<Bucket<'e>>,
    {
        if self.is_wanted(labels) {
            match &mut self.target {
                Target::Body(writer) => writer.histogram(labels, buckets),
                Target::Reader(gathered) => gathered.histogram(labels, buckets),
            }
        }
    }

    /// A native histogram.
    pub fn native_histogram<P, N>(&mut self, labels: LabelSet<'_>, native: &Native<'_, P, N>)
    where
        P: Iterator<Item = (i32, u64)> + Clone,
        N: DoubleEndedIterator<Item = (i32, u64)> + Clone,
    {
        if self.is_wanted(labels) {
            match &mut self.target {
                Target::Body(writer) => writer.native_histogram(labels, native),
                Target::Reader(gathered) => gathered.native_histogram(labels, native),
            }
        }
    }

    /// A summary.
    pub fn summary(&mut self, labels: LabelSet<'_>, summary: &Summary<'_>) {
        if self.is_wanted(labels) {
            match &mut self.target {
                Target::Body(writer) => writer.summary(labels, summary),
                Target::Reader(gathered) => gathered.summary(labels, summary),
            }
        }
    }

    /// Whether anything that is written here gets anywhere: a collector may spare itself the rest. False
    /// for a family that the request's filter leaves out, for one that is refused, and once the reader of
    /// the body has gone.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.share != Share::None && !self.stopped.get()
    }

    #[inline]
    fn is_wanted(&self, labels: LabelSet<'_>) -> bool {
        self.is_open() && (self.share == Share::All || self.wanted.wants_series(labels))
    }

    /// The body's writer; a registered family writes itself into bodies only.
    #[inline]
    pub(crate) fn writer(&mut self) -> &mut Writer<'s> {
        match &mut self.target {
            Target::Body(writer) => writer,
            Target::Reader(_) => unreachable!("readers read the rows of registered families"),
        }
    }

    /// Whether it depends on a series' labels whether it is wanted.
    #[inline]
    pub(crate) fn is_choosy(&self) -> bool {
        self.share != Share::All
    }

    #[inline]
    pub(crate) fn wants(&self, labels: LabelsRef<'_>) -> bool {
        self.share == Share::All || self.wanted.wants_series(LabelSet::Stored(labels))
    }
}
