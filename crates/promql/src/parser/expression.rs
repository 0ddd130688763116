//! Expressions by operator precedence.
//!
//! The parser alternates between two places: in front of an operand, where signs, parentheses,
//! calls and aggregations open, and behind one, where modifiers attach to it, operators wait for
//! their right side, and what is open closes. What is open stands on a stack of its own.

use crate::ast::ValueType;
use crate::ast::{Aggregate, AggregateOp, Binary, BinaryOp, Kind, Matching, Node, NodeId, Span};
use crate::functions::{Function, function};
use crate::lexer::{Keyword, Token, TokenKind};
use crate::quote::{quoted, unquote};

use super::{MAX_DEPTH, ParseError, Parser};

/// What has begun and not ended.
pub(super) enum Open {
    /// `-`, `+`
    Sign { negate: bool, start: u32 },
    /// `lhs op modifiers`
    Binary { op: BinaryOp, left: NodeId, return_bool: bool, matching: Matching },
    /// `(`
    Paren { start: u32 },
    /// `name(`
    Call { name: Span, arguments: Vec<NodeId> },
    /// `sum by (labels) (`
    Aggregate { op: AggregateOp, start: u32, grouping: Option<Grouping>, arguments: Vec<NodeId> },
}

/// `by (labels)` or `without (labels)`
pub(super) struct Grouping {
    pub(super) labels: Vec<Box<str>>,
    pub(super) without: bool,
}

/// Sign binds as `*` does.
const SIGN_PRECEDENCE: u8 = 5;

