//! Whether the types of operands fit, in the order in which Prometheus looks.
//!
//! Children are looked at before the node above them, with two exceptions that the order of the
//! work on the stack expresses: the number of a call's arguments counts before their contents, and
//! the vector of an aggregation before its parameter.

use store::labels::METRIC_NAME;

use crate::ast::{
    Aggregate, Binary, Cardinality, Kind, NodeId, Query, Span, ValueType, VectorSelector,
};
use crate::functions::Function;
use crate::quote::quoted;

use super::ParseError;

enum Work {
    /// Look at a node and what is below.
    Enter(NodeId),
    /// Look at a node whose children are done.
    Leave(NodeId),
    /// An operand, whose contents are done, of something that wants a type.
    Expect { node: NodeId, wanted: ValueType, context: Context },
}

#[derive(Clone, Copy)]
enum Context {
    Aggregation,
    Parameter,
    Call(&'static Function),
}

/// Checks all types, and makes set operators many-to-many and matchings of scalars none.
pub(super) fn check(query: &mut Query) -> Result<(), ParseError> {
    let mut checker = Checker { query, work: Vec::new(), info_selectors: Vec::new() };
    checker.work.push(Work::Enter(checker.query.root));
    while let Some(work) = checker.work.pop() {
        match work {
            Work::Enter(id) => checker.enter(id)?,
            Work::Leave(id) => checker.leave(id)?,
            Work::Expect { node, wanted, context } => checker.expect(node, wanted, context)?,
        }
    }
    Ok(())
}

struct Checker<'a> {
    query: &'a mut Query,
    work: Vec<Work>,
    /// Second arguments of `info`, which may match everything.
    info_selectors: Vec<NodeId>,
}

