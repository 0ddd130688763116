//! What is recorded is what is written, window by window, as `wire::pprof` reads it.

use profiler::profile::{
    Label, LabelValue, LabelsId, Limits, Mapping, Profile, Stack, Symbol, Symbolize, Tables,
    ValueType, Wanted, WriteOptions,
};
use profiler::unwind::End;
use wire::pprof::{Document, LabelValue as Read};

const LIMITS: Limits = Limits { stacks: 1000, bytes: 10 << 20, labels: 100 };
const COLUMNS: [ValueType; 2] =
    [ValueType { kind: "samples", unit: "count" }, ValueType { kind: "wall", unit: "nanoseconds" }];

fn profile(tables: &Tables) -> Profile {
    Profile::new(tables, &COLUMNS, 1, COLUMNS[1], 10_000_000)
}

fn mapping(name: &str, start: u64) -> Mapping {
    Mapping {
        start,
        limit: start + 0x1000,
        offset: 0x40,
        file: format!("/lib/{name}"),
        build_id: format!("{name}-id"),
    }
}

fn append(mut all: Vec<u8>, chunk: &[u8]) -> Vec<u8> {
    assert!(!chunk.is_empty() && chunk.len() <= 64 * 1024);
    all.extend_from_slice(chunk);
    all
}

/// Names every function after its address, and gives odd ones an inlined one.
struct Names {
    asked: Vec<u64>,
}

impl Symbolize for Names {
    fn symbolize(
        &mut self,
        address: u64,
        _mapping: Option<&Mapping>,
        found: &mut dyn FnMut(Symbol<'_>),
    ) {
        self.asked.push(address);
        if address == 0x1666 {
            return;
        }
        let (name, file) = (format!("f{address:x}"), format!("{:x}.rs", address >> 8));
        if address % 2 == 1 {
            found(Symbol { name: "inlined", file: &file, line: 3, ..Symbol::default() });
        }
        let line = address as u32;
        found(Symbol { name: &name, system_name: "_f", file: &file, line, start_line: 1 });
    }
}

/// Samples as lines of text: frames, labels, values; sorted.
fn lines(bytes: &[u8]) -> Vec<String> {
    let document = Document::read(bytes).expect("what we write can be read");
    let mut lines: Vec<String> = document
        .samples()
        .map(|sample| {
            let frames: Vec<String> = document
                .frames(sample.locations.clone())
                .map(|frame| match frame.function {
                    Some(function) => document.text(function.name).into_owned(),
                    None => format!("{:#x}", frame.location.address),
                })
                .collect();
            let labels: Vec<String> = sample
                .labels
                .map(|label| {
                    let value = match label.value {
                        Read::Text(text) => document.text(text).into_owned(),
                        Read::Number { value, .. } => value.to_string(),
                    };
                    format!("{}={value}", document.text(label.key))
                })
                .collect();
            let values: Vec<i64> = sample.values.collect();
            format!("{} {{{}}} {values:?}", frames.join(";"), labels.join(","))
        })
        .collect();
    lines.sort();
    lines
}

fn complete(addresses: &[u64]) -> Stack<'_> {
    Stack { addresses, end: End::Root }
}

