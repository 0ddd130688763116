//! Writing a window in the format of pprof.
//!
//! 1. The rows are copied; those that changed and are wanted, by what changed and by label, are listed. Nothing is locked from here on but
//!    to fill one chunk at a time.
//! 2. The samples, copied from their encoded stacks and labels. What they use is marked.
//! 3. Locations that nobody asked for yet are asked for, without the lock.
//! 4. The locations that are used, then the functions these use, then the mappings.
//! 5. The strings. Labels' and columns' stand at the places that their ids say, because labels are written
//!    as they are kept: one that is not used is written empty, at two bytes. There are few of them. Those
//!    of functions, which are many, follow, only the used ones, without gaps.
//!
//! Ids of locations and mappings have gaps, which Go's reader and the tools accept: stacks are then the same
//! bytes in every profile. Those of functions have none, because a tool that finds names by itself numbers
//! them from behind the last.

use std::convert::Infallible;

use wire::pprof::{self, EncodedSample, StringId, Writer};
use wire::protobuf::CHUNK;

use super::locations::{FunctionId, LocationId, Symbols};
use super::mappings::MappingId;
use super::marks::{Marks, Places};
use super::names::NameId;
use super::stacks::ids;
use super::tables::State;
use super::{Label, LabelValue, Symbolize, Window, symbolize};

/// How many samples, locations or strings are written with the lock held, at most.
const HELD: usize = 256;

/// What to write of a window, and how.
pub struct WriteOptions<'a> {
    /// When the window was opened, in nanoseconds since 1970.
    pub time_nanos: i64,
    /// How long it was open.
    pub duration_nanos: i64,
    /// Who names functions. Without one, addresses are left to be looked up by the mappings' build ids.
    pub symbolizer: Option<&'a mut (dyn Symbolize + 'a)>,
    /// Which entries are written, by what was added to their values. Those to which nothing was added never
    /// are. What is not kept counts as seen all the same.
    pub keep: fn(&[i64]) -> bool,
    /// Which entries are written, by one of their labels; all without this. What is left out counts as seen,
    /// and nobody is asked for its names.
    pub label: Option<Wanted<'a>>,
    /// The column that is shown first, if not the profile's default.
    pub default: Option<usize>,
    /// Texts for people to read.
    pub comments: &'a [&'a str],
}

/// What an entry has to have for a label, of the thread's or the scope's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// Its key.
    pub key: &'a str,
    /// Its text; none for entries that have no label with this key.
    pub text: Option<&'a str>,
}

impl Wanted<'_> {
    fn is_met<'l>(&self, mut labels: impl Iterator<Item = Label<'l>>) -> bool {
        match (labels.find(|label| label.key == self.key), self.text) {
            (Some(label), Some(text)) => label.value == LabelValue::Text(text),
            (found, text) => found.is_none() && text.is_none(),
        }
    }
}

impl Default for WriteOptions<'_> {
    fn default() -> Self {
        WriteOptions {
            time_nanos: 0,
            duration_nanos: 0,
            symbolizer: None,
            keep: |_| true,
            label: None,
            default: None,
            comments: &[],
        }
    }
}

impl std::fmt::Debug for WriteOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteOptions")
            .field("time_nanos", &self.time_nanos)
            .field("duration_nanos", &self.duration_nanos)
            .field("has_symbolizer", &self.symbolizer.is_some())
            .field("label", &self.label)
            .field("default", &self.default)
            .field("comments", &self.comments)
            .finish_non_exhaustive()
    }
}

/// What writing needs, kept for the next time.
#[derive(Default)]
pub(super) struct Scratch {
    /// The entries that are written.
    pub(super) changed: Vec<u32>,
    /// A row's values.
    pub(super) delta: Vec<i64>,
    bytes: Vec<u8>,
    stacks: Marks,
    pub(super) locations: Marks,
    functions: Places,
    mappings: Marks,
    labels: Marks,
    label_names: Marks,
    names: Places,
    /// What the locations of each mapping have, by mapping.
    resolved: Vec<Resolved>,
}

