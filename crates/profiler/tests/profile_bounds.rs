//! What happens at the bounds, while a window is written, and when mappings change.

use std::collections::BTreeMap;

use profiler::profile::{
    Label, LabelValue, LabelsId, Limits, Mapping, Profile, Stack, Symbol, Symbolize, Tables,
    ValueType, Window, WriteOptions,
};
use profiler::unwind::End;
use wire::pprof::Document;

const COLUMNS: [ValueType; 2] = [
    ValueType { kind: "alloc_space", unit: "bytes" },
    ValueType { kind: "inuse_space", unit: "bytes" },
];
const NONE: [LabelsId; 2] = [LabelsId::EMPTY; 2];

fn profile(limits: Limits) -> (Tables, Profile) {
    let tables = Tables::new(limits);
    let profile = Profile::new(&tables, &COLUMNS, 0, COLUMNS[0], 1);
    (tables, profile)
}

fn stack(addresses: &[u64]) -> Stack<'_> {
    Stack { addresses, end: End::Root }
}

fn number(value: i64) -> [Label<'static>; 1] {
    [Label { key: "t", value: LabelValue::Number(value) }]
}

fn numbered(value: LabelValue<'_>) -> Option<i64> {
    match value {
        LabelValue::Number(number) => Some(number),
        LabelValue::Text(_) => None,
    }
}

/// The first value by outermost frame: its name, or its address.
fn by_root(window: &mut Window) -> BTreeMap<String, i64> {
    let mut found = BTreeMap::new();
    window.for_each(WriteOptions::default(), |sample| {
        let frame = sample.frames().last().expect("no stack is empty here");
        let name = match frame.symbol.name {
            "" => frame.address.to_string(),
            name => name.to_owned(),
        };
        *found.entry(name).or_insert(0) += sample.values()[0];
    });
    found
}

#[test]
fn idle_stacks_make_room_and_those_in_use_stay() {
    let (tables, profile) = profile(Limits { stacks: 10, bytes: 1 << 20, labels: 10 });
    let in_use = profile.lock().record(stack(&[7]), NONE[0], NONE[1], &[1, 1]);
    for address in 100..200 {
        profile.lock().record(stack(&[address]), NONE[0], NONE[1], &[1, 0]);
    }
    let statistics = tables.statistics();
    assert!(statistics.stacks <= 10, "{statistics:?}");
    assert_eq!((statistics.refused_stacks, statistics.dropped > 80), (0, true), "{statistics:?}");
    assert!(statistics.locations <= 10, "locations go with their stacks: {statistics:?}");
    assert!(profile.lock().add(in_use, &[0, -1]), "what is in use is not dropped");
    for address in 200..240 {
        profile.lock().record(stack(&[address]), NONE[0], NONE[1], &[1, 0]);
    }
    assert!(!profile.lock().add(in_use, &[0, 0]), "once it is free it goes, and its id tells");
    let total = by_root(&mut profile.total());
    assert_eq!(total.values().sum::<i64>(), 141);
    assert!(total["[dropped]"] > 120, "{total:?}");
}

#[test]
fn what_a_window_has_not_seen_is_not_dropped() {
    let (tables, profile) = profile(Limits { stacks: 10, bytes: 1 << 20, labels: 10 });
    let mut window = profile.window();
    let thread = profile.lock().labels(&[Label { key: "t", value: LabelValue::Number(1) }]);
    for address in 100..200 {
        profile.lock().record(stack(&[address]), thread, NONE[1], &[1, 0]);
    }
    let statistics = tables.statistics();
    assert_eq!((statistics.dropped, statistics.refused_stacks), (0, 92), "{statistics:?}");
    let mut labelled = 0;
    window.for_each(WriteOptions::default(), |sample| labelled += sample.labels().count());
    assert_eq!(labelled, 9, "the overflow too says of which thread");
    for address in 300..303 {
        profile.lock().record(stack(&[address]), thread, NONE[1], &[1, 0]);
    }
    assert!(tables.statistics().dropped >= 3, "{:?}", tables.statistics());
    assert_eq!(by_root(&mut window).len(), 3);
}

