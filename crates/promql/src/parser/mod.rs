//! Text into a type-checked [`Query`].
//!
//! 1. The lexer cuts the text into tokens, one ahead of the parser.
//! 2. Operator precedence with an explicit stack of open constructs turns them into nodes, children
//!    first. Nothing recurses, and [`MAX_DEPTH`] bounds how deep an expression may nest.
//! 3. Types are checked, in the order in which Prometheus checks them.
//!
//! The first fault ends it: Prometheus shows no other one either. Its words and its position are
//! those of Prometheus.

use std::fmt;

use store::Matcher;

use crate::ast::{Node, Query, Span};
use crate::lexer::{Keyword, Lexer, Token, TokenKind, describe};

mod check;
mod duration;
mod expression;
mod modifiers;
mod number;
mod selector;

pub use number::{DurationError, parse_duration};

/// How deep expressions may nest: parentheses, calls, signs, and operators inside each other's
/// operands; of `a + b + c` each further operand counts. Whoever walks a tree by recursion can
/// reckon with it. Queries that people and rule generators write stay below a hundred.
pub const MAX_DEPTH: usize = 1000;

/// Which experimental parts of the language are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ParseOptions {
    /// Functions and aggregations that are marked experimental.
    pub experimental_functions: bool,
    /// Arithmetic in durations.
    pub duration_expressions: bool,
    /// `anchored` and `smoothed`.
    pub extended_range_selectors: bool,
    /// `fill`, `fill_left`, `fill_right`.
    pub fill_modifiers: bool,
}

impl ParseOptions {
    /// All experimental parts on.
    pub const ALL: ParseOptions = ParseOptions {
        experimental_functions: true,
        duration_expressions: true,
        extended_range_selectors: true,
        fill_modifiers: true,
    };
}

/// What is wrong with a query, and where. Displays as `line:column: parse error: reason`, columns in
/// bytes from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    span: Span,
    line_column: Option<(u32, u32)>,
    reason: String,
}

impl ParseError {
    #[cold]
    pub(crate) fn new(text: &str, span: Span, reason: impl Into<String>) -> Self {
        let before = &text.as_bytes()[..(span.start as usize).min(text.len())];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        let column = match before.iter().rposition(|&byte| byte == b'\n') {
            Some(at) => before.len() - at,
            None => before.len() + 1,
        };
        ParseError {
            span,
            line_column: (!text.is_empty()).then_some((line as u32, column as u32)),
            reason: reason.into(),
        }
    }

    /// The bytes of the query that it is about; a fault of the grammar may know the start alone.
    pub fn span(&self) -> Span {
        self.span
    }

    /// The reason without the position.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line_column {
            Some((line, column)) => write!(f, "{line}:{column}: parse error: {}", self.reason),
            None => write!(f, "unknown position: parse error: {}", self.reason),
        }
    }
}

impl std::error::Error for ParseError {}

/// Parses a query with all experimental parts of the language on.
///
/// # Errors
/// The first fault of syntax, or else of types.
///
/// # Cost
/// Linear in the text; allocates the tree.
pub fn parse(text: &str) -> Result<Query, ParseError> {
    parse_with(text, ParseOptions::ALL)
}

/// Parses a query.
///
/// # Errors
/// The first fault of syntax, or else of types; an experimental part that is off.
pub fn parse_with(text: &str, options: ParseOptions) -> Result<Query, ParseError> {
    let mut parser = Parser::new(text, options)?;
    let root = parser.expression()?;
    let mut query = Query { text: text.into(), nodes: parser.nodes, root };
    check::check(&mut query)?;
    Ok(query)
}

/// Parses a series selector such as the `match[]` of the HTTP API: a name and matchers, without
/// modifiers.
///
/// # Errors
/// The first fault of syntax. An empty selector is none: that is for the caller to judge.
pub fn parse_selector(text: &str) -> Result<Vec<Matcher>, ParseError> {
    let mut parser = Parser::new(text, ParseOptions::default())?;
    let matchers = parser.lone_selector()?;
    Ok(matchers)
}

/// The state of one parse.
pub(crate) struct Parser<'a> {
    text: &'a str,
    options: ParseOptions,
    lexer: Lexer<'a>,
    ahead: Option<Token>,
    /// The last comma between arguments.
    last_comma: Span,
    /// Where the last token taken ends.
    last_end: u32,
    nodes: Vec<Node>,
    /// The depth of the tree below each node.
    depths: Vec<u32>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, options: ParseOptions) -> Result<Self, ParseError> {
        if u32::try_from(text.len()).is_err() {
            return Err(ParseError::new("", Span::default(), "the query is larger than 4 GiB"));
        }
        Ok(Parser {
            text,
            options,
            lexer: Lexer::new(text),
            ahead: None,
            last_comma: Span::default(),
            last_end: 0,
            nodes: Vec::with_capacity(8),
            depths: Vec::with_capacity(8),
        })
    }

    /// The next token, which stays the next.
    fn peek(&mut self) -> Result<Token, ParseError> {
        if let Some(token) = self.ahead {
            return Ok(token);
        }
        let token = self.lexer.next_token().map_err(|error| {
            let span = Span { start: error.at as u32, end: self.text.len() as u32 };
            ParseError::new(self.text, span, error.message)
        })?;
        self.ahead = Some(token);
        Ok(token)
    }

    fn next(&mut self) -> Result<Token, ParseError> {
        let token = self.peek()?;
        self.ahead = None;
        self.last_end = token.span.end;
        Ok(token)
    }

    /// Takes the next token if it is of this kind.
    fn accept(&mut self, kind: TokenKind) -> Result<Option<Token>, ParseError> {
        let token = self.peek()?;
        if token.kind != kind {
            return Ok(None);
        }
        self.next().map(Some)
    }

    fn accept_keyword(&mut self, keyword: Keyword) -> Result<Option<Token>, ParseError> {
        self.accept(TokenKind::Keyword(keyword))
    }

    fn slice(&self, span: Span) -> &'a str {
        self.lexer.slice(span)
    }

    #[cold]
    fn fault(&self, span: Span, reason: impl Into<String>) -> ParseError {
        ParseError::new(self.text, span, reason)
    }

    /// A token that cannot stand where it stands. `context` says in what, `expected` what could;
    /// both may be empty.
    #[cold]
    fn unexpected(&self, token: Token, context: &str, expected: &str) -> ParseError {
        let mut reason = format!("unexpected {}", describe(token, self.slice(token.span)));
        if !context.is_empty() {
            reason.push_str(" in ");
            reason.push_str(context);
        }
        if !expected.is_empty() {
            reason.push_str(", expected ");
            reason.push_str(expected);
        }
        self.fault(token.span, reason)
    }
}
