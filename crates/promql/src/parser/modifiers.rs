//! What attaches to an operand (`[5m]`, `offset`, `@`, `anchored`, `smoothed`), to an operator
//! (`bool`, `on`, `group_left`, `fill`), and to an aggregation (`by`, `without`).

use crate::ast::{
    At, BinaryOp, Cardinality, Duration, Kind, Matching, NodeId, RangeExtension, TimeModifiers,
};
use crate::lexer::{Keyword, Token, TokenKind};
use crate::quote::quoted;

use super::duration::Place;
use super::expression::{Grouping, Open};
use super::{ParseError, Parser};

const RANGE: Place = Place {
    context: "subquery or range selector",
    expected: "number, duration, step(), or range()",
};
const STEP: Place =
    Place { context: "subquery selector", expected: "number, duration, step(), range(), or \"]\"" };

impl Parser<'_> {
    /// Applies the modifier that `token` begins to the operand in front; `false` if it begins none.
    pub(super) fn modifier(
        &mut self,
        operand: &mut NodeId,
        token: Token,
    ) -> Result<bool, ParseError> {
        match token.kind {
            TokenKind::LeftBracket => *operand = self.range(*operand, token)?,
            TokenKind::At => self.at(*operand)?,
            TokenKind::Keyword(Keyword::Offset) => self.offset(*operand)?,
            TokenKind::Keyword(Keyword::Anchored) => {
                self.extend(*operand, RangeExtension::Anchored)?;
            }
            TokenKind::Keyword(Keyword::Smoothed) => {
                self.extend(*operand, RangeExtension::Smoothed)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `[range]` or `[range:step]`
    fn range(&mut self, operand: NodeId, bracket: Token) -> Result<NodeId, ParseError> {
        self.next()?;
        let range = self.positive_duration(RANGE)?;
        let token = self.peek()?;
        let mut span = self.span_of(operand);
        match token.kind {
            TokenKind::RightBracket => {
                self.next()?;
                self.check_ranged(operand, bracket)?;
                span.end = token.span.end;
                let kind = Kind::MatrixSelector { selector: operand, range };
                self.push_above(span, kind, &[operand])
            }
            TokenKind::Colon => {
                self.next()?;
                let step = match self.peek()?.kind {
                    TokenKind::RightBracket => None,
                    _ => Some(self.positive_duration(STEP)?),
                };
                let close = self.peek()?;
                if close.kind != TokenKind::RightBracket {
                    return Err(self.unexpected(close, STEP.context, "\"]\""));
                }
                self.next()?;
                span.end = close.span.end;
                let at = TimeModifiers::default();
                let kind = Kind::Subquery { expr: operand, range, step, at };
                self.push_above(span, kind, &[operand])
            }
            _ => Err(self.unexpected(token, "subquery or range", "\":\" or \"]\"")),
        }
    }

    /// Only a plain vector selector can be given a range.
    fn check_ranged(&self, operand: NodeId, bracket: Token) -> Result<(), ParseError> {
        let reason = match &self.nodes[operand.0 as usize].kind {
            Kind::VectorSelector(selector) => match (&selector.at.offset, selector.at.at) {
                (Some(Duration::Milliseconds(_)), _) => "no offset modifiers allowed before range",
                (_, Some(At::Timestamp(_))) => "no @ modifiers allowed before range",
                _ => return Ok(()),
            },
            _ => "ranges only allowed for vector selectors",
        };
        Err(self.fault(bracket.span, reason))
    }

    fn offset(&mut self, operand: NodeId) -> Result<(), ParseError> {
        self.next()?;
        let offset = self.offset_duration()?;
        let end = self.last_end;
        self.peek()?;
        let span = self.span_of(operand);
        let Some(at) = self.time_modifiers(operand) else {
            return Err(self.fault(
                span,
                "offset modifier must be preceded by an instant vector selector or range vector \
                 selector or a subquery",
            ));
        };
        if at.offset.is_some() {
            return Err(self.fault(span, "offset may not be set multiple times"));
        }
        at.offset = (offset != Duration::Milliseconds(0)).then_some(offset);
        self.nodes[operand.0 as usize].span.end = end;
        Ok(())
    }

    fn at(&mut self, operand: NodeId) -> Result<(), ParseError> {
        self.next()?;
        let time = self.at_time(operand)?;
        let end = self.last_end;
        let span = self.span_of(operand);
        let Some(at) = self.time_modifiers(operand) else {
            return Err(self.fault(
                span,
                "@ modifier must be preceded by an instant vector selector or range vector \
                 selector or a subquery",
            ));
        };
        if at.at.is_some() {
            return Err(self.fault(span, "@ <timestamp> may not be set multiple times"));
        }
        at.at = Some(time);
        self.nodes[operand.0 as usize].span.end = end;
        Ok(())
    }

    /// What stands behind `@`.
    fn at_time(&mut self, operand: NodeId) -> Result<At, ParseError> {
        let mut token = self.next()?;
        if let TokenKind::Keyword(keyword @ (Keyword::Start | Keyword::End)) = token.kind {
            for wanted in [TokenKind::LeftParen, TokenKind::RightParen] {
                let found = self.next()?;
                if found.kind != wanted {
                    return Err(self.unexpected(found, "@", "timestamp"));
                }
            }
            return Ok(if keyword == Keyword::Start { At::Start } else { At::End });
        }
        let mut sign = 1.0;
        if let TokenKind::Operator(op @ (BinaryOp::Add | BinaryOp::Sub)) = token.kind {
            if op == BinaryOp::Sub {
                sign = -1.0;
            }
            token = self.next()?;
        }
        if !matches!(token.kind, TokenKind::Number | TokenKind::Duration) {
            return Err(self.unexpected(token, "@", "timestamp"));
        }
        let seconds = sign * self.number_or_duration(token)?;
        // NaN is out of bounds, too.
        let in_bounds = seconds.abs() < i64::MAX as f64;
        if !in_bounds {
            return Err(self.fault(
                self.span_of(operand),
                format!("timestamp out of bounds for @ modifier: {}", go_fixed(seconds)),
            ));
        }
        Ok(At::Timestamp((seconds * 1000.0).round() as i64))
    }

    /// Where a node keeps `offset` and `@`, if it can have them.
    fn time_modifiers(&mut self, id: NodeId) -> Option<&mut TimeModifiers> {
        let id = match &self.nodes[id.0 as usize].kind {
            Kind::MatrixSelector { selector, .. } => *selector,
            _ => id,
        };
        match &mut self.nodes[id.0 as usize].kind {
            Kind::VectorSelector(selector) => Some(&mut selector.at),
            Kind::Subquery { at, .. } => Some(at),
            _ => None,
        }
    }

    /// `anchored`, `smoothed`
    fn extend(&mut self, operand: NodeId, extension: RangeExtension) -> Result<(), ParseError> {
        self.next()?;
        let word = match extension {
            RangeExtension::Smoothed => "smoothed",
            RangeExtension::Anchored | RangeExtension::None => "anchored",
        };
        let span = self.span_of(operand);
        if !self.options.extended_range_selectors {
            let reason = format!("{word} modifier is experimental and not enabled");
            return Err(self.fault(span, reason));
        }
        let selector = match &self.nodes[operand.0 as usize].kind {
            Kind::VectorSelector(_) => operand,
            Kind::MatrixSelector { selector, .. } => *selector,
            Kind::Subquery { .. } => {
                let reason = format!("{word} modifier is not supported for subqueries");
                return Err(self.fault(span, reason));
            }
            _ => return Err(self.fault(span, format!("{word} modifier not implemented"))),
        };
        let Kind::VectorSelector(selector) = &mut self.nodes[selector.0 as usize].kind else {
            unreachable!("a range selector is made of a vector selector");
        };
        if selector.extension != RangeExtension::None && selector.extension != extension {
            let reason = "anchored and smoothed modifiers cannot be used together";
            return Err(self.fault(span, reason));
        }
        selector.extension = extension;
        Ok(())
    }

    /// What follows an operator: `bool`, `on`, `group_left`, `fill`.
    pub(super) fn binary_modifiers(
        &mut self,
        open: &[Open],
    ) -> Result<(bool, Matching), ParseError> {
        let mut matching = Matching {
            cardinality: Cardinality::OneToOne,
            on: false,
            labels: Vec::new(),
            include: Vec::new(),
            fill_left: None,
            fill_right: None,
        };
        let return_bool = self.accept_keyword(Keyword::Bool)?.is_some();
        if let TokenKind::Keyword(keyword @ (Keyword::On | Keyword::Ignoring)) = self.peek()?.kind {
            self.next()?;
            matching.on = keyword == Keyword::On;
            matching.labels = self.grouping_labels()?;
            if let TokenKind::Keyword(side @ (Keyword::GroupLeft | Keyword::GroupRight)) =
                self.peek()?.kind
            {
                self.next()?;
                matching.cardinality = match side {
                    Keyword::GroupLeft => Cardinality::ManyToOne,
                    _ => Cardinality::OneToMany,
                };
                if !begins_operand(self.peek()?.kind) {
                    matching.include = self.grouping_labels()?;
                }
            }
        }
        self.fills(open, &mut matching)?;
        Ok((return_bool, matching))
    }

    /// `fill(x)`, or one or both of `fill_left(x)` and `fill_right(x)`.
    fn fills(&mut self, open: &[Open], matching: &mut Matching) -> Result<(), ParseError> {
        let TokenKind::Keyword(first @ (Keyword::Fill | Keyword::FillLeft | Keyword::FillRight)) =
            self.peek()?.kind
        else {
            return Ok(());
        };
        self.next()?;
        let value = Some(self.fill_value(open)?);
        let other = match first {
            Keyword::FillLeft => {
                matching.fill_left = value;
                Keyword::FillRight
            }
            Keyword::FillRight => {
                matching.fill_right = value;
                Keyword::FillLeft
            }
            _ => {
                matching.fill_left = value;
                matching.fill_right = value;
                return Ok(());
            }
        };
        if self.accept_keyword(other)?.is_some() {
            let value = Some(self.fill_value(open)?);
            match other {
                Keyword::FillLeft => matching.fill_left = value,
                _ => matching.fill_right = value,
            }
        }
        Ok(())
    }

    fn fill_value(&mut self, open: &[Open]) -> Result<f64, ParseError> {
        let mut token = self.next()?;
        if token.kind != TokenKind::LeftParen {
            return Err(self.unexpected_in(open, token));
        }
        token = self.next()?;
        let mut sign = 1.0;
        if let TokenKind::Operator(op @ (BinaryOp::Add | BinaryOp::Sub)) = token.kind {
            if op == BinaryOp::Sub {
                sign = -1.0;
            }
            token = self.next()?;
        }
        if !matches!(token.kind, TokenKind::Number | TokenKind::Duration) {
            return Err(self.unexpected_in(open, token));
        }
        let value = sign * self.number_or_duration(token)?;
        token = self.next()?;
        if token.kind != TokenKind::RightParen {
            return Err(self.unexpected_in(open, token));
        }
        Ok(value)
    }

    /// `by (labels)` or `without (labels)`, and where it ends.
    pub(super) fn grouping(&mut self) -> Result<(Grouping, u32), ParseError> {
        let without = self.next()?.kind == TokenKind::Keyword(Keyword::Without);
        let labels = self.grouping_labels()?;
        Ok((Grouping { labels, without }, self.last_end))
    }

    fn grouping_labels(&mut self) -> Result<Vec<Box<str>>, ParseError> {
        const CONTEXT: &str = "grouping opts";
        let paren = self.next()?;
        if paren.kind != TokenKind::LeftParen {
            return Err(self.unexpected(paren, CONTEXT, "\"(\""));
        }
        let mut labels = Vec::new();
        loop {
            let token = self.next()?;
            if token.kind == TokenKind::RightParen {
                return Ok(labels);
            }
            let label: Box<str> = match token.kind {
                TokenKind::String => self.unquoted(token)?.into(),
                kind if is_label(kind) => self.slice(token.span).into(),
                _ => return Err(self.unexpected(token, CONTEXT, "label")),
            };
            if label.is_empty() {
                let reason = format!("invalid label name for grouping: {}", quoted(&label));
                return Err(self.fault(token.span, reason));
            }
            labels.push(label);
            let token = self.next()?;
            match token.kind {
                TokenKind::Comma => {}
                TokenKind::RightParen => return Ok(labels),
                _ => return Err(self.unexpected(token, CONTEXT, "\",\" or \")\"")),
            }
        }
    }
}

/// Whether an operand, or a `fill` in front of it, can begin so; a parenthesis opens labels.
fn begins_operand(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Number | TokenKind::Duration | TokenKind::String | TokenKind::LeftBrace => true,
        TokenKind::Operator(op) => {
            matches!(op, BinaryOp::Add | BinaryOp::Sub) || super::expression::is_name(kind)
        }
        kind => super::expression::is_name(kind),
    }
}

/// Words that may be labels; `without` is the one keyword that may not.
fn is_label(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Identifier | TokenKind::MetricIdentifier | TokenKind::Aggregate(_) => true,
        TokenKind::Keyword(keyword) => keyword != Keyword::Without,
        TokenKind::Operator(op) => {
            matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Unless | BinaryOp::Atan2)
        }
        _ => false,
    }
}

/// `%f`
fn go_fixed(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() }
    } else {
        format!("{value:.6}")
    }
}
