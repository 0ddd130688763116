//! Recording known stacks and writing them again allocates nothing, reallocates nothing and frees nothing.

use profiler::profile::{
    Label, LabelValue, LabelsId, Limits, Mapping, Profile, Stack, Symbol, Symbolize, Tables,
    ValueType, WriteOptions,
};
use profiler::unwind::End;
use testkit::allocations::{Count, Counting, count};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

const COLUMNS: [ValueType; 2] =
    [ValueType { kind: "samples", unit: "count" }, ValueType { kind: "wall", unit: "nanoseconds" }];

struct Names;

impl Symbolize for Names {
    fn symbolize(
        &mut self,
        address: u64,
        _mapping: Option<&Mapping>,
        found: &mut dyn FnMut(Symbol<'_>),
    ) {
        let name = format!("function {address}");
        found(Symbol { name: &name, file: "main.rs", line: 1, ..Symbol::default() });
    }
}

fn record(profile: &Profile, stacks: &[Vec<u64>]) {
    for (index, stack) in stacks.iter().enumerate() {
        let mut recording = profile.lock();
        let thread = recording
            .labels(&[Label { key: "thread id", value: LabelValue::Number(index as i64 % 7) }]);
        let scope = recording.labels(&[Label { key: "endpoint", value: LabelValue::Text("/a") }]);
        let stack = Stack { addresses: stack, end: End::Root };
        let entry = recording.record(stack, thread, scope, &[1, 10]);
        recording.record(stack, LabelsId::default(), scope, &[1, 10]);
        assert!(recording.add(entry, &[0, 5]));
    }
}

#[test]
fn known_stacks_cost_no_memory() {
    let tables = Tables::new(Limits { stacks: 1000, bytes: 10 << 20, labels: 100 });
    let mapping = Mapping {
        start: 0x1000,
        limit: 0x9000,
        offset: 0,
        file: "/bin/main".to_owned(),
        build_id: "abc".to_owned(),
    };
    tables.set_mappings(vec![mapping], false);
    let profile = Profile::new(&tables, &COLUMNS, 1, COLUMNS[1], 10_000_000);
    let mut window = profile.window();
    let stacks: Vec<Vec<u64>> = (0..500)
        .map(|seed| (0..200).map(|depth| 0x1000 + (seed * 7 + depth * 13) % 5000).collect())
        .collect();
    let write = |window: &mut profiler::profile::Window, named: bool| {
        let mut names = Names;
        let options = WriteOptions {
            symbolizer: if named { Some(&mut names) } else { None },
            comments: &["a comment"],
            ..WriteOptions::default()
        };
        window.write(options, 0, |bytes, chunk| bytes + chunk.len())
    };
    record(&profile, &stacks);
    let bytes = write(&mut window, true);
    assert!(bytes > 3 * 64 * 1024, "some chunks: {bytes} bytes");
    for named in [true, false] {
        let recorded = count(|| record(&profile, &stacks));
        assert_eq!(recorded, Count::default(), "recording known stacks");
        let mut again = 0;
        let written = count(|| again = write(&mut window, named));
        assert_eq!(written, Count::default(), "writing known stacks, named: {named}");
        assert_eq!(again == bytes, named);
    }
    // A part of them, and nothing at all.
    for part in [250, 0] {
        record(&profile, &stacks[..part]);
        let written = count(|| _ = write(&mut window, true));
        assert_eq!(written, Count::default(), "{part} stacks");
    }
}
