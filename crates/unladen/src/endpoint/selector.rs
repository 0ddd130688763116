//! A selector of series as PromQL has it: `name{label="value",label=~"pattern"}`.
//!
//! Reading is one pass without recursion. Accepted are all four operators, names in quotes (also the
//! metric's, as `{"a.name"}`), strings in double, single and back quotes, and a dangling comma. A
//! selector without conditions selects everything. Refused, with the byte where it stands, is everything
//! else, ranges and offsets among it.

use std::fmt;

use super::pattern::Pattern;

/// Conditions on one metric; all have to hold.
#[derive(Debug, Default)]
pub(super) struct Selector {
    pub(super) matchers: Vec<Matcher>,
}

/// A condition on one label; a metric without the label counts as one that has it empty.
#[derive(Debug)]
pub(super) struct Matcher {
    /// `__name__` for the metric's name.
    pub(super) label: String,
    is_negated: bool,
    operand: Operand,
}

#[derive(Debug)]
enum Operand {
    Text(String),
    Pattern(Pattern),
}

/// The label that stands for the metric's name.
pub(super) const NAME: &str = "__name__";

impl Matcher {
    /// Whether a value holds to the condition.
    pub(super) fn holds(&self, value: &str) -> bool {
        self.is_met(value) != self.is_negated
    }

    /// Whether one of several names holds to it; under a negation, all.
    pub(super) fn holds_for_any(
        &self,
        any: impl FnOnce(&mut dyn FnMut(&str) -> bool) -> bool,
    ) -> bool {
        any(&mut |name| self.is_met(name)) != self.is_negated
    }

    fn is_met(&self, value: &str) -> bool {
        match &self.operand {
            Operand::Text(text) => text == value,
            Operand::Pattern(pattern) => pattern.matches(value),
        }
    }
}

/// What is wrong with a selector.
#[derive(Debug)]
pub(super) struct SelectorError {
    at: usize,
    reason: String,
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.reason, self.at)
    }
}

impl Selector {
    /// Reads a selector. *Setup.*
    pub(super) fn parse(text: &str) -> Result<Selector, SelectorError> {
        Parser { text, rest: text }.selector()
    }
}

struct Parser<'t> {
    text: &'t str,
    rest: &'t str,
}

impl<'t> Parser<'t> {
    #[cold]
    fn error(&self, reason: impl Into<String>) -> SelectorError {
        SelectorError { at: self.text.len() - self.rest.len(), reason: reason.into() }
    }

