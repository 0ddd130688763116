//! Calls of functions.

use store::pattern::{Captures, Template};
use store::{Labels, Pattern};

use super::classic::{self, Question};
use super::column::{Column, Grid, Item, Output};
use super::evaluator::{Evaluated, Evaluator, boxed};
use super::labels::{fixed_labels, is_label_name, join, with_label};
use super::map::{Operation, date_function, float_function, histogram_function};
use super::number::{maximum, minimum};
use super::plan::{Prepared, When, for_each_child, unwrap};
use super::range::{RangeFunction, RangeSource};
use super::selector::Wanted;
use super::source::{Held, Meta, Vector, collect, for_each, merge_held, same_labelset, weight};
use super::{info, sort};
use crate::ast::{Kind, NodeId, Span};
use crate::error::QueryError;

impl<'a> Evaluator<'_, 'a> {
    /// The value of a function.
    pub(crate) fn call(
        &self,
        name: &'static str,
        arguments: &'a [NodeId],
        span: Span,
        grid: Grid,
    ) -> Result<Evaluated<'a>, QueryError> {
        let scalars = |at: usize| self.scalar(self.argument(name, arguments, at)?, grid);
        Ok(match name {
            "time" => Evaluated::Scalar(grid.times().map(|time| time as f64 / 1000.0).collect()),
            "pi" => Evaluated::Scalar(vec![std::f64::consts::PI; grid.count]),
            "max_of" | "min_of" => {
                let choose = if name == "max_of" { maximum } else { minimum };
                let pairs = scalars(0)?.into_iter().zip(scalars(1)?);
                Evaluated::Scalar(pairs.map(|(a, b)| choose(a, b)).collect())
            }
            "scalar" => {
                Evaluated::Scalar(self.only_value(self.argument(name, arguments, 0)?, grid)?)
            }
            _ => Evaluated::Vector(self.vector_call(name, arguments, span, grid)?),
        })
    }

    fn argument(&self, name: &str, arguments: &[NodeId], at: usize) -> Result<NodeId, QueryError> {
        let id = arguments.get(at).copied().ok_or_else(|| {
            QueryError::execution(format!("call to function {name:?} lacks argument {}", at + 1))
        })?;
        Ok(unwrap(self.query(), id))
    }

    fn vector_call(
        &self,
        name: &'static str,
        arguments: &'a [NodeId],
        span: Span,
        grid: Grid,
    ) -> Result<Vector<'a>, QueryError> {
        let argument = |at: usize| self.argument(name, arguments, at);
        if let Some(function) = RangeFunction::named(name) {
            return self.range_call(name, function, arguments, grid);
        }
        if let Some(function) = date_function(name)
            && arguments.is_empty()
        {
            let seconds = grid.times().map(|time| time.div_euclid(1000) as f64);
            return Ok(unlabelled(seconds.map(function).collect()));
        }
        if let Some(function) = float_function(name) {
            let vector = self.vector(argument(0)?, grid)?;
            return self.map(vector, Operation::Float(function), true, grid);
        }
        if let Some(function) = histogram_function(name) {
            let vector = self.vector(argument(0)?, grid)?;
            return self.map(vector, Operation::Histogram(function), true, grid);
        }
        match name {
            "vector" => Ok(unlabelled(self.scalar(argument(0)?, grid)?)),
            "clamp" | "clamp_min" | "clamp_max" | "round" => {
                let operation = self.limits(name, arguments, grid)?;
                self.map(self.vector(argument(0)?, grid)?, operation, true, grid)
            }
            "timestamp" => self.timestamp(argument(0)?, grid),
            "start_timestamp" => self.start_timestamp(argument(0)?, grid),
            "absent" => self.absent(argument(0)?, grid),
            "label_replace" => self.label_replace(name, arguments, grid),
            "label_join" => self.label_join(name, arguments, grid),
            "sort" | "sort_desc" | "sort_by_label" | "sort_by_label_desc" => {
                self.sorted(name, arguments, span, grid)
            }
            "histogram_quantile" | "histogram_quantiles" | "histogram_fraction" => {
                self.histogram_question(name, arguments, grid)
            }
            "info" => self.info(arguments, grid),
            _ => Err(QueryError::execution(format!("function {name:?} is not supported yet"))),
        }
    }

    fn limits(
        &self,
        name: &str,
        arguments: &[NodeId],
        grid: Grid,
    ) -> Result<Operation, QueryError> {
        let scalars = |at: usize| self.scalar(self.argument(name, arguments, at)?, grid);
        let none = |limit: f64| vec![limit; grid.count];
        Ok(match name {
            "clamp_min" => Operation::Clamp(scalars(1)?, none(f64::INFINITY)),
            "clamp_max" => Operation::Clamp(none(f64::NEG_INFINITY), scalars(1)?),
            "clamp" => Operation::Clamp(scalars(1)?, scalars(2)?),
            _ if arguments.len() > 1 => Operation::Round(scalars(1)?),
            _ => Operation::Round(none(1.0)),
        })
    }

    /// The value of the only float at each step; NaN where there is none or are several.
    fn only_value(&self, id: NodeId, grid: Grid) -> Result<Vec<f64>, QueryError> {
        let mark = self.context.held();
        let mut values = vec![f64::NAN; grid.count];
        let mut counts = vec![0u8; grid.count];
        for_each(self.context, self.vector(id, grid)?, grid.count, |_, _, column| {
            for (step, count) in counts.iter_mut().enumerate() {
                if let Some(Item::Float(value)) = column.get(step) {
                    *count = count.saturating_add(1);
                    values[step] = if *count == 1 { value } else { f64::NAN };
                }
            }
            Ok(())
        })?;
        self.context.settle(mark, grid.count as u64)?;
        Ok(values)
    }

    fn range_call(
        &self,
        name: &'static str,
        function: RangeFunction,
        arguments: &'a [NodeId],
        grid: Grid,
    ) -> Result<Vector<'a>, QueryError> {
        let is_range = |id: &NodeId| {
            matches!(
                self.query().node(*id).kind,
                Kind::MatrixSelector { .. } | Kind::Subquery { .. }
            )
        };
        let ids: Vec<NodeId> = arguments.iter().map(|id| unwrap(self.query(), *id)).collect();
        let at = ids.iter().position(is_range).ok_or_else(|| {
            QueryError::execution(format!("call to function {name:?} lacks a range vector"))
        })?;
        let mut others = Vec::new();
        for (place, id) in ids.iter().enumerate() {
            if place != at {
                others.push(self.scalar(*id, grid)?);
            }
        }
        let range = self.range_vector(ids[at], grid)?;
        if let Some(names) = function.refuses(range.extension) {
            let modifier = match range.extension {
                crate::ast::RangeExtension::Anchored => "anchored",
                _ => "smoothed",
            };
            return Err(QueryError::execution(format!(
                "{modifier} modifier can only be used with: {names} - not with {name}"
            )));
        }
        let keeps_name = function.keeps_name();
        let metas = range.metas.iter().map(|meta| {
            if keeps_name && (self.context.delays_names() || !meta.drop_name) {
                meta.clone()
            } else {
                self.context.without_name(meta)
            }
        });
        let source = RangeSource {
            input: range.input,
            metas: metas.collect::<Vec<Meta>>(),
            function,
            arguments: others,
            grid,
            when: range.when,
            range: range.range,
            extension: range.extension,
            // Notes name the first argument, wherever the range vector stands. Of a subquery the place
            // is not known to Prometheus either, which names the query's first character.
            span: match self.query().node(ids[0]).kind {
                Kind::Subquery { .. } => Span::default(),
                _ => self.span(ids[0]),
            },
        };
        let vector = boxed(source);
        if name == "absent_over_time" {
            let labels = match &self.query().node(ids[at]).kind {
                Kind::MatrixSelector { selector, .. } => self.fixed_labels(*selector),
                _ => Labels::empty(),
            };
            return self.absent_vector(vector, labels, grid);
        }
        if keeps_name || self.context.delays_names() {
            return Ok(vector);
        }
        self.refuse_same(vector, grid)
    }

    /// Two series that differ in nothing but the name, which a function drops, are an error.
    fn refuse_same(&self, vector: Vector<'a>, grid: Grid) -> Result<Vector<'a>, QueryError> {
        let mut seen = hashbrown::HashSet::new();
        if vector.metas().all(|meta| seen.insert(meta.labels.clone())) {
            return Ok(vector);
        }
        let series = collect(self.context, vector, grid.count)?;
        seen.clear();
        if series.iter().all(|held| seen.insert(held.meta.labels.clone())) {
            return Ok(Vector::Held(series));
        }
        Err(same_labelset())
    }

    fn timestamp(&self, id: NodeId, grid: Grid) -> Result<Vector<'a>, QueryError> {
        if let Kind::VectorSelector(selector) = &self.query().node(id).kind {
            let vector = self.selector(id, selector, grid, Wanted::Timestamp)?;
            // The values are there; what is left is the name.
            return self.map(vector, Operation::Float(|time| time), true, grid);
        }
        self.map(self.vector(id, grid)?, Operation::Time, true, grid)
    }

    fn start_timestamp(&self, id: NodeId, grid: Grid) -> Result<Vector<'a>, QueryError> {
        if let Kind::VectorSelector(selector) = &self.query().node(id).kind
            && self.context.environment.options.start_timestamps
        {
            let vector = self.selector(id, selector, grid, Wanted::StartTimestamp)?;
            return self.map(vector, Operation::Float(|time| time), true, grid);
        }
        Ok(Vector::Held(Vec::new()))
    }

    fn fixed_labels(&self, id: NodeId) -> Labels {
        match &self.query().node(id).kind {
            Kind::VectorSelector(selector) => fixed_labels(&selector.matchers),
            _ => Labels::empty(),
        }
    }

    fn absent(&self, id: NodeId, grid: Grid) -> Result<Vector<'a>, QueryError> {
        let labels = self.fixed_labels(id);
        self.absent_vector(self.vector(id, grid)?, labels, grid)
    }

    /// 1 at the steps at which no series has a sample.
    fn absent_vector(
        &self,
        vector: Vector<'a>,
        labels: Labels,
        grid: Grid,
    ) -> Result<Vector<'a>, QueryError> {
        let mark = self.context.held();
        let mut values = vec![1.0; grid.count];
        for_each(self.context, vector, grid.count, |_, _, column| {
            for (step, value) in values.iter_mut().enumerate() {
                if column.is_present(step) {
                    *value = super::column::ABSENT;
                }
            }
            Ok(())
        })?;
        let held = Held { meta: Meta::new(labels), column: Column::from_values(values) };
        self.context.settle(mark, held.column.weight())?;
        Ok(Vector::Held(if held.column.is_empty() { Vec::new() } else { vec![held] }))
    }

    fn label_replace(
        &self,
        name: &str,
        arguments: &'a [NodeId],
        grid: Grid,
    ) -> Result<Vector<'a>, QueryError> {
        let text = |at: usize| self.string(self.argument(name, arguments, at)?);
        let (target, replacement, source, expression) = (text(1)?, text(2)?, text(3)?, text(4)?);
        let pattern = Pattern::new(expression).map_err(|_| {
            QueryError::execution(format!(
                "invalid regular expression in label_replace(): {expression}"
            ))
        })?;
        if !is_label_name(target) {
            return Err(QueryError::execution(format!(
                "invalid destination label name in label_replace(): {target}"
            )));
        }
        let template = Template::new(replacement);
        let mut captures = Captures::default();
        let mut value = String::new();
        self.relabel(self.argument(name, arguments, 0)?, grid, |meta| {
            let text = meta.labels.get(source).unwrap_or("");
            if !pattern.captures(text, &mut captures) {
                return meta.clone();
            }
            value.clear();
            template.expand(text, &captures, &mut value);
            with_label(meta, target, &value)
        })
    }

    fn label_join(
        &self,
        name: &str,
        arguments: &'a [NodeId],
        grid: Grid,
    ) -> Result<Vector<'a>, QueryError> {
        let text = |at: usize| self.string(self.argument(name, arguments, at)?);
        let (target, separator) = (text(1)?, text(2)?);
        let sources = (3..arguments.len()).map(text).collect::<Result<Vec<&str>, _>>()?;
        for (what, name) in
            sources.iter().map(|source| ("source", *source)).chain([("destination", target)])
        {
            if !is_label_name(name) {
                return Err(QueryError::execution(format!(
                    "invalid {what} label name in label_join(): {name}"
                )));
            }
        }
        self.relabel(self.argument(name, arguments, 0)?, grid, |meta| {
            with_label(meta, target, &join(&meta.labels, &sources, separator))
        })
    }

    /// Gives all series other labels. Series that become one are merged.
    fn relabel(
        &self,
        id: NodeId,
        grid: Grid,
        mut change: impl FnMut(&Meta) -> Meta,
    ) -> Result<Vector<'a>, QueryError> {
        let mark = self.context.held();
        let mut series = collect(self.context, self.vector(id, grid)?, grid.count)?;
        for held in &mut series {
            held.meta = change(&held.meta);
        }
        let series = merge_held(series)?;
        self.context.settle(mark, weight(&series))?;
        Ok(Vector::Held(series))
    }

    fn sorted(
        &self,
        name: &str,
        arguments: &'a [NodeId],
        span: Span,
        grid: Grid,
    ) -> Result<Vector<'a>, QueryError> {
        let vector = self.vector(self.argument(name, arguments, 0)?, grid)?;
        let by_value = matches!(name, "sort" | "sort_desc");
        if grid.count != 1 {
            self.context.annotate(|notes| super::notes::sort_in_range(notes, span));
            if !by_value {
                return Ok(vector);
            }
            // Sorting by value drops histograms, whatever becomes of the order.
            return self.map(vector, Operation::Float(|value| value), false, grid);
        }
        let series = collect(self.context, vector, grid.count)?;
        let descending = name.ends_with("_desc");
        if by_value {
            return Ok(Vector::Held(sort::by_value(series, descending)));
        }
        let labels = (1..arguments.len())
            .map(|at| self.string(self.argument(name, arguments, at)?))
            .collect::<Result<Vec<&str>, QueryError>>()?;
        Ok(Vector::Held(sort::by_labels(series, &labels, descending)))
    }

    fn histogram_question(
        &self,
        name: &str,
        arguments: &'a [NodeId],
        grid: Grid,
    ) -> Result<Vector<'a>, QueryError> {
        let argument = |at: usize| self.argument(name, arguments, at);
        let scalars = |at: usize| self.scalar(argument(at)?, grid);
        let quantile = |at: usize| {
            let values = scalars(at)?;
            let span = self.span(argument(at)?);
            self.context.annotate(|notes| {
                for value in values.iter().filter(|value| !(0.0..=1.0).contains(*value)) {
                    super::notes::invalid_quantile(notes, span, *value);
                }
            });
            Ok(values)
        };
        let mark = self.context.held();
        let (vector, question) = match name {
            "histogram_quantile" => {
                (1, Question::Quantiles { values: vec![quantile(0)?], label: None })
            }
            "histogram_quantiles" => {
                let values =
                    (2..arguments.len()).map(quantile).collect::<Result<Vec<_>, QueryError>>()?;
                let question =
                    Question::Quantiles { values, label: Some(self.string(argument(1)?)?) };
                (0, question)
            }
            _ => (2, Question::Fraction(scalars(0)?, scalars(1)?)),
        };
        let series = collect(self.context, self.vector(argument(vector)?, grid)?, grid.count)?;
        let span = self.span(argument(vector)?);
        let answer = classic::answer(self.context, &question, series, span, grid)?;
        self.context.settle(mark, weight(&answer))?;
        Ok(Vector::Held(answer))
    }

    fn info(&self, arguments: &'a [NodeId], grid: Grid) -> Result<Vector<'a>, QueryError> {
        let mark = self.context.held();
        let base = self.vector(self.argument("info", arguments, 0)?, grid)?;
        let base = collect(self.context, base, grid.count)?;
        let selector =
            arguments.get(1).map(|id| &self.query().node(unwrap(self.query(), *id)).kind);
        let matchers = match selector {
            Some(Kind::VectorSelector(selector)) => selector.matchers.as_slice(),
            _ => &[],
        };
        let when = self.reference(self.argument("info", arguments, 0)?);
        let series = info::info(self.context, &base, matchers, when, grid)?;
        self.context.settle(mark, weight(&series))?;
        Ok(Vector::Held(series))
    }
}

impl Evaluator<'_, '_> {
    /// The time that the samples of an expression are of: that of its first selector.
    fn reference(&self, id: NodeId) -> When {
        let mut rest = vec![(id, When { at: None, offset: 0 })];
        while let Some((id, outer)) = rest.pop() {
            match (self.context.plan.prepared(id), &self.query().node(id).kind) {
                (Prepared::Selector(when), _) => return outer.then(*when),
                (Prepared::Subquery { when, .. }, Kind::Subquery { expr, .. }) => {
                    rest.push((*expr, outer.then(*when)));
                }
                (_, kind) => {
                    let before = rest.len();
                    for_each_child(kind, |child| rest.push((child, outer)));
                    rest[before..].reverse();
                }
            }
        }
        When { at: None, offset: 0 }
    }
}

/// A vector of one series without labels.
fn unlabelled<'a>(values: Vec<f64>) -> Vector<'a> {
    let meta = Meta::new(Labels::empty());
    let mut column = Column::new(values.len());
    for (step, value) in values.into_iter().enumerate() {
        column.set(step, Output::Float(value));
    }
    Vector::Held(vec![Held { meta, column }])
}
