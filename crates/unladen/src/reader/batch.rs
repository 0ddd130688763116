//! What was collected, as it is looked at: metrics, their points, and whose they are.
//!
//! A [`Batch`] is lent, by a reader for the duration of a closure or by a [`Snapshot`] for as long as
//! that lives, and all that comes out of it lives no longer. Walking it is *steady*.

use std::iter::FusedIterator;

use crate::attributes::Attributes;
use crate::exemplar::Exemplar;
use crate::resource::{Resource, Scope};
use crate::shape::Number;

use super::snapshot::{Collected, Form, Snapshot};
use super::temporality::Temporality;

/// Everything that was collected at one moment, lent.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'b> {
    pub(super) snapshot: &'b Snapshot,
}

impl<'b> Batch<'b> {
    /// What was measured: the process and where it runs.
    pub fn resource(&self) -> &'b Resource {
        &self.snapshot.resource
    }

    /// When was collected: nanoseconds since 1970.
    pub fn time_unix_nano(&self) -> u64 {
        self.snapshot.times.now
    }

    /// When the reader collected before that: nanoseconds since 1970, or 0.
    pub fn previous_unix_nano(&self) -> u64 {
        self.snapshot.times.previous
    }

    /// The metrics that have points, those of a scope side by side only if they were registered so:
    /// [`scopes`](Batch::scopes) brings them together.
    pub fn metrics(&self) -> impl ExactSizeIterator<Item = Metric<'b>> + Clone + use<'b> {
        let snapshot = self.snapshot;
        snapshot.families.iter().map(move |family| Metric { snapshot, family })
    }

    /// The scopes, each once and with at least one metric.
    pub fn scopes(&self) -> impl Iterator<Item = ScopeMetrics<'b>> + Clone + use<'b> {
        let snapshot = self.snapshot;
        (0..snapshot.scopes.len())
            .map(move |scope| ScopeMetrics { snapshot, scope })
            .filter(|scope| scope.metrics().next().is_some())
    }

    /// How many points there are in all metrics.
    pub fn point_count(&self) -> usize {
        self.snapshot.families.iter().map(|family| family.columns.count).sum()
    }
}

/// The metrics of one part of the program.
#[derive(Clone, Copy, Debug)]
pub struct ScopeMetrics<'b> {
    snapshot: &'b Snapshot,
    scope: usize,
}

impl<'b> ScopeMetrics<'b> {
    /// Which part.
    pub fn scope(&self) -> &'b Scope {
        &self.snapshot.scopes[self.scope]
    }

    /// Its metrics, in the order of their registration.
    pub fn metrics(&self) -> impl Iterator<Item = Metric<'b>> + Clone + use<'b> {
        let ScopeMetrics { snapshot, scope } = *self;
        let families = snapshot.families.iter().filter(move |family| family.meta.scope == scope);
        families.map(move |family| Metric { snapshot, family })
    }
}

/// One metric with its points.
#[derive(Clone, Copy, Debug)]
pub struct Metric<'b> {
    snapshot: &'b Snapshot,
    family: &'b Collected,
}

impl<'b> Metric<'b> {
    /// Its name, as the program gave it.
    pub fn name(&self) -> &'b str {
        &self.family.meta.name
    }

    /// What it is about; empty for nothing said.
    pub fn description(&self) -> &'b str {
        &self.family.meta.description
    }

    /// Its unit, as the program gave it; empty for none.
    pub fn unit(&self) -> &'b str {
        &self.family.meta.unit
    }

    /// The part of the program that has it.
    pub fn scope(&self) -> &'b Scope {
        &self.snapshot.scopes[self.family.meta.scope]
    }

    /// What its values count from; none for a gauge and a summary.
    pub fn temporality(&self) -> Option<Temporality> {
        self.family.meta.temporality
    }

    /// How many points it has; at least one.
    pub fn point_count(&self) -> usize {
        self.family.columns.count
    }

    /// Whose its points are, in their order.
    pub fn attributes(&self) -> impl ExactSizeIterator<Item = &'b Attributes> + Clone + use<'b> {
        let family = self.family;
        (0..family.columns.count).map(move |point| family.attributes(point))
    }

    /// Its points.
    pub fn points(&self) -> Points<'b> {
        let Metric { snapshot, family } = *self;
        let walk = Walk { snapshot, family, next: 0, end: family.columns.count };
        match &family.meta.form {
            Form::Gauge => Points::Gauge(Numbers(walk)),
            &Form::Sum { is_monotonic } => Points::Sum { is_monotonic, points: Numbers(walk) },
            Form::Explicit(_) => Points::Histogram(Histograms(walk)),
            Form::Native => Points::ExponentialHistogram(ExponentialHistograms(walk)),
            Form::Summary => Points::Summary(Summaries(walk)),
        }
    }
}

