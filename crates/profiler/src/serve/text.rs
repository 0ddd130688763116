//! Profiles as text, for eyes: `debug=1` and `debug=2`.
//!
//! The lines that hold figures and addresses are those of Go's texts, which its tool reads as well; what
//! begins with `#` is for people.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::{self, Write};

use wire::pprof::{Document, LabelValue};

use super::query::{Debug, Kind};

/// What is handed on at once.
const CHUNK: usize = 32 << 10;

/// Names of threads that are listed for a stack.
const MOST_NAMES: usize = 12;

const TIMES: &[(&str, &str)] =
    &[("samples", "count"), ("wall", "nanoseconds"), ("cpu", "nanoseconds")];

/// Those of the kernel's events.
const CPU_TIMES: &[(&str, &str)] = &[("samples", "count"), ("cpu", "nanoseconds")];

/// Writes a profile as text: `give` takes it in chunks, until that wants no more.
pub(super) fn write(profile: &[u8], kind: Kind, debug: Debug, give: &mut dyn FnMut(&[u8]) -> bool) {
    let document = match Document::read(profile) {
        Ok(document) => document,
        // A fault of ours; it must be seen.
        Err(error) => {
            give(format!("the profile can't be read: {error}\n").as_bytes());
            return;
        }
    };
    let mut out = String::with_capacity(CHUNK * 2);
    if kind == Kind::Threads && debug == Debug::Single {
        each_thread(&document, &mut out, give);
    } else {
        grouped(&document, kind, &mut out, give);
    }
    if !out.is_empty() {
        give(out.as_bytes());
    }
}

/// Hands on what there is, if it is enough; says whether more is wanted.
fn hand_on(out: &mut String, give: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    if out.len() < CHUNK {
        return true;
    }
    let is_wanted = out.as_bytes().chunks(2 * CHUNK).all(&mut *give);
    out.clear();
    is_wanted
}

/// A stack, and what was measured at it on all threads together.
#[derive(Default)]
struct Group {
    /// Which sample has the stack.
    sample: usize,
    values: Vec<i64>,
    /// Labels other than those of threads.
    labels: String,
    names: Vec<String>,
}

fn grouped(
    document: &Document<'_>,
    kind: Kind,
    out: &mut String,
    give: &mut dyn FnMut(&[u8]) -> bool,
) {
    let figures = match kind {
        Kind::Cpu | Kind::Wall if document.sample_types().len() == 2 => Figures::Count(CPU_TIMES),
        Kind::Cpu | Kind::Wall => Figures::Count(TIMES),
        Kind::Heap | Kind::Allocs => Figures::Heap,
        Kind::Threads => Figures::Count(&[("threads", "count")]),
    };
    let mut groups: HashMap<(Vec<u64>, String), Group> = HashMap::new();
    for (index, sample) in document.samples().enumerate() {
        let mut labels = String::new();
        let mut name = None;
        for label in sample.labels.clone() {
            let key = document.text(label.key);
            match (&*key, label.value) {
                ("thread name", LabelValue::Text(text)) => name = Some(document.text(text)),
                ("thread id", _) => {}
                (_, value) => {
                    let comma = if labels.is_empty() { "" } else { ", " };
                    let _ = match value {
                        LabelValue::Text(text) => {
                            write!(labels, "{comma}{key}={:?}", document.text(text))
                        }
                        LabelValue::Number { value, .. } => write!(labels, "{comma}{key}={value}"),
                    };
                }
            }
        }
        let stack: Vec<u64> = sample.locations.clone().map(|id| id.0).collect();
        let fresh = || Group { sample: index, labels: labels.clone(), ..Group::default() };
        let group = groups.entry((stack, labels.clone())).or_insert_with(fresh);
        group.values.resize(document.sample_types().len(), 0);
        for (sum, value) in group.values.iter_mut().zip(sample.values.clone()) {
            *sum = sum.wrapping_add(value);
        }
        if let Some(name) = name
            && kind == Kind::Threads
        {
            group.names.push(name.into_owned());
        }
    }
    let column = document.default_column();
    let mut groups: Vec<Group> = groups.into_values().collect();
    // The largest first; what is equal in the order of the profile.
    groups.sort_unstable_by_key(|group| (std::cmp::Reverse(group.values[column]), group.sample));
    let mut total = vec![0_i64; document.sample_types().len()];
    for group in &groups {
        total
            .iter_mut()
            .zip(&group.values)
            .for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
    }
    head(out, if kind == Kind::Cpu { "cpu" } else { kind.name() }, figures, &total);
    let samples: Vec<_> = document.samples().collect();
    for mut group in groups {
        let names: Vec<_> = names_of(document, samples[group.sample].locations.clone());
        let calls: Vec<_> = names.iter().map(Named::call).collect();
        group.names.sort_unstable();
        let entry_of = Entry { values: &group.values, labels: &group.labels, calls: &calls };
        entry(out, figures, &entry_of, &listed(&group.names));
        if !hand_on(out, give) {
            out.clear();
            return;
        }
    }
}

