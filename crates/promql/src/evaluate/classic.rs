//! Quantiles and fractions of histograms of both kinds: `histogram_quantile`, `histogram_quantiles`,
//! `histogram_fraction`.
//!
//! The buckets of a classic histogram are series that differ in `le`; a group of them is held. A
//! native histogram of the same labels at the same step makes the step ambiguous: neither counts.

use hashbrown::HashMap;
use store::Labels;

use super::column::{Column, Grid, Item, Output};
use super::context::Context;
use super::number::{maximum, minimum};
use super::source::{Held, Meta, merge_held};
use crate::annotations::{Annotations, Repair};
use crate::ast::Span;
use crate::error::QueryError;
use crate::histogram::{self, Finding};

/// Counts that differ by less than this part are taken to be equal.
const SMALL_DIFFERENCE: f64 = 1e-12;

/// A bucket of a classic histogram: its upper bound and how much lies below that.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cumulative {
    upper: f64,
    count: f64,
}

/// What is asked of the histograms.
pub(crate) enum Question<'a> {
    /// A quantile per step; with a label for it where there are several.
    Quantiles { values: Vec<Vec<f64>>, label: Option<&'a str> },
    /// Lower and upper bound per step.
    Fraction(Vec<f64>, Vec<f64>),
}

struct Classic {
    meta: Meta,
    buckets: Vec<(f64, Column)>,
}

struct Native {
    held: Held,
    /// The classic histogram of the same labels.
    rival: Option<usize>,
}

/// The state of one call.
struct Inquiry<'a> {
    context: &'a Context<'a>,
    question: &'a Question<'a>,
    /// Where the vector stands in the query.
    span: Span,
    grid: Grid,
    annotations: Annotations,
    /// The answer to a histogram and a quantile.
    places: HashMap<(usize, u64), usize>,
    answers: Vec<Held>,
}

/// A quantile as a label value: as OpenMetrics writes it.
fn quantile_label(q: f64) -> String {
    let text = crate::number::general(q);
    if q.is_finite() && !text.contains(['.', 'e']) { text + ".0" } else { text }
}

/// Answers the question for each histogram of `series`, which stands at `span`, at each step.
pub(crate) fn answer(
    context: &Context<'_>,
    question: &Question<'_>,
    series: Vec<Held>,
    span: Span,
    grid: Grid,
) -> Result<Vec<Held>, QueryError> {
    let mut annotations = Annotations::default();
    let (classics, natives) = split(context, series, span, &mut annotations);
    let mut inquiry = Inquiry {
        context,
        question,
        span,
        grid,
        annotations,
        places: HashMap::new(),
        answers: Vec::new(),
    };
    let mut buckets: Vec<Cumulative> = Vec::new();
    let mut ambiguous = vec![false; classics.len()];
    for step in 0..grid.count {
        if step % 256 == 0 {
            context.check()?;
        }
        ambiguous.fill(false);
        for (index, native) in natives.iter().enumerate() {
            let Some(Item::Histogram(histogram)) = native.held.column.get(step) else { continue };
            let meta = &native.held.meta;
            if let Some(rival) = native.rival
                && classics[rival].is_present(step)
            {
                let name = name_for_notes(context, &meta.labels);
                super::notes::mixed_classic(&mut inquiry.annotations, span, name);
                ambiguous[rival] = true;
                continue;
            }
            inquiry.ask_native(classics.len() + index, meta, histogram, step);
        }
        for (index, classic) in classics.iter().enumerate().filter(|(i, _)| !ambiguous[*i]) {
            classic.gather(step, &mut buckets);
            if !buckets.is_empty() {
                inquiry.ask_classic(index, &classic.meta, &mut buckets, step);
            }
        }
    }
    context.annotate(|all| all.merge(inquiry.annotations));
    merge_held(inquiry.answers)
}

impl Classic {
    fn is_present(&self, step: usize) -> bool {
        self.buckets.iter().any(|(_, column)| matches!(column.get(step), Some(Item::Float(_))))
    }

    /// The buckets of a step, sorted.
    fn gather(&self, step: usize, buckets: &mut Vec<Cumulative>) {
        buckets.clear();
        buckets.extend(self.buckets.iter().filter_map(|(upper, column)| match column.get(step) {
            Some(Item::Float(count)) => Some(Cumulative { upper: *upper, count }),
            _ => None,
        }));
        buckets.sort_by(|a, b| a.upper.total_cmp(&b.upper));
    }
}

