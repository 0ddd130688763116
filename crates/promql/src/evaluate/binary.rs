//! Binary operators between two vectors.
//!
//! Arithmetic and comparison hold the side that has one series per group, and go through the other
//! one series by series:
//!
//! 1. The series of the "one" side are sorted into groups by the labels to match. Two of a group at
//!    one step are an error, unless the other side is empty at that step.
//! 2. Each series of the other side finds, step by step, its partner in its group.
//! 3. What is left of the "one" side meets the value of `fill_left` or `fill_right`.
//!
//! Of several errors, the one of the earliest step is reported.

use hashbrown::HashMap;
use store::Labels;

use super::column::{Column, Item, Output};
use super::context::{Context, Scratch, without_metadata};
use super::element::{apply, changes_metric};
use super::group::{Groups, Key};
use super::number::truth;
use super::source::{Held, Meta, Source, Vector, collect, for_each, merge_held, same_labelset};
use crate::annotations::Annotations;
use crate::ast::{Binary, BinaryOp, Cardinality, Matching, Span};
use crate::error::QueryError;

const NONE: u32 = u32::MAX;

/// An operator between vectors, other than the set operators.
pub(crate) struct VectorOperator<'a> {
    pub(crate) binary: &'a Binary,
    pub(crate) matching: &'a Matching,
    /// Where the operation stands in the query.
    pub(crate) span: Span,
    pub(crate) steps: usize,
    pub(crate) delays_names: bool,
}

/// The key that decides which series match.
pub(crate) fn matching_key(matching: &Matching) -> Key<'_> {
    Key { labels: &matching.labels, without: !matching.on }
}

/// The series of a group of the "one" side.
struct OneGroup {
    /// Which series is there at each step; empty where the group has one series only.
    at: Vec<u32>,
    only: u32,
    /// Steps that found a partner.
    matched: Vec<bool>,
}

impl OneGroup {
    fn series(&self, step: usize) -> u32 {
        if self.at.is_empty() { self.only } else { self.at[step] }
    }
}

/// An output series, and which group it was made from at each step.
struct Made {
    held: Held,
    made_of: Vec<u32>,
}

/// The state of one operation.
struct Join<'a, 'b> {
    operator: &'b VectorOperator<'a>,
    one: Vec<Held>,
    groups: Vec<OneGroup>,
    places: HashMap<Labels, usize, foldhash::fast::RandomState>,
    results: Vec<Made>,
    annotations: Annotations,
    /// The error of the earliest step.
    failed: Option<(usize, QueryError)>,
    /// Duplicates on the "one" side: step, group, the later and the earlier series.
    duplicates: Vec<(usize, u32, u32)>,
}

impl VectorOperator<'_> {
    /// The series of the result.
    pub(crate) fn run(
        &self,
        context: &Context<'_>,
        left: Vector<'_>,
        right: Vector<'_>,
    ) -> Result<Vec<Held>, QueryError> {
        let swapped = self.matching.cardinality == Cardinality::OneToMany;
        let (many, one) = if swapped { (right, left) } else { (left, right) };
        let one = collect(context, one, self.steps)?;
        let key = matching_key(self.matching);
        let mut keys = Groups::default();
        let mut join = Join {
            operator: self,
            one,
            groups: Vec::new(),
            places: HashMap::default(),
            results: Vec::new(),
            annotations: Annotations::default(),
            failed: None,
            duplicates: Vec::new(),
        };
        join.sort_into_groups(key, &mut keys);
        let fill = self.matching.fill_right;
        let mut many_present = vec![false; self.steps];
        for_each(context, many, self.steps, |_, meta, column| {
            for (step, present) in many_present.iter_mut().enumerate() {
                *present |= column.is_present(step);
            }
            let group = match (keys.find(key, &meta.labels), fill) {
                (None, None) => return Ok(()),
                (None, Some(_)) => join.empty_group(keys.place(key, &meta.labels).0),
                (Some(group), _) => group,
            };
            join.meet_all(group, meta, column);
            Ok(())
        })?;
        join.report_duplicates(&many_present);
        if let Some(fill) = self.matching.fill_left {
            join.fill_rest(fill, key, &mut keys);
        }
        context.annotate(|all| all.merge(std::mem::take(&mut join.annotations)));
        if let Some((_, error)) = join.failed {
            return Err(error);
        }
        let results = join.results.into_iter().map(|result| result.held);
        Ok(results.filter(|held| !held.column.is_empty()).collect())
    }

    /// The labels of the result of two series.
    fn labels(&self, many: &Labels, one: &Labels) -> Labels {
        let op = self.binary.op;
        let drops = changes_metric(op) || (self.binary.return_bool && !self.delays_names);
        let base = if drops { without_metadata(many) } else { many.clone() };
        let mut builder = base.to_builder();
        if self.matching.cardinality == Cardinality::OneToOne {
            let named = |name: &str| self.matching.labels.iter().any(|l| l.as_ref() == name);
            builder.retain(|name, _| named(name) == self.matching.on);
        }
        for name in &self.matching.include {
            builder.set(name, one.get(name).unwrap_or(""));
        }
        builder.build()
    }
}

