//! Any profile: written as the schema has it, read in whatever order and spelling its fields come.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use prost::Message;
use wire::pprof::{
    Document, EncodedSample, Function, FunctionId, LabelValue, Line, LocationId, Mapping,
    MappingId, Reader, Sample, StringId, ValueType, Writer, encode_label, encode_location_ids,
};
use wire::protobuf::{self, Buffer, Sink, Value, fold};

use crate::model;

/// Ids as profiles have them: counted up, or addresses.
fn ids(most: usize) -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        (0..=most as u64).prop_map(|count| (1..=count).collect()),
        btree_set(1..u64::MAX, 0..=most).prop_map(Vec::from_iter),
        btree_set(1..12u64, 0..=most).prop_map(|ids| ids.into_iter().rev().collect()),
    ]
}

fn string(strings: usize) -> impl Strategy<Value = i64> + Clone {
    0..strings as i64
}

fn value_type(strings: usize) -> impl Strategy<Value = model::ValueType> {
    (string(strings), string(strings)).prop_map(|(kind, unit)| model::ValueType { kind, unit })
}

fn label(strings: usize) -> impl Strategy<Value = model::Label> {
    let text = (string(strings), 1..strings as i64).prop_map(|(key, str)| model::Label {
        key,
        str,
        ..Default::default()
    });
    let number = (string(strings), any::<i64>(), string(strings))
        .prop_map(|(key, num, num_unit)| model::Label { key, num, num_unit, str: 0 });
    prop_oneof![text, number]
}

fn one_of(ids: Vec<u64>) -> impl Strategy<Value = u64> + Clone {
    any::<prop::sample::Index>().prop_map(move |index| ids[index.index(ids.len())])
}

fn sample(
    strings: usize,
    types: usize,
    locations: Vec<u64>,
) -> impl Strategy<Value = model::Sample> {
    let most = if locations.is_empty() { 0 } else { 6 };
    (vec(one_of(locations), 0..=most), vec(any::<i64>(), types), vec(label(strings), 0..3))
        .prop_map(|(location_id, value, label)| model::Sample { location_id, value, label })
}

fn mapping(strings: usize, id: u64) -> impl Strategy<Value = model::Mapping> {
    (any::<[u64; 3]>(), string(strings), string(strings), any::<[bool; 4]>()).prop_map(
        move |([memory_start, memory_limit, file_offset], filename, build_id, has)| {
            model::Mapping {
                id,
                memory_start,
                memory_limit,
                file_offset,
                filename,
                build_id,
                has_functions: has[0],
                has_filenames: has[1],
                has_line_numbers: has[2],
                has_inline_frames: has[3],
            }
        },
    )
}

fn location(id: u64, functions: Vec<u64>) -> impl Strategy<Value = model::Location> {
    let most = if functions.is_empty() { 0 } else { 3 };
    let line = (one_of(functions), any::<i64>(), any::<i64>())
        .prop_map(|(function_id, line, column)| model::Line { function_id, line, column });
    (0..4u64, any::<u64>(), vec(line, 0..=most), any::<bool>()).prop_map(
        move |(mapping_id, address, line, is_folded)| model::Location {
            id,
            mapping_id,
            address,
            line,
            is_folded,
        },
    )
}

fn function(strings: usize, id: u64) -> impl Strategy<Value = model::Function> {
    (string(strings), string(strings), string(strings), any::<i64>()).prop_map(
        move |(name, system_name, filename, start_line)| model::Function {
            id,
            name,
            system_name,
            filename,
            start_line,
        },
    )
}

