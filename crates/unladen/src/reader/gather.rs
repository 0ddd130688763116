//! Families that collectors write, taken as columns.
//!
//! A collector writes the same families and series in the same order nearly every time. So a family is
//! the one that came at this place the last time, and its series go into a [`Column`], as those that
//! callbacks say do.

use std::sync::{Arc, OnceLock};

use wire::exposition::Kind;
use wire::exposition::writer::{Bucket, Buckets, Extra, Family, LabelSet, Native, Summary, Value};

use crate::described::{Described, Role};
use crate::observed::{Column, OpenObserver};
use crate::registry::Registry;
use crate::resource::Scope;
use crate::shape::Number;
use crate::table::Shared;

use super::Interval;
use super::asked::Asked;
use super::snapshot::{Collected, Columns, Form, Meta};
use super::temporality::{Temporalities, Temporality};

/// What a collector wrote, and what it wrote before.
pub(crate) struct Gathered {
    shared: Arc<Shared>,
    temporalities: Temporalities,
    scope: usize,
    /// When the reader last collected what it writes, before that when it first saw the collector.
    since: u32,
    families: Vec<Known>,
    /// Which of them is written, and which is expected next.
    open: Option<usize>,
    next: usize,
}

/// A family.
struct Known {
    described: Described,
    /// None until it is known what its points are.
    asked: Option<Asked>,
    form: Option<Form>,
    column: Column,
    /// Where the values of the column are records: the words of all, and where each begins and ends.
    words: Vec<u64>,
    records: Vec<(usize, usize)>,
    /// Beside the column: own times of a series, until one has some empty.
    own_times: Vec<(u64, u64)>,
    is_written: bool,
}

/// Empty buckets between two that are not; a native histogram with a wider gap ends there.
const WIDEST_GAP: i32 = 1 << 16;

impl Gathered {
    pub(super) fn new(registry: &Registry, temporalities: Temporalities, scope: usize) -> Self {
        let shared = registry.shared().clone();
        let since = shared.clock.now();
        Gathered { shared, temporalities, scope, since, families: Vec::new(), open: None, next: 0 }
    }

    /// Begins a collection.
    pub(super) fn begin(&mut self) {
        self.open = None;
        self.next = 0;
        self.families.iter_mut().for_each(|known| known.is_written = false);
    }

    /// Begins a family. *Steady* for one that is known.
    pub(crate) fn family(&mut self, family: &Family<'_>) {
        let is_it = |known: &Known| known.described.is_of(family);
        let expected = self.families.get(self.next).is_some_and(is_it).then_some(self.next);
        let at = expected.or_else(|| self.families.iter().position(is_it));
        let at = at.unwrap_or_else(|| {
            self.families.push(Known::new(family));
            self.families.len() - 1
        });
        self.next = at + 1;
        self.open = Some(at);
        let known = &mut self.families[at];
        known.is_written = true;
        known.column.begin();
        known.words.clear();
        known.records.clear();
        known.own_times.clear();
    }

    fn put(&mut self, labels: LabelSet<'_>, value: Number, times: [Option<i64>; 2]) {
        let Some(known) = self.open.and_then(|open| self.families.get_mut(open)) else { return };
        let Known { column, described, .. } = known;
        OpenObserver::new(column, described, &self.shared.sets).observe_labels(value, labels);
        if times != [None, None] || !known.own_times.is_empty() {
            known.keep_times(times);
        }
    }

    /// A family has points of one form in a collection; others are left out.
    fn is_of(&mut self, form: &Form) -> bool {
        let Some(known) = self.open.and_then(|open| self.families.get_mut(open)) else {
            return false;
        };
        if known.column.last().is_none() && !known.has(form) {
            known.form = Some(form.clone());
            known.asked = None;
        }
        known.has(form)
    }

    /// A number.
    #[inline]
    pub(crate) fn number(&mut self, labels: LabelSet<'_>, value: Value, extra: &Extra<'_>) {
        let value = match value {
            Value::Float(value) => Number::Float(value),
            Value::Count(value) => Number::Unsigned(value),
            Value::Integer(value) => Number::Signed(value),
        };
        self.put(labels, value, [extra.created_ms, extra.timestamp_ms]);
    }