/// When the rows were copied, and what is kept until they are written.
#[derive(Clone, Copy)]
pub(super) struct Look {
    clock: u32,
    main: MappingId,
}

/// Whether all used locations of a mapping have functions, files, lines.
#[derive(Clone, Copy)]
struct Resolved {
    functions: bool,
    files: bool,
    lines: bool,
}

impl Scratch {
    pub(super) fn memory_usage(&self) -> usize {
        let marks =
            [&self.stacks, &self.locations, &self.mappings, &self.labels, &self.label_names];
        self.changed.capacity() * 4
            + self.delta.capacity() * 8
            + self.bytes.capacity()
            + marks.map(Marks::memory_usage).iter().sum::<usize>()
            + self.names.memory_usage()
            + self.functions.memory_usage()
            + self.resolved.capacity() * size_of::<Resolved>()
    }

    pub(super) fn reset(&mut self, state: &State) {
        self.stacks.reset(state.stacks.end());
        self.locations.reset(state.locations.end());
        self.functions.reset(1, state.locations.functions_end());
        self.mappings.reset(state.locations.mappings.end());
        self.labels.reset(state.labels.end());
        self.label_names.reset(state.labels.names.end());
        self.resolved.clear();
    }

    /// Marks what an entry's stack uses; once for each stack.
    #[inline]
    pub(super) fn mark_stack(&mut self, state: &State, stack: u32) {
        if self.stacks.add(stack) {
            for id in ids(state.stacks.packed(stack)) {
                self.locations.add(id.0);
            }
        }
    }
}

impl Window {
    /// Writes what was added since the window was opened or written last, in the format of pprof, not
    /// compressed: `fold` takes each chunk, of at most 64 KiB, with the state so far and gives the next.
    /// What is recorded from when the rows are copied, which is done first, belongs to the next writing.
    ///
    /// Locks for one chunk at a time, never while `fold` or the symbolizer runs. *Steady* if all that is
    /// written was written before, else *growth*.
    ///
    /// # Panics
    /// If `options.default` is not the place of a column.
    pub fn write<S>(
        &mut self,
        options: WriteOptions<'_>,
        state: S,
        mut fold: impl FnMut(S, &[u8]) -> S,
    ) -> S {
        let all: Result<S, Infallible> =
            self.try_write(options, state, |state, chunk| Ok(fold(state, chunk)));
        match all {
            Ok(state) => state,
            Err(never) => match never {},
        }
    }

    /// As [`write`](Self::write), until `fold` fails: then nothing more is copied or asked for, and what
    /// would have been written stays for the next time. What is known before names are asked for is handed
    /// on first, so that who wants no more can say so.
    ///
    /// # Errors
    /// What `fold` failed with.
    ///
    /// # Panics
    /// If `options.default` is not the place of a column.
    pub fn try_write<S, E>(
        &mut self,
        options: WriteOptions<'_>,
        state: S,
        mut fold: impl FnMut(S, &[u8]) -> Result<S, E>,
    ) -> Result<S, E> {
        // None only while the fold has it.
        let mut slot = Some(Ok(state));
        let mut sink = |chunk: &[u8]| {
            slot = match slot.take() {
                Some(Ok(state)) => Some(fold(state, chunk)),
                other => other,
            };
            matches!(slot, Some(Ok(_)))
        };
        let look = self.begin(&options);
        let mut writing = Writing { window: self, sink: &mut sink, is_over: false };
        writing.write(options, look.main);
        let is_over = writing.is_over;
        if is_over {
            self.place.shared.lock().release_main(look.main);
        } else {
            self.finish(look);
        }
        slot.expect("the fold gives its state back")
    }

    /// Copies the rows and lists those that changed and are wanted.
    pub(super) fn begin(&mut self, options: &WriteOptions<'_>) -> Look {
        let look = self.look();
        let width = self.width;
        let scratch = &mut self.scratch;
        scratch.changed.clear();
        let rows = self.now.chunks_exact(width).zip(self.last.chunks_exact(width));
        for (index, (now, last)) in rows.enumerate() {
            if now != last {
                scratch.delta.clear();
                scratch
                    .delta
                    .extend(now.iter().zip(last).map(|(now, last)| now.wrapping_sub(*last)));
                if (options.keep)(&scratch.delta) {
                    scratch.changed.push(index as u32);
                }
            }
        }
        if let Some(wanted) = options.label {
            self.retain(wanted);
        }
        let mut state = self.place.shared.lock();
        self.scratch.reset(&state);
        // A main mapping without locations might otherwise go while it is written.
        let main = state.locations.mappings.main();
        state.locations.mappings.retain(main);
        Look { clock: look, main }
    }