#[test]
fn labels_are_bounded_and_tell_when_they_are_gone() {
    let (tables, profile) = profile(Limits { stacks: 100, bytes: 1 << 20, labels: 4 });
    // What it has not seen is not dropped for labels either.
    let mut unread = profile.window();
    let mut recording = profile.lock();
    let first = recording.labels(&number(0));
    let used: Vec<_> = (1..4).map(|value| recording.labels(&number(value))).collect();
    for &thread in &used {
        recording.record(stack(&[1]), thread, NONE[1], &[1, 0]);
    }
    let new = recording.labels(&number(4));
    assert!(recording.has_labels(new) && !recording.has_labels(first));
    recording.record(stack(&[1]), new, first, &[1, 0]);
    let overflow = recording.labels(&number(5));
    recording.record(stack(&[1]), overflow, NONE[1], &[1, 0]);
    drop(recording);
    let statistics = tables.statistics();
    assert_eq!(
        (statistics.labels, statistics.refused_labels, statistics.stale_labels),
        (4, 1, 1),
        "{statistics:?}"
    );
    let mut labels = Vec::new();
    profile.total().for_each(WriteOptions::default(), |sample| {
        labels.extend(sample.labels().map(|label| format!("{}={:?}", label.key, label.value)));
    });
    let expected = ["t=Number(1)", "t=Number(2)", "t=Number(3)", "t=Number(4)"];
    assert_eq!(labels[..4], expected);
    assert_eq!(labels[4..], ["labels=Text(\"[overflow]\")"]);
    assert!(!profile.lock().has_labels(overflow), "who kept it asks again");
    by_root(&mut unread);
    let mut recording = profile.lock();
    let again = recording.labels(&number(5));
    assert!(recording.has_labels(again), "what was read made room");
}

/// Threads that live for a sample each, far more than there may be sets of labels.
#[test]
fn labels_of_threads_that_ended_make_room() {
    let (tables, profile) = profile(Limits::default());
    let mut window = profile.window();
    // Has no labels, so that nothing is won by dropping it.
    profile.lock().record(stack(&[2]), NONE[0], NONE[1], &[1, 0]);
    let scope = profile.lock().labels(&number(-1));
    for thread in 0..20_000 {
        let mut recording = profile.lock();
        assert!(thread == 0 || recording.has_labels(scope), "{thread}");
        let labels = recording.labels(&number(thread));
        recording.record(stack(&[1]), labels, scope, &[1, 0]);
        drop(recording);
        if thread % 100 == 99 {
            let mut seen = Vec::new();
            window.for_each(WriteOptions::default(), |sample| {
                seen.extend(sample.labels().map(|label| label.value).next().and_then(numbered));
            });
            seen.sort_unstable();
            assert!(seen.into_iter().eq(thread - 99..=thread), "{thread}");
        }
    }
    let statistics = tables.statistics();
    assert_eq!((statistics.refused_labels, statistics.stale_labels), (0, 0), "{statistics:?}");
    assert!(statistics.labels <= Limits::default().labels && statistics.dropped > 11_000);
    let total = by_root(&mut profile.total());
    assert_eq!(total["2"], 1, "what has no labels stays");
    assert_eq!(total["1"] + total["[dropped]"], 20_000);
}

/// New stacks find room as soon as there are idle ones, also in the hand's first lap.
#[test]
fn idle_stacks_make_room_at_once() {
    let (tables, profile) = profile(Limits::default());
    let mut window = profile.window();
    let limit = Limits::default().stacks as u64;
    for address in 0..limit - 2 {
        profile.lock().record(stack(&[address]), NONE[0], NONE[1], &[1, 0]);
    }
    by_root(&mut window);
    for address in limit..limit + 100 {
        profile.lock().record(stack(&[address]), NONE[0], NONE[1], &[1, 0]);
    }
    let statistics = tables.statistics();
    assert_eq!((statistics.refused_stacks, statistics.dropped), (0, 100), "{statistics:?}");
    assert_eq!(by_root(&mut window).len(), 100);
}

/// Bytes are bounded by dropping as well, and what is counted follows what is there.
#[test]
fn bytes_stay_below_their_bound() {
    let limits = Limits { stacks: 1 << 20, bytes: 200_000, labels: 10 };
    let (tables, profile) = profile(limits);
    for seed in 0..1_000u64 {
        let addresses: Vec<u64> = (0..100).map(|depth| seed * 100 + depth).collect();
        profile.lock().record(stack(&addresses), NONE[0], NONE[1], &[1, 0]);
        let bytes = tables.statistics().bytes;
        assert!(bytes < 220_000, "{bytes} after {seed}");
    }
    assert_eq!(tables.statistics().refused_stacks, 0);
}