/// Names, each once with how often it is there, as many as there is room for.
fn listed(names: &[String]) -> String {
    let mut text = String::new();
    for (index, same) in names.chunk_by(|a, b| a == b).enumerate() {
        if index == MOST_NAMES {
            text.push_str(", …");
            break;
        }
        let comma = if index > 0 { ", " } else { "" };
        let _ = match same.len() {
            1 => write!(text, "{comma}{}", same[0]),
            count => write!(text, "{comma}{} ×{count}", same[0]),
        };
    }
    text
}

fn each_thread(document: &Document<'_>, out: &mut String, give: &mut dyn FnMut(&[u8]) -> bool) {
    for sample in document.samples() {
        let (mut id, mut label, mut state) = (0, Cow::Borrowed(""), Cow::Borrowed("unknown"));
        for found in sample.labels.clone() {
            match (&*document.text(found.key), found.value) {
                ("thread id", LabelValue::Number { value, .. }) => id = value,
                ("thread name", LabelValue::Text(text)) => label = document.text(text),
                ("state", LabelValue::Text(text)) => state = document.text(text),
                _ => {}
            }
        }
        let names = names_of(document, sample.locations.clone());
        let calls: Vec<_> = names.iter().map(Named::call).collect();
        let count = sample.values.clone().next().unwrap_or(1);
        thread(out, &Thread { id, label: &label, state: &state, count, calls: &calls });
        if !hand_on(out, give) {
            out.clear();
            return;
        }
    }
}

/// A call with the texts it refers to.
struct Named<'a> {
    address: u64,
    name: Cow<'a, str>,
    file: Cow<'a, str>,
    line: u32,
    is_inlined: bool,
}

impl Named<'_> {
    fn call(&self) -> Call<'_> {
        let Named { address, line, is_inlined, .. } = *self;
        Call { address, name: &self.name, file: &self.file, line, is_inlined }
    }
}

fn names_of<'a>(
    document: &Document<'a>,
    locations: wire::pprof::LocationIds<'a>,
) -> Vec<Named<'a>> {
    let named = |frame: wire::pprof::Frame<'_, 'a>| {
        let (name, file) = match frame.function {
            Some(function) => (document.text(function.name), document.text(function.filename)),
            // Where names were left out, the file that they are to be found in.
            None => (
                Cow::Borrowed(""),
                frame.mapping.map(|m| document.text(m.filename)).unwrap_or_default(),
            ),
        };
        let line = u32::try_from(frame.line).unwrap_or(0);
        let (address, is_inlined) = (frame.location.address, frame.is_inlined);
        Named { address, name, file, line, is_inlined }
    };
    document.frames(locations).map(named).collect()
}