fn profile() -> impl Strategy<Value = model::Profile> {
    let shape = (vec(vec(any::<u8>(), 0..5), 1..6), 1..4usize, ids(3), ids(6), ids(5));
    shape.prop_flat_map(|(others, types, mappings, locations, functions)| {
        let strings = others.len() + 1;
        let records = (
            vec(value_type(strings), types),
            vec(sample(strings, types, locations.clone()), 0..8),
            mappings.into_iter().map(|id| mapping(strings, id)).collect::<Vec<_>>(),
            locations.into_iter().map(|id| location(id, functions.clone())).collect::<Vec<_>>(),
            functions.iter().map(|&id| function(strings, id)).collect::<Vec<_>>(),
        );
        let facts = (
            any::<[i64; 3]>(),
            value_type(strings),
            vec(string(strings), 0..4),
            [string(strings), string(strings), string(strings), string(strings)],
        );
        (records, facts).prop_map(
            move |((sample_type, sample, mapping, location, function), facts)| {
                let (numbers, period_type, comment, names) = facts;
                model::Profile {
                    sample_type,
                    sample,
                    mapping,
                    location,
                    function,
                    string_table: [vec![]].into_iter().chain(others.clone()).collect(),
                    drop_frames: names[0],
                    keep_frames: names[1],
                    time_nanos: numbers[0],
                    duration_nanos: numbers[1],
                    period_type: Some(period_type),
                    period: numbers[2],
                    comment,
                    default_sample_type: names[2],
                    doc_url: names[3],
                }
            },
        )
    })
}

fn id(index: i64) -> StringId {
    StringId(index.try_into().expect("it is small"))
}

fn our_type(it: &model::ValueType) -> ValueType {
    ValueType { kind: id(it.kind), unit: id(it.unit) }
}

fn our_label(it: &model::Label) -> wire::pprof::Label {
    let value = match it.str {
        0 => LabelValue::Number { value: it.num, unit: id(it.num_unit) },
        text => LabelValue::Text(id(text)),
    };
    wire::pprof::Label { key: id(it.key), value }
}

fn our_line(it: &model::Line) -> Line {
    Line { function: FunctionId(it.function_id), line: it.line, column: it.column }
}

/// The profile written by us; with `encoded` its samples' lists are encoded beforehand.
fn write(profile: &model::Profile, encoded: bool, sink: impl Sink) {
    let mut out = Writer::new(sink);
    profile.sample_type.iter().for_each(|it| out.sample_type(our_type(it)));
    for it in &profile.sample {
        let locations = it.location_id.iter().copied().map(LocationId);
        let labels = it.label.iter().map(our_label);
        if !encoded {
            out.sample(&Sample { locations, values: it.value.iter().copied(), labels });
            continue;
        }
        let mut stack = Vec::new();
        encode_location_ids(locations, &mut stack);
        let labels: Vec<Vec<u8>> = labels
            .map(|label| {
                let mut bytes = Vec::new();
                encode_label(&label, &mut bytes);
                bytes
            })
            .collect();
        let labels: Vec<&[u8]> = labels.iter().map(Vec::as_slice).collect();
        let values = &it.value;
        out.encoded_sample(&EncodedSample { locations: &stack, values, labels: &labels });
    }
    for it in &profile.mapping {
        out.mapping(&Mapping {
            id: MappingId(it.id),
            memory_start: it.memory_start,
            memory_limit: it.memory_limit,
            file_offset: it.file_offset,
            filename: id(it.filename),
            build_id: id(it.build_id),
            has_functions: it.has_functions,
            has_filenames: it.has_filenames,
            has_line_numbers: it.has_line_numbers,
            has_inline_frames: it.has_inline_frames,
        });
    }
    for it in &profile.location {
        out.location(&wire::pprof::Location {
            id: LocationId(it.id),
            mapping: MappingId(it.mapping_id),
            address: it.address,
            lines: it.line.iter().map(our_line),
            is_folded: it.is_folded,
        });
    }
    for it in &profile.function {
        out.function(&Function {
            id: FunctionId(it.id),
            name: id(it.name),
            system_name: id(it.system_name),
            filename: id(it.filename),
            start_line: it.start_line,
        });
    }
    for (index, string) in profile.string_table.iter().enumerate() {
        assert_eq!(out.string(string), StringId(index as u32));
    }
    out.drop_frames(id(profile.drop_frames));
    out.keep_frames(id(profile.keep_frames));
    out.time_nanos(profile.time_nanos);
    out.duration_nanos(profile.duration_nanos);
    profile.period_type.iter().for_each(|it| out.period_type(our_type(it)));
    out.period(profile.period);
    profile.comment.iter().for_each(|&it| out.comment(id(it)));
    out.default_sample_type(id(profile.default_sample_type));
    out.doc_url(id(profile.doc_url));
}

