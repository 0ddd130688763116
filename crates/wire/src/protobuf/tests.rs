//! Fields written are the fields read, sizes are what is written, and damage is refused with its place.

use super::*;

const INTEGERS: [u64; 12] = [
    0,
    1,
    127,
    128,
    300,
    16_383,
    16_384,
    u32::MAX as u64,
    1 << 56,
    u64::MAX >> 1,
    1 << 63,
    u64::MAX,
];
const FIELDS: [u32; 6] = [1, 15, 16, 2047, 2048, (1 << 29) - 1];

fn only(bytes: &[u8]) -> Field<'_> {
    let mut reader = Reader::new(bytes);
    let field = reader.next().unwrap().unwrap();
    assert!(reader.next().is_none());
    assert_eq!(field.offset, bytes.len() - value_len(&field));
    field
}

fn value_len(field: &Field<'_>) -> usize {
    match field.value {
        Value::Varint(value) => varint_len(value),
        Value::Fixed64(_) => 8,
        Value::Bytes(bytes) => bytes.len(),
        Value::Fixed32(_) => 4,
    }
}

/// Writes to every sink, says that they agree with `size`, and lends the bytes.
fn written(size: usize, write: impl Fn(&mut dyn Sink)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes);
    assert_eq!(bytes.len(), size);
    let mut length = Length::default();
    write(&mut length);
    assert_eq!(length.bytes, size);
    let folded = fold(&mut Buffer::new(), Vec::new(), |so_far, chunk| [&so_far, chunk].concat(), {
        |chunks| write(chunks)
    });
    assert_eq!(folded, bytes);
    bytes
}

#[test]
fn numbers_come_back_and_sizes_are_exact() {
    for number in FIELDS {
        for value in INTEGERS {
            let signed = value as i64;
            let bytes = written(uint64_len(number, value), |sink| sink.uint64(number, value));
            assert_eq!((only(&bytes).number, only(&bytes).uint64()), (number, Ok(value)));
            let bytes = written(int64_len(number, signed), |sink| sink.int64(number, signed));
            assert_eq!(only(&bytes).int64(), Ok(signed));
            let bytes = written(sint64_len(number, signed), |sink| sink.sint64(number, signed));
            assert_eq!(only(&bytes).sint64(), Ok(signed));
            let bytes = written(fixed64_len(number), |sink| sink.fixed64(number, value));
            assert_eq!(only(&bytes).fixed64(), Ok(value));
            let bytes = written(fixed64_len(number), |sink| sink.sfixed64(number, signed));
            assert_eq!(only(&bytes).sfixed64(), Ok(signed));
            let double = f64::from_bits(value);
            let bytes = written(fixed64_len(number), |sink| sink.double(number, double));
            assert_eq!(only(&bytes).double().map(f64::to_bits), Ok(value));
            let narrow = value as i32;
            let bytes = written(int64_len(number, narrow.into()), |sink| {
                sink.int64(number, narrow.into());
            });
            assert_eq!(only(&bytes).int32(), Ok(narrow));
            let bytes = written(sint64_len(number, narrow.into()), |sink| {
                sink.sint64(number, narrow.into());
            });
            assert_eq!(only(&bytes).sint32(), Ok(narrow));
            let bytes = written(tag_len(number) + 4, |sink| sink.fixed32(number, value as u32));
            assert_eq!(only(&bytes).fixed32(), Ok(value as u32));
        }
        for value in [false, true] {
            let bytes = written(bool_len(number), |sink| sink.bool(number, value));
            assert_eq!(only(&bytes).bool(), Ok(value));
        }
        for text in ["", "a", "é", &"long ".repeat(40_000)] {
            let bytes = written(bytes_len(number, text.len()), |sink| sink.string(number, text));
            assert_eq!(only(&bytes).string(), Ok(text));
        }
    }
}

#[test]
fn a_negative_int32_takes_ten_bytes() {
    assert_eq!(int64_len(1, -1), 11);
    assert_eq!(sint64_len(1, -1), 2);
    assert_eq!(varint_len(i64::MIN as u64), MAX_VARINT);
}

#[test]
fn chunks_are_full_in_order_and_never_empty() {
    let mut buffer = Buffer::new();
    let write = |sink: &mut dyn Sink| {
        for index in 0..50_000u64 {
            sink.uint64(3, index * index);
            sink.double(17, index as f64);
            sink.string(1, "some text");
        }
        sink.bytes(2, &[7; 3 * CHUNK]);
    };
    let mut expected = Vec::new();
    write(&mut expected);
    let (bytes, sizes) = fold(
        &mut buffer,
        (Vec::new(), Vec::new()),
        |(mut bytes, mut sizes): (Vec<u8>, Vec<usize>), chunk| {
            bytes.extend_from_slice(chunk);
            sizes.push(chunk.len());
            (bytes, sizes)
        },
        |chunks| write(chunks),
    );
    assert!(bytes == expected);
    let (last, full) = sizes.split_last().unwrap();
    assert!(full.iter().all(|size| *size == CHUNK) && (1..=CHUNK).contains(last));
    assert_eq!(fold(&mut buffer, 0, |count, _| count + 1, |_| ()), 0);
}