/// A function that an address stands for, and a place in it.
#[derive(Clone, Copy, Debug, Default)]
struct Call<'a> {
    address: u64,
    name: &'a str,
    file: &'a str,
    line: u32,
    /// Into the next call.
    is_inlined: bool,
}

/// A stack with its figures.
struct Entry<'a> {
    values: &'a [i64],
    /// `key="value"`, separated by commas; empty without labels.
    labels: &'a str,
    /// Innermost first.
    calls: &'a [Call<'a>],
}

/// How figures are put in front of the addresses.
#[derive(Clone, Copy, Debug)]
enum Figures {
    /// The first one, as Go has it for goroutines. The others follow in a line of their own, with these names
    /// and units.
    Count(&'static [(&'static str, &'static str)]),
    /// `in use objects: bytes [all objects: bytes]`, as Go has it for the heap; values come in the order
    /// alloc_objects, alloc_space, inuse_objects, inuse_space. They stand for all allocations, where Go's
    /// are those of samples: the head says so, and tools leave them as they are.
    Heap,
}

/// The first line of a text: which profile, and its sums.
fn head(out: &mut String, name: &str, figures: Figures, total: &[i64]) {
    let at = |index: usize| total.get(index).copied().unwrap_or(0);
    // Writing to a String never fails.
    let _ = match figures {
        Figures::Count(names) => {
            let _ = writeln!(out, "{name} profile: total {}", at(0));
            measures(out, names, total)
        }
        Figures::Heap => {
            let (objects, bytes) = (at(2), at(3));
            writeln!(out, "heap profile: {objects}: {bytes} [{}: {}] @ heapprofile", at(0), at(1))
        }
    };
}

/// A stack: figures, addresses, then a line for each call.
fn entry(out: &mut String, figures: Figures, entry: &Entry<'_>, threads: &str) {
    let at = |index: usize| entry.values.get(index).copied().unwrap_or(0);
    let _ = match figures {
        Figures::Count(_) => write!(out, "{} @", at(0)),
        Figures::Heap => write!(out, "{}: {} [{}: {}] @", at(2), at(3), at(0), at(1)),
    };
    // Functions that were inlined share the address of the one that they were inlined into. Equal addresses
    // alone do not say so: a function that calls itself returns to the same one each time.
    for call in entry.calls.iter().filter(|call| !call.is_inlined) {
        let _ = write!(out, " {:#x}", call.address);
    }
    out.push('\n');
    if !entry.labels.is_empty() {
        let _ = writeln!(out, "# labels: {{{}}}", entry.labels);
    }
    if !threads.is_empty() {
        let _ = writeln!(out, "# threads: {threads}");
    }
    if let Figures::Count(names) = figures {
        let _ = measures(out, names, entry.values);
    }
    for call in entry.calls {
        let _ = write!(out, "#\t{:#x}\t{}", call.address, name(call));
        if !call.file.is_empty() {
            let _ = write!(out, "\t{}:{}", call.file, call.line);
        }
        out.push('\n');
    }
    out.push('\n');
}

struct Thread<'a> {
    id: i64,
    label: &'a str,
    state: &'a str,
    /// More than one where there was no room for the labels that tell them apart.
    count: i64,
    /// Innermost first.
    calls: &'a [Call<'a>],
}

/// A thread for itself, as Go writes goroutines.
fn thread(out: &mut String, thread: &Thread<'_>) {
    let Thread { id, label, state, count, calls } = *thread;
    let _ = match count {
        ..=1 => writeln!(out, "thread {id} {label:?} [{state}]:"),
        _ => writeln!(out, "threads without labels ×{count}:"),
    };
    for call in calls {
        let _ = writeln!(out, "{}", name(call));
        let _ = match call.file {
            "" => writeln!(out, "\t{:#x}", call.address),
            file => writeln!(out, "\t{file}:{} {:#x}", call.line, call.address),
        };
    }
    out.push('\n');
}

fn name<'c>(call: &Call<'c>) -> &'c str {
    if call.name.is_empty() { "?" } else { call.name }
}

