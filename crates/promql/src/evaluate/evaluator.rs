//! The walk over the tree.

use super::aggregate::Aggregation;
use super::binary::{VectorOperator, matching_key, set_operation};
use super::choose::{Choice, count_values};
use super::column::{Column, Grid};
use super::context::{Context, Scratch};
use super::element;
use super::group::Key;
use super::labels::is_label_name;
use super::map::{MapSource, Operation, ScalarOperator};
use super::plan::{Prepared, Selection, When, unwrap};
use super::range::Input;
use super::rate;
use super::selector::{SelectorSource, Wanted, select};
use super::source::{Meta, Source, Vector, collect, merge_same, weight};
use super::window::Buffer;
use crate::ast::{
    Aggregate, AggregateOp, Binary, BinaryOp, Kind, NodeId, Query, RangeExtension, Span, ValueType,
    VectorSelector,
};
use crate::error::QueryError;
use crate::value::SeriesPoints;

/// The value of an expression across all steps.
pub(crate) enum Evaluated<'a> {
    /// One number per step.
    Scalar(Vec<f64>),
    Vector(Vector<'a>),
    String(Box<str>),
}

/// Evaluates expressions of one query.
#[derive(Clone, Copy)]
pub(crate) struct Evaluator<'c, 'a> {
    pub(crate) context: &'c Context<'a>,
}

/// The samples of a range vector, one series at a time.
pub(crate) struct RangeVector<'a> {
    pub(crate) input: Input<'a>,
    pub(crate) metas: Vec<Meta>,
    pub(crate) when: When,
    pub(crate) range: i64,
    pub(crate) extension: RangeExtension,
}

