//! A profile → stacks of names with values.
//!
//! 1. Each location is resolved once: the names of the functions at it, and whether they match the patterns.
//! 2. A sample's stack is the names of its locations. What the profile's own patterns drop is cut off, with all
//!    that it calls, and seen by no other pattern; a sample without a frame that matches `focus`, or with one that matches `ignore`, is left out, and
//!    what called the outermost frame that matches `from` is.
//! 3. By label, a stack is one name: the label's values.

use std::collections::HashMap;

use store::Pattern;
use wire::pprof::{Document, Label, LabelValue, Line, Location, LocationId, SampleRead};

use super::column::Column;
use super::options::{By, Selection};
use super::text::plain;

/// The frames of all stacks together, at four bytes each: many times what the largest profiles have, and far
/// from what a few bytes can ask for, when a location with a thousand lines is named a million times.
const MOST_FRAMES: usize = 100_000_000;

/// Names an entry of [`Stacks::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NameId(pub(super) u32);

/// A profile as the tools look at it.
#[derive(Debug)]
pub(super) struct Stacks {
    /// The values that are looked at.
    pub(super) column: Column,
    /// How long the profile took; 0 for not known or for a state.
    pub(super) duration_nanos: i64,
    /// Of all samples, also those that were left out.
    pub(super) whole: f64,
    names: Names,
    /// The stacks' frames one behind the other, innermost first.
    frames: Vec<NameId>,
    samples: Vec<Kept>,
}

/// A sample that was kept: its frames end where the next one's begin.
#[derive(Debug)]
struct Kept {
    end: usize,
    value: f64,
    count: f64,
}

/// A sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stack<'a> {
    /// Innermost first; never empty.
    pub(super) frames: &'a [NameId],
    /// What is measured.
    pub(super) value: f64,
    /// How many times.
    pub(super) count: f64,
}

/// Different names, each with the module it belongs to.
#[derive(Debug, Default)]
pub(super) struct Names {
    ids: HashMap<String, NameId>,
    list: Vec<(String, String)>,
}

impl Names {
    /// The id of a name; `module` is asked for a new one.
    pub(super) fn id(&mut self, name: &str, module: impl FnOnce() -> String) -> NameId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        // A profile of less than a gigabyte has not as many.
        let id = NameId(self.list.len() as u32);
        self.ids.insert(name.to_owned(), id);
        self.list.push((name.to_owned(), module()));
        id
    }

    /// The name.
    pub(super) fn name(&self, id: NameId) -> &str {
        &self.list[id.0 as usize].0
    }

    /// Where it belongs: a crate, a package, a file.
    pub(super) fn module(&self, id: NameId) -> &str {
        &self.list[id.0 as usize].1
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }
}

impl Stacks {
    /// Picks from `document` what `selection` asks for.
    pub(super) fn new(document: &Document<'_>, selection: &Selection) -> Result<Self, String> {
        let column = Column::choose(document, selection.sample_index.as_deref())?;
        let mut builder = Builder {
            document,
            selection,
            cut: Cut::of(document)?,
            known: HashMap::new(),
            names: Names::default(),
        };
        let mut it = Stacks {
            duration_nanos: document.facts().duration_nanos.max(0),
            whole: 0.0,
            names: Names::default(),
            frames: Vec::new(),
            samples: Vec::new(),
            column,
        };
        for sample in document.samples() {
            let at = |index: usize| sample.values.clone().nth(index).unwrap_or(0) as f64;
            let value = at(it.column.index);
            let count = at(it.column.count.unwrap_or(it.column.index));
            it.whole += value;
            // Heap profiles are full of stacks of which nothing is in use.
            if (value == 0.0 && count == 0.0) || !builder.push(sample, &mut it.frames)? {
                continue;
            }
            it.samples.push(Kept { end: it.frames.len(), value, count });
        }
        it.names = builder.names;
        Ok(it)
    }

