//! Attribute values.
//!
//! A value that holds others (an array, a map) is a slice of encoded bytes, made by [`encode_array`] or
//! [`encode_map`] once.

use crate::protobuf::{Message, Sink};

const STRING: u32 = 1;
const BOOL: u32 = 2;
const INT: u32 = 3;
const DOUBLE: u32 = 4;
const ARRAY: u32 = 5;
const MAP: u32 = 6;
const BYTES: u32 = 7;

/// The field of an `ArrayValue` and of a `KeyValueList` that holds their elements.
const ELEMENTS: u32 = 1;

const KEY: u32 = 1;
const VALUE: u32 = 2;

/// An attribute's value: `AnyValue`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttributeValue<'a> {
    /// None: the sender has the attribute without a value, or with one that came after this version.
    Empty,
    /// Text.
    Str(&'a str),
    /// True or false.
    Bool(bool),
    /// A whole number.
    I64(i64),
    /// Any number.
    F64(f64),
    /// Bytes.
    Bytes(&'a [u8]),
    /// An encoded `ArrayValue`: see [`encode_array`].
    Array(&'a [u8]),
    /// An encoded `KeyValueList`: see [`encode_map`].
    Map(&'a [u8]),
}

impl<'a> From<&'a str> for AttributeValue<'a> {
    fn from(value: &'a str) -> Self {
        AttributeValue::Str(value)
    }
}

impl From<bool> for AttributeValue<'_> {
    fn from(value: bool) -> Self {
        AttributeValue::Bool(value)
    }
}

impl From<i64> for AttributeValue<'_> {
    fn from(value: i64) -> Self {
        AttributeValue::I64(value)
    }
}

impl From<f64> for AttributeValue<'_> {
    fn from(value: f64) -> Self {
        AttributeValue::F64(value)
    }
}

impl Message for AttributeValue<'_> {
    #[inline]
    fn write<S: Sink>(&self, sink: &mut S) {
        match *self {
            AttributeValue::Empty => (),
            AttributeValue::Str(value) => sink.string(STRING, value),
            AttributeValue::Bool(value) => sink.bool(BOOL, value),
            AttributeValue::I64(value) => sink.int64(INT, value),
            AttributeValue::F64(value) => sink.double(DOUBLE, value),
            AttributeValue::Array(value) => sink.bytes(ARRAY, value),
            AttributeValue::Map(value) => sink.bytes(MAP, value),
            AttributeValue::Bytes(value) => sink.bytes(BYTES, value),
        }
    }
}

struct KeyValue<'a>(&'a str, AttributeValue<'a>);

impl Message for KeyValue<'_> {
    #[inline]
    fn write<S: Sink>(&self, sink: &mut S) {
        if !self.0.is_empty() {
            sink.string(KEY, self.0);
        }
        sink.message(VALUE, &self.1);
    }
}

#[inline]
pub(super) fn write_attributes<'a, A>(sink: &mut impl Sink, field: u32, attributes: &A)
where
    A: IntoIterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
{
    for (key, value) in attributes.clone() {
        sink.message(field, &KeyValue(key, value));
    }
}

/// Writes the bytes that [`AttributeValue::Array`] holds. *Growth* of a `Vec` as the sink.
pub fn encode_array<'a>(
    values: impl IntoIterator<Item = AttributeValue<'a>>,
    sink: &mut impl Sink,
) {
    for value in values {
        sink.message(ELEMENTS, &value);
    }
}

/// Writes the bytes that [`AttributeValue::Map`] holds. *Growth* of a `Vec` as the sink.
pub fn encode_map<'a>(
    entries: impl IntoIterator<Item = (&'a str, AttributeValue<'a>)>,
    sink: &mut impl Sink,
) {
    for (key, value) in entries {
        sink.message(ELEMENTS, &KeyValue(key, value));
    }
}
