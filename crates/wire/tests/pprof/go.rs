//! Profiles that Go has written, and what Go reads of those that we write.

use std::path::Path;
use std::process::Command;

use wire::pprof::{
    Document, Function, FunctionId, Label, LabelValue, Line, Location, LocationId, Mapping,
    MappingId, Reader, Sample, ValueType, Writer,
};

use crate::raw;

/// Name, profile, what `go tool pprof -raw` says of it.
const PROFILES: [(&str, &[u8], &str); 2] = [
    ("go_cpu", include_bytes!("fixtures/go_cpu.pb"), include_str!("fixtures/go_cpu.raw")),
    ("go_heap", include_bytes!("fixtures/go_heap.pb"), include_str!("fixtures/go_heap.raw")),
];

/// What `go tool pprof -raw` says, from the samples on; nothing where there is no Go.
fn go_says(name: &str, profile: &[u8]) -> Option<String> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join(name);
    std::fs::write(&path, profile).expect("the directory is ours");
    let answer = Command::new("go").args(["tool", "pprof", "-raw"]).arg(&path).output().ok()?;
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    let begin = text.find("Samples:\n");
    let begin = begin.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&answer.stderr)));
    Some(text[begin..].to_owned())
}

fn rewritten(profile: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    for item in Reader::new(profile) {
        writer.event(&item.expect("a profile").event);
    }
    writer.into_inner()
}

#[test]
fn profiles_of_go_are_read_as_go_reads_them() {
    for (name, profile, expected) in PROFILES {
        let document = Document::read(profile).expect(name);
        assert_eq!(raw::print(&document), expected, "{name}");
        let again = rewritten(profile);
        let document = Document::read(&again).expect(name);
        assert_eq!(raw::print(&document), expected, "{name}, written by us");
    }
}

/// Every field that there is.
fn everything() -> Vec<u8> {
    let mut out = Writer::new(Vec::new());
    let _ = out.string("");
    let mut string = |text: &str| out.string(text);
    let (count, bytes, space) = (string("count"), string("bytes"), string("space"));
    let (objects, thread, worker) = (string("objects"), string("thread"), string("worker \"1\""));
    let (size, file, build) = (string("size"), string("/bin/x"), string("c0ffee"));
    let names = ["core::fmt::write", "_ZN4core3fmt5writeE", "fmt.rs", "main", "main.rs"];
    let [inlined, mangled, fmt_rs, main, main_rs] = names.map(&mut string);
    let (comment, url) = (string("taken by a test"), string("https://example.com/profile"));
    out.sample_type(ValueType { kind: objects, unit: count });
    out.sample_type(ValueType { kind: space, unit: bytes });
    out.default_sample_type(objects);
    let text = Label { key: thread, value: LabelValue::Text(worker) };
    let number = Label { key: size, value: LabelValue::Number { value: -7, unit: bytes } };
    let (big, negative) = (i64::MAX / 3, -12);
    for (ids, values, labels) in [
        (vec![1, 1 << 60], [1, 2], vec![]),
        (vec![1 << 60], [big, negative], vec![text, number]),
        (vec![], [0, 0], vec![number]),
    ] {
        out.sample(&Sample {
            locations: ids.into_iter().map(LocationId),
            values: values.into_iter(),
            labels: labels.into_iter(),
        });
    }
    out.mapping(&Mapping {
        id: MappingId(1),
        memory_start: 0x1000,
        memory_limit: u64::MAX,
        file_offset: 0x20,
        filename: file,
        build_id: build,
        has_functions: true,
        has_filenames: true,
        has_line_numbers: true,
        has_inline_frames: true,
    });
    let line = |function, line| Line { function: FunctionId(function), line, column: 3 };
    let lines = vec![line(1, 12), line(1 << 40, 34)];
    out.location(&Location {
        id: LocationId(1),
        mapping: MappingId(1),
        address: 0x1234,
        lines: lines.into_iter(),
        is_folded: true,
    });
    out.location(&Location {
        id: LocationId(1 << 60),
        mapping: MappingId(0),
        address: 0xffff_ffff_0000_0000,
        lines: std::iter::empty(),
        is_folded: false,
    });
    out.function(&Function {
        id: FunctionId(1),
        name: inlined,
        system_name: mangled,
        filename: fmt_rs,
        start_line: 10,
    });
    out.function(&Function {
        id: FunctionId(1 << 40),
        name: main,
        system_name: main,
        filename: main_rs,
        start_line: 30,
    });
    out.time_nanos(1_700_000_000_000_000_000);
    out.duration_nanos(10_000_000_000);
    out.period_type(ValueType { kind: space, unit: bytes });
    out.period(524_288);
    out.comment(comment);
    out.doc_url(url);
    out.into_inner()
}

#[test]
fn go_reads_what_we_write() {
    let written = everything();
    let document = Document::read(&written).expect("ours");
    assert_eq!(document.default_column(), 0);
    assert_eq!(document.text(document.facts().comments[0]), "taken by a test");
    let Some(expected) = go_says("everything", &written) else {
        return println!("skipped: there is no go to ask");
    };
    assert_eq!(raw::print(&document), expected);
    for (name, profile, expected) in PROFILES {
        assert_eq!(go_says(name, &rewritten(profile)).as_deref(), Some(expected), "{name}");
    }
}

/// Profiles of google/pprof's own tests, where Go's module cache has them: read as Go reads them, or refused
/// where they are of the older formats.
#[test]
fn profiles_of_pprof_itself_are_read() {
    let Some(home) = std::env::var_os("HOME") else { return println!("skipped: no home") };
    let modules = Path::new(&home).join("go/pkg/mod/github.com/google");
    let Ok(modules) = std::fs::read_dir(modules) else {
        return println!("skipped: Go's module cache does not have google/pprof");
    };
    let files = modules
        .flatten()
        .flat_map(|module| {
            ["internal/driver/testdata", "internal/proftest/testdata", "internal/report/testdata"]
                .map(|directory| module.path().join(directory))
        })
        .flat_map(|directory| std::fs::read_dir(directory).into_iter().flatten().flatten())
        .map(|entry| entry.path());
    let (mut read, mut refused) = (0, 0);
    for path in files {
        let Ok(body) = std::fs::read(&path) else { continue };
        if !body.starts_with(&[0x1f, 0x8b]) {
            refused += usize::from(Document::read(&body).is_err());
            continue;
        }
        let error = Document::read(&body).expect_err("compressed");
        assert!(error.to_string().contains("gzip"), "{error}");
        let mut profile = Vec::new();
        let mut gzip = flate2::read::GzDecoder::new(&body[..]);
        std::io::Read::read_to_end(&mut gzip, &mut profile).expect("a gzip file");
        let document = Document::read(&profile).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        if let Some(expected) = go_says("theirs", &body) {
            // Go's tool invents a mapping where there is none.
            let samples = |text: &str| text.split("Locations\n").next().map(str::to_owned);
            assert!(
                samples(&raw::print(&document)) == samples(&expected),
                "{path:?} is read otherwise than by Go"
            );
        }
        read += 1;
    }
    println!("{read} read, {refused} of other formats refused");
}