    /// The samples that were kept.
    pub(super) fn iter(&self) -> impl Iterator<Item = Stack<'_>> {
        let mut begin = 0;
        self.samples.iter().map(move |it| {
            let frames = &self.frames[begin..it.end];
            begin = it.end;
            Stack { frames, value: it.value, count: it.count }
        })
    }

    /// The names of the frames.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Multiplies all values.
    pub(super) fn scale(&mut self, factor: f64) {
        self.whole *= factor;
        for it in &mut self.samples {
            it.value *= factor;
            it.count *= factor;
        }
    }

    /// The sum of what was kept.
    pub(super) fn total(&self) -> f64 {
        // Not `sum`, which is -0 of nothing.
        self.samples.iter().fold(0.0, |sum, it| sum + it.value)
    }

    /// What was kept, in one line.
    pub(super) fn heading(&self) -> String {
        let column = &self.column;
        let (total, whole) = (self.total(), self.whole);
        let mut line = format!("{}: {}", column.kind, column.write(total));
        if total != whole {
            let share = super::column::percent(total, whole);
            line.push_str(&format!(" of {} ({share}%)", column.write(whole)));
        }
        if self.duration_nanos > 0 {
            let seconds = self.duration_nanos as f64 / 1e9;
            line.push_str(&format!(" in {seconds:.2} s"));
        }
        line
    }
}

/// What a location became.
struct Resolved {
    /// Innermost first.
    frames: Vec<NameId>,
    focused: bool,
    ignored: bool,
    /// The outermost of the frames at which stacks are to begin.
    begin: Option<usize>,
    dropped: Dropped,
}

/// What the profile wants cut off below a location, besides the frames that are not even there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dropped {
    Nothing,
    /// What it calls: a function that was inlined here is dropped, and is not there.
    Below,
    /// The location, and what it calls.
    All,
}

/// The patterns of a profile that says what to cut off.
struct Cut {
    drop: Option<Pattern>,
    keep: Option<Pattern>,
}

impl Cut {
    fn of(document: &Document<'_>) -> Result<Self, String> {
        let pattern = |id, what| match &*document.text(id) {
            "" => Ok(None),
            source => Pattern::new(source).map(Some).map_err(|error| {
                format!("its {what} is no pattern: {}", plain(&error.to_string()))
            }),
        };
        let facts = document.facts();
        Ok(Cut {
            drop: pattern(facts.drop_frames, "drop_frames")?,
            keep: pattern(facts.keep_frames, "keep_frames")?,
        })
    }

    fn matches(&self, name: &str) -> bool {
        let name = without_arguments(name);
        let is = |pattern: &Option<Pattern>| pattern.as_ref().is_some_and(|it| it.is_match(name));
        is(&self.drop) && !is(&self.keep)
    }
}

/// The name as the patterns of profiles mean it: without the dot of some linkers in front, and without the
/// arguments of C++. `operator()` and `(anonymous namespace)` are no arguments.
fn without_arguments(name: &str) -> &str {
    let name = name.strip_prefix('.').unwrap_or(name);
    let mut begin = 0;
    while let Some(at) = name[begin..].find('(') {
        let at = begin + at;
        let namespace = "(anonymous namespace)";
        begin = match &name[at..] {
            rest if rest.starts_with(namespace) => at + namespace.len(),
            rest if rest.starts_with("()") && name[begin..at].ends_with("operator") => at + 2,
            _ => return &name[..at],
        };
    }
    name
}

struct Builder<'d, 'a> {
    document: &'d Document<'a>,
    selection: &'d Selection,
    cut: Cut,
    known: HashMap<LocationId, Resolved>,
    names: Names,
}

impl Builder<'_, '_> {
    /// Appends the frames of a sample; false when it is left out.
    fn push(&mut self, sample: SampleRead<'_>, frames: &mut Vec<NameId>) -> Result<bool, String> {
        let begin = frames.len();
        let ids: Vec<LocationId> = sample.locations.collect();
        for id in &ids {
            if !self.known.contains_key(id) {
                let resolved = self.document.location(*id).map(|it| self.resolve(it));
                self.known.extend(resolved.map(|it| (*id, it)));
            }
        }
        let (mut focused, mut ignored) = (self.selection.focus.is_none(), false);
        let mut outermost = None;
        for id in &ids[self.innermost(&ids)..] {
            let Some(resolved) = self.known.get(id) else { continue };
            if frames.len() + resolved.frames.len() > MOST_FRAMES {
                return Err(format!("its stacks have more than {MOST_FRAMES} frames together"));
            }
            outermost = resolved.begin.map(|begin| frames.len() + begin).or(outermost);
            frames.extend_from_slice(&resolved.frames);
            focused |= resolved.focused;
            ignored |= resolved.ignored;
        }
        if !focused || ignored {
            frames.truncate(begin);
            return Ok(false);
        }
        if let Some(outermost) = outermost {
            frames.truncate(outermost + 1);
        }
        if let By::Labels | By::Label(_) = &self.selection.by {
            let name = self.label_text(sample.labels);
            frames.truncate(begin);
            frames.push(self.names.id(&name, String::new));
        }
        if frames.len() == begin {
            frames.push(self.names.id("[no stack]", String::new));
        }
        Ok(true)
    }

