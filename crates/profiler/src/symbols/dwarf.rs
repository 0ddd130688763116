//! Functions and lines of a batch of addresses from DWARF 2 to 5, in one pass over the file.
//!
//! Readers that answer one address after the other keep each unit that they parsed, which for a large
//! program is hundreds of megabytes. Here the addresses are known beforehand, and one unit at a time is
//! looked at, so that what is held does not depend on the file:
//! 1. Find the addresses that lie in the unit's ranges; go on if there are none.
//! 2. Read its entries once, in their order and without recursion, and remember for each address the
//!    function around it and those inlined there, outermost first.
//! 3. Run its line program once, and remember file and line of each address.
//! 4. Follow the references to names, which may lead to other units and to a supplementary file.
//!
//! What is refused: damaged parts, which cost the names that depend on them; whatever takes longer than the
//! time given.

use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use gimli::{AttributeValue, DebugInfoOffset, Range, UnitOffset, UnitRef};
use hashbrown::HashMap;

use super::image::Slice;
use super::names::{Names, Text};
use super::split::SplitFiles;

pub(super) type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;
pub(super) type Unit<'a> = gimli::Unit<Slice<'a>>;
type Attribute<'a> = AttributeValue<Slice<'a>>;

/// Functions inlined into each other at one address. More is damage.
const INLINED_MAX: usize = 256;
/// Modules around a function.
const SCOPES_MAX: usize = 64;
/// Units that are kept to follow references to. With link-time optimization there are references between
/// any two.
const OPEN_UNITS: usize = 16;
/// Names that are kept to not follow a reference again.
const KNOWN_ENTRIES: usize = 1 << 16;

/// A function and a place in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) name: Text,
    pub(super) system: Text,
    pub(super) file: Text,
    pub(super) line: u32,
    pub(super) start_line: u32,
}

/// Which places belong to an address.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answer {
    pub(super) first: u32,
    pub(super) count: u32,
}

/// When to stop: damaged or enormous files must not keep a thread for ever.
pub(super) struct Patience {
    until: Instant,
    steps: u32,
}

impl Patience {
    pub(super) fn of(time: Duration) -> Self {
        Patience { until: Instant::now() + time, steps: 0 }
    }

    /// False once the time is up. The clock is looked at every 4,096th time.
    pub(super) fn step(&mut self) -> bool {
        self.steps = self.steps.wrapping_add(1);
        !self.steps.is_multiple_of(4096) || self.lasts()
    }

    pub(super) fn lasts(&self) -> bool {
        Instant::now() < self.until
    }
}

/// Addresses of one file, and what was found out about them.
pub(super) struct Batch<'b> {
    /// As the file counts addresses, sorted.
    pub(super) wanted: &'b [u64],
    /// One for each.
    pub(super) answers: &'b mut [Answer],
    pub(super) places: &'b mut Vec<Place>,
    pub(super) names: &'b mut Names,
    /// Where the file's code begins.
    pub(super) first_code: u64,
    pub(super) patience: Patience,
}

/// A function around an address.
#[derive(Clone, Copy)]
struct Call {
    entry: UnitOffset,
    depth: isize,
    /// Where it was called from, for inlined ones.
    file: u64,
    line: u32,
}

/// What is remembered of an address while its unit is read.
#[derive(Default)]
struct Around {
    calls: Vec<Call>,
    /// The file's number and the line.
    location: Option<(u64, u32)>,
}

/// Looks for all addresses of `batch` that have no answer yet.
pub(super) fn answer<'a>(dwarf: &Dwarf<'a>, split: &SplitFiles<'_>, batch: &mut Batch<'_>) {
    let mut references = References::new(dwarf);
    let mut units = dwarf.units();
    let mut missing = batch.answers.iter().filter(|answer| answer.count == 0).count();
    while let Ok(Some(header)) = units.next() {
        if missing == 0 || !batch.patience.lasts() {
            return;
        }
        // A damaged unit says nothing about the next.
        let Ok(unit) = dwarf.unit(header) else { continue };
        let inside = inside(unit.unit_ref(dwarf), batch);
        if inside.is_empty() {
            continue;
        }
        let found = one_unit(unit.unit_ref(dwarf), split, &inside, &mut references, batch);
        missing = missing.saturating_sub(found);
    }
}