struct Numbers;

impl Symbolize for Numbers {
    fn symbolize(
        &mut self,
        address: u64,
        mapping: Option<&Mapping>,
        found: &mut dyn FnMut(Symbol<'_>),
    ) {
        let name = format!("{}+{address}", mapping.map_or("none", |mapping| &mapping.file));
        found(Symbol { name: &name, ..Symbol::default() });
    }
}

/// Names of the frames of all samples, and the files of all mappings.
fn names(window: &mut Window) -> (Vec<String>, Vec<String>) {
    let options = WriteOptions { symbolizer: Some(&mut Numbers), ..WriteOptions::default() };
    let bytes = window.write(options, Vec::new(), |mut all, chunk| {
        all.extend_from_slice(chunk);
        all
    });
    let document = Document::read(&bytes).unwrap();
    let frames = document.samples().flat_map(|sample| document.frames(sample.locations));
    let function = |frame: wire::pprof::Frame<'_, '_>| frame.function.expect("all are named").name;
    let names = frames.map(|frame| document.text(function(frame)).into_owned()).collect();
    let files = document.mappings().iter();
    (names, files.map(|mapping| document.text(mapping.filename).into_owned()).collect())
}

#[test]
fn mappings_come_and_go() {
    let (tables, profile) = profile(Limits { stacks: 100, bytes: 1 << 20, labels: 10 });
    let mapping = |file: &str, start| Mapping {
        start,
        limit: start + 100,
        offset: 0,
        file: file.to_owned(),
        build_id: String::new(),
    };
    let main = mapping("main", 1000);
    tables.set_mappings(vec![main.clone()], false);
    let mut window = profile.window();
    let record = || profile.lock().record(stack(&[2001, 1001]), NONE[0], NONE[1], &[1, 0]);
    record();
    // A library whose code was sampled before it was known.
    tables.set_mappings(vec![main.clone(), mapping("old", 2000)], false);
    let both = |library: &str| vec![format!("{library}+2001"), "main+1001".to_owned()];
    assert_eq!(names(&mut window).0, both("old"));
    // Another one in its place.
    tables.set_mappings(vec![main, mapping("new", 2000)], true);
    record();
    let (found, files) = names(&mut window);
    assert_eq!(found, both("new"), "what was known is not matched");
    assert_eq!(files, ["main", "new"]);
    let (found, files) = names(&mut profile.total());
    assert_eq!(found, [both("old"), both("new")].concat(), "what is older keeps its meaning");
    assert_eq!(files, ["main", "old", "new"]);
}

/// Libraries that come and go leave nothing behind that nothing refers to, and who stays is not written twice.
#[test]
fn mappings_are_kept_once_and_as_long_as_they_are_used() {
    let (tables, profile) = profile(Limits { stacks: 1000, bytes: 1 << 20, labels: 10 });
    // Beginning at the same place: of other lengths, other files.
    let mapping = |number: u64| Mapping {
        start: 1000 * (number / 4),
        limit: 1000 * (number / 4) + 100 + number % 2,
        offset: 0,
        file: format!("lib{}", number / 2),
        build_id: String::new(),
    };
    let mut window = profile.window();
    let mut texts = 0;
    for round in 0..50 {
        // One of those at each place, in another order each time.
        let places = (0..20).map(|place| (place * 7 + round) % 20);
        let current: Vec<_> =
            places.map(|place| mapping(place * 4 + (place + round / 10) % 4)).collect();
        tables.set_mappings(current, round % 10 == 0);
        for place in [3, 5] {
            profile.lock().record(stack(&[place * 1000]), NONE[0], NONE[1], &[1, 0]);
        }
        texts = texts.max(tables.statistics().strings);
    }
    let mut files = BTreeMap::new();
    window.for_each(WriteOptions::default(), |sample| {
        let mapping = sample.frames().next().and_then(|frame| frame.mapping.cloned()).unwrap();
        *files.entry((mapping.start, mapping.file, mapping.limit)).or_insert(0) +=
            sample.values()[0];
    });
    // Four mappings at each of two places in turn, the first of them twice.
    assert_eq!(files.values().sum::<i64>(), 100);
    assert_eq!(files.values().filter(|&&count| count == 20).count(), 2, "{files:?}");
    assert_eq!(files.values().filter(|&&count| count == 10).count(), 6, "{files:?}");
    let (_, written) = names(&mut profile.total());
    assert_eq!(written.len(), 9, "with the program's own: {written:?}");
    // Those in use, those of before in use, and the names of columns and frames without code.
    assert!(texts < 20 + 8 + 10, "{texts}");
}

/// Names addresses by what was said when they were announced, as whoever reads each file once does.
#[derive(Default)]
struct Announced {
    files: BTreeMap<u64, String>,
}

impl Symbolize for Announced {
    fn prepare(&mut self, addresses: &[u64], mappings: &[Mapping]) {
        self.files.clear();
        for &address in addresses {
            let is_in = |mapping: &&Mapping| (mapping.start..mapping.limit).contains(&address);
            let file = mappings.iter().find(is_in).map_or("none", |mapping| &mapping.file);
            self.files.insert(address, file.to_owned());
        }
    }

