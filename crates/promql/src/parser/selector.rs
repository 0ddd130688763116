//! Vector selectors: a name, and matchers in braces.

use store::{MatchOp, Matcher};

use crate::ast::{BinaryOp, Kind, NodeId, RangeExtension, Span, TimeModifiers, VectorSelector};
use crate::lexer::{Token, TokenKind};

use super::{ParseError, Parser};

const CONTEXT: &str = "label matching";

impl Parser<'_> {
    /// A selector whose name, if it has one in front of the braces, was taken already.
    pub(super) fn selector(&mut self, name: Option<Token>) -> Result<NodeId, ParseError> {
        let (selector, span) = self.selector_parts(name)?;
        Ok(self.push(span, Kind::VectorSelector(selector), 1))
    }

    /// A text that is a selector and nothing else.
    pub(super) fn lone_selector(&mut self) -> Result<Vec<Matcher>, ParseError> {
        let first = self.peek()?;
        let name = match first.kind {
            TokenKind::LeftBrace => None,
            kind if super::expression::is_name(kind) => Some(self.next()?),
            _ => return Err(self.unexpected(first, "", "")),
        };
        let (selector, _) = self.selector_parts(name)?;
        let rest = self.peek()?;
        if rest.kind != TokenKind::End {
            return Err(self.unexpected(rest, "", ""));
        }
        Ok(selector.matchers)
    }

    fn selector_parts(
        &mut self,
        name: Option<Token>,
    ) -> Result<(VectorSelector, Span), ParseError> {
        let mut span = name.map_or(Span::default(), |token| token.span);
        let mut matchers = Vec::new();
        if let Some(brace) = self.accept(TokenKind::LeftBrace)? {
            if name.is_none() {
                span.start = brace.span.start;
            }
            span.end = self.matchers(&mut matchers)?;
        }
        let name = name.map(|token| self.slice(token.span));
        if let Some(name) = name {
            matchers.push(Matcher::equal(store::labels::METRIC_NAME, name));
        }
        let selector = VectorSelector {
            name: name.map(Box::from),
            matchers,
            at: TimeModifiers::default(),
            extension: RangeExtension::None,
        };
        Ok((selector, span))
    }

    /// The matchers behind `{`, and the brace that closes them.
    fn matchers(&mut self, matchers: &mut Vec<Matcher>) -> Result<u32, ParseError> {
        loop {
            let token = self.next()?;
            match token.kind {
                TokenKind::RightBrace => return Ok(token.span.end),
                TokenKind::Identifier | TokenKind::String => {
                    matchers.push(self.matcher(token)?);
                }
                _ => return Err(self.unexpected(token, CONTEXT, "identifier or \"}\"")),
            }
            let token = self.next()?;
            match token.kind {
                TokenKind::Comma => {}
                TokenKind::RightBrace => return Ok(token.span.end),
                _ => return Err(self.unexpected(token, CONTEXT, "\",\" or \"}\"")),
            }
        }
    }

    fn matcher(&mut self, label: Token) -> Result<Matcher, ParseError> {
        let quoted_name = match label.kind {
            TokenKind::String => Some(self.unquoted(label)?),
            _ => None,
        };
        let operator = self.peek()?;
        let op = match (operator.kind, &quoted_name) {
            (TokenKind::Assign, _) => MatchOp::Equal,
            (TokenKind::Operator(BinaryOp::NotEqual), _) => MatchOp::NotEqual,
            (TokenKind::MatchRegex, _) => MatchOp::Match,
            (TokenKind::MatchNotRegex, _) => MatchOp::NotMatch,
            // A string alone is the name of the metric.
            (_, Some(name)) => return Ok(Matcher::equal(store::labels::METRIC_NAME, name)),
            (_, None) => {
                return Err(self.unexpected(operator, CONTEXT, "label matching operator"));
            }
        };
        self.next()?;
        let value = self.next()?;
        if value.kind != TokenKind::String {
            return Err(self.unexpected(value, CONTEXT, "string"));
        }
        let text = self.unquoted(value)?;
        let name = quoted_name.as_deref().unwrap_or_else(|| self.slice(label.span));
        Matcher::new(op, name, &text).map_err(|error| {
            let span = Span { start: label.span.start, end: value.span.end };
            self.fault(span, error.to_string())
        })
    }
}
