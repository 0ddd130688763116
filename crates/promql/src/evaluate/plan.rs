//! What is known about a query before its first sample is read.
//!
//! 1. `start()`, `end()`, `range()` and `step()` become numbers.
//! 2. Durations that are computed become milliseconds, and `@ start()` and `@ end()` timestamps.
//! 3. Expressions whose value is the same at every step are found, so that they are evaluated once.

use store::Matcher;

use super::Range;
use crate::ast::{
    At, BinaryOp, Duration, DurationOp, Kind, NodeId, Query, RangeExtension, Span, TimeModifiers,
    VectorSelector,
};
use crate::error::QueryError;

/// Functions whose value depends on the time of the evaluation, whatever their arguments.
const TIME_DEPENDENT: [&str; 13] = [
    "day_of_month",
    "day_of_week",
    "day_of_year",
    "days_in_month",
    "end",
    "hour",
    "minute",
    "month",
    "predict_linear",
    "range",
    "start",
    "step",
    "year",
];

/// When a selector or a subquery looks, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct When {
    /// `@`, whatever the step.
    pub(crate) at: Option<i64>,
    /// Looks back if positive.
    pub(crate) offset: i64,
}

impl When {
    /// When something looks that stands inside of `self`.
    pub(crate) fn then(self, inner: When) -> When {
        match inner.at {
            Some(_) => inner,
            None => When { at: self.at, offset: self.offset + inner.offset },
        }
    }

    /// The time that it looks at when it is evaluated at `time`.
    #[inline]
    pub(crate) fn reference(self, time: i64) -> i64 {
        self.at.unwrap_or(time) - self.offset
    }
}

/// What a node needs to know beside what is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Prepared {
    Nothing,
    /// A call that became a number.
    Number(f64),
    Selector(When),
    /// Milliseconds.
    MatrixSelector {
        range: i64,
    },
    /// Milliseconds; the default step where `step` is none.
    Subquery {
        range: i64,
        step: Option<i64>,
        when: When,
    },
}

/// The plan of a query: one entry per node.
#[derive(Debug)]
pub(crate) struct Plan {
    prepared: Vec<Prepared>,
    invariant: Vec<bool>,
    /// Selectors whose histograms are needed for their count and sum only.
    statistics: Vec<bool>,
    /// How deep the tree is.
    pub(crate) depth: usize,
}

impl Plan {
    pub(crate) fn new(query: &Query, range: Range) -> Result<Self, QueryError> {
        let count = query.nodes.len();
        let mut plan = Plan {
            prepared: Vec::with_capacity(count),
            invariant: Vec::with_capacity(count),
            statistics: statistics(query),
            depth: 0,
        };
        let mut depths: Vec<usize> = Vec::with_capacity(count);
        let mut depth_of_children;
        for node in &query.nodes {
            let prepared = prepare(&node.kind, range)?;
            let invariant = plan.is_invariant_kind(query, &node.kind, &prepared);
            plan.prepared.push(prepared);
            plan.invariant.push(invariant);
            depth_of_children = 0;
            for_each_child(&node.kind, |child| {
                depth_of_children = depth_of_children.max(depths[child.0 as usize]);
            });
            depths.push(depth_of_children + 1);
        }
        plan.depth = depths.get(query.root.0 as usize).copied().unwrap_or(0);
        Ok(plan)
    }

    pub(crate) fn prepared(&self, node: NodeId) -> &Prepared {
        &self.prepared[node.0 as usize]
    }

    /// Whether only the count and sum of a selector's histograms are needed.
    pub(crate) fn needs_statistics_only(&self, node: NodeId) -> bool {
        self.statistics[node.0 as usize]
    }

    /// Whether the node's value is the same at every step.
    pub(crate) fn is_invariant(&self, node: NodeId) -> bool {
        self.invariant[node.0 as usize]
    }