impl Join<'_, '_> {
    fn fail(&mut self, step: usize, error: impl FnOnce() -> QueryError) {
        if self.failed.as_ref().is_none_or(|(earliest, _)| step < *earliest) {
            self.failed = Some((step, error()));
        }
    }

    fn sort_into_groups(&mut self, key: Key<'_>, keys: &mut Groups) {
        let steps = self.operator.steps;
        for (series, held) in self.one.iter().enumerate() {
            let (place, new) = keys.place(key, &held.meta.labels);
            let series = series as u32;
            if new {
                let matched = vec![false; steps];
                self.groups.push(OneGroup { at: Vec::new(), only: series, matched });
                continue;
            }
            let group = &mut self.groups[place];
            if group.at.is_empty() {
                let first = &self.one[group.only as usize].column;
                group.at = (0..steps)
                    .map(|step| if first.is_present(step) { group.only } else { NONE })
                    .collect();
            }
            for step in (0..steps).filter(|step| held.column.is_present(*step)) {
                if group.at[step] == NONE {
                    group.at[step] = series;
                } else {
                    self.duplicates.push((step, series, group.at[step]));
                }
            }
        }
    }

    /// A group that the "one" side has no series of.
    fn empty_group(&mut self, place: usize) -> usize {
        if place == self.groups.len() {
            let matched = vec![false; self.operator.steps];
            self.groups.push(OneGroup { at: Vec::new(), only: NONE, matched });
        }
        place
    }

    fn report_duplicates(&mut self, many_present: &[bool]) {
        let matching = self.operator.matching;
        let fills = matching.fill_left.is_some() || matching.fill_right.is_some();
        let first = self
            .duplicates
            .iter()
            .filter(|(step, _, _)| fills || many_present[*step])
            .min_by_key(|(step, _, _)| *step);
        let Some((step, later, earlier)) = first.copied() else { return };
        // Within a step, duplicates come to light before anything else.
        if self.failed.as_ref().is_some_and(|(earliest, _)| *earliest < step) {
            return;
        }
        let side = if matching.cardinality == Cardinality::OneToMany { "left" } else { "right" };
        let labels = |series: u32| &self.one[series as usize].meta.labels;
        let group = matching_key(matching).of(labels(later));
        let message = format!(
            "found duplicate series for the match group {group} on the {side} hand-side of the \
             operation: [{}, {}];many-to-many matching not allowed: matching labels must be unique \
             on one side",
            labels(later),
            labels(earlier)
        );
        self.failed = Some((step, QueryError::execution(message)));
    }

    /// Lets a series of the "many" side meet its partners.
    fn meet_all(&mut self, group: usize, meta: &Meta, column: &Column) {
        let fill = self.operator.matching.fill_right;
        let mut place: Option<(u32, usize)> = None;
        for step in 0..column.len() {
            if !column.is_present(step) {
                continue;
            }
            let mut one = self.groups[group].series(step);
            if one != NONE && !self.one[one as usize].column.is_present(step) {
                one = NONE;
            }
            let partner = match (one, fill) {
                (NONE, None) => continue,
                (NONE, Some(value)) => Output::Float(value),
                (one, _) => self.one[one as usize].column.output(step),
            };
            let result = match place {
                Some((before, result)) if before == one => result,
                _ => {
                    let labels = if one == NONE {
                        let own = matching_key(self.operator.matching).of(&meta.labels);
                        self.operator.labels(&meta.labels, &own)
                    } else {
                        self.operator.labels(&meta.labels, &self.one[one as usize].meta.labels)
                    };
                    self.result(labels)
                }
            };
            place = Some((one, result));
            self.meet(step, group, result, &column.output(step), &partner);
        }
    }

    /// The place of the result with these labels.
    fn result(&mut self, labels: Labels) -> usize {
        let steps = self.operator.steps;
        *self.places.entry(labels).or_insert_with_key(|labels| {
            let meta = Meta { labels: labels.clone(), drop_name: self.operator.binary.return_bool };
            let held = Held { meta, column: Column::new(steps) };
            self.results.push(Made { held, made_of: vec![NONE; steps] });
            self.results.len() - 1
        })
    }