impl Inquiry<'_> {
    fn ask_native(
        &mut self,
        who: usize,
        meta: &Meta,
        histogram: &store::FloatHistogram,
        step: usize,
    ) {
        match self.question {
            Question::Quantiles { values, label } => {
                for q in values.iter().map(|values| values[step]) {
                    let (value, finding) = histogram::quantile(q, histogram);
                    self.note(finding, meta);
                    self.set(who, meta, label.map(|label| (label, q)), step, value);
                }
            }
            Question::Fraction(lower, upper) => {
                let (value, finding) = histogram::fraction(lower[step], upper[step], histogram);
                self.note(finding, meta);
                self.set(who, meta, None, step, value);
            }
        }
    }

    fn note(&mut self, finding: Option<Finding>, meta: &Meta) {
        let name = name_for_notes(self.context, &meta.labels);
        let annotations = &mut self.annotations;
        match finding {
            None => {}
            Some(Finding::Result) => super::notes::quantile_nan(annotations, self.span, name),
            Some(Finding::Skew) => super::notes::quantile_skewed(annotations, self.span, name),
            Some(Finding::Excluded) => super::notes::fraction_nan(annotations, self.span, name),
        }
    }

    /// The buckets stay repaired from one quantile to the next, so that a repair is told once.
    fn ask_classic(&mut self, who: usize, meta: &Meta, buckets: &mut Vec<Cumulative>, step: usize) {
        match self.question {
            Question::Quantiles { values, label } => {
                for q in values.iter().map(|values| values[step]) {
                    let (value, repair) = quantile(q, buckets);
                    if let Some(mut repair) = repair {
                        repair.times = (self.grid.time(step), self.grid.time(step));
                        let name = name_for_notes(self.context, &meta.labels);
                        let text = super::notes::repaired_text(name);
                        self.annotations.repaired(self.span, text, repair);
                    }
                    self.set(who, meta, label.map(|label| (label, q)), step, value);
                }
            }
            Question::Fraction(lower, upper) => {
                let value = fraction(lower[step], upper[step], buckets);
                self.set(who, meta, None, step, value);
            }
        }
    }

    fn set(
        &mut self,
        who: usize,
        meta: &Meta,
        label: Option<(&str, f64)>,
        step: usize,
        value: f64,
    ) {
        let bits = label.map_or(0, |(_, q)| q.to_bits());
        let place = *self.places.entry((who, bits)).or_insert_with(|| {
            let mut meta = self.context.without_name(meta);
            if let Some((name, q)) = label {
                let mut builder = meta.labels.to_builder();
                builder.set(name, &quantile_label(q));
                meta.labels = builder.build();
            }
            self.answers.push(Held { meta, column: Column::new(self.grid.count) });
            self.answers.len() - 1
        });
        self.answers[place].column.set(step, Output::Float(value));
    }
}

/// The metric's name where it is kept until the end.
fn name_for_notes<'l>(context: &Context<'_>, labels: &'l Labels) -> &'l str {
    if context.delays_names() { labels.metric_name() } else { "" }
}

/// Sorts the series into classic histograms and native ones.
fn split(
    context: &Context<'_>,
    series: Vec<Held>,
    span: Span,
    annotations: &mut Annotations,
) -> (Vec<Classic>, Vec<Native>) {
    let mut classics: Vec<Classic> = Vec::new();
    let mut natives: Vec<Native> = Vec::new();
    let mut places: HashMap<Labels, usize, foldhash::fast::RandomState> = HashMap::default();
    for held in series {
        let steps = 0..held.column.len();
        let is_float = |step| matches!(held.column.get(step), Some(Item::Float(_)));
        let has_floats = steps.clone().any(is_float);
        if !held.column.is_plain() {
            natives.push(Native { held: held.clone(), rival: None });
        }
        if !has_floats {
            continue;
        }
        let labels = &held.meta.labels;
        let bucket = labels.get("le").unwrap_or("");
        let Some(upper) = bucket.parse::<f64>().ok().filter(|_| !bucket.is_empty()) else {
            let name = name_for_notes(context, labels);
            super::notes::bad_bucket(annotations, span, name, bucket);
            continue;
        };
        let mut builder = labels.to_builder();
        builder.remove("le");
        let labels = builder.build();
        let place = *places.entry(labels.clone()).or_insert_with(|| {
            let meta = Meta { labels, drop_name: held.meta.drop_name };
            classics.push(Classic { meta, buckets: Vec::new() });
            classics.len() - 1
        });
        classics[place].buckets.push((upper, held.column));
    }
    for native in &mut natives {
        native.rival = places.get(&native.held.meta.labels).copied();
    }
    (classics, natives)
}