fn their_type(it: ValueType) -> model::ValueType {
    model::ValueType { kind: it.kind.0.into(), unit: it.unit.0.into() }
}

fn their_label(it: wire::pprof::Label) -> model::Label {
    let key = it.key.0.into();
    match it.value {
        LabelValue::Text(text) => model::Label { key, str: text.0.into(), num: 0, num_unit: 0 },
        LabelValue::Number { value: num, unit } => {
            model::Label { key, str: 0, num, num_unit: unit.0.into() }
        }
    }
}

fn their_line(it: Line) -> model::Line {
    model::Line { function_id: it.function.0, line: it.line, column: it.column }
}

/// What the document says, as the schema's types.
fn read(document: &Document<'_>) -> model::Profile {
    let facts = document.facts();
    let samples = document.samples().map(|it| model::Sample {
        location_id: it.locations.map(|id| id.0).collect(),
        value: it.values.collect(),
        label: it.labels.map(their_label).collect(),
    });
    let mappings = document.mappings().iter().map(|it| model::Mapping {
        id: it.id.0,
        memory_start: it.memory_start,
        memory_limit: it.memory_limit,
        file_offset: it.file_offset,
        filename: it.filename.0.into(),
        build_id: it.build_id.0.into(),
        has_functions: it.has_functions,
        has_filenames: it.has_filenames,
        has_line_numbers: it.has_line_numbers,
        has_inline_frames: it.has_inline_frames,
    });
    let locations = document.locations().iter().map(|it| model::Location {
        id: it.id.0,
        mapping_id: it.mapping.0,
        address: it.address,
        line: it.lines.clone().map(their_line).collect(),
        is_folded: it.is_folded,
    });
    let functions = document.functions().iter().map(|it| model::Function {
        id: it.id.0,
        name: it.name.0.into(),
        system_name: it.system_name.0.into(),
        filename: it.filename.0.into(),
        start_line: it.start_line,
    });
    model::Profile {
        sample_type: document.sample_types().iter().copied().map(their_type).collect(),
        sample: samples.collect(),
        mapping: mappings.collect(),
        location: locations.collect(),
        function: functions.collect(),
        string_table: document.strings().iter().map(|it| it.to_vec()).collect(),
        drop_frames: facts.drop_frames.0.into(),
        keep_frames: facts.keep_frames.0.into(),
        time_nanos: facts.time_nanos,
        duration_nanos: facts.duration_nanos,
        period_type: Some(their_type(facts.period_type)),
        period: facts.period,
        comment: facts.comments.iter().map(|id| id.0.into()).collect(),
        default_sample_type: facts.default_sample_type.0.into(),
        doc_url: facts.doc_url.0.into(),
    }
}

/// The frames of each sample, looked for in the slowest way.
fn frames(profile: &model::Profile) -> Vec<Vec<(u64, u64, i64, bool)>> {
    let frames_at = |id: &u64| {
        let location = profile.location.iter().find(|it| it.id == *id).expect("it is there");
        let lines = location.line.iter().enumerate();
        let last = location.line.len().saturating_sub(1);
        let mut frames: Vec<_> =
            lines.map(|(index, it)| (*id, it.function_id, it.line, index != last)).collect();
        if frames.is_empty() {
            frames.push((*id, 0, 0, false));
        }
        frames
    };
    profile.sample.iter().map(|it| it.location_id.iter().flat_map(frames_at).collect()).collect()
}