impl Parser<'_> {
    /// A whole query.
    pub(super) fn expression(&mut self) -> Result<NodeId, ParseError> {
        if self.peek()?.kind == TokenKind::End {
            return Err(self.fault(Span::default(), "no expression found in input"));
        }
        let mut open = Vec::new();
        loop {
            let mut operand = self.operand(&mut open)?;
            loop {
                let token = self.peek()?;
                match token.kind {
                    TokenKind::Operator(op) => {
                        let left =
                            self.reduce(&mut open, operand, op.precedence(), op == BinaryOp::Pow)?;
                        self.next()?;
                        let (return_bool, matching) = self.binary_modifiers(&open)?;
                        open.push(Open::Binary { op, left, return_bool, matching });
                        break;
                    }
                    TokenKind::RightParen => {
                        let inner = self.reduce(&mut open, operand, 0, false)?;
                        operand = self.close(&mut open, inner, token)?;
                    }
                    TokenKind::Comma => {
                        let inner = self.reduce(&mut open, operand, 0, false)?;
                        self.comma(&mut open, inner, token)?;
                        break;
                    }
                    TokenKind::End => {
                        let root = self.reduce(&mut open, operand, 0, false)?;
                        if open.is_empty() {
                            return Ok(root);
                        }
                        return Err(self.unexpected_in(&open, token));
                    }
                    _ => {
                        if !self.modifier(&mut operand, token)? {
                            self.reduce(&mut open, operand, 0, false)?;
                            return Err(self.unexpected_in(&open, token));
                        }
                    }
                }
            }
        }
    }

    /// A token that fits nowhere; the innermost open aggregation is the context.
    #[cold]
    pub(super) fn unexpected_in(&self, open: &[Open], token: Token) -> ParseError {
        let in_aggregation = open.iter().any(|open| matches!(open, Open::Aggregate { .. }));
        self.unexpected(token, if in_aggregation { "aggregation" } else { "" }, "")
    }

    #[cold]
    pub(super) fn too_deep(&self, span: Span) -> ParseError {
        self.fault(span, format!("the expression nests deeper than {MAX_DEPTH} levels"))
    }

    /// Everything up to and including the next complete operand.
    fn operand(&mut self, open: &mut Vec<Open>) -> Result<NodeId, ParseError> {
        loop {
            let token = self.peek()?;
            if open.len() >= MAX_DEPTH {
                return Err(self.too_deep(token.span));
            }
            let kind = match token.kind {
                TokenKind::Number | TokenKind::Duration => {
                    self.next()?;
                    let value = self.number_or_duration(token)?;
                    Kind::Number { value, duration: token.kind == TokenKind::Duration }
                }
                TokenKind::String => {
                    self.next()?;
                    Kind::String(self.unquoted(token)?.into())
                }
                TokenKind::Operator(op @ (BinaryOp::Add | BinaryOp::Sub)) => {
                    self.next()?;
                    let negate = op == BinaryOp::Sub;
                    open.push(Open::Sign { negate, start: token.span.start });
                    continue;
                }
                TokenKind::LeftParen => {
                    self.next()?;
                    open.push(Open::Paren { start: token.span.start });
                    continue;
                }
                TokenKind::LeftBrace => return self.selector(None),
                TokenKind::Aggregate(op) => {
                    self.next()?;
                    if let Some(operand) = self.aggregate_or_name(open, op, token)? {
                        return Ok(operand);
                    }
                    continue;
                }
                kind if is_callable(kind) => {
                    self.next()?;
                    if self.accept(TokenKind::LeftParen)?.is_none() {
                        return self.selector(Some(token));
                    }
                    if let Some(close) = self.accept(TokenKind::RightParen)? {
                        return self.call(token.span, Vec::new(), close.span.end);
                    }
                    open.push(Open::Call { name: token.span, arguments: Vec::new() });
                    continue;
                }
                kind if is_metric_name(kind) => {
                    self.next()?;
                    return self.selector(Some(token));
                }
                _ => {
                    self.refuse_trailing_comma(open)?;
                    return Err(self.unexpected_in(open, token));
                }
            };
            return Ok(self.push(token.span, kind, 1));
        }
    }

    /// An operand was wanted and none came: behind a comma, the comma is the fault.
    fn refuse_trailing_comma(&self, open: &[Open]) -> Result<(), ParseError> {
        let Some(Open::Call { arguments, .. } | Open::Aggregate { arguments, .. }) = open.last()
        else {
            return Ok(());
        };
        if arguments.is_empty() {
            return Ok(());
        }
        // Nothing opened since the last argument, so a comma was the last token.
        Err(self.fault(self.last_comma, "trailing commas not allowed in function call args"))
    }

    /// Behind the name of an aggregation: what it aggregates, or it was the name of a metric.
    fn aggregate_or_name(
        &mut self,
        open: &mut Vec<Open>,
        op: AggregateOp,
        token: Token,
    ) -> Result<Option<NodeId>, ParseError> {
        let grouping = match self.peek()?.kind {
            TokenKind::LeftParen => None,
            TokenKind::Keyword(Keyword::By | Keyword::Without) => Some(self.grouping()?.0),
            _ => return self.selector(Some(token)).map(Some),
        };
        let start = token.span.start;
        let paren = self.next()?;
        if paren.kind != TokenKind::LeftParen {
            return Err(self.unexpected(paren, "aggregation", ""));
        }
        if let Some(close) = self.accept(TokenKind::RightParen)? {
            return self.aggregate(op, start, grouping, &[], close).map(Some);
        }
        open.push(Open::Aggregate { op, start, grouping, arguments: Vec::new() });
        Ok(None)
    }

    /// Applies the signs and operators on top of the stack that bind at least as strongly as the
    /// operator to come.
    fn reduce(
        &mut self,
        open: &mut Vec<Open>,
        operand: NodeId,
        precedence: u8,
        right_associative: bool,
    ) -> Result<NodeId, ParseError> {
        let mut operand = operand;
        while let Some(top) = open.last() {
            let waiting = match top {
                Open::Sign { .. } => SIGN_PRECEDENCE,
                Open::Binary { op, .. } => op.precedence(),
                _ => break,
            };
            if waiting < precedence || (waiting == precedence && right_associative) {
                break;
            }
            operand = match open.pop() {
                Some(Open::Sign { negate, start }) => self.sign(negate, start, operand)?,
                Some(Open::Binary { op, left, return_bool, matching }) => self.binary(Binary {
                    op,
                    left,
                    right: operand,
                    return_bool,
                    matching: Some(matching),
                })?,
                _ => unreachable!("only signs and operators come here"),
            };
        }
        Ok(operand)
    }

    fn sign(&mut self, negate: bool, start: u32, operand: NodeId) -> Result<NodeId, ParseError> {
        let node = &mut self.nodes[operand.0 as usize];
        let span = Span { start, end: node.span.end };
        if let Kind::Number { value, .. } = &mut node.kind {
            if negate {
                *value = -*value;
            }
            node.span = span;
            return Ok(operand);
        }
        self.push_above(span, Kind::Unary { negate, expr: operand }, &[operand])
    }

    fn binary(&mut self, mut binary: Binary) -> Result<NodeId, ParseError> {
        let (left, right) = (binary.left, binary.right);
        let span = Span { start: self.span_of(left).start, end: self.span_of(right).end };
        if let Some(matching) = &mut binary.matching {
            let fills = matching.fill_left.is_some() || matching.fill_right.is_some();
            if fills && !self.options.fill_modifiers {
                return Err(
                    self.fault(span, "binop fill modifiers are experimental and not enabled")
                );
            }
        }
        self.push_above(span, Kind::Binary(binary), &[left, right])
    }

    /// A closing parenthesis behind a complete operand.
    fn close(
        &mut self,
        open: &mut Vec<Open>,
        inner: NodeId,
        token: Token,
    ) -> Result<NodeId, ParseError> {
        match open.pop() {
            Some(Open::Paren { start }) => {
                self.next()?;
                let span = Span { start, end: token.span.end };
                self.push_above(span, Kind::Paren(inner), &[inner])
            }
            Some(Open::Call { name, mut arguments }) => {
                self.next()?;
                arguments.push(inner);
                self.call(name, arguments, token.span.end)
            }
            Some(Open::Aggregate { op, start, grouping, mut arguments }) => {
                self.next()?;
                arguments.push(inner);
                self.aggregate(op, start, grouping, &arguments, token)
            }
            // The lexer reports a parenthesis that closes nothing.
            _ => Err(self.unexpected_in(open, token)),
        }
    }

    /// A comma behind a complete argument.
    fn comma(&mut self, open: &mut [Open], inner: NodeId, token: Token) -> Result<(), ParseError> {
        match open.last_mut() {
            Some(Open::Call { arguments, .. } | Open::Aggregate { arguments, .. }) => {
                arguments.push(inner);
            }
            _ => return Err(self.unexpected_in(open, token)),
        }
        self.next()?;
        self.last_comma = token.span;
        Ok(())
    }

    fn call(&mut self, name: Span, arguments: Vec<NodeId>, end: u32) -> Result<NodeId, ParseError> {
        let text = self.slice(name);
        let function: &'static Function = function(text).ok_or_else(|| {
            self.fault(name, format!("unknown function with name {}", quoted(text)))
        })?;
        if function.experimental && !self.options.experimental_functions {
            return Err(self.fault(name, format!("function {} is not enabled", quoted(text))));
        }
        let span = Span { start: name.start, end };
        let children = arguments.clone();
        self.push_above(span, Kind::Call { function, arguments }, &children)
    }

    /// An aggregation whose parentheses have closed; the grouping may still follow.
    fn aggregate(
        &mut self,
        op: AggregateOp,
        start: u32,
        grouping: Option<Grouping>,
        arguments: &[NodeId],
        close: Token,
    ) -> Result<NodeId, ParseError> {
        let mut end = close.span.end;
        let grouping = match grouping {
            Some(grouping) => grouping,
            None => match self.peek()?.kind {
                TokenKind::Keyword(Keyword::By | Keyword::Without) => {
                    let (grouping, grouping_end) = self.grouping()?;
                    end = grouping_end;
                    grouping
                }
                _ => Grouping { labels: Vec::new(), without: false },
            },
        };
        let span = Span { start, end };
        if arguments.is_empty() {
            return Err(self.fault(span, "no arguments for aggregate expression provided"));
        }
        if op.is_experimental() && !self.options.experimental_functions {
            return Err(self.fault(
                span,
                format!(
                    "{}() is experimental and must be enabled with \
                     --enable-feature=promql-experimental-functions",
                    op.as_str()
                ),
            ));
        }
        let desired = 1 + usize::from(op.parameter().is_some());
        if arguments.len() != desired {
            return Err(self.fault(
                span,
                format!(
                    "wrong number of arguments for aggregate expression provided, \
                     expected {desired}, got {}",
                    arguments.len()
                ),
            ));
        }
        let aggregate = Aggregate {
            op,
            expr: arguments[desired - 1],
            parameter: (desired == 2).then(|| arguments[0]),
            grouping: grouping.labels,
            without: grouping.without,
        };
        self.push_above(span, Kind::Aggregate(aggregate), arguments)
    }

    pub(super) fn span_of(&self, id: NodeId) -> Span {
        self.nodes[id.0 as usize].span
    }

    /// The text of a string literal.
    pub(super) fn unquoted(&self, token: Token) -> Result<String, ParseError> {
        let literal = self.slice(token.span);
        unquote(literal).ok_or_else(|| {
            let reason = format!("error unquoting string {}: invalid syntax", quoted(literal));
            self.fault(token.span, reason)
        })
    }

    /// Adds a node above its children.
    pub(super) fn push_above(
        &mut self,
        span: Span,
        kind: Kind,
        children: &[NodeId],
    ) -> Result<NodeId, ParseError> {
        let below = children.iter().map(|child| self.depths[child.0 as usize]).max().unwrap_or(0);
        if below as usize >= MAX_DEPTH {
            return Err(self.too_deep(span));
        }
        Ok(self.push(span, kind, below + 1))
    }

    pub(super) fn push(&mut self, span: Span, kind: Kind, depth: u32) -> NodeId {
        let value_type = self.type_of(&kind);
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node { span, value_type, kind });
        self.depths.push(depth);
        id
    }

    fn type_of(&self, kind: &Kind) -> ValueType {
        let child = |id: &NodeId| self.nodes[id.0 as usize].value_type;
        match kind {
            Kind::Number { .. } => ValueType::Scalar,
            Kind::String(_) => ValueType::String,
            Kind::VectorSelector(_) | Kind::Aggregate(_) => ValueType::Vector,
            Kind::MatrixSelector { .. } | Kind::Subquery { .. } => ValueType::Matrix,
            Kind::Unary { expr, .. } | Kind::Paren(expr) => child(expr),
            Kind::Call { function, .. } => function.returns,
            Kind::Binary(binary) => match (child(&binary.left), child(&binary.right)) {
                (ValueType::Scalar, ValueType::Scalar) => ValueType::Scalar,
                _ => ValueType::Vector,
            },
        }
    }
}

/// Words that call a function where a parenthesis follows.
fn is_callable(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Identifier
            | TokenKind::Keyword(
                Keyword::Start
                    | Keyword::End
                    | Keyword::Step
                    | Keyword::Range
                    | Keyword::MaxOf
                    | Keyword::MinOf
            )
    )
}

/// Words that can be the name of a metric.
pub(super) fn is_name(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Aggregate(_)) || is_callable(kind) || is_metric_name(kind)
}

/// Words that can be the name of a metric, besides those of functions and aggregations.
fn is_metric_name(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::MetricIdentifier
            | TokenKind::Operator(BinaryOp::And | BinaryOp::Or | BinaryOp::Unless)
            | TokenKind::Keyword(
                Keyword::By
                    | Keyword::Without
                    | Keyword::Fill
                    | Keyword::FillLeft
                    | Keyword::FillRight
                    | Keyword::Offset
                    | Keyword::Anchored
                    | Keyword::Smoothed
            )
    )
}