#[test]
fn windows_hold_what_was_added_since() {
    let tables = Tables::new(LIMITS);
    tables.set_mappings(vec![mapping("main", 0x5000), mapping("first", 0x1000)], false);
    let profile = profile(&tables);
    let mut window = profile.window();
    let entry = {
        let mut recording = profile.lock();
        let thread = recording.labels(&[
            Label { key: "thread id", value: LabelValue::Number(7) },
            Label { key: "thread name", value: LabelValue::Text("worker") },
        ]);
        let scope =
            recording.labels(&[Label { key: "endpoint", value: LabelValue::Text("/checkout") }]);
        let none = LabelsId::default();
        recording.record(complete(&[0x1666, 0x1002, 0x1003]), thread, scope, &[1, 10]);
        let lost = Stack { addresses: &[0x1002], end: End::Lost };
        recording.record(lost, none, none, &[2, 20]);
        recording.record(complete(&[0x1666, 0x1002, 0x1003]), thread, scope, &[1, 5])
    };
    let mut names = Names { asked: Vec::new() };
    let options = WriteOptions {
        time_nanos: 17,
        duration_nanos: 18,
        symbolizer: Some(&mut names),
        comments: &["one", "two"],
        ..WriteOptions::default()
    };
    let bytes = window.write(options, Vec::new(), append);
    assert_eq!(
        lines(&bytes),
        [
            "0x1666;f1002;inlined;f1003 {thread id=7,thread name=worker,endpoint=/checkout} [2, 15]",
            "f1002;[lost] {} [2, 20]",
        ]
    );
    let document = Document::read(&bytes).unwrap();
    let files: Vec<_> =
        document.mappings().iter().map(|mapping| document.text(mapping.filename)).collect();
    assert_eq!(files, ["/lib/main", "/lib/first"], "the program's own first, though not used");
    assert!(!document.mappings()[1].has_functions, "one address of it has no function");
    assert_eq!((document.facts().time_nanos, document.facts().duration_nanos), (17, 18));
    assert_eq!(document.default_column(), 1);
    let comments: Vec<_> =
        document.facts().comments.iter().map(|&comment| document.text(comment)).collect();
    assert_eq!(comments, ["one", "two"]);

    assert!(profile.lock().add(entry, &[0, 4]));
    let options = WriteOptions { symbolizer: Some(&mut names), ..WriteOptions::default() };
    let again = window.write(options, Vec::new(), append);
    assert_eq!(
        lines(&again),
        ["0x1666;f1002;inlined;f1003 {thread id=7,thread name=worker,endpoint=/checkout} [0, 4]"]
    );
    names.asked.sort_unstable();
    let asked = [0x1002, 0x1003, 0x1666, 0x1666];
    assert_eq!(names.asked, asked, "each address is asked for once, without an answer again");

    let bare = profile.total().write(WriteOptions::default(), Vec::new(), append);
    assert_eq!(
        lines(&bare),
        [
            "0x1002;[lost] {} [2, 20]",
            "0x1666;0x1002;0x1003 {thread id=7,thread name=worker,endpoint=/checkout} [2, 19]",
        ]
    );
    let document = Document::read(&bare).unwrap();
    assert_eq!(document.text(document.mappings()[1].build_id), "first-id");
    assert_eq!(document.functions().len(), 1, "without a symbolizer only the pseudo frame");
    assert!(lines(&window.write(WriteOptions::default(), Vec::new(), append)).is_empty());
}

/// Names `0x1002` from one call on.
struct Late {
    from: usize,
    asked: usize,
}

