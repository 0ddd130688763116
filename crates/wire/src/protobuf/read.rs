//! The fields of a message, lent from its bytes.

use std::fmt;

use super::write::MAX_VARINT;

/// The highest field number: a tag has 32 bits, three of which are the wire type.
const MAX_FIELD: u64 = (1 << 29) - 1;

/// What is wrong with a message, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// Bytes from the begin of the outermost message to what is wrong.
    pub offset: usize,
    /// What is wrong.
    pub reason: Reason,
}

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The message ends within a field.
    Truncated,
    /// An integer of more than 64 bits.
    OverlongVarint,
    /// A field number of 0 or above 2^29 - 1.
    FieldNumber,
    /// A group, which proto3 does not have.
    Group,
    /// A wire type that does not exist: 6 or 7.
    UnknownWireType,
    /// A known field laid out in another way than its type is.
    WireType,
    /// A string that is not UTF-8.
    NotUtf8,
    /// A packed list of fixed-size values whose length is not a multiple of their size.
    PackedLength,
    /// A value that its field may not have: a trace id that is not of 16 bytes, a bool of 2.
    Value,
    /// A field that has to be there is not.
    Missing,
    /// Nested deeper than the reader of this message goes.
    TooDeep,
}

impl Reason {
    /// The reason in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Truncated => "the message ends within a field",
            Reason::OverlongVarint => "an integer of more than 64 bits",
            Reason::FieldNumber => "a field number that is not from 1 to 536870911",
            Reason::Group => "a group, which proto3 does not have",
            Reason::UnknownWireType => "a wire type that does not exist",
            Reason::WireType => "a known field with the wire type of another",
            Reason::NotUtf8 => "a string that is not UTF-8",
            Reason::PackedLength => "a packed list that ends within a value",
            Reason::Value => "a value that its field may not have",
            Reason::Missing => "a field that has to be there is missing",
            Reason::TooDeep => "nested too deeply",
        }
    }
}

impl Error {
    #[cold]
    pub(crate) fn new(offset: usize, reason: Reason) -> Self {
        Error { offset, reason }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "protobuf: byte {}: {}", self.offset, self.reason.as_str())
    }
}

impl std::error::Error for Error {}

/// Takes an integer in base 128 off the front of `input`.
///
/// # Errors
/// [`Reason::Truncated`] and [`Reason::OverlongVarint`]; `input` is then as it was.
#[inline]
pub fn take_varint(input: &mut &[u8]) -> Result<u64, Reason> {
    if let [byte @ 0..0x80, rest @ ..] = *input {
        *input = rest;
        return Ok(u64::from(*byte));
    }
    take_long_varint(input)
}

/// What is longer than a byte.
#[inline(never)]
fn take_long_varint(input: &mut &[u8]) -> Result<u64, Reason> {
    let mut value = 0u64;
    for (index, &byte) in input.iter().take(MAX_VARINT).enumerate() {
        // The tenth byte has room for one bit.
        if index == MAX_VARINT - 1 && byte > 1 {
            return Err(Reason::OverlongVarint);
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *input = &input[index + 1..];
            return Ok(value);
        }
    }
    Err(Reason::Truncated)
}

/// The fields of one message in the order in which they stand, unknown ones too: who reads ignores the
/// numbers that it does not know. After an error there is nothing more. *Steady.*
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// Where the message ends, from the begin of the outermost one.
    end: usize,
}

/// One field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field<'a> {
    /// Its number, from 1.
    pub number: u32,
    /// Its value.
    pub value: Value<'a>,
    /// Where its value begins (after tag and length), from the begin of the outermost message.
    pub offset: usize,
}

/// A field's value as it is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An integer in base 128.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// A string, a nested message, a packed list.
    Bytes(&'a [u8]),
    /// Four bytes.
    Fixed32(u32),
}

impl<'a> Reader<'a> {
    /// Reads `message`.
    pub fn new(message: &'a [u8]) -> Self {
        Reader { rest: message, end: message.len() }
    }

    /// Reads `message`, which begins `offset` bytes into the outermost one.
    pub fn nested(message: &'a [u8], offset: usize) -> Self {
        Reader { rest: message, end: offset + message.len() }
    }

