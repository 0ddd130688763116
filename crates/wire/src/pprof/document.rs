//! A profile, checked and indexed, for who asks what stands behind an id.
//!
//! 1. All fields are read once; strings, mappings, locations and functions are kept, of samples only where
//!    they are.
//! 2. Ids are indexed: those up to the number of records directly, others by binary search.
//! 3. All fields are walked through once more, now that everything is known: each string that is named has
//!    to be there, each id has to be known and to be there once, each sample has one value per type.
//!
//! That refuses what Go's reader refuses, and accepts what it accepts: a mapping that is named and not
//! there, empty stacks, repeated strings.

use std::borrow::Cow;

use super::error::{Error, Reason, Table};
use super::reader::{self, Event, Lines, LocationIds, Reader, SampleRead};
use super::record::{
    Function, FunctionId, LabelValue, Location, LocationId, Mapping, MappingId, StringId,
    ValueType, field,
};
use crate::protobuf::{self, Field};

/// What all that is kept of a profile may take together: many times what the largest have, and far from what
/// a small file can ask for that holds nothing but empty records.
const MOST_BYTES: usize = 1 << 30;

/// A profile, lent from its bytes. Whatever it names is there.
#[derive(Clone, Debug)]
pub struct Document<'a> {
    strings: Vec<&'a [u8]>,
    sample_types: Vec<ValueType>,
    samples: Vec<&'a [u8]>,
    mappings: Vec<Mapping>,
    locations: Vec<Location<Lines<'a>>>,
    functions: Vec<Function>,
    facts: Facts,
    mapping_index: Index,
    location_index: Index,
    function_index: Index,
}

/// What a profile says once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The pattern of functions that are dropped from stacks, with all that they call.
    pub drop_frames: StringId,
    /// The pattern of functions that are kept though they match the other.
    pub keep_frames: StringId,
    /// When the profile was taken, in nanoseconds since 1970; 0 for not known.
    pub time_nanos: i64,
    /// How long it took, in nanoseconds; 0 for not known or for a state.
    pub duration_nanos: i64,
    /// What the period counts.
    pub period_type: ValueType,
    /// How much of the period's type lies between two samples.
    pub period: i64,
    /// Texts for people to read.
    pub comments: Vec<StringId>,
    /// The kind of the column that is shown when none is asked for; 0 for the last.
    pub default_sample_type: StringId,
    /// Where this kind of profile is explained.
    pub doc_url: StringId,
}

impl<'a> Document<'a> {
    /// Reads `profile`, which is not compressed. What is kept are some ten to thirty bytes for each byte
    /// of records that are all empty, at most 1 GiB, and a small fraction of a real profile. *Growth.*
    ///
    /// # Errors
    /// Whatever is wrong with it.
    pub fn read(profile: &'a [u8]) -> Result<Self, Error> {
        Document::read_within(profile, MOST_BYTES)
    }

    fn read_within(profile: &'a [u8], most: usize) -> Result<Self, Error> {
        if profile.starts_with(&[0x1f, 0x8b]) {
            return Err(Error::new(0, Reason::Gzip));
        }
        let mut it = Document {
            strings: Vec::new(),
            sample_types: Vec::new(),
            samples: Vec::new(),
            mappings: Vec::new(),
            locations: Vec::new(),
            functions: Vec::new(),
            facts: Facts::default(),
            mapping_index: Index::default(),
            location_index: Index::default(),
            function_index: Index::default(),
        };
        let mut kept = 0;
        for field in protobuf::Reader::new(profile) {
            let field = field?;
            if let Some(event) = Reader::event(&field)? {
                kept += kept_of(&event);
                if kept > most {
                    return Err(Error::new(field.offset, Reason::TooLarge { most }));
                }
                it.take(&field, event)?;
            }
        }
        if it.strings.is_empty() {
            return Err(Error::new(profile.len(), Reason::NoStrings));
        }
        it.mapping_index = Index::new(it.mappings.iter().map(|it| it.id.0));
        it.location_index = Index::new(it.locations.iter().map(|it| it.id.0));
        it.function_index = Index::new(it.functions.iter().map(|it| it.id.0));
        it.check(profile)?;
        Ok(it)
    }