/// The message with its fields in another order, its lists spelled in other ways and fields in between
/// that nobody knows. `order` says where the fields of a number go.
fn respelled(message: &[u8], order: &[u8; 16], in_sample: bool, choices: &mut u64) -> Vec<u8> {
    let mut fields: Vec<_> =
        protobuf::Reader::new(message).map(|field| field.expect("prost's")).collect();
    fields.sort_by_key(|field| order[field.number as usize % 16]);
    let mut out = Vec::new();
    let mut choose = |of: u64| {
        *choices = choices.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*choices >> 33) % of
    };
    for field in fields {
        if choose(4) == 0 {
            out.string(900, "of a later version");
            out.fixed32(31, 7);
        }
        let list = if in_sample { field.number < 3 } else { field.number == 13 };
        match field.value {
            Value::Bytes(bytes) if list => {
                // Some alone, some packed.
                let mut rest = bytes;
                while !rest.is_empty() {
                    let before = rest;
                    let value = protobuf::take_varint(&mut rest).expect("prost's");
                    match choose(2) {
                        0 => out.uint64(field.number, value),
                        _ => out.bytes(field.number, &before[..before.len() - rest.len()]),
                    }
                }
            }
            Value::Bytes(bytes) if !in_sample && field.number == 2 => {
                let mut choices = choose(u64::MAX);
                out.bytes(2, &respelled(bytes, &[0; 16], true, &mut choices));
            }
            Value::Bytes(bytes) => out.bytes(field.number, bytes),
            Value::Varint(value) => out.uint64(field.number, value),
            Value::Fixed64(_) | Value::Fixed32(_) => unreachable!("profiles have none"),
        }
    }
    out
}

proptest! {
    #[test]
    fn what_is_written_is_what_the_schema_says(profile in profile(), encoded: bool) {
        let mut written = Vec::new();
        write(&profile, encoded, &mut written);
        prop_assert_eq!(model::Profile::decode(&written[..]).expect("ours"), profile.clone());
        let through_chunks = fold(
            &mut Buffer::new(),
            Vec::new(),
            |all, chunk| [&all, chunk].concat(),
            |out| write(&profile, encoded, out),
        );
        prop_assert_eq!(through_chunks, written);
    }

    #[test]
    fn what_the_schema_says_is_read(profile in profile(), order: [u8; 16], mut choices: u64) {
        let plain = profile.encode_to_vec();
        for body in [&plain, &respelled(&plain, &order, false, &mut choices)] {
            let document = Document::read(body).expect("it is whole");
            prop_assert_eq!(read(&document), profile.clone());
            let found: Vec<Vec<_>> = document
                .samples()
                .map(|it| {
                    let function = |it: Option<&Function>| it.map_or(0, |it| it.id.0);
                    document
                        .frames(it.locations)
                        .map(|it| (it.location.id.0, function(it.function), it.line, it.is_inlined))
                        .collect()
                })
                .collect();
            prop_assert_eq!(found, frames(&profile));
            for it in document.mappings() {
                prop_assert_eq!(document.mapping(it.id), Some(it));
            }
        }
    }

    #[test]
    fn what_is_read_can_be_written(profile in profile()) {
        let body = profile.encode_to_vec();
        let mut out = Writer::new(Vec::new());
        for item in Reader::new(&body) {
            out.event(&item.expect("it is whole").event);
        }
        prop_assert_eq!(model::Profile::decode(&out.into_inner()[..]).expect("ours"), profile);
    }

    #[test]
    fn damage_is_refused_with_a_place_or_read(
        profile in profile(),
        cut: prop::sample::Index,
        at: prop::sample::Index,
        to: u8,
    ) {
        let mut body = profile.encode_to_vec();
        let cut = cut.index(body.len());
        let at = at.index(body.len());
        for damaged in [body[..cut].to_vec(), { body[at] = to; body }] {
            match Document::read(&damaged) {
                Ok(document) => {
                    for sample in document.samples() {
                        prop_assert_eq!(sample.values.count(), document.sample_types().len());
                        let calls = sample.locations.clone().count();
                        prop_assert!(document.frames(sample.locations).count() >= calls);
                    }
                }
                Err(error) => prop_assert!(error.offset <= damaged.len(), "{}", error),
            }
        }
    }
}