    fn symbolize(
        &mut self,
        address: u64,
        _mapping: Option<&Mapping>,
        found: &mut dyn FnMut(Symbol<'_>),
    ) {
        let file = self.files.get(&address).expect("what is asked for was announced");
        found(Symbol { name: file, ..Symbol::default() });
    }
}

#[test]
fn a_library_in_the_place_of_another_has_its_own_names() {
    let (tables, profile) = profile(Limits { stacks: 100, bytes: 1 << 20, labels: 10 });
    let mapping = |file: &str, limit| Mapping {
        start: 2000,
        limit,
        offset: 0,
        file: file.to_owned(),
        build_id: String::new(),
    };
    let mut window = profile.window();
    for (file, limit) in [("old", 2100), ("new", 2200), ("newest", 2050)] {
        tables.set_mappings(vec![mapping(file, limit)], true);
        profile.lock().record(stack(&[2150, 2001]), NONE[0], NONE[1], &[1, 0]);
    }
    let mut announced = Announced::default();
    let options = WriteOptions { symbolizer: Some(&mut announced), ..WriteOptions::default() };
    let mut found = Vec::new();
    window.for_each(options, |sample| {
        found.extend(sample.frames().map(|frame| frame.symbol.name.to_owned()));
    });
    assert_eq!(found, ["none", "old", "new", "new", "none", "newest"]);
}

/// A stack that is more than a chunk, and samples and strings around the chunks' borders.
#[test]
fn chunks_are_bounded_and_written_without_the_lock() {
    let (tables, profile) = profile(Limits { stacks: 10_000, bytes: 1 << 30, labels: 10 });
    let mut window = profile.window();
    let deep: Vec<u64> = (0..40_000).collect();
    for depth in [40_000, 1, 500, 15_000, 14_500].into_iter().chain(0..700) {
        profile.lock().record(stack(&deep[..depth]), NONE[0], NONE[1], &[1, 0]);
    }
    let options = WriteOptions { symbolizer: Some(&mut Numbers), ..WriteOptions::default() };
    let mut chunks = 0;
    let bytes = window.write(options, Vec::new(), |mut all, chunk| {
        assert!(!chunk.is_empty() && chunk.len() <= 64 * 1024, "{}", chunk.len());
        chunks += 1;
        // Would wait for ever if the lock were held. It is of the next window.
        profile.lock().record(stack(&[1 << 40]), NONE[0], NONE[1], &[1, 0]);
        all.extend_from_slice(chunk);
        all
    });
    let document = Document::read(&bytes).unwrap();
    let total = |document: &Document<'_>| -> i64 {
        document.samples().map(|sample| sample.values.clone().next().unwrap()).sum()
    };
    assert_eq!(total(&document), 705);
    assert!(chunks > 15, "{chunks}");
    assert_eq!(by_root(&mut window), BTreeMap::from([((1u64 << 40).to_string(), chunks)]));
    assert_eq!(tables.statistics().refused_stacks, 0);
}