    /// Where a stack begins once all is cut off that the profile drops: from the outermost inwards, at the
    /// first that is dropped below one that is kept. What only called into nothing but dropped functions
    /// stays, as in Go's tools.
    fn innermost(&self, ids: &[LocationId]) -> usize {
        let mut is_kept = false;
        for (index, id) in ids.iter().enumerate().rev() {
            match self.known.get(id).map_or(Dropped::Nothing, |it| it.dropped) {
                Dropped::Nothing => is_kept = true,
                Dropped::Below if is_kept => return index,
                Dropped::All if is_kept => return index + 1,
                Dropped::Below | Dropped::All => {}
            }
        }
        0
    }

    fn label_text(&self, labels: impl Iterator<Item = Label>) -> String {
        let wanted = match &self.selection.by {
            By::Label(key) => Some(key.as_str()),
            _ => None,
        };
        let mut parts = Vec::new();
        for label in labels {
            let key = plain(&self.document.text(label.key));
            let value = match label.value {
                LabelValue::Text(text) => plain(&self.document.text(text)),
                LabelValue::Number { value, unit } => match &*self.document.text(unit) {
                    "" => value.to_string(),
                    unit => format!("{value} {}", plain(unit)),
                },
            };
            match wanted {
                None => parts.push(format!("{key}={value}")),
                Some(wanted) if wanted == key => parts.push(value),
                Some(_) => {}
            }
        }
        parts.sort_unstable();
        match parts.is_empty() {
            true => wanted.map_or("[no labels]".to_owned(), |key| format!("[no label {key}]")),
            false => parts.join(", "),
        }
    }

    fn resolve<L>(&mut self, location: &Location<L>) -> Resolved
    where
        L: Iterator<Item = Line> + Clone,
    {
        let document = self.document;
        let file = document.mapping(location.mapping).map_or(String::new(), |mapping| {
            let path = document.text(mapping.filename);
            plain(path.rsplit('/').next().unwrap_or_default())
        });
        let matches = |pattern: &Option<Pattern>, texts: [&str; 2]| {
            pattern.as_ref().is_some_and(|it| texts.iter().any(|text| it.is_match(text)))
        };
        let lines: Vec<Line> = location.lines.clone().collect();
        let name_of =
            |line: &Line| document.function(line.function).map(|it| document.text(it.name));
        // The outermost that is dropped takes with it all that was inlined into it.
        let cut_at = lines.iter().rposition(|line| {
            name_of(line).is_some_and(|name| !name.is_empty() && self.cut.matches(&name))
        });
        let (dropped, kept) = match cut_at {
            None => (Dropped::Nothing, &lines[..]),
            // Shown whole where it is not cut off.
            Some(at) if at + 1 == lines.len() => (Dropped::All, &lines[..]),
            Some(at) => (Dropped::Below, &lines[at + 1..]),
        };
        let mut it =
            Resolved { frames: Vec::new(), focused: false, ignored: false, begin: None, dropped };
        for line in kept {
            let Some(function) = document.function(line.function) else { continue };
            let mut name = plain(&document.text(function.name));
            if name.is_empty() {
                name = plain(&document.text(function.system_name));
            }
            let source = plain(&document.text(function.filename));
            it.focused |= matches(&self.selection.focus, [&name, &source]);
            it.ignored |= matches(&self.selection.ignore, [&name, &source]);
            if matches(&self.selection.from, [&name, &source]) {
                it.begin = Some(it.frames.len());
            }
            it.frames.push(self.frame(&name, &source, line.line, &file));
        }
        if it.frames.is_empty() {
            let name = match file.as_str() {
                "" => format!("{:#x}", location.address),
                file => format!("{:#x} [{file}]", location.address),
            };
            it.focused = matches(&self.selection.focus, [&name, &file]);
            it.ignored = matches(&self.selection.ignore, [&name, &file]);
            it.begin = matches(&self.selection.from, [&name, &file]).then_some(0);
            it.frames.push(self.frame(&name, "", 0, &file));
        }
        it
    }

