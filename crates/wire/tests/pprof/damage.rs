//! Profiles that are refused, and where.

use prost::Message;
use wire::pprof::Document;

use crate::model::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};

/// A function, a location, a mapping, two types and a sample.
fn whole() -> Profile {
    let value_type = ValueType { kind: 1, unit: 2 };
    Profile {
        sample_type: vec![value_type; 2],
        sample: vec![Sample { location_id: vec![1], value: vec![5, 6], label: vec![] }],
        mapping: vec![Mapping { id: 1, filename: 3, ..Mapping::default() }],
        location: vec![Location {
            id: 1,
            mapping_id: 1,
            line: vec![Line { function_id: 1, line: 7, column: 0 }],
            ..Location::default()
        }],
        function: vec![Function { id: 1, name: 3, ..Function::default() }],
        string_table: ["", "cpu", "nanoseconds", "main"].map(|it| it.as_bytes().to_vec()).to_vec(),
        time_nanos: 1,
        ..Profile::default()
    }
}

/// What has to be done to a whole profile, and what is then said of it.
type Case = (fn(&mut Profile), &'static str);

const CASES: &[Case] = &[
    (|it| it.string_table.clear(), "byte 47: there is no table of strings"),
    (|it| *it = Profile::default(), "byte 0: there is no table of strings"),
    (
        |it| it.string_table[0] = b"x".to_vec(),
        "byte 47: the table of strings begins with one that is",
    ),
    (|it| it.string_table.truncate(3), "byte 23: string 3 is named and there are 3"),
    (|it| it.function[0].filename = 9, "byte 41: string 9 is named and there are 4"),
    (|it| it.function[0].system_name = -1, "byte 46: a value that its field may not have"),
    (|it| it.sample_type[1].unit = 4, "string 4 is named and there are 4"),
    (|it| it.comment.push(77), "string 77 is named and there are 4"),
    (|it| it.comment.push(-1), "a value that its field may not have"),
    (|it| it.doc_url = 1 << 32, "a value that its field may not have"),
    (|it| it.default_sample_type = 5, "string 5 is named"),
    (|it| it.keep_frames = 5, "string 5 is named"),
    (
        |it| it.sample[0].label.push(Label { key: 4, str: 1, num: 0, num_unit: 0 }),
        "byte 14: string 4 is named",
    ),
    (
        |it| it.sample[0].label.push(Label { key: 1, str: 0, num: 1, num_unit: 4 }),
        "byte 14: string 4 is named",
    ),
    (
        |it| it.sample[0].value.truncate(1),
        "byte 14: a sample with 1 values in a profile with 2 types",
    ),
    (|it| it.sample[0].value.push(1), "byte 14: a sample with 3 values in a profile with 2 types"),
    (
        |it| (it.sample_type.clear(), it.sample[0].value.clear()).0,
        "a sample with 0 values in a profile with 0 types",
    ),
    (|it| it.sample[0].location_id.push(2), "byte 14: location 2 is named and there is none"),
    (|it| it.sample[0].location_id.push(0), "byte 14: location 0 is named and there is none"),
    (|it| it.sample[0].location_id.push(u64::MAX), "location 18446744073709551615 is named"),
    (|it| it.location[0].line[0].function_id = 0, "byte 29: function 0 is named and there is none"),
    (|it| it.location[0].line[0].function_id = 99, "byte 29: function 99 is named"),
    (|it| it.location.push(Location::default()), "a location with the id 0"),
    (|it| it.function[0].id = 0, "byte 41: a function with the id 0"),
    (|it| it.location[0].line[0].function_id = 2, "function 2 is named and there is none"),
    (|it| it.mapping[0].id = 0, "byte 23: a mapping with the id 0"),
    (|it| it.mapping.push(it.mapping[0]), "byte 29: a second mapping with the id 1"),
    (|it| it.location.push(it.location[0].clone()), "byte 41: a second location with the id 1"),
    (|it| it.function.push(it.function[0]), "byte 47: a second function with the id 1"),
    (
        |it| {
            let far = Function { id: 1 << 40, ..it.function[0] };
            it.function.extend([far, far]);
        },
        "a second function with the id 1099511627776",
    ),
];

#[test]
fn what_go_refuses_is_refused_with_its_place() {
    assert!(Document::read(&whole().encode_to_vec()).is_ok());
    for (index, (damage, expected)) in CASES.iter().enumerate() {
        let mut profile = whole();
        damage(&mut profile);
        let error = Document::read(&profile.encode_to_vec()).expect_err(expected);
        assert!(error.to_string().contains(expected), "{index}: {expected}: {error}");
    }
}

#[test]
fn what_go_accepts_is_accepted() {
    let cases: &[fn(&mut Profile)] = &[
        |it| it.location[0].mapping_id = 9,
        |it| it.sample[0].location_id.clear(),
        |it| it.location[0].line.clear(),
        |it| it.string_table.push(b"cpu".to_vec()),
        |it| it.string_table.push(b"\xff\xfe".to_vec()),
        |it| (it.sample.clear(), it.sample_type.clear()).0,
    ];
    for (index, change) in cases.iter().enumerate() {
        let mut profile = whole();
        change(&mut profile);
        let body = profile.encode_to_vec();
        assert_eq!(Document::read(&body).map(drop), Ok(()), "{index}");
    }
}

#[test]
fn what_is_no_message_is_refused_with_its_place() {
    let body = whole().encode_to_vec();
    let two = [&body[..], &body[..]].concat();
    for (body, expected) in [
        (&body[..body.len() - 3], "byte 66: the message ends within a field"),
        (&two[..], "a second time of collection: these are two profiles"),
        (b"\x1f\x8b\x08\0", "byte 0: compressed with gzip"),
        (b"heap profile: 1: 2", "byte 3: a known field with the wire type of another"),
        (b"\x12\x02\x0a\x05", "byte 3: the message ends within a field"),
        (b"\x12\x03\x0a\x01\x80", "byte 4: the message ends within a field"),
        (b"\x13", "byte 0: a group"),
        (b"\x32\x00\x48", "byte 3: the message ends within a field"),
        (b"\x35\x00\x00\x00\x00", "byte 1: a known field with the wire type of another"),
    ] {
        let error = Document::read(body).expect_err(expected);
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
}