/// The places in `batch.wanted` of the addresses that lie in the unit.
fn inside(unit: UnitRef<'_, Slice<'_>>, batch: &mut Batch<'_>) -> Vec<usize> {
    let mut found = Vec::new();
    let Ok(mut ranges) = unit.unit_ranges() else { return found };
    let mut any = false;
    while let Ok(Some(range)) = ranges.next() {
        any = true;
        if !batch.patience.step() {
            break;
        }
        for at in within(batch.wanted, range, batch.first_code) {
            if batch.answers[at].count == 0 {
                found.push(at);
            }
        }
    }
    if !any && is_compilation(unit) {
        // Some assemblers do not say what a unit covers.
        found = (0..batch.wanted.len()).filter(|&at| batch.answers[at].count == 0).collect();
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn is_compilation(unit: UnitRef<'_, Slice<'_>>) -> bool {
    let Ok(mut entries) = unit.entries_raw(None) else { return false };
    let tag = entries.read_abbreviation().ok().flatten().map(gimli::Abbreviation::tag);
    matches!(tag, Some(gimli::DW_TAG_compile_unit | gimli::DW_TAG_skeleton_unit))
}

/// Which of the sorted addresses lie in `range`. Ranges before the code are of functions that the linker
/// left out.
fn within(sorted: &[u64], range: Range, first_code: u64) -> std::ops::Range<usize> {
    if range.begin < first_code || range.begin >= range.end {
        return 0..0;
    }
    let start = sorted.partition_point(|&address| address < range.begin);
    start..start + sorted[start..].partition_point(|&address| address < range.end)
}

/// Answers for the addresses at `inside`, and returns how many there were answers for.
fn one_unit<'a>(
    unit: UnitRef<'_, Slice<'a>>,
    split: &SplitFiles<'_>,
    inside: &[usize],
    references: &mut References<'_, 'a>,
    batch: &mut Batch<'_>,
) -> usize {
    let addresses: Vec<u64> = inside.iter().map(|&at| batch.wanted[at]).collect();
    let mut around: Vec<Around> = Vec::new();
    around.resize_with(addresses.len(), Around::default);
    let mut look = Look {
        addresses: &addresses,
        around: &mut around,
        first_code: batch.first_code,
        patience: &mut batch.patience,
    };
    // What was found up to damage is kept.
    let _ = look.lines(unit);
    let before = batch.places.len();
    let mut done = false;
    if unit.dwo_id.is_some() {
        split.with(unit.dwarf, unit.unit, &mut |dwo: &Dwarf<'_>| {
            let Some(part) = split_unit(dwo, unit) else { return };
            let part = part.unit_ref(dwo);
            let mut scopes = Scopes::default();
            let _ = look.functions(part, &mut scopes);
            let mut references = References::new(dwo);
            // Lines and files are those of the skeleton, in every version.
            let mut files = Files::of(unit);
            write(
                part,
                inside,
                look.around,
                &mut files,
                (&mut references, &scopes),
                look.patience,
                &mut Sink { answers: batch.answers, places: batch.places, names: batch.names },
            );
            done = true;
        });
    }
    if !done {
        let mut scopes = Scopes::default();
        let _ = look.functions(unit, &mut scopes);
        let mut files = Files::of(unit);
        write(
            unit,
            inside,
            look.around,
            &mut files,
            (references, &scopes),
            look.patience,
            &mut Sink { answers: batch.answers, places: batch.places, names: batch.names },
        );
    }
    debug_assert!(batch.places.len() >= before);
    inside.iter().filter(|&&at| batch.answers[at].count > 0).count()
}

