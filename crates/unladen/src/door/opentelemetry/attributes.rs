//! OpenTelemetry's attributes as ours: text, read where it stands, and other values written out beside.
//!
//! 1. Where all values are text, the key-value pairs are read as they are.
//! 2. Otherwise, a few whole numbers and booleans among them are written on the stack.
//! 3. Otherwise the values that are no text are written, one after the other, into memory that the
//!    thread keeps, and are read there.
//!
//! None of these allocates in the steady state, however many attributes there are.

use std::cell::RefCell;
use std::fmt::Write;
use std::slice::Iter;

use ::opentelemetry::{Array, KeyValue, Value};
use wire::number;

use crate::attributes::{Attribute, Given, ValueType};

/// What is done with attributes once they can be read.
pub(super) trait Use {
    /// What comes of it.
    type Output;
    /// Does it.
    fn run<'a>(self, given: impl Given<'a>) -> Self::Output;
}

/// Has `what` done with `attributes`.
#[inline]
pub(super) fn read<U: Use>(attributes: &[KeyValue], what: U) -> U::Output {
    // As many as most callers give are found once, and hashed and compared without a loop.
    macro_rules! few {
        ($($count:literal)*) => {
            match attributes.len() {
                $($count => {
                    if let Some(texts) = texts::<$count>(attributes) {
                        return what.run(texts.iter().map(|&pair| pair.into()));
                    }
                })*
                _ if attributes.iter().all(|pair| text(pair).is_some()) => {
                    let texts = attributes.iter().map(|pair| text(pair).unwrap_or_default());
                    return what.run(texts.map(Attribute::from));
                }
                _ => {}
            }
        };
    }
    few!(1 2 3 4);
    read_mixed(attributes, what)
}

/// Name and value where the value is text.
#[inline]
fn text(pair: &KeyValue) -> Option<(&str, &str)> {
    match &pair.value {
        Value::String(text) => Some((pair.key.as_str(), text.as_str())),
        _ => None,
    }
}

#[inline]
fn texts<const N: usize>(attributes: &[KeyValue]) -> Option<[(&str, &str); N]> {
    let mut texts = [("", ""); N];
    for (place, pair) in texts.iter_mut().zip(attributes) {
        *place = text(pair)?;
    }
    Some(texts)
}

/// So many attributes may be read from the stack.
const FEW: usize = 8;

#[inline(never)]
fn read_mixed<U: Use>(attributes: &[KeyValue], what: U) -> U::Output {
    if attributes.len() > FEW {
        return read_written(attributes, what);
    }
    let mut digits: [itoa::Buffer; FEW] = std::array::from_fn(|_| itoa::Buffer::new());
    // Only the texts are kept: a whole attribute, stored in parts and read as a whole, would wait for its
    // own stores.
    let mut texts = [""; FEW];
    for ((text, pair), digits) in texts.iter_mut().zip(attributes).zip(&mut digits) {
        *text = match &pair.value {
            Value::String(text) => text.as_str(),
            Value::I64(value) => digits.format(*value),
            Value::Bool(value) => boolean(*value),
            _ => return read_written(attributes, what),
        };
    }
    what.run(attributes.iter().zip(&texts).map(|(pair, text)| Attribute {
        name: pair.key.as_str(),
        value: text,
        value_type: type_of(&pair.value),
    }))
}

/// Values written out, one behind the other.
#[derive(Default)]
struct Written {
    text: String,
    ends: Vec<u32>,
}

thread_local! {
    static WRITTEN: RefCell<Written> = const {
        RefCell::new(Written { text: String::new(), ends: Vec::new() })
    };
}

#[inline(never)]
fn read_written<U: Use>(attributes: &[KeyValue], what: U) -> U::Output {
    let mut what = Some(what);
    let mut run =
        |written: &mut Written| what.take().map(|what| what.run(written.write(attributes)));
    let done = WRITTEN.try_with(|written| Some(run(&mut *written.try_borrow_mut().ok()?)));
    // The thread is ending, or its allocator measures through this door as well.
    let done = done.ok().flatten().unwrap_or_else(|| run(&mut Written::default()));
    done.expect("it is run once, here or there")
}

impl Written {
    fn write<'a>(&'a mut self, attributes: &'a [KeyValue]) -> Mixed<'a> {
        self.text.clear();
        self.ends.clear();
        for pair in attributes {
            if !matches!(pair.value, Value::String(_)) {
                write_value(&pair.value, &mut self.text);
                self.ends.push(self.text.len() as u32);
            }
        }
        Mixed { pairs: attributes.iter(), text: &self.text, ends: self.ends.iter(), at: 0 }
    }
}

/// Attributes of which some are written out.
#[derive(Clone)]
struct Mixed<'a> {
    pairs: Iter<'a, KeyValue>,
    text: &'a str,
    ends: Iter<'a, u32>,
    at: usize,
}

impl<'a> Iterator for Mixed<'a> {
    type Item = Attribute<'a>;

    #[inline]
    fn next(&mut self) -> Option<Attribute<'a>> {
        let pair = self.pairs.next()?;
        let value = match &pair.value {
            Value::String(text) => text.as_str(),
            _ => {
                let end = *self.ends.next()? as usize;
                let value = self.text.get(self.at..end).unwrap_or_default();
                self.at = end;
                value
            }
        };
        Some(Attribute { name: pair.key.as_str(), value, value_type: type_of(&pair.value) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.pairs.size_hint()
    }
}

impl ExactSizeIterator for Mixed<'_> {}

fn type_of(value: &Value) -> ValueType {
    match value {
        Value::Bool(_) => ValueType::Boolean,
        Value::I64(_) => ValueType::Integer,
        Value::F64(_) => ValueType::Float,
        Value::Array(_) => ValueType::Array,
        _ => ValueType::Text,
    }
}

/// Appends a value as text: numbers as JSON has them, arrays as JSON.
pub(super) fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Bool(value) => out.push_str(boolean(*value)),
        Value::I64(value) => out.push_str(itoa::Buffer::new().format(*value)),
        Value::F64(value) => write_float(*value, out),
        Value::String(text) => out.push_str(text.as_str()),
        Value::Array(Array::Bool(values)) => {
            write_array(values, out, |v, out| out.push_str(boolean(*v)));
        }
        Value::Array(Array::I64(values)) => {
            write_array(values, out, |v, out| out.push_str(itoa::Buffer::new().format(*v)));
        }
        Value::Array(Array::F64(values)) => write_array(values, out, |value, out| {
            if value.is_finite() {
                write_float(*value, out);
            } else {
                // JSON has no such numbers.
                out.push('"');
                write_float(*value, out);
                out.push('"');
            }
        }),
        Value::Array(Array::String(values)) => {
            write_array(values, out, |text, out| write_quoted(text.as_str(), out));
        }
        // Kinds of values that the API may yet get.
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

fn boolean(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

fn write_float(value: f64, out: &mut String) {
    match value {
        _ if value.is_nan() => out.push_str("NaN"),
        f64::INFINITY => out.push_str("Infinity"),
        f64::NEG_INFINITY => out.push_str("-Infinity"),
        _ => out.push_str(number::Buffer::new().json(value)),
    }
}

fn write_array<T>(values: &[T], out: &mut String, write: impl Fn(&T, &mut String)) {
    out.push('[');
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(value, out);
    }
    out.push(']');
}

fn write_quoted(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}
