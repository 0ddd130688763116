//! pprof: whatever a profile's bytes are, reading ends, with an error inside them or with fields; what was
//! read and is written again is read as the same, and is written as the same bytes from then on. Of a
//! profile that passes the checks, everything that is named is there.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::pprof::{Document, Event, LabelValue, Reader, StringId, Writer};

/// What `profile` says, written by us: as far as it can be read, with the first string made empty.
fn rewritten(profile: &[u8]) -> Vec<u8> {
    let mut out = Writer::new(Vec::new());
    out.string("");
    for item in Reader::new(profile) {
        let Ok(item) = item else { break };
        if !matches!(item.event, Event::String([])) || out.strings() > 1 {
            out.event(&item.event);
        }
    }
    out.into_inner()
}

fn named(document: &Document<'_>, id: StringId) {
    assert!((id.0 as usize) < document.strings().len());
}

fn walk(document: &Document<'_>) {
    let types = document.sample_types().len();
    assert!(document.default_column() < types.max(1));
    for sample in document.samples() {
        assert_eq!(sample.values.count(), types);
        for label in sample.labels {
            named(document, label.key);
            let (LabelValue::Text(id) | LabelValue::Number { unit: id, .. }) = label.value;
            named(document, id);
        }
        let mut calls = sample.locations.clone().map(|id| document.location(id).expect("checked"));
        for frame in document.frames(sample.locations) {
            if let Some(function) = frame.function {
                named(document, function.name);
            }
            if !frame.is_inlined {
                assert_eq!(calls.next().map(|it| it.id), Some(frame.location.id));
            }
        }
        assert!(calls.next().is_none());
    }
    for function in document.functions() {
        assert_eq!(document.function(function.id), Some(function));
    }
    for mapping in document.mappings() {
        assert_eq!(document.mapping(mapping.id), Some(mapping));
    }
}

fuzz_target!(|body: &[u8]| {
    for item in Reader::new(body) {
        match item {
            Ok(item) => assert!(item.offset <= body.len()),
            Err(error) => assert!(error.offset <= body.len(), "{error}"),
        }
    }
    let once = rewritten(body);
    assert!(rewritten(&once) == once);
    match Document::read(body) {
        Err(error) => assert!(error.offset <= body.len(), "{error}"),
        Ok(document) => {
            walk(&document);
            let again = Document::read(&once).expect("what we write of a whole profile is whole");
            assert_eq!(again.samples().len(), document.samples().len());
            assert_eq!(again.strings().len(), document.strings().len());
        }
    }
});