/// The only unit of a split part, with what its skeleton knows.
fn split_unit<'b>(dwo: &Dwarf<'b>, skeleton: UnitRef<'_, Slice<'_>>) -> Option<Unit<'b>> {
    let header = dwo.units().next().ok()??;
    let mut unit = dwo.unit(header).ok()?;
    if unit.dwo_id != skeleton.dwo_id {
        return None;
    }
    unit.low_pc = skeleton.low_pc;
    unit.addr_base = skeleton.addr_base;
    if unit.header.version() < 5 {
        unit.rnglists_base = skeleton.rnglists_base;
    }
    Some(unit)
}

/// Where functions are declared: debug information without types has no names for the linker, and a bare
/// `new` says little.
#[derive(Default)]
struct Scopes<'a> {
    /// Modules and types: the one around, and the name.
    all: Vec<(Option<u32>, Slice<'a>)>,
    /// Functions in one of them, in the order of the entries.
    functions: Vec<(UnitOffset, u32)>,
}

impl Scopes<'_> {
    /// Puts what is around the function at `entry` before its name.
    fn qualify(&self, entry: UnitOffset, name: &str) -> Option<String> {
        let at = self.functions.binary_search_by_key(&entry, |function| function.0).ok()?;
        let mut around = Vec::new();
        let mut next = Some(self.functions[at].1);
        while let Some(at) = next.filter(|_| around.len() < SCOPES_MAX) {
            let (outer, name) = self.all[at as usize];
            around.push(String::from_utf8_lossy(name.slice()));
            next = outer;
        }
        around.reverse();
        Some(format!("{}::{name}", around.join("::")))
    }
}

/// A look at one unit's entries and lines.
struct Look<'l> {
    addresses: &'l [u64],
    around: &'l mut [Around],
    first_code: u64,
    patience: &'l mut Patience,
}