    fn meet(&mut self, step: usize, group: usize, result: usize, many: &Output, one: &Output) {
        let Some((many, one)) = item(many).zip(item(one)) else { return };
        let binary = self.operator.binary;
        let cardinality = self.operator.matching.cardinality;
        let swapped = cardinality == Cardinality::OneToMany;
        let (left, right) = if swapped { (one, many) } else { (many, one) };
        let applied = apply(binary.op, left, right, &mut self.annotations, self.operator.span);
        let Some(applied) = applied else { return };
        if cardinality == Cardinality::OneToOne {
            if self.groups[group].matched[step] {
                self.fail(step, || {
                    QueryError::execution(
                        "multiple matches for labels: many-to-one matching must be explicit \
                         (group_left/group_right)",
                    )
                });
                return;
            }
        } else if self.results[result].made_of[step] == group as u32 {
            self.fail(step, || {
                QueryError::execution(
                    "multiple matches for labels: grouping labels must ensure unique matches",
                )
            });
            return;
        }
        self.groups[group].matched[step] = true;
        self.results[result].made_of[step] = group as u32;
        let value = match (binary.return_bool, applied.keep) {
            (true, keep) => Output::Float(truth(keep)),
            (false, false) => return,
            (false, true) => applied.value,
        };
        if self.results[result].held.column.is_present(step) {
            self.fail(step, same_labelset);
            return;
        }
        self.results[result].held.column.set(step, value);
    }

    /// Lets the rest of the "one" side meet a value.
    fn fill_rest(&mut self, fill: f64, key: Key<'_>, keys: &mut Groups) {
        for series in 0..self.one.len() {
            let meta = self.one[series].meta.clone();
            let Some(group) = keys.find(key, &meta.labels) else { continue };
            let mut result = None;
            for step in 0..self.operator.steps {
                let column = &self.one[series].column;
                if !column.is_present(step) || self.groups[group].matched[step] {
                    continue;
                }
                let one = column.output(step);
                let place = *result.get_or_insert_with(|| {
                    let labels = self.operator.labels(&key.of(&meta.labels), &meta.labels);
                    self.result(labels)
                });
                self.meet(step, group, place, &Output::Float(fill), &one);
            }
        }
    }
}

fn item(output: &Output) -> Option<Item<'_>> {
    match output {
        Output::Nothing => None,
        Output::Float(value) => Some(Item::Float(*value)),
        Output::Histogram(histogram) => Some(Item::Histogram(histogram)),
    }
}

/// At which steps each group has a sample.
#[derive(Default)]
struct Presence {
    keys: Groups,
    steps: Vec<Vec<bool>>,
}

impl Presence {
    fn add(&mut self, key: Key<'_>, meta: &Meta, column: &Column) {
        let (place, new) = self.keys.place(key, &meta.labels);
        if new {
            self.steps.push(vec![false; column.len()]);
        }
        for (step, present) in self.steps[place].iter_mut().enumerate() {
            *present |= column.is_present(step);
        }
    }
}

/// The series of one side where the other has, or has not, a sample in the group.
struct FilterSource<'a> {
    input: Box<dyn Source + 'a>,
    /// The group of each series on the other side.
    groups: Vec<Option<usize>>,
    present: Vec<Vec<bool>>,
    wanted: bool,
}

impl Source for FilterSource<'_> {
    fn metas(&self) -> &[Meta] {
        self.input.metas()
    }

    fn fill(
        &self,
        context: &Context<'_>,
        index: usize,
        scratch: &mut Scratch,
        out: &mut Column,
    ) -> Result<(), QueryError> {
        let present = self.groups[index].map(|group| self.present[group].as_slice());
        if present.is_none() && self.wanted {
            return Ok(());
        }
        self.input.fill(context, index, scratch, out)?;
        for (step, there) in present.into_iter().flatten().enumerate() {
            if *there != self.wanted {
                out.set(step, Output::Nothing);
            }
        }
        Ok(())
    }
}

/// `and`, `or`, `unless`
pub(crate) fn set_operation<'a>(
    context: &Context<'_>,
    op: BinaryOp,
    key: Key<'_>,
    left: Vector<'a>,
    right: Vector<'a>,
    steps: usize,
) -> Result<Vector<'a>, QueryError> {
    let mut presence = Presence::default();
    if op == BinaryOp::Or {
        let mut series: Vec<Held> = Vec::new();
        for_each(context, left, steps, |_, meta, column| {
            if !column.is_empty() {
                presence.add(key, meta, column);
                series.push(Held { meta: meta.clone(), column: std::mem::take(column) });
            }
            Ok(())
        })?;
        let rest = filter(key, presence, right, false);
        series.extend(collect(context, rest, steps)?);
        series.retain(|held| !held.column.is_empty());
        return Ok(Vector::Held(merge_held(series)?));
    }
    for_each(context, right, steps, |_, meta, column| {
        presence.add(key, meta, column);
        Ok(())
    })?;
    Ok(filter(key, presence, left, op == BinaryOp::And))
}

fn filter<'a>(
    key: Key<'_>,
    mut presence: Presence,
    vector: Vector<'a>,
    wanted: bool,
) -> Vector<'a> {
    let input = vector.into_source();
    let groups = input.metas().iter().map(|meta| presence.keys.find(key, &meta.labels)).collect();
    Vector::Lazy(Box::new(FilterSource { input, groups, present: presence.steps, wanted }))
}
