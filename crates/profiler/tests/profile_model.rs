//! Random recordings and readings beside a naive model: a map from names to sums.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use profiler::profile::{
    EntryId, Frame, Label, LabelValue, LabelsId, Limits, Mapping, Profile, Sample, Stack, Symbol,
    Symbolize, Tables, ValueType, Window, WriteOptions,
};
use profiler::unwind::End;
use proptest::prelude::*;
use wire::pprof::Document;

const COLUMNS: [ValueType; 2] = [
    ValueType { kind: "alloc_space", unit: "bytes" },
    ValueType { kind: "inuse_space", unit: "bytes" },
];
const ROOMY: Limits = Limits { stacks: 1 << 20, bytes: 1 << 30, labels: 1 << 20 };

type Sums = BTreeMap<String, [i64; 2]>;

/// Frames and labels as text, and what was added.
fn sums(window: &mut Window, symbolizer: &mut dyn Symbolize) -> Sums {
    let options = WriteOptions { symbolizer: Some(symbolizer), ..WriteOptions::default() };
    let bytes = window.write(options, Vec::new(), |mut all, chunk| {
        all.extend_from_slice(chunk);
        all
    });
    let document = Document::read(&bytes).expect("what we write can be read");
    let mut sums = Sums::new();
    for sample in document.samples() {
        let mut text = String::new();
        for frame in document.frames(sample.locations) {
            let function = frame.function.expect("all are named");
            text += &format!("{};", document.text(function.name));
        }
        for label in sample.labels {
            text += &format!("{:?},", document.text(label.key));
        }
        let values: Vec<i64> = sample.values.collect();
        let sum = sums.entry(text).or_default();
        (sum[0], sum[1]) = (sum[0] + values[0], sum[1] + values[1]);
    }
    sums
}

/// What an address means depends on when one asks.
struct Era<'a>(&'a str);

impl Symbolize for Era<'_> {
    fn symbolize(
        &mut self,
        address: u64,
        mapping: Option<&Mapping>,
        found: &mut dyn FnMut(Symbol<'_>),
    ) {
        let era = mapping.map_or(self.0, |mapping| &mapping.file);
        let name = format!("{era}{address}");
        found(Symbol { name: &name, ..Symbol::default() });
    }
}

#[derive(Clone, Debug)]
enum Step {
    Record { stack: usize, labels: usize, values: [i64; 2] },
    Add { entry: usize, values: [i64; 2] },
    Open { from_zero: bool },
    Write { window: usize },
    Close { window: usize },
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    let values = || (0..100i64, -50..50i64).prop_map(|(first, second)| [first, second]);
    prop_oneof![
        8 => (0..12usize, 0..4usize, values())
            .prop_map(|(stack, labels, values)| Step::Record { stack, labels, values }),
        3 => (0..64usize, values()).prop_map(|(entry, values)| Step::Add { entry, values }),
        1 => any::<bool>().prop_map(|from_zero| Step::Open { from_zero }),
        3 => (0..8usize).prop_map(|window| Step::Write { window }),
        1 => (0..8usize).prop_map(|window| Step::Close { window }),
        1 => Just(Step::Forget),
    ]
}

fn stack(number: usize) -> (Vec<u64>, End) {
    let depth = number as u64 % 5 + 1;
    let end = [End::Root, End::Truncated, End::Lost][number % 3];
    ((0..depth).map(|depth| 100 + depth * number as u64).collect(), end)
}

fn end_name(end: End) -> &'static str {
    match end {
        End::Root => "",
        End::Truncated => "[truncated];",
        End::Lost => "[lost];",
    }
}

/// Mappings of an era: everything is in one whose name tells the era.
fn era(number: usize) -> Mapping {
    let file = format!("era{number}-");
    Mapping { start: 0, limit: 1 << 40, offset: 0, file, build_id: String::new() }
}

/// Adds to a map, and leaves nothing that is zero.
fn add(sums: &mut Sums, key: &str, values: [i64; 2]) {
    let sum = sums.entry(key.to_owned()).or_default();
    (sum[0], sum[1]) = (sum[0] + values[0], sum[1] + values[1]);
}

struct Model {
    total: Sums,
    /// Of each open window, what is in it.
    windows: Vec<(Window, Sums)>,
    entries: Vec<(EntryId, String)>,
}

/// Runs the steps; the model's names are exact if nothing had to be dropped or refused.
fn run(limits: Limits, steps: &[Step], is_exact: bool) -> Result<(), TestCaseError> {
    let tables = Tables::new(limits);
    tables.set_mappings(vec![era(0)], false);
    let profile = Profile::new(&tables, &COLUMNS, 0, COLUMNS[0], 1);
    let (total, windows, entries) = Default::default();
    let mut model = Model { total, windows, entries };
    let mut eras = 0;
    let keys = ["a", "b", "c", "d"];
    for step in steps {
        match step {
            Step::Record { stack: number, labels, values } => {
                let (addresses, end) = stack(*number);
                let label = [Label { key: keys[*labels], value: LabelValue::Number(7) }];
                let mut name: String =
                    addresses.iter().map(|address| format!("era{eras}-{address};")).collect();
                name += &format!("{}{:?},", end_name(end), keys[*labels]);
                let mut recording = profile.lock();
                let scope = recording.labels(&label);
                let addresses = Stack { addresses: &addresses, end };
                let id = recording.record(addresses, LabelsId::default(), scope, values);
                drop(recording);
                model.add(&name, *values);
                model.entries.push((id, name));
            }
            Step::Add { entry, values } => {
                let count = model.entries.len().max(1);
                if let Some((id, name)) = model.entries.get(entry % count).cloned() {
                    let was_added = profile.lock().add(id, values);
                    prop_assert!(was_added || !is_exact);
                    if was_added {
                        model.add(&name, *values);
                    }
                }
            }
            Step::Open { from_zero } if model.windows.len() < 5 => {
                let window = if *from_zero { profile.total() } else { profile.window() };
                let sums = if *from_zero { model.total.clone() } else { Sums::new() };
                model.windows.push((window, sums));
            }
            Step::Write { window } => {
                let count = model.windows.len().max(1);
                if let Some((window, expected)) = model.windows.get_mut(window % count) {
                    check(sums(window, &mut Era("?")), std::mem::take(expected), is_exact)?;
                }
            }
            Step::Close { window } if !model.windows.is_empty() => {
                let place = window % model.windows.len();
                model.windows.swap_remove(place);
            }
            Step::Forget => {
                eras += 1;
                tables.set_mappings(vec![era(eras)], true);
            }
            _ => {}
        }
    }
    for (mut window, expected) in model.windows {
        check(sums(&mut window, &mut Era("?")), expected, is_exact)?;
    }
    check(sums(&mut profile.total(), &mut Era("?")), model.total, is_exact)?;
    drop(profile);
    let left = tables.statistics();
    prop_assert_eq!((left.entries, left.stacks, left.locations, left.functions), (0, 0, 0, 0));
    Ok(())
}

