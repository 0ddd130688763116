//! Text into tokens, one at a time and on demand.
//!
//! What a character means depends on where it stands: inside braces there are only names, strings
//! and match operators; inside brackets there are durations; elsewhere words may be keywords. The
//! lexer therefore follows braces, brackets and parentheses, and also reports those left open.
//! Faults carry the words of Prometheus.

use crate::ast::{AggregateOp, BinaryOp, Span};
use crate::quote::{code_point, quoted, quoted_char};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    End,
    Identifier,
    /// A name with a colon in it.
    MetricIdentifier,
    Number,
    Duration,
    String,
    LeftBrace,
    RightBrace,
    LeftBracket,
    RightBracket,
    LeftParen,
    RightParen,
    Comma,
    Colon,
    /// A single `=`.
    Assign,
    MatchRegex,
    MatchNotRegex,
    At,
    Operator(BinaryOp),
    Aggregate(AggregateOp),
    Keyword(Keyword),
}

/// Words that mean something in some places and are names in others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyword {
    Offset,
    Smoothed,
    Anchored,
    By,
    Without,
    On,
    Ignoring,
    GroupLeft,
    GroupRight,
    Fill,
    FillLeft,
    FillRight,
    Bool,
    Start,
    End,
    Step,
    Range,
    MaxOf,
    MinOf,
}

impl Keyword {
    /// Those that are functions of time in durations and behind `@`; messages quote them otherwise.
    fn is_preprocessor(self) -> bool {
        matches!(
            self,
            Keyword::Start
                | Keyword::End
                | Keyword::Step
                | Keyword::Range
                | Keyword::MaxOf
                | Keyword::MinOf
        )
    }
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
}

/// A fault and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LexError {
    pub(crate) at: usize,
    pub(crate) message: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Statements,
    /// Behind `[`, until the first number.
    Range,
}

