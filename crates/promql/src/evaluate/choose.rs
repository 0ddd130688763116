//! Aggregations that choose some of the series of each group, and `count_values`.
//!
//! They hold what is chosen at each step. `topk` and `bottomk` keep a heap with the weakest candidate
//! on top; what comes later must beat it, so that of equal values the heap decides.

use std::sync::Arc;

use hashbrown::HashMap;
use store::{FloatHistogram, Labels};
use xxhash_rust::xxh64::xxh64;

use super::column::{Column, Item, Output};
use super::context::Context;
use super::group::{Groups, Key};
use super::source::{Held, Meta, Vector, for_each, merge_held};
use crate::annotations::Annotations;
use crate::ast::{AggregateOp, Span};
use crate::error::QueryError;
use crate::{histogram, number};

struct Candidate {
    value: f64,
    histogram: Option<Arc<FloatHistogram>>,
    series: usize,
}

/// `topk`, `bottomk`, `limitk`, `limit_ratio`
pub(crate) struct Choice<'a> {
    pub(crate) op: AggregateOp,
    pub(crate) key: Key<'a>,
    /// `k` or the ratio of each step.
    pub(crate) parameter: Vec<f64>,
    /// Where the parameter stands in the query.
    pub(crate) parameter_span: Span,
    /// Where the aggregation stands in the query.
    pub(crate) span: Span,
}

impl Choice<'_> {
    /// The chosen series, the best ones first if there is one step.
    pub(crate) fn run(
        &self,
        context: &Context<'_>,
        vector: Vector<'_>,
        steps: usize,
    ) -> Result<Vec<Held>, QueryError> {
        if !self.check(context)? {
            return Ok(Vec::new());
        }
        let mut places = Groups::default();
        let mut groups: Vec<Vec<Vec<Candidate>>> = Vec::new();
        let mut metas: Vec<Meta> = Vec::new();
        let mut annotations = Annotations::default();
        for_each(context, vector, steps, |_, meta, column| {
            let (place, new) = places.place(self.key, &meta.labels);
            if new {
                groups.push(std::iter::repeat_with(Vec::new).take(steps).collect());
            }
            let series = metas.len();
            metas.push(meta.clone());
            let offset = sampling_offset(&meta.labels);
            for (step, chosen) in groups[place].iter_mut().enumerate() {
                let (value, histogram) = match column.get(step) {
                    None => continue,
                    Some(Item::Float(value)) => (value, None),
                    Some(Item::Histogram(histogram)) => (f64::NAN, Some(histogram.clone())),
                };
                let candidate = Candidate { value, histogram, series };
                self.offer(chosen, candidate, self.parameter[step], offset, &mut annotations);
            }
            Ok(())
        })?;
        context.annotate(|all| all.merge(annotations));
        self.finish(groups, &metas, steps)
    }

    /// Refuses parameters that make no sense; `false` if nothing can be chosen.
    fn check(&self, context: &Context<'_>) -> Result<bool, QueryError> {
        let values = &self.parameter;
        let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let has_nan = values.iter().any(|value| value.is_nan());
        if self.op == AggregateOp::LimitRatio {
            if largest == 0.0 && smallest == 0.0 {
                return Ok(false);
            }
            if has_nan {
                return Err(QueryError::execution("Ratio value is NaN"));
            }
            for (value, cap, beyond) in
                [(largest, 1.0, largest > 1.0), (smallest, -1.0, smallest < -1.0)]
            {
                if beyond {
                    context.annotate(|notes| {
                        super::notes::invalid_ratio(notes, self.parameter_span, value, cap);
                    });
                }
            }
            return Ok(true);
        }
        if !has_nan && largest < 1.0 {
            return Ok(false);
        }
        if has_nan {
            return Err(QueryError::execution("Parameter value is NaN"));
        }
        // The bounds of what an i64 holds, as floats.
        let limits = [
            (smallest, smallest <= -9_223_372_036_854_775_808.0, "underflows"),
            (largest, largest >= 9_223_372_036_854_774_784.0, "overflows"),
        ];
        for (value, beyond, how) in limits {
            if beyond {
                return Err(QueryError::execution(format!(
                    "Scalar value {} {how} int64",
                    number::general(value)
                )));
            }
        }
        Ok(true)
    }

    fn offer(
        &self,
        chosen: &mut Vec<Candidate>,
        candidate: Candidate,
        parameter: f64,
        offset: f64,
        annotations: &mut Annotations,
    ) {
        if self.op == AggregateOp::LimitRatio {
            let ratio = parameter.clamp(-1.0, 1.0);
            let wanted = (ratio >= 0.0 && offset < ratio) || (ratio < 0.0 && offset >= 1.0 + ratio);
            if wanted {
                chosen.push(candidate);
            }
            return;
        }
        if parameter < 1.0 {
            return;
        }
        let k = parameter as usize;
        if self.op == AggregateOp::Limitk {
            if chosen.len() < k {
                chosen.push(candidate);
            }
            return;
        }
        let top = self.op == AggregateOp::Topk;
        if candidate.histogram.is_some() {
            let name = if top { "topk" } else { "bottomk" };
            super::notes::ignored_in_aggregation(annotations, self.span, name);
            return;
        }
        if chosen.len() < k {
            chosen.push(candidate);
            sift_up(chosen, top);
            return;
        }
        let (weakest, value) = (chosen[0].value, candidate.value);
        let beats = if top { weakest < value } else { weakest > value };
        if beats || (weakest.is_nan() && !value.is_nan()) {
            chosen[0] = candidate;
            sift_down(chosen, top);
        }
    }

    fn finish(
        &self,
        groups: Vec<Vec<Vec<Candidate>>>,
        metas: &[Meta],
        steps: usize,
    ) -> Result<Vec<Held>, QueryError> {
        let ordered = matches!(self.op, AggregateOp::Topk | AggregateOp::Bottomk);
        let top = self.op == AggregateOp::Topk;
        let mut series: Vec<Held> = Vec::new();
        let mut place_of: HashMap<usize, usize> = HashMap::new();
        for group in groups {
            for (step, mut chosen) in group.into_iter().enumerate() {
                if ordered {
                    chosen.sort_by(|a, b| {
                        let weaker = |a: f64, b: f64| is_weaker(a, b, top);
                        match (weaker(b.value, a.value), weaker(a.value, b.value)) {
                            (true, false) => std::cmp::Ordering::Less,
                            (false, true) => std::cmp::Ordering::Greater,
                            _ => std::cmp::Ordering::Equal,
                        }
                    });
                }
                for candidate in chosen {
                    let place = *place_of.entry(candidate.series).or_insert_with(|| {
                        let meta = metas[candidate.series].clone();
                        series.push(Held { meta, column: Column::new(steps) });
                        series.len() - 1
                    });
                    let output = match candidate.histogram {
                        Some(histogram) => Output::Histogram(histogram),
                        None => Output::Float(candidate.value),
                    };
                    series[place].column.set(step, output);
                }
            }
        }
        merge_held(series)
    }
}

