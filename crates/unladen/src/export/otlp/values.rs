//! Attributes as OTLP has them: names and values as they were given, and of the type that they had.
//!
//! A stored set has them escaped for the exposition, which for nearly all is what they were. The others,
//! and arrays, are decoded once and kept for as long as they are used.

use hashbrown::HashTable;
use wire::otlp::AttributeValue;
use wire::otlp::attribute::encode_array;

use crate::attributes::{Attributes, ValueType};
use crate::reader::Batch;
use crate::table::OVERFLOW;

/// What OpenTelemetry calls the series for all beyond the limit.
const OVERFLOW_NAME: &str = "otel.metric.overflow";

/// Sets that are not what they were given as.
#[derive(Default)]
pub(super) struct Decoded {
    sets: HashTable<Set>,
    /// How many the last batch had, so that those nobody has any more go.
    used: usize,
}

struct Set {
    set: Attributes,
    pairs: Vec<(String, Value)>,
}

enum Value {
    Text(String, ValueType),
    /// An encoded `ArrayValue`.
    Array(Vec<u8>),
}

/// Fewer than these are not worth forgetting.
const FORGET_AT_LEAST: usize = 1024;

impl Decoded {
    /// Decodes what has to be of a batch. *Steady* for known sets.
    pub(super) fn prepare(&mut self, batch: &Batch<'_>) {
        if self.sets.len() > FORGET_AT_LEAST.max(2 * self.used) {
            self.sets.clear();
        }
        self.used = 0;
        for metric in batch.metrics() {
            metric.attributes().for_each(|set| self.prepare_set(set));
        }
    }

    fn prepare_set(&mut self, set: &Attributes) {
        if is_as_given(set) {
            return;
        }
        self.used += 1;
        if self.find(set).is_some() {
            return;
        }
        let pairs = set.iter().map(|(name, value, value_type)| {
            let value = match value_type {
                ValueType::Array => array(&value).map(Value::Array),
                _ => None,
            }
            .unwrap_or_else(|| Value::Text(value.into_owned(), value_type));
            (name.into_owned(), value)
        });
        let new = Set { set: set.clone(), pairs: pairs.collect() };
        self.sets.insert_unique(set.hash(), new, |set| set.set.hash());
    }

    fn find(&self, set: &Attributes) -> Option<&Set> {
        self.sets.find(set.hash(), |known| known.set.is(set))
    }

    /// Names and values. *Steady.*
    #[inline]
    pub(super) fn pairs<'a>(&'a self, set: &'a Attributes) -> Pairs<'a> {
        let decoded = match self.sets.is_empty() || is_as_given(set) {
            true => None,
            false => self.find(set),
        };
        Pairs { set, decoded, is_overflow: is_overflow(set), next: 0 }
    }
}

fn is_as_given(set: &Attributes) -> bool {
    set.stored().all(|stored| stored.is_some_and(|(_, _, value)| value != ValueType::Array))
}

fn is_overflow(set: &Attributes) -> bool {
    set.len() == 1
        && set.stored().next().flatten().is_some_and(|(name, value, _)| (name, value) == OVERFLOW)
}

/// The names and values of a set.
#[derive(Clone)]
pub(super) struct Pairs<'a> {
    set: &'a Attributes,
    decoded: Option<&'a Set>,
    is_overflow: bool,
    next: usize,
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a str, AttributeValue<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let index = self.next;
        self.next += 1;
        if let Some(decoded) = self.decoded {
            let (name, value) = decoded.pairs.get(index)?;
            let value = match value {
                Value::Text(text, value_type) => typed(text, *value_type),
                Value::Array(array) => AttributeValue::Array(array),
            };
            return Some((name, value));
        }
        let (name, value, value_type) = self.set.stored_at(index)?;
        if self.is_overflow {
            return Some((OVERFLOW_NAME, AttributeValue::Bool(true)));
        }
        Some((name, typed(value, value_type)))
    }
}