impl Symbolize for Late {
    fn symbolize(
        &mut self,
        address: u64,
        mapping: Option<&Mapping>,
        found: &mut dyn FnMut(Symbol<'_>),
    ) {
        assert_eq!(address, 0x1002);
        self.asked += 1;
        if self.asked >= self.from && mapping.is_some() {
            found(Symbol { name: "late", ..Symbol::default() });
        }
    }
}

#[test]
fn what_has_no_name_is_asked_for_again_a_few_times() {
    // From which call on there is a name, from which writing on a mapping; the calls after six writings,
    // and the writings without a name.
    let cases =
        [(1, 0, 1, 0), (2, 0, 2, 1), (3, 0, 3, 2), (4, 0, 3, 6), (1, 2, 3, 2), (1, 5, 4, 5)];
    for (from, mapped, calls, nameless) in cases {
        let tables = Tables::new(LIMITS);
        let profile = profile(&tables);
        let mut late = Late { from, asked: 0 };
        let mut without = 0;
        for writing in 0..6 {
            if writing == mapped {
                tables.set_mappings(vec![mapping("main", 0x1000)], false);
            }
            profile.lock().record(complete(&[0x1002]), LabelsId::EMPTY, LabelsId::EMPTY, &[1, 1]);
            let options = WriteOptions { symbolizer: Some(&mut late), ..WriteOptions::default() };
            let bytes = profile.total().write(options, Vec::new(), append);
            without += usize::from(lines(&bytes)[0].starts_with("0x1002 "));
        }
        assert_eq!((late.asked, without), (calls, nameless), "{from} {mapped}");
    }
}

/// Who wants no more after any of the chunks gets no more, is not asked for names from before the first on,
/// and loses nothing.
#[test]
fn writing_ends_with_the_fold() {
    let tables = Tables::new(Limits { stacks: 10_000, ..LIMITS });
    let profile = profile(&tables);
    let mut window = profile.window();
    for address in 0..5000 {
        let none = LabelsId::default();
        profile.lock().record(complete(&[address, address + 1]), none, none, &[1, 1]);
    }
    let mut ends = Vec::new();
    for wanted in 0.. {
        let mut names = Names { asked: Vec::new() };
        let options = WriteOptions { symbolizer: Some(&mut names), ..WriteOptions::default() };
        let mut chunks = 0;
        let end = window.try_write(options, Vec::new(), |all, chunk| {
            assert!(chunks <= wanted, "called again after its end");
            chunks += 1;
            if chunks <= wanted { Ok(append(all, chunk)) } else { Err(chunks) }
        });
        match end {
            Ok(bytes) => {
                assert_eq!(lines(&bytes).len(), 5000);
                break;
            }
            Err(chunks) => ends.push((chunks, names.asked.is_empty())),
        }
    }
    assert!(ends.len() > 2 && ends[0] == (1, true), "{ends:?}");
    assert!(lines(&window.write(WriteOptions::default(), Vec::new(), append)).is_empty());
}

#[test]
fn entries_are_lent_with_names() {
    let tables = Tables::new(LIMITS);
    tables.set_mappings(vec![mapping("main", 0x1000)], false);
    let profile = profile(&tables);
    let mut window = profile.window();
    {
        let mut recording = profile.lock();
        let scope = recording.labels(&[Label { key: "n", value: LabelValue::Number(-1) }]);
        let stack = Stack { addresses: &[0x1003, 0x1666], end: End::Truncated };
        recording.record(stack, LabelsId::default(), scope, &[1, 10]);
        recording.record(complete(&[0x1002]), LabelsId::default(), scope, &[0, 10]);
    }
    let mut names = Names { asked: Vec::new() };
    let options = WriteOptions {
        symbolizer: Some(&mut names),
        keep: |values| values[0] > 0,
        ..WriteOptions::default()
    };
    let mut seen = Vec::new();
    window.for_each(options, |sample| {
        // The lock is free: this would wait for ever otherwise.
        assert_eq!(tables.statistics().entries, 4, "two of ours, [overflow] and [dropped]");
        for frame in sample.frames() {
            let file = frame.mapping.map_or("", |mapping| &mapping.file);
            seen.push(format!(
                "{:x} {} {} {}",
                frame.address, frame.symbol.name, file, frame.symbol.line
            ));
        }
        seen.extend(sample.labels().map(|label| format!("{label:?}")));
        seen.push(format!("{:?}", sample.values()));
    });
    assert_eq!(
        seen,
        [
            "1003 inlined /lib/main 3",
            "1003 f1003 /lib/main 4099",
            "1666  /lib/main 0",
            "ffffffffffffff04 [truncated]  0",
            "Label { key: \"n\", value: Number(-1) }",
            "[1, 10]",
        ]
    );
    let mut more = 0;
    window.for_each(WriteOptions::default(), |_| more += 1);
    assert_eq!(more, 0, "what was not kept is seen all the same");
}

/// Entries by label: those that are left out are seen, and nobody is asked for their names.
#[test]
fn entries_are_chosen_by_label() {
    let tables = Tables::new(LIMITS);
    tables.set_mappings(vec![mapping("main", 0x1000)], false);
    let profile = profile(&tables);
    let text = |key, text| Label { key, value: LabelValue::Text(text) };
    let record = || {
        let mut recording = profile.lock();
        let thread = recording.labels(&[text("thread", "one")]);
        let parse = recording.labels(&[text("stage", "parse"), text("user", "a")]);
        let append = recording.labels(&[text("stage", "append")]);
        let number = recording.labels(&[Label { key: "stage", value: LabelValue::Number(7) }]);
        let none = LabelsId::default();
        let entries = [(0x1100, parse), (0x1200, append), (0x1300, none), (0x1400, number)];
        for (address, scope) in entries {
            recording.record(complete(&[address]), thread, scope, &[1, 10]);
        }
    };
    // In this order: a name that was asked for once is not asked for again.
    for (key, wanted, expected, asked) in [
        ("stage", Some("parse"), &[0x1100][..], &[0x1100][..]),
        ("stage", Some("none"), &[], &[]),
        ("stage", None, &[0x1300], &[0x1300]),
        ("user", Some("a"), &[0x1100], &[]),
        ("user", None, &[0x1200, 0x1300, 0x1400], &[0x1200, 0x1400]),
        ("thread", Some("one"), &[0x1100, 0x1200, 0x1300, 0x1400], &[]),
        ("thread", None, &[], &[]),
    ] {
        let mut window = profile.window();
        record();
        let mut names = Names { asked: Vec::new() };
        let options = WriteOptions {
            symbolizer: Some(&mut names),
            label: Some(Wanted { key, text: wanted }),
            ..WriteOptions::default()
        };
        let mut seen = Vec::new();
        window.for_each(options, |sample| {
            seen.extend(sample.frames().map(|frame| frame.address));
        });
        // A call that was inlined stands at its caller's address.
        seen.dedup();
        names.asked.sort_unstable();
        assert_eq!((&seen[..], &names.asked[..]), (expected, asked), "{key} {wanted:?}");
        window.for_each(WriteOptions::default(), |_| panic!("all were seen"));
    }
}