    fn is_invariant_kind(&self, query: &Query, kind: &Kind, prepared: &Prepared) -> bool {
        let child = |id: &NodeId| self.invariant[id.0 as usize];
        match (kind, prepared) {
            (_, Prepared::Number(_)) | (Kind::Number { .. } | Kind::String(_), _) => true,
            (_, Prepared::Selector(when) | Prepared::Subquery { when, .. }) => when.at.is_some(),
            (Kind::MatrixSelector { selector, .. }, _) => child(selector),
            (Kind::Aggregate(aggregate), _) => {
                child(&aggregate.expr) && aggregate.parameter.as_ref().is_none_or(child)
            }
            (Kind::Binary(binary), _) => child(&binary.left) && child(&binary.right),
            (Kind::Unary { expr, .. } | Kind::Paren(expr), _) => child(expr),
            (Kind::Call { function, arguments }, _) => {
                let unsafe_name = TIME_DEPENDENT.contains(&function.name)
                    || function.name == "time"
                    || (function.name == "timestamp" && !is_selector(query, arguments));
                !unsafe_name && arguments.iter().all(child)
            }
            _ => false,
        }
    }
}

/// Whether the only argument is a selector, possibly in parentheses.
fn is_selector(query: &Query, arguments: &[NodeId]) -> bool {
    arguments
        .first()
        .is_some_and(|id| matches!(query.node(unwrap(query, *id)).kind, Kind::VectorSelector(_)))
}

/// Which selectors' histograms are needed for their count and sum only: those inside of a function
/// that takes nothing else. Subqueries leave out samples, so that resets must be found from buckets.
fn statistics(query: &Query) -> Vec<bool> {
    let mut parents: Vec<Option<NodeId>> = vec![None; query.nodes.len()];
    for (index, node) in query.nodes.iter().enumerate() {
        let parent = NodeId(index as u32);
        for_each_child(&node.kind, |child| parents[child.0 as usize] = Some(parent));
    }
    let only = |index: usize| {
        if !matches!(query.nodes[index].kind, Kind::VectorSelector(_)) {
            return false;
        }
        let mut found = false;
        let mut parent = parents[index];
        while let Some(id) = parent {
            match &query.node(id).kind {
                Kind::Subquery { .. } => return false,
                Kind::Call { function, .. } => match function.name {
                    "histogram_count" | "histogram_sum" | "histogram_avg" => found = true,
                    "histogram_quantile" | "histogram_quantiles" | "histogram_fraction" => {
                        return false;
                    }
                    _ => {}
                },
                Kind::Binary(binary)
                    if matches!(binary.op, BinaryOp::TrimLower | BinaryOp::TrimUpper) =>
                {
                    return false;
                }
                _ => {}
            }
            parent = parents[id.0 as usize];
        }
        found
    };
    (0..query.nodes.len()).map(only).collect()
}

/// The expression within parentheses.
pub(crate) fn unwrap(query: &Query, mut id: NodeId) -> NodeId {
    while let Kind::Paren(inner) = &query.node(id).kind {
        id = *inner;
    }
    id
}

/// Calls `each` with the children of a node.
pub(crate) fn for_each_child(kind: &Kind, mut each: impl FnMut(NodeId)) {
    match kind {
        Kind::Number { .. } | Kind::String(_) | Kind::VectorSelector(_) => {}
        Kind::MatrixSelector { selector: child, .. }
        | Kind::Subquery { expr: child, .. }
        | Kind::Unary { expr: child, .. }
        | Kind::Paren(child) => each(*child),
        Kind::Binary(binary) => {
            each(binary.left);
            each(binary.right);
        }
        Kind::Aggregate(aggregate) => {
            each(aggregate.expr);
            aggregate.parameter.into_iter().for_each(each);
        }
        Kind::Call { arguments, .. } => arguments.iter().copied().for_each(each),
    }
}

fn prepare(kind: &Kind, range: Range) -> Result<Prepared, QueryError> {
    Ok(match kind {
        Kind::Call { function, arguments } if arguments.is_empty() => {
            let seconds = |milliseconds: i64| milliseconds as f64 / 1000.0;
            match function.name {
                "start" => Prepared::Number(seconds(range.start)),
                "end" => Prepared::Number(seconds(range.end)),
                "range" => Prepared::Number(seconds(range.end - range.start)),
                "step" if range.start == range.end => Prepared::Number(0.0),
                "step" => Prepared::Number(seconds(range.step)),
                _ => Prepared::Nothing,
            }
        }
        Kind::VectorSelector(selector) => Prepared::Selector(when(&selector.at, range)?),
        Kind::MatrixSelector { range: length, .. } => {
            Prepared::MatrixSelector { range: milliseconds(length, range, false)? }
        }
        Kind::Subquery { range: length, step, at, .. } => Prepared::Subquery {
            range: milliseconds(length, range, false)?,
            step: step.as_ref().map(|step| milliseconds(step, range, false)).transpose()?,
            when: when(at, range)?,
        },
        _ => Prepared::Nothing,
    })
}