    /// The name that a frame goes by.
    fn frame(&mut self, function: &str, source: &str, line: i64, file: &str) -> NameId {
        let module = || module_of(function, file);
        match &self.selection.by {
            By::File if source.is_empty() => self.names.id(&format!("[{file}]"), module),
            By::File => self.names.id(source, module),
            By::Line if !source.is_empty() => {
                self.names.id(&format!("{function} {source}:{line}"), module)
            }
            By::Module => {
                let module = module();
                self.names.id(&module.clone(), || module)
            }
            _ => self.names.id(function, module),
        }
    }
}

/// Where a function belongs, as far as its name tells: the crate of Rust (`core` of `<core::str::Chars as
/// …>::next`), the package of Go (`net/http` of `net/http.(*Server).Serve`), Java's and Python's (`java.util`
/// of `java.util.HashMap.put`), else the file that its address falls into.
fn module_of(function: &str, file: &str) -> String {
    let name = function.trim_start_matches(['<', '&', '*', '[', '(']);
    let name = name.strip_prefix("dyn ").unwrap_or(name);
    let name = name.strip_prefix("mut ").unwrap_or(name);
    let path_end = name.find(['<', '(', ' ', '>']).unwrap_or(name.len());
    let path = &name[..path_end];
    if let Some((module, _)) = path.split_once("::") {
        return module.to_owned();
    }
    let package_begin = path.rfind('/').map_or(0, |at| at + 1);
    match path[package_begin..].split_once('.') {
        // Go: up to the first point behind the last slash.
        Some((package, rest)) if package_begin > 0 || !rest.contains('.') => {
            let end = package_begin + package.len();
            if end > 0 { path[..end].to_owned() } else { file.to_owned() }
        }
        // Java: without the class and the method.
        Some(_) => path.rsplitn(3, '.').nth(2).unwrap_or(path).to_owned(),
        None => file.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_see_no_arguments() {
        for (name, expected) in [
            ("malloc", "malloc"),
            (".malloc", "malloc"),
            ("operator new(unsigned long)", "operator new"),
            ("(anonymous namespace)::take(int)", "(anonymous namespace)::take"),
            ("f::operator()(int) const", "f::operator()"),
            ("f(operator())", "f"),
            ("a::(anonymous namespace)::operator()", "a::(anonymous namespace)::operator()"),
            ("é(", "é"),
            ("", ""),
        ] {
            assert_eq!(without_arguments(name), expected);
        }
    }

    #[test]
    fn functions_belong_to_modules() {
        for (function, module) in [
            ("core::fmt::write", "core"),
            ("<core::str::Chars as core::iter::Iterator>::next", "core"),
            ("<&mut alloc::vec::Vec<u8> as std::io::Write>::write", "alloc"),
            ("tokio::runtime::task::raw::poll<core::pin::Pin<x>>", "tokio"),
            ("main.main", "main"),
            ("runtime.mallocgc", "runtime"),
            ("net/http.(*Server).Serve", "net/http"),
            ("github.com/google/pprof/profile.Parse", "github.com/google/pprof/profile"),
            ("strings.(*Builder).grow", "strings"),
            ("java.util.HashMap.put", "java.util"),
            ("malloc", "libc.so.6"),
            ("[truncated]", "libc.so.6"),
            ("0x1234 [libc.so.6]", "libc.so.6"),
            (".", "libc.so.6"),
            ("", "libc.so.6"),
        ] {
            assert_eq!(module_of(function, "libc.so.6"), module, "{function}");
        }
    }
}
