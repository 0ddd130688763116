//! Durations in brackets and behind `offset`: literals, or arithmetic over them.
//!
//! The operations go straight into reverse Polish order, with a stack for the operators that wait.
//! A literal stays a literal under signs and parentheses, so that `[-(-5m)]` is `[5m]`.

use crate::ast::{BinaryOp, Duration, DurationOp, Span};
use crate::lexer::{Keyword, Token, TokenKind};

use super::number::{duration_nanoseconds, parse_number, seconds};
use super::{MAX_DEPTH, ParseError, Parser};

/// How a place that wants a duration complains about something else.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) context: &'static str,
    pub(super) expected: &'static str,
}

/// An operand in `operations`: where it begins, and whether it is a mere number.
struct Operand {
    literal: bool,
    span: Span,
}

/// What waits for its right side or its closing parenthesis.
enum Open {
    Sign {
        negate: bool,
        token: Token,
    },
    Binary {
        op: BinaryOp,
        token: Token,
    },
    Paren,
    /// `max_of(` or `min_of(`; whether the comma was there.
    Function {
        op: DurationOp,
        comma: bool,
    },
}

/// The expression read so far.
struct Builder {
    operations: Vec<DurationOp>,
    operands: Vec<Operand>,
    open: Vec<Open>,
    /// The sign in front of an offset, which is applied to the whole.
    sign: Option<Span>,
}

/// Sign binds as `*` does.
const SIGN_PRECEDENCE: u8 = 5;

/// The most seconds that fit into a duration of 64 bits of nanoseconds.
const MAX_SECONDS: f64 = 9_223_372_036.854_776;