impl<'a> Evaluator<'_, 'a> {
    pub(crate) fn query(&self) -> &'a Query {
        self.context.query
    }

    pub(crate) fn span(&self, id: NodeId) -> Span {
        self.query().node(id).span
    }

    /// An expression as it was written.
    fn written(&self, id: NodeId) -> &'a str {
        let span = self.span(id);
        self.query().text.get(span.start as usize..span.end as usize).unwrap_or("")
    }

    /// The value of an expression that is not a range vector.
    pub(crate) fn evaluate(&self, id: NodeId, grid: Grid) -> Result<Evaluated<'a>, QueryError> {
        self.context.check()?;
        let id = unwrap(self.query(), id);
        if let Prepared::Number(value) = self.context.plan.prepared(id) {
            return Ok(Evaluated::Scalar(vec![*value; grid.count]));
        }
        let kind = &self.query().node(id).kind;
        match kind {
            Kind::Number { value, .. } => return Ok(Evaluated::Scalar(vec![*value; grid.count])),
            Kind::String(text) => return Ok(Evaluated::String(text.clone())),
            _ => {}
        }
        if grid.count == 0 {
            return Ok(match self.query().value_type(id) {
                ValueType::Scalar => Evaluated::Scalar(Vec::new()),
                _ => Evaluated::Vector(Vector::Held(Vec::new())),
            });
        }
        if grid.count > 1 && self.context.plan.is_invariant(id) {
            let value = self.evaluate_kind(id, grid.first())?;
            return self.repeat(value, grid.count);
        }
        self.evaluate_kind(id, grid)
    }

    /// The value of one step at all steps.
    fn repeat(&self, value: Evaluated<'a>, count: usize) -> Result<Evaluated<'a>, QueryError> {
        Ok(match value {
            Evaluated::Scalar(values) => {
                let value = values.first().copied().unwrap_or(f64::NAN);
                Evaluated::Scalar(vec![value; count])
            }
            Evaluated::Vector(vector) => {
                let mark = self.context.held();
                let mut series = collect(self.context, vector, 1)?;
                for held in &mut series {
                    held.column.repeat_first(count);
                }
                self.context.settle(mark, weight(&series))?;
                Evaluated::Vector(Vector::Held(series))
            }
            string @ Evaluated::String(_) => string,
        })
    }

    fn evaluate_kind(&self, id: NodeId, grid: Grid) -> Result<Evaluated<'a>, QueryError> {
        let node = self.query().node(id);
        Ok(match &node.kind {
            Kind::VectorSelector(selector) => {
                Evaluated::Vector(self.selector(id, selector, grid, Wanted::Value)?)
            }
            Kind::Unary { negate, expr } => self.unary(*negate, *expr, grid)?,
            Kind::Binary(binary) => self.binary(binary, node.span, grid)?,
            Kind::Aggregate(aggregate) => {
                Evaluated::Vector(self.aggregate(aggregate, node.span, grid)?)
            }
            Kind::Call { function, arguments } => {
                self.call(function.name, arguments, node.span, grid)?
            }
            Kind::Paren(inner) => self.evaluate(*inner, grid)?,
            Kind::Number { .. } | Kind::String(_) => self.evaluate(id, grid)?,
            Kind::MatrixSelector { .. } | Kind::Subquery { .. } => {
                return Err(QueryError::execution(
                    "a range vector stands where an instant vector or a number belongs",
                ));
            }
        })
    }

    /// An instant vector.
    pub(crate) fn vector(&self, id: NodeId, grid: Grid) -> Result<Vector<'a>, QueryError> {
        match self.evaluate(id, grid)? {
            Evaluated::Vector(vector) => Ok(vector),
            _ => Err(self.mistyped(id, ValueType::Vector)),
        }
    }

    /// A scalar at each step.
    pub(crate) fn scalar(&self, id: NodeId, grid: Grid) -> Result<Vec<f64>, QueryError> {
        match self.evaluate(id, grid)? {
            Evaluated::Scalar(values) => Ok(values),
            _ => Err(self.mistyped(id, ValueType::Scalar)),
        }
    }

    /// A string literal.
    pub(crate) fn string(&self, id: NodeId) -> Result<&'a str, QueryError> {
        match &self.query().node(unwrap(self.query(), id)).kind {
            Kind::String(text) => Ok(text),
            _ => Err(self.mistyped(id, ValueType::String)),
        }
    }

    #[cold]
    fn mistyped(&self, id: NodeId, wanted: ValueType) -> QueryError {
        QueryError::execution(format!(
            "expected type {} but found {}",
            wanted.documented(),
            self.query().value_type(id).documented()
        ))
    }

    pub(crate) fn selector(
        &self,
        id: NodeId,
        selector: &'a VectorSelector,
        grid: Grid,
        wanted: Wanted,
    ) -> Result<Vector<'a>, QueryError> {
        let Prepared::Selector(when) = self.context.plan.prepared(id) else {
            unreachable!("the plan prepares every selector")
        };
        let statistics_only = self.context.plan.needs_statistics_only(id);
        let selection = Selection::new(selector, *when, statistics_only);
        let source = SelectorSource::new(self.context, selection, grid, wanted, self.span(id))?;
        Ok(Vector::Lazy(Box::new(source)))
    }

    fn unary(&self, negate: bool, expr: NodeId, grid: Grid) -> Result<Evaluated<'a>, QueryError> {
        let value = self.evaluate(expr, grid)?;
        if !negate {
            return Ok(value);
        }
        Ok(match value {
            Evaluated::Scalar(mut values) => {
                values.iter_mut().for_each(|value| *value = -*value);
                Evaluated::Scalar(values)
            }
            Evaluated::Vector(vector) => {
                Evaluated::Vector(self.map(vector, Operation::Negate, true, grid)?)
            }
            Evaluated::String(_) => return Err(self.mistyped(expr, ValueType::Vector)),
        })
    }

    /// Does something to each sample of a vector, when asked.
    pub(crate) fn map(
        &self,
        vector: Vector<'a>,
        operation: Operation,
        drop_name: bool,
        grid: Grid,
    ) -> Result<Vector<'a>, QueryError> {
        let input = vector.into_source();
        let metas = input.metas().iter();
        let metas = if drop_name {
            metas.map(|meta| self.context.without_name(meta)).collect()
        } else {
            metas.cloned().collect()
        };
        let mapped = Vector::Lazy(Box::new(MapSource { input, metas, operation, grid }));
        if drop_name && !self.context.delays_names() {
            return merge_same(self.context, mapped, grid.count);
        }
        Ok(mapped)
    }

    fn binary(
        &self,
        binary: &'a Binary,
        span: Span,
        grid: Grid,
    ) -> Result<Evaluated<'a>, QueryError> {
        let left = self.evaluate(binary.left, grid)?;
        let mark = self.context.held();
        let (vector, scalar, scalar_left) = match (left, self.evaluate(binary.right, grid)?) {
            (Evaluated::Scalar(left), Evaluated::Scalar(right)) => {
                let pairs = left.into_iter().zip(right);
                let values = pairs.map(|(l, r)| element::scalars(binary.op, l, r)).collect();
                return Ok(Evaluated::Scalar(values));
            }
            (Evaluated::Vector(left), Evaluated::Vector(right)) => {
                let vector = self.between_vectors(binary, span, left, right, mark, grid)?;
                return Ok(Evaluated::Vector(vector));
            }
            (Evaluated::Vector(vector), Evaluated::Scalar(scalar)) => (vector, scalar, false),
            (Evaluated::Scalar(scalar), Evaluated::Vector(vector)) => (vector, scalar, true),
            _ => return Err(self.mistyped(binary.left, ValueType::Vector)),
        };
        let return_bool = binary.return_bool;
        let operator = ScalarOperator { op: binary.op, scalar, scalar_left, return_bool, span };
        let drop_name = operator.changes_metric();
        let mapped = self.map(vector, Operation::Scalar(operator), drop_name, grid)?;
        Ok(Evaluated::Vector(mapped))
    }

    fn between_vectors(
        &self,
        binary: &'a Binary,
        span: Span,
        left: Vector<'a>,
        right: Vector<'a>,
        mark: u64,
        grid: Grid,
    ) -> Result<Vector<'a>, QueryError> {
        let Some(matching) = &binary.matching else {
            return Err(QueryError::execution("an operator between vectors without a matching"));
        };
        let steps = grid.count;
        if matches!(binary.op, BinaryOp::And | BinaryOp::Or | BinaryOp::Unless) {
            let key = matching_key(matching);
            return set_operation(self.context, binary.op, key, left, right, steps);
        }
        let delays_names = self.context.delays_names();
        let operator = VectorOperator { binary, matching, span, steps, delays_names };
        let series = operator.run(self.context, left, right)?;
        self.context.settle(mark, weight(&series))?;
        Ok(Vector::Held(series))
    }

    fn aggregate(
        &self,
        aggregate: &'a Aggregate,
        span: Span,
        grid: Grid,
    ) -> Result<Vector<'a>, QueryError> {
        let mark = self.context.held();
        let steps = grid.count;
        let expr = unwrap(self.query(), aggregate.expr);
        let key = Key { labels: &aggregate.grouping, without: aggregate.without };
        let missing = || QueryError::execution("the aggregation lacks its parameter");
        let parameter = aggregate.parameter.map(|id| unwrap(self.query(), id));
        let series = match aggregate.op {
            AggregateOp::CountValues => {
                let id = parameter.ok_or_else(missing)?;
                let label = self.string(id)?;
                if !is_label_name(label) {
                    let written = self.written(id);
                    return Err(QueryError::execution(format!("invalid label name {written}")));
                }
                let mut labels: Vec<Box<str>> = aggregate.grouping.clone();
                if !aggregate.without {
                    labels.push(label.into());
                }
                let key = Key { labels: &labels, without: aggregate.without };
                let vector = self.vector(expr, grid)?;
                count_values(self.context, vector, key, label, steps)?
            }
            AggregateOp::Topk
            | AggregateOp::Bottomk
            | AggregateOp::Limitk
            | AggregateOp::LimitRatio => {
                let id = parameter.ok_or_else(missing)?;
                let parameter = self.scalar(id, grid)?;
                let parameter_span = self.span(id);
                let choice = Choice { op: aggregate.op, key, parameter, parameter_span, span };
                choice.run(self.context, self.vector(expr, grid)?, steps)?
            }
            op => {
                let values = match (op, parameter) {
                    (AggregateOp::Quantile, Some(id)) => {
                        let values = self.scalar(id, grid)?;
                        self.note_quantiles(&values, self.span(id));
                        values
                    }
                    _ => Vec::new(),
                };
                let span = self.span(expr);
                let aggregation = Aggregation { op, key, parameter: values, span };
                aggregation.run(self.context, self.vector(expr, grid)?, steps)?
            }
        };
        self.context.settle(mark, weight(&series))?;
        Ok(Vector::Held(series))
    }

    /// Warns of quantiles beyond 0 and 1: of the smallest, the largest and of NaN.
    fn note_quantiles(&self, values: &[f64], span: Span) {
        let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
        self.context.annotate(|notes| {
            if values.iter().any(|value| value.is_nan()) {
                super::notes::invalid_quantile(notes, span, f64::NAN);
            }
            if largest > 1.0 {
                super::notes::invalid_quantile(notes, span, largest);
            }
            if smallest < 0.0 {
                super::notes::invalid_quantile(notes, span, smallest);
            }
        });
    }

    /// The series of a range vector, as they are needed at the steps of `grid`.
    pub(crate) fn range_vector(
        &self,
        id: NodeId,
        grid: Grid,
    ) -> Result<RangeVector<'a>, QueryError> {
        let id = unwrap(self.query(), id);
        match &self.query().node(id).kind {
            Kind::MatrixSelector { selector, .. } => self.matrix_selector(id, *selector, grid),
            Kind::Subquery { expr, .. } => self.subquery(id, *expr, grid),
            _ => Err(self.mistyped(id, ValueType::Matrix)),
        }
    }

    fn matrix_selector(
        &self,
        id: NodeId,
        selector: NodeId,
        grid: Grid,
    ) -> Result<RangeVector<'a>, QueryError> {
        let plan = self.context.plan;
        let (Prepared::MatrixSelector { range }, Prepared::Selector(when)) =
            (plan.prepared(id), plan.prepared(selector))
        else {
            unreachable!("the plan prepares every selector")
        };
        let Kind::VectorSelector(vector) = &self.query().node(selector).kind else {
            return Err(self.mistyped(selector, ValueType::Vector));
        };
        let lookback = self.context.environment.lookback_delta;
        let (before, behind) = match vector.extension {
            RangeExtension::None => (0, 0),
            RangeExtension::Anchored => (lookback, 0),
            RangeExtension::Smoothed => (lookback, lookback),
        };
        let from = when.reference(grid.start) - range - before + 1;
        let to = when.reference(grid.end()) + behind;
        let statistics_only = plan.needs_statistics_only(selector);
        let series = select(self.context, &vector.matchers, from, to, statistics_only)?;
        let metas = series.iter().map(|series| Meta::new(series.labels().clone())).collect();
        Ok(RangeVector {
            input: Input::Series(series),
            metas,
            when: *when,
            range: *range,
            extension: vector.extension,
        })
    }

    fn subquery(
        &self,
        id: NodeId,
        expr: NodeId,
        grid: Grid,
    ) -> Result<RangeVector<'a>, QueryError> {
        let Prepared::Subquery { range, step, when } = self.context.plan.prepared(id) else {
            unreachable!("the plan prepares every subquery")
        };
        let inner = self.subquery_grid(*range, *step, *when, grid);
        let source = self.vector_or_scalar(expr, inner)?.into_source();
        let metas = source.metas().to_vec();
        let input = Input::Subquery { source, grid: inner };
        let extension = RangeExtension::None;
        Ok(RangeVector { input, metas, when: *when, range: *range, extension })
    }

    /// The steps of a subquery: multiples of its step, whatever the start of the query.
    fn subquery_grid(&self, range: i64, step: Option<i64>, when: When, grid: Grid) -> Grid {
        let step = step.unwrap_or(self.context.environment.options.default_evaluation_interval);
        let step = step.max(1);
        let after = when.reference(grid.start) - range;
        // Rounded towards zero and then moved up, as clients expect of times before the epoch too.
        let mut start = step * (after / step);
        if start <= after {
            start += step;
        }
        Grid::new(start, when.reference(grid.end()), step)
    }

    fn vector_or_scalar(&self, id: NodeId, grid: Grid) -> Result<Vector<'a>, QueryError> {
        match self.evaluate(id, grid)? {
            Evaluated::Vector(vector) => Ok(vector),
            Evaluated::Scalar(values) => {
                let meta = Meta::new(store::Labels::empty());
                let column = Column::from_values(values);
                Ok(Vector::Held(vec![super::source::Held { meta, column }]))
            }
            Evaluated::String(_) => Err(self.mistyped(id, ValueType::Vector)),
        }
    }

    /// A range vector as an answer, at one time.
    pub(crate) fn matrix(&self, id: NodeId, grid: Grid) -> Result<Vec<SeriesPoints>, QueryError> {
        let id = unwrap(self.query(), id);
        if let Kind::Subquery { expr, .. } = &self.query().node(id).kind {
            let Prepared::Subquery { range, step, when } = self.context.plan.prepared(id) else {
                unreachable!("the plan prepares every subquery")
            };
            let inner = self.subquery_grid(*range, *step, *when, grid);
            let vector = self.vector_or_scalar(*expr, inner)?;
            let series = super::drop_names(collect(self.context, vector, inner.count)?)?;
            let points =
                series.into_iter().map(|held| super::points(held.meta.labels, &held.column, inner));
            return Ok(points.filter(|points| !points.is_empty()).collect());
        }
        let vector = self.range_vector(id, grid)?;
        let end = vector.when.reference(grid.start);
        let start = end - vector.range;
        let lookback = self.context.environment.lookback_delta;
        let (before, behind) = match vector.extension {
            RangeExtension::None => (0, 0),
            RangeExtension::Anchored => (lookback, 0),
            RangeExtension::Smoothed => (lookback, lookback),
        };
        let Input::Series(series) = vector.input else { return Ok(Vec::new()) };
        let mut scratch = Scratch::default();
        let mut buffer = Buffer::default();
        let mut answer = Vec::new();
        for series in &series {
            self.context.check()?;
            buffer.clear();
            let mut cursor = series.cursor();
            let (after, until) = (start - before, end + behind);
            buffer.slide(cursor.as_mut(), &mut scratch.samples, after, until)?;
            scratch.read += buffer.read;
            scratch.total += buffer.weight();
            self.context.hold(buffer.weight())?;
            let points = window_points(series.labels(), &buffer, vector.extension, start, end)?;
            if !points.is_empty() {
                answer.push(points);
            }
        }
        self.context.absorb(&mut scratch);
        Ok(answer)
    }
}

fn window_points(
    labels: &store::Labels,
    buffer: &Buffer,
    extension: RangeExtension,
    start: i64,
    end: i64,
) -> Result<SeriesPoints, QueryError> {
    let (floats, histograms) = (buffer.floats(), buffer.histograms());
    let mut points = SeriesPoints { labels: labels.clone(), ..SeriesPoints::default() };
    if extension == RangeExtension::None {
        points.floats = floats.times.iter().copied().zip(floats.values.iter().copied()).collect();
        points.histograms =
            histograms.times.iter().copied().zip(histograms.values.iter().cloned()).collect();
        return Ok(points);
    }
    if !histograms.is_empty() {
        let name = if extension == RangeExtension::Anchored { "anchored" } else { "smoothed" };
        return Err(QueryError::execution(format!(
            "{name} modifier is not supported with histograms"
        )));
    }
    points.floats = rate::extended_points(&floats, extension, start, end);
    Ok(points)
}

/// Makes a source of any vector.
pub(crate) fn boxed<'a>(source: impl Source + 'a) -> Vector<'a> {
    Vector::Lazy(Box::new(source))
}