impl Model {
    fn add(&mut self, name: &str, values: [i64; 2]) {
        add(&mut self.total, name, values);
        for (_, sums) in &mut self.windows {
            add(sums, name, values);
        }
    }
}

/// Name by name, or, where stacks were dropped, their sums.
fn check(found: Sums, expected: Sums, is_exact: bool) -> Result<(), TestCaseError> {
    let shown = |sums: Sums| -> Sums {
        let mut shown = Sums::new();
        for (name, values) in sums {
            add(&mut shown, if is_exact { &name } else { "all" }, values);
        }
        shown.retain(|_, values| *values != [0, 0]);
        shown
    };
    prop_assert_eq!(shown(found), shown(expected));
    Ok(())
}

proptest! {
    #[test]
    fn windows_are_as_the_model_says(steps in prop::collection::vec(step(), 1..120)) {
        run(ROOMY, &steps, true)?;
    }

    #[test]
    fn totals_stay_true_beyond_the_bounds(
        steps in prop::collection::vec(step(), 1..120),
        stacks in 1..8usize,
        labels in 1..4usize,
        bytes in prop_oneof![Just(2_000usize), Just(4_000), Just(1 << 20)],
    ) {
        run(Limits { stacks, bytes, labels }, &steps, false)?;
    }
}

/// Everything in a window, by the names of the samples' outermost frames.
fn each(window: &mut Window, take: impl FnMut(Sample<'_>)) {
    window.for_each(WriteOptions::default(), take);
}

/// Recorders run while windows are written: every value is in exactly one writing of each window.
#[test]
fn what_comes_while_a_window_is_written_is_in_the_next() {
    const THREADS: usize = 3;
    const ROUNDS: usize = 400;
    // Fewer stacks than there are: some are dropped meanwhile.
    let tables = Tables::new(Limits { stacks: 150, bytes: 1 << 30, labels: 100 });
    let profile = Profile::new(&tables, &COLUMNS, 0, COLUMNS[0], 1);
    let (mut first, mut second) = (profile.window(), profile.window());
    let done = AtomicBool::new(false);
    let (mut in_first, mut in_second) = ([0; 2], [0; 2]);
    std::thread::scope(|scope| {
        let recorders: Vec<_> = (0..THREADS as u64)
            .map(|thread| {
                let profile = profile.clone();
                scope.spawn(move || {
                    for round in 0..ROUNDS as u64 {
                        for number in 0..20 {
                            // Stacks come and go.
                            let seed = thread * 1000 + (round / 8) * 10 + number;
                            let addresses: Vec<u64> =
                                (0..50).map(|depth| seed * 3 + depth).collect();
                            let stack = Stack { addresses: &addresses, end: End::Root };
                            let mut recording = profile.lock();
                            let labels =
                                [Label { key: "thread", value: LabelValue::Number(thread as i64) }];
                            let labels = recording.labels(&labels);
                            let entry =
                                recording.record(stack, labels, LabelsId::default(), &[1, 1]);
                            assert!(recording.add(entry, &[0, -1]));
                        }
                    }
                })
            })
            .collect();
        let writer = scope.spawn(|| {
            let mut writings = 0;
            loop {
                let last = done.load(Relaxed);
                for sum in sums(&mut first, &mut Era("?")).values() {
                    in_first[0] += sum[0];
                    in_first[1] += sum[1];
                }
                each(&mut second, |sample| {
                    in_second[0] += sample.values()[0];
                    in_second[1] += sample.values()[1];
                });
                writings += 1;
                if last {
                    return writings;
                }
            }
        });
        for recorder in recorders {
            recorder.join().unwrap();
        }
        done.store(true, Relaxed);
        assert!(writer.join().unwrap() > 1, "some were written meanwhile");
    });
    let total = (THREADS * ROUNDS * 20) as i64;
    assert_eq!((in_first, in_second), ([total, 0], [total, 0]));
    assert!(tables.statistics().dropped > 0, "stacks were dropped: {:?}", tables.statistics());
    let mut outer = BTreeMap::new();
    each(&mut profile.total(), |sample| {
        let frame: Option<Frame<'_>> = sample.frames().last();
        let name = frame.map_or("", |frame| frame.symbol.name).to_owned();
        *outer.entry(name).or_insert(0) += sample.values()[0];
    });
    assert_eq!(outer.values().sum::<i64>(), total, "what was dropped is in the total: {outer:?}");
}