/// The points of a metric, by what they are.
#[derive(Clone, Debug)]
pub enum Points<'b> {
    /// Levels.
    Gauge(Numbers<'b>),
    /// Sums.
    Sum {
        /// Whether they only grow.
        is_monotonic: bool,
        /// The sums.
        points: Numbers<'b>,
    },
    /// Histograms with explicit bounds.
    Histogram(Histograms<'b>),
    /// Native histograms.
    ExponentialHistogram(ExponentialHistograms<'b>),
    /// Summaries.
    Summary(Summaries<'b>),
}

#[derive(Clone, Debug)]
struct Walk<'b> {
    snapshot: &'b Snapshot,
    family: &'b Collected,
    next: usize,
    end: usize,
}

impl<'b> Walk<'b> {
    #[inline]
    fn next(&mut self) -> Option<usize> {
        let point = self.next;
        self.next += usize::from(point < self.end);
        (point < self.end).then_some(point)
    }

    #[inline]
    fn head(&self, point: usize) -> Head<'b> {
        let (start_unix_nano, time_unix_nano) = self.family.interval(point, &self.snapshot.times);
        let exemplars = Exemplars(self.family.exemplars(point).iter());
        let attributes = self.family.attributes(point);
        Head { attributes, start_unix_nano, time_unix_nano, exemplars }
    }
}

/// What every point has.
#[derive(Clone, Debug)]
pub struct Head<'b> {
    /// Which series.
    pub attributes: &'b Attributes,
    /// Since when is counted: nanoseconds since 1970.
    pub start_unix_nano: u64,
    /// When it was measured: nanoseconds since 1970.
    pub time_unix_nano: u64,
    /// Observations behind it since the reader's last collection.
    pub exemplars: Exemplars<'b>,
}

/// The exemplars of a point.
#[derive(Clone, Debug)]
pub struct Exemplars<'b>(std::slice::Iter<'b, (u32, Exemplar)>);

impl<'b> Iterator for Exemplars<'b> {
    type Item = &'b Exemplar;

    fn next(&mut self) -> Option<&'b Exemplar> {
        self.0.next().map(|(_, exemplar)| exemplar)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Exemplars<'_> {}

/// A level or a sum.
#[derive(Clone, Debug)]
pub struct NumberPoint<'b> {
    /// Whose it is, and since when.
    pub head: Head<'b>,
    /// The value.
    pub value: Number,
}

/// A histogram with explicit bounds.
#[derive(Clone, Debug)]
pub struct HistogramPoint<'b> {
    /// Whose it is, and since when.
    pub head: Head<'b>,
    /// The upper bounds, rising, without the infinite one.
    pub bounds: Bounds<'b>,
    /// How many observations each bucket has, one more than there are bounds.
    pub counts: &'b [u64],
    /// The sum of all observations; not finite once one of them was not.
    pub sum: f64,
}

impl HistogramPoint<'_> {
    /// How many observations there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// The bounds of a histogram's buckets.
#[derive(Clone, Debug)]
pub struct Bounds<'b>(Kept<'b>);

#[derive(Clone, Debug)]
enum Kept<'b> {
    Numbers(std::slice::Iter<'b, f64>),
    Words(std::slice::Iter<'b, u64>),
}

impl Iterator for Bounds<'_> {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        match &mut self.0 {
            Kept::Numbers(numbers) => numbers.next().copied(),
            Kept::Words(words) => words.next().map(|bits| f64::from_bits(*bits)),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Kept::Numbers(numbers) => numbers.size_hint(),
            Kept::Words(words) => words.size_hint(),
        }
    }
}

impl ExactSizeIterator for Bounds<'_> {}

/// A native histogram.
#[derive(Clone, Debug)]
pub struct ExponentialHistogramPoint<'b> {
    /// Whose it is, and since when.
    pub head: Head<'b>,
    /// The resolution: the bucket at index `i` ends at `2^((i + 1) · 2^-scale)`.
    pub scale: i32,
    /// Up to which distance from 0 an observation is in the zero bucket.
    pub zero_threshold: f64,
    /// How many are.
    pub zero_count: u64,
    /// The sum of the observations in buckets.
    pub sum: f64,
    /// The buckets above zero.
    pub positive: Side<'b>,
    /// The buckets below zero, by their distance from it.
    pub negative: Side<'b>,
}