    /// Leaves those of the listed entries that have a label, or do not have it.
    fn retain(&mut self, wanted: Wanted<'_>) {
        let (mut at, mut left) = (0, 0);
        while at < self.scratch.changed.len() {
            let state = self.place.shared.lock();
            let entries = state.profile(self.place.index);
            for _ in 0..HELD {
                let Some(&index) = self.scratch.changed.get(at) else { break };
                let entry = entries.entry(index);
                let labels = [entry.thread, entry.scope].into_iter();
                if wanted.is_met(labels.flat_map(|labels| state.labels.labels(labels))) {
                    self.scratch.changed[left] = index;
                    left += 1;
                }
                at += 1;
            }
        }
        self.scratch.changed.truncate(left);
    }

    /// What was written is seen.
    pub(super) fn finish(&mut self, look: Look) {
        self.place.shared.lock().release_main(look.main);
        std::mem::swap(&mut self.last, &mut self.now);
        self.seen(look.clock);
    }

    /// What was added to an entry, into the scratch.
    #[inline]
    pub(super) fn delta(&mut self, entry: u32) {
        let row = entry as usize * self.width..(entry as usize + 1) * self.width;
        self.scratch.delta.clear();
        let columns = self.now[row.clone()].iter().zip(&self.last[row]);
        self.scratch.delta.extend(columns.map(|(now, last)| now.wrapping_sub(*last)));
    }
}

/// A window that is being written.
struct Writing<'w, 's> {
    window: &'w mut Window,
    /// Whether more is wanted.
    sink: &'s mut dyn FnMut(&[u8]) -> bool,
    /// Nothing more is wanted.
    is_over: bool,
}

impl Writing<'_, '_> {
    fn write(&mut self, mut options: WriteOptions<'_>, main: MappingId) {
        let has_symbols = options.symbolizer.is_some();
        self.window.scratch.bytes.clear();
        self.window.scratch.bytes.reserve(CHUNK + 1024);
        self.header(&options);
        self.samples();
        if let Some(symbolizer) = options.symbolizer.take() {
            // May take seconds.
            self.flush();
            if self.is_over {
                return;
            }
            symbolize::ask(&self.window.place.shared, &self.window.scratch.locations, symbolizer);
        }
        let label_names = self.begin_definitions();
        self.locations(has_symbols);
        self.functions();
        self.mappings(main, has_symbols);
        self.strings(label_names);
        let first_comment = label_names + self.window.scratch.names.order().len();
        self.comments(options.comments, first_comment);
        self.flush();
    }

    /// Hands on what there is.
    fn flush(&mut self) {
        // One sample may be more than a chunk.
        for chunk in self.window.scratch.bytes.chunks(CHUNK) {
            if self.is_over {
                break;
            }
            self.is_over = !(self.sink)(chunk);
        }
        self.window.scratch.bytes.clear();
    }

    /// Hands on if there is no room for that much more.
    fn flush_for(&mut self, more: usize) {
        if self.window.scratch.bytes.len() + more > CHUNK {
            self.flush();
        }
    }

    fn header(&mut self, options: &WriteOptions<'_>) {
        let Window { place, scratch, .. } = &mut *self.window;
        let state = place.shared.lock();
        let shape = &state.profile(place.index).shape;
        let mut out = Writer::new(&mut scratch.bytes);
        let mut use_type = |(kind, unit): (NameId, NameId)| {
            scratch.label_names.add(kind.0);
            scratch.label_names.add(unit.0);
            pprof::ValueType { kind: StringId(kind.0), unit: StringId(unit.0) }
        };
        for &column in &shape.column_names {
            out.sample_type(use_type(column));
        }
        out.period_type(use_type(shape.period_names));
        out.period(shape.period);
        let default = options.default.unwrap_or(shape.default);
        out.default_sample_type(StringId(shape.column_names[default].0.0));
        out.time_nanos(options.time_nanos);
        out.duration_nanos(options.duration_nanos);
        drop(state);
    }