impl Parser<'_> {
    /// What stands in brackets: a positive duration.
    pub(super) fn positive_duration(&mut self, place: Place) -> Result<Duration, ParseError> {
        let (duration, span, value) = self.duration_expression(place)?;
        // Prometheus looks at what follows before it judges.
        self.peek()?;
        if value.is_some_and(|value| value <= 0.0) {
            return Err(self.fault(span, "duration must be greater than 0"));
        }
        Ok(duration)
    }

    /// What stands behind `offset`; an operator behind a plain duration belongs to the expression
    /// around, one behind a parenthesis to the duration.
    pub(super) fn offset_duration(&mut self) -> Result<Duration, ParseError> {
        const PLACE: Place =
            Place { context: "offset", expected: "number, duration, step(), or range()" };
        let sign = match self.peek()?.kind {
            TokenKind::Operator(BinaryOp::Add | BinaryOp::Sub) => Some(self.next()?),
            _ => None,
        };
        let first = self.peek()?.kind;
        let single = match first {
            TokenKind::LeftParen => sign.is_some(),
            TokenKind::Operator(_) => false,
            _ => true,
        };
        let mut builder = Builder::new();
        match sign {
            Some(token) if single => builder.sign = Some(token.span),
            Some(token) => {
                let negate = token.kind == TokenKind::Operator(BinaryOp::Sub);
                builder.open.push(Open::Sign { negate, token });
            }
            None => {}
        }
        self.operands(&mut builder, PLACE, single)?;
        if let (true, Some(token)) = (single, sign) {
            let negate = token.kind == TokenKind::Operator(BinaryOp::Sub);
            self.apply_sign(&mut builder, negate, token, first != TokenKind::LeftParen)?;
            self.check_range(&builder, token.span)?;
        }
        Ok(builder.finish().0)
    }

    fn duration_expression(
        &mut self,
        place: Place,
    ) -> Result<(Duration, Span, Option<f64>), ParseError> {
        let mut builder = Builder::new();
        self.operands(&mut builder, place, false)?;
        Ok(builder.finish())
    }

    /// Reads operands and operators until nothing more belongs to the duration; a `single` one ends
    /// as soon as it is complete.
    fn operands(
        &mut self,
        builder: &mut Builder,
        place: Place,
        single: bool,
    ) -> Result<(), ParseError> {
        loop {
            self.prefix(builder, place)?;
            loop {
                if single && builder.open.is_empty() {
                    return Ok(());
                }
                let token = self.peek()?;
                match token.kind {
                    TokenKind::Operator(op) if is_arithmetic(op) => {
                        self.reduce_duration(builder, op.precedence(), op == BinaryOp::Pow)?;
                        self.next()?;
                        builder.open.push(Open::Binary { op, token });
                        break;
                    }
                    TokenKind::RightParen => {
                        self.reduce_duration(builder, 0, false)?;
                        match builder.open.pop() {
                            Some(Open::Paren) => self.close_paren(builder)?,
                            Some(Open::Function { op, comma: true }) => {
                                self.close_function(builder, op)?;
                            }
                            None => return Ok(()),
                            Some(_) => {
                                return Err(self.unexpected(token, place.context, place.expected));
                            }
                        }
                    }
                    TokenKind::Comma => {
                        self.reduce_duration(builder, 0, false)?;
                        match builder.open.last_mut() {
                            Some(Open::Function { comma: comma @ false, .. }) => *comma = true,
                            None => return Ok(()),
                            Some(_) => {
                                return Err(self.unexpected(token, place.context, place.expected));
                            }
                        }
                        self.next()?;
                        break;
                    }
                    _ => {
                        self.reduce_duration(builder, 0, false)?;
                        if builder.open.is_empty() {
                            return Ok(());
                        }
                        return Err(self.unexpected(token, place.context, place.expected));
                    }
                }
            }
        }
    }

    /// Signs and opening parentheses, up to and including the first complete operand.
    fn prefix(&mut self, builder: &mut Builder, place: Place) -> Result<(), ParseError> {
        loop {
            let token = self.peek()?;
            if builder.open.len() >= MAX_DEPTH {
                return Err(self.too_deep(token.span));
            }
            match token.kind {
                TokenKind::Number | TokenKind::Duration => {
                    self.next()?;
                    return self.literal(builder, token);
                }
                TokenKind::Operator(op @ (BinaryOp::Add | BinaryOp::Sub)) => {
                    self.next()?;
                    builder.open.push(Open::Sign { negate: op == BinaryOp::Sub, token });
                }
                TokenKind::LeftParen => {
                    self.next()?;
                    builder.open.push(Open::Paren);
                }
                TokenKind::Keyword(keyword @ (Keyword::Step | Keyword::Range)) => {
                    self.next()?;
                    let op =
                        if keyword == Keyword::Step { DurationOp::Step } else { DurationOp::Range };
                    for wanted in [TokenKind::LeftParen, TokenKind::RightParen] {
                        let found = self.peek()?;
                        if found.kind != wanted {
                            return Err(self.unexpected(found, place.context, place.expected));
                        }
                        self.next()?;
                    }
                    self.experimental_duration(builder.outermost(token.span))?;
                    builder.operations.push(op);
                    builder.operands.push(Operand { literal: false, span: token.span });
                    return Ok(());
                }
                TokenKind::Keyword(keyword @ (Keyword::MaxOf | Keyword::MinOf)) => {
                    self.next()?;
                    let paren = self.peek()?;
                    if paren.kind != TokenKind::LeftParen {
                        return Err(self.unexpected(paren, place.context, place.expected));
                    }
                    self.next()?;
                    let op =
                        if keyword == Keyword::MaxOf { DurationOp::Max } else { DurationOp::Min };
                    builder.open.push(Open::Function { op, comma: false });
                }
                _ => return Err(self.unexpected(token, place.context, place.expected)),
            }
        }
    }

    /// Applies the operators that bind at least as strongly as the one to come.
    fn reduce_duration(
        &mut self,
        builder: &mut Builder,
        precedence: u8,
        right_associative: bool,
    ) -> Result<(), ParseError> {
        while let Some(open) = builder.open.last() {
            let waiting = match open {
                Open::Sign { .. } => SIGN_PRECEDENCE,
                Open::Binary { op, .. } => op.precedence(),
                Open::Paren | Open::Function { .. } => return Ok(()),
            };
            if waiting < precedence || (waiting == precedence && right_associative) {
                return Ok(());
            }
            match builder.open.pop() {
                Some(Open::Sign { negate, token }) => {
                    self.apply_sign(builder, negate, token, false)?;
                    self.check_range(builder, token.span)?;
                }
                Some(Open::Binary { op, token }) => self.apply_binary(builder, op, token)?,
                _ => unreachable!("parentheses were kept"),
            }
        }
        Ok(())
    }

    fn apply_binary(
        &mut self,
        builder: &mut Builder,
        op: BinaryOp,
        token: Token,
    ) -> Result<(), ParseError> {
        let right = builder.operands.pop().expect("an operator is pushed between operands");
        let left = builder.operands.last_mut().expect("an operator is pushed behind an operand");
        let (left_span, right_is_literal) = (left.span, right.literal);
        left.literal = false;
        left.span.end = right.span.end;
        self.experimental_duration(left_span)?;
        if right_is_literal
            && matches!(builder.operations.last(),
                Some(DurationOp::Number { seconds, .. }) if *seconds == 0.0)
        {
            match op {
                BinaryOp::Div => return Err(self.fault(token.span, "division by zero")),
                BinaryOp::Mod => return Err(self.fault(token.span, "modulo by zero")),
                _ => {}
            }
        }
        builder.operations.push(DurationOp::Binary(op));
        Ok(())
    }

    /// A sign in front of the last operand; a `+` is kept only where it is asked for.
    fn apply_sign(
        &mut self,
        builder: &mut Builder,
        negate: bool,
        token: Token,
        keep_plus: bool,
    ) -> Result<(), ParseError> {
        let operand = builder.operands.last_mut().expect("a sign is applied to an operand");
        if negate || operand.literal || keep_plus {
            operand.span.start = token.span.start;
        }
        if operand.literal {
            if let (true, Some(DurationOp::Number { seconds, .. })) =
                (negate, builder.operations.last_mut())
            {
                *seconds = -*seconds;
            }
        } else if negate {
            builder.operations.push(DurationOp::Negate);
        } else if keep_plus {
            builder.operations.push(DurationOp::Plus);
        }
        Ok(())
    }

    fn close_paren(&mut self, builder: &mut Builder) -> Result<(), ParseError> {
        self.next()?;
        let operand = builder.operands.last().expect("parentheses close behind an operand");
        if !operand.literal && builder.operations.last() != Some(&DurationOp::Paren) {
            builder.operations.push(DurationOp::Paren);
        }
        // The parentheses of `-(…)` belong to the sign.
        if builder.sign.is_some() && builder.open.is_empty() {
            return Ok(());
        }
        self.experimental_duration(operand.span)
    }

    fn close_function(&mut self, builder: &mut Builder, op: DurationOp) -> Result<(), ParseError> {
        self.next()?;
        let right = builder.operands.pop().expect("a function closes behind its second argument");
        let left = builder.operands.last_mut().expect("a comma stands behind an argument");
        left.literal = false;
        left.span.end = right.span.end;
        let span = left.span;
        builder.operations.push(op);
        self.experimental_duration(builder.outermost(span))
    }

    fn literal(&mut self, builder: &mut Builder, token: Token) -> Result<(), ParseError> {
        let seconds = self.number_or_duration(token)?;
        let duration = token.kind == TokenKind::Duration;
        builder.operations.push(DurationOp::Number { seconds, duration });
        builder.operands.push(Operand { literal: true, span: token.span });
        self.check_range(builder, builder.outermost(token.span))
    }

    /// The value of a number, or the seconds of a duration.
    pub(super) fn number_or_duration(&mut self, token: Token) -> Result<f64, ParseError> {
        let text = self.slice(token.span);
        if token.kind == TokenKind::Duration {
            let nanoseconds = duration_nanoseconds(text)
                .map_err(|error| self.fault(token.span, error.to_string()))?;
            return Ok(seconds(nanoseconds));
        }
        parse_number(text).map_err(|reason| self.fault(token.span, reason))
    }

    fn check_range(&self, builder: &Builder, span: Span) -> Result<(), ParseError> {
        match (builder.operands.last(), builder.operations.last()) {
            (Some(Operand { literal: true, .. }), Some(DurationOp::Number { seconds, .. }))
                if seconds.abs() > MAX_SECONDS =>
            {
                Err(self.fault(span, "duration out of range"))
            }
            _ => Ok(()),
        }
    }

    fn experimental_duration(&self, span: Span) -> Result<(), ParseError> {
        if self.options.duration_expressions {
            return Ok(());
        }
        Err(self.fault(span, "experimental duration expression is not enabled"))
    }
}

impl Builder {
    fn new() -> Self {
        Builder { operations: Vec::new(), operands: Vec::new(), open: Vec::new(), sign: None }
    }

    /// Where a complaint about an operand begins: at the sign of the whole if nothing is open.
    fn outermost(&self, span: Span) -> Span {
        match self.sign {
            Some(sign) if self.open.is_empty() => Span { start: sign.start, end: span.end },
            _ => span,
        }
    }

    /// The duration, where it stands, and its seconds if it is a literal.
    fn finish(self) -> (Duration, Span, Option<f64>) {
        let operand = self.operands.last().expect("a duration has an operand");
        let span = operand.span;
        match (operand.literal, self.operations.as_slice()) {
            (true, &[DurationOp::Number { seconds, .. }]) => {
                let nanoseconds = (seconds * 1e9).round() as i64;
                (Duration::Milliseconds(nanoseconds / 1_000_000), span, Some(seconds))
            }
            _ => (Duration::Expression { span, operations: self.operations }, span, None),
        }
    }
}

fn is_arithmetic(op: BinaryOp) -> bool {
    matches!(
        op,
        BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Mul
            | BinaryOp::Div
            | BinaryOp::Mod
            | BinaryOp::Pow
    )
}
