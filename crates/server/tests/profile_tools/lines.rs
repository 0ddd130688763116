//! Profiles written down as lines.
//!
//! ```text
//! types samples/count cpu/nanoseconds      first
//! duration 10                              seconds
//! drop PATTERN, keep PATTERN, default KIND
//! main;work 3 30 endpoint=/x size=7        a stack, outermost first, its values, its labels
//! ```
//! A function may be followed by `@file:line`; a frame written as `0x12!module` has no function; `a+b` is
//! a location with `b` inlined into `a`.

use std::collections::HashMap;

use wire::pprof::{
    Function, FunctionId, Label, LabelValue, Line, Location, LocationId, Mapping, MappingId,
    Sample, StringId, ValueType, Writer,
};

#[derive(Default)]
struct Tables {
    strings: Vec<String>,
    string_ids: HashMap<String, StringId>,
    functions: HashMap<(String, String), FunctionId>,
    locations: HashMap<String, LocationId>,
    mappings: HashMap<String, MappingId>,
}

impl Tables {
    fn string(&mut self, text: &str) -> StringId {
        if let Some(&id) = self.string_ids.get(text) {
            return id;
        }
        let id = StringId(self.strings.len() as u32);
        self.strings.push(text.to_owned());
        self.string_ids.insert(text.to_owned(), id);
        id
    }

    fn location(&mut self, frame: &str, out: &mut Writer<Vec<u8>>) -> LocationId {
        if let Some(&id) = self.locations.get(frame) {
            return id;
        }
        let id = LocationId(self.locations.len() as u64 + 1);
        self.locations.insert(frame.to_owned(), id);
        let (mut mapping, mut address, mut lines) = (MappingId(0), 0, Vec::new());
        if let Some((number, module)) = frame.split_once('!') {
            address = u64::from_str_radix(number.trim_start_matches("0x"), 16).expect("a number");
            let filename = self.string(&format!("/lib/{module}"));
            let next = MappingId(self.mappings.len() as u64 + 1);
            mapping = *self.mappings.entry(module.to_owned()).or_insert_with(|| {
                out.mapping(&Mapping { id: next, filename, ..Mapping::default() });
                next
            });
        } else {
            for call in frame.rsplit('+') {
                let (name, place) = call.split_once('@').unwrap_or((call, ""));
                let (file, line) = place.split_once(':').unwrap_or((place, "0"));
                let function = self.function(name, file, out);
                lines.push(Line { function, line: line.parse().expect("a line"), column: 0 });
            }
        }
        let lines = lines.into_iter();
        out.location(&Location { id, mapping, address, lines, is_folded: false });
        id
    }

    fn function(&mut self, name: &str, file: &str, out: &mut Writer<Vec<u8>>) -> FunctionId {
        let key = (name.to_owned(), file.to_owned());
        if let Some(&id) = self.functions.get(&key) {
            return id;
        }
        let id = FunctionId(self.functions.len() as u64 + 1);
        let (name, filename) = (self.string(name), self.string(file));
        out.function(&Function { id, name, filename, ..Function::default() });
        self.functions.insert(key, id);
        id
    }

    fn sample(&mut self, line: &str, types: usize, out: &mut Writer<Vec<u8>>) {
        let mut words = line.split(' ').filter(|word| !word.is_empty());
        let stack = words.next().expect("a stack");
        let frames = stack.rsplit(';').filter(|frame| *frame != "-");
        let locations: Vec<LocationId> = frames.map(|it| self.location(it, out)).collect();
        let values = words.by_ref().take(types).map(|it| it.parse().expect("a value"));
        let values: Vec<i64> = values.collect();
        let labels = words.map(|word| {
            let (key, value) = word.split_once('=').expect("a label");
            let key = self.string(key);
            let value = match value.parse() {
                Ok(value) => LabelValue::Number { value, unit: StringId(0) },
                Err(_) => LabelValue::Text(self.string(value)),
            };
            Label { key, value }
        });
        let labels: Vec<Label> = labels.collect();
        out.sample(&Sample {
            locations: locations.into_iter(),
            values: values.into_iter(),
            labels: labels.into_iter(),
        });
    }
}

/// The profile that the lines describe.
pub(crate) fn written(text: &str) -> Vec<u8> {
    let mut out = Writer::new(Vec::new());
    let mut tables = Tables::default();
    tables.string("");
    let mut types = 0;
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.split_once(' ') {
            Some(("types", list)) => {
                for it in list.split_whitespace() {
                    let (kind, unit) = it.split_once('/').expect("kind/unit");
                    let (kind, unit) = (tables.string(kind), tables.string(unit));
                    out.sample_type(ValueType { kind, unit });
                    types += 1;
                }
            }
            Some(("duration", seconds)) => {
                let seconds: i64 = seconds.parse().expect("seconds");
                out.duration_nanos(seconds * 1_000_000_000);
            }
            Some(("drop", pattern)) => out.drop_frames(tables.string(pattern)),
            Some(("keep", pattern)) => out.keep_frames(tables.string(pattern)),
            Some(("default", kind)) => out.default_sample_type(tables.string(kind)),
            _ => tables.sample(line, types, &mut out),
        }
    }
    for string in &tables.strings {
        out.string(string);
    }
    out.into_inner()
}