    /// Where the next field begins, from the begin of the outermost message.
    pub fn offset(&self) -> usize {
        self.end - self.rest.len()
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Error> {
        let offset = self.offset();
        take_varint(&mut self.rest).map_err(|reason| Error::new(offset, reason))
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let offset = self.offset();
        let (bytes, rest) =
            self.rest.split_first_chunk().ok_or_else(|| Error::new(offset, Reason::Truncated))?;
        self.rest = rest;
        Ok(*bytes)
    }

    #[inline]
    fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let offset = self.offset();
        let length = self.varint()?;
        let split = usize::try_from(length).ok().and_then(|at| self.rest.split_at_checked(at));
        let (bytes, rest) = split.ok_or_else(|| Error::new(offset, Reason::Truncated))?;
        self.rest = rest;
        Ok(bytes)
    }

    // Always: a field handed over in memory costs more than reading it. A request was read in 220 ns a point
    // with it and in 560 without (November 2026).
    #[inline(always)]
    fn field(&mut self) -> Result<Field<'a>, Error> {
        let begin = self.offset();
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || number > MAX_FIELD {
            return Err(Error::new(begin, Reason::FieldNumber));
        }
        let mut offset = self.offset();
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.fixed()?)),
            2 => {
                let bytes = self.bytes()?;
                offset = self.offset() - bytes.len();
                Value::Bytes(bytes)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.fixed()?)),
            3 | 4 => return Err(Error::new(begin, Reason::Group)),
            _ => return Err(Error::new(begin, Reason::UnknownWireType)),
        };
        Ok(Field { number: number as u32, value, offset })
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Field<'a>, Error>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

impl std::iter::FusedIterator for Reader<'_> {}

/// The value as the schema has it. Each refuses another wire type ([`Reason::WireType`]).
impl<'a> Field<'a> {
    /// An error about this field's value.
    #[cold]
    pub fn error(&self, reason: Reason) -> Error {
        Error::new(self.offset, reason)
    }

    /// A `uint64` field.
    ///
    /// # Errors
    /// Another wire type.
    #[inline]
    pub fn uint64(&self) -> Result<u64, Error> {
        match self.value {
            Value::Varint(value) => Ok(value),
            _ => Err(self.error(Reason::WireType)),
        }
    }

    /// A `uint32` field: the lower 32 bits, as protobuf has it.
    ///
    /// # Errors
    /// Another wire type.
    #[inline]
    pub fn uint32(&self) -> Result<u32, Error> {
        self.uint64().map(|value| value as u32)
    }

    /// An `int64` field.
    ///
    /// # Errors
    /// Another wire type.
    #[inline]
    pub fn int64(&self) -> Result<i64, Error> {
        self.uint64().map(|value| value as i64)
    }

    /// An `int32` or enum field: the lower 32 bits, as protobuf has it.
    ///
    /// # Errors
    /// Another wire type.
    #[inline]
    pub fn int32(&self) -> Result<i32, Error> {
        self.uint64().map(|value| value as i32)
    }

    /// A `sint64` field.
    ///
    /// # Errors
    /// Another wire type.
    #[inline]
    pub fn sint64(&self) -> Result<i64, Error> {
        self.uint64().map(unzigzag)
    }

    /// A `sint32` field: the lower 32 bits, as protobuf has it.
    ///
    /// # Errors
    /// Another wire type.
    #[inline]
    pub fn sint32(&self) -> Result<i32, Error> {
        self.uint64().map(|value| unzigzag(value & 0xffff_ffff) as i32)
    }

    /// A `bool` field: anything but zero is true, as protobuf has it.
    ///
    /// # Errors
    /// Another wire type.
    #[inline]
    pub fn bool(&self) -> Result<bool, Error> {
        self.uint64().map(|value| value != 0)
    }

    /// A `fixed64` field.
    ///
    /// # Errors
    /// Another wire type.
    #[inline]
    pub fn fixed64(&self) -> Result<u64, Error> {
        match self.value {
            Value::Fixed64(value) => Ok(value),
            _ => Err(self.error(Reason::WireType)),
        }
    }

    /// A `sfixed64` field.
    ///
    /// # Errors
    /// Another wire type.
    #[inline]
    pub fn sfixed64(&self) -> Result<i64, Error> {
        self.fixed64().map(|value| value as i64)
    }