impl ExponentialHistogramPoint<'_> {
    /// How many observations there are, those that are infinite or no number left out: they have no
    /// bucket.
    pub fn count(&self) -> u64 {
        let sides = [self.positive, self.negative];
        self.zero_count + sides.iter().flat_map(|side| side.counts).sum::<u64>()
    }
}

/// Buckets side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side<'b> {
    /// The index of the first.
    pub offset: i32,
    /// How many observations each has.
    pub counts: &'b [u64],
}

/// A summary.
#[derive(Clone, Debug)]
pub struct SummaryPoint<'b> {
    /// Whose it is, and since when.
    pub head: Head<'b>,
    /// How many observations there were.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// Quantiles, from 0 to 1, and their values.
    pub quantiles: Quantiles<'b>,
}

/// The quantiles of a summary and their values.
#[derive(Clone, Debug)]
pub struct Quantiles<'b>(std::slice::ChunksExact<'b, u64>);

impl Iterator for Quantiles<'_> {
    type Item = (f64, f64);

    fn next(&mut self) -> Option<(f64, f64)> {
        let pair = self.0.next()?;
        Some((f64::from_bits(pair[0]), f64::from_bits(pair[1])))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Quantiles<'_> {}

macro_rules! points {
    ($($(#[$doc:meta])* $walk:ident => $point:ident, $make:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $walk<'b>(Walk<'b>);

        impl<'b> Iterator for $walk<'b> {
            type Item = $point<'b>;

            #[inline]
            fn next(&mut self) -> Option<$point<'b>> {
                let point = self.0.next()?;
                $make(&self.0, point)
            }

            /// Does not look at those in between.
            fn nth(&mut self, skipped: usize) -> Option<$point<'b>> {
                self.0.next = self.0.end.min(self.0.next.saturating_add(skipped));
                self.next()
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                let left = self.0.end - self.0.next;
                (left, Some(left))
            }
        }

        impl ExactSizeIterator for $walk<'_> {}
        impl FusedIterator for $walk<'_> {}
    )*};
}

points! {
    /// Levels or sums.
    Numbers => NumberPoint, number;
    /// Histograms with explicit bounds.
    Histograms => HistogramPoint, histogram;
    /// Native histograms.
    ExponentialHistograms => ExponentialHistogramPoint, exponential;
    /// Summaries.
    Summaries => SummaryPoint, summary;
}

#[inline]
fn number<'b>(walk: &Walk<'b>, point: usize) -> Option<NumberPoint<'b>> {
    let columns = &walk.family.columns;
    let value = columns.number_type.number(columns.words[point]);
    Some(NumberPoint { head: walk.head(point), value })
}

fn histogram<'b>(walk: &Walk<'b>, point: usize) -> Option<HistogramPoint<'b>> {
    let (bounds, counts, sum) = match &walk.family.meta.form {
        Form::Explicit(Some(bounds)) => {
            let (sum, counts) = walk.family.record(point, bounds.len() + 2).split_last()?;
            (Kept::Numbers(bounds.iter()), counts, sum)
        }
        // The sum, the bounds, the counts.
        _ => {
            let (sum, rest) = walk.family.record(point, 0).split_first()?;
            let (bounds, counts) = rest.split_at(rest.len() / 2);
            (Kept::Words(bounds.iter()), counts, sum)
        }
    };
    let sum = f64::from_bits(*sum);
    Some(HistogramPoint { head: walk.head(point), bounds: Bounds(bounds), counts, sum })
}

fn exponential<'b>(walk: &Walk<'b>, point: usize) -> Option<ExponentialHistogramPoint<'b>> {
    let ([scale, threshold, zero_count, sum, positive, above, negative], counts) =
        walk.family.record(point, 0).split_first_chunk()?;
    let (above, below) = counts.split_at_checked(*above as usize)?;
    Some(ExponentialHistogramPoint {
        head: walk.head(point),
        scale: *scale as i32,
        zero_threshold: f64::from_bits(*threshold),
        zero_count: *zero_count,
        sum: f64::from_bits(*sum),
        positive: Side { offset: *positive as i32, counts: above },
        negative: Side { offset: *negative as i32, counts: below },
    })
}

fn summary<'b>(walk: &Walk<'b>, point: usize) -> Option<SummaryPoint<'b>> {
    let ([count, sum], words) = walk.family.record(point, 0).split_first_chunk()?;
    let head = walk.head(point);
    let quantiles = Quantiles(words.chunks_exact(2));
    Some(SummaryPoint { head, count: *count, sum: f64::from_bits(*sum), quantiles })
}