/// A text as what it stands for; a text where it doesn't.
fn typed(text: &str, value_type: ValueType) -> AttributeValue<'_> {
    match value_type {
        ValueType::Text | ValueType::Array => None,
        ValueType::Boolean => text.parse().ok().map(AttributeValue::Bool),
        ValueType::Integer => text.parse().ok().map(AttributeValue::I64),
        ValueType::Float => text.parse().ok().map(AttributeValue::F64),
    }
    .unwrap_or(AttributeValue::Str(text))
}

/// A list of texts, numbers and truths in JSON as an encoded `ArrayValue`; none for anything else.
fn array(json: &str) -> Option<Vec<u8>> {
    let mut rest = json.trim().strip_prefix('[')?.strip_suffix(']')?.trim_start();
    let mut texts = Vec::new();
    while !rest.is_empty() {
        let (element, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (text, after) = unquoted(quoted)?;
                (Element::Text(text), after)
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (scalar(rest[..end].trim())?, &rest[end..])
            }
        };
        texts.push(element);
        let after = after.trim_start();
        rest = match after.strip_prefix(',') {
            Some(next) if !next.trim_start().is_empty() => next.trim_start(),
            None if after.is_empty() => after,
            _ => return None,
        };
    }
    let mut encoded = Vec::new();
    let values = texts.iter().map(|element| match element {
        Element::Text(text) => AttributeValue::Str(text),
        &Element::Boolean(value) => AttributeValue::Bool(value),
        &Element::Integer(value) => AttributeValue::I64(value),
        &Element::Float(value) => AttributeValue::F64(value),
    });
    encode_array(values, &mut encoded);
    Some(encoded)
}

#[derive(Debug, PartialEq)]
enum Element {
    Text(String),
    Boolean(bool),
    Integer(i64),
    Float(f64),
}

fn scalar(text: &str) -> Option<Element> {
    let boolean = || text.parse().ok().map(Element::Boolean);
    let integer = || text.parse().ok().map(Element::Integer);
    let float = || text.parse().ok().map(Element::Float);
    boolean().or_else(integer).or_else(float)
}

/// The text up to the closing quote, and what comes behind that.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut characters = quoted.char_indices();
    let hexadecimal = |characters: &mut std::str::CharIndices<'_>| {
        let digits = characters.as_str().get(..4)?;
        let unit = u16::from_str_radix(digits, 16).ok()?;
        characters.nth(3)?;
        Some(unit)
    };
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((text, &quoted[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                'b' => text.push('\u{8}'),
                'f' => text.push('\u{c}'),
                'u' => {
                    let mut units = vec![hexadecimal(&mut characters)?];
                    if (0xd800..0xdc00).contains(&units[0])
                        && characters.as_str().starts_with("\\u")
                    {
                        characters.nth(1)?;
                        units.push(hexadecimal(&mut characters)?);
                    }
                    text.push_str(&String::from_utf16_lossy(&units));
                }
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use wire::otlp::attribute::elements;

    use super::*;

    #[test]
    fn arrays_are_read() {
        use AttributeValue::{Bool, F64, I64, Str};
        for (json, expected) in [
            ("[]", Some(vec![])),
            (
                "[ 1 , -2.5,true , \"a,]\\\"\" ]",
                Some(vec![I64(1), F64(-2.5), Bool(true), Str("a,]\"")]),
            ),
            (r#"["\u00e9\ud83d\ude00\n\\"]"#, Some(vec![Str("é😀\n\\")])),
            ("[1,]", None),
            ("[1", None),
            ("[\"a]", None),
            ("[a]", None),
            ("{}", None),
        ] {
            let encoded = array(json);
            let read = encoded
                .as_ref()
                .map(|encoded| elements(encoded).collect::<Result<Vec<_>, _>>().unwrap());
            assert_eq!(read, expected, "{json}");
        }
    }
}