#[test]
fn lists_are_read_packed_and_one_by_one() {
    let mut packed = Vec::new();
    packed.nested(4, INTEGERS.iter().map(|value| varint_len(*value)).sum());
    INTEGERS.iter().for_each(|value| packed.varint(*value));
    let mut single = Vec::new();
    INTEGERS.iter().for_each(|value| single.uint64(4, *value));
    for bytes in [packed, single] {
        let read: Vec<u64> = Reader::new(&bytes)
            .flat_map(|field| field.unwrap().varints().unwrap())
            .map(Result::unwrap)
            .collect();
        assert_eq!(read, INTEGERS);
    }
    let mut packed = Vec::new();
    packed.nested(4, 8 * INTEGERS.len());
    INTEGERS.iter().for_each(|value| packed.put(&value.to_le_bytes()));
    let mut single = Vec::new();
    INTEGERS.iter().for_each(|value| single.fixed64(4, *value));
    for bytes in [packed, single] {
        let read: Vec<u64> = Reader::new(&bytes)
            .flat_map(|field| field.unwrap().fixed64s().unwrap())
            .map(Result::unwrap)
            .collect();
        assert_eq!(read, INTEGERS);
    }
}

#[test]
fn damage_is_refused_with_its_place() {
    let cases: [(&[u8], usize, Reason); 14] = [
        (&[0x08], 1, Reason::Truncated),
        (&[0x08, 0x80], 1, Reason::Truncated),
        (&[0x80], 0, Reason::Truncated),
        (&[0x08, 1, 0x09, 0, 0], 3, Reason::Truncated),
        (&[0x0d, 0, 0], 1, Reason::Truncated),
        (&[0x0a, 3, b'a', b'b'], 1, Reason::Truncated),
        (&[0x0a, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1], 1, Reason::Truncated),
        (&[0x08, 128, 128, 128, 128, 128, 128, 128, 128, 128, 2], 1, Reason::OverlongVarint),
        (&[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 129, 0], 1, Reason::OverlongVarint),
        (&[0x00, 1], 0, Reason::FieldNumber),
        (&[0x08, 1, 0x80, 0x80, 0x80, 0x80, 0x10, 1], 2, Reason::FieldNumber),
        (&[0x0b, 0x0c], 0, Reason::Group),
        (&[0x0c], 0, Reason::Group),
        (&[0x0e], 0, Reason::UnknownWireType),
    ];
    for (bytes, offset, reason) in cases {
        let mut reader = Reader::new(bytes);
        let error = reader.find_map(Result::err);
        assert_eq!(error, Some(Error { offset, reason }), "{bytes:?}");
        assert!(reader.next().is_none());
    }
}

#[test]
fn nested_errors_count_from_the_outermost_message() {
    // 1: "ab" { 2: { 3: { varint that ends early } } }
    let bytes = [0x0a, 2, b'a', b'b', 0x12, 4, 0x1a, 2, 0x08, 0x80];
    let outer = Reader::new(&bytes).nth(1).unwrap().unwrap();
    let middle = outer.message().unwrap().next().unwrap().unwrap();
    let inner = middle.message().unwrap().next().unwrap();
    assert_eq!(inner, Err(Error { offset: 9, reason: Reason::Truncated }));
    assert_eq!(middle.uint64(), Err(Error { offset: 8, reason: Reason::WireType }));
    let text = Reader::new(&[0x0a, 3, b'a', 0xff, b'b']).next().unwrap().unwrap();
    assert_eq!(text.string(), Err(Error { offset: 3, reason: Reason::NotUtf8 }));
    assert_eq!(text.fixed64s().unwrap_err(), Error { offset: 2, reason: Reason::PackedLength });
    assert_eq!(
        text.string().unwrap_err().to_string(),
        "protobuf: byte 3: a string that is not UTF-8"
    );
}

#[test]
fn bytes_of_every_length_are_copied() {
    let source: Vec<u8> = (0..100).collect();
    for length in 0..=source.len() {
        let bytes = written(length, |sink| sink.put(&source[..length]));
        assert_eq!(bytes, &source[..length]);
    }
}