/// Produces the tokens of a text. Comments and white space vanish. Allocates only for faults.
pub(crate) struct Lexer<'a> {
    text: &'a str,
    start: usize,
    position: usize,
    mode: Mode,
    parens: u32,
    in_braces: bool,
    in_brackets: bool,
    seen_colon: bool,
    seen_duration: bool,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Lexer {
            text,
            start: 0,
            position: 0,
            mode: Mode::Statements,
            parens: 0,
            in_braces: false,
            in_brackets: false,
            seen_colon: false,
            seen_duration: false,
        }
    }

    /// The next token; [`TokenKind::End`] again and again behind the last one.
    pub(crate) fn next_token(&mut self) -> Result<Token, LexError> {
        let kind = loop {
            self.start = self.position;
            let found = if self.mode == Mode::Range {
                self.range_token()?
            } else if self.in_braces {
                self.brace_token()?
            } else {
                self.statement_token()?
            };
            if let Some(kind) = found {
                break kind;
            }
        };
        Ok(Token { kind, span: self.span() })
    }

    /// The text of a token.
    pub(crate) fn slice(&self, span: Span) -> &'a str {
        &self.text[span.start as usize..span.end as usize]
    }

    fn span(&self) -> Span {
        // The parser refuses texts of 4 GiB before it makes a lexer.
        Span { start: self.start as u32, end: self.position as u32 }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn peek_char(&self) -> Option<char> {
        self.text[self.position..].chars().next()
    }

    fn take_char(&mut self) -> Option<char> {
        let character = self.peek_char()?;
        self.position += character.len_utf8();
        Some(character)
    }

    /// Takes the next byte if it is one of these.
    fn accept(&mut self, set: &[u8]) -> bool {
        let found = self.peek().is_some_and(|byte| set.contains(&byte));
        self.position += usize::from(found);
        found
    }

    fn accept_while(&mut self, accepted: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&accepted) {
            self.position += 1;
        }
    }

    #[cold]
    fn fault<T>(&self, message: impl Into<String>) -> Result<T, LexError> {
        Err(LexError { at: self.start, message: message.into() })
    }

    /// A fault of the token just taken, reported behind it.
    #[cold]
    fn fault_behind<T>(&self, message: impl Into<String>) -> Result<T, LexError> {
        Err(LexError { at: self.position, message: message.into() })
    }

    fn skip_comment(&mut self) {
        self.accept_while(|byte| byte != b'\n' && byte != b'\r');
    }

    fn statement_token(&mut self) -> Result<Option<TokenKind>, LexError> {
        use TokenKind as T;
        let Some(first) = self.peek() else { return self.end() };
        if let Some(operator) = self.operator(first)? {
            return Ok(Some(operator));
        }
        let kind = match first {
            b'#' => {
                self.skip_comment();
                return Ok(None);
            }
            b' ' | b'\t' | b'\n' | b'\r' => {
                self.accept_while(is_space);
                return Ok(None);
            }
            b'0'..=b'9' | b'.' if first != b'.' || self.digit_follows() => {
                return self.number_or_duration().map(Some);
            }
            b'"' | b'\'' | b'`' => return self.string(first).map(Some),
            b':' | b'_' | b'a'..=b'z' | b'A'..=b'Z' if self.in_brackets => {
                return self.word_in_brackets(first).map(Some);
            }
            b':' | b'_' | b'a'..=b'z' | b'A'..=b'Z' => return Ok(Some(self.word())),
            b',' => T::Comma,
            b'(' => {
                self.parens += 1;
                T::LeftParen
            }
            b')' => return self.right_paren().map(Some),
            b'{' => {
                self.in_braces = true;
                T::LeftBrace
            }
            b'[' => return self.left_bracket().map(Some),
            b']' if self.in_brackets => {
                self.in_brackets = false;
                T::RightBracket
            }
            b']' => return self.fault("unexpected right bracket ']'"),
            b'@' => T::At,
            _ => {
                let character = self.peek_char();
                return self.fault(format!("unexpected character: {}", quoted_char(character)));
            }
        };
        self.position += 1;
        Ok(Some(kind))
    }

    fn end(&self) -> Result<Option<TokenKind>, LexError> {
        if self.parens != 0 {
            return self.fault("unclosed left parenthesis");
        }
        if self.in_brackets {
            return self.fault("unclosed left bracket");
        }
        Ok(Some(TokenKind::End))
    }

    fn digit_follows(&self) -> bool {
        self.text.as_bytes().get(self.position + 1).is_some_and(u8::is_ascii_digit)
    }

    fn right_paren(&mut self) -> Result<TokenKind, LexError> {
        self.position += 1;
        match self.parens.checked_sub(1) {
            Some(parens) => {
                self.parens = parens;
                Ok(TokenKind::RightParen)
            }
            None => self.fault_behind("unexpected right parenthesis ')'"),
        }
    }

    fn left_bracket(&mut self) -> Result<TokenKind, LexError> {
        if self.in_brackets {
            return self.fault("unexpected left bracket '['");
        }
        self.position += 1;
        self.seen_colon = false;
        self.in_brackets = true;
        self.mode = Mode::Range;
        Ok(TokenKind::LeftBracket)
    }

    /// An operator of one or two characters.
    fn operator(&mut self, first: u8) -> Result<Option<TokenKind>, LexError> {
        use BinaryOp as B;
        let second = self.text.as_bytes().get(self.position + 1).copied();
        let (op, length) = match (first, second) {
            (b'*', _) => (B::Mul, 1),
            (b'/', _) => (B::Div, 1),
            (b'%', _) => (B::Mod, 1),
            (b'+', _) => (B::Add, 1),
            (b'-', _) => (B::Sub, 1),
            (b'^', _) => (B::Pow, 1),
            (b'=', Some(b'=')) => (B::Equal, 2),
            (b'=', Some(b'~')) => {
                return self.fault("unexpected character after '=': '~'");
            }
            (b'=', _) => {
                self.position += 1;
                return Ok(Some(TokenKind::Assign));
            }
            (b'!', Some(b'=')) => (B::NotEqual, 2),
            (b'!', _) => {
                self.position += 1;
                let next = self.peek_char();
                return self
                    .fault(format!("unexpected character after '!': {}", quoted_char(next)));
            }
            (b'<', Some(b'=')) => (B::LessEqual, 2),
            (b'<', Some(b'/')) => (B::TrimUpper, 2),
            (b'<', _) => (B::Less, 1),
            (b'>', Some(b'=')) => (B::GreaterEqual, 2),
            (b'>', Some(b'/')) => (B::TrimLower, 2),
            (b'>', _) => (B::Greater, 1),
            _ => return Ok(None),
        };
        self.position += length;
        Ok(Some(TokenKind::Operator(op)))
    }

    fn brace_token(&mut self) -> Result<Option<TokenKind>, LexError> {
        use TokenKind as T;
        let Some(first) = self.peek() else {
            return self.fault("unexpected end of input inside braces");
        };
        let second = self.text.as_bytes().get(self.position + 1).copied();
        let (kind, length) = match (first, second) {
            (b'#', _) => {
                self.skip_comment();
                return Ok(None);
            }
            (b' ' | b'\t' | b'\n' | b'\r', _) => {
                self.accept_while(is_space);
                return Ok(None);
            }
            (b'_' | b'a'..=b'z' | b'A'..=b'Z', _) => {
                self.accept_while(is_word);
                return Ok(Some(T::Identifier));
            }
            (b'"' | b'\'' | b'`', _) => return self.string(first).map(Some),
            (b',', _) => (T::Comma, 1),
            (b'=', Some(b'~')) => (T::MatchRegex, 2),
            (b'=', _) => (T::Assign, 1),
            (b'!', Some(b'~')) => (T::MatchNotRegex, 2),
            (b'!', Some(b'=')) => (T::Operator(BinaryOp::NotEqual), 2),
            (b'!', _) => {
                self.position += 1;
                let next = quoted_char(self.peek_char());
                return self.fault(format!("unexpected character after '!' inside braces: {next}"));
            }
            (b'{', _) => return self.fault("unexpected left brace '{'"),
            (b'}', _) => {
                self.in_braces = false;
                (T::RightBrace, 1)
            }
            _ => {
                let character = quoted_char(self.peek_char());
                return self.fault(format!("unexpected character inside braces: {character}"));
            }
        };
        self.position += length;
        Ok(Some(kind))
    }

    /// Behind `[`: operators, parentheses and the functions of durations, until a number comes.
    fn range_token(&mut self) -> Result<Option<TokenKind>, LexError> {
        use BinaryOp as B;
        use TokenKind as T;
        let Some(first) = self.peek() else {
            return self.fault("unexpected end of input in duration expression");
        };
        let kind = match first {
            b' ' | b'\t' | b'\n' | b'\r' => {
                self.accept_while(is_space);
                return Ok(None);
            }
            b']' => {
                self.in_brackets = false;
                self.seen_colon = false;
                self.mode = Mode::Statements;
                T::RightBracket
            }
            b':' => return self.colon_in_range().map(Some),
            b'(' => {
                self.parens += 1;
                T::LeftParen
            }
            b')' => return self.right_paren().map(Some),
            b'+' => T::Operator(B::Add),
            b'-' => T::Operator(B::Sub),
            b'*' => T::Operator(B::Mul),
            b'/' => T::Operator(B::Div),
            b'%' => T::Operator(B::Mod),
            b'^' => T::Operator(B::Pow),
            b',' => T::Comma,
            b'0'..=b'9' | b'.' if first != b'.' || self.digit_follows() => {
                self.seen_duration = true;
                self.mode = Mode::Statements;
                return self.number_or_duration().map(Some);
            }
            _ => {
                let character = self.peek_char();
                if let Some(keyword) = self.duration_function(first) {
                    return Ok(Some(T::Keyword(keyword)));
                }
                return self.fault(format!(
                    "unexpected character in duration expression: {}",
                    quoted_char(character)
                ));
            }
        };
        self.position += 1;
        Ok(Some(kind))
    }

    fn colon_in_range(&mut self) -> Result<TokenKind, LexError> {
        self.position += 1;
        if !self.seen_duration {
            return self.fault_behind("unexpected colon before duration in duration expression");
        }
        if self.seen_colon {
            return self.fault_behind("unexpected repeated colon in duration expression");
        }
        self.seen_colon = true;
        Ok(TokenKind::Colon)
    }

    /// Inside brackets, behind the first number.
    fn word_in_brackets(&mut self, first: u8) -> Result<TokenKind, LexError> {
        if first == b':' {
            if self.seen_colon {
                return self.fault("unexpected colon ':'");
            }
            self.seen_colon = true;
            self.position += 1;
            return Ok(TokenKind::Colon);
        }
        let character = self.peek_char();
        match self.duration_function(first) {
            Some(keyword) => Ok(TokenKind::Keyword(keyword)),
            None => self
                .fault(format!("unexpected character: {}, expected ':'", quoted_char(character))),
        }
    }

    /// `step`, `range`, `max_of` or `min_of`, if one begins here.
    fn duration_function(&mut self, first: u8) -> Option<Keyword> {
        if !matches!(first.to_ascii_lowercase(), b's' | b'r' | b'm') {
            return None;
        }
        self.accept_while(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        match keyword(&self.text[self.start..self.position]) {
            Some(TokenKind::Keyword(
                found @ (Keyword::Step | Keyword::Range | Keyword::MaxOf | Keyword::MinOf),
            )) => Some(found),
            _ => None,
        }
    }

    /// A keyword, a number in letters, or a name.
    fn word(&mut self) -> TokenKind {
        self.accept_while(|byte| is_word(byte) || byte == b':');
        let word = &self.text[self.start..self.position];
        match keyword(word) {
            // Newer than the metrics that are called so: a keyword only where it can be one.
            Some(TokenKind::Keyword(Keyword::Fill | Keyword::FillLeft | Keyword::FillRight))
                if !self.paren_follows() =>
            {
                TokenKind::Identifier
            }
            Some(kind) => kind,
            None if word.contains(':') => TokenKind::MetricIdentifier,
            None => TokenKind::Identifier,
        }
    }

    fn paren_follows(&self) -> bool {
        let rest = &self.text.as_bytes()[self.position..];
        rest.iter().find(|&&byte| !is_space(byte)) == Some(&b'(')
    }

    fn string(&mut self, quote: u8) -> Result<TokenKind, LexError> {
        self.position += 1;
        loop {
            match self.take_char() {
                Some('\\') if quote != b'`' => self.escape(quote)?,
                // What the text's decoder couldn't read.
                Some(char::REPLACEMENT_CHARACTER) => return self.fault("invalid UTF-8 rune"),
                Some('\n') if quote != b'`' => return self.fault("unterminated quoted string"),
                Some(found) if found == char::from(quote) => return Ok(TokenKind::String),
                Some(_) => {}
                None if quote == b'`' => return self.fault("unterminated raw string"),
                None => return self.fault("unterminated quoted string"),
            }
        }
    }

    /// Checks what stands behind a backslash.
    fn escape(&mut self, quote: u8) -> Result<(), LexError> {
        const UNTERMINATED: &str = "escape sequence not terminated";
        let Some(kind) = self.peek_char() else { return self.fault(UNTERMINATED) };
        let (digits, radix, largest) = match kind {
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\' => {
                self.position += 1;
                return Ok(());
            }
            c if c == char::from(quote) => {
                self.position += 1;
                return Ok(());
            }
            '0'..='7' => (3, 8, 255),
            'x' => (2, 16, 255),
            'u' => (4, 16, u32::from(char::MAX)),
            'U' => (8, 16, u32::from(char::MAX)),
            c => return self.fault(format!("unknown escape sequence {}", code_point(c))),
        };
        self.position += usize::from(radix == 16);
        let mut value = 0u32;
        for _ in 0..digits {
            let Some(character) = self.take_char() else { return self.fault(UNTERMINATED) };
            let Some(digit) = character.to_digit(radix) else {
                return self.fault(format!(
                    "illegal character {} in escape sequence",
                    code_point(character)
                ));
            };
            value = value.wrapping_mul(radix).wrapping_add(digit);
        }
        if value > largest || (0xd800..0xe000).contains(&value) {
            return self.fault("escape sequence is an invalid Unicode code point");
        }
        Ok(())
    }

    fn number_or_duration(&mut self) -> Result<TokenKind, LexError> {
        if self.scan_number() {
            return Ok(TokenKind::Number);
        }
        if self.scan_rest_of_duration() {
            return Ok(TokenKind::Duration);
        }
        let seen = &self.text[self.start..self.position];
        self.fault(format!("bad number or duration syntax: {}", quoted(seen)))
    }

    /// Behind the digits of a duration: its unit, and more digits with units.
    fn scan_rest_of_duration(&mut self) -> bool {
        if !self.accept(b"smhdwy") {
            return false;
        }
        // The second half of `ms`; that `hs` isn't a unit is found when the duration is read.
        self.accept(b"s");
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.accept_while(|byte| byte.is_ascii_digit());
            if !self.accept(b"smhdw") {
                return false;
            }
            self.accept(b"s");
        }
        if self.peek().is_some_and(is_word) {
            self.position += 1;
            return false;
        }
        true
    }

    /// A number in any notation; what isn't one after all is found when it is read. On `false` the
    /// position stands where a duration's unit may begin.
    fn scan_number(&mut self) -> bool {
        let begin = self.position;
        let mut hex = false;
        if self.accept(b"0") && self.accept(b"xX") {
            self.accept(b"_");
            hex = true;
        }
        let is_digit = |byte: u8| {
            if hex { byte.is_ascii_hexdigit() } else { byte.is_ascii_digit() }
        };
        self.accept(b".");
        if self.peek().is_some_and(is_digit) {
            self.position += 1;
        }
        let (mut dot, mut exponent) = (false, false);
        while let Some(byte) = self.peek() {
            match byte {
                b'.' => {
                    self.position += 1;
                    if dot || self.accept(b"_.") || hex {
                        return false;
                    }
                    dot = true;
                }
                b'e' | b'E' => {
                    self.position += 1;
                    if exponent {
                        return false;
                    }
                    exponent = true;
                    self.accept(b"+-");
                    if self.accept(b"._eE") || self.peek().is_none() {
                        return false;
                    }
                }
                b'_' => {
                    self.position += 1;
                    if self.accept(b"._eE") || self.peek().is_none() {
                        return false;
                    }
                }
                byte if is_digit(byte) => self.accept_while(is_digit),
                _ => break,
            }
        }
        self.position != begin && !self.peek().is_some_and(is_word)
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

/// Keywords in any case.
fn keyword(word: &str) -> Option<TokenKind> {
    const LONGEST: usize = 12;
    let mut buffer = [0; LONGEST];
    let lower = buffer.get_mut(..word.len())?;
    lower.copy_from_slice(word.as_bytes());
    lower.make_ascii_lowercase();
    use AggregateOp as A;
    use Keyword as K;
    use TokenKind::{Aggregate, Keyword as Word, Operator};
    Some(match &*lower {
        b"and" => Operator(BinaryOp::And),
        b"or" => Operator(BinaryOp::Or),
        b"unless" => Operator(BinaryOp::Unless),
        b"atan2" => Operator(BinaryOp::Atan2),
        b"sum" => Aggregate(A::Sum),
        b"avg" => Aggregate(A::Avg),
        b"count" => Aggregate(A::Count),
        b"min" => Aggregate(A::Min),
        b"max" => Aggregate(A::Max),
        b"group" => Aggregate(A::Group),
        b"stddev" => Aggregate(A::Stddev),
        b"stdvar" => Aggregate(A::Stdvar),
        b"topk" => Aggregate(A::Topk),
        b"bottomk" => Aggregate(A::Bottomk),
        b"count_values" => Aggregate(A::CountValues),
        b"quantile" => Aggregate(A::Quantile),
        b"limitk" => Aggregate(A::Limitk),
        b"limit_ratio" => Aggregate(A::LimitRatio),
        b"offset" => Word(K::Offset),
        b"smoothed" => Word(K::Smoothed),
        b"anchored" => Word(K::Anchored),
        b"by" => Word(K::By),
        b"without" => Word(K::Without),
        b"on" => Word(K::On),
        b"ignoring" => Word(K::Ignoring),
        b"group_left" => Word(K::GroupLeft),
        b"group_right" => Word(K::GroupRight),
        b"fill" => Word(K::Fill),
        b"fill_left" => Word(K::FillLeft),
        b"fill_right" => Word(K::FillRight),
        b"bool" => Word(K::Bool),
        b"start" => Word(K::Start),
        b"end" => Word(K::End),
        b"step" => Word(K::Step),
        b"range" => Word(K::Range),
        b"max_of" => Word(K::MaxOf),
        b"min_of" => Word(K::MinOf),
        b"inf" | b"nan" => TokenKind::Number,
        _ => return None,
    })
}

/// A token as messages name it.
pub(crate) fn describe(token: Token, text: &str) -> String {
    let shown = || {
        if text.len() > 10 {
            let short: String = text.chars().take(10).collect();
            format!("{}...", quoted(&short))
        } else {
            quoted(text)
        }
    };
    match token.kind {
        TokenKind::End => "end of input".to_owned(),
        TokenKind::Identifier => format!("identifier {}", quoted(text)),
        TokenKind::MetricIdentifier => format!("metric identifier {}", quoted(text)),
        TokenKind::String => format!("string {}", shown()),
        TokenKind::Number => format!("number {}", shown()),
        TokenKind::Duration => format!("duration {}", shown()),
        TokenKind::Operator(_)
        | TokenKind::At
        | TokenKind::MatchRegex
        | TokenKind::MatchNotRegex => format!("<op:{text}>"),
        TokenKind::Aggregate(_) => format!("<aggr:{text}>"),
        TokenKind::Keyword(keyword) if !keyword.is_preprocessor() => format!("<{text}>"),
        _ => shown(),
    }
}