    /// Keeps what it needs later. What is known to be wrong already is not kept until the end.
    fn take(&mut self, field: &Field<'a>, event: Event<'a>) -> Result<(), Error> {
        let facts = &mut self.facts;
        let without_id = |table| Err(Error::new(field.offset, Reason::NoId(table)));
        match event {
            Event::Mapping(it) if it.id.0 == 0 => return without_id(Table::Mapping),
            Event::Location(it) if it.id.0 == 0 => return without_id(Table::Location),
            Event::Function(it) if it.id.0 == 0 => return without_id(Table::Function),
            Event::SampleType(value_type) => self.sample_types.push(value_type),
            Event::Sample(_) => self.samples.push(field.bytes()?),
            Event::Mapping(mapping) => self.mappings.push(mapping),
            Event::Location(location) => self.locations.push(location),
            Event::Function(function) => self.functions.push(function),
            Event::String(string) => {
                if self.strings.is_empty() && !string.is_empty() {
                    return Err(Error::new(field.offset, Reason::FirstString));
                }
                self.strings.push(string);
            }
            Event::DropFrames(pattern) => facts.drop_frames = pattern,
            Event::KeepFrames(pattern) => facts.keep_frames = pattern,
            Event::TimeNanos(_) if facts.time_nanos != 0 => {
                return Err(Error::new(field.offset, Reason::SecondTime));
            }
            Event::TimeNanos(time) => facts.time_nanos = time,
            Event::DurationNanos(duration) => facts.duration_nanos = duration,
            Event::PeriodType(value_type) => facts.period_type = value_type,
            Event::Period(period) => facts.period = period,
            Event::Comments(comments) => facts.comments.extend(comments),
            Event::DefaultSampleType(kind) => facts.default_sample_type = kind,
            Event::DocUrl(url) => facts.doc_url = url,
        }
        Ok(())
    }

    /// Looks whether everything that is named is there.
    fn check(&self, profile: &'a [u8]) -> Result<(), Error> {
        let (mut mappings, mut locations, mut functions) = (0, 0, 0);
        for item in protobuf::Reader::new(profile) {
            let message = item?;
            let at = |reason| Error::new(message.offset, reason);
            match message.number {
                field::profile::SAMPLE => self.check_sample(message.bytes()?).map_err(at)?,
                field::profile::MAPPING => {
                    let it = reader::mapping(&message)?;
                    self.mapping_index.check(Table::Mapping, it.id.0, mappings).map_err(at)?;
                    mappings += 1;
                    self.known([it.filename, it.build_id]).map_err(at)?;
                }
                field::profile::LOCATION => {
                    let it = reader::location(&message)?;
                    self.location_index.check(Table::Location, it.id.0, locations).map_err(at)?;
                    locations += 1;
                    for line in it.lines {
                        self.function_index
                            .get(line.function.0)
                            .ok_or(Reason::UnknownId(Table::Function, line.function.0))
                            .map_err(at)?;
                    }
                }
                field::profile::FUNCTION => {
                    let it = reader::function(&message)?;
                    self.function_index.check(Table::Function, it.id.0, functions).map_err(at)?;
                    functions += 1;
                    self.known([it.name, it.system_name, it.filename]).map_err(at)?;
                }
                _ => {}
            }
        }
        self.check_facts().map_err(|reason| Error::new(profile.len(), reason))
    }

    fn check_sample(&self, message: &[u8]) -> Result<(), Reason> {
        let SampleRead { mut locations, values, mut labels } = reader::sample(message);
        let (values, types) = (values.count(), self.sample_types.len());
        if values != types || types == 0 {
            return Err(Reason::ValueCount { values, types });
        }
        if let Some(id) = locations.find(|id| self.location_index.get(id.0).is_none()) {
            return Err(Reason::UnknownId(Table::Location, id.0));
        }
        labels.try_for_each(|label| {
            let (LabelValue::Text(value) | LabelValue::Number { unit: value, .. }) = label.value;
            self.known([label.key, value])
        })
    }