/// Whether `a` comes before `b` on the way out: NaN first.
fn is_weaker(a: f64, b: f64, top: bool) -> bool {
    a.is_nan() || if top { a < b } else { a > b }
}

fn sift_up(heap: &mut [Candidate], top: bool) {
    let mut at = heap.len() - 1;
    while at > 0 {
        let parent = (at - 1) / 2;
        if !is_weaker(heap[at].value, heap[parent].value, top) {
            return;
        }
        heap.swap(at, parent);
        at = parent;
    }
}

fn sift_down(heap: &mut [Candidate], top: bool) {
    let mut at = 0;
    loop {
        let left = 2 * at + 1;
        if left >= heap.len() {
            return;
        }
        let right = left + 1;
        let right_is_weaker =
            right < heap.len() && is_weaker(heap[right].value, heap[left].value, top);
        let child = if right_is_weaker { right } else { left };
        if !is_weaker(heap[child].value, heap[at].value, top) {
            return;
        }
        heap.swap(at, child);
        at = child;
    }
}

/// Where a series lies among all, from 0 to 1, the same at every step and in every query.
///
/// The hash that Prometheus' default build takes: over its own encoding of the labels, which is ours
/// except for lengths from 128 on.
fn sampling_offset(labels: &Labels) -> f64 {
    let mut bytes = Vec::with_capacity(labels.as_bytes().len() + 8);
    for (name, value) in labels {
        for text in [name, value] {
            if text.len() < 255 {
                bytes.push(text.len() as u8);
            } else {
                bytes.push(255);
                bytes.extend_from_slice(&(text.len() as u32).to_le_bytes()[..3]);
            }
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    xxh64(&bytes, 0) as f64 / u64::MAX as f64
}

/// `count_values(label, vector)`
pub(crate) fn count_values(
    context: &Context<'_>,
    vector: Vector<'_>,
    key: Key<'_>,
    label: &str,
    steps: usize,
) -> Result<Vec<Held>, QueryError> {
    let mut places: HashMap<Labels, usize, foldhash::fast::RandomState> = HashMap::default();
    let mut series: Vec<Held> = Vec::new();
    for_each(context, vector, steps, |_, meta, column| {
        // Most series keep a value for some steps.
        let mut latest: Option<(u64, usize)> = None;
        for step in 0..steps {
            let (bits, text) = match column.get(step) {
                None => continue,
                Some(Item::Float(value)) => {
                    (Some(value.to_bits()), latest.is_none_or(|(bits, _)| bits != value.to_bits()))
                }
                Some(Item::Histogram(_)) => (None, true),
            };
            let place = match (bits, latest, text) {
                (Some(_), Some((_, place)), false) => place,
                _ => {
                    let text = match column.get(step) {
                        Some(Item::Histogram(histogram)) => histogram::text(histogram),
                        Some(Item::Float(value)) => number::fixed(value),
                        None => continue,
                    };
                    let mut builder = meta.labels.to_builder();
                    builder.set(label, &text);
                    let labels = key.of(&builder.build());
                    *places.entry(labels.clone()).or_insert_with(|| {
                        series.push(Held { meta: Meta::new(labels), column: Column::new(steps) });
                        series.len() - 1
                    })
                }
            };
            latest = bits.map(|bits| (bits, place));
            let count = match series[place].column.get(step) {
                Some(Item::Float(count)) => count + 1.0,
                _ => 1.0,
            };
            series[place].column.set(step, Output::Float(count));
        }
        Ok(())
    })?;
    Ok(series)
}
