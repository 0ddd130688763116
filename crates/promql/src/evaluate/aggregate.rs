//! Aggregations that make one series of each group. They hold the groups and not the input.

use super::column::{Column, Item, Output};
use super::context::Context;
use super::group::{Groups, Key};
use super::over_time::{HistogramFold, Mean, quantile_of};
use super::source::{Held, Meta, Vector, for_each};
use crate::annotations::Annotations;
use crate::ast::{AggregateOp, Span};
use crate::error::QueryError;
use crate::histogram::Incompatible;
use crate::kahan::Kahan;

/// What was seen at a step of a group.
mod seen {
    pub(super) const FLOAT: u8 = 1;
    pub(super) const HISTOGRAM: u8 = 2;
    pub(super) const INCOMPATIBLE: u8 = 4;
}

/// The running values of one group, one per step.
enum Cells {
    Sum(Vec<Kahan>),
    Average(Vec<Mean>),
    /// The smallest or largest so far.
    Extreme(Vec<f64>),
    Count(Vec<f64>),
    /// Count, mean, sum of squares.
    Deviation(Vec<[f64; 3]>),
    Quantile(Vec<Vec<f64>>),
}

struct Group {
    meta: Meta,
    cells: Cells,
    seen: Vec<u8>,
    /// Empty while there are only floats.
    histograms: Vec<Option<Box<HistogramFold>>>,
}

/// An aggregation of one vector.
pub(crate) struct Aggregation<'a> {
    pub(crate) op: AggregateOp,
    pub(crate) key: Key<'a>,
    /// The quantile of each step.
    pub(crate) parameter: Vec<f64>,
    /// Where the vector stands in the query.
    pub(crate) span: Span,
}