    fn skip(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn selector(mut self) -> Result<Selector, SelectorError> {
        let mut selector = Selector::default();
        self.skip();
        if let Some(name) = self.word(true) {
            selector.matchers.push(Matcher::named(name.to_owned()));
        }
        if self.take("{") {
            self.conditions(&mut selector)?;
        } else if selector.matchers.is_empty() {
            return Err(self.error("expected a name or '{'"));
        }
        self.skip();
        if !self.rest.is_empty() {
            return Err(self.error("expected the end of the selector"));
        }
        Ok(selector)
    }

    fn conditions(&mut self, selector: &mut Selector) -> Result<(), SelectorError> {
        while !self.take("}") {
            selector.matchers.push(self.matcher()?);
            if !self.take(",") {
                match self.take("}") {
                    true => return Ok(()),
                    false => return Err(self.error("expected ',' or '}'")),
                }
            }
        }
        Ok(())
    }

    /// A name without quotes.
    fn word(&mut self, colon: bool) -> Option<&'t str> {
        let is_part = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || (b == b':' && colon);
        let end = self.rest.bytes().position(|b| !is_part(b)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if word.is_empty() || word.as_bytes()[0].is_ascii_digit() {
            return None;
        }
        self.rest = rest;
        Some(word)
    }

    fn matcher(&mut self) -> Result<Matcher, SelectorError> {
        self.skip();
        let is_quoted = self.rest.starts_with(['"', '\'', '`']);
        let label = match is_quoted {
            true => self.string()?,
            false => match self.word(false) {
                Some(word) => word.to_owned(),
                None => return Err(self.error("expected the name of a label or '}'")),
            },
        };
        let operators = [("=~", false, true), ("!~", true, true), ("!=", true, false)];
        let found = operators.into_iter().chain([("=", false, false)]).find(|o| self.take(o.0));
        let Some((_, is_negated, is_pattern)) = found else {
            return match is_quoted {
                // A name in quotes that is compared with nothing is the metric's.
                true => Ok(Matcher::named(label)),
                false => Err(self.error("expected '=', '!=', '=~' or '!~'")),
            };
        };
        self.skip();
        let before = self.rest;
        let value = self.string()?;
        let operand = match is_pattern {
            false => Operand::Text(value),
            true => match Pattern::new(&value) {
                Ok(pattern) => Operand::Pattern(pattern),
                Err(error) => {
                    self.rest = before;
                    return Err(self.error(error.to_string()));
                }
            },
        };
        Ok(Matcher { label, is_negated, operand })
    }

    /// A string in quotes, with the escapes that PromQL has in common with JSON and Go.
    fn string(&mut self) -> Result<String, SelectorError> {
        let quote = match self.rest.chars().next() {
            Some(quote @ ('"' | '\'' | '`')) => quote,
            _ => return Err(self.error("expected a string in quotes")),
        };
        let mut out = String::new();
        let mut characters = self.rest[1..].chars();
        loop {
            let Some(character) = characters.next() else {
                return Err(self.error("this string has no end"));
            };
            match character {
                _ if character == quote => break,
                '\\' if quote != '`' => match escape(&mut characters) {
                    Some(character) => out.push(character),
                    None => return Err(self.error("this string has an escape that means nothing")),
                },
                _ => out.push(character),
            }
        }
        self.rest = characters.as_str();
        Ok(out)
    }
}

impl Matcher {
    fn named(name: String) -> Self {
        Matcher { label: NAME.to_owned(), is_negated: false, operand: Operand::Text(name) }
    }
}

/// What stands for a character behind a backslash.
fn escape(characters: &mut std::str::Chars<'_>) -> Option<char> {
    let digits = match characters.next()? {
        'n' => return Some('\n'),
        't' => return Some('\t'),
        'r' => return Some('\r'),
        character @ ('\\' | '"' | '\'') => return Some(character),
        'u' => 4,
        'U' => 8,
        _ => return None,
    };
    let mut code: u32 = 0;
    for _ in 0..digits {
        code = (code << 4) | characters.next()?.to_digit(16)?;
    }
    char::from_u32(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The conditions, in a line.
    fn written(selector: &Selector) -> String {
        let one = |matcher: &Matcher| {
            let operator = match (&matcher.operand, matcher.is_negated) {
                (Operand::Text(_), false) => "=",
                (Operand::Text(_), true) => "!=",
                (Operand::Pattern(_), false) => "=~",
                (Operand::Pattern(_), true) => "!~",
            };
            let value = match &matcher.operand {
                Operand::Text(text) => text,
                Operand::Pattern(_) => "/",
            };
            format!("{}{operator}{value}", matcher.label)
        };
        selector.matchers.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn reads_selectors() {
        for (text, expected) in [
            ("up", "__name__=up"),
            (" job:up:sum { } ", "__name__=job:up:sum"),
            ("{}", ""),
            (r#"{a="b"}"#, "a=b"),
            (r#"{a = "b" , c != 'd', }"#, "a=b c!=d"),
            (r#"up{e=~"f",g!~`h`}"#, "__name__=up e=~/ g!~/"),
            (r#"{"a.b"}"#, "__name__=a.b"),
            (r#"{"a.b","c.d"="e"}"#, "__name__=a.b c.d=e"),
            (r#"{__name__=~"a.*"}"#, "__name__=~/"),
            (r#"{a="\"\\\n\u00e9}"}"#, "a=\"\\\né}"),
            ("{a=`\\n`}", "a=\\n"),
        ] {
            assert_eq!(written(&Selector::parse(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        for (text, expected) in [
            ("", "expected a name or '{' at byte 0"),
            ("1", "expected a name or '{' at byte 0"),
            ("up[5m]", "expected the end of the selector at byte 2"),
            ("{", "expected the name of a label or '}' at byte 1"),
            ("{,}", "expected the name of a label or '}' at byte 1"),
            ("{a}", "expected '=', '!=', '=~' or '!~' at byte 2"),
            ("{a==\"b\"}", "expected a string in quotes at byte 3"),
            ("{a=b}", "expected a string in quotes at byte 3"),
            ("{a=\"b}", "this string has no end at byte 3"),
            ("{a=\"\\q\"}", "this string has an escape that means nothing at byte 3"),
            ("{a=\"\\ud800\"}", "this string has an escape that means nothing at byte 3"),
            ("{a=\"b\" c=\"d\"}", "expected ',' or '}' at byte 7"),
            ("{a=~\"(\"}", "the pattern \"(\" can't be read: unclosed group at byte 4"),
        ] {
            assert_eq!(Selector::parse(text).unwrap_err().to_string(), expected, "{text}");
        }
    }
}