    /// A record, which the column knows by its number.
    fn record(
        &mut self,
        labels: LabelSet<'_>,
        form: &Form,
        times: [Option<i64>; 2],
        fill: impl FnOnce(&mut Vec<u64>),
    ) {
        if !self.is_of(form) {
            return;
        }
        let Some(known) = self.open.and_then(|open| self.families.get_mut(open)) else { return };
        let begin = known.words.len();
        fill(&mut known.words);
        known.records.push((begin, known.words.len()));
        let number = known.records.len() as u64 - 1;
        self.put(labels, Number::Unsigned(number), times);
    }

    /// A histogram with explicit bounds.
    pub(crate) fn histogram<'e, C, B>(&mut self, labels: LabelSet<'_>, buckets: Buckets<'_, C>)
    where
        C: IntoIterator<Item = B>,
        B: Into<Bucket<'e>>,
    {
        let Buckets { bounds, counts, sum, created_ms, timestamp_ms } = buckets;
        let bounds = match bounds {
            [bounds @ .., f64::INFINITY] => bounds,
            all => all,
        };
        self.record(labels, &Form::Explicit(None), [created_ms, timestamp_ms], |words| {
            words.push(sum.to_bits());
            words.extend(bounds.iter().map(|bound| bound.to_bits()));
            let begin = words.len();
            words.resize(begin + bounds.len() + 1, 0);
            for (at, bucket) in counts.into_iter().enumerate() {
                words[begin + at.min(bounds.len())] += bucket.into().count;
            }
        });
    }

    /// A native histogram.
    pub(crate) fn native_histogram<P, N>(&mut self, labels: LabelSet<'_>, native: &Native<'_, P, N>)
    where
        P: Iterator<Item = (i32, u64)> + Clone,
        N: DoubleEndedIterator<Item = (i32, u64)> + Clone,
    {
        let times = [native.created_ms, native.timestamp_ms];
        self.record(labels, &Form::Native, times, |words| {
            let head = words.len();
            words.extend_from_slice(&[
                i64::from(native.schema).cast_unsigned(),
                native.zero_threshold.to_bits(),
                native.zero_count,
                native.sum.to_bits(),
                0,
                0,
                0,
            ]);
            let (first, length) = push_side(words, native.positive.clone());
            words[head + 4] = i64::from(first).cast_unsigned();
            words[head + 5] = length;
            let (first, _) = push_side(words, native.negative.clone());
            words[head + 6] = i64::from(first).cast_unsigned();
        });
    }

    /// A summary.
    pub(crate) fn summary(&mut self, labels: LabelSet<'_>, summary: &Summary<'_>) {
        let times = [summary.created_ms, summary.timestamp_ms];
        self.record(labels, &Form::Summary, times, |words| {
            words.extend_from_slice(&[summary.count, summary.sum.to_bits()]);
            let pairs = summary.quantiles.iter();
            words.extend(pairs.flat_map(|(quantile, value)| [quantile.to_bits(), value.to_bits()]));
        });
    }

    /// Ends a collection. The family that was written when the collector panicked is not whole and is
    /// left out.
    pub(super) fn finish(
        &mut self,
        has_panicked: bool,
        interval: &Interval,
        collected: &mut Vec<Collected>,
    ) {
        let broken = self.open.filter(|_| has_panicked);
        for at in 0..self.families.len() {
            if self.families[at].is_written && broken != Some(at) {
                collected.extend(self.take(at, interval));
            }
        }
        if !has_panicked {
            self.since = interval.started;
        }
    }