impl Checker<'_> {
    #[cold]
    fn fault<T>(&self, span: Span, reason: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError::new(&self.query.text, span, reason))
    }

    fn value_type(&self, id: NodeId) -> ValueType {
        self.query.value_type(id)
    }

    fn enter(&mut self, id: NodeId) -> Result<(), ParseError> {
        let node = self.query.node(id);
        match &node.kind {
            Kind::Number { .. } | Kind::String(_) => {}
            Kind::VectorSelector(selector) => self.selector(id, node.span, selector)?,
            Kind::MatrixSelector { selector, .. } => self.work.push(Work::Enter(*selector)),
            Kind::Paren(expr) => self.work.push(Work::Enter(*expr)),
            Kind::Unary { expr, .. } | Kind::Subquery { expr, .. } => {
                let expr = *expr;
                self.work.extend([Work::Leave(id), Work::Enter(expr)]);
            }
            Kind::Binary(binary) => {
                let (left, right) = (binary.left, binary.right);
                self.work.extend([Work::Leave(id), Work::Enter(right), Work::Enter(left)]);
            }
            Kind::Aggregate(aggregate) => {
                let aggregate = Aggregate { grouping: Vec::new(), ..aggregate.clone() };
                self.aggregate(&aggregate);
            }
            Kind::Call { function, arguments } => {
                let (function, arguments) = (*function, arguments.clone());
                self.call(node.span, function, &arguments)?;
            }
        }
        Ok(())
    }

    fn selector(
        &self,
        id: NodeId,
        span: Span,
        selector: &VectorSelector,
    ) -> Result<(), ParseError> {
        let Some(name) = &selector.name else {
            let selects = selector.matchers.iter().any(|matcher| !matcher.matches_empty());
            if selects || self.info_selectors.contains(&id) {
                return Ok(());
            }
            return self.fault(span, "vector selector must contain at least one non-empty matcher");
        };
        // The last matcher is the one made of the name.
        let (_, written) = selector.matchers.split_last().unwrap_or_else(|| unreachable!());
        match written.iter().find(|matcher| matcher.name() == METRIC_NAME) {
            None => Ok(()),
            Some(matcher) => self.fault(
                span,
                format!(
                    "metric name must not be set twice: {} or {}",
                    quoted(name),
                    quoted(matcher.value())
                ),
            ),
        }
    }

    fn aggregate(&mut self, aggregate: &Aggregate) {
        if let (Some(parameter), Some(wanted)) = (aggregate.parameter, aggregate.op.parameter()) {
            self.work.push(Work::Expect { node: parameter, wanted, context: Context::Parameter });
            self.work.push(Work::Enter(parameter));
        }
        let (node, wanted) = (aggregate.expr, ValueType::Vector);
        self.work.push(Work::Expect { node, wanted, context: Context::Aggregation });
        self.work.push(Work::Enter(node));
    }

    fn call(
        &mut self,
        span: Span,
        function: &'static Function,
        arguments: &[NodeId],
    ) -> Result<(), ParseError> {
        self.count_arguments(span, function, arguments.len())?;
        if function.name == "info" && arguments.len() > 1 {
            self.info(span, arguments[1])?;
        }
        let last = function.arguments.len().saturating_sub(1);
        for (index, &node) in arguments.iter().enumerate().rev() {
            let wanted = function.arguments[index.min(last)];
            self.work.push(Work::Expect { node, wanted, context: Context::Call(function) });
            self.work.push(Work::Enter(node));
        }
        Ok(())
    }

    fn count_arguments(
        &self,
        span: Span,
        function: &Function,
        got: usize,
    ) -> Result<(), ParseError> {
        let known = function.arguments.len();
        let name = quoted(function.name);
        if function.variadic == 0 {
            if known == got {
                return Ok(());
            }
            return self
                .fault(span, format!("expected {known} argument(s) in call to {name}, got {got}"));
        }
        let least = known - 1;
        if got < least {
            return self.fault(
                span,
                format!("expected at least {least} argument(s) in call to {name}, got {got}"),
            );
        }
        match usize::try_from(function.variadic) {
            Ok(more) if got > least + more => self.fault(
                span,
                format!(
                    "expected at most {} argument(s) in call to {name}, got {got}",
                    least + more
                ),
            ),
            _ => Ok(()),
        }
    }

    /// The second argument of `info` selects labels and names no metric.
    fn info(&mut self, span: Span, argument: NodeId) -> Result<(), ParseError> {
        let node = self.query.node(argument);
        if node.value_type != ValueType::Vector {
            return self.fault(
                span,
                format!(
                    "expected type instant vector in call to function \"info\", got {}",
                    node.value_type.documented()
                ),
            );
        }
        match &node.kind {
            Kind::VectorSelector(selector) if selector.name.is_none() => {
                self.info_selectors.push(argument);
                Ok(())
            }
            Kind::VectorSelector(_) => {
                self.fault(node.span, "expected label selectors only, got vector selector instead")
            }
            _ => self.fault(node.span, "expected label selectors only"),
        }
    }

    fn expect(&self, id: NodeId, wanted: ValueType, context: Context) -> Result<(), ParseError> {
        let node = self.query.node(id);
        if node.value_type == wanted {
            return Ok(());
        }
        let context = match context {
            Context::Aggregation => "aggregation expression".to_owned(),
            Context::Parameter => "aggregation parameter".to_owned(),
            Context::Call(function) => format!("call to function {}", quoted(function.name)),
        };
        self.fault(
            node.span,
            format!(
                "expected type {} in {context}, got {}",
                wanted.documented(),
                node.value_type.documented()
            ),
        )
    }

    fn leave(&mut self, id: NodeId) -> Result<(), ParseError> {
        let node = self.query.node(id);
        let span = node.span;
        match &node.kind {
            Kind::Unary { expr, .. } => {
                let found = self.value_type(*expr);
                if matches!(found, ValueType::Scalar | ValueType::Vector) {
                    return Ok(());
                }
                self.fault(
                    span,
                    format!(
                        "unary expression only allowed on expressions of type scalar or instant \
                         vector, got {}",
                        quoted(found.documented())
                    ),
                )
            }
            Kind::Subquery { expr, .. } => match self.value_type(*expr) {
                ValueType::Vector => Ok(()),
                found => self.fault(
                    span,
                    format!(
                        "subquery is only allowed on instant vector, got {} instead",
                        found.as_str()
                    ),
                ),
            },
            Kind::Binary(binary) => {
                self.binary(span, binary)?;
                self.settle_matching(id);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn binary(&self, span: Span, binary: &Binary) -> Result<(), ParseError> {
        let (left, right) = (self.value_type(binary.left), self.value_type(binary.right));
        let op = binary.op;
        if binary.return_bool && !op.is_comparison() {
            return self.fault(
                self.operator_span(binary),
                "bool modifier can only be used on comparison operators",
            );
        }
        let scalars = left == ValueType::Scalar && right == ValueType::Scalar;
        if op.is_comparison() && !binary.return_bool && scalars {
            return self.fault(
                self.operator_span(binary),
                "comparisons between scalars must use BOOL modifier",
            );
        }
        let Some(matching) = &binary.matching else { return Ok(()) };
        if let Some(twice) =
            matching.labels.iter().find(|label| matching.on && matching.include.contains(label))
        {
            return self.fault(
                self.operator_span(binary),
                format!("label {} must not occur in ON and GROUP clause at once", quoted(twice)),
            );
        }
        for (side, found) in [(binary.left, left), (binary.right, right)] {
            if !matches!(found, ValueType::Scalar | ValueType::Vector) {
                return self.fault(
                    self.query.node(side).span,
                    "binary expression must contain only scalar and instant vector types",
                );
            }
        }
        let filled = matching.fill_left.is_some() || matching.fill_right.is_some();
        if left != ValueType::Vector || right != ValueType::Vector {
            if !matching.labels.is_empty() {
                return self.fault(span, "vector matching only allowed between instant vectors");
            }
            if filled {
                return self
                    .fault(span, "filling in missing series only allowed between instant vectors");
            }
        } else if op.is_set() {
            if matching.cardinality != Cardinality::OneToOne {
                let reason = format!("no grouping allowed for {} operation", quoted(op.as_str()));
                return self.fault(span, reason);
            }
            if filled {
                return self.fault(span, "filling in missing series not allowed for set operators");
            }
        }
        if (left == ValueType::Scalar || right == ValueType::Scalar) && op.is_set() {
            let reason = format!(
                "set operator {} not allowed in binary scalar expression",
                quoted(op.as_str())
            );
            return self.fault(span, reason);
        }
        Ok(())
    }

    /// The text between the operands, without white space at its ends.
    fn operator_span(&self, binary: &Binary) -> Span {
        let start = self.query.node(binary.left).span.end;
        let end = self.query.node(binary.right).span.start;
        let between = &self.query.text[start as usize..end as usize];
        let skipped = between.len() - between.trim_start().len();
        let trimmed = between.len() - between.trim_end().len();
        Span { start: start + skipped as u32, end: end - trimmed as u32 }
    }

    fn settle_matching(&mut self, id: NodeId) {
        let sides = match &self.query.node(id).kind {
            Kind::Binary(binary) => [binary.left, binary.right],
            _ => return,
        };
        let vectors = sides.iter().all(|&side| self.value_type(side) == ValueType::Vector);
        let Kind::Binary(binary) = &mut self.query.nodes[id.0 as usize].kind else { return };
        if !vectors {
            binary.matching = None;
        } else if let (true, Some(matching)) = (binary.op.is_set(), &mut binary.matching) {
            matching.cardinality = Cardinality::ManyToMany;
        }
    }
}