    /// A `double` field, bit for bit.
    ///
    /// # Errors
    /// Another wire type.
    #[inline]
    pub fn double(&self) -> Result<f64, Error> {
        self.fixed64().map(f64::from_bits)
    }

    /// A `fixed32` field.
    ///
    /// # Errors
    /// Another wire type.
    #[inline]
    pub fn fixed32(&self) -> Result<u32, Error> {
        match self.value {
            Value::Fixed32(value) => Ok(value),
            _ => Err(self.error(Reason::WireType)),
        }
    }

    /// A `bytes` field.
    ///
    /// # Errors
    /// Another wire type.
    #[inline]
    pub fn bytes(&self) -> Result<&'a [u8], Error> {
        match self.value {
            Value::Bytes(value) => Ok(value),
            _ => Err(self.error(Reason::WireType)),
        }
    }

    /// A `string` field.
    ///
    /// # Errors
    /// Another wire type; not UTF-8 ([`Reason::NotUtf8`]).
    #[inline]
    pub fn string(&self) -> Result<&'a str, Error> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes)
            .map_err(|error| Error::new(self.offset + error.valid_up_to(), Reason::NotUtf8))
    }

    /// The fields of a nested message; its errors count from the outermost one.
    ///
    /// # Errors
    /// Another wire type.
    #[inline]
    pub fn message(&self) -> Result<Reader<'a>, Error> {
        self.bytes().map(|bytes| Reader::nested(bytes, self.offset))
    }

    /// The values of a list of varints, packed or this one alone: a list may come in several fields.
    ///
    /// # Errors
    /// Another wire type than `Bytes` and `Varint`.
    #[inline]
    pub fn varints(&self) -> Result<Packed<'a>, Error> {
        match self.value {
            Value::Bytes(rest) => Ok(Packed::many(rest, self.offset, Layout::Varint)),
            Value::Varint(value) => Ok(Packed::one(value, self.offset)),
            _ => Err(self.error(Reason::WireType)),
        }
    }

    /// The values of a list of `fixed64`, `sfixed64` or `double`, packed or this one alone.
    ///
    /// # Errors
    /// Another wire type than `Bytes` and `Fixed64`; a packed list that ends within a value
    /// ([`Reason::PackedLength`]).
    #[inline]
    pub fn fixed64s(&self) -> Result<Packed<'a>, Error> {
        match self.value {
            Value::Bytes(rest) if rest.len().is_multiple_of(8) => {
                Ok(Packed::many(rest, self.offset, Layout::Fixed64))
            }
            Value::Bytes(_) => Err(self.error(Reason::PackedLength)),
            Value::Fixed64(value) => Ok(Packed::one(value, self.offset)),
            _ => Err(self.error(Reason::WireType)),
        }
    }
}

/// The integer whose sign is in the lowest bit.
#[inline]
pub(crate) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[derive(Clone, Copy, Debug)]
enum Layout {
    Varint,
    Fixed64,
}

/// The values of one field of a list of numbers; after an error there is nothing more. *Steady.*
#[derive(Clone, Debug)]
pub struct Packed<'a> {
    one: Option<u64>,
    rest: &'a [u8],
    end: usize,
    layout: Layout,
}

impl<'a> Packed<'a> {
    fn many(rest: &'a [u8], offset: usize, layout: Layout) -> Self {
        Packed { one: None, rest, end: offset + rest.len(), layout }
    }

    fn one(value: u64, offset: usize) -> Self {
        Packed { one: Some(value), rest: &[], end: offset, layout: Layout::Varint }
    }
}

impl Iterator for Packed<'_> {
    type Item = Result<u64, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(value) = self.one.take() {
            return Some(Ok(value));
        }
        if self.rest.is_empty() {
            return None;
        }
        let offset = self.end - self.rest.len();
        let value = match self.layout {
            Layout::Varint => take_varint(&mut self.rest),
            Layout::Fixed64 => match self.rest.split_first_chunk() {
                Some((bytes, rest)) => {
                    self.rest = rest;
                    Ok(u64::from_le_bytes(*bytes))
                }
                None => Err(Reason::PackedLength),
            },
        };
        if value.is_err() {
            self.rest = &[];
        }
        Some(value.map_err(|reason| Error::new(offset, reason)))
    }
}

impl std::iter::FusedIterator for Packed<'_> {}