    fn samples(&mut self) {
        let mut at = 0;
        while at < self.window.scratch.changed.len() && !self.is_over {
            let is_full = self.some_samples(&mut at);
            if is_full {
                self.flush();
            }
        }
    }

    /// Writes samples until the chunk is full, or for long enough.
    fn some_samples(&mut self, at: &mut usize) -> bool {
        let window = &mut *self.window;
        let place = window.place.clone();
        let state = place.shared.lock();
        let entries = state.profile(place.index);
        for _ in 0..HELD {
            let Some(&index) = window.scratch.changed.get(*at) else { return false };
            window.delta(index);
            let scratch = &mut window.scratch;
            let entry = entries.entry(index);
            let sample = EncodedSample {
                locations: state.stacks.packed(entry.stack),
                values: &scratch.delta,
                labels: &[state.labels.encoded(entry.thread), state.labels.encoded(entry.scope)],
            };
            let labels = sample.labels.iter().map(|labels| labels.len()).sum::<usize>();
            let length = sample.locations.len() + labels + 10 * (sample.values.len() + 4);
            if !scratch.bytes.is_empty() && scratch.bytes.len() + length > CHUNK {
                return true;
            }
            Writer::new(&mut scratch.bytes).encoded_sample(&sample);
            scratch.mark_stack(&state, entry.stack);
            for labels in [entry.thread, entry.scope] {
                if scratch.labels.add(labels) {
                    state.labels.texts(labels).for_each(|name| {
                        scratch.label_names.add(name.0);
                    });
                }
            }
            *at += 1;
        }
        false
    }

    /// Says where the names of functions begin, and returns it.
    fn begin_definitions(&mut self) -> usize {
        let Window { place, scratch, .. } = &mut *self.window;
        let state = place.shared.lock();
        let begin = state.labels.names.end();
        scratch.names.reset(begin as u32, state.locations.names.end());
        let all = Resolved { functions: true, files: true, lines: true };
        scratch.resolved.resize(state.locations.mappings.end(), all);
        begin
    }

    fn locations(&mut self, has_symbols: bool) {
        let mut next = self.window.scratch.locations.next(1);
        while next.is_some() && !self.is_over {
            let Window { place, scratch, .. } = &mut *self.window;
            let mut state = place.shared.lock();
            for _ in 0..HELD {
                let Some(id) = next else { break };
                next = scratch.locations.next(id + 1);
                state.locations.look_again(LocationId(id));
                scratch.location(&state, LocationId(id), has_symbols);
                if scratch.bytes.len() > CHUNK / 2 {
                    break;
                }
            }
            drop(state);
            self.flush_for(CHUNK / 2);
        }
    }

    fn functions(&mut self) {
        let mut at = 0;
        while at < self.window.scratch.functions.order().len() && !self.is_over {
            let Window { place, scratch, .. } = &mut *self.window;
            let state = place.shared.lock();
            let mut out = Writer::new(&mut scratch.bytes);
            for &id in scratch.functions.order()[at..].iter().take(HELD) {
                at += 1;
                let function = state.locations.function_of(FunctionId(id));
                out.function(&pprof::Function {
                    id: pprof::FunctionId(at as u64),
                    name: StringId(scratch.names.of(function.name.0)),
                    system_name: StringId(scratch.names.of(function.system_name.0)),
                    filename: StringId(scratch.names.of(function.file.0)),
                    start_line: function.start_line.into(),
                });
            }
            drop(state);
            // Some 30 bytes each.
            self.flush_for(HELD * 64);
        }
    }