impl Aggregation<'_> {
    /// One series per group.
    pub(crate) fn run(
        &self,
        context: &Context<'_>,
        vector: Vector<'_>,
        steps: usize,
    ) -> Result<Vec<Held>, QueryError> {
        let mut places = Groups::default();
        let mut groups: Vec<Group> = Vec::new();
        let mut annotations = Annotations::default();
        for_each(context, vector, steps, |_, meta, column| {
            let (place, new) = places.place(self.key, &meta.labels);
            if new {
                groups.push(self.group(meta, steps));
            }
            let group = &mut groups[place];
            group.meta.drop_name |= meta.drop_name && !column.is_empty();
            self.add(group, meta, column, &mut annotations);
            Ok(())
        })?;
        let mut series = Vec::with_capacity(groups.len());
        for group in groups {
            let held = self.finish(group, &mut annotations);
            if !held.column.is_empty() {
                series.push(held);
            }
        }
        context.annotate(|all| all.merge(annotations));
        Ok(series)
    }

    fn group(&self, meta: &Meta, steps: usize) -> Group {
        let cells = match self.op {
            AggregateOp::Sum => Cells::Sum(vec![Kahan::default(); steps]),
            AggregateOp::Avg => Cells::Average(vec![Mean::default(); steps]),
            AggregateOp::Min | AggregateOp::Max => Cells::Extreme(vec![f64::NAN; steps]),
            AggregateOp::Stddev | AggregateOp::Stdvar => Cells::Deviation(vec![[0.0; 3]; steps]),
            AggregateOp::Quantile => Cells::Quantile(vec![Vec::new(); steps]),
            _ => Cells::Count(vec![0.0; steps]),
        };
        Group {
            meta: Meta::new(self.key.of(&meta.labels)),
            cells,
            seen: vec![0; steps],
            histograms: Vec::new(),
        }
    }

    fn add(&self, group: &mut Group, meta: &Meta, column: &Column, notes: &mut Annotations) {
        for step in 0..column.len() {
            match column.get(step) {
                None => {}
                Some(Item::Float(value)) => self.add_float(group, step, value),
                Some(Item::Histogram(histogram)) => match self.op {
                    AggregateOp::Sum | AggregateOp::Avg => {
                        self.add_histogram(group, step, histogram, meta, notes);
                    }
                    AggregateOp::Count | AggregateOp::Group => self.add_float(group, step, 0.0),
                    op => super::notes::ignored_in_aggregation(notes, self.span, name(op)),
                },
            }
        }
    }

    #[inline]
    fn add_float(&self, group: &mut Group, step: usize, value: f64) {
        if group.seen[step] & seen::INCOMPATIBLE != 0 {
            return;
        }
        let first = group.seen[step] == 0;
        group.seen[step] |= seen::FLOAT;
        match &mut group.cells {
            Cells::Sum(sums) => sums[step].add(value),
            Cells::Average(means) => means[step].add(value),
            Cells::Extreme(values) => {
                let current = values[step];
                let better =
                    if self.op == AggregateOp::Max { current < value } else { current > value };
                if better || current.is_nan() {
                    values[step] = value;
                }
            }
            Cells::Count(counts) => counts[step] += 1.0,
            Cells::Deviation(cells) => {
                let [count, mean, squares] = &mut cells[step];
                *count += 1.0;
                if first {
                    *mean = value;
                    *squares = if value.is_finite() { 0.0 } else { f64::NAN };
                } else {
                    let delta = value - *mean;
                    *mean += delta / *count;
                    *squares += delta * (value - *mean);
                }
            }
            Cells::Quantile(values) => values[step].push(value),
        }
    }

    fn add_histogram(
        &self,
        group: &mut Group,
        step: usize,
        histogram: &store::FloatHistogram,
        meta: &Meta,
        notes: &mut Annotations,
    ) {
        if group.seen[step] & seen::INCOMPATIBLE != 0 {
            return;
        }
        let first = group.seen[step] == 0;
        group.seen[step] |= seen::HISTOGRAM;
        if group.histograms.is_empty() {
            group.histograms.resize_with(group.seen.len(), || None);
        }
        match &mut group.histograms[step] {
            Some(fold) => match fold.add(histogram) {
                Ok(true) => super::notes::reconciled(notes, self.span, "aggregation"),
                Ok(false) => {}
                Err(Incompatible) => {
                    super::notes::mixed_buckets(notes, self.span, meta.labels.metric_name());
                    group.seen[step] |= seen::INCOMPATIBLE;
                }
            },
            // A float came first: the mix has no value, whatever comes.
            None if !first => {}
            slot @ None => {
                let mean = self.op == AggregateOp::Avg;
                *slot = Some(Box::new(HistogramFold::new(histogram, mean)));
            }
        }
    }

    fn finish(&self, mut group: Group, notes: &mut Annotations) -> Held {
        let steps = group.seen.len();
        let mut column = Column::new(steps);
        for step in 0..steps {
            let found = group.seen[step];
            if found == 0 {
                continue;
            }
            if found & seen::FLOAT != 0 && found & seen::HISTOGRAM != 0 {
                super::notes::mixed_floats_in_aggregation(notes, self.span);
                continue;
            }
            if found & seen::INCOMPATIBLE != 0 {
                continue;
            }
            if let Some(Some(fold)) = group.histograms.get(step) {
                if fold.has_collision() {
                    super::notes::collision(notes, self.span, "aggregation");
                }
                column.set(step, Output::histogram(fold.finish()));
                continue;
            }
            let value = match &mut group.cells {
                Cells::Sum(sums) => sums[step].value(),
                Cells::Average(means) => means[step].value(),
                Cells::Extreme(values) => values[step],
                Cells::Count(_) if self.op == AggregateOp::Group => 1.0,
                Cells::Count(counts) => counts[step],
                Cells::Deviation(cells) => {
                    let [count, _, squares] = cells[step];
                    let variance = squares / count;
                    if self.op == AggregateOp::Stddev { variance.sqrt() } else { variance }
                }
                Cells::Quantile(values) => quantile_of(self.parameter[step], &mut values[step]),
            };
            column.set(step, Output::Float(value));
        }
        Held { meta: group.meta, column }
    }
}

fn name(op: AggregateOp) -> &'static str {
    match op {
        AggregateOp::Min => "min",
        AggregateOp::Max => "max",
        AggregateOp::Stddev => "stddev",
        AggregateOp::Stdvar => "stdvar",
        AggregateOp::Quantile => "quantile",
        AggregateOp::Topk => "topk",
        AggregateOp::Bottomk => "bottomk",
        _ => "this",
    }
}
