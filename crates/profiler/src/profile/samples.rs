//! Reading a window in the program itself, for those who write it in a form of their own.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::locations::Symbols;
use super::names::{NameId, Names};
use super::stacks::ids;
use super::tables::State;
use super::{Label, LabelValue, Mapping, Symbol, Window, WriteOptions, symbolize};

/// How many stacks are marked with the lock held, at most.
const HELD: usize = 64;

/// An entry of a window: a stack, labels, and what was added.
#[derive(Clone, Copy)]
pub struct Sample<'a> {
    copy: &'a Taken,
    values: &'a [i64],
}

/// A call. Those inlined at an address come as calls of their own.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The address; a pseudo one for a frame without code.
    pub address: u64,
    /// What the address is in.
    pub mapping: Option<&'a Mapping>,
    /// The function; its name is empty if nobody knows it.
    pub symbol: Symbol<'a>,
}

impl<'a> Sample<'a> {
    /// What was added, column by column.
    pub fn values(&self) -> &'a [i64] {
        self.values
    }

    /// The calls, innermost first.
    pub fn frames(&self) -> impl Iterator<Item = Frame<'a>> + use<'a> {
        let copy = self.copy;
        copy.frames.iter().map(|frame| Frame {
            address: frame.address,
            mapping: frame.mapping.as_deref(),
            symbol: Symbol {
                name: &copy.text[frame.name.clone()],
                system_name: &copy.text[frame.system_name.clone()],
                file: &copy.text[frame.file.clone()],
                line: frame.line,
                start_line: frame.start_line,
            },
        })
    }

    /// The labels: the thread's, then the scope's.
    pub fn labels(&self) -> impl Iterator<Item = Label<'a>> + use<'a> {
        let copy = self.copy;
        copy.labels.iter().map(|(key, value)| Label {
            key: &copy.text[key.clone()],
            value: match value {
                Value::Text(text) => LabelValue::Text(&copy.text[text.clone()]),
                Value::Number(number) => LabelValue::Number(*number),
            },
        })
    }
}

impl fmt::Debug for Sample<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sample")
            .field("values", &self.values)
            .field("depth", &self.copy.frames.len())
            .finish_non_exhaustive()
    }
}

impl Window {
    /// Gives each entry to which something was added, and moves the window on, as
    /// [`write`](Window::write) does. Of the options, the symbolizer, `keep` and `label` matter. Nothing is locked
    /// while `each` runs. *Growth*; copies one entry at a time.
    pub fn for_each(&mut self, mut options: WriteOptions<'_>, mut each: impl FnMut(Sample<'_>)) {
        let look = self.begin(&options);
        if let Some(symbolizer) = options.symbolizer.take() {
            self.mark();
            symbolize::ask(&self.place.shared, &self.scratch.locations, symbolizer);
        }
        let mut copy = Taken::default();
        for at in 0..self.scratch.changed.len() {
            let index = self.scratch.changed[at];
            self.delta(index);
            copy.take(&self.place.shared.lock(), self.place.index, index);
            each(Sample { copy: &copy, values: &self.scratch.delta });
        }
        self.finish(look);
    }

    /// Marks what all entries use.
    fn mark(&mut self) {
        for at in (0..self.scratch.changed.len()).step_by(HELD) {
            let state = self.place.shared.lock();
            let entries = state.profile(self.place.index);
            for at in at..self.scratch.changed.len().min(at + HELD) {
                let stack = entries.entry(self.scratch.changed[at]).stack;
                self.scratch.mark_stack(&state, stack);
            }
        }
    }
}

/// An entry taken out of the tables.
#[derive(Default)]
struct Taken {
    text: String,
    frames: Vec<FrameCopy>,
    labels: Vec<(Range<usize>, Value)>,
}

struct FrameCopy {
    address: u64,
    mapping: Option<Arc<Mapping>>,
    name: Range<usize>,
    system_name: Range<usize>,
    file: Range<usize>,
    line: u32,
    start_line: u32,
}

enum Value {
    Text(Range<usize>),
    Number(i64),
}

impl Taken {
    fn take(&mut self, state: &State, profile: u32, entry: u32) {
        self.text.clear();
        self.frames.clear();
        self.labels.clear();
        let entry = state.profile(profile).entry(entry);
        for id in ids(state.stacks.packed(entry.stack)) {
            self.location(state, id);
        }
        for labels in [entry.thread, entry.scope] {
            for label in state.labels.labels(labels) {
                let key = self.put(label.key);
                let value = match label.value {
                    LabelValue::Text(text) => Value::Text(self.put(text)),
                    LabelValue::Number(number) => Value::Number(number),
                };
                self.labels.push((key, value));
            }
        }
    }

    fn location(&mut self, state: &State, id: super::locations::LocationId) {
        let locations = &state.locations;
        let location = locations.get(id);
        let mapping = locations.mappings.get(location.mapping);
        let names = &locations.names;
        for line in &location.lines {
            let function = *locations.function_of(line.function);
            let frame = FrameCopy {
                address: location.address,
                mapping: mapping.cloned(),
                name: self.name(names, function.name),
                system_name: self.name(names, function.system_name),
                file: self.name(names, function.file),
                line: line.line,
                start_line: function.start_line,
            };
            self.frames.push(frame);
        }
        if location.lines.is_empty() {
            debug_assert_ne!(location.symbols, Symbols::Pseudo);
            self.frames.push(FrameCopy {
                address: location.address,
                mapping: mapping.cloned(),
                name: 0..0,
                system_name: 0..0,
                file: 0..0,
                line: 0,
                start_line: 0,
            });
        }
    }

    fn name(&mut self, names: &Names, id: NameId) -> Range<usize> {
        self.put(names.text(id))
    }

    fn put(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }
}