    /// The program's own first, whether used or not, because readers take the first for it.
    fn mappings(&mut self, main: MappingId, has_symbols: bool) {
        let Window { place, scratch, .. } = &mut *self.window;
        let state = place.shared.lock();
        if main != MappingId::default() {
            scratch.mapping(&state, main, has_symbols);
        }
        let mut next = scratch.mappings.next(1);
        while let Some(id) = next {
            if MappingId(id) != main {
                scratch.mapping(&state, MappingId(id), has_symbols);
            }
            next = scratch.mappings.next(id + 1);
        }
        drop(state);
        self.flush_for(CHUNK / 2);
    }

    fn strings(&mut self, label_names: usize) {
        let count = label_names + self.window.scratch.names.order().len();
        let mut at = 0;
        while at < count && !self.is_over {
            let Window { place, scratch, .. } = &mut *self.window;
            let state = place.shared.lock();
            let mut out = Writer::new(&mut scratch.bytes);
            out.encoded(&[], at as u32);
            let mut room = CHUNK / 2;
            for _ in 0..HELD * 4 {
                let text = if at >= count || room == 0 {
                    break;
                } else if at >= label_names {
                    state.locations.names.text(NameId(scratch.names.order()[at - label_names]))
                } else if scratch.label_names.has(at as u32) {
                    state.labels.names.text(NameId(at as u32))
                } else {
                    ""
                };
                out.string(text);
                room = room.saturating_sub(text.len() + 4);
                at += 1;
            }
            drop(state);
            self.flush_for(CHUNK / 2);
        }
    }

    fn comments(&mut self, comments: &[&str], first: usize) {
        for (index, comment) in comments.iter().enumerate() {
            self.flush_for(comment.len() + 32);
            let mut out = Writer::new(&mut self.window.scratch.bytes);
            out.encoded(&[], (first + index) as u32);
            let place = out.string(comment);
            out.comment(place);
        }
    }
}

impl Scratch {
    /// Writes a location and marks what it uses.
    fn location(&mut self, state: &State, id: LocationId, has_symbols: bool) {
        let location = state.locations.get(id);
        let is_pseudo = location.symbols == Symbols::Pseudo;
        let lines = if has_symbols || is_pseudo { &*location.lines } else { &[] };
        let (mut has_files, mut has_lines) = (true, true);
        for line in lines {
            self.functions.of(line.function.0);
            has_files &= state.locations.function_of(line.function).file != NameId::default();
            has_lines &= line.line != 0;
        }
        let mapping = location.mapping;
        if mapping != MappingId::default() {
            self.mappings.add(mapping.0);
            if let Some(resolved) = self.resolved.get_mut(mapping.0 as usize) {
                resolved.functions &= !lines.is_empty();
                resolved.files &= has_files;
                resolved.lines &= has_lines;
            }
        }
        Writer::new(&mut self.bytes).location(&pprof::Location {
            id: pprof::LocationId(id.0.into()),
            mapping: pprof::MappingId(mapping.0.into()),
            address: if is_pseudo { 0 } else { location.address },
            lines: lines.iter().map(|line| pprof::Line {
                function: pprof::FunctionId(self.functions.known(line.function.0).into()),
                line: line.line.into(),
                column: 0,
            }),
            is_folded: false,
        });
    }

    /// Writes a mapping. Its flags tell tools not to look for symbols themselves.
    fn mapping(&mut self, state: &State, id: MappingId, has_symbols: bool) {
        let Some((mapping, file, build_id)) = state.locations.mappings.named(id) else { return };
        let resolved = self.resolved.get(id.0 as usize);
        let is = |has: fn(&Resolved) -> bool| has_symbols && resolved.is_some_and(has);
        let has_functions = is(|resolved| resolved.functions);
        let mapping = pprof::Mapping {
            id: pprof::MappingId(id.0.into()),
            memory_start: mapping.start,
            memory_limit: mapping.limit,
            file_offset: mapping.offset,
            filename: StringId(self.names.of(file.0)),
            build_id: StringId(self.names.of(build_id.0)),
            has_functions,
            has_filenames: has_functions && is(|resolved| resolved.files),
            has_line_numbers: has_functions && is(|resolved| resolved.lines),
            has_inline_frames: has_functions,
        };
        Writer::new(&mut self.bytes).mapping(&mapping);
    }
}