/// Adds up buckets of the same bound. The buckets are sorted.
fn coalesce(buckets: &mut Vec<Cumulative>) {
    buckets.dedup_by(|later, earlier| {
        let same = later.upper == earlier.upper;
        if same {
            earlier.count += later.count;
        }
        same
    });
}

/// Whether two counts are equal but for rounding.
fn is_close(a: f64, b: f64) -> bool {
    if a.is_nan() || b.is_nan() {
        return a.is_nan() && b.is_nan();
    }
    if a == b {
        return true;
    }
    let sum = a.abs() + b.abs();
    let difference = (a - b).abs();
    if a == 0.0 || b == 0.0 || sum < f64::MIN_POSITIVE {
        return difference < SMALL_DIFFERENCE * f64::MIN_POSITIVE;
    }
    difference / sum.min(f64::MAX) < SMALL_DIFFERENCE
}

/// Makes counts grow with the bounds; tells what had to be repaired beyond rounding.
fn make_monotonic(buckets: &mut [Cumulative]) -> Option<Repair> {
    let mut repair: Option<Repair> = None;
    let mut previous = buckets[0].count;
    for bucket in &mut buckets[1..] {
        if bucket.count == previous {
            continue;
        }
        if is_close(previous, bucket.count) {
            bucket.count = previous;
            continue;
        }
        if bucket.count < previous {
            let difference = previous - bucket.count;
            bucket.count = previous;
            let repair = repair.get_or_insert(Repair {
                times: (0, 0),
                buckets: (f64::INFINITY, f64::NEG_INFINITY),
                max_difference: 0.0,
                count: 0,
            });
            repair.buckets.0 = minimum(repair.buckets.0, bucket.upper);
            repair.buckets.1 = maximum(repair.buckets.1, bucket.upper);
            repair.max_difference = repair.max_difference.max(difference);
            continue;
        }
        previous = bucket.count;
    }
    repair
}

/// The quantile of sorted buckets, interpolated linearly; a first bucket above zero begins there.
fn quantile(q: f64, buckets: &mut Vec<Cumulative>) -> (f64, Option<Repair>) {
    if q.is_nan() {
        return (f64::NAN, None);
    }
    if q < 0.0 {
        return (f64::NEG_INFINITY, None);
    }
    if q > 1.0 {
        return (f64::INFINITY, None);
    }
    if buckets.last().is_none_or(|last| last.upper != f64::INFINITY) {
        return (f64::NAN, None);
    }
    coalesce(buckets);
    let repair = make_monotonic(buckets);
    let last = buckets.len() - 1;
    let observations = buckets[last].count;
    if last == 0 || observations == 0.0 {
        return (f64::NAN, repair);
    }
    let mut rank = q * observations;
    let at = buckets[..last].iter().position(|b| b.count >= rank).unwrap_or(last);
    if at == last {
        return (buckets[last - 1].upper, repair);
    }
    if at == 0 && buckets[0].upper <= 0.0 {
        return (buckets[0].upper, repair);
    }
    let mut start = 0.0;
    let end = buckets[at].upper;
    let mut count = buckets[at].count;
    if at > 0 {
        start = buckets[at - 1].upper;
        count -= buckets[at - 1].count;
        rank -= buckets[at - 1].count;
    }
    (start + (end - start) * (rank / count), repair)
}

/// The fraction of observations between two bounds.
fn fraction(lower: f64, upper: f64, buckets: &mut Vec<Cumulative>) -> f64 {
    if buckets.last().is_none_or(|last| last.upper != f64::INFINITY) {
        return f64::NAN;
    }
    coalesce(buckets);
    let count = buckets[buckets.len() - 1].count;
    if count == 0.0 || lower.is_nan() || upper.is_nan() {
        return f64::NAN;
    }
    if lower >= upper {
        return 0.0;
    }
    let mut start = if buckets[0].upper <= 0.0 { f64::NEG_INFINITY } else { 0.0 };
    let mut rank = 0.0;
    let (mut lower_rank, mut upper_rank) = (None, None);
    for bucket in buckets.iter() {
        for (limit, found) in [(lower, &mut lower_rank), (upper, &mut upper_rank)] {
            if found.is_some() {
                continue;
            }
            if start >= limit {
                *found = Some(rank);
            } else if bucket.upper > limit {
                *found = Some(if start == f64::NEG_INFINITY {
                    bucket.count
                } else {
                    rank + (bucket.count - rank) * (limit - start) / (bucket.upper - start)
                });
            }
        }
        rank = bucket.count;
        start = bucket.upper;
    }
    let clip = |rank: Option<f64>| rank.filter(|rank| *rank <= count).unwrap_or(count);
    (clip(upper_rank) - clip(lower_rank)) / count
}
