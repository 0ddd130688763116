//! Sizes of fields, and sinks that take fields.
//!
//! A function that writes a message over any [`Sink`] is at the same time the one that sizes it: run over
//! a [`Length`], nothing is copied and each field costs an addition.

/// The most bytes that a 64-bit integer takes.
pub const MAX_VARINT: usize = 10;

/// How a field's value is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireType {
    /// An integer in base 128.
    Varint = 0,
    /// Eight bytes, little-endian.
    Fixed64 = 1,
    /// A length and that many bytes: strings, nested messages, packed lists.
    Bytes = 2,
    /// Four bytes, little-endian.
    Fixed32 = 5,
}

/// The bytes of `value` as a varint, 1 to 10.
#[inline]
pub const fn varint_len(value: u64) -> usize {
    // Nearly all are of one byte.
    if value < 0x80 {
        return 1;
    }
    let bits = 64 - value.leading_zeros() as usize;
    bits.div_ceil(7)
}

/// The bytes of a field's tag.
#[inline]
pub const fn tag_len(field: u32) -> usize {
    varint_len((field as u64) << 3)
}

/// The bytes of a `uint64`, `uint32` field, its tag included.
#[inline]
pub const fn uint64_len(field: u32, value: u64) -> usize {
    tag_len(field) + varint_len(value)
}

/// The bytes of an `int64`, `int32` or enum field: ten and the tag for any negative value.
#[inline]
pub const fn int64_len(field: u32, value: i64) -> usize {
    uint64_len(field, value as u64)
}

/// The bytes of a `sint64` or `sint32` field.
#[inline]
pub const fn sint64_len(field: u32, value: i64) -> usize {
    uint64_len(field, zigzag(value))
}

/// The bytes of a `bool` field.
#[inline]
pub const fn bool_len(field: u32) -> usize {
    tag_len(field) + 1
}

/// The bytes of a `fixed64`, `sfixed64` or `double` field.
#[inline]
pub const fn fixed64_len(field: u32) -> usize {
    tag_len(field) + 8
}

/// The bytes of a field that holds `length` bytes: string, bytes, nested message or packed list.
#[inline]
pub const fn bytes_len(field: u32, length: usize) -> usize {
    tag_len(field) + varint_len(length as u64) + length
}

/// `value` with its sign in the lowest bit, as `sint64` and `sint32` have it.
#[inline]
pub const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// Puts a varint at the front of `room` and says how long it is.
#[inline]
pub(super) fn encode_varint(mut value: u64, room: &mut [u8; MAX_VARINT]) -> usize {
    for (index, byte) in room.iter_mut().enumerate() {
        *byte = value as u8 | 0x80;
        value >>= 7;
        if value == 0 {
            *byte &= 0x7f;
            return index + 1;
        }
    }
    MAX_VARINT
}

/// Takes fields one after the other.
///
/// Every method writes what it is given, zeros and empty strings too: whether a field with the default
/// value is left out (proto3's implicit presence) or written (`optional`, a `oneof`'s member, an element
/// of a list) is known to whoever knows the schema. *Steady*, but for the *growth* of a `Vec`.
pub trait Sink {
    /// Takes `bytes` as they are.
    fn put(&mut self, bytes: &[u8]);

    /// Takes an integer in base 128, without a tag.
    #[inline]
    fn varint(&mut self, value: u64) {
        if value < 0x80 {
            return self.put(&[value as u8]);
        }
        let mut room = [0; MAX_VARINT];
        let length = encode_varint(value, &mut room);
        self.put(&room[..length]);
    }

    /// Takes a field's tag. `field` is from 1 to 2^29 - 1.
    #[inline]
    fn tag(&mut self, field: u32, wire_type: WireType) {
        self.varint(u64::from(field) << 3 | wire_type as u64);
    }

    /// Takes a `uint64` or `uint32` field.
    #[inline]
    fn uint64(&mut self, field: u32, value: u64) {
        self.tag(field, WireType::Varint);
        self.varint(value);
    }

    /// Takes an `int64`, `int32` or enum field: 32 bits are extended by their sign.
    #[inline]
    fn int64(&mut self, field: u32, value: i64) {
        self.uint64(field, value as u64);
    }

    /// Takes a `sint64` or `sint32` field.
    #[inline]
    fn sint64(&mut self, field: u32, value: i64) {
        self.uint64(field, zigzag(value));
    }

    /// Takes a `bool` field.
    #[inline]
    fn bool(&mut self, field: u32, value: bool) {
        self.uint64(field, u64::from(value));
    }

    /// Takes a `fixed64` field.
    #[inline]
    fn fixed64(&mut self, field: u32, value: u64) {
        self.tag(field, WireType::Fixed64);
        self.put(&value.to_le_bytes());
    }

    /// Takes a `sfixed64` field.
    #[inline]
    fn sfixed64(&mut self, field: u32, value: i64) {
        self.fixed64(field, value as u64);
    }

    /// Takes a `double` field, bit for bit.
    #[inline]
    fn double(&mut self, field: u32, value: f64) {
        self.fixed64(field, value.to_bits());
    }

    /// Takes a `fixed32` field.
    #[inline]
    fn fixed32(&mut self, field: u32, value: u32) {
        self.tag(field, WireType::Fixed32);
        self.put(&value.to_le_bytes());
    }

    /// Takes a `bytes` field, or a nested message that is already encoded.
    #[inline]
    fn bytes(&mut self, field: u32, value: &[u8]) {
        self.nested(field, value.len());
        self.put(value);
    }

    /// Takes a `string` field.
    #[inline]
    fn string(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    /// Begins a nested message or a packed list: exactly `length` bytes have to follow.
    #[inline]
    fn nested(&mut self, field: u32, length: usize) {
        self.tag(field, WireType::Bytes);
        self.varint(length as u64);
    }

    /// Takes a nested message.
    #[inline]
    fn message(&mut self, field: u32, message: &impl Message)
    where
        Self: Sized,
    {
        self.nested(field, message.encoded_len());
        message.write(self);
    }
}

/// What can be written as a message: the same every time.
pub trait Message {
    /// Writes the fields.
    fn write<S: Sink>(&self, sink: &mut S);

    /// The bytes that [`write`](Message::write) writes.
    #[inline]
    fn encoded_len(&self) -> usize {
        Length::of(|length| self.write(length))
    }
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl<T: Sink + ?Sized> Sink for &mut T {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        (**self).put(bytes);
    }

    #[inline]
    fn varint(&mut self, value: u64) {
        (**self).varint(value);
    }

    #[inline]
    fn fixed64(&mut self, field: u32, value: u64) {
        (**self).fixed64(field, value);
    }
}

/// Counts what it is given and keeps nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Length {
    /// The bytes so far.
    pub bytes: usize,
}

impl Length {
    /// The bytes that `write` writes.
    #[inline]
    pub fn of(write: impl FnOnce(&mut Length)) -> usize {
        let mut length = Length::default();
        write(&mut length);
        length.bytes
    }
}

impl Sink for Length {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
    }

    #[inline]
    fn varint(&mut self, value: u64) {
        self.bytes += varint_len(value);
    }

    /// Goes through the message once, where other sinks have to know its length first.
    #[inline]
    fn message(&mut self, field: u32, message: &impl Message) {
        self.bytes += bytes_len(field, message.encoded_len());
    }
}