    /// Strings that are named by fields of the profile itself: where they are named does not matter enough
    /// to keep it.
    fn check_facts(&self) -> Result<(), Reason> {
        let facts = &self.facts;
        let types = self.sample_types.iter().chain([&facts.period_type]);
        types.clone().try_for_each(|it| self.known([it.kind, it.unit]))?;
        self.known(facts.comments.iter().copied())?;
        let others = [facts.default_sample_type, facts.doc_url];
        self.known([facts.drop_frames, facts.keep_frames].into_iter().chain(others))
    }

    fn known(&self, ids: impl IntoIterator<Item = StringId>) -> Result<(), Reason> {
        let strings = self.strings.len();
        match ids.into_iter().find(|id| id.0 as usize >= strings) {
            Some(StringId(index)) => Err(Reason::UnknownString { index, strings }),
            None => Ok(()),
        }
    }

    /// The columns of values.
    pub fn sample_types(&self) -> &[ValueType] {
        &self.sample_types
    }

    /// The column to show when none is asked for: the one that the profile prefers, else the last.
    pub fn default_column(&self) -> usize {
        let preferred = self.string(self.facts.default_sample_type);
        let found = self.sample_types.iter().position(|it| self.string(it.kind) == preferred);
        let last = self.sample_types.len().saturating_sub(1);
        found.filter(|_| !preferred.is_empty()).unwrap_or(last)
    }

    /// The samples. *Steady.*
    pub fn samples(&self) -> Samples<'_, 'a> {
        Samples(self.samples.iter())
    }

    /// The mappings.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// The locations.
    pub fn locations(&self) -> &[Location<Lines<'a>>] {
        &self.locations
    }

    /// The functions.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The strings, the empty one first.
    pub fn strings(&self) -> &[&'a [u8]] {
        &self.strings
    }

    /// What the profile says once.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The string; empty for one that is of another profile and not in this one.
    pub fn string(&self, id: StringId) -> &'a [u8] {
        self.strings.get(id.0 as usize).copied().unwrap_or_default()
    }

    /// The string as text: bytes that are none are replaced by U+FFFD, which allocates.
    pub fn text(&self, id: StringId) -> Cow<'a, str> {
        String::from_utf8_lossy(self.string(id))
    }

    /// The mapping of this id.
    pub fn mapping(&self, id: MappingId) -> Option<&Mapping> {
        self.mappings.get(self.mapping_index.get(id.0)?)
    }

    /// The location of this id.
    pub fn location(&self, id: LocationId) -> Option<&Location<Lines<'a>>> {
        self.locations.get(self.location_index.get(id.0)?)
    }

    /// The function of this id.
    pub fn function(&self, id: FunctionId) -> Option<&Function> {
        self.functions.get(self.function_index.get(id.0)?)
    }

    /// A stack's calls, innermost first, inlined ones too; a location without functions is one. *Steady.*
    pub fn frames(&self, locations: LocationIds<'a>) -> Frames<'_, 'a> {
        Frames { document: self, locations, location: None }
    }
}

/// The bytes that are kept of what was read; those of records with an id are indexed as well.
fn kept_of(event: &Event<'_>) -> usize {
    const INDEXED: usize = size_of::<(u64, u32)>() + size_of::<u32>();
    match event {
        Event::SampleType(_) => size_of::<ValueType>(),
        Event::Sample(_) | Event::String(_) => size_of::<&[u8]>(),
        Event::Mapping(_) => size_of::<Mapping>() + INDEXED,
        Event::Location(_) => size_of::<Location<Lines<'_>>>() + INDEXED,
        Event::Function(_) => size_of::<Function>() + INDEXED,
        Event::Comments(comments) => comments.clone().count() * size_of::<StringId>(),
        _ => 0,
    }
}

/// A call of a stack.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'d, 'a> {
    /// The address.
    pub location: &'d Location<Lines<'a>>,
    /// The file it lies in.
    pub mapping: Option<&'d Mapping>,
    /// The function; none where there are no symbols.
    pub function: Option<&'d Function>,
    /// The line in the function's file; 0 for not known.
    pub line: i64,
    /// The function was inlined into the one of the next frame.
    pub is_inlined: bool,
}