impl Look<'_> {
    /// Step 2: the functions around each address.
    fn functions<'a>(
        &mut self,
        unit: UnitRef<'_, Slice<'a>>,
        scopes: &mut Scopes<'a>,
    ) -> gimli::Result<()> {
        let mut entries = unit.entries_raw(None)?;
        // The functions around the entry: their depths and offsets.
        let mut outer: Vec<(isize, UnitOffset)> = Vec::new();
        let mut modules: Vec<(isize, u32)> = Vec::new();
        while !entries.is_empty() && self.patience.step() {
            let entry = entries.next_offset();
            let depth = entries.next_depth();
            let Some(kind) = entries.read_abbreviation()? else { continue };
            while outer.last().is_some_and(|&(around, _)| around >= depth) {
                outer.pop();
            }
            while modules.last().is_some_and(|&(around, _)| around >= depth) {
                modules.pop();
            }
            let inlined = match kind.tag() {
                gimli::DW_TAG_subprogram => false,
                gimli::DW_TAG_inlined_subroutine => true,
                gimli::DW_TAG_namespace
                | gimli::DW_TAG_structure_type
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_enumeration_type
                | gimli::DW_TAG_union_type => {
                    let mut name = None;
                    for &attribute in kind.attributes() {
                        let attribute = entries.read_attribute(attribute)?;
                        if attribute.name() == gimli::DW_AT_name {
                            name = unit.attr_string(attribute.value()).ok();
                        }
                    }
                    if let Some(name) = name {
                        let at = scopes.all.len() as u32;
                        scopes.all.push((modules.last().map(|module| module.1), name));
                        modules.push((depth, at));
                    }
                    continue;
                }
                _ => {
                    entries.skip_attributes(kind.attributes())?;
                    continue;
                }
            };
            let mut extent = Extent::default();
            let mut call = Call { entry, depth, file: 0, line: 0 };
            for &attribute in kind.attributes() {
                let attribute = entries.read_attribute(attribute)?;
                match attribute.name() {
                    gimli::DW_AT_low_pc => extent.low = unit.attr_address(attribute.value())?,
                    gimli::DW_AT_high_pc => extent.high = Some(attribute.value()),
                    gimli::DW_AT_ranges => extent.ranges = Some(attribute.value()),
                    gimli::DW_AT_call_file => call.file = number(attribute.value()).unwrap_or(0),
                    gimli::DW_AT_call_line => {
                        call.line =
                            number(attribute.value()).and_then(|n| n.try_into().ok()).unwrap_or(0);
                    }
                    _ => {}
                }
            }
            let function =
                if inlined { outer.last().map(|&(_, entry)| entry) } else { Some(entry) };
            if let Some(function) = function {
                self.place(unit, &extent, call, function, inlined)?;
            }
            if !inlined {
                outer.push((depth, entry));
                scopes.functions.extend(modules.last().map(|module| (entry, module.1)));
            }
        }
        Ok(())
    }

    /// Adds `call`, in `function`, to the addresses within `extent`.
    fn place<'a>(
        &mut self,
        unit: UnitRef<'_, Slice<'a>>,
        extent: &Extent<'a>,
        call: Call,
        function: UnitOffset,
        inlined: bool,
    ) -> gimli::Result<()> {
        let Look { addresses, around, first_code, patience } = self;
        extent.each(unit, patience, |range| {
            for at in within(addresses, range, *first_code) {
                let calls = &mut around[at].calls;
                let fits = match calls.last() {
                    // Where the linker merged equal functions the first one stands for all.
                    None => !inlined,
                    Some(last) => inlined && calls[0].entry == function && last.depth < call.depth,
                };
                if fits && calls.len() < INLINED_MAX {
                    calls.push(call);
                }
            }
        })
    }

    /// Step 3: file and line of each address.
    fn lines(&mut self, unit: UnitRef<'_, Slice<'_>>) -> gimli::Result<()> {
        let Some(program) = unit.line_program.clone() else { return Ok(()) };
        let (Some(&first), Some(&last)) = (self.addresses.first(), self.addresses.last()) else {
            return Ok(());
        };
        let mut rows = program.rows();
        let mut previous: Option<(u64, u64, u32)> = None;
        let mut dropped = false;
        while let Some((_, row)) = rows.next_row()? {
            if !self.patience.step() {
                return Ok(());
            }
            let address = row.address();
            if previous.is_none() {
                // A sequence begins; one before the code is of what the linker left out.
                dropped = address < self.first_code;
            }
            if let Some((from, file, line)) = previous
                && !dropped
                && from < address
                && from <= last
                && address > first
            {
                for at in
                    within(self.addresses, Range { begin: from, end: address }, self.first_code)
                {
                    self.around[at].location.get_or_insert((file, line));
                }
            }
            previous = (!row.end_sequence()).then(|| {
                let line = row.line().and_then(|line| line.get().try_into().ok()).unwrap_or(0);
                (address, row.file_index(), line)
            });
        }
        Ok(())
    }
}

/// The addresses of an entry, as it says them.
#[derive(Default)]
struct Extent<'a> {
    low: Option<u64>,
    high: Option<Attribute<'a>>,
    ranges: Option<Attribute<'a>>,
}

impl<'a> Extent<'a> {
    fn each(
        &self,
        unit: UnitRef<'_, Slice<'a>>,
        patience: &mut Patience,
        mut found: impl FnMut(Range),
    ) -> gimli::Result<()> {
        if let Some(ranges) = self.ranges {
            let Some(mut ranges) = unit.attr_ranges(ranges)? else { return Ok(()) };
            while let Some(range) = ranges.next()? {
                if !patience.step() {
                    break;
                }
                found(range);
            }
            return Ok(());
        }
        let (Some(begin), Some(high)) = (self.low, self.high) else { return Ok(()) };
        let end = match unit.attr_address(high)? {
            Some(end) => end,
            None => begin.wrapping_add(high.udata_value().unwrap_or(0)),
        };
        found(Range { begin, end });
        Ok(())
    }
}

fn number(value: Attribute<'_>) -> Option<u64> {
    match value {
        AttributeValue::FileIndex(index) => Some(index),
        _ => value.udata_value(),
    }
}

/// Where answers go.
struct Sink<'s> {
    answers: &'s mut [Answer],
    places: &'s mut Vec<Place>,
    names: &'s mut Names,
}