fn when(modifiers: &TimeModifiers, range: Range) -> Result<When, QueryError> {
    let offset = modifiers.offset.as_ref().map(|offset| milliseconds(offset, range, true));
    Ok(When {
        at: modifiers.at.map(|at| match at {
            At::Timestamp(time) => time,
            At::Start => range.start,
            At::End => range.end,
        }),
        offset: offset.transpose()?.unwrap_or(0),
    })
}

/// The milliseconds of a duration. An offset may be negative or zero, other durations may not.
fn milliseconds(duration: &Duration, range: Range, any_sign: bool) -> Result<i64, QueryError> {
    let (span, operations) = match duration {
        Duration::Milliseconds(value) => return Ok(*value),
        Duration::Expression { span, operations } => (*span, operations),
    };
    let refuse =
        |reason: &str| QueryError::execution(format!("{}:{}: {reason}", span.start, span.end));
    let seconds = compute(span, operations, range)?;
    if seconds.is_nan() || seconds.is_infinite() {
        return Err(refuse("duration is NaN or infinite"));
    }
    if seconds <= 0.0 && !any_sign {
        return Err(refuse("duration must be greater than 0"));
    }
    // As many seconds as there are nanoseconds in an i64.
    if seconds.abs() > 9_223_372_036.854_775 {
        return Err(refuse("duration is out of range"));
    }
    Ok((seconds * 1000.0) as i64)
}

fn compute(span: Span, operations: &[DurationOp], range: Range) -> Result<f64, QueryError> {
    let malformed = || QueryError::execution("a duration expression has an operand too few");
    let refuse =
        |reason: &str| QueryError::execution(format!("{}:{}: {reason}", span.start, span.end));
    let mut stack: Vec<f64> = Vec::new();
    for operation in operations {
        let value = match operation {
            DurationOp::Number { seconds, .. } => *seconds,
            DurationOp::Step => range.step as f64 / 1000.0,
            DurationOp::Range => (range.end - range.start) as f64 / 1000.0,
            DurationOp::Negate => -stack.pop().ok_or_else(malformed)?,
            DurationOp::Plus | DurationOp::Paren => stack.pop().ok_or_else(malformed)?,
            DurationOp::Min | DurationOp::Max | DurationOp::Binary(_) => {
                let right = stack.pop().ok_or_else(malformed)?;
                let left = stack.pop().ok_or_else(malformed)?;
                match operation {
                    DurationOp::Min => super::number::minimum(left, right),
                    DurationOp::Max => super::number::maximum(left, right),
                    DurationOp::Binary(BinaryOp::Add) => left + right,
                    DurationOp::Binary(BinaryOp::Sub) => left - right,
                    DurationOp::Binary(BinaryOp::Mul) => left * right,
                    DurationOp::Binary(BinaryOp::Div) if right == 0.0 => {
                        return Err(refuse("division by zero"));
                    }
                    DurationOp::Binary(BinaryOp::Div) => left / right,
                    DurationOp::Binary(BinaryOp::Mod) if right == 0.0 => {
                        return Err(refuse("modulo by zero"));
                    }
                    DurationOp::Binary(BinaryOp::Mod) => left % right,
                    DurationOp::Binary(BinaryOp::Pow) => super::number::power(left, right),
                    _ => return Err(refuse("unexpected operator in a duration expression")),
                }
            }
        };
        stack.push(value);
    }
    stack.pop().ok_or_else(malformed)
}

/// A selector with its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection<'a> {
    pub(crate) matchers: &'a [Matcher],
    pub(crate) extension: RangeExtension,
    pub(crate) when: When,
    /// Whether only the count and sum of histograms are needed.
    pub(crate) statistics_only: bool,
}

impl<'a> Selection<'a> {
    pub(crate) fn new(selector: &'a VectorSelector, when: When, statistics_only: bool) -> Self {
        let VectorSelector { matchers, extension, .. } = selector;
        Selection { matchers, extension: *extension, when, statistics_only }
    }
}