/// The figures behind the first, with their units.
fn measures(
    out: &mut String,
    names: &[(&'static str, &'static str)],
    values: &[i64],
) -> fmt::Result {
    let others = || names.iter().zip(values).skip(1);
    if others().next().is_none() {
        return Ok(());
    }
    out.push('#');
    for (index, ((name, unit), &value)) in others().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        match *unit {
            "nanoseconds" => write!(out, "{comma} {name} {:.3} s", value as f64 / 1e9)?,
            _ => write!(out, "{comma} {name} {value} {unit}")?,
        }
    }
    out.write_char('\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS: [Call<'static>; 3] = [
        Call { address: 0x10, name: "inlined", file: "a.rs", line: 1, is_inlined: true },
        Call { address: 0x10, name: "outer", file: "a.rs", line: 7, is_inlined: false },
        Call { address: 0x2f, name: "", file: "", line: 0, is_inlined: false },
    ];

    #[test]
    fn functions_that_call_themselves_are_there_each_time() {
        let call = |address, is_inlined| Call { address, is_inlined, ..Call::default() };
        for (calls, expected) in [
            // Direct recursion; with something inlined in each call; frames that stand for no address.
            (&[call(1, false), call(1, false), call(2, false)][..], "0x1 0x1 0x2"),
            (&[call(1, true), call(1, false), call(1, true), call(1, false)], "0x1 0x1"),
            (&[call(0, false), call(0, false)], "0x0 0x0"),
        ] {
            let mut out = String::new();
            let it = Entry { values: &[1], labels: "", calls };
            entry(&mut out, Figures::Count(&[]), &it, "");
            let line = out.lines().next().unwrap();
            assert_eq!(line, format!("1 @ {expected}"));
        }
    }

    #[test]
    fn texts_are_gos_with_words_for_people() {
        for (figures, values, expected) in [
            (
                Figures::Count(TIMES),
                &[3, 1_500_000_000, 20_000_000][..],
                "x profile: total 3\n# wall 1.500 s, cpu 0.020 s\n\
                 3 @ 0x10 0x2f\n# labels: {a=\"b\"}\n# wall 1.500 s, cpu 0.020 s\n\
                 #\t0x10\tinlined\ta.rs:1\n#\t0x10\touter\ta.rs:7\n#\t0x2f\t?\n\n",
            ),
            (
                Figures::Count(&[("threads", "count")]),
                &[3],
                "x profile: total 3\n3 @ 0x10 0x2f\n# labels: {a=\"b\"}\n\
                 #\t0x10\tinlined\ta.rs:1\n#\t0x10\touter\ta.rs:7\n#\t0x2f\t?\n\n",
            ),
            (
                Figures::Heap,
                &[4, 400, 1, 100],
                "heap profile: 1: 100 [4: 400] @ heapprofile\n1: 100 [4: 400] @ 0x10 0x2f\n\
                 # labels: {a=\"b\"}\n\
                 #\t0x10\tinlined\ta.rs:1\n#\t0x10\touter\ta.rs:7\n#\t0x2f\t?\n\n",
            ),
        ] {
            let mut out = String::new();
            head(&mut out, "x", figures, values);
            entry(&mut out, figures, &Entry { values, labels: "a=\"b\"", calls: &CALLS }, "");
            assert_eq!(out, expected);
        }
        for (count, head) in
            [(1, "thread 17 \"a \\\"b\\\"\" [running]:"), (3, "threads without labels ×3:")]
        {
            let mut out = String::new();
            let it = Thread { id: 17, label: "a \"b\"", state: "running", count, calls: &CALLS };
            thread(&mut out, &it);
            let calls = "inlined\n\ta.rs:1 0x10\nouter\n\ta.rs:7 0x10\n?\n\t0x2f\n\n";
            assert_eq!(out, format!("{head}\n{calls}"));
        }
    }
}