    fn take(&mut self, at: usize, interval: &Interval) -> Option<Collected> {
        let Known { described, asked, form, column, words, records, own_times, .. } =
            &mut self.families[at];
        if described.kind == Kind::GaugeHistogram {
            return None;
        }
        if !own_times.is_empty() {
            own_times.resize(column.len(), (0, 0));
            let mut place = 0;
            own_times.retain(|_| {
                place += 1;
                column.was_given(place - 1)
            });
        }
        column.finish();
        let asked = asked.get_or_insert_with(|| {
            let temporality = match form {
                None => self.temporalities.of(described.role, true),
                Some(Form::Summary) => None,
                Some(_) => Some(Temporality::Cumulative),
            };
            let mut meta = Meta::new(described, None, temporality, self.scope);
            meta.form = form.clone().unwrap_or(meta.form);
            Asked::new(meta, self.since)
        });
        let own_times = &*own_times;
        match form {
            None => asked.collect(column, own_times, interval),
            Some(_) => asked.collect_records(column, own_times, interval, |numbers, columns| {
                fill(numbers, words, records, columns);
            }),
        }
    }

    /// The bytes on the heap, without those of the sets.
    pub(super) fn memory_usage(&self) -> usize {
        let families = self.families.iter().map(|known| {
            known.column.memory_usage()
                + known.words.capacity() * 8
                + (known.records.capacity() + known.own_times.capacity()) * 16
                + known.asked.as_ref().map_or(0, Asked::memory_usage)
        });
        families.sum::<usize>() + self.families.capacity() * size_of::<Known>()
    }
}

/// Copies the records in the order of the column.
fn fill(numbers: &[u64], words: &[u64], records: &[(usize, usize)], columns: &mut Columns) {
    columns.begins.push(0);
    for number in numbers {
        if let Some(&(begin, end)) = records.get(*number as usize) {
            columns.words.extend_from_slice(&words[begin..end]);
        }
        columns.begins.push(columns.words.len());
    }
}

/// Puts buckets side by side, those that are left out between them too; tells OpenTelemetry's index of the
/// first, and how many.
fn push_side(words: &mut Vec<u64>, buckets: impl Iterator<Item = (i32, u64)>) -> (i32, u64) {
    let begin = words.len();
    let mut first = None;
    let mut next = 0i32;
    for (index, count) in buckets {
        let start = *first.get_or_insert(index);
        if first == Some(index) && words.len() == begin {
            next = start;
        }
        let Some(gap) = index.checked_sub(next).filter(|gap| (0..WIDEST_GAP).contains(gap)) else {
            break;
        };
        words.resize(words.len() + gap as usize, 0);
        words.push(count);
        next = index.saturating_add(1);
    }
    (first.unwrap_or(1).saturating_sub(1), (words.len() - begin) as u64)
}

impl Known {
    fn new(family: &Family<'_>) -> Self {
        let described = Described {
            name: family.name.to_owned(),
            help: family.help.to_owned(),
            unit: family.unit.to_owned(),
            kind: family.kind,
            role: Role::of(family.kind),
            labels: Vec::new(),
            // The program's own table is what bounds it.
            limit: u32::MAX as usize,
            idle: None,
            scope: Arc::<Scope>::default(),
            original: None,
            later: OnceLock::new(),
            is_spelt_legacy: false,
            keep: None,
            is_dropped: false,
            is_native: false,
        };
        Known {
            described,
            asked: None,
            form: None,
            column: Column::default(),
            words: Vec::new(),
            records: Vec::new(),
            own_times: Vec::new(),
            is_written: false,
        }
    }

    fn has(&self, form: &Form) -> bool {
        self.form
            .as_ref()
            .is_some_and(|own| std::mem::discriminant(own) == std::mem::discriminant(form))
    }

    #[cold]
    fn keep_times(&mut self, times: [Option<i64>; 2]) {
        let Some(at) = self.column.last() else { return };
        // What lies beyond the year 2554 has no nanoseconds since 1970.
        let nanoseconds = |ms: i64| ms.max(0).cast_unsigned().saturating_mul(1_000_000);
        let [start, time] = times.map(|ms| ms.map_or(0, nanoseconds));
        if self.own_times.len() <= at {
            self.own_times.resize(at + 1, (0, 0));
        }
        self.own_times[at] = (start, time);
    }
}

impl Described {
    fn is_of(&self, family: &Family<'_>) -> bool {
        self.name == family.name
            && self.kind == family.kind
            && self.help == family.help
            && self.unit == family.unit
    }
}