/// Step 4: names for what was found.
fn write<'a>(
    unit: UnitRef<'_, Slice<'a>>,
    inside: &[usize],
    around: &[Around],
    files: &mut Files<'_, '_>,
    (references, scopes): (&mut References<'_, 'a>, &Scopes<'a>),
    patience: &mut Patience,
    sink: &mut Sink<'_>,
) {
    for (&at, around) in inside.iter().zip(around) {
        if sink.answers[at].count > 0 || !patience.step() {
            continue;
        }
        let first = sink.places.len() as u32;
        let mut here = around.location.map_or_else(Place::default, |(file, line)| Place {
            file: files.name(file, sink.names),
            line,
            ..Place::default()
        });
        if around.calls.is_empty() && around.location.is_some() {
            // Only the line is known: the symbol table has the name.
            sink.places.push(here);
        }
        for call in around.calls.iter().rev() {
            let named = references.describe(unit, call.entry, scopes, sink.names);
            let system = if named.system == Text::default() { named.name } else { named.system };
            here.system = system;
            here.name = sink.names.demangle(system);
            here.start_line = named.line;
            sink.places.push(here);
            let file = files.name(call.file, sink.names);
            here = Place { file, line: call.line, ..Place::default() };
        }
        sink.answers[at] = Answer { first, count: sink.places.len() as u32 - first };
    }
}

/// The paths of a unit's files, each put together once.
struct Files<'u, 'a> {
    unit: UnitRef<'u, Slice<'a>>,
    known: HashMap<u64, Text, RandomState>,
}

impl<'u, 'a> Files<'u, 'a> {
    fn of(unit: UnitRef<'u, Slice<'a>>) -> Self {
        Files { unit, known: HashMap::default() }
    }

    fn name(&mut self, index: u64, names: &mut Names) -> Text {
        if let Some(&known) = self.known.get(&index) {
            return known;
        }
        let path = self.path(index).unwrap_or_default();
        let text = names.keep(&path);
        self.known.insert(index, text);
        text
    }

    fn path(&self, index: u64) -> Option<String> {
        let header = self.unit.line_program.as_ref()?.header();
        let file = header.file(index)?;
        let mut path = String::new();
        if let Some(directory) = self.unit.comp_dir {
            append(&mut path, directory);
        }
        // Number 0 is the unit's own directory, in every version.
        if file.directory_index() != 0
            && let Some(directory) = file.directory(header)
        {
            append(&mut path, self.unit.attr_string(directory).ok()?);
        }
        append(&mut path, self.unit.attr_string(file.path_name()).ok()?);
        Some(path)
    }
}

/// Goes from `path` to `next`, which may be absolute.
fn append(path: &mut String, next: Slice<'_>) {
    let next = String::from_utf8_lossy(next.slice());
    if next.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(&next);
}

/// What an entry says about a function.
#[derive(Clone, Copy, Default)]
struct Named {
    /// As the linker knows it; empty where it is the same as the name.
    system: Text,
    name: Text,
    /// Where it was declared.
    line: u32,
}

/// Which file an entry is in.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Where {
    Here,
    Supplementary,
}

/// Follows references between entries.
struct References<'d, 'a> {
    dwarf: &'d Dwarf<'a>,
    known: HashMap<(Where, usize), Named, RandomState>,
    open: Vec<(Where, Unit<'a>)>,
    /// Where the units begin, in both files.
    begins: [Option<Vec<usize>>; 2],
}

impl<'d, 'a> References<'d, 'a> {
    fn new(dwarf: &'d Dwarf<'a>) -> Self {
        References { dwarf, known: HashMap::default(), open: Vec::new(), begins: [None, None] }
    }