/// See [`Document::frames`].
#[derive(Clone, Debug)]
pub struct Frames<'d, 'a> {
    document: &'d Document<'a>,
    locations: LocationIds<'a>,
    /// What is left of the location whose lines are being given.
    location: Option<(&'d Location<Lines<'a>>, Lines<'a>)>,
}

impl<'d, 'a> Iterator for Frames<'d, 'a> {
    type Item = Frame<'d, 'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let (location, mut lines) = match self.location.take() {
            Some(rest) => rest,
            None => {
                let location = self.document.location(self.locations.next()?)?;
                (location, location.lines.clone())
            }
        };
        let line = lines.next();
        let is_inlined = lines.clone().next().is_some();
        if is_inlined {
            self.location = Some((location, lines));
        }
        Some(Frame {
            location,
            mapping: self.document.mapping(location.mapping),
            function: line.and_then(|line| self.document.function(line.function)),
            line: line.map_or(0, |line| line.line),
            is_inlined,
        })
    }
}

/// See [`Document::samples`].
#[derive(Clone, Debug)]
pub struct Samples<'d, 'a>(std::slice::Iter<'d, &'a [u8]>);

impl<'a> Iterator for Samples<'_, 'a> {
    type Item = SampleRead<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|message| reader::sample(message))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Samples<'_, '_> {}

/// Where the record of an id is.
#[derive(Clone, Debug, Default)]
struct Index {
    /// By id, for ids up to the number of records: the place and 1, or 0.
    dense: Vec<u32>,
    /// The others, in order of id and place.
    sparse: Vec<(u64, u32)>,
}

impl Index {
    fn new(ids: impl ExactSizeIterator<Item = u64>) -> Self {
        let mut it = Index { dense: vec![0; ids.len() + 1], sparse: Vec::new() };
        // A record takes at least two bytes of input, and 2^33 of them are not held in memory.
        for (id, place) in ids.zip(0u32..) {
            match usize::try_from(id).ok().and_then(|id| it.dense.get_mut(id)) {
                // The first of those with the same id.
                Some(slot) if *slot == 0 => *slot = place + 1,
                Some(_) => {}
                None => it.sparse.push((id, place)),
            }
        }
        it.sparse.sort_unstable();
        it
    }

    #[inline]
    fn get(&self, id: u64) -> Option<usize> {
        let place = match usize::try_from(id).ok().and_then(|id| self.dense.get(id)) {
            Some(&slot) => slot.checked_sub(1)?,
            None => {
                let at = self.sparse.partition_point(|&(other, _)| other < id);
                self.sparse.get(at).filter(|&&(other, _)| other == id)?.1
            }
        };
        // No record has the id 0.
        (id != 0).then_some(place as usize)
    }

    /// Whether the record at `place` may have its id.
    fn check(&self, table: Table, id: u64, place: usize) -> Result<(), Reason> {
        match self.get(id) {
            Some(first) if first != place => Err(Reason::SameId(table, id)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of the fewest bytes, and how many of them 64 KiB hold.
    #[test]
    fn many_small_records_are_refused_before_they_are_kept() {
        let most = 64 << 10;
        let string = size_of::<&[u8]>();
        let location = size_of::<Location<Lines<'_>>>() + size_of::<(u64, u32)>() + 4;
        for (record, size) in [
            (&[0x32, 0][..], string),
            (&[0x12, 0], string),
            (&[0x0a, 0], size_of::<ValueType>()),
            (&[0x22, 2, 0x08, 1], location),
            (&[0x6a, 4, 0, 0, 0, 0], 4 * size_of::<StringId>()),
        ] {
            let fit = most / size;
            let error = Document::read_within(&record.repeat(fit + 1), most).unwrap_err();
            assert_eq!(error.reason, Reason::TooLarge { most }, "{record:?}");
            assert_eq!(error.offset, fit * record.len() + 2, "{record:?}");
            let other = Document::read_within(&record.repeat(fit), most).map(drop);
            assert_ne!(other.map_err(|it| it.reason), Err(Reason::TooLarge { most }));
        }
    }

    #[test]
    fn the_first_record_without_an_id_is_the_last_that_is_read() {
        for (tag, table) in
            [(0x1a, Table::Mapping), (0x22, Table::Location), (0x2a, Table::Function)]
        {
            // What follows is damaged, and is not looked at.
            let error = Document::read(&[tag, 0, 0xff]).unwrap_err();
            assert_eq!(error, Error::new(2, Reason::NoId(table)));
        }
    }
}