    /// The names of the function at `entry`, or of what it is an instance of.
    fn describe(
        &mut self,
        unit: UnitRef<'_, Slice<'a>>,
        entry: UnitOffset,
        scopes: &Scopes<'a>,
        names: &mut Names,
    ) -> Named {
        let key = entry.to_debug_info_offset(&unit.header).map(|offset| (Where::Here, offset.0));
        if let Some(named) = key.and_then(|key| self.known.get(&key)) {
            return *named;
        }
        let mut named = Named::default();
        let mut next = attributes(unit, entry, &mut named, names);
        let mut place = Where::Here;
        let mut declared = entry;
        // A function's entry refers to its abstract form, that to its declaration: longer chains are loops.
        for _ in 0..8 {
            next = match next {
                Some(AttributeValue::UnitRef(entry)) if place == Where::Here => {
                    declared = entry;
                    attributes(unit, entry, &mut named, names)
                }
                Some(AttributeValue::DebugInfoRef(offset)) => {
                    self.elsewhere(place, offset, &mut named, names)
                }
                Some(AttributeValue::DebugInfoRefSup(offset)) => {
                    place = Where::Supplementary;
                    self.elsewhere(place, offset, &mut named, names)
                }
                _ => break,
            };
        }
        if named.system == Text::default()
            && let Some(name) = scopes.qualify(declared, names.get(named.name))
        {
            named.name = names.keep(&name);
        }
        if let Some(key) = key {
            if self.known.len() >= KNOWN_ENTRIES {
                self.known.clear();
            }
            self.known.insert(key, named);
        }
        named
    }

    /// The same for an entry of any unit. What it returns refers to the whole file.
    fn elsewhere(
        &mut self,
        place: Where,
        offset: DebugInfoOffset,
        named: &mut Named,
        names: &mut Names,
    ) -> Option<Attribute<'a>> {
        let dwarf = match place {
            Where::Here => self.dwarf,
            Where::Supplementary => self.dwarf.sup()?,
        };
        let begins = self.begins[place as usize].get_or_insert_with(|| {
            let mut begins = Vec::new();
            let mut units = dwarf.units();
            while let Ok(Some(header)) = units.next() {
                begins.extend(header.debug_info_offset().map(|offset| offset.0));
            }
            begins
        });
        let begin =
            *begins.get(begins.partition_point(|&begin| begin <= offset.0).checked_sub(1)?)?;
        let is_it = |open: &(Where, Unit<'a>)| {
            open.0 == place && open.1.header.debug_info_offset() == Some(DebugInfoOffset(begin))
        };
        let at = match self.open.iter().position(is_it) {
            Some(at) => at,
            None => {
                let unit = dwarf.unit(dwarf.unit_header(DebugInfoOffset(begin)).ok()?).ok()?;
                if self.open.len() >= OPEN_UNITS {
                    self.open.remove(0);
                }
                self.open.push((place, unit));
                self.open.len() - 1
            }
        };
        let unit = self.open[at].1.unit_ref(dwarf);
        let next = attributes(unit, offset.to_unit_offset(&unit.header)?, named, names)?;
        match next {
            AttributeValue::UnitRef(entry) => {
                entry.to_debug_info_offset(&unit.header).map(AttributeValue::DebugInfoRef)
            }
            _ => Some(next),
        }
    }
}

/// Takes what `entry` says and `named` does not yet; returns where there may be more.
fn attributes<'a>(
    unit: UnitRef<'_, Slice<'a>>,
    entry: UnitOffset,
    named: &mut Named,
    names: &mut Names,
) -> Option<Attribute<'a>> {
    let mut entries = unit.entries_raw(Some(entry)).ok()?;
    let kind = entries.read_abbreviation().ok()??;
    let mut next = None;
    for &attribute in kind.attributes() {
        let attribute = entries.read_attribute(attribute).ok()?;
        let value = attribute.value();
        match attribute.name() {
            gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                if named.system == Text::default()
                    && let Ok(system) = unit.attr_string(value)
                {
                    named.system = names.keep_bytes(system.slice());
                }
            }
            gimli::DW_AT_name => {
                if named.name == Text::default()
                    && let Ok(name) = unit.attr_string(value)
                {
                    named.name = names.keep_bytes(name.slice());
                }
            }
            gimli::DW_AT_decl_line if named.line == 0 => {
                named.line = number(value).and_then(|line| line.try_into().ok()).unwrap_or(0);
            }
            gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => next = Some(value),
            _ => {}
        }
    }
    next
}
